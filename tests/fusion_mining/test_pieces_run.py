"""On real captured graphs: canonical graphs, functional graphs and pieces compute what their parents compute."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from fusion_mining.blocks import BlocksConfig, blocks
from fusion_mining.cut import cut, inputs_of
from fusion_mining.grow import GrowConfig, grow
from fusion_mining.pieces import compute_ops
from fusion_mining.profile import ProfileConfig, profile
from fusion_mining.regions import regions
from fusion_mining.sole import sole_ops
from passbench.inputs import materialize
from schemas.canonical import canonicalize
from schemas.functional import functionalise
from schemas.fx import lift, lower
from schemas.graph import Graph, check
from schemas.propagation import propagate
from schemas.rows import Environment, Failure, FailureKind, Pick, Profile, ProfileStatus

pytestmark = pytest.mark.torch


class Block(torch.nn.Module):
    """Attention by hand, rotation by halves, a gate that is split, and in-place calls."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(16, 48)
        self.norm = torch.nn.LayerNorm(16)
        self.up = torch.nn.Linear(16, 64)
        self.down = torch.nn.Linear(32, 16)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q = torch.cat((-q[..., 8:], q[..., :8]), dim=-1) * 0.5 + q
        scores = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / 4.0 + mask, dim=-1)
        x = x + torch.matmul(scores, v)
        a, b = self.up(x).chunk(2, dim=-1)
        y = self.down(torch.nn.functional.silu(a, inplace=False) * b)
        y += x
        y = torch.nn.functional.relu(y, inplace=True)
        return y, scores.mean()


class Writes(torch.nn.Module):
    """Reads before and after writes, through views."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        base = x * 2
        view = base.view(-1)
        before = view + 1
        base.add_(y)
        middle = view * 3
        view[0] = 7.0
        after = base.exp()
        return after, before, middle, torch.relu(y).sigmoid()


def captured(module: torch.nn.Module, *inputs: torch.Tensor) -> Graph:
    found: list[torch.fx.GraphModule] = []

    def backend(gm: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        found.append(gm)
        return gm.forward

    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(module.eval(), backend=backend, dynamic=False)(*inputs)
    (gm,) = found
    names = [node.name for node in gm.graph.nodes if node.op == "placeholder"]
    return lift(gm, roles={name: "parameter" for name in names if "parameters" in name})


@pytest.fixture(scope="module")
def block() -> Graph:
    return captured(Block(), torch.randn(2, 6, 16), torch.zeros(6, 6))


@pytest.fixture(scope="module")
def writes() -> Graph:
    return captured(Writes(), torch.randn(3, 4), torch.randn(3, 4))


def same(left: Any, right: Any) -> bool:
    pairs = list(zip(left, right, strict=True))
    return all(torch.equal(a, b) for a, b in pairs)


def fresh(values: list[Any]) -> list[Any]:
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


@pytest.mark.parametrize("name", ["block", "writes"])
def test_the_canonical_graph_computes_the_same(name: str, request: pytest.FixtureRequest):
    graph: Graph = request.getfixturevalue(name)
    inputs = materialize(graph, seed=3)
    form = canonicalize(graph)
    check(form.graph)
    position = {index: k for k, index in enumerate(graph.placeholders)}
    permuted = [inputs[position[old]] for old in form.order if old in position]
    assert same(lower(form.graph)(*fresh(permuted)), lower(graph)(*fresh(inputs)))
    assert canonicalize(lift(lower(form.graph))).keys == form.keys


@pytest.mark.parametrize("name", ["block", "writes"])
def test_the_functional_graph_computes_the_same(name: str, request: pytest.FixtureRequest):
    graph: Graph = request.getfixturevalue(name)
    inputs = materialize(graph, seed=4)
    assert same(lower(functionalise(graph))(*fresh(inputs)), lower(graph)(*fresh(inputs)))


def test_only_unobservable_writes_of_the_block_became_functional(block: Graph, writes: Graph):
    assert [node.target for _, node in functionalise(block).calls()].count("operator.iadd") == 0
    assert "add_" in [node.target for _, node in functionalise(writes).calls()]


class Recorder(torch.fx.Interpreter):
    """Keeps every node's value, in order."""

    def __init__(self, gm: torch.fx.GraphModule) -> None:
        super().__init__(gm)
        self.values: list[Any] = []

    def run_node(self, n: torch.fx.Node) -> Any:
        value = super().run_node(n)
        self.values.append(value.clone() if isinstance(value, torch.Tensor) else value)
        return value


