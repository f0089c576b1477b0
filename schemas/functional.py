"""In-place calls made functional where nobody can tell: a graph in which more can be mined.

Is: `functionalise(graph)`. Reads a graph, writes nothing; no torch. Node indices stay as they are.

Sound because a call that writes x in place and yields it is replaced by the call that yields a new value only where

- no value that may share storage with x (`schemas.effects`) and existed before the write is read afterwards, or belongs
  to the caller (placeholder, constant): then the write can be seen through the result alone;
- no other operand may share storage with x: an in-place call could read what it has written;
- it draws no random numbers, and stands in no enabled autocast and no vmap, which treat the two forms differently;
- no operand has been given another shape or other strides in place, so that its spec holds;
- the functional call keeps dtype and strides: all operands are of x's dtype, no number is of a higher kind, the op
  table says that the op keeps this kind of dtype (a comparison yields truth values: `gt_` of floats stays), and the
  rule of `schemas.layout` gives x's strides.

What does not meet this stays in place.
"""

from collections.abc import Sequence
from dataclasses import replace

from schemas import values
from schemas.canonical import nested_form
from schemas.effects import INPLACE_PARAMETER, MUTATE, Effect
from schemas.forms import in_open_scopes, reshaped, storage_classes, tokens_of
from schemas.graph import METHOD, Graph, Node, TensorSpec
from schemas.layout import dense_strides, pointwise_strides
from schemas.ops import Op, op_named
from schemas.roles import dtype_kind
from schemas.values import Value

_OPERATORS = {
    "iadd": ("add", "add"), "isub": ("sub", "sub"), "imul": ("mul", "mul"), "itruediv": ("truediv", "div"),
    "ifloordiv": ("floordiv", "floor_divide"), "imod": ("mod", "remainder"), "ipow": ("pow", "pow"),
    "iand": ("and_", "bitwise_and"), "ior": ("or_", "bitwise_or"), "ixor": ("xor", "bitwise_xor"),
}  # fmt: skip
"""In-place operator of Python -> (the operator that yields a new value, the op of torch that both are)."""
_KINDS = {"bool": "b", "int": "i", "float": "f", "complex": "c"}


def functionalise(graph: Graph) -> Graph:
    """The graph with every unobservable in-place call in functional form; the graph itself if there is none."""
    tokens = tokens_of(graph, tuple(nested_form(text) for text in graph.subgraphs))
    effects = [token.effect for token in tokens]
    writers = [i for i, effect in enumerate(effects) if effect is not None and effect.kind == MUTATE]
    if not writers:
        return graph
    classes = storage_classes(graph, tokens, range(len(graph.nodes)))
    older, scoped = _older(classes, set(writers)), in_open_scopes(graph, tokens)
    is_stale = reshaped(graph, tokens)
    nodes = list(graph.nodes)
    for index in writers:
        node, effect = nodes[index], effects[index]
        assert effect is not None
        plain = len(effect.writes) == 1 and not effect.is_random and not scoped[index]
        plain = plain and not any(is_stale(kid, index) for kid in node.inputs)
        if plain and _unobservable(graph, older[index], index) and _reads_elsewhere(node, effect, classes):
            nodes[index] = _functional(graph, node, effect.writes[0]) or node
    return replace(graph, nodes=tuple(nodes))


def _older(classes: list[int], writers: set[int]) -> dict[int, list[int]]:
    """For every writer the earlier values of its storage class."""
    members: dict[int, list[int]] = {}
    found = {}
    for index, cls in enumerate(classes):
        if index in writers:
            found[index] = list(members.get(cls, ()))
        members.setdefault(cls, []).append(index)
    return found


def _unobservable(graph: Graph, older: list[int], index: int) -> bool:
    """Whether no older value of the written storage is the caller's or read after node `index`."""
    return all(graph.nodes[k].is_call and all(user <= index for user in graph.users[k]) for k in older)


def _reads_elsewhere(node: Node, effect: Effect, classes: list[int]) -> bool:
    """Whether no operand but the written one is of its storage class."""
    written = effect.writes[0]
    others = [kid for place, kid in enumerate(node.inputs) if place != written]
    return all(classes[kid] != classes[node.inputs[written]] for kid in others)


# --- the functional call --------------------------------------------------------------------------------------------
def _functional(graph: Graph, node: Node, written: int) -> Node | None:
    """The functional form of an in-place call, or None if it has none that yields the same value."""
    attrs = values.loads(node.attrs)
    row, form = _form(node, attrs)
    operands = [graph.nodes[k].outputs for k in node.inputs]
    if row is None or any(len(specs) != 1 for specs in (*operands, node.outputs)):
        return None
    own, others = operands[written][0], [specs[0] for place, specs in enumerate(operands) if place != written]
    if node.outputs[0] != own or not _keeps_dtype(row, own, others, attrs) or not _keeps_strides(row, own, others):
        return None
    return form


def _form(node: Node, attrs: Value) -> tuple[Op | None, Node]:
    """The row of an in-place call in the op table, and the call that yields a new value; no row if there is none."""
    name = node.target.rpartition(".")[2]
    if node.target.startswith(("operator.", "_operator.")) and name in _OPERATORS:
        operator, op = _OPERATORS[name]
        return op_named(f"{op}_"), replace(node, target=f"operator.{operator}")
    if node.op == METHOD:
        row = op_named(name)
        return (row, replace(node, target=name[:-1])) if row is not None and row.is_method else (None, node)
    position = INPLACE_PARAMETER.get(name)
    if position is None or not node.target.startswith("torch.nn.functional."):
        return None, node
    if attrs["kwargs"].get("inplace") is True:
        del attrs["kwargs"]["inplace"]
    elif len(attrs["args"]) > position and attrs["args"][position] is True:
        attrs["args"][position] = False
    else:
        return None, node
    return op_named(f"{name}_"), replace(node, attrs=values.dumps(attrs))


def _keeps_dtype(row: Op, own: TensorSpec, others: Sequence[TensorSpec], attrs: Value) -> bool:
    """Whether the functional call yields the dtype of its first operand."""
    kind = _KINDS.get(dtype_kind(own.dtype), "")
    if not kind or kind not in row.keeps or any(spec.dtype != own.dtype for spec in others):
        return False
    return all(_rank_of(item) <= "bifc".index(kind) for item in values.walk([attrs["args"], *attrs["kwargs"].values()]))


def _rank_of(item: Value) -> int:
    """How high a number stands among truth values, whole, real and complex ones; a dtype stands above all."""
    tag = values.tag_of(item)
    if tag in ("float", "complex", "dtype"):
        return {"float": 2, "complex": 3, "dtype": 4}[tag]
    return 1 if isinstance(item, int) and not isinstance(item, bool) else 0


def _keeps_strides(row: Op, own: TensorSpec, others: Sequence[TensorSpec]) -> bool:
    """Whether the functional call yields the strides of its first operand."""
    if row.is_elementwise:
        return pointwise_strides((own, *others)) == own.stride
    return own.stride == dense_strides(own.shape)
