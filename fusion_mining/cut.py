"""A piece of a graph as a graph of its own: cut from the IR, never traced again.

Is: `cut(graph, nodes)`. Reads a graph, writes nothing; no torch.

    piece = cut(parent, (12, 13, 17))     # indices of the call nodes of a convex set

What the piece reads becomes a placeholder, in order of first use: the parent's placeholders keep role and initialiser,
an intermediate value becomes an input with an initialiser for its dtype; constants and nested graphs are copied.
Its outputs are the values that the rest of the parent reads, in order, as one flat tuple.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from schemas import values
from schemas.graph import OUTPUT, PLACEHOLDER, SCALAR_DTYPES, Graph, Node

_NORMAL = '{"kind":"normal","mean":0.0,"std":1.0}'
_BOOL = '{"kind":"bool","p":0.5}'
_INTEGERS = '{"kind":"integers","low":0,"high":2}'


def outputs_of(graph: Graph, nodes: Iterable[int]) -> list[int]:
    """The nodes of a set that are read outside it, ascending."""
    inside = frozenset(nodes)
    return [index for index in sorted(inside) if any(user not in inside for user in graph.users[index])]


def inputs_of(graph: Graph, nodes: Sequence[int]) -> list[int]:
    """The nodes outside a set that it reads, constants and nested graphs left out, in order of first use."""
    inside = frozenset(nodes)
    read = dict.fromkeys(k for index in sorted(inside) for k in graph.nodes[index].inputs if k not in inside)
    return [k for k in read if graph.nodes[k].is_call or graph.nodes[k].op == PLACEHOLDER]


def initialiser_of(node: Node) -> str:
    """The initialiser of a placeholder that stands for an intermediate value."""
    dtype = node.outputs[0].dtype
    if dtype == "bool":
        return _BOOL
    return _INTEGERS if dtype.startswith(("int", "uint")) else _NORMAL


def can_be_edge(node: Node) -> bool:
    """Whether a piece may read or yield the value of a node: one tensor, or a scalar that the caller gives."""
    one = len(node.outputs) == 1
    return one and (node.op == PLACEHOLDER or node.outputs[0].dtype not in SCALAR_DTYPES)


def can_cut(graph: Graph, nodes: Sequence[int]) -> bool:
    """Whether some call nodes read and yield something, and nothing but values that may be at the edge of a piece."""
    sources, outputs = inputs_of(graph, nodes), outputs_of(graph, nodes)
    return bool(sources and outputs) and all(can_be_edge(graph.nodes[k]) for k in (*sources, *outputs))


def cut(graph: Graph, nodes: Iterable[int]) -> Graph:
    """The piece made of some call nodes of a graph.

    Raises ValueError if it reads or yields anything but single tensors (a tuple whose reader or maker is outside), or
    if it yields nothing.
    """
    wanted = sorted(nodes)
    sources, outputs = inputs_of(graph, wanted), outputs_of(graph, wanted)
    if not outputs:
        raise ValueError("a piece yields something, but nothing outside reads any of these nodes")
    for index in (*sources, *outputs):
        _demand_tensor(graph, index)
    inside = frozenset(wanted)
    leaves = sorted({k for index in wanted for k in graph.nodes[index].inputs} - inside - frozenset(sources))
    position = {old: new for new, old in enumerate((*sources, *leaves, *wanted))}
    built = [_as_placeholder(graph.nodes[index]) for index in sources]
    built += [graph.nodes[index] for index in leaves]
    built += [replace(graph.nodes[k], inputs=tuple(position[s] for s in graph.nodes[k].inputs)) for k in wanted]
    attrs = values.dumps({"args": [{"tuple": [{"in": k} for k in range(len(outputs))]}], "kwargs": {}})
    inputs = tuple(position[index] for index in outputs)
    output = Node(op=OUTPUT, name="output", target="", inputs=inputs, attrs=attrs, outputs=())
    given = dict(zip(graph.placeholders, graph.inits, strict=True))
    inits = tuple(given[index] if index in given else initialiser_of(graph.nodes[index]) for index in sources)
    return Graph(nodes=(*built, output), inits=inits, subgraphs=graph.subgraphs if leaves else ())


def _demand_tensor(graph: Graph, index: int) -> None:
    node = graph.nodes[index]
    if not can_be_edge(node):
        raise ValueError(
            f"the edge of a piece is one tensor, but node {index} ({node.name!r}) yields {len(node.outputs)} values"
        )


def _as_placeholder(node: Node) -> Node:
    if node.op == PLACEHOLDER:
        return node
    return Node(op=PLACEHOLDER, name=node.name, target="input", inputs=(), attrs="{}", outputs=node.outputs)