@pytest.mark.parametrize("name", ["block", "writes"])
def test_every_piece_computes_the_parents_values(name: str, request: pytest.FixtureRequest):
    graph = functionalise(canonicalize(request.getfixturevalue(name)).graph)
    recorder = Recorder(lower(graph))
    with torch.no_grad():
        recorder.run(*materialize(graph, seed=5))
    config = GrowConfig()
    sets = [*grow(graph, config).sets, *regions(graph, config)]
    assert len(sets) >= (8 if name == "block" else 1)
    single = sole_ops(graph)
    assert len(single) >= (14 if name == "block" else 2)
    for nodes in [*sets, *single]:
        assert_computes_the_same(graph, nodes, recorder.values)


def assert_computes_the_same(graph: Graph, nodes: Sequence[int], values: list[Any]) -> None:
    """A piece, given the parent's own values, yields the parent's own values, in the recorded specs."""
    piece = cut(graph, nodes)
    inputs = [values[k] for k in inputs_of(graph, nodes)]
    outputs = [values[nodes[k - len(piece.nodes) + len(nodes) + 1]] for k in piece.nodes[-1].inputs]
    with torch.no_grad():
        assert same(lower(piece)(*fresh(inputs)), outputs)
    for node, specs in zip(piece.nodes, propagate(piece), strict=True):
        if node.is_call:
            assert [(s.dtype, s.shape) for s in specs] == [(s.dtype, s.shape) for s in node.outputs]


# --- golden: blocks of real architectures ---------------------------------------------------------------------------
LAYER = "linear linear linear scaled_dot_product_attention linear add layer_norm linear gelu linear add layer_norm"
SMALL = '{"kind":"uniform","low":0.001,"high":0.02}'
INDICES = '{"kind":"integers","low":0,"high":2}'
BOTTLENECK = "conv2d batch_norm relu conv2d batch_norm relu conv2d batch_norm add relu"


def bert() -> Graph:
    """Twelve encoder layers, narrow."""
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(hidden_size=16, num_attention_heads=2, intermediate_size=32, vocab_size=50)
    ids = torch.arange(16).reshape(2, 8)
    mask = torch.ones(2, 8, dtype=torch.long)
    mask[1, 5:] = 0
    return captured(transformers.BertModel(config), ids, mask)


def resnet50() -> Graph:
    """Stages of 3, 4, 6 and 3 bottlenecks, the first of each with a shortcut of its own."""
    timm = pytest.importorskip("timm")
    return captured(timm.create_model("resnet50"), torch.randn(1, 3, 32, 32))


@pytest.mark.parametrize(
    ("build", "ops", "repeats"), [(bert, LAYER, [12]), (resnet50, BOTTLENECK, [2, 2, 3, 5])], ids=["bert", "resnet50"]
)
def test_blocks_of_real_models(build: Callable[[], Graph], ops: str, repeats: list[int]):
    graph = functionalise(canonicalize(build()).graph)
    first, *others = blocks(graph, BlocksConfig())
    assert len(others) == (0 if build is bert else 1)
    keys = Counter(canonicalize(cut(graph, nodes), free_outputs=True).keys.exact for nodes in first)
    assert sorted(keys.values()) == repeats
    specs = [graph.nodes[index].outputs[0] for index in graph.placeholders]
    graph = replace(graph, inits=tuple(SMALL if spec.dtype == "float32" else INDICES for spec in specs))
    recorder = Recorder(lower(graph))
    with torch.no_grad():
        recorder.run(*materialize(graph, seed=6))
    for nodes in first:
        assert " ".join(compute_ops(cut(graph, nodes))) == ops
        assert_computes_the_same(graph, nodes, recorder.values)


def picked(graph: Graph) -> Pick:
    return Pick(subgraph="0" * 32, rank=0, pattern="test", graph=graph)


def test_a_piece_is_profiled_correctness_first(block: Graph):
    graph = functionalise(canonicalize(block).graph)
    nodes = min(regions(graph, GrowConfig()), key=len)
    config = ProfileConfig(pairs=5, inner_us=200.0, max_seconds=0.2)
    threads = torch.get_num_threads()
    place, row = profile(picked(cut(graph, nodes)), config)
    assert torch.get_num_threads() == threads
    assert isinstance(place, Environment)
    assert isinstance(row, Profile)
    assert (row.status, row.recompiles) == (ProfileStatus.MEASURED, 0)
    assert row.pairs in (5, 10), "an ambiguous round is repeated once"
    assert place.threads == 1
    assert row.environment == place.environment
    assert row.eager_us > 0
    assert row.compile_s > 0
    assert row.ci_low <= row.speedup <= row.ci_high


def test_a_piece_that_does_not_run_is_a_failure(writes: Graph):
    nodes = [replace(node, target="relux") if node.target == "exp" else node for node in writes.nodes]
    (row,) = profile(picked(replace(writes, nodes=tuple(nodes))), ProfileConfig())
    assert isinstance(row, Failure)
    assert row.kind is FailureKind.RUNTIME_ERROR
