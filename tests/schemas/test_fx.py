"""torch.fx <-> IR: exact round trips, hard values and names, refusals, and source that computes the same."""

import math
import operator
from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
import torch.nn.attention

from schemas import targets
from schemas.fx import NotRepresentable, lift, lower, spec_of
from schemas.graph import Graph, check
from schemas.propagation import propagate, respecify
from schemas.source import source_of

pytestmark = pytest.mark.torch


class Pair(NamedTuple):
    a: int
    b: int


def hand_made(build, *examples) -> torch.fx.GraphModule:
    """A GraphModule of one expression: `build(graph, *placeholder nodes)` returns the result node."""
    graph = torch.fx.Graph()
    nodes = []
    for number, example in enumerate(examples):
        node = graph.placeholder(f"x{number}")
        node.meta["val"] = example
        nodes.append(node)
    graph.output((build(graph, *nodes),))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def dynamo(function, *examples) -> torch.fx.GraphModule:
    found = []
    torch._dynamo.reset()
    torch.compile(function, backend=lambda gm, inputs: found.append(gm) or gm.forward, dynamic=False)(*examples)
    assert len(found) == 1
    return found[0]


def same(a, b) -> bool:
    return all(torch.equal(torch.nan_to_num(x), torch.nan_to_num(y)) for x, y in zip(a, b, strict=True))


def survives(gm: torch.fx.GraphModule) -> Graph:
    graph = lift(gm)
    check(graph)
    assert lift(lower(graph)) == graph
    assert Graph.from_json(graph.to_json()) == graph
    compile(source_of(graph), "source", "exec")
    return graph


def run_source(graph: Graph, *inputs):
    space: dict[str, object] = {}
    exec(source_of(graph), space)
    return space["GraphModule"]()(*inputs)


VALUES = [
    1, True, 1.0, 0.0, -0.0, float("inf"), float("-inf"), 1e-45, 2**70, None, "text", "quo\"te'\n", ..., slice(None),
    slice(1, None, 2), (1, (2.5, [3, (4,)])), (), [], torch.float16, torch.device("cpu"), torch.device("cuda", 1),
    torch.contiguous_format, torch.strided, {"a": 1, "b": (None,)}, 1 + 2j, complex("nan"), range(3),
    math.pi, torch.ops.aten.add.Tensor,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_constant_arguments_come_back_as_they_were(value):
    gm = hand_made(lambda g, x: g.call_function(operator.add, (x, value)), torch.ones(2))
    graph = survives(gm)
    again = next(n for n in lower(graph).graph.nodes if n.op == "call_function").args[1]
    assert type(again) in (type(value), torch.fx.immutable_collections.immutable_list,
                           torch.fx.immutable_collections.immutable_dict)  # fmt: skip
    assert repr(again) == repr(value)


def test_nan_and_the_types_of_equal_numbers_stay_apart():
    texts = [
        lift(hand_made(lambda g, x, v=v: g.call_function(operator.add, (x, v)), torch.ones(2))).nodes[1].attrs
        for v in (1, True, 1.0, 0.0, -0.0, float("nan"))
    ]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("function", [operator.iadd, operator.add, operator.imul, operator.setitem, operator.getitem])
def test_operators_keep_their_identity(function):
    args = (0, 1.0) if function is operator.setitem else (0,) if function is operator.getitem else (1.0,)
    gm = hand_made(lambda g, x: g.call_function(function, (x, *args)), torch.ones(2))
    graph = survives(gm)
    assert graph.nodes[1].target == f"operator.{function.__name__}"
    assert next(n for n in lower(graph).graph.nodes if n.op == "call_function").target is function


@pytest.mark.parametrize("name", ["nan", "inf", "self", "from", "class", "torch", "device", "max", "float", "operator"])
def test_names_that_shadow_are_made_safe(name: str):
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.ones(2)
    x.meta["passnet_name"] = name
    graph.output((graph.call_function(torch.mul, (x, float("inf"))),))
    found = survives(torch.fx.GraphModule(torch.nn.Module(), graph))
    ones = torch.ones(2)
    assert same(run_source(found, ones), (ones * float("inf"),))


@pytest.mark.parametrize("name", ["x_00", "x_01", "x_1_2", "add", "_", "__x"])
def test_names_that_fx_would_renumber_survive(name: str):
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.ones(2)
    x.meta["passnet_name"] = name
    graph.output((graph.call_function(torch.neg, (x,)),))
    found = survives(torch.fx.GraphModule(torch.nn.Module(), graph))
    assert found.nodes[0].name == name
    assert same(lower(found)(torch.ones(2)), (-torch.ones(2),))


def block(x, w):
    y = torch.nn.functional.layer_norm(x, (4,), w, None, 1e-5)
    y += x
    y[..., 0] = 2.0
    a, b = torch.chunk(y.view(1, -1), 2, dim=-1)
    return torch.where(a > 0, a, -b).softmax(-1).to(torch.float64), (a @ b.T).sum(dim=(0, 1), keepdim=True)


def test_a_real_dynamo_graph_round_trips_and_computes_the_same():
    x, w = torch.randn(3, 4), torch.randn(4)
    gm = dynamo(block, x, w)
    graph = survives(gm)
    expected = gm(x.clone(), w)
    assert same(lower(graph)(x.clone(), w), expected)
    assert same(run_source(graph, x.clone(), w), expected)
    recorded = [[(s.dtype, s.shape) for s in n.outputs] for n in graph.nodes if n.outputs]
    found = [[(s.dtype, s.shape) for s in specs] for specs in propagate(graph) if specs]
    assert recorded == found


def test_symint_inputs_are_scalars():
    found = []
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, n: x * n, backend=lambda gm, i: found.append(gm) or gm.forward, dynamic=True)
    compiled(torch.ones(5), 7)
    graph = survives(found[0])
    scalars = [graph.nodes[i] for i in graph.placeholders if graph.nodes[i].target == "scalar"]
    assert scalars and all(node.outputs[0].dtype == "SymInt" for node in scalars)


