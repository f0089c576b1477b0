"""Small charts as SVG text: bars with intervals, points on two axes, shares below a value. Pure; no package.

    bars([Bar(label="bert", value=0.2, low=0.1, high=0.3)], Axis(title="slow share", low=0.0, high=1.0))
    scatter([Dot(x=1e6, y=40.0, label="gelu", group="slow")], Axis(title="bytes", log=True), Axis(title="us", log=True))
    cumulative([0.8, 1.3], Axis(title="speed-up", log=True), marks={1.0: "eager"})

Colours are classes and `currentColor`, so the page that holds a chart decides them for light and dark: c0, c1, c2 for
groups, `grid`, `soft`. Every mark has a <title>, which browsers show at the pointer. Reads and writes nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

WIDTH, HEIGHT = 640, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 12, 44
_ROW, _LABEL = 20, 210
STYLE = (
    "svg.chart{width:100%;height:auto;font:12px system-ui,sans-serif;fill:currentColor}"
    ".chart .grid{stroke:currentColor;opacity:.14}.chart .axis{stroke:currentColor;opacity:.5}"
    ".chart .soft{opacity:.65}.chart .line{fill:none;stroke-width:2}"
    ".chart .c0{--c:var(--c0)}.chart .c1{--c:var(--c1)}.chart .c2{--c:var(--c2)}"
    ".chart .dot,.chart .bar{fill:var(--c)}.chart .dot,.chart .bar{fill-opacity:.6}"
    ".chart .line,.chart .whisker{stroke:var(--c)}"
    ".chart .mark{stroke:currentColor;stroke-dasharray:4 3;opacity:.6}"
)
"""Style sheet of all charts; the page defines --c0, --c1 and --c2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis; ends that are None are taken from the data."""

    title: str
    log: bool = False
    low: float | None = None
    high: float | None = None
    percent: bool = False


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


# --- charts ---------------------------------------------------------------------------------------------------------
def bars(items: Sequence[Bar], axis: Axis) -> str:
    """Horizontal bars, one below the other, each with its 95% interval and a note at its end."""
    if not items:
        return _nothing()
    scale = _Scale(_fitted(axis, [end for item in items for end in (item.low, item.high, 0.0)]), _LABEL, WIDTH - 110)
    height = _TOP + _ROW * len(items) + _BOTTOM
    parts = [_vertical(scale, _TOP, height - _BOTTOM)]
    for row, item in enumerate(items):
        y = _TOP + _ROW * row + _ROW / 2
        zero, end = scale.at(max(0.0, scale.low)), scale.at(item.value)
        low, high = scale.at(item.low), scale.at(item.high)
        name = f"{item.label}: {scale.text(item.value)} ({scale.text(item.low)} to {scale.text(item.high)}) {item.note}"
        parts.append(
            f'<g class="c0"><title>{escape(name)}</title>'
            f'<text x="{_LABEL - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(_short(item.label))}</text>'
            f'<rect class="bar" x="{zero:.1f}" y="{y - 6:.1f}" width="{max(end - zero, 0):.1f}" height="12"/>'
            f'<line class="whisker" x1="{low:.1f}" x2="{high:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="soft" x="{WIDTH - 102}" y="{y + 4:.1f}">{escape(item.note)}</text></g>'
        )
    parts.append(_title_below(axis.title, (_LABEL + WIDTH - 110) / 2, height))
    return _svg(parts, height)


def scatter(dots: Sequence[Dot], x: Axis, y: Axis, lines: Sequence[Sequence[tuple[float, float]]] = ()) -> str:
    """Points coloured by group, with a legend, and polylines in the units of the axes."""
    if not dots:
        return _nothing()
    across = _Scale(_fitted(x, [dot.x for dot in dots]), _LEFT, WIDTH - _RIGHT)
    up = _Scale(_fitted(y, [dot.y for dot in dots]), HEIGHT - _BOTTOM, _TOP)
    groups = sorted({dot.group for dot in dots})
    parts = [_grid(across, up)]
    for line in lines:
        path = " ".join(f"{across.at(a):.1f},{up.at(b):.1f}" for a, b in line)
        parts.append(f'<polyline class="mark" fill="none" points="{path}"/>')
    for dot in dots:
        name = f"{dot.label}: {across.text(dot.x)}, {up.text(dot.y)}"
        colour, x_at, y_at = groups.index(dot.group) % 3, across.at(dot.x), up.at(dot.y)
        mark = f'<circle class="dot c{colour}" cx="{x_at:.1f}" cy="{y_at:.1f}" r="4">'
        parts.append(f"{mark}<title>{escape(name)}</title></circle>")
    return _svg([*parts, _titles(x, y), _legend([group for group in groups if group])], HEIGHT)


def cumulative(found: Sequence[float], axis: Axis, marks: Mapping[float, str]) -> str:
    """Share of values at or below each value, as a step curve, with named vertical lines."""
    if not found:
        return _nothing()
    ordered = sorted(found)
    across = _Scale(_fitted(axis, [*ordered, *marks]), _LEFT, WIDTH - _RIGHT)
    up = _Scale(Axis(title="share of pieces", low=0.0, high=1.0, percent=True), HEIGHT - _BOTTOM, _TOP)
    points = [(across.at(ordered[0]), up.at(0.0))]
    for rank, value in enumerate(ordered, start=1):
        points += [(across.at(value), points[-1][1]), (across.at(value), up.at(rank / len(ordered)))]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    parts = [_grid(across, up), f'<polyline class="line c0" points="{path}"/>']
    for value, name in marks.items():
        place = across.at(value)
        parts.append(f'<line class="mark" x1="{place:.1f}" x2="{place:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>')
        parts.append(f'<text class="soft" x="{place + 4:.1f}" y="{_TOP + 10}">{escape(name)}</text>')
    return _svg([*parts, _titles(axis, Axis(title="share of pieces at or below"))], HEIGHT)


# --- scales ---------------------------------------------------------------------------------------------------------
def _fitted(axis: Axis, found: Sequence[float]) -> Axis:
    """An axis with both ends known, a little beyond the data where they were not given."""
    usable = [value for value in found if math.isfinite(value) and (value > 0 or not axis.log)] or [1.0]
    low, high = min(usable), max(usable)
    if axis.log:
        low, high = low / 1.15, high * 1.15
    elif axis.low is None or axis.high is None:
        room = (high - low) * 0.04 or 1.0
        low, high = low - room, high + room
    return replace(axis, low=low if axis.low is None else axis.low, high=high if axis.high is None else axis.high)


class _Scale:
    """From values of one axis to places on the page."""

    def __init__(self, axis: Axis, start: float, stop: float) -> None:
        assert axis.low is not None and axis.high is not None
        self.axis, self.start, self.stop = axis, start, stop
        self.low, self.high = axis.low, axis.high

    def at(self, value: float) -> float:
        value = min(max(value, self.low), self.high)
        low, high = self.low, self.high
        if self.axis.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (value - low) / (high - low or 1.0) * (self.stop - self.start)

    def ticks(self) -> list[float]:
        if self.axis.log:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            steps = (1,) if len(decades) > 4 else (1, 2, 5)
            return [t for d in decades for s in steps if self.low <= (t := s * 10.0**d) <= self.high]
        step = _nice((self.high - self.low) / 5)
        first = math.ceil(self.low / step - 1e-9)
        return [k * step for k in range(first, first + 12) if k * step <= self.high * (1 + 1e-9)]

    def text(self, value: float) -> str:
        return f"{value:.0%}" if self.axis.percent else shortened(value)


def _nice(step: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    unit = 10.0 ** math.floor(math.log10(step))
    return next((k * unit for k in (1, 2, 5) if k * unit >= step * (1 - 1e-9)), 10 * unit)


def shortened(value: float) -> str:
    """A number in at most a few characters: 1.2k, 35M, 0.04."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"


