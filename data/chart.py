"""Small charts of a run as SVG text: bars with intervals, points on two axes, shares below a value. Pure; no package.

    bars([Bar(label="bert", value=0.2, low=0.1, high=0.3)], Axis(title="slow share", low=0.0, high=1.0))
    scatter([Dot(x=1e6, y=40.0, label="gelu", group="slow")], Axis(title="bytes", log=True), Axis(title="us", log=True))
    cumulative([0.8, 1.3], Axis(title="speed-up", log=True), marks={1.0: "eager"})

Colours are classes and `currentColor`, so the page that holds a chart decides them for light and dark: c0, c1, c2 for
groups. Every mark has a <title>, which browsers show at the pointer. Reads and writes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from data.svg import Axis, Frame, cut, dot, line, path, words

FRAME = Frame(width=640, height=320, left=64)
_ROW = 20
STYLE = (
    "svg.chart{width:100%;height:auto;font:12px system-ui,sans-serif;fill:currentColor}"
    ".chart .grid{stroke:currentColor;opacity:.14}.chart .tick,.chart .title{opacity:.65}"
    ".chart .line{fill:none;stroke-width:2}"
    ".chart .c0{--c:var(--c0)}.chart .c1{--c:var(--c1)}.chart .c2{--c:var(--c2)}"
    ".chart .dot,.chart .bar{fill:var(--c);fill-opacity:.6}.chart .line,.chart .whisker{stroke:var(--c)}"
    ".chart .limit{stroke:currentColor;stroke-dasharray:4 3;opacity:.6}"
)
"""Style sheet of all charts; the page defines --c0, --c1 and --c2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar with the interval of its value."""

    label: str
    value: float
    low: float
    high: float
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One point; `group` is the name its colour stands for."""

    x: float
    y: float
    label: str
    group: str = ""


def bars(items: Sequence[Bar], axis: Axis) -> str:
    """Horizontal bars, one below the other, each with its 95% interval and a note at its end."""
    if not items:
        return _nothing()
    frame = Frame(width=640, height=56 + _ROW * len(items), left=210, right=110)
    scale = frame.across(axis, [end for item in items for end in (item.low, item.high, 0.0)])
    parts = [frame.columns(scale)]
    for row, item in enumerate(items):
        y = frame.top + _ROW * row + _ROW / 2
        zero = scale.at(max(0.0, scale.low))
        name = f"{item.label}: {scale.text(item.value)} ({scale.text(item.low)} to {scale.text(item.high)}) {item.note}"
        length = max(scale.at(item.value) - zero, 0)
        parts += [
            f'<g class="c0"><title>{escape(name)}</title>',
            words(frame.left - 8, y + 4, cut(item.label, 32), anchor="end", kind="name"),
            f'<rect class="bar" x="{zero:.1f}" y="{y - 6:.1f}" width="{length:.1f}" height="12"/>',
            line("whisker", scale.at(item.low), y, scale.at(item.high), y),
            f"{words(frame.width - 102, y + 4, item.note)}</g>",
        ]
    return frame.drawn(*parts)


def scatter(dots: Sequence[Dot], x: Axis, y: Axis) -> str:
    """Points coloured by group, with a legend."""
    if not dots:
        return _nothing()
    across, up, grid = FRAME.axes(x, y, [(item.x, item.y) for item in dots])
    colours = {group: f"c{k % 3}" for k, group in enumerate(sorted({item.group for item in dots}))}
    marks = [
        dot(colours[item.group], across.at(item.x), up.at(item.y),
            f"{item.label}: {across.text(item.x)}, {up.text(item.y)}")
        for item in dots
    ]  # fmt: skip
    return FRAME.drawn(grid, *marks, FRAME.legend(list(colours.items())))


def cumulative(found: Sequence[float], axis: Axis, marks: Mapping[float, str]) -> str:
    """Share of values at or below each value, as a step curve, with named vertical lines."""
    if not found:
        return _nothing()
    shares = Axis(title="share of pieces at or below", low=0.0, high=1.0, percent=True)
    points = [(min(found), 0.0)]
    for rank, value in enumerate(sorted(found), start=1):
        points += [(value, points[-1][1]), (value, rank / len(found))]
    across, up, grid = FRAME.axes(axis, shares, [*points, *((value, 0.0) for value in marks)])
    parts = [grid, path("line c0", points, across, up)]
    for value, name in marks.items():
        parts.append(line("limit", across.at(value), up.start, across.at(value), up.stop))
        parts.append(words(across.at(value) + 4, FRAME.top + 10, name))
    return FRAME.drawn(*parts)


def _nothing() -> str:
    return '<p class="soft">nothing to draw</p>'
