"""Stage `occurrences`: one canonical graph -> where its pieces stand, each distinct piece once.

Reads a CanonicalGraph row; writes Occurrence rows, in order of the pieces' keys, or a Skipped.
Run: `passnet run occurrences`, or `list(mine(row, MineConfig()))`.

Three kinds of piece (KINDS): fusible ones (`grow`), blocks that the graph repeats (`blocks`), single ops (`sole`). What
is cut depends on its graph alone, so adding a model never changes the pieces of another.
Repeated blocks are folded: growth stays in the first period of what repeats (`fold`), places that look alike node for
node (`_Looks`) share one canonicalisation, and a piece found in several places of one graph is one row with its
number of places.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fusion_mining.blocks import BlocksConfig, blocks
from fusion_mining.cut import cut
from fusion_mining.fold import stretches
from fusion_mining.grow import Found, GrowConfig, grow, wiring_of
from fusion_mining.op_classes import classes_of
from fusion_mining.regions import regions
from fusion_mining.sole import sole_ops
from schemas.canonical import Keys, canonicalize, nested_form
from schemas.forms import Token, tokens_of
from schemas.functional import functionalise
from schemas.graph import PLACEHOLDER, Graph
from schemas.rows import CanonicalGraph, Occurrence, Skipped, content_id

FUSIBLE, TYPICAL, SOLE_OP = "fusible", "typical", "sole_op"
KINDS = (FUSIBLE, TYPICAL, SOLE_OP)
"""Kinds of piece; one that is found as several kinds is of the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MineConfig:
    """What counts as a piece."""

    grow: GrowConfig = field(default_factory=GrowConfig)
    """Limits of the search for fusible pieces."""
    blocks: BlocksConfig = field(default_factory=BlocksConfig)
    """Limits of the search for repeated blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place where a piece stands, the kind and rule it was found by, and how many more are shifts of it."""

    kind: str
    rule: str
    nodes: tuple[int, ...]
    more: int = 0

    @property
    def rank(self) -> tuple[int, tuple[int, ...]]:
        """The first place of a piece is the smallest."""
        return KINDS.index(self.kind), self.nodes


def mine(row: CanonicalGraph, config: MineConfig) -> Iterator[Occurrence | Skipped]:
    """The first place of every distinct piece of a graph, with its number of places.

    A graph without a fusible piece is Skipped as such; one with too many sets to grow them all is mined by a sample,
    and says so.
    """
    graph = functionalise(row.graph)
    tokens = tokens_of(graph, tuple(nested_form(text) for text in graph.subgraphs))
    places, capped = _places(graph, tokens, config)
    if not any(place.kind == FUSIBLE for place in places):
        yield Skipped(item=row.key, reason="no fusible piece")
    if capped:
        yield Skipped(item=row.key, reason="sets beyond the sample (the graph's other pieces are mined)")
    found: dict[str, list[Place]] = {}
    for place, key in keyed(graph, tokens, places):
        found.setdefault(key, []).append(place)
    for key in sorted(found):
        first = min(found[key], key=lambda place: place.rank)
        yield Occurrence(
            parent=row.key, nodes_id=content_id(",".join(map(str, first.nodes))), nodes=first.nodes, subgraph=key,
            kind=first.kind, rule=first.rule, repeats=sum(1 + place.more for place in found[key]),
        )  # fmt: skip


def _places(graph: Graph, tokens: Sequence[Token], config: MineConfig) -> tuple[list[Place], bool]:
    """All places of a graph, each set of nodes once, and whether growth was cut short."""
    classes, records = classes_of(graph, tokens), [token.records[0] for token in tokens]
    wires = wiring_of(graph, config.grow, classes)
    grown = grow(graph, config.grow, wires, stretches(graph, records, classes))
    repeated = [nodes for block in blocks(graph, config.blocks, classes, tokens) for nodes in block]
    rules = (
        (FUSIBLE, "maximal", regions(graph, config.grow, wires)), (TYPICAL, "repeated", repeated),
        (SOLE_OP, "single", sole_ops(graph, classes)),
    )  # fmt: skip
    others: dict[tuple[int, ...], Place] = {}
    for kind, rule, sets in rules:
        for nodes in sets:
            others.setdefault(nodes, Place(kind=kind, rule=rule, nodes=nodes))
    small = list(_grown(grown, others, wires.heavy))
    return [*others.values(), *small], grown.capped


def _grown(grown: Found, others: dict[tuple[int, ...], Place], heavy: int) -> Iterator[Place]:
    """The places of grown pieces; one that was found by another rule as well is that place, and of the first kind.

    `heavy` are the contractions that may stand in a piece, as bits.
    """
    shapes = {(len(nodes), nodes[-1] - nodes[0]) for nodes in others}
    for nodes, (step, more) in zip(grown.sets, grown.shifts, strict=True):
        rule = "anchored" if heavy and any(heavy >> index & 1 for index in nodes) else "grown"
        if (len(nodes), nodes[-1] - nodes[0]) not in shapes:
            yield Place(kind=FUSIBLE, rule=rule, nodes=nodes, more=more)
            continue
        for shift in range(0, step * more + 1, step or 1):
            moved = tuple([index + shift for index in nodes])
            if moved not in others or others[moved].kind != FUSIBLE:
                others.pop(moved, None)
                yield Place(kind=FUSIBLE, rule=rule, nodes=moved)


def keyed(graph: Graph, tokens: Sequence[Token], places: Sequence[Place]) -> Iterator[tuple[Place, str]]:
    """Every place with the exact key of its piece; a block whose structure no other place has is left out."""
    looks = _Looks(graph, tokens)
    known: dict[object, Keys] = {}
    keys: list[Keys] = []
    for place in places:
        look = looks.of(place.nodes)
        if look not in known:
            known[look] = canonicalize(cut(graph, place.nodes), free_outputs=True).keys
        keys.append(known[look])
    repeats: Counter[str] = Counter()
    for place, key in zip(places, keys, strict=True):
        repeats[key.structure] += 1 + place.more
    for place, key in zip(places, keys, strict=True):
        if place.kind != TYPICAL or repeats[key.structure] > 1:
            yield place, key.exact


class _Looks:
    """Descriptions of places; equal ones have isomorphic pieces (not the other way round)."""

    def __init__(self, graph: Graph, tokens: Sequence[Token]) -> None:
        self._users = graph.users
        self._inputs = [node.inputs for node in graph.nodes]
        self._records = [token.records[0] for token in tokens]
        self._outside: list[object] = []
        """What a value is to those that read it from outside; None for constants, which are copied."""
        known: dict[object, int] = {}
        for node, record in zip(graph.nodes, self._records, strict=True):
            look = (record if node.op == PLACEHOLDER else b"", node.outputs)
            is_read = node.is_call or node.op == PLACEHOLDER
            self._outside.append(known.setdefault(look, len(known)) if is_read else None)

    def of(self, nodes: tuple[int, ...]) -> object:
        """The description: record and operands of every node, what is read from outside, which nodes are read there."""
        number = {index: k for k, index in enumerate(nodes)}
        records, outside = self._records, self._outside
        found: list[object] = []
        for index in nodes:
            found.append(records[index])
            for source in self._inputs[index]:
                known = number.get(source)
                if known is None and outside[source] is not None:
                    known = number[source] = len(number)
                    found.append(outside[source])
                found.append(records[source] if known is None else ~known)
        inside = frozenset(nodes)
        return tuple(found), tuple([k for k, index in enumerate(nodes) if not inside.issuperset(self._users[index])])
