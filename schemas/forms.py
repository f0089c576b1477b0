"""What one node contributes to identity: its record at each of the five levels.

Is: `token_of(node, subgraphs)` and the record bytes it holds, each later level made from the earlier by masking.
Reads and writes nothing; no torch. `schemas.canonical` orders nodes and joins their records.

| level      | a record holds                                                                              |
|------------|---------------------------------------------------------------------------------------------|
| exact      | canonical target, attributes, output dtypes, shapes, device kinds; placeholders role, stride |
| shape_free | sizes and integers in shape positions become equality classes (numbered over the graph)     |
| dtype_free | dtypes become kinds (float, int, bool, complex)                                             |
| structure  | every number becomes one token, shapes become ranks                                         |
| topology   | canonical target only                                                                       |

Strides count only on placeholders: those of other values follow from the ops. A record is one line of JSON; it holds
everything but the operands, so equal lists of (record, operands) are equal graphs.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import xxhash

from schemas import effects, roles, values
from schemas.effects import Effect
from schemas.graph import CONSTANT, OUTPUT, PLACEHOLDER, SCALAR_DTYPES, SUBGRAPH, Graph, Node, TensorSpec
from schemas.layout import commutes
from schemas.roles import DIVISION, FIXED_SIZES, HOLE
from schemas.values import Value

LEVELS = ("exact", "shape_free", "dtype_free", "structure", "topology")
"""Names of the identity levels, finest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """The part of a node that does not depend on its neighbours."""

    records: tuple[bytes, bytes, bytes, bytes, bytes]
    """One record a level, each a line that begins with a newline."""
    sizes: tuple[int, ...]
    """The integers behind the holes of the shape_free and dtype_free records, in order."""
    operand_order: tuple[int, ...] | None
    """Operand numbers in order of appearance in the canonical spelling; None for 0, 1, 2 ..."""
    commutative: bool
    """Whether the op has two operands that may be swapped, as far as one can say without their specs."""
    effect: Effect | None
    """What the node does besides returning a value."""
    shares: tuple[int, ...] | None
    """Operand numbers (as in `Node.inputs`) whose storage its result may share; None for all of them."""
    short: str
    """Short op name for readable node names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedForm:
    """What the graph that calls a nested one needs of it: a digest a level and whether it has effects."""

    digests: tuple[str, ...]
    effects: bool


def _specs_value(specs: tuple[TensorSpec, ...]) -> Value:
    return [[spec.dtype, list(spec.shape), spec.device] for spec in specs]


def _open_sizes(shape: Value, found: list[int]) -> list[Value]:
    found.extend(size for size in shape if size not in FIXED_SIZES)
    return [size if size in FIXED_SIZES else HOLE for size in shape]


def _layout(spec: TensorSpec) -> tuple[Value, Value]:
    """(exact, shape-free) stride of a placeholder; null if it is dense in row-major order."""
    expected, dense = 1, True
    for size, stride in zip(reversed(spec.shape), reversed(spec.stride), strict=True):
        if size != 1:
            dense = dense and stride == expected
            expected *= size
    if dense:
        return None, None
    order = sorted(range(len(spec.shape)), key=lambda dim: (spec.stride[dim] != 0, -spec.stride[dim], dim))
    return list(spec.stride), order


def _lines(levels: tuple[Value, Value, Value, Value, Value]) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    a, b, c, d, e = (b"\n" + values.dumps(level).encode() for level in levels)
    return a, b, c, d, e


def _spec_levels(specs: tuple[TensorSpec, ...], sizes: list[int]) -> tuple[Value, Value, Value, Value]:
    free = [[spec.dtype, _open_sizes(spec.shape, sizes), spec.device] for spec in specs]
    kinds = [[roles.dtype_kind(spec.dtype), record[1], spec.device] for spec, record in zip(specs, free, strict=True)]
    ranks = [[record[0], len(spec.shape), spec.device] for spec, record in zip(specs, kinds, strict=True)]
    return _specs_value(specs), free, kinds, ranks


def _placeholder(node: Node) -> Token:
    sizes: list[int] = []
    exact, free, kinds, ranks = _spec_levels(node.outputs, sizes)
    stride, order = _layout(node.outputs[0])
    head = [PLACEHOLDER, node.target]
    levels = ([*head, exact, stride], [*head, free, order], [*head, kinds, order], [*head, ranks, order], [PLACEHOLDER])
    return _leaf(levels, sizes, "in" if node.target in ("input", "scalar") else "w")


def _constant(node: Node) -> Token:
    raw, sizes = values.loads(node.attrs), list[int]()
    shape = _open_sizes(raw["shape"], sizes)
    data = raw["data"] if math.prod(raw["shape"]) <= 1 else None
    kind = roles.dtype_kind(raw["dtype"])
    levels = (
        [CONSTANT, raw["dtype"], raw["shape"], raw["data"]], [CONSTANT, raw["dtype"], shape, data],
        [CONSTANT, kind, shape, None], [CONSTANT, kind, len(shape)], [CONSTANT],
    )  # fmt: skip
    return _leaf(levels, sizes, "const")


def _leaf(levels: tuple[Value, Value, Value, Value, Value], sizes: list[int], short: str) -> Token:
    return Token(
        records=_lines(levels), sizes=tuple(sizes), operand_order=None, commutative=False, effect=None, shares=(),
        short=short,
    )  # fmt: skip


def _nested(node: Node, form: NestedForm) -> Token:
    a, b, c, d, e = ([SUBGRAPH, digest] for digest in form.digests)
    return _leaf((a, b, c, d, e), [], "graph")


def _renumber(attrs: Value) -> tuple[Value, tuple[int, ...] | None]:
    """Number operands by appearance; return the attributes and which old number each new one has."""
    order: list[int] = []

    def change(item: Value) -> Value | None:
        if values.tag_of(item) != "in":
            return None
        order.append(item["in"])
        return {"in": len(order) - 1}

    args = [values.rewrite(item, change) for item in attrs["args"]]
    kwargs = {key: values.rewrite(item, change) for key, item in attrs["kwargs"].items()}
    identity = order == list(range(len(order)))
    return {"args": args, "kwargs": kwargs}, None if identity else tuple(order)


def _put_nested(attrs: Value, forms: tuple[NestedForm, ...], level: int) -> Value:
    def change(item: Value) -> Value | None:
        return {"graph": forms[item["graph"]].digests[level]} if values.tag_of(item) == "graph" else None

    return values.rewrite(attrs, change)


def _listed(attrs: Value) -> Value:
    return [attrs["args"], [[key, item] for key, item in attrs["kwargs"].items()]]


def _call(node: Node, forms: tuple[NestedForm, ...], reads_effects: bool, *, reflected: bool = False) -> Token:
    tensor = len(node.outputs) == 1 and node.outputs[0].dtype not in SCALAR_DTYPES
    raw, is_output = values.loads(node.attrs), node.op == OUTPUT
    target, spelled = (OUTPUT, raw)
    if not is_output:
        target, spelled = roles.spell(node.op, node.target, raw, tensor=tensor and not reflected)
    effect = None if is_output else effects.effect_of(target, spelled, nested_effects=reads_effects)
    shares = () if is_output else effects.shared_operands(target, spelled, effect, tensor=tensor)
    attrs, order = _renumber(spelled)
    marked, marks = roles.mark_sizes(target, attrs)
    sizes = list(marks)
    exact_specs, free_specs, kinds, ranks = _spec_levels(node.outputs, sizes)
    exact = roles.drop_device_index(_listed(attrs))
    free = roles.drop_device_index(_listed(marked))
    untyped = roles.mask_dtypes(free)
    bodies = (exact, free, untyped, roles.mask_numbers(untyped))
    if forms:
        a, b, c, d = (_put_nested(body, forms, level) for level, body in enumerate(bodies))
        bodies = (a, b, c, d)
    specs = (exact_specs, free_specs, kinds, ranks)
    a, b, c, d = ([target, body, spec] for body, spec in zip(bodies, specs, strict=True))
    return Token(
        records=_lines((a, b, c, d, [target])), sizes=tuple(sizes), operand_order=order,
        commutative=order is None and roles.is_commutative(target, attrs), effect=effect,
        shares=shares, short=roles.short_name(node.target) or OUTPUT,
    )  # fmt: skip


@lru_cache(maxsize=200_000)
def _cached(op: str, target: str, attrs: str, outputs: tuple[TensorSpec, ...], reflected: bool = False) -> Token:
    node = Node(op=op, name="n", target=target, inputs=(), attrs=attrs, outputs=outputs)
    if op == PLACEHOLDER:
        return _placeholder(node)
    return _constant(node) if op == CONSTANT else _call(node, (), False, reflected=reflected)


def _is_reflected(graph: Graph, node: Node) -> bool:
    """Whether an operator is given a number first, so that the tensor's reflected method computes it."""
    first = graph.nodes[node.inputs[0]].outputs if node.inputs else ()
    return len(first) == 1 and first[0].dtype in SCALAR_DTYPES


