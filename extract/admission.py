"""What a captured graph must survive to become a row.

    specs = check_rebuilt(graph)                # IR -> FX -> IR is the identity, fake propagation agrees
    needed = estimate_bytes(graph, specs)       # what running it takes, for `extract.numeric`

Reads nothing but its arguments and writes nothing. Raises RoundtripError.
"""

from collections.abc import Sequence
from dataclasses import replace

from extract.failures import RoundtripError
from schemas.fx import lift, lower
from schemas.graph import Graph, Node, TensorSpec
from schemas.propagation import propagate

GIB = 1 << 30
_MARGIN = 1.15
"""Allocator slack and the workspace of one operation, relative to what is counted."""
VIEWS = frozenset({
    "view", "reshape", "transpose", "permute", "expand", "t", "unsqueeze", "squeeze", "flatten", "chunk", "split",
    "unbind", "select", "narrow", "contiguous", "detach", "expand_as", "view_as", "swapaxes", "movedim", "unflatten",
    "mT", "T", "getattr", "getitem", "dropout", "to",
})  # fmt: skip
"""Last names of targets whose result usually shares the memory of its first operand."""


# --- rebuilding -----------------------------------------------------------------------------------------------------
def check_rebuilt(graph: Graph) -> list[tuple[TensorSpec, ...]]:
    """Raise RoundtripError unless the graph survives lowering; -> the propagated specs of every node.

    Strides of results are no part of it: they follow from the ops, and an op may lay out real values, fake ones and
    those of a sub-class differently. `settled` puts those of the propagation into the graph.
    """
    again = lift(lower(graph))
    if again != graph:
        raise RoundtripError(_first_difference(graph, again))
    specs = propagate(graph)
    for index, (node, found) in enumerate(zip(graph.nodes, specs, strict=True)):
        if node.is_call and node.outputs and not _agree(node.outputs, found):
            raise RoundtripError(
                f"node {index} ({node.target}): recorded {_show(node.outputs)}, rebuilt {_show(found)}"
            )
    return specs


def _agree(recorded: Sequence[TensorSpec], found: Sequence[TensorSpec]) -> bool:
    """Whether specs differ in nothing but strides."""
    return len(recorded) == len(found) and all(
        (left.dtype, left.shape, left.device) == (right.dtype, right.shape, right.device)
        for left, right in zip(recorded, found, strict=True)
    )


def settled(graph: Graph, specs: Sequence[tuple[TensorSpec, ...]]) -> Graph:
    """The graph with the propagated specs of every call, so that propagating it again gives what it states."""
    nodes = tuple(
        replace(node, outputs=found) if node.is_call and node.outputs else node
        for node, found in zip(graph.nodes, specs, strict=True)
    )
    return replace(graph, nodes=nodes)


def _first_difference(graph: Graph, again: Graph) -> str:
    for index, (left, right) in enumerate(zip(graph.nodes, again.nodes, strict=False)):
        if left != right:
            return f"node {index}: {_brief(left)} came back as {_brief(right)}"
    return f"{len(graph.nodes)} nodes came back as {len(again.nodes)}, or initialisers or nested graphs changed"


def _brief(node: Node) -> str:
    return f"{node.op} {node.target} {node.attrs[:80]} {_show(node.outputs)}"


def _show(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(f"{spec.dtype}{list(spec.shape)}" for spec in specs[:4]) or "nothing"


# --- memory ---------------------------------------------------------------------------------------------------------
def estimate_bytes(graph: Graph, specs: Sequence[tuple[TensorSpec, ...]]) -> int:
    """Peak bytes of running a graph once: all placeholders and constants, plus the largest set of live values.

    `specs` are those of every node, as `propagate` gives them. A view counts nothing but keeps its operand alive.
    """
    last = _last_uses(graph)
    held = sum(_nbytes(found) for node, found in zip(graph.nodes, specs, strict=True) if not node.is_call)
    ends: dict[int, int] = {}
    live = peak = 0
    for index, node in enumerate(graph.nodes):
        if node.is_call and not is_view(node):
            size = _nbytes(specs[index])
            live += size
            ends[last[index]] = ends.get(last[index], 0) + size
        peak = max(peak, live)
        live -= ends.get(index, 0)
    return int((held + peak) * _MARGIN)


def is_view(node: Node) -> bool:
    """Whether a call's result usually shares the memory of its first operand."""
    return bool(node.inputs) and node.target.rsplit(".", 1)[-1] in VIEWS


def _last_uses(graph: Graph) -> list[int]:
    """For every node the index of the last node that reads it or a view of it."""
    last = list(range(len(graph.nodes)))
    for index in reversed(range(len(graph.nodes))):
        node = graph.nodes[index]
        for source in node.inputs:
            last[source] = max(last[source], index)
        if is_view(node):
            last[node.inputs[0]] = max(last[node.inputs[0]], last[index])
    return last


def _nbytes(specs: Sequence[TensorSpec]) -> int:
    return sum(spec.nbytes for spec in specs)
