"""Hashes of nodes that isomorphic graphs share: what sorts the operands of a commutative op.

    colours_of(prepared).order(4, a, b)      # -1, 0 or 1: how two cones sort by ops alone

Is: `Colours`, used by `schemas.numbering`. Reads and writes nothing; no torch, no recursion. A missed difference costs
a search, never exactness.
"""

import xxhash

from schemas.prepared import Prepared

_WALK_LIMIT = 64
_ROUNDS = 2
_digest = xxhash.xxh3_64_digest


class Colours:
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
        tokens, kids, paired = self.prepared.tokens, self.prepared.kids, self.prepared.paired
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
                if paired[index]:
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
        tokens, kids, paired = self.prepared.tokens, self.prepared.kids, self.prepared.paired
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
            if paired[p] and sorted(kids[p]) == sorted(kids[q]):
                continue
            if paired[p] or len(seen) > _WALK_LIMIT:
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
        return not (self.prepared.paired[index] or (index == self.output and self.prepared.free))

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


def colours_of(prepared: Prepared) -> Colours:
    """The hashes of a graph's nodes, shared by all its numberings."""
    prepared.colours = prepared.colours or Colours(prepared)
    return prepared.colours