def tokens_of(graph: Graph, nested: tuple[NestedForm, ...]) -> list[Token]:
    """The token of every node; `nested` are the forms of the graph's nested graphs."""
    if not nested:
        return [
            _cached(node.op, node.target, node.attrs, node.outputs)
            if node.target != DIVISION
            else _cached(node.op, node.target, node.attrs, node.outputs, _is_reflected(graph, node))
            for node in graph.nodes
        ]
    found = []
    for node in graph.nodes:
        called = [graph.nodes[k] for k in node.inputs if graph.nodes[k].op == SUBGRAPH]
        reads_effects = any(nested[values.loads(inner.attrs)["graph"]].effects for inner in called)
        if node.op == SUBGRAPH:
            found.append(_nested(node, nested[values.loads(node.attrs)["graph"]]))
        elif reads_effects or '"graph":' in node.attrs:
            found.append(_call(node, nested, reads_effects))
        else:
            reflected = node.target == DIVISION and _is_reflected(graph, node)
            found.append(_cached(node.op, node.target, node.attrs, node.outputs, reflected))
    return found


def in_open_scopes(graph: Graph, tokens: Sequence[Token]) -> list[bool]:
    """For every node whether it stands inside a vmap or an enabled autocast, which change what a call computes."""
    found, open_scopes = list[bool](), list[int]()
    for index, (node, token) in enumerate(zip(graph.nodes, tokens, strict=True)):
        if token.effect is not None and token.effect.kind == effects.SCOPE:
            _follow_scope(open_scopes, index, node)
        found.append(bool(open_scopes))
    return found


