"""Blocks that a graph repeats: encoder layers, bottlenecks; found in the sequence of its ops, no module names needed.

Is: `blocks(graph, config)`. Reads a graph, writes nothing; no torch.

The calls of a graph, in depth-first order, are a word: one letter a call, equal letters where structure-level records
are equal (`schemas.forms`). A block is the unit of a *run*, a stretch of that word with a period: the run of most merit
(repeats weigh more than length, so that a bottleneck goes before a stage of bottlenecks), then the next one apart from
it. A period of one run fits every rotation of its unit; the one is taken from which fewest values flow on, then the one
whose values have most readers: the residual stream. Wherever else the unit stands is a place of the block, too.

The canonical order of operands that may be swapped says nothing about layers, so the deeper one goes first here.
What all blocks share (a mask, a rotary table) stands inside the first one, where it is read first, and would break the
run: values read more than a period later are moved to the front, with all that they are made of.

Every place is convex, being a stretch of a topological order. Calls that cannot be cut out end a run.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fusion_mining.cut import can_cut, outputs_of
from fusion_mining.op_classes import classes_of, is_compute, stands_alone
from schemas.canonical import nested_form
from schemas.forms import Token, tokens_of
from schemas.graph import Graph

STRUCTURE = 3
"""Index of the structure level among a token's records."""
TIE_DEPTH = 4
"""How many calls deep two operands of one depth are compared."""
MAX_SHARED = 200
"""Most shared values that are moved to the front."""
Place = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlocksConfig:
    """What counts as a block."""

    max_nodes: int = 400
    """Most call nodes of a block."""
    min_ops: int = 3
    """Fewest compute ops of a block."""
    max_blocks: int = 4
    """Most different blocks of a graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A stretch of a word in which every letter is the one a period before."""

    start: int
    """Position of its first letter."""
    length: int
    """Letters, at least two periods."""
    period: int
    """The smallest distance of equal letters."""

    @property
    def merit(self) -> float:
        """Repeats after the first times the root of the period."""
        return (self.length // self.period - 1) * math.sqrt(self.period)


def blocks(
    graph: Graph, config: BlocksConfig, classes: Sequence[str] | None = None, tokens: Sequence[Token] | None = None
) -> list[list[Place]]:
    """For each block its places, at least two, as ascending node indices; the block of most merit comes first.

    `classes` and `tokens` are those of the graph, if known.
    """
    tokens = tokens_of(graph, tuple(nested_form(text) for text in graph.subgraphs)) if tokens is None else tokens
    found = classes_of(graph, tokens) if classes is None else classes
    letters = _letters(graph, tokens, found)
    order, runs = _best_order(graph, depth_first(graph, tokens, letters), letters, config.max_nodes)
    word = "".join(letters[index] for index in order)
    used = [False] * len(order)
    chosen: list[list[Place]] = []
    for run in runs:
        if len(chosen) == config.max_blocks:
            break
        if any(used[run.start : run.start + run.length]):
            continue
        start = _best_start(graph, order, run)
        if start is None or sum(is_compute(found[k]) for k in order[start : start + run.period]) < config.min_ops:
            continue
        places = []
        for position in _starts(word, run, start, used):
            nodes = tuple(sorted(order[position : position + run.period]))
            if can_cut(graph, nodes):
                used[position : position + run.period] = [True] * run.period
                places.append(nodes)
        if len(places) > 1:
            chosen.append(sorted(places))
    return chosen


# --- the word -------------------------------------------------------------------------------------------------------
def _letters(graph: Graph, tokens: Sequence[Token], classes: Sequence[str]) -> dict[int, str]:
    """The letter of every call; one that cannot be cut out has a letter of its own."""
    known: dict[object, str] = {}
    return {
        index: known.setdefault(tokens[index].records[STRUCTURE] if stands_alone(classes[index]) else index,
                                chr(len(known)))
        for index, _ in graph.calls()
    }  # fmt: skip


def _best_order(
    graph: Graph, order: list[int], letters: Mapping[int, str], max_period: int
) -> tuple[list[int], list[Run]]:
    """The order of calls that has the run of most merit, and its runs: the given one, or shared values first."""
    runs = runs_of("".join(letters[index] for index in order), max_period)
    if not runs:
        return order, runs
    other = shared_first(graph, order, runs[0].period)
    other_runs = runs_of("".join(letters[index] for index in other), max_period)
    return (other, other_runs) if other_runs and other_runs[0].merit > runs[0].merit else (order, runs)


def depth_first(graph: Graph, tokens: Sequence[Token], letters: Mapping[int, str]) -> list[int]:
    """The calls in post-order from the outputs; of two operands that may be swapped the deeper one goes first.

    Ties are broken by the letters around an operand, so that layers alike are ordered alike.
    """
    depth: dict[int, int] = {}
    for index, node in graph.calls():
        depth[index] = 1 + max((depth.get(k, 0) for k in node.inputs), default=0)
    around = _surroundings(graph, letters)
    order: dict[int, None] = {}
    roots = [*graph.nodes[-1].inputs, *letters]
    waiting = [(index, False) for index in reversed(roots)]
    while waiting:
        index, done = waiting.pop()
        if done:
            order[index] = None
        elif index in letters and index not in order:
            operands = list(graph.nodes[index].inputs)
            if tokens[index].commutative:
                operands.sort(key=lambda k: (-depth.get(k, 0), around.get(k, -1)))
            waiting.append((index, True))
            waiting.extend((k, False) for k in reversed(operands))
    return list(order)


def _surroundings(graph: Graph, letters: Mapping[int, str]) -> dict[int, int]:
    """For every call a number for its letter and those of the calls it is made of, TIE_DEPTH calls deep."""
    found = {index: ord(letter) for index, letter in letters.items()}
    for _ in range(TIE_DEPTH):
        known: dict[object, int] = {}
        found = {
            index: known.setdefault((letter, *[found.get(k, -1) for k in graph.nodes[index].inputs]), len(known))
            for index, letter in letters.items()
        }
    return found


def shared_first(graph: Graph, calls: Sequence[int], distance: int) -> list[int]:
    """Calls in another topological order: first those read more than `distance` calls later, with what they need.

    Among these, those read over the longest stretch come first, also within what another one needs: an encoder's
    output before the decoder, and the encoder's mask before the encoder.
    """
    position = {index: k for k, index in enumerate(calls)}
    reach = {
        index: max((position.get(k, 0) for k in graph.users[index]), default=0) - position[index] for index in calls
    }
    far = sorted((k for k in calls if reach[k] > distance), key=lambda k: (-reach[k], position[k]))[:MAX_SHARED]
    order: dict[int, None] = {}
    waiting = [(index, False) for index in reversed(far)]
    while waiting:
        index, opened = waiting.pop()
        cone = _unseen_cone(graph, index, order)
        inner = [k for k in far if k in cone and k != index]
        if inner and not opened:
            waiting.append((index, True))
            waiting.extend((k, False) for k in reversed(inner))
        else:
            order.update(dict.fromkeys(sorted(cone, key=position.__getitem__)))
    return list({**order, **dict.fromkeys(calls)})


def _unseen_cone(graph: Graph, index: int, seen: dict[int, None]) -> set[int]:
    """A call and the calls that it depends on, but for those seen (whose own are seen too)."""
    found: set[int] = set()
    waiting = [index]
    while waiting:
        node = waiting.pop()
        if node not in found and node not in seen and graph.nodes[node].is_call:
            found.add(node)
            waiting.extend(graph.nodes[node].inputs)
    return found


# --- runs -----------------------------------------------------------------------------------------------------------
def runs_of(word: str, max_period: int) -> list[Run]:
    """All maximal runs of a word with a period of at most `max_period`, those of most merit first.

    A run holds two periods, so its first half holds a multiple of the period: near n log n comparisons suffice.
    """
    found = [run for period in range(1, min(max_period, len(word) // 2) + 1) for run in _runs_with_period(word, period)]
    return sorted(found, key=lambda run: (-run.merit, run.period, run.start))


def _runs_with_period(word: str, period: int) -> Iterator[Run]:
    anchor, size = 0, len(word)
    while anchor + period < size:
        start = end = anchor
        while start > 0 and word[start - 1] == word[start - 1 + period]:
            start -= 1
        while end + period < size and word[end] == word[end + period]:
            end += 1
        if end - start >= period and _is_primitive(word[start : start + period]):
            yield Run(start=start, length=end - start + period, period=period)
        anchor = max(anchor, end - end % period) + period


def _is_primitive(unit: str) -> bool:
    return (unit + unit).find(unit, 1) == len(unit)


def _best_start(graph: Graph, order: Sequence[int], run: Run) -> int | None:
    """Where in a run the first unit starts, over all rotations that leave two units; None if none can be cut out."""
    best: tuple[tuple[int, int, int], int] | None = None
    for start in range(run.start, run.start + min(run.period, run.length - 2 * run.period + 1)):
        nodes = sorted(order[start : start + run.period])
        if not can_cut(graph, nodes):
            continue
        inside, outputs = frozenset(nodes), outputs_of(graph, nodes)
        readers = sum(user not in inside for index in outputs for user in graph.users[index])
        repeats = (run.start + run.length - start) // run.period
        rank = (len(outputs), -readers, -repeats)
        if best is None or rank < best[0]:
            best = rank, start
    return best[1] if best else None


def _starts(word: str, run: Run, start: int, used: Sequence[bool]) -> Iterator[int]:
    """Positions of a unit: those of its run, then those elsewhere that overlap nothing used."""
    yield from range(start, run.start + run.length - run.period + 1, run.period)
    unit = word[start : start + run.period]
    position = word.find(unit)
    while position >= 0:
        step = 1
        if not any(used[position : position + run.period]):
            yield position
            step = run.period
        position = word.find(unit, position + step)
