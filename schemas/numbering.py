"""Number the live nodes of a graph in a way that depends on its isomorphism class alone.

    number_once(prepare(graph, tokens)).order        # old indices in canonical order

Is: depth-first post-order from the ordered outputs, then from the chain of effects, along ordered operands; and the
decisions that remain where operands (or the outputs of a piece) have no order. Reads and writes nothing; no torch, no
recursion.

**Decisions.** Of the two operands of a commutative op comes first: the one whose op sorts first; one that is numbered
already, the smaller number first; the smaller hash of what it is computed from, first ops alone, then level by level
finer. One numbering serves all levels if every pair that only a finer level tells apart can be exchanged by an
automorphism of the coarser level, which is so in nearly every graph. Else each level decides for itself, by hashes no
finer than it is, then by colours refined over cones and all that reads them; pairs that an automorphism exchanges need
no decision; what is left is tried both ways and the smallest form wins. The search is bounded by MAX_TRIES forms;
beyond it TooManyTies is raised.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from math import factorial, prod

from schemas.colours import Colours, colours_of
from schemas.forms import LEVELS
from schemas.prepared import Prepared

MAX_TRIES = 256
"""Most forms built in search of the smallest."""
MAX_OUTPUT_ORDERS = 120
"""Most output orders of a piece that are tried."""
MAX_TRIED_NODES = 400_000
"""Most node records built in that search, so that large graphs stay linear."""
_PRIVATE_LIMIT = 256


class TooManyTies(Exception):
    """The search met its bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbering:
    """One depth-first numbering."""

    order: list[int]
    """Old indices in canonical order, the output last."""
    chosen: dict[int, tuple[int, ...]]
    """Operands of the nodes whose operands have no order, in the order chosen."""
    ties: int
    """Decisions left open."""


