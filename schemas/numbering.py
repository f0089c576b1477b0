"""Number the live nodes of a graph in a way that depends on its isomorphism class alone.

    prepared = prepare(graph, tokens)
    number(prepared, level=0).order        # old indices in canonical order

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
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations, product
from math import factorial, prod

import xxhash

from schemas import effects
from schemas.forms import LEVELS, Token, storage_classes
from schemas.graph import Graph

MAX_TRIES = 256
"""Most forms built in search of the smallest."""
MAX_OUTPUT_ORDERS = 120
"""Most output orders of a piece that are tried."""
MAX_TRIED_NODES = 400_000
"""Most node records built in that search, so that large graphs stay linear."""
_PRIVATE_LIMIT = 256
_WALK_LIMIT = 64
_ROUNDS = 2
_digest = xxhash.xxh3_64_digest


class TooManyTies(Exception):
    """The search met its bound."""


@dataclass(kw_only=True)
class Prepared:
    """A graph made ready for numbering; lists are indexed by old node number."""

    tokens: list[Token]
    kids: list[tuple[int, ...]]
    chain: list[int]
    free: bool
    """Whether the outputs have no order."""
    tails: dict[int, bytes] = field(default_factory=dict)
    versions: dict[int, dict[int, int]] = field(default_factory=dict)
    classes: list[int] = field(default_factory=list)
    """Storage class of every value, if any is written."""

    @cached_property
    def live(self) -> list[int]:
        """Nodes that the output or an effect needs, ascending."""
        alive = bytearray(len(self.tokens))
        for root in (*self.chain, len(self.tokens) - 1):
            alive[root] = 1
        kids = self.kids
        for index in range(len(alive) - 1, -1, -1):
            if alive[index]:
                for kid in kids[index]:
                    alive[kid] = 1
        return [index for index, is_live in enumerate(alive) if is_live]

    @cached_property
    def colours(self) -> "_Colours":
        """Hashes of the nodes, shared by all numberings."""
        return _Colours(self)

    @cached_property
    def users(self) -> dict[int, list[int]]:
        """For every live node the live nodes that read it, one entry an operand."""
        found: dict[int, list[int]] = {index: [] for index in self.live}
        for index in self.live:
            for kid in self.kids[index]:
                found[kid].append(index)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbering:
    """One depth-first numbering."""

    order: list[int]
    """Old indices in canonical order, the output last."""
    chosen: dict[int, tuple[int, ...]]
    """Operands of the nodes whose operands have no order, in the order chosen."""
    ties: int
    """Decisions left open."""


# --- preparation ----------------------------------------------------------------------------------------------------
def prepare(graph: Graph, tokens: list[Token], *, free: bool = False) -> Prepared:
    """Operands in canonical spelling, the chain of effects, and what effects tie to their place."""
    kids = [
        node.inputs if token.operand_order is None else tuple([node.inputs[k] for k in token.operand_order])
        for node, token in zip(graph.nodes, tokens, strict=True)
    ]
    chain = [index for index, token in enumerate(tokens) if token.effect is not None]
    found = Prepared(tokens=tokens, kids=kids, chain=chain, free=free and len(kids[-1]) > 1)
    if chain:
        _order_effects(graph, found)
    return found


def body_of(prepared: Prepared) -> Prepared:
    """The same graph with its sinks for outputs: what no live call reads, in the order of the outputs."""
    output = len(prepared.kids) - 1
    users = prepared.users
    sinks = [k for k in dict.fromkeys(prepared.kids[output]) if all(user == output for user in users[k])]
    if tuple(sinks) == prepared.kids[output]:
        return prepared
    return replace(prepared, kids=[*prepared.kids[:-1], tuple(sinks)])


def _order_effects(graph: Graph, prepared: Prepared) -> None:
    """Fill in tails (place in the chain, scope) and versions: how often what an operand shows was written before."""
    tokens, tails, kids = prepared.tokens, prepared.tails, prepared.kids
    written = [(index, _written(graph, tokens, index)) for index in prepared.chain]
    mutable: dict[int, int] = {}
    storage: list[int] = []
    if any(operands for _, operands in written):
        classes = prepared.classes = storage_classes(graph, tokens, prepared.live)
        mutable = {classes[operand]: 0 for _, operands in written for operand in operands}
        storage = [cls if cls in mutable else -1 for cls in classes]
        for index in prepared.live:
            operands = kids[index]
            for kid in operands:
                if storage[kid] >= 0:
                    prepared.versions[index] = {k: mutable[storage[k]] for k in operands if storage[k] >= 0}
                    break
            effect = tokens[index].effect
            if effect is not None:
                for cls in dict.fromkeys([classes[operand] for operand in _written(graph, tokens, index)]):
                    mutable[cls] += 1
    scopes = [index for index in prepared.chain if _is_scope(tokens[index])]
    if scopes:
        passed = 0
        for index in prepared.live:
            if passed and graph.nodes[index].is_call:
                tails[index] = b" s%d" % passed
            passed += passed < len(scopes) and index == scopes[passed]
    for place, index in enumerate(prepared.chain):
        tails[index] = tails.get(index, b"") + b" e%d" % place


def _written(graph: Graph, tokens: list[Token], index: int) -> list[int]:
    effect, inputs = tokens[index].effect, graph.nodes[index].inputs
    return [] if effect is None else [inputs[operand] for operand in effect.writes]


def _is_scope(token: Token) -> bool:
    return token.effect is not None and token.effect.kind == effects.SCOPE


def order_of_effects(graph: Graph, prepared: Prepared) -> list[tuple[int, int]]:
    """The pairs (earlier, later) that must keep their order: effects, calls and scopes, reads and writes."""
    tokens, before, classes = prepared.tokens, list[tuple[int, int]](), prepared.classes
    readers: dict[int, list[int]] = {}
    for index in prepared.chain:
        readers.update({classes[operand]: [] for operand in _written(graph, tokens, index)})
    last_write, in_scope = dict[int, int](), list[int]()
    last_scope = last_effect = -1
    for index in prepared.live if prepared.chain else ():
        seen = dict.fromkeys([classes[kid] for kid in prepared.kids[index]] if readers else ())
        for cls in (cls for cls in seen if cls in readers):
            before.extend([(last_write[cls], index)] if cls in last_write else [])
            readers[cls].append(index)
        before.extend([(last_scope, index)] if last_scope >= 0 else [])
        if tokens[index].effect is not None:
            before.extend([(last_effect, index)] if last_effect >= 0 else [])
            last_effect = index
            for cls in dict.fromkeys([classes[operand] for operand in _written(graph, tokens, index)]):
                before.extend((reader, index) for reader in readers[cls] if reader != index)
                readers[cls], last_write[cls] = [], index
        if _is_scope(tokens[index]):
            before.extend((earlier, index) for earlier in in_scope)
            in_scope, last_scope = [], index
        else:
            in_scope.append(index)
    return before


# --- colours --------------------------------------------------------------------------------------------------------
class _Colours:
    """Hashes of nodes that isomorphic graphs share, by level; made when first asked for."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        self.output = len(prepared.kids) - 1
        self._cones: dict[int, dict[int, bytes]] = {}
        self._refined: dict[tuple[int, int], dict[int, bytes]] = {}
        self._records: dict[int, dict[int, bytes]] = {}

    def cone(self, level: int, root: int) -> bytes:
        """A hash of what a node is computed from, with the records of a level; made for the nodes that it needs."""
        found = self._cones.setdefault(level, {})
        if root in found:
            return found[root]
        tokens, kids = self.prepared.tokens, self.prepared.kids
        own = self._own(level) if level in (1, 2) else None
        stack = [root]
        while stack:
            index = stack[-1]
            waiting = [kid for kid in kids[index] if kid not in found]
            if waiting and index not in found:
                stack += waiting
                continue
            stack.pop()
            if index not in found:
                below = [found[kid] for kid in kids[index]]
                if tokens[index].commutative:
                    below.sort()
                record = tokens[index].records[level] if own is None else own[index]
                found[index] = _digest(record + b"".join(below))
        return found[root]

    def order(self, level: int, a: int, b: int) -> int:
        """-1 or 1 if the cone of a or that of b sorts first at a level, 0 if they are alike.

        The cones are walked side by side; where that meets a commutative op, or goes on for long, hashes decide.
        """
        found = self._walk(level, a, b)
        if found is None:
            first, second = self.cone(level, a), self.cone(level, b)
            return (first > second) - (first < second)
        return found

    def order_by_use(self, level: int, a: int, b: int) -> int:
        """As `order`, by what reads each value of the cones, then by colours; 0 if nothing tells them apart."""
        found = self._walk(level, a, b, uses=True)
        for rounds in range(1, _ROUNDS + 1) if not found else ():
            colours = self.refined(level, rounds)
            if colours[a] != colours[b]:
                return -1 if colours[a] < colours[b] else 1
        return found or 0

    def _walk(self, level: int, a: int, b: int, *, uses: bool = False) -> int | None:
        tokens, kids = self.prepared.tokens, self.prepared.kids
        seen, stack = set[tuple[int, int]](), [(a, b)]
        while stack:
            pair = p, q = stack.pop()
            if p == q or pair in seen:
                continue
            seen.add(pair)
            x, y = tokens[p].records[level], tokens[q].records[level]
            if x == y and level in (1, 2) and tokens[p].sizes != tokens[q].sizes:
                x, y = self._own(level)[p], self._own(level)[q]
            if uses and x == y:
                x, y = self._uses(level, p), self._uses(level, q)
            if x != y or len(kids[p]) != len(kids[q]):
                return -1 if (x, len(kids[p])) < (y, len(kids[q])) else 1
            if tokens[p].commutative and sorted(kids[p]) == sorted(kids[q]):
                continue
            if tokens[p].commutative or len(seen) > _WALK_LIMIT:
                return None
            stack.extend(zip(reversed(kids[p]), reversed(kids[q]), strict=True))
        return 0

    def _uses(self, level: int, index: int) -> bytes:
        """What reads a value, and in which places."""
        found = []
        for user in dict.fromkeys(self.prepared.users[index]):
            record = self.prepared.tokens[user].records[level] if user != self.output else b""
            found += [record + mark for kid, mark in self._edges(user) if kid == index]
        return b"\n".join(sorted(found))

    def refined(self, level: int, rounds: int = _ROUNDS) -> dict[int, bytes]:
        """A hash of each live node's cone and of all that reads it, with the records of a level and effects."""
        if (level, rounds) not in self._refined:
            if rounds == 0:
                tails = self.prepared.tails
                found = {index: _digest(own + tails.get(index, b"")) for index, own in self._own(level).items()}
            else:
                found = self._upwards(self._downwards(self.refined(level, rounds - 1)))
            self._refined[level, rounds] = found
        return self._refined[level, rounds]

    def _own(self, level: int) -> dict[int, bytes]:
        """The record of each live node, with a hash for every open size; nothing for the output."""
        if level not in self._records:
            sizes = self._sizes(level) if level in (1, 2) else {}
            found = self._records[level] = {}
            for index in self.prepared.live:
                token = self.prepared.tokens[index]
                found[index] = token.records[level] + b"".join([sizes[size] for size in token.sizes] if sizes else [])
            found[self.output] = b""
        return self._records[level]

    def _sizes(self, level: int) -> dict[int, bytes]:
        """For every open size a hash of all places where it stands."""
        places: dict[int, list[bytes]] = {}
        for index in self.prepared.live:
            token = self.prepared.tokens[index]
            for place, size in enumerate(token.sizes):
                places.setdefault(size, []).append(_digest(token.records[level] + b"%d" % place))
        return {size: _digest(b"".join(sorted(found))) for size, found in places.items()}

    def _has_order(self, index: int) -> bool:
        return not (self.prepared.tokens[index].commutative or (index == self.output and self.prepared.free))

    def _edges(self, index: int) -> list[tuple[int, bytes]]:
        """The operands of a node, each with its place (if it has one) and the version it is read at."""
        versions, ordered = self.prepared.versions.get(index, {}), self._has_order(index)
        return [
            (kid, b"%d@%d" % (place if ordered else -1, versions.get(kid, -1)))
            for place, kid in enumerate(self.prepared.kids[index])
        ]

    def _downwards(self, colours: dict[int, bytes]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for index in self.prepared.live:
            below = [found[kid] + mark for kid, mark in self._edges(index)]
            found[index] = _digest(b"\n".join([colours[index], *(below if self._has_order(index) else sorted(below))]))
        return found

    def _upwards(self, colours: dict[int, bytes]) -> dict[int, bytes]:
        above: dict[int, list[bytes]] = {index: [] for index in self.prepared.live}
        found: dict[int, bytes] = {}
        for index in reversed(self.prepared.live):
            found[index] = _digest(b"\n".join([colours[index], *sorted(above[index])]))
            for kid, mark in self._edges(index):
                above[kid].append(found[index] + mark)
        return found


# --- numbering ------------------------------------------------------------------------------------------------------
class _Numberer:
    """Numbers one prepared graph again and again under different decisions."""

    def __init__(self, prepared: Prepared, colours: _Colours, level: int | None) -> None:
        self.prepared, self.colours, self.level = prepared, colours, level
        self.kids, self.tokens = prepared.kids, prepared.tokens
        self.output = len(prepared.kids) - 1
        self.paired = [token.commutative for token in prepared.tokens]
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
        return b"".join(sorted(found) if self.tokens[index].commutative else found)

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
    numberer = _Numberer(prepared, prepared.colours, None)
    outputs = numberer.sorted_outputs()
    keys = [numberer.output_key(index) for index in outputs] if prepared.free else []
    if any(a == b and i != j for a, b, i, j in zip(keys, keys[1:], outputs, outputs[1:], strict=False)):
        return None
    found = numberer.run(outputs)
    return found if not found.ties else None


def number_at(prepared: Prepared, level: int, form: Callable[[Numbering], bytes]) -> Numbering:
    """The numbering whose form of a level is smallest among all decisions left open; raises TooManyTies."""
    runs = _Numberer(prepared, prepared.colours, level).all_runs()
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
    numberer = _Numberer(prepared, prepared.colours, 0)
    return numberer.run(numberer.sorted_outputs())
