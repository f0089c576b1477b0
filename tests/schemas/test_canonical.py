"""Identity: what the canonical form must not see, what it must see, an isomorphism oracle, the order of the levels."""

import random
from collections.abc import Callable
from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import values
from schemas.canonical import canonicalize
from schemas.forms import LEVELS, exchangeable, tokens_of
from schemas.graph import Graph, TensorSpec, check
from tests.schemas.drafts import BINARY, SPEC, UNARY, Draft, Ref, graphs, reordered, shuffled, spec

pytestmark = pytest.mark.plain
SEEDS = st.integers(0, 2**32 - 1)


def blob(graph: Graph) -> bytes:
    return canonicalize(graph).blob


def keys_of(graph: Graph) -> tuple[str, ...]:
    keys = canonicalize(graph).keys
    return tuple(getattr(keys, level) for level in LEVELS)


def with_node(graph: Graph, index: int, **fields: object) -> Graph:
    nodes = list(graph.nodes)
    nodes[index] = replace(nodes[index], **fields)
    return replace(graph, nodes=tuple(nodes))


# --- what is not seen -----------------------------------------------------------------------------------------------
@given(graphs(), SEEDS)
@settings(max_examples=150, deadline=None)
def test_order_names_and_placeholder_order_do_not_matter(graph: Graph, seed: int):
    assert keys_of(shuffled(graph, seed)) == keys_of(graph)
    assert blob(shuffled(graph, seed)) == blob(graph)


@given(graphs(), SEEDS)
@settings(max_examples=80, deadline=None)
def test_commutative_operands_have_no_order(graph: Graph, seed: int):
    rng = random.Random(seed)
    nodes = [
        replace(n, inputs=n.inputs[::-1]) if n.target in ("torch.add", "torch.mul") and rng.random() < 0.5 else n
        for n in graph.nodes
    ]
    assert keys_of(replace(graph, nodes=tuple(nodes))) == keys_of(graph)


@given(graphs())
@settings(max_examples=80, deadline=None)
def test_dead_code_and_unused_placeholders_do_not_matter(graph: Graph):
    d = Draft(list(graph.nodes[:-1]))
    d.call("torch.exp", d.input())
    end = replace(graph.nodes[-1], name="end")
    longer = Graph(nodes=(*d.nodes, end), inits=(*graph.inits, '{"kind":"zeros"}'), subgraphs=())
    check(longer)
    assert blob(longer) == blob(graph)


Expression = Callable[[Draft, Ref, Ref], Ref]


def X(d: Draft, x: Ref, y: Ref) -> Ref:
    return x


def Y(d: Draft, x: Ref, y: Ref) -> Ref:
    return y


def f(target: str, *args: object, of: TensorSpec = SPEC, **kwargs: object) -> Expression:
    """A call of a function (or, with a leading dot, of a method) on expressions and literals."""

    def build(d: Draft, x: Ref, y: Ref) -> Ref:
        def value(item: object) -> object:
            if isinstance(item, list):
                return [value(part) for part in item]
            if isinstance(item, dict) and "tuple" in item:
                return {"tuple": value(item["tuple"])}
            return item(d, x, y) if callable(item) else item

        found = [value(item) for item in args]
        call = d.method if target.startswith(".") else d.call
        return call(target.lstrip("."), *found, of=of, **{key: value(item) for key, item in kwargs.items()})

    return build


def one_op(expression: Expression) -> bytes:
    d = Draft()
    x, y = d.input(), d.input()
    return blob(d.graph(expression(d, x, y)))


RELU, GELU = "torch.relu", "torch.nn.functional.gelu"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (f("operator.add", X, Y), f(".add", X, Y)),
        (f("_operator.truediv", X, Y), f("torch.div", X, Y)),
        (f("torch.cat", [X, Y], dim=0), f("torch.cat", {"tuple": [X, Y]}, dim=0)),
        (f(".float", X), f(".to", X, {"dtype": "float32"})),
        (f(".view", X, 4, -1), f(".view", X, {"tuple": [4, -1]})),
        (f(".permute", X, 1, 0), f("torch.permute", X, [1, 0])),
        (f(RELU, X), f("torch.nn.functional.relu", X, inplace=False)),
        (f("torch.sum", X, dim=0, keepdim=True), f("torch.sum", X, keepdim=True, dim=0)),
        (f(".to", X, {"device": "cuda:0"}), f(".to", X, {"device": "cuda"})),
        (f("torch.f", a=X, b=Y), f("torch.f", b=Y, a=X)),
    ],
)
def test_spellings_of_one_op_are_one(left, right):
    assert one_op(left) == one_op(right)


