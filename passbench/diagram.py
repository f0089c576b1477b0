"""A graph before and after the passes as one SVG: what went is marked on the left, what came on the right.

    svg = diagram(json.loads(artifact))          # {"before": [[name, callee, [operands]], ...], "after": [...]}

Nodes stand in order, so every edge runs downwards. Colours are classes that the page's style defines. Reads and writes
nothing.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

MAX_NODES = 28
"""Most nodes a side; of larger graphs those around the change are drawn."""
BOX, ROW, HEIGHT, GUTTER, HEAD = 300, 38, 26, 70, 30
Node = tuple[str, str, Sequence[str]]


def diagram(raw: Mapping[str, Any]) -> str:
    """Both graphs side by side; raises ValueError on anything but an outline of two graphs."""
    sides = [_nodes(raw.get(side)) for side in ("before", "after")]
    signatures = [{_signature(node) for node in side} for side in sides]
    shown, cut = [], []
    for own, other in ((0, 1), (1, 0)):
        changed = [_signature(node) not in signatures[other] for node in sides[own]]
        keep = _window(changed)
        marked = zip(sides[own], changed, strict=True)
        shown.append([pair for k, pair in enumerate(marked) if k in keep])
        cut.append(len(sides[own]) - len(keep))
    height = HEAD + ROW * max(len(side) for side in shown) + 26
    width = 2 * BOX + 3 * GUTTER
    parts = []
    for side, (title, style) in enumerate((("before", "gone"), ("after", "made"))):
        x = GUTTER + side * (BOX + GUTTER)
        count = f"{title}: {len(sides[side])} nodes" + (f", {cut[side]} not drawn" if cut[side] else "")
        parts.append(f'<text class="title" x="{x}" y="16">{count}</text>')
        parts += _column(shown[side], x, style)
    return f'<svg class="graph" viewBox="0 0 {width} {height}" role="img">{"".join(parts)}</svg>'


def _nodes(raw: Any) -> list[Node]:
    if not isinstance(raw, list) or not all(isinstance(item, list) and len(item) == 3 for item in raw):
        raise ValueError("a graph's outline is a list of [name, what it calls, operands]")
    return [(str(name), str(kind), tuple(map(str, operands))) for name, kind, operands in raw]


def _signature(node: Node) -> tuple[str, str]:
    """What makes a node the same on both sides: its name and what it calls."""
    return node[0], node[1]


def _window(changed: Sequence[bool]) -> set[int]:
    """The rows that are drawn: all, or those around what changed."""
    if len(changed) <= MAX_NODES:
        return set(range(len(changed)))
    places = [k for k, mark in enumerate(changed) if mark] or [0]
    near = sorted(range(len(changed)), key=lambda k: (min(abs(k - place) for place in places), k))
    return set(near[:MAX_NODES])


def _column(nodes: Sequence[tuple[Node, bool]], x: int, style: str) -> list[str]:
    tops = {node[0]: HEAD + ROW * row for row, (node, _) in enumerate(nodes)}
    rows = {node[0]: row for row, (node, _) in enumerate(nodes)}
    edges, boxes = [], []
    for (name, kind, operands), changed in nodes:
        top, mark = tops[name], style if changed else "kept"
        for operand in dict.fromkeys(operands):
            if operand in tops and rows[operand] < rows[name]:
                over = rows[name] - rows[operand]
                edges.append(_edge(x, tops[operand] + HEIGHT, top, over, style if changed else ""))
        short = kind.removeprefix("torch.nn.functional.").removeprefix("torch.").removeprefix("operator.")
        short, label = _cut(short, 24), _cut(name, 16)
        boxes.append(
            f'<g class="node {mark}"><title>{escape(name)}: {escape(kind)}</title>'
            f'<rect x="{x}" y="{top}" width="{BOX}" height="{HEIGHT}" rx="6"/>'
            f'<text class="op" x="{x + 10}" y="{top + 17}">{escape(short)}</text>'
            f'<text class="id" x="{x + BOX - 8}" y="{top + 17}" text-anchor="end">{escape(label)}</text></g>'
        )
    return [*edges, *boxes]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _edge(x: int, start: int, end: int, rows: int, style: str) -> str:
    """Straight to the next row, else round on the left, farther out the longer it is."""
    if rows == 1:
        middle = x + BOX // 2
        return f'<path class="edge {style}" d="M{middle} {start}V{end}"/>'
    out = min(10 + 7 * rows, GUTTER - 8)
    start, end = start - HEIGHT // 2, end + HEIGHT // 2
    return f'<path class="edge {style}" d="M{x} {start}C{x - out} {start} {x - out} {end} {x} {end}"/>'
