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
from typing import NamedTuple

from fusion_mining.cut import can_be_edge
from fusion_mining.fold import Stretch
from fusion_mining.op_classes import CONTRACTION, classes_of, is_compute, is_fusible
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
    contractions: int = 0
    """Most contractions of a grown piece. 1 also mines a contraction with what stands before and after it (prologue and
    epilogue); without, a contraction ends a piece."""
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
    shifts: tuple[tuple[int, int], ...]
    """For each piece (distance, number of more places that far apart from one another)."""
    capped: bool
    """Whether the search was cut short by `max_sets`."""

    @property
    def places(self) -> Iterator[tuple[int, ...]]:
        """Node indices of every piece at every place."""
        for nodes, (step, more) in zip(self.sets, self.shifts, strict=True):
            for shift in range(0, step * more + 1, step or 1):
                yield tuple([index + shift for index in nodes])


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
        self.heavy = _mask(i for i in calls if found[i] == CONTRACTION and self.users[i] and config.contractions)
        self.fusible = _mask(i for i in calls if is_fusible(found[i]) and self.users[i]) | self.heavy
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

    def closure(self, piece: int, above: int, below: int, node: int) -> int:
        """The smallest convex set that holds a convex piece and one more node."""
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
        return self.is_bounded(piece, max_inputs, max_outputs)

    def is_bounded(self, piece: int, max_inputs: int, max_outputs: int) -> bool:
        """Whether a set has some inputs and outputs, not too many, each of which may be at the edge of a piece."""
        inputs, outputs = self.inputs(piece), self.outputs(piece)
        small = 0 < inputs.bit_count() <= max_inputs and 0 < outputs.bit_count() <= max_outputs
        return small and not (inputs | outputs) & ~self.edge


def _mask(indices: Iterator[int] | Sequence[int]) -> int:
    found = 0
    for index in indices:
        found |= 1 << index
    return found


class _Grown(NamedTuple):
    """A convex connected set on its way, with what all its nodes have together."""

    piece: int
    above: int
    below: int
    near: int
    reads: int
    users: int


class _Wider(NamedTuple):
    """A convex connected set of one node more: what it was grown from, and the node."""

    piece: int
    grown: _Grown
    added: int