# --- what is seen ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("left", "right"),
    [
        (f(RELU, X), f("torch.exp", X)),
        (f("torch.sub", X, Y), f("torch.sub", X, X)),
        (f("torch.add", X, X), f("torch.add", X, Y)),
        (f("torch.sub", X, f(RELU, X)), f("torch.sub", X, f(RELU, Y))),
        (f("torch.sub", X, f(RELU, X)), f("torch.sub", f(RELU, X), X)),
        (f("torch.mul", X, {"float": "1.0"}), f("torch.mul", X, {"float": "1.0000000000000002"})),
        (f("torch.mul", X, {"float": "0.0"}), f("torch.mul", X, {"float": "-0.0"})),
        (f("torch.mul", X, 1), f("torch.mul", X, True)),
        (f("torch.mul", X, 1), f("torch.mul", X, {"float": "1.0"})),
        (f("torch.clamp", X, min=0), f("torch.clamp", X, max=0)),
        (f("torch.add", X, Y), f("torch.add", X, Y, alpha=2)),
        (f("torch.add", X, Y), f("operator.iadd", X, Y)),
        (f(RELU, X), f(RELU, X, of=spec(4, 9))),
        (f(RELU, X), f(RELU, X, of=spec(4, 8, dtype="float16"))),
        (f(GELU, X), f(GELU, X, approximate="tanh")),
        (f("torch.f", a=X, b=Y), f("torch.f", a=X, b=X)),
    ],
)
def test_different_computations_differ(left, right):
    assert one_op(left) != one_op(right)


def test_nan_equals_nan():
    d, e = Draft(), Draft()
    for draft in (d, e):
        draft.call("torch.mul", draft.input(), {"float": "nan"})
    assert blob(d.graph(Ref(1))) == blob(e.graph(Ref(1)))


def test_sharing_differs_from_recomputing():
    d = Draft()
    shared = d.call("torch.exp", d.input())
    e = Draft()
    x = e.input()
    twice = e.graph(e.call("torch.mul", e.call("torch.exp", x), e.call("torch.exp", x)))
    assert blob(d.graph(d.call("torch.mul", shared, shared))) != blob(twice)


def test_role_and_layout_of_a_placeholder_are_seen():
    def relu_of(of: TensorSpec = SPEC, role: str = "input") -> tuple[str, ...]:
        d = Draft()
        return keys_of(d.graph(d.call("torch.relu", d.input(of, role))))

    assert relu_of()[0] != relu_of(role="parameter")[0]
    assert relu_of()[4] == relu_of(role="parameter")[4]
    transposed = replace(SPEC, stride=(1, 4))
    assert relu_of()[0] != relu_of(transposed)[0]
    one = TensorSpec(dtype="float32", shape=(1, 8), stride=(8, 1), device="cpu")
    assert relu_of(one) == relu_of(replace(one, stride=(99, 1))), "the stride of a dimension of size 1 means nothing"


def test_output_order_is_seen_in_graphs_and_free_in_pieces():
    d = Draft()
    x, y = d.input(), d.input()
    a, b = d.call("torch.exp", x), d.call("torch.sub", d.call("torch.exp", x), y)
    left, right = d.graph(a, b), d.graph(b, a)
    assert blob(left) != blob(right)
    free = [canonicalize(graph, free_outputs=True) for graph in (left, right)]
    assert free[0].blob == free[1].blob
    assert sorted(form.output_order for form in free) == [(0, 1), (1, 0)]
    assert free[0].graph.nodes[-1].inputs == free[1].graph.nodes[-1].inputs


@given(graphs(), SEEDS)
@settings(max_examples=80, deadline=None)
def test_free_outputs_ignore_their_order(graph: Graph, seed: int):
    other = shuffled(graph, seed)
    swapped = with_node(other, len(graph.nodes) - 1, inputs=other.nodes[-1].inputs[::-1])
    assert canonicalize(swapped, free_outputs=True).keys == canonicalize(graph, free_outputs=True).keys


def test_free_outputs_need_a_flat_tuple():
    d = Draft()
    graph = d.graph(d.call("torch.relu", d.input()))
    nested = with_node(graph, 2, attrs=values.dumps({"args": [{"in": 0}], "kwargs": {}}))
    with pytest.raises(ValueError, match="flat tuple"):
        canonicalize(nested, free_outputs=True)


# --- effects --------------------------------------------------------------------------------------------------------
def test_order_of_effects_is_seen():
    d = Draft()
    x = d.input()
    d.call("torch.Tensor.dummy_", x)
    d.method("add_", x, 1)
    d.method("mul_", x, 2)
    graph = d.graph(x)
    assert blob(graph) != blob(reordered(graph, [0, 1, 3, 2, 4]))


