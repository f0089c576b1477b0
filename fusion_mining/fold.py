"""Stretches of a graph that repeat themselves, call by call: what is grown in the first period stands in all others.

Is: `stretches(graph, records, classes)`. Reads a graph, writes nothing; no torch.

A *stretch* of period p is a run of consecutive call nodes in which every node i is like node i + p: same exact record,
class and outputs, readers at the same distances, operands alike. Two operands are alike if they lie p apart, or
outside the stretch and are calls with the same outputs or leaves of one record; which outside value stands for which
must be one-to-one over the stretch. Then a set of nodes inside it and the same set p later, still inside, have

- the same inner edges, and both or neither are convex: all paths between nodes of a set stay between its first and its
  last index, hence inside the stretch;
- outside readers at the same nodes, and as many inputs of the same kinds;

so that both or neither are pieces, with equal keys. Every such set is a shift of one that begins in the first period.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schemas.graph import OUTPUT, Graph

MAX_PERIODS = 24
"""Most distances that are tried as periods."""
NEXT_ALIKE = 6
"""How many later nodes alike a node votes for."""
MIN_FOLDED = 8
"""Fewest nodes that make a stretch worth its while."""
MAX_RESTARTS = 64
"""Most values inside a stretch that end it because all its periods share them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A run of call nodes that repeats itself."""

    start: int
    """Index of its first node."""
    stop: int
    """Index after its last node; at least two periods after the first."""
    period: int
    """The distance of nodes alike."""

    @property
    def folded(self) -> int:
        """Nodes that are like one a period earlier."""
        return self.stop - self.start - self.period


def stretches(
    graph: Graph, records: Sequence[bytes], classes: Sequence[str], *, least: int = MIN_FOLDED
) -> list[Stretch]:
    """Disjoint stretches that fold at least `least` nodes, ascending: the longest, then what is left of the others."""
    looks = _looks(graph, records, classes)
    found = [item for period in _periods(looks) for item in _with_period(graph, looks, period, least)]
    chosen: list[Stretch] = []
    for item in sorted(found, key=lambda item: (-item.folded, item.period, item.start)):
        chosen.extend(_left_of(item, chosen, least))
    return sorted(chosen, key=lambda item: item.start)


def _left_of(item: Stretch, chosen: Sequence[Stretch], least: int) -> list[Stretch]:
    """What other stretches leave of one: parts of at least two periods."""
    parts = [(item.start, item.stop)]
    for other in chosen:
        parts = [
            (low, high)
            for start, stop in parts
            for low, high in ((start, min(stop, other.start)), (max(start, other.stop), stop))
            if low < high
        ]
    left = [Stretch(start=low, stop=high, period=item.period) for low, high in dict.fromkeys(parts)]
    return [part for part in left if part.folded >= max(least, part.period)]


def _looks(graph: Graph, records: Sequence[bytes], classes: Sequence[str]) -> list[int]:
    """A number for all of a node but its operands; nodes that are no calls have none in common with calls."""
    known: dict[object, int] = {}
    last = len(graph.nodes) - 1
    found = []
    for index, node in enumerate(graph.nodes):
        readers = tuple(user - index if user != last else OUTPUT for user in graph.users[index] if node.is_call)
        look = (records[index], node.outputs, classes[index], node.is_call, readers)
        found.append(known.setdefault(look, len(known)))
    return found


def _periods(looks: Sequence[int]) -> list[int]:
    """The most frequent distances of nodes alike."""
    places: dict[int, list[int]] = {}
    for index, look in enumerate(looks):
        places.setdefault(look, []).append(index)
    votes: Counter[int] = Counter()
    for same in places.values():
        for step in range(1, NEXT_ALIKE + 1):
            votes.update(later - index for index, later in zip(same, same[step:], strict=False))
    return [period for period, _ in sorted(votes.items(), key=lambda item: (-item[1], item[0]))[:MAX_PERIODS]]


def _with_period(graph: Graph, looks: Sequence[int], period: int, least: int) -> Iterator[Stretch]:
    """All maximal stretches of one period."""
    restarts = 0
    for low, high in _alike(graph, looks, period, max(period, least)):
        start, index, pairs = low, low, _Pairs()
        while index < high:
            broken = _add(graph, looks, (start, index, period), pairs)
            if not broken:
                index += 1
                continue
            if index - start >= period:
                yield Stretch(start=start, stop=index + period, period=period)
            restarts += broken <= index
            start = index = broken if restarts < MAX_RESTARTS else index + 1
            pairs = _Pairs()
        if index - start >= period:
            yield Stretch(start=start, stop=index + period, period=period)


def _alike(graph: Graph, looks: Sequence[int], period: int, least: int) -> Iterator[tuple[int, int]]:
    """(first, last + 1) of runs of at least `least` calls that look like the node a period later."""
    first = next((index for index, node in enumerate(graph.nodes) if node.is_call), len(looks))
    last = first - 1
    for index in [
        *(k for k in range(first, len(looks) - period) if looks[k] != looks[k + period]),
        len(looks) - period,
    ]:
        if index - last > least:
            yield last + 1, index
        last = index


class _Pairs:
    """Which outside value of a period stands for which of the next: one-to-one."""

    def __init__(self) -> None:
        self.there: dict[int, int] = {}
        self.back: dict[int, int] = {}

    def agree(self, a: int, b: int) -> bool:
        """Whether b may stand for a."""
        return self.there.setdefault(a, b) == b and self.back.setdefault(b, a) == a


def _add(graph: Graph, looks: Sequence[int], place: tuple[int, int, int], pairs: _Pairs) -> int:
    """Where the stretch must start anew so that the node at `place` may join it; 0 if it may."""
    start, index, period = place
    one, other = graph.nodes[index].inputs, graph.nodes[index + period].inputs
    if len(one) != len(other):
        return index + 1
    for a, b in zip(one, other, strict=True):
        if a >= start and graph.nodes[a].is_call:
            if b != a + period:
                return a + 1 if a == b else index + 1
            continue
        inside = b >= start and graph.nodes[b].is_call and b != a + period
        if inside or not _stand_alike(graph, looks, a, b) or not pairs.agree(a, b):
            return index + 1
    return 0


def _stand_alike(graph: Graph, looks: Sequence[int], a: int, b: int) -> bool:
    """Whether two values outside a stretch are alike as inputs: calls of the same outputs, leaves of one record."""
    one, other = graph.nodes[a], graph.nodes[b]
    if one.is_call:
        return other.is_call and one.outputs == other.outputs
    return looks[a] == looks[b]
