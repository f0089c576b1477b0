"""Random programs with effects, views, sharing and constants, from a seed; edits of them; other ways to write them."""

import random
from dataclasses import replace

from schemas import values
from schemas.canonical import canonicalize
from schemas.forms import tokens_of
from schemas.graph import CONSTANT, FUNCTION, METHOD, PLACEHOLDER, Graph, Node
from schemas.prepared import order_of_effects, prepare
from tests.schemas.drafts import Draft, Ref, reordered, spec

UNARY = ("torch.relu", "torch.exp", "torch.nn.functional.gelu", "torch.nn.functional.silu")
COMMUTING = ("torch.add", "torch.mul", "torch.eq", "operator.add", "torch.logical_and")
ORDERED = ("torch.sub", "torch.div", "torch.matmul", "torch.pow")
LITERALS = ({"float": "2.0"}, {"float": "0.5"}, {"float": "0.0"}, {"float": "-0.0"}, {"float": "nan"}, 1, True, 2)
SHAPES = (spec(4, 4), spec(4, 4), spec(4, 4), spec(8, 4), spec(4, 4, dtype="float16"))
_DATA = ("AACAPw==", "AAAAQA==")


def program(seed: int, most: int = 10) -> Graph:
    """A random legal graph of at most `most` calls; every tenth has effects on shared storage."""
    rng = random.Random(seed)
    d = Draft()
    known = [d.input(rng.choice(SHAPES), rng.choice(("input", "input", "parameter", "buffer"))) for _ in range(3)]
    if rng.random() < 0.2:
        attrs = values.dumps({"dtype": "float32", "shape": [1], "data": rng.choice(_DATA)})
        known.append(d._add(op=CONSTANT, target="", inputs=(), attrs=attrs, outputs=(spec(1),)))
    effects = rng.random() < 0.3
    for _ in range(rng.randint(1, most)):
        known.append(_call(d, rng, known, effects))
    outputs = rng.choices(known[-4:], k=rng.randint(1, 3))
    return d.graph(*outputs)


def _call(d: Draft, rng: random.Random, known: list[Ref], effects: bool) -> Ref:
    a, b = rng.choice(known[-5:]), rng.choice(known)
    of = rng.choice(SHAPES)
    kind = rng.choice(
        ("unary", "commuting", "commuting", "ordered", "literal", "view", "effect" if effects else "unary")
    )
    if kind == "unary":
        return d.call(rng.choice(UNARY), a, of=of)
    if kind == "commuting":
        return d.call(rng.choice(COMMUTING), a, b, of=of)
    if kind == "ordered":
        return d.call(rng.choice(ORDERED), a, b, of=of)
    if kind == "literal":
        return d.call("operator.mul", a, rng.choice(LITERALS), of=of)
    if kind == "view":
        return d.method("view", a, rng.choice((-1, 4, 8)), 4, of=of)
    name = rng.choice(("add_", "mul_", "rand", "grad"))
    if name == "rand":
        return d.call("torch.rand_like", a, of=of)
    if name == "grad":
        d.call("torch._C._set_grad_enabled", rng.random() < 0.5, of=None)
        return a
    return d.method(name, a, rng.choice((1, 2)), of=of)


def rewritten(graph: Graph, seed: int) -> Graph:
    """The same program: other names and order of statements and placeholders, spellings, swaps, dead code."""
    rng = random.Random(seed)
    nodes = [_respelled(node, rng) for node in graph.nodes]
    if rng.random() < 0.5:
        nodes = [*nodes[:-1], _dead(graph, rng), nodes[-1]]
    return shuffled(replace(graph, nodes=tuple(nodes)), rng)


def _dead(graph: Graph, rng: random.Random) -> Node:
    source = rng.randrange(len(graph.nodes) - 1)
    attrs = values.dumps({"args": [{"in": 0}], "kwargs": {}})
    return Node(op=FUNCTION, name="dead", target="torch.exp", inputs=(source,), attrs=attrs, outputs=(spec(4),))


_METHODS = {"torch.relu": "relu", "torch.exp": "exp", "torch.mul": "mul", "torch.sub": "sub", "torch.matmul": "matmul"}
_OTHERS = {
    "torch.add": ("torch.ops.aten.add.Tensor", "operator.add"), "operator.add": ("torch.add", "_operator.add"),
    "torch.div": ("torch.divide", "operator.truediv"), "torch.nn.functional.gelu": ("torch._C._nn.gelu",),
    "torch.relu": ("torch.nn.functional.relu",), "torch.pow": ("operator.pow",),
}  # fmt: skip
_DEFAULTS = {
    "torch.add": {"alpha": 1}, "torch.nn.functional.gelu": {"approximate": "none"},
    "torch.div": {"rounding_mode": None},
    "torch.nn.functional.silu": {"inplace": False},
}  # fmt: skip