# --- numbering ------------------------------------------------------------------------------------------------------
class _Numberer:
    """Numbers one prepared graph again and again under different decisions."""

    def __init__(self, prepared: Prepared, colours: Colours, level: int | None) -> None:
        self.prepared, self.colours, self.level = prepared, colours, level
        self.kids, self.tokens = prepared.kids, prepared.tokens
        self.output = len(prepared.kids) - 1
        self.paired = prepared.paired
        self.levels = range(len(LEVELS) - 1, (level or 0) - 1, -1)

    def run(self, outputs: Sequence[int], choices: Sequence[int] = ()) -> Numbering:
        """Number by depth-first post-order; the t-th tie met is decided by choices[t], 0 beyond their end."""
        kids, paired = self.kids, self.paired
        number, order = [-1] * len(kids), list[int]()
        chosen, ties, count = dict[int, tuple[int, ...]](), 0, 0
        stack = [*reversed((*outputs, *self.prepared.chain))]
        pop, push, append = stack.pop, stack.append, order.append
        while stack:
            index = pop()
            if index >= 0:
                if number[index] >= 0:
                    continue
                operands = kids[index]
                if paired[index] and operands[0] != operands[1]:
                    operands, tied = self.sort(index, number)
                    if tied and ties < len(choices) and choices[ties]:
                        operands = operands[::-1]
                    ties += tied
                    chosen[index] = operands
                if operands:
                    push(~index)
                    height = len(stack)
                    for kid in operands[::-1]:
                        if number[kid] < 0:
                            push(kid)
                    if len(stack) > height:
                        continue
                    pop()
            else:
                index = ~index
            number[index] = count
            count += 1
            append(index)
        append(self.output)
        chosen[self.output] = tuple(outputs)
        return Numbering(order=order, chosen=chosen, ties=ties)

    def sort(self, index: int, number: list[int]) -> tuple[tuple[int, ...], bool]:
        """The two operands of a commutative node in canonical order, and whether that order is still open."""
        a, b = operands = self.kids[index]
        first, second = self.tokens[a].records[4], self.tokens[b].records[4]
        if first == second:
            if number[a] >= 0 or number[b] >= 0:
                a_first = number[b] < 0 or 0 <= number[a] < number[b]
                return operands if a_first else (b, a), False
            first, second = self.near(a), self.near(b)
        if first != second:
            return operands if first < second else (b, a), False
        return self.sort_by_cones(index, number)

    def sort_by_cones(self, index: int, number: list[int]) -> tuple[tuple[int, ...], bool]:
        """As `sort`, by cones, then by what reads them, coarsest level first.

        Where one numbering is to serve all levels, what only a finer level tells apart must be exchangeable at the
        coarser ones.
        """
        a, b = operands = self.kids[index]
        shared, left_open = self.level is None, False
        for level in self.levels:
            left_open = left_open and shared
            sign = self.colours.order(level, a, b)
            if not sign and not self.exchangeable(operands, index, number, level):
                sign = self.colours.order_by_use(level, a, b)
                left_open = left_open or not sign
            if sign:
                return operands if sign < 0 else (b, a), left_open
        return operands, left_open

    def near(self, index: int) -> bytes:
        """The ops of a node's operands, a cheap first look at its cone."""
        found = [self.tokens[kid].records[4] for kid in self.kids[index]]
        return b"".join(sorted(found) if self.paired[index] else found)

    def exchangeable(self, pair: tuple[int, ...], root: int, number: list[int], level: int) -> bool:
        """Whether swapping the cones of two operands, walked side by side, maps the graph at a level onto itself."""
        tokens = self.tokens
        sides, stack = (dict[int, int](), dict[int, int]()), [(pair[0], pair[1])]
        while stack:
            p, q = stack.pop()
            if p == q or (sides[0].get(p) == q and sides[1].get(q) == p):
                continue
            used = p in sides[0] or q in sides[1] or p in sides[1] or q in sides[0]
            numbered = number[p] >= 0 or number[q] >= 0
            alike = tokens[p].records[level] == tokens[q].records[level]
            if used or numbered or not alike or not self.stand_alike(p, q):
                return False
            if level in (1, 2) and tokens[p].sizes != tokens[q].sizes:
                return False
            sides[0][p], sides[1][q] = q, p
            if len(sides[0]) > _PRIVATE_LIMIT:
                return False
            stack.extend(zip(self.kids[p], self.kids[q], strict=True))
        users = self.prepared.users
        return all(user == root or user in side for side in sides for node in side for user in users[node])

    def stand_alike(self, p: int, q: int) -> bool:
        """Whether effects put two nodes into the same place: neither has one, all is read at the same versions."""
        prepared = self.prepared
        if prepared.tokens[p].effect or prepared.tokens[q].effect:
            return False
        if prepared.tails.get(p) != prepared.tails.get(q):
            return False
        ours, theirs = prepared.versions.get(p, {}), prepared.versions.get(q, {})
        pairs = zip(self.kids[p], self.kids[q], strict=True)
        return ours == theirs == {} or all(ours.get(k, -1) == theirs.get(m, -1) for k, m in pairs)

    def all_runs(self) -> Iterator[Numbering]:
        """Every numbering under every decision; raises TooManyTies beyond the bound."""
        tries, limit = 0, max(2, min(MAX_TRIES, MAX_TRIED_NODES // len(self.kids)))
        for roots in self.output_orders():
            pending: list[tuple[int, ...]] = [()]
            while pending:
                choices = pending.pop()
                tries += 1
                if tries > limit:
                    raise TooManyTies
                found = self.run(roots, choices)
                yield found
                padded = choices + (0,) * (found.ties - len(choices))
                pending.extend((*padded[:k], 1) for k in range(len(choices), found.ties))

    def output_key(self, index: int) -> tuple[bytes, ...]:
        """By what outputs without order are sorted."""
        if self.level is None:
            return (self.colours.cone(len(LEVELS) - 1, index),)
        return (*(self.colours.cone(k, index) for k in self.levels), self.colours.refined(self.level)[index])

    def output_orders(self) -> Iterator[Sequence[int]]:
        """The orders of outputs to try: the given one, or all that keep the sort keys ascending."""
        outputs = self.kids[self.output]
        if not self.prepared.free:
            yield outputs
            return
        groups: dict[tuple[bytes, ...], list[int]] = {}
        for index in sorted(outputs, key=self.output_key):
            groups.setdefault(self.output_key(index), []).append(index)
        if prod(factorial(len(group)) for group in groups.values()) > MAX_OUTPUT_ORDERS:
            raise TooManyTies
        orders = [list(dict.fromkeys(permutations(group))) for group in groups.values()]
        for parts in product(*orders):
            yield [index for part in parts for index in part]

    def sorted_outputs(self) -> Sequence[int]:
        """One order of the outputs: the given one, or that of the sort keys."""
        outputs = self.kids[self.output]
        return sorted(outputs, key=self.output_key) if self.prepared.free else outputs


def number_once(prepared: Prepared) -> Numbering | None:
    """The numbering that serves all levels; None if a decision would depend on the level."""
    numberer = _Numberer(prepared, colours_of(prepared), None)
    outputs = numberer.sorted_outputs()
    keys = [numberer.output_key(index) for index in outputs] if prepared.free else []
    if any(a == b and i != j for a, b, i, j in zip(keys, keys[1:], outputs, outputs[1:], strict=False)):
        return None
    found = numberer.run(outputs)
    return found if not found.ties else None


def number_at(prepared: Prepared, level: int, form: Callable[[Numbering], bytes]) -> Numbering:
    """The numbering whose form of a level is smallest among all decisions left open; raises TooManyTies."""
    runs = _Numberer(prepared, colours_of(prepared), level).all_runs()
    best = next(runs)
    if best.ties == 0 and not prepared.free:
        return best
    smallest = form(best)
    for found in runs:
        candidate = form(found)
        if candidate < smallest:
            best, smallest = found, candidate
    return best


def number_somehow(prepared: Prepared) -> Numbering:
    """A numbering that leaves ties as they come: for graphs beyond the bound."""
    numberer = _Numberer(prepared, colours_of(prepared), 0)
    return numberer.run(numberer.sorted_outputs())
