"""What "the same graph" means: one canonical form, five keys, each coarser than the one before, and the body key.

    same = canonicalize(a).blob == canonicalize(b).blob      # a and b are isomorphic at the exact level
    canonicalize(a).keys.shape_free                          # equal for all sequence lengths of one architecture
    canonicalize(a).body                                     # equal if only intermediate values are returned as well
    canonicalize(piece, free_outputs=True)                   # a mined piece: the order of its outputs is an artefact

Reads a `Graph`, writes nothing; no torch, no networkx.

**Form.** Operands and outputs are ordered, so post-order depth-first search from the ordered outputs, then from the
chain of effects (`schemas.effects`), numbers the live nodes in a way that depends on the isomorphism class alone. The
form is the list of node records (`schemas.forms`) in that order, each with the numbers of its operands: the graph can
be rebuilt from it, so equal bytes mean isomorphic graphs. Left out: names, dead pure nodes, unused placeholders,
placeholder order, initialisers, metadata. Kept at every level: the place of an effect in the chain, the version of
mutable storage an operand is read at, and the number of scope changes before a call.

**Freedom.** Operands of commutative ops (and outputs of pieces) have no order; `schemas.numbering` decides it, at
each level from what that level shows. The exact form keeps the order where bits or strides follow it
(`schemas.layout`): coarser ones show neither. If the bounded search at the exact level gives up, `capped` is set and
the exact key may differ between isomorphic graphs: never the other way round. Where it gives up at a coarser level,
that level takes the order of the finer one: its key may then split what it should join, and equal stays equal at later
levels.

**Body.** The exact form with the sinks for outputs (what no live call reads, in the order of the outputs) and without
the structure they are returned in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain

from schemas import values
from schemas.forms import LEVELS, NestedForm, digest_of, tokens_of
from schemas.graph import Graph, Node
from schemas.numbering import Numbering, TooManyTies, number_at, number_once, number_somehow
from schemas.prepared import Prepared, body_of, order_of_effects, prepare
from schemas.relabel import execution_order, relabel
from schemas.roles import TABLE_VERSION

_BODY_OUTPUT = b'\n["body"]'
_LABELS = [b" %d" % number for number in range(1 << 14)]


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
    capped: bool
    """Whether the search was cut short."""
    _prepared: Prepared
    _numbering: Numbering
    _settled: bool
    """Whether the numbering serves all levels."""

    @cached_property
    def key(self) -> str:
        """Digest of the exact form."""
        return digest_of(self.blob)

    @cached_property
    def keys(self) -> Keys:
        """Digests of the form at every level."""
        return Keys(**dict(zip(LEVELS, map(digest_of, self.forms), strict=True)))

    @cached_property
    def forms(self) -> tuple[bytes, ...]:
        """The form at every level."""
        found, numbering, settled = [self.blob], self._numbering, self._settled
        prepared, lines = self._prepared.coarse, None
        if prepared is not self._prepared:
            once = number_once(prepared)
            numbering, settled = once or numbering, once is not None
        for level in range(1, len(LEVELS)):
            if not settled:
                numbering, lines = _at(prepared, level, numbering), None
            lines = lines or _Lines(prepared, numbering)
            found.append(lines.form(level))
        return tuple(found)

    @cached_property
    def body(self) -> str:
        """Digest of the exact form with the sinks for outputs."""
        prepared = body_of(self._prepared)
        numbering = self._numbering
        if prepared is not self._prepared:
            numbering = _exact(prepared, _Lines.body)[0]
        return digest_of(_Lines(prepared, numbering).body())

    @cached_property
    def order(self) -> tuple[int, ...]:
        """order[i] is the index in `source` of node i of `graph`; dead nodes are missing."""
        prepared = self._prepared
        before = order_of_effects(self.source, prepared)
        return tuple(execution_order(self.source, prepared.kids, before, self._numbering.order))

    @cached_property
    def output_order(self) -> tuple[int, ...]:
        """output_order[i] is the position in the source's output of output i; the identity unless outputs are free."""
        outputs = self._numbering.chosen[len(self.source.nodes) - 1]
        return _positions(self.source.nodes[-1].inputs if self._prepared.free else outputs, outputs)

    @cached_property
    def graph(self) -> Graph:
        """The source relabelled: placeholders first, by first visit, then calls in a valid order of execution."""
        return relabel(self.source, self.order, self.output_order)

    @property
    def numbered(self) -> list[int]:
        """Indices in `source` in the order of the lines of the form."""
        return self._numbering.order