def _respelled(node: Node, rng: random.Random) -> Node:
    if node.op != FUNCTION:
        return node
    attrs = values.loads(node.attrs)
    commuting = node.target in COMMUTING and attrs["args"] == [{"in": 0}, {"in": 1}]
    if commuting and rng.random() < 0.5:
        node = replace(node, inputs=node.inputs[::-1])
    choice = rng.random()
    if choice < 0.25 and node.target in _DEFAULTS:
        return replace(node, attrs=values.dumps({**attrs, "kwargs": _DEFAULTS[node.target]}))
    if choice < 0.5 and node.target in _METHODS:
        return replace(node, op=METHOD, target=_METHODS[node.target])
    if choice < 0.75 and node.target in _OTHERS:
        return replace(node, target=rng.choice(_OTHERS[node.target]))
    if node.target in ("torch.sub", "torch.div", "torch.matmul") and len(attrs["args"]) == 2:
        changed = {"args": attrs["args"][:1], "kwargs": {"other": attrs["args"][1]}}
        return replace(node, attrs=values.dumps(changed))
    return node


def shuffled(graph: Graph, rng: random.Random) -> Graph:
    """Another order of execution that respects operands and effects; other names; another order of placeholders."""
    prepared = prepare(graph, tokens_of(graph, ()))
    before: dict[int, set[int]] = {index: set(node.inputs) for index, node in enumerate(graph.nodes)}
    for earlier, later in order_of_effects(graph, prepared):
        before[later].add(earlier)
    order: list[int] = []
    waiting = list(range(len(graph.nodes) - 1))
    while waiting:
        ready = [k for k in waiting if before[k] <= set(order)]
        order.append(rng.choice(ready))
        waiting.remove(order[-1])
    return reordered(graph, [*order, len(graph.nodes) - 1], prefix=f"s{rng.randrange(99)}_")


EDITS = ("op", "wire", "swap", "literal", "dtype", "shape", "role", "split", "output", "drop")


def edited(graph: Graph, seed: int) -> Graph:
    """One small edit; now and then one that changes nothing."""
    rng = random.Random(seed)
    kind = rng.choice(EDITS)
    index = rng.randrange(len(graph.nodes) - 1)
    calls = [i for i, _ in graph.calls()]
    if kind in ("op", "wire", "swap", "literal", "split"):
        index = rng.choice(calls)
    node = graph.nodes[index]
    if kind == "role":
        index = rng.choice(graph.placeholders)
        return _with(graph, index, target=rng.choice(("input", "parameter", "buffer")))
    if kind == "output":
        end = graph.nodes[-1]
        return _with(graph, len(graph.nodes) - 1, inputs=end.inputs[::-1])
    if kind == "split":
        return _recomputed(graph, index)
    if kind == "drop" and node.op != PLACEHOLDER and node.inputs:
        return _skipped(graph, index)
    return _with(graph, index, **_change(kind, node, index, rng))


def _change(kind: str, node: Node, index: int, rng: random.Random) -> dict[str, object]:
    if kind == "op" and node.target in (*UNARY, *COMMUTING, *ORDERED):
        return {"target": rng.choice(UNARY if node.target in UNARY else (*COMMUTING, *ORDERED))}
    if kind == "wire" and node.inputs:
        place = rng.randrange(len(node.inputs))
        return {"inputs": tuple(rng.randrange(index) if k == place else s for k, s in enumerate(node.inputs))}
    if kind == "swap":
        return {"inputs": node.inputs[::-1]}
    if kind == "literal" and "operator.mul" in node.target:
        return {"attrs": values.dumps({"args": [{"in": 0}, rng.choice(LITERALS)], "kwargs": {}})}
    if kind == "dtype" and node.outputs:
        return {"outputs": (replace(node.outputs[0], dtype=rng.choice(("float32", "float16", "int64"))),)}
    if kind == "shape" and node.outputs:
        return {"outputs": (rng.choice(SHAPES),)}
    return {}


def _with(graph: Graph, index: int, **fields: object) -> Graph:
    nodes = list(graph.nodes)
    nodes[index] = replace(nodes[index], **fields)
    return replace(graph, nodes=tuple(nodes))


def _recomputed(graph: Graph, index: int) -> Graph:
    """The last reader of a call reads a second copy of it."""
    readers = graph.users[index]
    if not readers:
        return graph
    reader = readers[-1]
    moved = [replace(n, inputs=tuple(k + (k >= reader) for k in n.inputs)) for n in graph.nodes]
    copy = replace(graph.nodes[index], name="copy")
    inputs = tuple(reader if k == index else k for k in moved[reader].inputs)
    changed = replace(moved[reader], inputs=inputs)
    return replace(graph, nodes=(*moved[:reader], copy, changed, *moved[reader + 1 :]))


def _skipped(graph: Graph, index: int) -> Graph:
    """The readers of a node read its first operand."""
    source = graph.nodes[index].inputs[0]
    nodes = [replace(n, inputs=tuple(source if k == index else k for k in n.inputs)) for n in graph.nodes]
    return replace(graph, nodes=tuple(nodes))


def blob(graph: Graph) -> bytes:
    """Canonical bytes; fails if the search was cut short."""
    form = canonicalize(graph)
    assert not form.capped
    return form.blob
