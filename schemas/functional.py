"""In-place calls made functional where nobody can tell: a graph in which more can be mined.

Is: `functionalise(graph)`. Reads a graph, writes nothing; no torch. Node indices stay as they are.

Sound because: a call that writes x in place and yields it is replaced by the call that yields a new value only if no
value that may share storage with x (`schemas.effects`) and existed before the write is read afterwards, or belongs to
the caller (placeholder, constant). Then the write can be seen through the result alone. Operands must share one dtype,
so that the functional call promotes to what the in-place one kept.
"""

from dataclasses import replace

from schemas import effects, values
from schemas.canonical import nested_form
from schemas.effects import MUTATE
from schemas.forms import storage_classes, tokens_of
from schemas.graph import METHOD, Graph, Node
from schemas.roles import METHODS_LIKE_FUNCTIONS

_OPERATORS = {
    "iadd": "add", "isub": "sub", "imul": "mul", "itruediv": "truediv", "ifloordiv": "floordiv", "imod": "mod",
    "ipow": "pow", "iand": "and_", "ior": "or_", "ixor": "xor",
}  # fmt: skip


def functionalise(graph: Graph) -> Graph:
    """The graph with every unobservable in-place call in functional form; the graph itself if there is none."""
    tokens = tokens_of(graph, tuple(nested_form(text) for text in graph.subgraphs))
    writers = [i for i, token in enumerate(tokens) if token.effect is not None and token.effect.kind == MUTATE]
    if not writers:
        return graph
    older = _older(storage_classes(graph, tokens, range(len(graph.nodes))), set(writers))
    nodes = list(graph.nodes)
    for index in writers:
        effect = tokens[index].effect
        assert effect is not None
        if len(effect.writes) == 1 and _unobservable(graph, older[index], index):
            nodes[index] = _functional(graph, nodes[index]) or nodes[index]
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


def _functional(graph: Graph, node: Node) -> Node | None:
    """The functional form of an in-place call, or None if it has none that yields the same value."""
    operands = [graph.nodes[k].outputs for k in node.inputs]
    if any(len(specs) != 1 for specs in operands) or len(node.outputs) != 1:
        return None
    spec = node.outputs[0]
    if any(other[0].dtype != spec.dtype for other in operands) or operands[0][0].shape != spec.shape:
        return None
    name = node.target.rpartition(".")[2]
    attrs = values.loads(node.attrs)
    if node.target.startswith(("operator.", "_operator.")) and name in _OPERATORS:
        return replace(node, target=f"operator.{_OPERATORS[name]}")
    if node.op == METHOD and name.endswith("_") and name[:-1] in METHODS_LIKE_FUNCTIONS:
        return replace(node, target=name[:-1])
    position = effects.INPLACE_PARAMETER.get(name)
    if attrs["kwargs"].get("inplace") is True:
        del attrs["kwargs"]["inplace"]
        return replace(node, attrs=values.dumps(attrs))
    if position is not None and len(attrs["args"]) > position and attrs["args"][position] is True:
        attrs["args"][position] = False
        return replace(node, attrs=values.dumps(attrs))
    return None
