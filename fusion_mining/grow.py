"""Which pieces a graph has: connected convex sets of fusible ops, grown one node at a time; each set exactly once.

Is: `grow` (all small pieces) and `regions` (the largest ones). Reads a graph, writes nothing; no torch.

A set is *convex* if no path leaves it and comes back: only then can it run as one kernel. Growth adds a neighbour only
if the larger set is convex too. Nothing is missed: every connected convex set of two or more nodes has a source or
sink whose removal leaves it connected (and convex). Proof: suppose all its sources and sinks are cut nodes; among all
pairs of such a node s and a component C of the rest take one with the smallest C, and let s be a source. A sink x of C
has no successor in the set (s has no predecessors), so x is a sink of the set, hence a cut node; one component of the
rest without x holds s and all that is outside C, so another lies inside C and is smaller: a contradiction. The case
that s is a sink is the mirror image.

A *hub*, a value with more than `max_users` readers (a mask, a rotary table), is written to memory anyway: it ends a
piece, so no set holds a hub together with one of its readers. The proof is untouched: inside a set every edge counts.

A grown set is *admitted* as a piece if it has enough compute ops, few enough inputs and outputs, only single tensors at
its edge, and no dangling view: a view at its edge would only rename a value, so it stands there only if it is read
twice inside. Views, tuple reads and dropout outside training are free: they do not count as ops.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fusion_mining.cut import can_be_edge
from fusion_mining.op_classes import classes_of, is_compute, is_fusible
from schemas.graph import CONSTANT, SUBGRAPH, Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowConfig:
    """Limits of the search."""

    min_ops: int = 2
    """Fewest compute ops of a piece."""
    max_ops: int = 6
    """Most compute ops of a grown piece."""
    max_nodes: int = 14
    """Most nodes of a grown piece, free ones included."""
    max_inputs: int = 8
    """Most inputs of a grown piece."""
    max_outputs: int = 2
    """Most outputs of a grown piece."""
    max_users: int = 8
    """Most readers of a value that does not end a piece."""
    max_sets: int = 3_000
    """Most sets of one size that growth goes on from; beyond it a seeded sample does."""
    region_ops: int = 24
    """Most compute ops of a region."""
    region_inputs: int = 12
    """Most inputs of a region."""
    region_outputs: int = 3
    """Most outputs of a region."""
    seed: int = 0
    """Seed of the sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The pieces of a graph."""

    sets: tuple[tuple[int, ...], ...]
    """Node indices of each piece, ascending; small pieces first, then by indices."""
    capped: bool
    """Whether the search was cut short by `max_sets`."""


def bits(mask: int) -> Iterator[int]:
    """Positions of the set bits, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Wiring:
    """A graph as bit masks over its node indices."""

    def __init__(self, graph: Graph, config: GrowConfig, classes: Sequence[str] | None = None) -> None:
        nodes = graph.nodes
        found = classes_of(graph) if classes is None else classes
        calls = [index for index, node in enumerate(nodes) if node.is_call]
        self.users = [sum(1 << user for user in users) for users in graph.users]
        copied = frozenset(i for i, node in enumerate(nodes) if node.op in (CONSTANT, SUBGRAPH))
        self.reads = [_mask(k for k in node.inputs if k not in copied) for node in nodes]
        self.fusible = _mask(i for i in calls if is_fusible(found[i]) and self.users[i])
        self.compute = _mask(i for i in calls if is_compute(found[i]))
        self.edge = _mask(i for i in range(len(nodes)) if can_be_edge(nodes[i]))
        call_mask = _mask(calls)
        self.above = [0] * len(nodes)
        self.below = [0] * len(nodes)
        for index in calls:
            for kid in bits(self.reads[index] & call_mask):
                self.above[index] |= self.above[kid] | 1 << kid
        for index in reversed(calls):
            for user in bits(self.users[index] & call_mask):
                self.below[index] |= self.below[user] | 1 << user
        self.hubs = _mask(i for i in calls if self.users[i].bit_count() > config.max_users)
        joined = [self.users[i] if not self.hubs >> i & 1 else 0 for i in range(len(nodes))]
        self.near = [(self.reads[i] & ~self.hubs | joined[i]) & self.fusible for i in range(len(nodes))]

    def meets_hub(self, piece: int, node: int) -> bool:
        """Whether a node reads a hub of a piece, or is a hub that the piece reads."""
        return bool(self.reads[node] & self.hubs & piece or (self.hubs >> node & 1 and self.users[node] & piece))

    def stays_convex(self, piece: int, above: int, below: int, node: int) -> bool:
        """Whether a convex piece with the given ancestors and descendants stays convex with one more node."""
        outside = ~(piece | 1 << node)
        return not (self.below[node] & above & outside or self.above[node] & below & outside)

    def closure(self, piece: int, above: int, below: int, node: int) -> int:
        """The smallest convex set that holds a convex piece and one more node."""
        return piece | 1 << node | self.below[node] & above | self.above[node] & below

    def outputs(self, piece: int) -> int:
        """The nodes of a piece that are read outside it."""
        return _mask(i for i in bits(piece) if self.users[i] & ~piece)

    def inputs(self, piece: int) -> int:
        """The nodes outside a piece that it reads, constants left out."""
        found = 0
        for index in bits(piece):
            found |= self.reads[index]
        return found & ~piece

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
        """Whether a convex connected set is a piece."""
        if (piece & self.compute).bit_count() < min_ops or self.dangling(piece):
            return False
        inputs, outputs = self.inputs(piece), self.outputs(piece)
        small = 0 < inputs.bit_count() <= max_inputs and 0 < outputs.bit_count() <= max_outputs
        return small and not (inputs | outputs) & ~self.edge


