"""What "the same graph" means: one canonical form and five keys, each coarser than the one before.

    same = canonicalize(a).blob == canonicalize(b).blob      # a and b are isomorphic at the exact level
    canonicalize(a).keys.shape_free                          # equal for all sequence lengths of one architecture
    canonicalize(piece, free_outputs=True)                   # a mined piece: the order of its outputs is an artefact

Reads a `Graph`, writes nothing; no torch, no networkx.

**Form.** Operands and outputs are ordered, so post-order depth-first search from the ordered outputs, then from the
chain of effects (`schemas.effects`), numbers the live nodes in a way that depends on the isomorphism class alone. The
form is the list of node records (`schemas.forms`) in that order, each with the numbers of its operands: the graph can
be rebuilt from it, so equal bytes mean isomorphic graphs. Left out: names, dead pure nodes, unused placeholders,
placeholder order, initialisers, metadata. Kept at every level: the place of an effect in the chain, the version of
mutable storage an operand is read at, and the number of scope changes before a call.

**Freedom.** Operands of commutative ops (and outputs of pieces) have no order. They are sorted by a hash of their
cone at topology level; among equals an already numbered one goes first, then the smaller number; pairs that an
automorphism exchanges need no decision; what is left is tried both ways and the smallest form wins, compared at
topology level first, then structure, dtype_free, shape_free, exact. So graphs that are equal at a coarse level make
the same decisions, whatever their finer values. The search is bounded by MAX_TRIES forms: beyond it finer hashes
decide first (the coarse keys may then split what they should join), and if that is not enough either, `capped` is set
and the exact key may differ between isomorphic graphs: never the other way round.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import permutations, product
from math import factorial, prod

import xxhash

from schemas import effects, values
from schemas.forms import LEVELS, NestedForm, Token, digest_of, storage_classes, tokens_of
from schemas.graph import Graph, Node
from schemas.relabel import execution_order, relabel
from schemas.roles import TABLE_VERSION

MAX_TRIES = 256
"""Most forms built in search of the smallest."""
MAX_OUTPUT_ORDERS = 120
"""Most output orders of a piece that are tried."""
MAX_TRIED_NODES = 400_000
"""Most node records built in that search, so that large graphs stay linear."""
_PRIVATE_LIMIT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The identity of a graph at every level, finest first: equal at one means equal at all later ones."""

    exact: str
    shape_free: str
    dtype_free: str
    structure: str
    topology: str


@dataclass(frozen=True, kw_only=True)
class Canonical:
    """The canonical form of a graph."""

    source: Graph
    """The graph it was made from."""
    blob: bytes
    """The exact form; equal bytes if and only if isomorphic (unless `capped`)."""
    keys: Keys
    """Digests of the form at every level."""
    order: tuple[int, ...]
    """order[i] is the index in `source` of node i of `graph`; dead nodes are missing."""
    output_order: tuple[int, ...]
    """output_order[i] is the position in the source's output of output i; the identity unless outputs are free."""
    capped: bool
    """Whether the search was cut short."""

    @cached_property
    def graph(self) -> Graph:
        """The source relabelled: placeholders first, by first visit, then calls in a valid order of execution."""
        return relabel(self.source, self.order, self.output_order)


