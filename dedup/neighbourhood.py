"""What a picture of two graphs shows: partners, what differs, and which nodes are near the first difference.

    scene = scene_of(a, b, compare(a, b))        # drawn by dedup.picture

Reads two graphs and their comparison; writes nothing. A row holds what stands at the same place of both graphs; rows
follow the canonical order of both.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from dedup.twins import Comparison
from schemas.canonical import canonicalize, nested_form
from schemas.forms import LEVELS, Token, tokens_of
from schemas.graph import PLACEHOLDER, Graph, Node

MAX_ROWS = 14
"""Most nodes a side."""
WINDOW = 120
"""Lines after the first difference in which partners are looked for."""
MAX_READERS = 3
"""Most readers of one value that are followed."""
SAME, DIFFERS, ALONE = "same", "differs", "alone"

Row = tuple[int | None, int | None]
"""Numbers of the nodes that stand at the same place, of A and of B; None where a graph has none."""
Edge = tuple[int, int]
"""Row of the producer, row of the reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One graph: its live nodes by their number in canonical order."""

    nodes: tuple[Node, ...]
    tokens: tuple[Token, ...]
    operands: tuple[tuple[int, ...], ...]
    """For every node the numbers of its operands, in the order of its canonical spelling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Two graphs row by row."""

    sides: tuple[Side, Side]
    rows: tuple[Row, ...]
    edges: tuple[frozenset[Edge], frozenset[Edge]]
    """Edges of either side."""
    status: tuple[str, ...]
    """same, differs or alone, for every row."""
    first: frozenset[int]
    """Rows of the first difference; empty if the graphs are equal."""
    place: int
    """Number of the first differing node in either graph; -1 if they are equal."""
    shown: tuple[int, ...]
    """Rows near the first difference, ascending; near the end if the graphs are equal."""
    level: str
    """The level at which rows are compared: the finest that tells the graphs apart."""


def scene_of(a: Graph, b: Graph, found: Comparison) -> Scene:
    """Pair the nodes of two graphs and choose at most `MAX_ROWS` pairs around their first difference."""
    finest = LEVELS.index(found.level) - 1 if found.level else len(LEVELS) - 1
    level = max(finest, 0)
    sides = (_side(a), _side(b))
    rows = _paired(sides, max(found.sizes) if found.level else found.place)
    places: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for row, pair in enumerate(rows):
        for known, number in zip(places, pair, strict=True):
            if number is not None:
                known[number] = row
    status = [_status(sides, places, pair, level) for pair in rows]
    first = _first(places, status, found.place)
    for row in first:
        status[row] = DIFFERS if status[row] == SAME else status[row]
    edges = (_edges(sides[0], places[0]), _edges(sides[1], places[1]))
    leaves = frozenset(row for row, pair in enumerate(rows) if _is_leaf(sides, pair))
    return Scene(
        sides=sides, rows=tuple(rows), edges=edges, status=tuple(status), first=first, place=found.place,
        shown=_near(sorted(first) or [len(rows) - 1], edges[0] | edges[1], leaves), level=LEVELS[level],
    )  # fmt: skip


def _side(graph: Graph) -> Side:
    order = canonicalize(graph).numbered
    number = {index: place for place, index in enumerate(order)}
    tokens = tokens_of(graph, tuple(nested_form(text) for text in graph.subgraphs))
    operands = []
    for index in order:
        inputs, spelled = graph.nodes[index].inputs, tokens[index].operand_order
        operands.append(tuple(number[inputs[k]] for k in spelled or range(len(inputs))))
    return Side(
        nodes=tuple(graph.nodes[index] for index in order), tokens=tuple(tokens[index] for index in order),
        operands=tuple(operands),
    )  # fmt: skip


def _paired(sides: tuple[Side, Side], place: int) -> list[Row]:
    """Up to a place equal numbers are partners (with one topology throughout); after it equal ops in the same order."""
    start = min(place, *(len(side.nodes) for side in sides))
    rows: list[Row] = [(number, number) for number in range(start)]
    tails = [[token.records[-1] for token in side.tokens[start : start + WINDOW]] for side in sides]
    for _, left, left_end, right, right_end in SequenceMatcher(None, tails[0], tails[1], autojunk=False).get_opcodes():
        ours, theirs = range(start + left, start + left_end), range(start + right, start + right_end)
        if len(ours) == len(theirs):
            rows += zip(ours, theirs, strict=True)
        else:
            rows += [*((number, None) for number in ours), *((None, number) for number in theirs)]
    return rows


def _status(sides: tuple[Side, Side], places: tuple[dict[int, int], dict[int, int]], pair: Row, level: int) -> str:
    if pair[0] is None or pair[1] is None:
        return ALONE
    left, right = sides[0].tokens[pair[0]], sides[1].tokens[pair[1]]
    wires = [
        [known[k] for k in side.operands[n]]
        for side, known, n in zip(sides, places, pair, strict=True)
        if n is not None
    ]
    if left.commutative and right.commutative:
        wires = [sorted(wire) for wire in wires]
    return SAME if left.records[level] == right.records[level] and wires[0] == wires[1] else DIFFERS


def _first(places: tuple[dict[int, int], dict[int, int]], status: Sequence[str], place: int) -> frozenset[int]:
    """Rows of the first differing line of both graphs, those that look alike left out if another is there."""
    rows = frozenset(known[place] for known in places if place in known)
    return frozenset(row for row in rows if status[row] != SAME) or rows


def _edges(side: Side, known: dict[int, int]) -> frozenset[Edge]:
    return frozenset((known[k], row) for number, row in known.items() for k in side.operands[number])


def _is_leaf(sides: tuple[Side, Side], pair: Row) -> bool:
    return any(n is not None and side.nodes[n].op == PLACEHOLDER for side, n in zip(sides, pair, strict=True))


def _near(starts: Sequence[int], edges: frozenset[Edge], leaves: frozenset[int]) -> tuple[int, ...]:
    """The rows nearest to the first ones along edges; inputs and weights count as one step further away."""
    around: dict[int, list[int]] = {}
    for producer, reader in sorted(edges):
        around.setdefault(reader, []).append(producer)
        if len([row for row in around.setdefault(producer, []) if row > producer]) < MAX_READERS:
            around[producer].append(reader)
    waiting, found = [(0, 0, row) for row in starts], set[int]()
    while waiting and len(found) < MAX_ROWS:
        cost, _, row = heapq.heappop(waiting)
        if row not in found:
            found.add(row)
            for near in around.get(row, ()):
                heapq.heappush(waiting, (cost + 1 + (near in leaves), abs(near - starts[0]), near))
    return tuple(sorted(found))