def test_a_read_does_not_move_across_a_write_it_could_see():
    d = Draft()
    x = d.input()
    view = d.method("view", x, -1)
    read = d.call("torch.exp", view)
    d.method("add_", x, 1)
    graph = d.graph(read)
    moved = reordered(graph, [0, 1, 3, 2, 4])
    assert blob(graph) != blob(moved)
    order = [node.target for node in canonicalize(moved).graph.nodes]
    assert order.index("add_") < order.index("torch.exp")
    order = [node.target for node in canonicalize(graph).graph.nodes]
    assert order.index("add_") > order.index("torch.exp")


def test_a_read_moves_across_a_write_to_other_memory():
    d = Draft()
    x, y = d.input(), d.input()
    read = d.call("torch.exp", x)
    d.method("add_", y, 1)
    graph = d.graph(read)
    assert blob(graph) == blob(reordered(graph, [1, 0, 3, 2, 4]))


def test_effects_are_never_dead_and_scopes_hold_calls():
    d = Draft()
    x = d.input()
    d.call("torch._C._set_grad_enabled", False, of=None)
    y = d.call("torch.exp", x)
    d.call("torch._C._set_grad_enabled", True, of=None)
    graph = d.graph(y)
    assert len(canonicalize(graph).order) == len(graph.nodes)
    assert blob(graph) != blob(reordered(graph, [0, 2, 1, 3, 4]))


@pytest.mark.parametrize("training", [True, False])
def test_dropout_is_random_only_in_training(training: bool):
    d = Draft()
    x = d.input()
    d.call("torch.nn.functional.dropout", x, {"float": "0.1"}, training, False)
    assert (len(canonicalize(d.graph(x)).order) == 3) == training


# --- exactness ------------------------------------------------------------------------------------------------------
def as_networkx(graph: Graph) -> nx.MultiDiGraph:
    """Live nodes labelled with their exact records, edges with operand places (none for commutative ops)."""
    tokens = tokens_of(graph, ())
    unordered = exchangeable(graph, tokens)
    live = {len(graph.nodes) - 1}
    for index in range(len(graph.nodes) - 1, -1, -1):
        if index in live:
            live.update(graph.nodes[index].inputs)
    found = nx.MultiDiGraph()
    for index in sorted(live):
        found.add_node(index, label=tokens[index].records[0])
    for index in sorted(live):
        for place, source in enumerate(graph.nodes[index].inputs):
            found.add_edge(source, index, place=-1 if unordered[index] else place)
    return found


def isomorphic(a: Graph, b: Graph) -> bool:
    return nx.is_isomorphic(
        as_networkx(a), as_networkx(b), node_match=lambda x, y: x["label"] == y["label"],
        edge_match=lambda x, y: sorted(e["place"] for e in x.values()) == sorted(e["place"] for e in y.values()),
    )  # fmt: skip


def edited(graph: Graph, seed: int) -> Graph:
    """One small edit: another op, another operand, swapped operands."""
    rng = random.Random(seed)
    index = rng.choice([i for i, _ in graph.calls()])
    node = graph.nodes[index]
    kind = rng.choice(("op", "wire", "swap"))
    if kind == "op" and node.target in (*UNARY, *BINARY):
        return with_node(graph, index, target=rng.choice(UNARY if node.target in UNARY else BINARY))
    if kind == "swap":
        return with_node(graph, index, inputs=node.inputs[::-1])
    place = rng.randrange(len(node.inputs))
    inputs = tuple(rng.randrange(index) if k == place else source for k, source in enumerate(node.inputs))
    return with_node(graph, index, inputs=inputs)


@given(graphs(max_ops=7), SEEDS)
@settings(max_examples=250, deadline=None)
def test_equal_bytes_mean_isomorphic_and_the_reverse(graph: Graph, seed: int):
    other = shuffled(edited(graph, seed), seed)
    left, right = canonicalize(graph), canonicalize(other)
    assert not left.capped
    assert not right.capped
    assert (left.blob == right.blob) == isomorphic(graph, other)


def test_ties_of_commutative_operands_are_searched():
    """Two sums over the same three products, wired so that hashes of cones cannot tell the operands apart."""
    d = Draft()
    x, y, z = d.input(), d.input(), d.input()
    p, q, r = d.call("torch.sub", x, y), d.call("torch.sub", y, z), d.call("torch.sub", z, x)
    graph = d.graph(d.call("torch.add", d.call("torch.mul", p, q), d.call("torch.mul", q, r)))
    forms = {blob(shuffled(graph, seed)) for seed in range(40)}
    assert len(forms) == 1


