"""A torch.fx graph as plain data, for the picture of what a submission's passes changed; a claim of the candidate.

    before = outline(gm.graph)                   # [[name, what it calls, [names of its operands]], ...]
    rewrite_texts(account)                       # both, checked as they come from an untrusted process

Reads and writes nothing.
"""

import json
from typing import Any

from torch.fx import Graph

from passbench.calls import callee

MAX_NODES = 400
"""Larger graphs are not kept."""
_MAX_NAME = 120
Outline = list[tuple[str, str, list[str]]]


def outline(graph: Graph) -> Outline:
    """Name, callee and operands of every node in order; empty if there are more than MAX_NODES."""
    if len(graph.nodes) > MAX_NODES:
        return []
    return [
        (node.name[:_MAX_NAME], _kind(node)[:_MAX_NAME], [operand.name[:_MAX_NAME] for operand in node.all_input_nodes])
        for node in graph.nodes
    ]


def _kind(node: Any) -> str:
    return "input" if node.op == "placeholder" else "output" if node.op == "output" else callee(node)


def rewrite_texts(account: dict[str, Any]) -> list[str]:
    """What a candidate says its passes made of the graph, as JSON text; nothing unless it has the right form."""
    rewrite = account.get("rewrite")
    sides = [valid_outline(rewrite.get(side)) for side in ("before", "after")] if isinstance(rewrite, dict) else []
    return [json.dumps({"before": sides[0], "after": sides[1]})] if sides and all(sides) else []


def valid_outline(raw: Any) -> Outline | None:
    """An outline whose every part has the right form and size, or None."""
    if not isinstance(raw, list) or len(raw) > MAX_NODES:
        return None
    found: Outline = []
    for item in raw:
        if not isinstance(item, list | tuple) or len(item) != 3:
            return None
        name, kind, operands = item
        if not isinstance(operands, list) or len(operands) > MAX_NODES:
            return None
        if not all(isinstance(text, str) and len(text) <= _MAX_NAME for text in (name, kind, *operands)):
            return None
        found.append((name, kind, operands))
    return found