def test_nested_graphs_and_constants_are_kept_by_value():
    def choose(flag, x):
        return torch.cond(flag, lambda v: v + 1, lambda v: v * 2, (x,))

    gm = dynamo(choose, torch.tensor(True), torch.ones(3))
    graph = survives(gm)
    assert len(graph.subgraphs) == 2

    root = torch.nn.Module()
    root.register_buffer("table", torch.tensor([1.5, float("nan"), -0.0], dtype=torch.bfloat16))
    fx = torch.fx.Graph()
    fx.output((fx.call_function(torch.neg, (fx.get_attr("table"),)),))
    constant = survives(torch.fx.GraphModule(root, fx))
    assert same(lower(constant)(), (-root.table,))
    assert same(run_source(constant), (-root.table,))


def test_what_the_ir_does_not_hold_is_refused():
    with_module = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
    for node in with_module.graph.nodes:
        node.meta["val"] = torch.ones(2)
    with pytest.raises(NotRepresentable, match="layout"):
        spec_of(torch.eye(3).to_sparse())
    with pytest.raises(NotRepresentable, match="an argument of type"):
        lift(hand_made(lambda g, x: g.call_function(torch.add, (x, Pair(1, 2))), torch.ones(2)))
    with pytest.raises(NotRepresentable, match="cannot call"):
        lift(hand_made(lambda g, x: g.call_function(print, (x,)), torch.ones(2)))
    with pytest.raises(NotRepresentable, match="call_module"):
        lift(with_module)
    with pytest.raises(NotRepresentable, match="unknown value"):
        lift(torch.fx.symbolic_trace(lambda x: x + 1))


@pytest.mark.parametrize(
    "name",
    ["os.system", "builtins.eval", "builtins.__import__", "torch.load", "torch.hub.load", "torch.save", "torch.compile",
     "torch.ops.load_library", "torch.ops.__class__", "torch._C._jit_pass_inline",
     "operator.attrgetter", "subprocess.run"],
)  # fmt: skip
def test_data_cannot_name_dangerous_functions(name: str):
    with pytest.raises(ValueError, match="unknown call target"):
        targets.resolve(name)


def test_every_allowed_name_resolves_to_a_function_of_that_name():
    for function in (torch.conv2d, torch.nn.functional.gelu, torch.ops.aten.add.Tensor, operator.iadd, torch.finfo):
        assert targets.resolve(targets.name_of(function)) is function


def test_respecify_changes_dtypes_and_refuses_impossible_shapes():
    graph = lift(dynamo(lambda a, b: torch.relu(a @ b), torch.randn(2, 3), torch.randn(3, 4)))
    specs = [graph.nodes[i].outputs[0] for i in graph.placeholders]
    half = respecify(graph, [replace(s, dtype="float16") for s in specs])
    assert {s.dtype for n in half.nodes for s in n.outputs} == {"float16"}
    assert lift(lower(half)) == half
    with pytest.raises(ValueError, match="does not run on these inputs"):
        respecify(graph, [specs[0], replace(specs[1], shape=(5, 4))])


def test_source_is_deterministic_and_readable():
    graph = lift(dynamo(block, torch.randn(3, 4), torch.randn(4)))
    text = source_of(graph)
    assert text == source_of(Graph.from_json(graph.to_json()))
    assert "operator.iadd(" in text and "# float32[3, 4]" in text and "class GraphModule" in text