def _mask(indices: Iterator[int] | Sequence[int]) -> int:
    found = 0
    for index in indices:
        found |= 1 << index
    return found


@dataclass(frozen=True, slots=True)
class _Grown:
    """A convex connected set on its way."""

    piece: int
    above: int
    below: int
    near: int


def grow(graph: Graph, config: GrowConfig, wiring: Wiring | None = None) -> Found:
    """All pieces within the limits of the configuration (a seeded sample where there are too many)."""
    wires = wiring or Wiring(graph, config)
    rng = random.Random(config.seed)
    level = [_single(wires, index) for index in bits(wires.fusible)]
    pieces: list[int] = []
    capped = False
    for _ in range(config.max_nodes - 1):
        level = _larger(wires, level, config.max_ops)
        pieces += [
            item.piece for item in level
            if wires.admits(item.piece, config.min_ops, config.max_inputs, config.max_outputs)
        ]  # fmt: skip
        if len(level) > config.max_sets:
            capped = True
            level = [level[k] for k in sorted(rng.sample(range(len(level)), config.max_sets))]
        if not level:
            break
    return _found(pieces, capped)


def _single(wires: Wiring, index: int) -> _Grown:
    return _Grown(1 << index, wires.above[index], wires.below[index], wires.near[index])


def _larger(wires: Wiring, level: list[_Grown], max_ops: int) -> list[_Grown]:
    """All convex sets with one node more than those of a level, each once."""
    seen: set[int] = set()
    found = []
    for item in level:
        full = (item.piece & wires.compute).bit_count() >= max_ops
        candidates = item.near & ~item.piece & (~wires.compute if full else -1)
        for index in bits(candidates):
            piece = item.piece | 1 << index
            if piece in seen:
                continue
            seen.add(piece)
            if wires.meets_hub(item.piece, index):
                continue
            if wires.stays_convex(item.piece, item.above, item.below, index):
                found.append(
                    _Grown(piece, item.above | wires.above[index], item.below | wires.below[index],
                           item.near | wires.near[index])
                )  # fmt: skip
    return found


def _found(pieces: Sequence[int], capped: bool) -> Found:
    sets = sorted({tuple(bits(piece)) for piece in pieces}, key=lambda nodes: (len(nodes), nodes))
    return Found(sets=tuple(sets), capped=capped)


def regions(graph: Graph, config: GrowConfig, wiring: Wiring | None = None) -> Found:
    """Disjoint large pieces: from the first fusible node on, everything around it that can be added."""
    wires = wiring or Wiring(graph, config)
    free = wires.fusible
    pieces = []
    while free:
        region = _region(wires, free & -free, free, config.region_ops)
        free &= ~region
        trimmed = _trim(wires, region)
        if wires.admits(trimmed, config.min_ops, config.region_inputs, config.region_outputs):
            pieces.append(trimmed)
    return _found(pieces, False)


def _region(wires: Wiring, start: int, free: int, max_ops: int) -> int:
    """A convex connected set of free nodes around a first one, grown by closures until nothing fits."""
    piece = start
    while True:
        larger = _step(wires, piece, lambda wider: _fits(wires, wider, free, max_ops))
        if larger == piece:
            return piece
        piece = larger


def _fits(wires: Wiring, piece: int, free: int, max_ops: int) -> bool:
    if piece & ~free or (piece & wires.compute).bit_count() > max_ops:
        return False
    return not any(wires.users[hub] & piece for hub in bits(piece & wires.hubs))


def _step(wires: Wiring, piece: int, fits: Callable[[int], bool]) -> int:
    above = below = near = 0
    for index in bits(piece):
        above, below, near = above | wires.above[index], below | wires.below[index], near | wires.near[index]
    for index in bits(near & ~piece):
        wider = wires.closure(piece, above, below, index)
        if fits(wider):
            return wider
    return piece


def _trim(wires: Wiring, piece: int) -> int:
    """A piece without the views that dangle from it (removing sources and sinks keeps it convex)."""
    while dangling := wires.dangling(piece):
        piece &= ~dangling
    return piece
