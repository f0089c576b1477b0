"""A graph as bit masks over its node indices: what reads what, what lies above and below, which ops are neighbours.

Is: `Wiring` (what may stand in a piece, and what a set of nodes reads and yields) and `Paths` (which ops are next to
each other where views between them do not count). Reads a graph, writes nothing; no torch.
"""

from collections.abc import Iterable, Iterator, Sequence

from fusion_mining.cut import can_be_edge
from fusion_mining.op_classes import CONTRACTION, classes_of, is_compute, is_fusible
from schemas.graph import CONSTANT, SUBGRAPH, Graph


def bits(mask: int) -> Iterator[int]:
    """Positions of the set bits, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def mask_of(indices: Iterable[int]) -> int:
    """The mask with some bits set."""
    found = 0
    for index in indices:
        found |= 1 << index
    return found


def union(masks: Iterable[int]) -> int:
    """All bits that are set in some mask."""
    found = 0
    for mask in masks:
        found |= mask
    return found


class Wiring:
    """What may stand in a piece, and what a set of nodes reads and yields.

    A value with more than `max_users` readers is a hub; `contractions` says whether contractions may stand in a piece.
    """

    def __init__(
        self, graph: Graph, *, max_users: int, contractions: bool = False, classes: Sequence[str] | None = None
    ) -> None:
        nodes = graph.nodes
        found = classes_of(graph) if classes is None else classes
        calls = [index for index, node in enumerate(nodes) if node.is_call]
        self.users = [mask_of(users) for users in graph.users]
        copied = frozenset(i for i, node in enumerate(nodes) if node.op in (CONSTANT, SUBGRAPH))
        self.reads = [mask_of(k for k in node.inputs if k not in copied) for node in nodes]
        self.heavy = mask_of(i for i in calls if found[i] == CONTRACTION and self.users[i] and contractions)
        self.fusible = mask_of(i for i in calls if is_fusible(found[i]) and self.users[i]) | self.heavy
        self.compute = mask_of(i for i in calls if is_compute(found[i]))
        self.edge = mask_of(i for i in range(len(nodes)) if can_be_edge(nodes[i]))
        call_mask = mask_of(calls)
        self.above = [0] * len(nodes)
        self.below = [0] * len(nodes)
        for index in calls:
            for kid in bits(self.reads[index] & call_mask):
                self.above[index] |= self.above[kid] | 1 << kid
        for index in reversed(calls):
            for user in bits(self.users[index] & call_mask):
                self.below[index] |= self.below[user] | 1 << user
        self.hubs = mask_of(i for i in calls if self.users[i].bit_count() > max_users)

    def sources(self, index: int) -> int:
        """What a node reads and may share a piece with."""
        return self.reads[index] & ~self.hubs & self.fusible

    def readers(self, index: int) -> int:
        """What reads a node and may share a piece with it."""
        return 0 if self.hubs >> index & 1 else self.users[index] & self.fusible

    def holds_hub(self, piece: int) -> bool:
        """Whether a set holds a hub together with one of its readers."""
        return any(self.users[hub] & piece for hub in bits(piece & self.hubs))

    def closure(self, piece: int, above: int, below: int, node: int) -> int:
        """The smallest convex set that holds a convex piece and one more node.

        `above` and `below` are what lies above and below the nodes of the piece.
        """
        return piece | 1 << node | self.below[node] & above | self.above[node] & below

    def outputs(self, piece: int) -> int:
        """The nodes of a piece that are read outside it."""
        found, rest, outside = 0, piece, ~piece
        while rest:
            bit = rest & -rest
            rest ^= bit
            if self.users[bit.bit_length() - 1] & outside:
                found |= bit
        return found

    def inputs(self, piece: int) -> int:
        """The nodes outside a piece that it reads, constants left out."""
        return union(self.reads[index] for index in bits(piece)) & ~piece

    def dangling(self, piece: int) -> int:
        """The free nodes at the edge of a piece that are not read twice inside it."""
        found = 0
        for index in bits(piece & ~self.compute):
            inside = self.users[index] & piece
            is_source = self.reads[index] and not self.reads[index] & piece
            if not inside or (is_source and inside.bit_count() < 2):
                found |= 1 << index
        return found

    def admits(self, piece: int, min_ops: int, max_inputs: int, max_outputs: int) -> bool:
        """Whether a convex connected set is a piece: enough compute ops, nothing dangling, few values at its edge."""
        if (piece & self.compute).bit_count() < min_ops or self.dangling(piece):
            return False
        inputs, outputs = self.inputs(piece), self.outputs(piece)
        small = 0 < inputs.bit_count() <= max_inputs and 0 < outputs.bit_count() <= max_outputs
        return small and not (inputs | outputs) & ~self.edge


class Paths:
    """Which ops are next to each other where views between them do not count.

    *Thin* is a free node with at most one operand that may share its piece: a view of one value. All others are
    *solid*. A path is *thin* if every node between its ends is.
    """

    def __init__(self, wires: Wiring) -> None:
        size = len(wires.users)
        free = wires.fusible & ~wires.compute & ~wires.hubs
        self.thin = mask_of(i for i in bits(free) if wires.sources(i).bit_count() <= 1)
        self.solid = free & ~self.thin | wires.fusible & wires.compute
        self.down = [0] * size
        """The solid nodes at the ends of thin paths that lead down from a node."""
        self.near = [0] * size
        """The solid nodes at the ends of thin paths that lead up or down from a node."""
        self.tops = [0] * size
        """The thin nodes above a node, on thin paths to it, that may end a piece: read twice, or reading nothing."""
        self.span = [0] * size
        """All that one step from a node may add (`grow`)."""
        self._wires = wires
        self._follow()

    def _follow(self) -> None:
        wires, thin = self._wires, self.thin
        parts = list(bits(thin | self.solid))
        views, ups, fans = [0] * len(self.down), [0] * len(self.down), [0] * len(self.down)
        for index in reversed(parts):
            readers = wires.readers(index)
            self.down[index] = readers & self.solid | union(self.down[k] for k in bits(readers & thin))
            views[index] = readers & thin | union(views[k] for k in bits(readers & thin))
        for index in parts:
            sources = wires.sources(index)
            above = list(bits(sources & thin))
            ends = mask_of(k for k in above if wires.users[k].bit_count() > 1 or not wires.reads[k])
            ups[index] = sources & self.solid | union(ups[k] for k in above)
            fans[index] = (
                sources & thin | union(fans[k] for k in above) | union(self.down[k] | views[k] for k in bits(ends))
            )
            self.tops[index] = ends | union(self.tops[k] for k in above)
            self.near[index] = self.down[index] | ups[index]
            self.span[index] = self.near[index] | views[index] | fans[index]
