"""Single ops that compute, each a piece of its own.

Is: `sole_ops(graph)`. Reads a graph, writes nothing; no torch.

Views, tuple reads and dropout outside training compute nothing (`op_classes`), so they are no pieces. An op that yields
a tuple takes the reads of its elements along: they are the piece's outputs.
"""

from collections.abc import Sequence

from fusion_mining.cut import can_cut
from fusion_mining.op_classes import classes_of, is_compute, stands_alone
from schemas.graph import Graph
from schemas.roles import short_name


def sole_ops(graph: Graph, classes: Sequence[str] | None = None) -> list[tuple[int, ...]]:
    """Node indices of every op that computes and can be cut out, by index."""
    found = classes_of(graph) if classes is None else classes
    ops = [index for index, _ in graph.calls() if is_compute(found[index]) and stands_alone(found[index])]
    return [nodes for nodes in (_with_reads(graph, index) for index in ops) if can_cut(graph, nodes)]


def _with_reads(graph: Graph, index: int) -> tuple[int, ...]:
    """An op and, if it yields a tuple that is read by element only, those reads."""
    users = graph.users[index]
    if len(graph.nodes[index].outputs) > 1 and all(short_name(graph.nodes[k].target) == "getitem" for k in users):
        return (index, *users)
    return (index,)