@pytest.mark.parametrize(("pairs", "capped"), [(7, False), (9, True)])
def test_too_many_ties_set_the_flag(pairs: int, capped: bool):
    d = Draft()
    found = []
    for _ in range(pairs):
        x, y = d.input(), d.input()
        found.append(d.call("torch.add", d.call("torch.sub", x, y), d.call("torch.sub", y, x)))
    assert canonicalize(d.graph(*found)).capped == capped


# --- levels ---------------------------------------------------------------------------------------------------------
@given(graphs(), SEEDS)
@settings(max_examples=80, deadline=None)
def test_equal_at_one_level_means_equal_at_all_later_ones(graph: Graph, seed: int):
    left, right = keys_of(graph), keys_of(edited(graph, seed))
    same = [a == b for a, b in zip(left, right, strict=True)]
    assert same == sorted(same)


def attention_like(length: int, width: int, dtype: str = "float32", eps: str = "1e-05", axis: int = -1) -> Graph:
    def of(*shape: int) -> TensorSpec:
        return spec(*shape, dtype=dtype)

    d, half = Draft(), length // 2
    x, w = d.input(of(2, length, width)), d.input(of(width), "parameter")
    index = {"tuple": [{"slice": [None, None, None]}, {"slice": [0, half, None]}]}
    part = d.call("operator.getitem", x, index, of=of(2, half, width))
    flat = d.method("view", part, 2, half * width, of=of(2, half * width))
    soft = d.call("torch.softmax", flat, axis, of=of(2, half * width))
    sizes, epsilon = {"tuple": [width]}, {"float": eps}
    norm = d.call("torch.nn.functional.layer_norm", x, sizes, w, None, epsilon, of=of(2, length, width))
    return d.graph(soft, norm)


BASE = attention_like(16, 32)


@pytest.mark.parametrize(
    ("other", "first_equal"),
    [
        (attention_like(16, 32), "exact"),
        (attention_like(24, 40), "shape_free"),
        (attention_like(24, 40, dtype="bfloat16"), "dtype_free"),
        (attention_like(16, 32, eps="1e-06"), "structure"),
        (attention_like(16, 32, axis=0), "structure"),
        (attention_like(32, 32), "structure"),
    ],
)
def test_levels_mask_what_they_say(other: Graph, first_equal: str):
    equal = [level for level, a, b in zip(LEVELS, keys_of(BASE), keys_of(other), strict=True) if a == b]
    assert equal == list(LEVELS[LEVELS.index(first_equal) :])


def test_size_equal_to_another_size_is_a_relation_of_its_own():
    assert keys_of(attention_like(32, 32))[1] != keys_of(BASE)[1]


@given(graphs(max_ops=6), SEEDS, st.sampled_from(("shape_free", "dtype_free")))
@settings(max_examples=60, deadline=None)
def test_coarse_keys_do_not_depend_on_finer_values(graph: Graph, seed: int, level: str):
    """Other sizes everywhere (or other dtypes) leave the coarse key alone, however operands are ordered."""
    new = spec(6, 10) if level == "shape_free" else spec(4, 8, dtype="float16")
    nodes = [replace(node, outputs=tuple(new for _ in node.outputs)) for node in graph.nodes]
    other = shuffled(replace(graph, nodes=tuple(nodes)), seed)
    assert getattr(canonicalize(other).keys, level) == getattr(canonicalize(graph).keys, level)


# --- the relabelled graph -------------------------------------------------------------------------------------------
@given(graphs(), SEEDS)
@settings(max_examples=80, deadline=None)
def test_the_canonical_graph_is_legal_and_a_fixed_point(graph: Graph, seed: int):
    form = canonicalize(shuffled(graph, seed))
    check(form.graph)
    again = canonicalize(form.graph)
    assert again.blob == form.blob
    assert again.graph == form.graph
    assert sorted(set(form.order)) == sorted(form.order)


def test_placeholders_come_first_keep_their_initialisers_and_are_named_by_role():
    d = Draft()
    x, w, unused = d.input(), d.input(role="parameter"), d.input()
    graph = d.graph(d.call("torch.sub", w, x))
    form = canonicalize(graph)
    assert [node.name for node in form.graph.nodes] == ["w_0", "in_0", "sub_0", "output"]
    assert form.order == (w, x, 3, 4)
    assert unused not in form.order
    assert form.graph.inits == (graph.inits[1], graph.inits[0])
