"""Which nodes of our IR a compiled kernel computes: marks that travel with the nodes through a compiler.

    mark(gm)                         # every FX node carries the index of its IR node
    with followed():                 # rewrites of several nodes keep all their marks
        ... compile ...
    marks_of(fx_node)                # indices of the IR nodes it stands for
    Assignment(lowering).nodes_of(part)      # FX nodes that one scheduled node computes

Reads and writes nothing. Marks stand in `meta["custom"]`, which tracing copies to every node that it makes while a
marked node runs. A pattern that replaces several nodes copies the meta of one; `followed` gives what it makes the marks
of all.
A node inlined into several kernels is marked in each: it is computed there again.

The compiler's own record of origins is too wide: it was written before values were stored, so it also names nodes that
another kernel stores. `Assignment` keeps of it what can be computed from the buffers that are in fact read: from the FX
node that the buffer was made for, back over its operands, as far as all paths end in those buffers.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch

_MARK = "passnet_nodes"


def mark(gm: torch.fx.GraphModule) -> None:
    """Give every node of a lowered graph the index of its IR node (its position)."""
    for index, node in enumerate(gm.graph.nodes):
        node.meta["custom"] = {**node.meta.get("custom", {}), _MARK: (index,)}


def marks_of(node: torch.fx.Node) -> tuple[int, ...]:
    """Indices of the IR nodes that a node stands for; empty if it was made by a pass on its own."""
    found: tuple[int, ...] = (node.meta.get("custom") or {}).get(_MARK, ())
    return found


def marks_of_all(nodes: Iterable[torch.fx.Node]) -> tuple[int, ...]:
    """Ascending indices of the IR nodes that some nodes stand for."""
    return tuple(sorted({index for node in nodes for index in marks_of(node)}))


class Assignment:
    """Which FX nodes each scheduled node of one compilation computes."""

    def __init__(self, lowering: Any) -> None:
        self._place = {node: index for index, node in enumerate(lowering.graph.nodes)}
        self._stored: dict[torch.fx.Node, set[str]] = {}
        for part in _parts(lowering):
            root = self._root(part)
            if root is not None:
                self._stored.setdefault(root, set()).update(buffer.get_name() for buffer in part.get_outputs())

    def _root(self, part: Any) -> torch.fx.Node | None:
        """The FX node that a scheduled node was made for: the last of its origins, unless it says so."""
        said = getattr(part.node, "origin_node", None)
        origins = [node for node in part.node.get_origins() if node in self._place]
        if said in self._place:
            return said
        return max(origins, key=self._place.__getitem__, default=None)

    def nodes_of(self, part: Any) -> set[torch.fx.Node]:
        """The FX nodes that one scheduled node computes; views compute nothing."""
        root = self._root(part)
        if root is None:
            return set()
        reads = {dep.name for dep in part.read_writes.reads}
        origins = set(part.node.get_origins())
        known: dict[torch.fx.Node, bool] = {root: True}
        waiting = [(node, False) for node in root.all_input_nodes]
        while waiting:
            node, opened = waiting.pop()
            if opened:
                known[node] = all(known.get(source, False) for source in node.all_input_nodes)
            elif node not in known:
                known[node] = self._is_read(node, reads)
                if not known[node] and node.op == "call_function" and (node in origins or node not in self._stored):
                    waiting.append((node, True))
                    waiting.extend((source, False) for source in node.all_input_nodes)
        leaves = {node for node in known if node is not root and self._is_read(node, reads)}
        own = {node for node, inside in known.items() if inside and node not in leaves and node in origins}
        return {node for node in own if not _is_view(node)} | {root}

    def _is_read(self, node: torch.fx.Node, reads: set[str]) -> bool:
        return node.name in reads or bool(self._stored.get(node, set()) & reads)


def _is_view(node: torch.fx.Node) -> bool:
    """Whether a node only looks at its operand's memory in another way."""
    return getattr(node.target, "is_view", False) or getattr(node.target, "__name__", "") == "_unsafe_view.default"


def _parts(lowering: Any) -> Iterator[Any]:
    """Every scheduled node of a compilation that makes a buffer."""
    for group in lowering.scheduler.nodes:
        yield from (part for part in group.get_nodes() if part.node is not None)


@contextmanager
def followed() -> Iterator[None]:
    """While open, what a pattern of Inductor makes carries the marks of everything it replaces."""
    import torch._inductor.pattern_matcher as matcher

    made: list[torch.fx.Node] = []
    create = torch.fx.Graph.create_node

    def noted(self: torch.fx.Graph, *args: Any, **kwargs: Any) -> torch.fx.Node:
        node = create(self, *args, **kwargs)
        made.append(node)
        return node

    with ExitStack() as stack:
        stack.enter_context(patch.object(torch.fx.Graph, "create_node", noted))
        for name in ("LoweringPatternEntry", "GraphPatternEntry", "ReplacementPatternEntry"):
            entry: Any = getattr(matcher, name)
            stack.enter_context(patch.object(entry, "apply", _marking(entry.apply, made)))
        yield


def _marking(apply: Callable[..., Any], made: list[torch.fx.Node]) -> Callable[..., Any]:
    def call(self: Any, match: Any, graph: Any, node: Any) -> Any:
        before = marks_of_all(match.nodes)
        made.clear()
        result = apply(self, match, graph, node)
        for new in made:
            if new.op == "call_function":
                new.meta["custom"] = {**(new.meta.get("custom") or {}), _MARK: before}
        made.clear()
        return result

    return call
