"""Which pieces a graph has: connected convex sets of fusible ops, grown one op at a time; each set exactly once.

Is: `grow`. Reads a graph, writes nothing; no torch.

A set is *convex* if no path leaves it and comes back: only then can it run as one kernel. A *hub*, a value with more
than `max_users` readers (a mask, a rotary table), is written to memory anyway: it ends a piece, so no set holds a hub
together with one of its readers.

A grown set is *admitted* as a piece if it has enough compute ops, few enough inputs and outputs, only single tensors at
its edge, and no dangling view: a view at its edge would only rename a value, so it stands there only if it is read
twice inside. Views, tuple reads and dropout outside training are free: they do not count as ops.

Views of one value (`Paths.thin`) are never grown for their own sake: a set that one of them dangles from is not built.
A step adds to a set S one solid op x with the views between, or a view v that is read twice, or both at once:

- the closure of S and x, where a thin path joins them;
- the closure of S and v, where v lies above S;
- the closure of S, v and x, where only v, above both, joins them;

each only if all else that it adds is thin. (Closure: all that lies on paths between.) Nothing is missed:

1. Every connected convex set of two or more nodes has a source or sink whose removal leaves it connected (and convex).
   Suppose all its sources and sinks are cut nodes; among all pairs of such a node s and a component C of the rest
   take one with the smallest C, and let s be a source. A sink x of C has no successor in the set (s has no
   predecessors), so x is a sink of the set, hence a cut node; one component of the rest without x holds s and all that
   is outside C, so another lies inside C and is smaller: a contradiction. If s is a sink, mirror this.
2. Let S be such a set without dangling thin nodes, and T what remains of it without the node x of 1 and without the
   thin nodes that dangle then, one after the other. They are leaves, so T is connected and convex; it is smaller.
3. If x is a source, all that was dropped lies on thin paths from x to T (it dangles only for want of x): S is the
   closure of T and x. If x is a solid sink, what was dropped and is not on a path from T to x forms trees, each hanging
   from a thin source v of S, which S reads twice, with leaves at T or x. So S is the closure of T, x and these v: one
   step with x (joined by a thin path, or by one v), then one a further v. No set on the way has a dangling thin node. x
   is not a thin sink: that would dangle.

The sets of a level have as many solid ops; `max_sets` of them are taken further.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fusion_mining.fold import Stretch
from fusion_mining.wiring import Paths, Wiring, bits, mask_of, union
from schemas.graph import Graph


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
    """Most sets with the same number of ops that growth goes on from; beyond it a seeded sample does."""
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
    grown: int
    """Sets that were built."""
    candidates: int
    """Sets that were judged: those built, and all shifts that they stand for."""

    @property
    def places(self) -> Iterator[tuple[int, ...]]:
        """Node indices of every piece at every place."""
        for nodes, (step, more) in zip(self.sets, self.shifts, strict=True):
            for shift in range(0, step * more + 1, step or 1):
                yield tuple([index + shift for index in nodes])


def wiring_of(graph: Graph, config: GrowConfig, classes: Sequence[str] | None = None) -> Wiring:
    """The wiring of a graph under the limits of a configuration; `classes` are the graph's, if known."""
    return Wiring(graph, max_users=config.max_users, contractions=config.contractions > 0, classes=classes)


class _Set(NamedTuple):
    """A convex connected set on its way, with what all its nodes have together."""

    piece: int
    above: int
    below: int
    near: int
    tops: int
    reads: int


class _Folds:
    """The stretches of a graph as masks. A set stands for its shifts by whole periods, and begins in the first one."""

    def __init__(self, span: Sequence[int], stretches: Sequence[Stretch]) -> None:
        self.stretches = stretches
        self.later = 0
        """Nodes that are like one a period earlier."""
        self._of: dict[int, int] = {}
        self._edges: list[tuple[int, int, int]] = []
        for number, item in enumerate(stretches):
            first = item.start + item.period
            self.later |= mask_of(range(first, item.stop))
            self._of.update(dict.fromkeys(range(item.start, first), number))
            outer = ~mask_of(range(first, item.stop))
            exits = mask_of(i for i in range(first, item.stop) if span[i] & outer)
            shifts = range(item.period, item.stop - item.start, item.period)
            self._edges.append((outer, exits, union(exits >> shift for shift in shifts)))

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

    def later_places(self, piece: int) -> Iterator[tuple[int, int]]:
        """(the set at a later place, what lies before the second period or after the last), where it may grow there."""
        number = self._of.get((piece & -piece).bit_length() - 1)
        if number is None or not piece & self._edges[number][2]:
            return
        outer, exits, _ = self._edges[number]
        for _ in range(self.repeats(piece)):
            piece <<= self.stretches[number].period
            if piece & exits:
                yield piece, outer


def grow(graph: Graph, config: GrowConfig, wiring: Wiring | None = None, stretches: Sequence[Stretch] = ()) -> Found:
    """All pieces within the limits of the configuration (a seeded sample where there are too many).

    With stretches (`fold.stretches`) only sets that begin in a first period are grown, each for all its shifts.
    """
    return _Growth(wiring or wiring_of(graph, config), config, stretches).run()


