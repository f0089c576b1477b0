"""What lets a graph in: identity after rebuilding, honest memory, equal bits; and what keeps one out."""

from dataclasses import replace

import pytest
import torch
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from extract.admission import check_rebuilt, estimate_bytes
from extract.draws import PERIOD, Draws, stretch
from extract.failures import NumericError, RoundtripError
from extract.numeric import Comparison, Lifted, Memory, compare, first_unequal
from schemas.fx import lift, lower
from schemas.graph import Graph, TensorSpec
from schemas.rows import NumericCheck

pytestmark = pytest.mark.torch
MIB = 1 << 20


def graph_of(function, *shapes: tuple[int, ...]) -> Graph:
    """A graph of a function on float32 tensors, with the specs fake tensors give."""
    gm = torch.fx.symbolic_trace(function)
    FakeTensorProp(gm).propagate(*[torch.empty(shape) for shape in shapes])
    return lift(gm)


def compared(module, graph: Graph, needed: int = 0, limit: int = MIB) -> Comparison:
    return compare(Lifted(module=module, graph=graph), Memory(needed=needed, limit=limit))


def drawn(graph: Graph, seed: int) -> list[torch.Tensor]:
    return Draws(graph, seed).all()


def chain(x, w):
    return torch.relu(x @ w).add_(1.0).sum()


@pytest.mark.parametrize(
    "function", [chain, lambda x, w: x.add_(w).sum(), lambda x, w: x.detach()[1:].add_(1.0).sum() + (x @ w)]
)
def test_both_runs_see_the_same_inputs_even_if_the_first_writes_into_them(function):
    graph = graph_of(function, (4, 4), (4, 4))
    assert compared(lower(graph), graph, needed=1, limit=10).numeric is NumericCheck.EQUAL


def test_an_honest_graph_gets_in():
    graph = graph_of(chain, (8, 16), (16, 4))
    specs = check_rebuilt(graph)
    found = compared(lower(graph), graph, needed=estimate_bytes(graph, specs))
    assert found.numeric is NumericCheck.EQUAL


def test_wrong_recorded_shapes_are_found():
    graph = graph_of(chain, (8, 16), (16, 4))
    nodes = list(graph.nodes)
    spec = nodes[2].outputs[0]
    nodes[2] = replace(nodes[2], outputs=(replace(spec, shape=(8, 5)),))
    with pytest.raises(RoundtripError, match=r"node 2 .*recorded float32\[8, 5\], rebuilt float32\[8, 4\]"):
        check_rebuilt(replace(graph, nodes=tuple(nodes)))


def test_a_graph_that_computes_something_else_is_found():
    graph = graph_of(chain, (8, 16), (16, 4))
    other = graph_of(lambda x, w: torch.relu(x @ w).add_(1.001).sum(), (8, 16), (16, 4))
    with pytest.raises(NumericError, match="output 0"):
        compared(lower(other), graph)


def two_layers(function) -> Graph:
    gm = torch.fx.symbolic_trace(function)
    FakeTensorProp(gm).propagate(*[torch.empty(shape) for shape in ((2, 512), (512, 512), (512, 512))])
    normal = '{"kind":"normal","mean":{"float":"1.0"},"std":{"float":"0.25"}}'
    return lift(gm, roles={"x": "input", "v": "parameter", "w": "parameter"}, inits=dict.fromkeys("xvw", normal))


def test_large_parameters_are_normal_and_no_two_rows_of_any_are_equal():
    x, v, w = drawn(two_layers(lambda x, v, w: x @ v @ w), 0)
    again = drawn(two_layers(lambda x, v, w: x @ v @ w), 0)
    assert all(torch.equal(left, right) for left, right in zip((x, v, w), again, strict=True))
    assert not torch.equal(drawn(two_layers(lambda x, v, w: x @ v @ w), 1)[1], v)
    assert v.mean().item() == pytest.approx(1.0, abs=0.01) and w.std().item() == pytest.approx(0.25, abs=0.01)
    assert len({tuple(row.tolist()) for row in torch.cat([v, w])}) == 1024


def test_a_stretch_goes_on_where_the_line_ends():
    line = torch.arange(PERIOD).float()
    for count, start in ((5, 0), (PERIOD, 1), (2 * PERIOD + 9, PERIOD - 2), (PERIOD // 2, PERIOD // 2 + 1)):
        spec = TensorSpec(dtype="float32", shape=(count,), stride=(1,), device="cpu")
        assert torch.equal(stretch(line, spec, start), ((torch.arange(count) + start) % PERIOD).float())


@pytest.mark.parametrize(
    "other", [lambda x, v, w: x @ w @ v, lambda x, v, w: x @ v.flip(0) @ w, lambda x, v, w: x @ v.transpose(0, 1) @ w]
)
def test_a_graph_that_mixes_up_large_parameters_is_found(other):
    graph = two_layers(lambda x, v, w: x @ v @ w)
    with pytest.raises(NumericError, match="output 0"):
        compared(lower(two_layers(other)), graph, limit=64 * MIB)


def test_a_traced_graph_that_does_not_run_says_so():
    graph = graph_of(lambda x: torch.relu(x), (4,))
    broken = torch.fx.symbolic_trace(lambda x: torch.linalg.cholesky(x))
    found = compared(broken, graph)
    assert found.numeric is NumericCheck.NOT_RUNNABLE and found.detail


def test_estimate_counts_inputs_and_the_largest_live_set():
    def three(x):
        a = x + 1
        b = a * 2
        return (b - a).view(-1).sum()

    graph = graph_of(three, (256, 1024))
    counted = estimate_bytes(graph, check_rebuilt(graph)) / MIB
    assert 4.0 <= counted <= 4.0 * 1.3, "input, a, b and b - a are alive together"


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (torch.tensor([1.0, float("nan")]), torch.tensor([1.0, float("nan")]), True),
        (torch.tensor([0.0]), torch.tensor([-0.0]), False),
        (torch.tensor([float("nan")]), torch.tensor([torch.finfo(torch.float32).max]), False),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64), False),
        (torch.tensor([1 + 2j]), torch.tensor([1 + 2j]), True),
        (torch.tensor(True), torch.tensor(True), True),
        (torch.zeros(2, 3), torch.zeros(3, 2), False),
        (torch.arange(6).reshape(2, 3).T, torch.arange(6).reshape(2, 3).T.contiguous(), True),
        (3, 3, True),
        (3, None, False),
    ],
)
def test_equality_is_by_bits(left, right, equal):
    assert (first_unequal([left], [right]) == "") is equal


def test_lost_outputs_are_found():
    assert first_unequal([1, 2], [1]) == "2 outputs became 1"
