"""Other sizes: what changes together, what stays, and that every point propagates and runs."""

import pytest
import torch

from curate.families import shapes_of
from curate.resize import Point, points, resize, symbols, written_sizes
from passbench.inputs import materialize
from schemas.fx import lower
from tests.curate.pieces import graph_of

pytestmark = pytest.mark.torch


def heads(x, y):
    return x.view(1, 128, 12, 64).transpose(1, 2) * y


def square(x, mask):
    return (x + mask).softmax(-1)


def residual(x, y):
    return torch.nn.functional.layer_norm(x + y, (32,))


def shapes(graph):
    return [shapes_of(found) for point in points(graph) if (found := resize(graph, point))]


def test_a_written_size_changes_with_the_dimension_it_names():
    graph = graph_of(heads, torch.zeros(1, 128, 768), torch.zeros(1, 12, 128, 64))
    length = next(found for found in symbols(graph) if found[1] == 128)
    call = next(index for index, node in graph.calls() if written_sizes(node) == [1, 128, 12, 64])
    assert length == ("length", 128, frozenset({(0, 1), (1, 2), (call, 1)}))
    other = resize(graph, Point(symbol="length", old=128, new=256, places=length[2]))
    assert other is not None and shapes_of(other) == "1x256x768, 1x12x256x64"
    assert [tuple(out.shape) for out in lower(other)(*materialize(other, seed=1))] == [(1, 12, 256, 64)]


def test_a_batch_changes_in_all_inputs_and_in_what_is_written():
    graph = graph_of(heads, torch.zeros(1, 128, 768), torch.zeros(1, 12, 128, 64))
    assert shapes(graph)[0] == "4x128x768, 4x12x128x64"


def test_square_scores_with_a_square_mask_stay_square():
    graph = graph_of(square, torch.zeros(1, 4, 16, 16), torch.zeros(16, 16))
    sizes = {"4x4x16x16, 16x16", "16x4x16x16, 16x16", "1x4x32x32, 32x32", "1x4x8x8, 8x8", "1x4x64x64, 64x64"}
    assert set(shapes(graph)) == sizes


def test_a_normalised_width_keeps_to_its_written_size():
    graph = graph_of(residual, torch.zeros(2, 10, 32), torch.zeros(2, 10, 32))
    assert "2x20x32, 2x20x32" in shapes(graph) and "2x10x64, 2x10x64" in shapes(graph)
    assert not any("x32, 2x10x64" in found for found in shapes(graph))


def test_every_point_runs_and_keeps_the_layout():
    strided = torch.zeros(1, 16, 8, 3).permute(0, 3, 1, 2)
    graph = graph_of(lambda x: torch.relu(x) * 2.0, strided)
    found = [resize(graph, point) for point in points(graph)]
    assert found and all(found)
    for other in found:
        (value,) = materialize(other, seed=1)
        assert value.stride()[1] == 1, "the channels stay innermost"
        lower(other)(value)


def test_values_written_down_keep_their_size():
    graph = graph_of(
        lambda x: torch.relu(x) * 2.0, torch.zeros(8), inits=('{"kind":"literal","data":[1,2,3,4,5,6,7,8]}',)
    )
    assert shapes(graph) == []


def test_a_row_cut_out_of_a_larger_tensor_keeps_its_sizes():
    assert shapes(graph_of(lambda x: torch.relu(x) * 2.0, torch.zeros(4, 4, 16)[:1, 0])) == []