class _Folds:
    """The stretches of a graph as masks. A set stands for its shifts by whole periods, and begins in the first one."""

    def __init__(self, wires: Wiring, stretches: Sequence[Stretch]) -> None:
        self.stretches = stretches
        self.later = 0
        """Nodes that are like one a period earlier."""
        self._of: dict[int, int] = {}
        self._edges: list[tuple[int, int, int]] = []
        for number, item in enumerate(stretches):
            first = item.start + item.period
            self.later |= _mask(range(first, item.stop))
            self._of.update(dict.fromkeys(range(item.start, first), number))
            outer = ~_mask(range(first, item.stop))
            exits = _mask(i for i in range(first, item.stop) if wires.near[i] & outer)
            shifts = range(item.period, item.stop - item.start, item.period)
            self._edges.append((outer, exits, _union(exits >> shift for shift in shifts)))

    def repeats(self, piece: int) -> int:
        """How often a set that begins in a first period, or in none, stands again."""
        number = self._of.get((piece & -piece).bit_length() - 1)
        if number is None:
            return 0
        item = self.stretches[number]
        return max(0, (item.stop - piece.bit_length()) // item.period)

    def step(self, piece: int) -> int:
        """The period of a set that begins in a first one."""
        number = self._of.get((piece & -piece).bit_length() - 1)
        return self.stretches[number].period if number is not None else 0

    def later_steps(self, wires: Wiring, item: _Grown) -> Iterator[tuple[_Grown, int]]:
        """(a set at a later place, nodes near it before the second period or after the last), where there are any."""
        number = self._of.get((item.piece & -item.piece).bit_length() - 1)
        if number is None or not item.piece & self._edges[number][2]:
            return
        outer, exits, _ = self._edges[number]
        step, moved = self.stretches[number].period, item.piece
        for _ in range(self.repeats(moved)):
            moved <<= step
            touching = moved & exits
            near = _union(wires.near[index] for index in bits(touching)) & outer & ~moved if touching else 0
            if near:
                yield _gathered(wires, moved), near


def _union(masks: Iterator[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def grow(graph: Graph, config: GrowConfig, wiring: Wiring | None = None, stretches: Sequence[Stretch] = ()) -> Found:
    """All pieces within the limits of the configuration (a seeded sample where there are too many).

    With stretches (`fold.stretches`) only sets that begin in a first period are grown, each for all its shifts.
    """
    wires = wiring or Wiring(graph, config)
    folds = _Folds(wires, stretches)
    rng = random.Random(config.seed)
    level = [_gathered(wires, 1 << index) for index in bits(wires.fusible & ~folds.later)]
    pieces: list[int] = []
    capped = False
    for _ in range(config.max_nodes - 1):
        wider = _larger(wires, folds, level, config)
        pieces += [item.piece for item in wider if _is_piece(wires, item, config)]
        if len(wider) > config.max_sets:
            capped = True
            wider = [wider[k] for k in sorted(rng.sample(range(len(wider)), config.max_sets))]
        if not wider:
            break
        level = [_joined(wires, item) for item in wider]
    return _found(pieces, capped, folds)


def _gathered(wires: Wiring, piece: int) -> _Grown:
    above = below = near = reads = users = 0
    for index in bits(piece):
        above, below, near = above | wires.above[index], below | wires.below[index], near | wires.near[index]
        reads, users = reads | wires.reads[index], users | wires.users[index]
    return _Grown(piece, above, below, near, reads, users)


def _joined(wires: Wiring, item: _Wider) -> _Grown:
    piece, grown, index = item
    return _Grown(
        piece, grown.above | wires.above[index], grown.below | wires.below[index], grown.near | wires.near[index],
        grown.reads | wires.reads[index], grown.users | wires.users[index],
    )  # fmt: skip


def _is_piece(wires: Wiring, item: _Wider, config: GrowConfig) -> bool:
    """As `Wiring.admits`, what is cheap to see first: most sets fall at the first three tests."""
    piece, grown, index = item
    if (piece & wires.compute).bit_count() < config.min_ops:
        return False
    reads = grown.reads | wires.reads[index]
    free = piece & ~wires.compute
    if free & ~reads or (reads & ~piece).bit_count() > config.max_inputs:
        return False
    if free and free & ~(grown.users | wires.users[index]) and wires.dangling(piece):
        return False
    return wires.is_bounded(piece, config.max_inputs, config.max_outputs)


def _larger(wires: Wiring, folds: _Folds, level: list[_Grown], config: GrowConfig) -> list[_Wider]:
    """All convex sets with one node more than those of a level, each once."""
    seen: set[int] = set()
    found: list[_Wider] = []
    for item in level:
        free = ~wires.compute if (item.piece & wires.compute).bit_count() >= config.max_ops else -1
        if (item.piece & wires.heavy).bit_count() >= config.contractions:
            free &= ~wires.heavy
        _extend(wires, item, item.near & ~item.piece & free, (seen, found))
        for later, near in folds.later_steps(wires, item):
            _extend(wires, later, near & free, (seen, found))
    return found


def _extend(wires: Wiring, item: _Grown, candidates: int, out: tuple[set[int], list[_Wider]]) -> None:
    """Add to `out` (sets seen, sets found) every convex set of an item and one of some nodes near it."""
    seen, found = out
    piece, above, below = item.piece, item.above, item.below
    wires_above, wires_below, hubs = wires.above, wires.below, wires.hubs
    while candidates:
        bit = candidates & -candidates
        candidates ^= bit
        wider = piece | bit
        if wider in seen:
            continue
        seen.add(wider)
        index = bit.bit_length() - 1
        down, up = wires_below[index] & above, wires_above[index] & below
        if (down and down & wider != down) or (up and up & wider != up) or (hubs and wires.meets_hub(piece, index)):
            continue
        found.append(_Wider(wider, item, index))


def _found(pieces: Sequence[int], capped: bool, folds: _Folds | None = None) -> Found:
    chosen = sorted(((tuple(bits(piece)), piece) for piece in set(pieces)), key=lambda item: (len(item[0]), item[0]))
    return Found(
        sets=tuple(nodes for nodes, _ in chosen), capped=capped,
        shifts=tuple((folds.step(piece), folds.repeats(piece)) if folds else (0, 0) for _, piece in chosen),
    )  # fmt: skip


def regions(graph: Graph, config: GrowConfig, wiring: Wiring | None = None) -> Found:
    """Disjoint large pieces: from the first fusible node on, everything around it that can be added."""
    wires = wiring or Wiring(graph, config)
    free = wires.fusible & ~wires.heavy
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
