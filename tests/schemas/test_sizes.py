"""Sizes of inputs changed: the layout they keep, and where there is none to keep."""

from itertools import permutations

import pytest
import torch

from schemas.graph import TensorSpec
from schemas.sizes import resized, strides
from tests.curate.pieces import graph_of

pytestmark = pytest.mark.torch


def spec_of(tensor):
    return TensorSpec(dtype="float32", shape=tuple(tensor.shape), stride=tensor.stride(), device="cpu")


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_permuted_tensor_gets_the_strides_that_torch_gives_it(order):
    small, large = (torch.empty(sizes).permute(order) for sizes in ((2, 3, 5), (4, 3, 7)))
    assert strides(spec_of(small), large.shape) == large.stride()


def test_an_expanded_dimension_stays_expanded_and_a_gap_has_no_layout():
    assert strides(spec_of(torch.empty(1, 5).expand(3, 5)), (6, 10)) == (0, 1)
    assert strides(spec_of(torch.empty(4, 8)[:, :5]), (4, 10)) is None
    assert strides(spec_of(torch.empty(4, 8)[:1]), (2, 8)) == (8, 1)
    assert strides(spec_of(torch.empty(4, 8)[:1, :5]), (2, 5)) == (5, 1)


def test_other_inputs_and_everything_behind_them_follow_or_the_graph_refuses():
    graph = graph_of(lambda x, y: torch.relu(x + y), torch.zeros(2, 6), torch.zeros(6))
    found = resized(graph, {0: (3, 6)})
    assert found is not None and found.nodes[-2].outputs[0].shape == (3, 6) and graph.nodes[-2].outputs[0].shape[0] == 2
    assert resized(graph, {0: (3, 7)}) is None
