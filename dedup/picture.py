"""A picture of the first difference between two graphs: both neighbourhoods side by side, as one SVG text.

    Path("difference.svg").write_text(picture(a, b), encoding="utf-8")
    passnet same bert/BertModel roberta/RobertaModel --picture difference.svg

Reads two graphs; writes nothing. Rows follow the canonical order, so every edge runs downwards. The text needs no
script, font or other file, brings its own light ground, and depends on the two graphs alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from dedup.neighbourhood import ALONE, DIFFERS, SAME, Edge, Scene, scene_of
from dedup.twins import Comparison, compare, lines_of
from schemas import roles, values
from schemas.graph import OUTPUT, PLACEHOLDER, SCALAR_DTYPES, Graph, Node
from schemas.signatures import SIGNATURES
from schemas.source import describe, expression

MAX_NOTES = 3
"""Most lines of attributes in a box."""
TEXT_WIDTH = 38
"""Most characters of a line in a box."""
OPERAND = "\u2022"
"""Stands for an operand among attributes."""
SAYING = 96
"""Most characters of a line above the boxes."""
MARGIN, BOX, BETWEEN, LINE, GAP, LANE, HEAD, LEGEND = 16, 300, 44, 17, 16, 9, 70, 60
"""Pixels: rim, width of a box, between the columns, line of text, between rows, lane of edges, above, below."""

_STYLE = """
.ground{fill:#fff;stroke:#d0d7de}
text{font:12px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#24292f}
.headline{font:bold 15px system-ui,"Segoe UI",Helvetica,"DejaVu Sans",sans-serif}
.say,.key{font:12px system-ui,"Segoe UI",Helvetica,"DejaVu Sans",sans-serif;fill:#57606a}
.op{font-weight:bold}.count,.absent{fill:#6e7781}.absent{font-style:italic}
.box{stroke-width:1}
.same .box{fill:#f3f4f6;stroke:#c8ced5}.same text{fill:#57606a}
.differs .box{fill:#fff3cd;stroke:#b7791f}.alone .box{fill:#fde2e7;stroke:#c2255c;stroke-dasharray:6 3}
.first .box{stroke-width:3}.changed{fill:#9c1c1c}
.edge{fill:none;stroke:#9aa4af;stroke-width:1.3}.tip{fill:#9aa4af}
.other .edge{stroke:#c2255c;stroke-width:2}.other .tip{fill:#c2255c}
.tag{fill:#9c1c1c;font-weight:bold}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One node as it is drawn."""

    first: bool
    """Whether it is the first that differs."""
    title: str
    """Its number in canonical order and what it is."""
    spec: tuple[str, bool]
    """Its dtype and shape, and whether its partner has another."""
    notes: tuple[str, ...]
    """What differs, a line each; of a node without partner its attributes."""
    hidden: str
    """How many operands and readers are not drawn."""
    source: str
    """Its name in the graph and its target in full."""

    @property
    def height(self) -> int:
        """Pixels."""
        return LINE * (1 + bool(self.spec[0]) + len(self.notes)) + 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The boxes of one graph and where they are."""

    boxes: dict[int, Box]
    """By row."""
    x: int
    """Left end of the boxes."""
    outwards: int
    """-1 if edges run left of the boxes, 1 if right."""
    lanes: dict[int, int]
    """For every producer with a reader further down than the next box the lane its edges take."""


def picture(a: Graph, b: Graph) -> str:
    """The neighbourhood of the first difference of two legal graphs as a self-contained SVG, at most 14 nodes a side.

    Equal graphs give a picture of their end that says so. Linear in the graphs but for the lines after the difference.
    """
    found = compare(a, b)
    scene = scene_of(a, b, found)
    boxes = (_boxes(scene, 0), _boxes(scene, 1))
    lanes = tuple(_lanes(scene.edges[side], sorted(boxes[side])) for side in (0, 1))
    gutter = 16 + LANE * max((lane + 1 for known in lanes for lane in known.values()), default=0)
    left, right = MARGIN + gutter, MARGIN + gutter + BOX + BETWEEN
    columns = (
        Column(boxes=boxes[0], x=left, outwards=-1, lanes=lanes[0]),
        Column(boxes=boxes[1], x=right, outwards=1, lanes=lanes[1]),
    )
    sayings = _sayings(found, scene)
    head = HEAD + 18 * len(sayings)
    tops, y = dict[int, int](), head
    for row in scene.shown:
        tops[row] = y
        y += max(known[row].height for known in boxes if row in known) + GAP
    parts = _frame(right + BOX + gutter + MARGIN, y + LEGEND, sayings)
    for side, name in ((0, "A"), (1, "B")):
        count = f"{name}: {found.sizes[side]} live nodes"
        parts.append(_text("op", columns[side].x, head - 14, count))
        parts += _edges_of(scene, side, columns[side], tops)
        parts += [line for row in scene.shown for line in _cell(scene, row, columns[side], tops[row])]
    parts += [
        _sign(scene.status[row], right - BETWEEN // 2, tops[row] + 18)
        for row in scene.shown
        if scene.status[row] != ALONE
    ]
    return "\n".join([*parts, *_legend(MARGIN, y + 8), "</svg>", ""])


# --- texts ----------------------------------------------------------------------------------------------------------
def _clean(text: str, width: int = TEXT_WIDTH) -> str:
    """Text that may stand in XML, at most so many characters."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text[: width + 1])
    return escape(shown if len(shown) <= width else shown[: width - 1] + "\u2026")


def _text(kind: str, x: float, y: float, text: str, *, end: bool = False, width: int = TEXT_WIDTH) -> str:
    anchor = ' text-anchor="end"' if end else ""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}"{anchor}>{_clean(text, width)}</text>'


def _sayings(found: Comparison, scene: Scene) -> list[str]:
    """The headline and the lines below it."""
    headline, *others = lines_of(found)
    if not scene.first:
        return [headline, f"compared at the level {scene.level}: no node differs; the end of both is shown"]
    count = sum(status != SAME for status in scene.status)
    where = f"compared at the level {scene.level}: first difference at line {found.place}"
    return [headline, f"{where}, {count} of {len(scene.rows)} rows differ", *others[: found.inference + found.body]]


def _named(node: Node) -> list[tuple[str, str]]:
    """Attributes of a node as (name, value); a position stands for a name that is not known."""
    raw = values.loads(node.attrs)
    if "args" not in raw:
        return [(str(name), str(value)) for name, value in raw.items()]
    target, operands = node.target, [OPERAND] * len(node.inputs)
    if node.is_call:
        tensor = len(node.outputs) == 1 and node.outputs[0].dtype not in SCALAR_DTYPES
        target, raw = roles.spell(node.op, node.target, raw, tensor=tensor)
    names = [part.strip(" )").partition("=")[0].partition(":")[0] for part in SIGNATURES.get(target, "").split(",")]
    names = [name for name in names if name not in ("", "*")]
    if not names:
        names = ["returns"] if node.op == OUTPUT else [f"argument {k}" for k in range(len(raw["args"]))]
    args = [(names[k] if k < len(names) else f"argument {k}", item) for k, item in enumerate(raw["args"])]
    return [(name, expression(item, operands)) for name, item in [*args, *raw["kwargs"].items()]]


def _layout(node: Node) -> list[tuple[str, str]]:
    """What the line of dtype and shape does not say: device and, of a placeholder, stride."""
    found = [("device", ", ".join(spec.device for spec in node.outputs))]
    return [*found, ("stride", str([list(s.stride) for s in node.outputs]))] if node.op == PLACEHOLDER else found


def _notes(scene: Scene, side: int, row: int) -> tuple[str, ...]:
    """What a node has that its partner has not; of a node without partner its attributes."""
    pair = [known.nodes[n] if n is not None else None for known, n in zip(scene.sides, scene.rows[row], strict=True)]
    node, other = pair[side], pair[1 - side]
    if node is None or scene.status[row] == SAME:
        return ()
    lines = [f"{name} = {value}" for name, value in _named(node) if value != OPERAND]
    if other is not None:
        lines = _changes(node, other)
        operands = [{producer for producer, reader in edges if reader == row} for edges in scene.edges]
        if operands[0] != operands[1]:
            lines.append("other operands")
        elif not lines and not _changes(other, node) and node.outputs == other.outputs:
            lines = ["other order of operands or writes"]
    more = len(lines) - MAX_NOTES
    return tuple(lines) if more <= 0 else (*lines[: MAX_NOTES - 1], f"and {more + 1} more")


def _changes(node: Node, other: Node) -> list[str]:
    """Attributes of a node that its partner gives otherwise; of another op all that are given."""
    mine, theirs = [*_named(node), *_layout(node)], [*_named(other), *_layout(other)]
    lines = [f"{name} = {value}" for name, value in mine if (name, value) not in theirs and value != OPERAND]
    if _short(node) != _short(other):
        return lines
    known = {name for name, _ in mine}
    lines += [f"{name} = (default)" for name, _ in theirs if name not in known]
    return [f"op = {node.target}"] * (node.target != other.target) + lines


def _short(node: Node) -> str:
    if node.is_call:
        return node.target.rpartition(".")[2] or node.target
    return node.target or node.op


def _boxes(scene: Scene, side: int) -> dict[int, Box]:
    found, shown = {}, set(scene.shown)
    for row in scene.shown:
        number, partner = scene.rows[row][side], scene.rows[row][1 - side]
        if number is None:
            continue
        node = scene.sides[side].nodes[number]
        other = None if partner is None else scene.sides[1 - side].nodes[partner]
        above = len({p for p, reader in scene.edges[side] if reader == row} - shown)
        below = len({reader for p, reader in scene.edges[side] if p == row} - shown)
        spec = describe(node.outputs)
        found[row] = Box(
            first=number == scene.place and row in scene.first, title=f"{number} {_short(node)}",
            spec=(spec, other is not None and spec != describe(other.outputs)),
            notes=_notes(scene, side, row), source=f"{node.name}: {node.op} {node.target}".strip(),
            hidden=" ".join([f"\u2191{above}"] * (above > 0) + [f"\u2193{below}"] * (below > 0)),
        )  # fmt: skip
    return found


# --- shapes ---------------------------------------------------------------------------------------------------------
def _frame(width: int, height: int, sayings: Sequence[str]) -> list[str]:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img">'
    )
    ground = f'<rect class="ground" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>'
    lines = [_text("say", MARGIN, 52 + 18 * k, line, width=SAYING) for k, line in enumerate(sayings[1:])]
    title = f"<title>{_clean(sayings[0], SAYING)}</title>"
    return [
        head,
        title,
        f"<style>{_STYLE}</style>",
        ground,
        _text("headline", MARGIN, 30, sayings[0], width=SAYING),
        *lines,
    ]


def _cell(scene: Scene, row: int, column: Column, top: int) -> list[str]:
    """The box of a row, or a word where the graph has none."""
    x, y = column.x + 10, top + 19
    if row not in column.boxes:
        return [_text("absent", x, y, "not in A" if column.outwards < 0 else "not in B")]
    box, status = column.boxes[row], scene.status[row]
    kind = f"node {status}" + (" first" if box.first else "")
    spec = "changed" if box.spec[1] and status != SAME else "spec"
    below = [(spec, box.spec[0])] * bool(box.spec[0]) + [("changed", note) for note in box.notes]
    return [
        f'<g class="{kind}"><title>{_clean(box.source, 400)}</title>',
        f'<rect class="box" x="{column.x}" y="{top}" width="{BOX}" height="{box.height}" rx="5"/>',
        _text("op", x, y, box.title, width=TEXT_WIDTH - len(box.hidden) - 1),
        *([_text("count", column.x + BOX - 8, y, box.hidden, end=True)] if box.hidden else []),
        *(_text(name, x, y + LINE * (1 + k), text) for k, (name, text) in enumerate(below)),
        "</g>",
    ]


def _sign(status: str, x: int, y: int) -> str:
    sign, kind = ("=", "say") if status == SAME else ("\u2260", "tag")
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="middle">{sign}</text>'


def _lanes(edges: frozenset[Edge], rows: Sequence[int]) -> dict[int, int]:
    """Lanes beside the boxes, one a producer, such that no two that share a lane overlap."""
    place = {row: k for k, row in enumerate(rows)}
    ends: dict[int, int] = {}
    for producer, reader in edges:
        if producer in place and reader in place and place[reader] > place[producer] + 1:
            ends[producer] = max(reader, ends.get(producer, 0))
    found: dict[int, int] = {}
    for producer in sorted(ends, key=lambda row: (ends[row] - row, row)):
        taken = {found[row] for row in found if row <= ends[producer] and producer <= ends[row]}
        found[producer] = next(lane for lane in range(len(ends)) if lane not in taken)
    return found


def _edges_of(scene: Scene, side: int, column: Column, tops: dict[int, int]) -> list[str]:
    """Edges between drawn nodes: straight to the next box, else around; those the other graph lacks come last."""
    drawn = [edge for edge in sorted(scene.edges[side]) if edge[0] in column.boxes and edge[1] in column.boxes]
    rows, found = sorted(column.boxes), []
    entered: dict[int, int] = {}
    for producer, reader in drawn:
        lacking = (producer, reader) not in scene.edges[1 - side]
        kind = "other" if lacking else "common"
        bottom = tops[producer] + column.boxes[producer].height
        if rows.index(reader) == rows.index(producer) + 1:
            shape = _straight(column.x + BOX // 2, bottom, tops[reader])
        else:
            entered[reader] = entered.get(reader, -1) + 1
            lane = 12 + LANE * column.lanes[producer]
            shape = _around(column, lane, bottom - 9, tops[reader] + 9 + 6 * (entered[reader] % 5))
        found.append((lacking, f'<g class="{kind}">{shape}</g>'))
    return [text for _, text in sorted(found, key=lambda item: item[0])]


def _straight(x: int, top: int, bottom: int) -> str:
    tip = f"{x},{bottom} {x - 4},{bottom - 7} {x + 4},{bottom - 7}"
    return f'<path class="edge" d="M{x} {top}V{bottom - 6}"/><polygon class="tip" points="{tip}"/>'


def _around(column: Column, lane: int, top: int, bottom: int) -> str:
    x = column.x if column.outwards < 0 else column.x + BOX
    away, near = x + column.outwards * lane, x + column.outwards * 6
    tip = f"{x},{bottom} {near},{bottom - 4} {near},{bottom + 4}"
    bend = away - column.outwards * 5
    line = f"M{x} {top}H{bend}Q{away} {top} {away} {top + 5}V{bottom - 5}Q{away} {bottom} {bend} {bottom}H{near}"
    return f'<path class="edge" d="{line}"/><polygon class="tip" points="{tip}"/>'


def _legend(x: int, y: int) -> list[str]:
    found, place = [], x
    for kind, text in (
        (SAME, "alike at that level"), (DIFFERS, "differs from its partner"), (ALONE, "in one graph only"),
        (f"{DIFFERS} first", "first difference"),
    ):  # fmt: skip
        found.append(f'<g class="{kind}"><rect class="box" x="{place}" y="{y}" width="20" height="13" rx="3"/></g>')
        found.append(_text("key", place + 26, y + 11, text))
        place += 50 + 6 * len(text)
    for kind, place, text in (("common", x, "data flow"), ("other", x + 107, "flow that the other graph lacks")):
        found.append(f'<g class="{kind}"><path class="edge" d="M{place} {y + 31}h20"/></g>')
        found.append(_text("key", place + 26, y + 35, text))
    counts = f"\u21913 \u21932: operands, readers not drawn; {OPERAND} an operand"
    return [*found, _text("key", x + 348, y + 35, counts, width=60)]