class _TooManyTies(Exception):
    """The search met its bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A graph made ready for numbering; lists are indexed by old node number."""

    tokens: list[Token]
    kids: list[tuple[int, ...]]
    live: list[int]
    chain: list[int]
    tails: dict[int, bytes]
    versions: dict[int, dict[int, int]]
    before: list[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbering:
    """One depth-first numbering."""

    order: list[int]
    number: list[int]
    chosen: dict[int, tuple[int, ...]]
    ties: int


# --- preparation ----------------------------------------------------------------------------------------------------
@lru_cache(maxsize=10_000)
def nested_form(text: str) -> NestedForm:
    """What a graph that calls this nested one (its JSON text) needs of it."""
    graph = Graph.from_json(text)
    keys = canonicalize(graph).keys
    has_effects = bool(_prepare(graph).chain)
    return NestedForm(digests=tuple(getattr(keys, level) for level in LEVELS), effects=has_effects)


def _prepare(graph: Graph) -> _Prepared:
    tokens = tokens_of(graph, tuple(nested_form(text) for text in graph.subgraphs))
    kids = [
        node.inputs if token.operand_order is None else tuple([node.inputs[k] for k in token.operand_order])
        for node, token in zip(graph.nodes, tokens, strict=True)
    ]
    chain = [index for index, token in enumerate(tokens) if token.effect is not None]
    alive = bytearray(len(tokens))
    for root in (*chain, len(tokens) - 1):
        alive[root] = 1
    for index in range(len(tokens) - 1, -1, -1):
        if alive[index]:
            for kid in kids[index]:
                alive[kid] = 1
    live = [index for index in range(len(tokens)) if alive[index]]
    found = _Prepared(tokens=tokens, kids=kids, live=live, chain=chain, tails={}, versions={}, before=[])
    if chain:
        _order_effects(graph, found)
    return found


def _order_effects(graph: Graph, prepared: _Prepared) -> None:
    """Fill in tails (place in the chain, scope), versions and the pairs (earlier, later) that must keep their order."""
    tokens, before = prepared.tokens, prepared.before
    classes = storage_classes(graph, tokens, prepared.live)
    mutable = {classes[graph.nodes[i].inputs[w]] for i in prepared.chain for w in _writes(tokens[i])}
    count, last_write = dict.fromkeys(mutable, 0), dict[int, int]()
    readers: dict[int, list[int]] = {cls: [] for cls in mutable}
    in_scope, scopes, last_scope, last_effect = list[int](), 0, -1, -1
    for index in prepared.live:
        read = {kid: classes[kid] for kid in prepared.kids[index] if classes[kid] in mutable}
        if read:
            prepared.versions[index] = {kid: count[cls] for kid, cls in read.items()}
        for cls in dict.fromkeys(read.values()):
            before.extend([(last_write[cls], index)] if cls in last_write else [])
            readers[cls].append(index)
        effect = tokens[index].effect
        is_scope = effect is not None and effect.kind == effects.SCOPE
        before.extend([(last_scope, index)] if last_scope >= 0 else [])
        tail = b" s%d" % scopes if scopes and graph.nodes[index].is_call else b""
        if effect is not None:
            tail += b" e"
            before.extend([(last_effect, index)] if last_effect >= 0 else [])
            last_effect = index
            for cls in dict.fromkeys(classes[graph.nodes[index].inputs[w]] for w in effect.writes):
                before.extend((reader, index) for reader in readers[cls] if reader != index)
                readers[cls], last_write[cls], count[cls] = [], index, count[cls] + 1
        if is_scope:
            before.extend((earlier, index) for earlier in in_scope)
            in_scope, scopes, last_scope = [], scopes + 1, index
        else:
            in_scope.append(index)
        if tail:
            prepared.tails[index] = tail
    for place, index in enumerate(prepared.chain):
        prepared.tails[index] += b"%d" % place


def _writes(token: Token) -> tuple[int, ...]:
    return () if token.effect is None else token.effect.writes


# --- numbering ------------------------------------------------------------------------------------------------------
class _Numberer:
    """Numbers one prepared graph again and again under different decisions."""

    def __init__(self, prepared: _Prepared) -> None:
        self.prepared = prepared
        self.kids = prepared.kids
        self.output = prepared.live[-1]
        self.commutative = [i for i in prepared.live if prepared.tokens[i].commutative]
        self.keys: dict[int, bytes] = {}
        self.users: dict[int, list[int]] = {}

    def hash_cones(self, levels: tuple[int, ...]) -> None:
        """Sort keys of all live nodes: a hash of what each is computed from; leaves also of what reads them."""
        tokens = self.prepared.tokens
        self.users = {index: [] for index in self.prepared.live}
        reads: dict[int, list[bytes]] = {i: [] for i in self.prepared.live if not self.kids[i]}
        for index in self.prepared.live:
            for place, kid in enumerate(self.kids[index]):
                self.users[kid].append(index)
                if kid in reads and index != self.output:
                    reads[kid].append(tokens[index].records[4] + (b"" if tokens[index].commutative else b"%d" % place))
        self.keys = {}
        for index in self.prepared.live:
            below = [self.keys[kid] for kid in self.kids[index]] or sorted(reads.get(index, ()))
            if tokens[index].commutative:
                below.sort()
            parts = [tokens[index].records[level] for level in levels]
            self.keys[index] = xxhash.xxh3_64_digest(b"\n".join((*parts, *below)))

    def run(self, outputs: Sequence[int], choices: Sequence[int]) -> _Numbering:
        """Number by depth-first post-order; the t-th tie met is decided by choices[t], 0 beyond their end."""
        kids, tokens = self.kids, self.prepared.tokens
        number, order = [-1] * len(kids), list[int]()
        chosen, ties = dict[int, tuple[int, ...]](), 0
        for root in (*outputs, *self.prepared.chain):
            stack = [root]
            while stack:
                index = stack.pop()
                if index < 0:
                    number[~index] = len(order)
                    order.append(~index)
                    continue
                if number[index] >= 0:
                    continue
                operands = kids[index]
                if not operands:
                    number[index] = len(order)
                    order.append(index)
                    continue
                if tokens[index].commutative and operands[0] != operands[1]:
                    operands, tied = self.sort(index, operands, number)
                    if tied and ties < len(choices) and choices[ties]:
                        operands = operands[::-1]
                    ties += tied
                    chosen[index] = operands
                stack.append(~index)
                stack.extend([kid for kid in operands[::-1] if number[kid] < 0])
        number[self.output] = len(order)
        order.append(self.output)
        chosen[self.output] = tuple(outputs)
        return _Numbering(order=order, number=number, chosen=chosen, ties=ties)

    def sort(self, index: int, operands: tuple[int, ...], number: list[int]) -> tuple[tuple[int, ...], bool]:
        """The two operands of a commutative node in canonical order, and whether that order is still open."""
        a, b = operands
        first, second = self.keys[a], self.keys[b]
        if first != second:
            return (a, b) if first < second else (b, a), False
        if number[a] >= 0 or number[b] >= 0:
            a_first = number[b] < 0 or 0 <= number[a] < number[b]
            return (a, b) if a_first else (b, a), False
        return operands, not self.exchangeable(a, b, index, number)

    def exchangeable(self, a: int, b: int, root: int, number: list[int]) -> bool:
        """Whether swapping the cones of a and b, walked side by side, maps the graph onto itself."""
        tokens, sides, stack = self.prepared.tokens, (dict[int, int](), dict[int, int]()), [(a, b)]
        while stack:
            p, q = stack.pop()
            if p == q or (sides[0].get(p) == q and sides[1].get(q) == p):
                continue
            used = p in sides[0] or q in sides[1] or p in sides[1] or q in sides[0]
            numbered = number[p] >= 0 or number[q] >= 0
            if used or numbered or tokens[p].records[0] != tokens[q].records[0] or self.is_anchored(p, q):
                return False
            sides[0][p], sides[1][q] = q, p
            if len(sides[0]) > _PRIVATE_LIMIT:
                return False
            stack.extend(zip(self.kids[p], self.kids[q], strict=True))
        return all(user == root or user in side for side in sides for node in side for user in self.users[node])

    def is_anchored(self, *nodes: int) -> bool:
        """Whether effects tie one of the nodes to its place."""
        prepared = self.prepared
        return any(k in prepared.tails or k in prepared.versions or prepared.tokens[k].effect for k in nodes)

    def all_runs(self, outputs: Iterator[Sequence[int]]) -> Iterator[_Numbering]:
        """Every numbering under every decision; raises _TooManyTies beyond the bound."""
        tries, limit = 0, max(2, min(MAX_TRIES, MAX_TRIED_NODES // len(self.prepared.live)))
        for roots in outputs:
            pending: list[tuple[int, ...]] = [()]
            while pending:
                choices = pending.pop()
                tries += 1
                if tries > limit:
                    raise _TooManyTies
                found = self.run(roots, choices)
                yield found
                padded = choices + (0,) * (found.ties - len(choices))
                pending.extend((*padded[:k], 1) for k in range(len(choices), found.ties))

    def output_orders(self, free: bool) -> Iterator[Sequence[int]]:
        """The orders of outputs to try: the given one, or all that keep the sort keys ascending."""
        outputs = self.kids[self.output]
        if not free or len(outputs) < 2:
            yield outputs
            return
        groups: dict[bytes, list[int]] = {}
        for index in sorted(outputs, key=lambda k: self.keys[k]):
            groups.setdefault(self.keys[index], []).append(index)
        if prod(factorial(len(group)) for group in groups.values()) > MAX_OUTPUT_ORDERS:
            raise _TooManyTies
        for parts in product(*(permutations(group) for group in groups.values())):
            yield [index for part in parts for index in part]


# --- forms ----------------------------------------------------------------------------------------------------------
class _Writer:
    """Writes the form of one numbering at every level."""

    def __init__(self, prepared: _Prepared, numbering: _Numbering) -> None:
        self.tokens = [prepared.tokens[index] for index in numbering.order]
        self.numbering = numbering
        number, chosen, kids = numbering.number, numbering.chosen, prepared.kids
        tails, versions = prepared.tails, prepared.versions
        self.wires: list[bytes] = []
        for index in numbering.order:
            operands = chosen.get(index, kids[index]) if chosen else kids[index]
            if index in versions:
                seen = versions[index]
                parts = [b"%d@%d" % (number[k], seen[k]) if k in seen else b"%d" % number[k] for k in operands]
                text = b" ".join(parts)
            else:
                text = b" ".join([b"%d" % number[kid] for kid in operands])
            self.wires.append(text + tails.get(index, b"") + b"\n" if tails else text + b"\n")

    @cached_property
    def sized_wires(self) -> list[bytes]:
        """The wires with the equality class of every open size, classes numbered in order of appearance."""
        classes: dict[int, int] = {}
        found = []
        for token, wire in zip(self.tokens, self.wires, strict=True):
            sizes = [b"%d" % classes.setdefault(size, len(classes)) for size in token.sizes]
            found.append(b" ".join(sizes) + b"|" + wire)
        return found

    def form(self, level: int) -> bytes:
        """The canonical bytes of a level (index into LEVELS)."""
        wires = self.sized_wires if level in (1, 2) else self.wires
        body = b"".join([token.records[level] + wire for token, wire in zip(self.tokens, wires, strict=True)])
        return f"passnet {LEVELS[level]} {TABLE_VERSION}\n".encode() + body


def _smallest(prepared: _Prepared, numberings: Iterator[_Numbering]) -> _Writer:
    """The numbering whose forms are smallest, coarsest level first."""
    writers = [_Writer(prepared, found) for found in numberings]
    for level in range(len(LEVELS) - 1, -1, -1):
        if len(writers) == 1:
            break
        forms = [writer.form(level) for writer in writers]
        least = min(forms)
        writers = [writer for writer, form in zip(writers, forms, strict=True) if form == least]
    return writers[0]


def _search(prepared: _Prepared, *, free_outputs: bool) -> tuple[_Writer, bool]:
    numberer = _Numberer(prepared)
    several = free_outputs and len(prepared.kids[numberer.output]) > 1
    if not several and not numberer.commutative:
        return _Writer(prepared, numberer.run(prepared.kids[numberer.output], ())), False
    for levels in ((4,), (4, 3, 2, 1, 0)):
        numberer.hash_cones(levels)
        try:
            return _smallest(prepared, numberer.all_runs(numberer.output_orders(several))), False
        except _TooManyTies:
            continue
    outputs = sorted(prepared.kids[numberer.output], key=lambda k: numberer.keys[k]) if several else None
    return _Writer(prepared, numberer.run(outputs or prepared.kids[numberer.output], ())), True


def canonicalize(graph: Graph, *, free_outputs: bool = False) -> Canonical:
    """The canonical form of a legal graph; `free_outputs` ignores the order of outputs (they must be one flat tuple).

    Linear in nodes and edges but for ties. Raises ValueError if outputs are to be free and are not a flat tuple.
    """
    if free_outputs and not _is_flat(graph.nodes[-1]):
        raise ValueError("outputs without order must be one flat tuple of values: cut the piece with fusion_mining.cut")
    prepared = _prepare(graph)
    writer, capped = _search(prepared, free_outputs=free_outputs)
    forms = [writer.form(level) for level in range(len(LEVELS))]
    outputs = writer.numbering.chosen[len(graph.nodes) - 1]
    given = graph.nodes[-1].inputs if free_outputs else outputs
    return Canonical(
        source=graph, blob=forms[0], keys=Keys(**dict(zip(LEVELS, map(digest_of, forms), strict=True))),
        order=tuple(execution_order(graph, prepared.kids, prepared.before, writer.numbering.order)),
        output_order=_positions(given, outputs), capped=capped,
    )  # fmt: skip


def _is_flat(output: Node) -> bool:
    refs = [{"in": k} for k in range(len(output.inputs))]
    return bool(values.loads(output.attrs) == {"args": [{"tuple": refs}], "kwargs": {}})


def _positions(given: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...]:
    """For every wanted output its position among the given ones; equal outputs keep their order."""
    if tuple(given) == tuple(wanted):
        return tuple(range(len(given)))
    places: dict[int, list[int]] = {}
    for position, index in enumerate(given):
        places.setdefault(index, []).append(position)
    return tuple(places[index].pop(0) for index in wanted)
