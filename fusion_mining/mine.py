"""Stage `occurrences`: one canonical graph -> where its fusible pieces stand, each distinct piece once.

Reads a CanonicalGraph row; writes Occurrence rows, in order of the pieces' keys, or a Skipped.
Run: `passnet run occurrences`, or `list(mine(row, MineConfig()))`.

Repeated blocks are folded: places that look alike node for node (`_place_key`) share one canonicalisation, and a piece
found in several places of one graph is one row with its number of places.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from fusion_mining.cut import cut, inputs_of, outputs_of
from fusion_mining.functional import functionalise
from fusion_mining.grow import GrowConfig, Wiring, grow, regions
from schemas.canonical import canonicalize, nested_form
from schemas.forms import tokens_of
from schemas.graph import PLACEHOLDER, Graph
from schemas.rows import CanonicalGraph, Occurrence, Skipped, content_id


@dataclass(frozen=True, slots=True, kw_only=True)
class MineConfig:
    """What counts as a piece."""

    grow: GrowConfig = field(default_factory=GrowConfig)
    """Limits of the search."""


def mine(row: CanonicalGraph, config: MineConfig) -> Iterator[Occurrence | Skipped]:
    """The first place of every distinct piece of a graph, with its number of places.

    A graph without a piece is Skipped; one with too many sets to grow them all is mined by a sample, and says so.
    """
    graph = functionalise(row.graph)
    wires = Wiring(graph, config.grow)
    grown = grow(graph, config.grow, wires)
    sets = dict.fromkeys([*regions(graph, config.grow, wires).sets, *grown.sets])
    places: dict[str, list[tuple[int, ...]]] = {}
    for nodes, key in _keyed(graph, list(sets)):
        places.setdefault(key, []).append(nodes)
    if not places:
        yield Skipped(item=row.key, reason="no fusible piece")
    if grown.capped:
        yield Skipped(item=row.key, reason="sets beyond the sample (the graph's other pieces are mined)")
    for key in sorted(places):
        first = min(places[key])
        yield Occurrence(
            parent=row.key, nodes_id=content_id(",".join(map(str, first))), nodes=first, subgraph=key,
            repeats=len(places[key]),
        )  # fmt: skip


def _keyed(graph: Graph, sets: list[tuple[int, ...]]) -> Iterator[tuple[tuple[int, ...], str]]:
    """Every set with the exact key of its piece."""
    tokens = tokens_of(graph, tuple(nested_form(text) for text in graph.subgraphs))
    records = [token.records[0] for token in tokens]
    known: dict[object, str] = {}
    for nodes in sets:
        place = _place_key(graph, records, nodes)
        if place not in known:
            known[place] = canonicalize(cut(graph, nodes), free_outputs=True).keys.exact
        yield nodes, known[place]


def _place_key(graph: Graph, records: list[bytes], nodes: tuple[int, ...]) -> object:
    """A description of a place; equal descriptions have isomorphic pieces (not the other way round)."""
    number = {index: k for k, index in enumerate(nodes)}
    for index in inputs_of(graph, nodes):
        number[index] = len(number)
    outside = [
        (graph.nodes[k].op == PLACEHOLDER and records[k], graph.nodes[k].outputs) for k in number if k not in nodes
    ]
    wiring = [(records[k], tuple(number.get(s, records[s]) for s in graph.nodes[k].inputs)) for k in nodes]
    return tuple(wiring), tuple(outside), tuple(number[k] for k in outputs_of(graph, nodes))
