"""Ops that the table of op classes does not know: what mining cannot look into, and how much of it there is.

    found = unknown_ops(graphs)          # most frequent first
    found[0].name, found[0].calls, found[0].graphs

Reads graphs, writes nothing; no torch. Only calls that yield tensors count, outside scopes and without effects: a call
that is opaque for where it stands is no gap of the table.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from fusion_mining.op_classes import OPAQUE, class_of
from schemas.canonical import nested_form
from schemas.forms import tokens_of
from schemas.graph import SCALAR_DTYPES, Graph, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """One op that the table does not list."""

    name: str
    """Its target."""
    calls: int
    """Calls of it in all graphs."""
    graphs: int
    """Graphs with such a call."""


def unknown_ops(graphs: Iterable[Graph]) -> list[Unknown]:
    """The ops of some graphs that the table does not list: in most graphs first, then by name."""
    calls, places = Counter[str](), Counter[str]()
    for graph in graphs:
        here = Counter(_unknown_of(graph))
        calls.update(here)
        places.update(here.keys())
    names = sorted(places, key=lambda name: (-places[name], name))
    return [Unknown(name=name, calls=calls[name], graphs=places[name]) for name in names]


def _unknown_of(graph: Graph) -> Iterable[str]:
    """The target of every call of an unknown op, in order."""
    tokens = tokens_of(graph, tuple(nested_form(text) for text in graph.subgraphs))
    for node, token in zip(graph.nodes, tokens, strict=True):
        asked = node.is_call and _yields_tensors(node)
        if asked and class_of(node, token, tuple(graph.nodes[k] for k in node.inputs)) == OPAQUE:
            yield node.target


def _yields_tensors(node: Node) -> bool:
    return bool(node.outputs) and all(spec.dtype not in SCALAR_DTYPES for spec in node.outputs)