# --- parts ----------------------------------------------------------------------------------------------------------
def _vertical(scale: _Scale, top: float, bottom: float) -> str:
    return "".join(
        f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>'
        f'<text class="soft" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{scale.text(tick)}</text>'
        for tick in scale.ticks()
        for x in (scale.at(tick),)
    )


def _grid(across: _Scale, up: _Scale) -> str:
    rows = "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="soft" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{up.text(tick)}</text>'
        for tick in up.ticks()
        for y in (up.at(tick),)
    )
    return _vertical(across, _TOP, HEIGHT - _BOTTOM) + rows


def _titles(x: Axis, y: Axis) -> str:
    middle = (_TOP + HEIGHT - _BOTTOM) / 2
    turned = f'transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle"'
    left = f'<text class="soft" {turned}>{escape(y.title)}</text>'
    return _title_below(x.title, (_LEFT + WIDTH - _RIGHT) / 2, HEIGHT) + left


def _title_below(title: str, middle: float, height: float) -> str:
    return f'<text class="soft" x="{middle:.0f}" y="{height - 8:.0f}" text-anchor="middle">{escape(title)}</text>'


def _legend(groups: Sequence[str]) -> str:
    if len(groups) < 2:
        return ""
    return "".join(
        f'<circle class="dot c{k % 3}" cx="{WIDTH - 120}" cy="{_TOP + 12 + 16 * k}" r="4"/>'
        f'<text x="{WIDTH - 110}" y="{_TOP + 16 + 16 * k}">{escape(group)}</text>'
        for k, group in enumerate(groups)
    )


def _short(label: str) -> str:
    return label if len(label) <= 32 else label[:31] + "\u2026"


def _nothing() -> str:
    return '<p class="soft">nothing to draw</p>'


def _svg(parts: Sequence[str], height: float) -> str:
    return f'<svg class="chart" viewBox="0 0 {WIDTH} {height:.0f}" role="img">{"".join(parts)}</svg>'