@lru_cache(maxsize=10_000)
def nested_form(text: str) -> NestedForm:
    """What a graph that calls this nested one (its JSON text) needs of it."""
    form = canonicalize(Graph.from_json(text))
    return NestedForm(digests=tuple(getattr(form.keys, level) for level in LEVELS), effects=bool(form._prepared.chain))


# --- forms ----------------------------------------------------------------------------------------------------------
class _Lines:
    """Writes the form of one numbering at every level."""

    def __init__(self, prepared: Prepared, numbering: Numbering) -> None:
        tokens, kids, order = prepared.tokens, prepared.kids, numbering.order
        self.tokens = [tokens[index] for index in order]
        labels = _LABELS if len(order) <= len(_LABELS) else [b" %d" % number for number in range(len(order))]
        label: list[bytes] = [b""] * len(kids)
        operands_of, join = kids.copy(), b"".join
        for index, chosen in numbering.chosen.items():
            operands_of[index] = chosen
        self.wires: list[bytes] = []
        append = self.wires.append
        for index, text in zip(order, labels, strict=False):
            label[index] = text
            operands = operands_of[index]
            size = len(operands)
            if size == 2:
                append(label[operands[0]] + label[operands[1]])
            elif size == 1:
                append(label[operands[0]])
            else:
                append(join([label[kid] for kid in operands]))
        if prepared.versions or prepared.tails:
            self._mark_effects(prepared, numbering, label)

    def _mark_effects(self, prepared: Prepared, numbering: Numbering, label: list[bytes]) -> None:
        """Add the versions that operands are read at, places in the chain of effects, and scopes."""
        versions, tails = prepared.versions, prepared.tails
        for place, index in enumerate(numbering.order):
            if index in versions:
                operands, seen = numbering.chosen.get(index) or prepared.kids[index], versions[index]
                self.wires[place] = b"".join([label[k] + (b"@%d" % seen[k] if k in seen else b"") for k in operands])
            if index in tails:
                self.wires[place] += tails[index]

    @cached_property
    def sized_wires(self) -> list[bytes]:
        """The wires with the equality class of every open size, classes numbered in order of appearance."""
        classes: dict[int, bytes] = {}
        found = []
        for token, wire in zip(self.tokens, self.wires, strict=True):
            for size in token.sizes:
                if size not in classes:
                    classes[size] = b" %d" % len(classes)
            found.append(b"".join([classes[size] for size in token.sizes]) + b" |" + wire if token.sizes else wire)
        return found

    def form(self, level: int) -> bytes:
        """The canonical bytes of a level (index into LEVELS)."""
        wires = self.sized_wires if level in (1, 2) else self.wires
        return _joined(LEVELS[level], [token.records[level] for token in self.tokens], wires)

    def body(self) -> bytes:
        """The canonical bytes of the body."""
        return _joined("body", [*(token.records[0] for token in self.tokens[:-1]), _BODY_OUTPUT], self.wires)


def _joined(name: str, records: list[bytes], wires: list[bytes]) -> bytes:
    head = f"passnet {name} {TABLE_VERSION}".encode()
    return head + b"".join(chain.from_iterable(zip(records, wires, strict=True)))


def _at(prepared: Prepared, level: int, finer: Numbering) -> Numbering:
    """The numbering at a coarser level; the finer one where the search is cut short."""
    try:
        return number_at(prepared, level, lambda found: _Lines(prepared, found).form(level))
    except TooManyTies:
        return finer


def _exact(prepared: Prepared, form: Callable[[_Lines], bytes]) -> tuple[Numbering, bool, bool]:
    """The numbering at the exact level; whether it serves all levels; whether the search was cut short."""
    found = number_once(prepared)
    if found is not None:
        return found, True, False
    try:
        return number_at(prepared, 0, lambda tried: form(_Lines(prepared, tried))), False, False
    except TooManyTies:
        return number_somehow(prepared), False, True


def canonicalize(graph: Graph, *, free_outputs: bool = False) -> Canonical:
    """The canonical form of a legal graph; `free_outputs` ignores the order of outputs (they must be one flat tuple).

    Linear in nodes and edges but for ties. Raises ValueError if outputs are to be free and are not a flat tuple.
    """
    if free_outputs and not _is_flat(graph.nodes[-1]):
        raise ValueError("outputs without order must be one flat tuple of values: cut the piece with fusion_mining.cut")
    tokens = tokens_of(graph, tuple([nested_form(text) for text in graph.subgraphs]))
    prepared = prepare(graph, tokens, free=free_outputs)
    numbering, settled, capped = _exact(prepared, lambda lines: lines.form(0))
    return Canonical(
        source=graph, blob=_Lines(prepared, numbering).form(0), capped=capped,
        _prepared=prepared, _numbering=numbering, _settled=settled,
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