class _Growth:
    """One search; `level` are the sets with as many solid ops as are grown now, `wider` those with one more."""

    def __init__(self, wires: Wiring, config: GrowConfig, stretches: Sequence[Stretch]) -> None:
        self.wires, self.config = wires, config
        self.paths = Paths(wires)
        self.folds = _Folds(self.paths.span, stretches)
        self.level: list[_Set] = []
        self.wider: list[_Set] = []
        self.seen: set[int] = set()
        self.seen_wider: set[int] = set()
        self.pieces: list[int] = []
        self.grown = self.candidates = 0

    def run(self) -> Found:
        """Grow level by level."""
        rng, capped, limit = random.Random(self.config.seed), False, self.config.max_sets
        self.level = [self._gathered(1 << index) for index in bits(self.paths.solid & ~self.folds.later)]
        while self.level:
            self.seen_wider = set()
            for item in self.level:  # grows meanwhile, by sets with one view more
                self._extend(item, self._allowed(item.piece), -1)
                for later, outer in self.folds.later_places(item.piece):
                    self._extend(self._gathered(later), self._allowed(item.piece), outer)
            self.level, self.wider, self.seen = self.wider, [], self.seen_wider
            if len(self.level) > limit:
                capped = True
                self.level = [self.level[k] for k in sorted(rng.sample(range(len(self.level)), limit))]
        chosen = sorted(
            ((tuple(bits(piece)), piece) for piece in self.pieces), key=lambda item: (len(item[0]), item[0])
        )
        return Found(
            sets=tuple(nodes for nodes, _ in chosen), capped=capped, grown=self.grown, candidates=self.candidates,
            shifts=tuple((self.folds.step(piece), self.folds.repeats(piece)) for _, piece in chosen),
        )  # fmt: skip

    def _gathered(self, piece: int) -> _Set:
        wires, paths, nodes = self.wires, self.paths, list(bits(piece))
        return _Set(piece, union(wires.above[k] for k in nodes), union(wires.below[k] for k in nodes),
                    union(paths.near[k] for k in nodes), union(paths.tops[k] for k in nodes),
                    union(wires.reads[k] for k in nodes))  # fmt: skip

    def _allowed(self, piece: int) -> int:
        """The solid ops of which a set may hold one more."""
        wires, allowed = self.wires, self.paths.solid
        if (piece & wires.compute).bit_count() >= self.config.max_ops:
            allowed &= ~wires.compute
        if (piece & wires.heavy).bit_count() >= self.config.contractions:
            allowed &= ~wires.heavy
        return allowed

    def _extend(self, item: _Set, allowed: int, wanted: int) -> None:
        """All steps from a set that add a solid op of `allowed` or a view, and some node of `wanted`."""
        piece, above, below = item.piece, item.above, item.below
        wires, seen = self.wires, self.seen_wider
        rest = item.near & ~piece & allowed
        while rest:
            bit = rest & -rest
            rest ^= bit
            index = bit.bit_length() - 1
            wider = piece | bit | wires.below[index] & above | wires.above[index] & below
            if wider not in seen:
                seen.add(wider)
                if wider & ~piece & wanted:
                    self._keep(item, wider, index)
        for top in bits(item.tops & ~piece):
            wider = piece | 1 << top | wires.below[top] & above
            if wider not in self.seen:
                self.seen.add(wider)
                if wider & ~piece & wanted and self._is_end(top, wider):
                    self._keep(item, wider, top)
            if joined := self.paths.down[top] & allowed & ~item.near & ~piece:
                self._extend_by(item, (top, wider, joined), wanted)

    def _extend_by(self, item: _Set, step: tuple[int, int, int], wanted: int) -> None:
        """The steps that add a view and an op that only it joins to a set; `step`: (view, set with it, ops)."""
        top, through, joined = step
        wires, above = self.wires, item.above
        below, near = item.below | wires.below[top], item.near | self.paths.near[top]
        for index in bits(joined):
            wider = through | 1 << index | wires.below[index] & above | wires.above[index] & below
            if wider not in self.seen_wider:
                self.seen_wider.add(wider)
                if wider & ~item.piece & wanted and self._is_end(top, wider):
                    self._keep(item._replace(below=below, near=near), wider, index)

    def _is_end(self, top: int, wider: int) -> bool:
        """Whether a view may be at the edge of a set."""
        return not self.wires.reads[top] or (self.wires.users[top] & wider).bit_count() > 1

    def _keep(self, item: _Set, wider: int, index: int) -> None:
        """Take up a set grown by a node, if all else that came with it is thin and it keeps within the limits."""
        wires, paths = self.wires, self.paths
        piece, above, below, near, tops, reads = item
        rest = wider ^ piece ^ 1 << index
        if (
            rest & ~paths.thin
            or wider.bit_count() > self.config.max_nodes
            or (wires.hubs & wider and wires.holds_hub(wider))
        ):
            return
        reads |= wires.reads[index]
        while rest:
            low = rest & -rest
            rest ^= low
            reads |= wires.reads[low.bit_length() - 1]
        self.grown += 1
        self.candidates += 1 + self.folds.repeats(wider)
        level = self.wider if paths.solid >> index & 1 else self.level
        level.append(_Set(wider, above | wires.above[index], below | wires.below[index], near | paths.near[index],
                          tops | paths.tops[index], reads))  # fmt: skip
        if self._is_piece(wider, reads & ~wider):
            self.pieces.append(wider)

    def _is_piece(self, piece: int, inputs: int) -> bool:
        """As `Wiring.admits`; thin nodes do not dangle here."""
        wires, config = self.wires, self.config
        if (piece & wires.compute).bit_count() < config.min_ops or inputs & ~wires.edge:
            return False
        if not 0 < inputs.bit_count() <= config.max_inputs:
            return False
        if piece & ~wires.compute & self.paths.solid and wires.dangling(piece):
            return False
        outputs = wires.outputs(piece)
        return 0 < outputs.bit_count() <= config.max_outputs and not outputs & ~wires.edge
