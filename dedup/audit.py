"""Checks of identity by means that share nothing with it: an isomorphism oracle, and what is kept of a mismatch.

    isomorphic(a, b)                        # networkx decides, for graphs of at most 40 nodes or so
    raise_mismatch("...", a, b, folder)     # both graphs and the first difference are saved, then IdentityError

Reads graphs; writes, on a mismatch only, `left.json`, `right.json`, `difference.txt` and `difference.svg` into a
folder. networkx is loaded when the oracle is first asked.
"""

import tempfile
from pathlib import Path
from typing import Any

from schemas.canonical import nested_form
from schemas.forms import exchangeable, storage_classes, tokens_of
from schemas.graph import Graph


class IdentityError(RuntimeError):
    """Two graphs were taken for one, or one for two: nothing may be built on these classes."""

    def __init__(self, message: str, *, pair: tuple[str, str] | None = None) -> None:
        super().__init__(message)
        self.pair = pair
        """Ids of the two graphs, if they are known."""


def as_networkx(graph: Graph) -> Any:
    """Live nodes labelled with what they do, edges with operand places, effects tied to their place by version.

    Written for the oracle alone: it takes labels from `schemas.forms` and nothing from the numbering.
    """
    import networkx

    tokens = tokens_of(graph, tuple(nested_form(text) for text in graph.subgraphs))
    unordered = exchangeable(graph, tokens)
    chain = [index for index, token in enumerate(tokens) if token.effect is not None]
    live = {len(graph.nodes) - 1, *chain}
    for index in range(len(graph.nodes) - 1, -1, -1):
        if index in live:
            live.update(graph.nodes[index].inputs)
    found = networkx.MultiDiGraph()
    before = _writes_before(graph, tokens, unordered, sorted(live))
    for index in sorted(live):
        place = chain.index(index) if index in chain else -1
        found.add_node(index, label=(tokens[index].records[0], place, before[index]))
    for index in sorted(live):
        order = tokens[index].operand_order or range(len(graph.nodes[index].inputs))
        for place, operand in enumerate(order):
            source = graph.nodes[index].inputs[operand]
            found.add_edge(source, index, place=-1 if unordered[index] else place)
    return found


def _writes_before(graph: Graph, tokens: Any, unordered: list[bool], live: list[int]) -> dict[int, tuple[Any, ...]]:
    """For every node how often what it reads was written before, operand by operand, and the scopes entered."""
    classes = storage_classes(graph, tokens, live)
    count: dict[int, int] = {}
    scopes, found = 0, {}
    for index in live:
        seen = [count.get(classes[kid], 0) for kid in graph.nodes[index].inputs]
        found[index] = (
            tuple(sorted(seen) if unordered[index] else seen),
            scopes if graph.nodes[index].is_call else 0,
        )
        effect = tokens[index].effect
        for written in dict.fromkeys(classes[graph.nodes[index].inputs[k]] for k in (effect.writes if effect else ())):
            count[written] = count.get(written, 0) + 1
        scopes += effect is not None and effect.kind == "scope"
    return found


def isomorphic(a: Graph, b: Graph) -> bool:
    """Whether networkx finds an isomorphism that keeps labels and operand places. About 60 nodes a second."""
    import networkx

    return bool(
        networkx.is_isomorphic(
            as_networkx(a), as_networkx(b), node_match=lambda x, y: x["label"] == y["label"],
            edge_match=lambda x, y: sorted(e["place"] for e in x.values()) == sorted(e["place"] for e in y.values()),
        )
    )  # fmt: skip


def raise_mismatch(message: str, a: Graph, b: Graph, folder: Path | None = None) -> None:
    """Save both graphs and a picture of their first difference, then raise IdentityError that names the folder."""
    from dedup.picture import picture
    from dedup.twins import compare, lines_of

    kept = folder if folder is not None else Path(tempfile.mkdtemp(prefix="passnet-mismatch-"))
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "left.json").write_text(a.to_json(), encoding="utf-8")
    (kept / "right.json").write_text(b.to_json(), encoding="utf-8")
    (kept / "difference.txt").write_text("\n".join(lines_of(compare(a, b))) + "\n", encoding="utf-8")
    (kept / "difference.svg").write_text(picture(a, b), encoding="utf-8")
    raise IdentityError(f"{message}: both graphs and their first difference are in {kept}")