def _follow_scope(open_scopes: list[int], index: int, node: Node) -> None:
    """Keep the list of open scopes that change what a call computes; one that is not known stays open."""
    name = node.target.rpartition(".")[2]
    if name.endswith("_decrement_nesting"):
        del open_scopes[-1:]
    elif name == "_exit_autocast":
        open_scopes[:] = [scope for scope in open_scopes if scope not in node.inputs]
    elif name == "_enter_autocast":
        args = values.loads(node.attrs)["args"]
        open_scopes.extend([index] if len(args) < 3 or args[2] is not False else [])
    elif name not in effects.HARMLESS_SCOPES:
        open_scopes.append(index)


RESHAPING = frozenset({
    "as_strided_", "resize_", "resize_as_", "resize_as_sparse_", "set_", "t_", "transpose_", "swapaxes_", "swapdims_",
    "squeeze_", "unsqueeze_",
})  # fmt: skip
"""Calls that give a tensor another shape or other strides in place, so that the specs of older nodes do not hold."""


def reshaped(graph: Graph, tokens: Sequence[Token]) -> Callable[[int, int], bool]:
    """Whether value k may have another shape or other strides than its spec says when node `index` reads it."""
    calls = [i for i, token in enumerate(tokens) if token.effect is not None and _may_reshape(graph, i, token)]
    if not calls:
        return lambda k, index: False
    classes = storage_classes(graph, tokens, range(len(tokens)))
    return lambda k, index: any(k < i < index and classes[i] == classes[k] for i in calls)


def _may_reshape(graph: Graph, index: int, token: Token) -> bool:
    """Whether a call changes the shape or strides of what it writes: by name, or as `out` that does not fit."""
    node = graph.nodes[index]
    assert token.effect is not None
    others = [graph.nodes[node.inputs[k]].outputs for k in token.effect.writes if k]
    return token.short in RESHAPING or any(specs != node.outputs for specs in others)


def exchangeable(graph: Graph, tokens: Sequence[Token]) -> list[bool]:
    """For every node whether its two operands may be swapped without changing a bit or a stride of its result."""
    nodes, found = graph.nodes, [token.commutative for token in tokens]
    is_stale = reshaped(graph, tokens)
    for index, is_commutative in enumerate(found):
        if is_commutative:
            a, b = nodes[index].inputs
            first, second = nodes[a].outputs, nodes[b].outputs
            known = len(first) == len(second) == 1 and not is_stale(a, index) and not is_stale(b, index)
            found[index] = known and commutes(tokens[index].short, first[0], second[0])
    return found


def storage_classes(graph: Graph, tokens: Sequence[Token], live: Iterable[int]) -> list[int]:
    """For every node the number of its storage class: live values of different classes never share memory."""
    nodes = graph.nodes
    shared: list[Sequence[int]] = [()] * len(nodes)
    for index in live:
        shares = tokens[index].shares
        if shares is None:
            shared[index] = nodes[index].inputs if nodes[index].op != OUTPUT else ()
        elif shares:
            shared[index] = [nodes[index].inputs[k] for k in shares]
    return effects.alias_classes(shared)


def digest_of(blob: bytes) -> str:
    """xxh3-128 of canonical bytes as 32 hexadecimal digits."""
    return str(xxhash.xxh3_128_hexdigest(blob))
