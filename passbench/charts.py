"""Charts as SVG text, drawn without a library: curves with a band, a forest of intervals, a scatter of points.

    svg = curves([Curve(name="mine", points=[(-5, 1.2), ...])], Axis(title="t"), Axis(title="ES_t", log=True))

Colours are classes and variables that the page's style defines, so a chart follows a light or a dark page. Depends on
its arguments alone. Reads and writes nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 520, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 14, 44
Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One direction of a chart."""

    title: str
    """What it shows."""
    log: bool = False
    """Whether it is logarithmic."""
    low: float | None = None
    """Least value that is shown; by default the data's."""
    high: float | None = None
    """Largest value that is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line of a chart."""

    name: str
    """What the legend says."""
    points: Sequence[Point]
    """By x."""
    style: str = "one"
    """Class of its colour: one, two or plain."""
    band: Sequence[tuple[float, float, float]] = ()
    """(x, low, high)."""
    steps: bool = False
    """Whether it jumps instead of sloping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One row of a forest: a value with its interval."""

    name: str
    """Left of it."""
    value: float | None
    """The mark; None for a row that has none."""
    low: float | None = None
    """Lower end of its interval."""
    high: float | None = None
    """Upper end."""
    other: float | None = None
    """A second mark, of the baseline."""
    note: str = ""
    """What stands instead of a mark."""
    style: str = "one"
    """Class of its colour."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """Value -> pixel."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def at(self, value: float) -> float:
        low, high, value = (self._warp(item) for item in (self.low, self.high, value))
        share = (value - low) / (high - low)
        return self.start + (self.end - self.start) * min(max(share, -0.02), 1.02)

    def _warp(self, value: float) -> float:
        return math.log10(max(value, 1e-12)) if self.log else value

    def ticks(self) -> list[float]:
        """About five round values."""
        if self.log:
            return _log_ticks(self.low, self.high)
        step = _round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step - 1e-9)
        return [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


def curves(found: Sequence[Curve], x: Axis, y: Axis) -> str:
    """Lines with bands over common axes, and a legend where there are several."""
    across, up = _scales([p for c in found for p in _extent(c)], x, y, HEIGHT)
    parts = _frame(across, up, x, y, HEIGHT)
    for curve in found:
        if curve.band:
            edge = [(t, low) for t, low, _ in curve.band] + [(t, high) for t, _, high in reversed(curve.band)]
            parts.append(f'<polygon class="band {curve.style}" points="{_pixels(edge, across, up)}"/>')
        points = _stepped(curve.points) if curve.steps else curve.points
        parts.append(f'<polyline class="line {curve.style}" points="{_pixels(points, across, up)}"/>')
    return _svg(HEIGHT, [*parts, *_legend([(c.name, c.style) for c in found])])


def scatter(points: Sequence[tuple[float, float, str, str]], x: Axis, y: Axis, *, diagonal: str = "") -> str:
    """Points (x, y, name, style) over log axes; `diagonal` names the line y = x."""
    across, up = _scales([(px, py) for px, py, _, _ in points], x, y, HEIGHT)
    parts = _frame(across, up, x, y, HEIGHT)
    if diagonal:
        ends = [(value, value) for value in (max(across.low, up.low), min(across.high, up.high))]
    if diagonal and ends[0] < ends[1]:
        parts.append(f'<polyline class="limit" points="{_pixels(ends, across, up)}"/>')
        parts.append(_text(across.at(ends[1][0]) - 6, up.at(ends[1][1]) + 14, diagonal, "end"))
    for px, py, name, style in points:
        parts.append(
            f'<circle class="dot {style}" cx="{across.at(px):.1f}" cy="{up.at(py):.1f}" r="4.5">'
            f"<title>{escape(name)}</title></circle>"
        )
    return _svg(HEIGHT, parts)


def forest(spans: Sequence[Span], axis: Axis, *, names: int = 190) -> str:
    """One row a span: mark, interval, the baseline's mark; the line at 1 is drawn through."""
    height = TOP + BOTTOM + 22 * max(1, len(spans))
    known = [v for s in spans for v in (s.value, s.low, s.high, s.other) if v is not None] or [1.0]
    low, high = min([0.9, *known]), max([1.1, *known])
    across = _Scale(low / 1.05, high * 1.05, names, WIDTH - RIGHT, True)
    parts = []
    for tick in across.ticks():
        parts.append(f'<line class="grid" x1="{across.at(tick):.1f}" x2="{across.at(tick):.1f}" y1="{TOP}" '
                     f'y2="{height - BOTTOM}"/>')  # fmt: skip
        parts.append(_text(across.at(tick), height - BOTTOM + 16, f"{tick:g}", "middle"))
    parts.append(f'<line class="limit" x1="{across.at(1):.1f}" x2="{across.at(1):.1f}" y1="{TOP}" '
                 f'y2="{height - BOTTOM}"/>')  # fmt: skip
    for row, span in enumerate(spans):
        parts += _span(span, across, TOP + 22 * row + 11, names)
    parts.append(_text((names + WIDTH - RIGHT) / 2, height - 8, axis.title, "middle", "title"))
    return _svg(height, parts)


def _span(span: Span, across: _Scale, y: float, names: int) -> list[str]:
    shown = span.name if len(span.name) <= 27 else span.name[:26] + "…"
    label = f"<g><title>{escape(span.name)}</title>{_text(names - 10, y + 4, shown, 'end', 'name')}</g>"
    parts = [label]
    if span.low is not None and span.high is not None:
        ends = f'x1="{across.at(span.low):.1f}" x2="{across.at(span.high):.1f}"'
        parts.append(f'<line class="whisker {span.style}" {ends} y1="{y}" y2="{y}"/>')
    if span.other is not None:
        x = across.at(span.other)
        parts.append(f'<path class="mark two" d="M{x:.1f} {y - 5}l5 5l-5 5l-5 -5z"/>')
    if span.value is not None:
        parts.append(f'<circle class="dot {span.style}" cx="{across.at(span.value):.1f}" cy="{y}" r="4.5"/>')
    if span.note:
        parts.append(_text(names + 8, y + 4, span.note, "start", "bad halo" if span.style == "bad" else "halo"))
    return parts


# --- parts ----------------------------------------------------------------------------------------------------------
def _extent(curve: Curve) -> list[Point]:
    return [*curve.points, *((x, low) for x, low, _ in curve.band), *((x, high) for x, _, high in curve.band)]


def _scales(points: Sequence[Point], x: Axis, y: Axis, height: int) -> tuple[_Scale, _Scale]:
    across = _bounds([p[0] for p in points], x)
    up = _bounds([p[1] for p in points], y)
    return (
        _Scale(across[0], across[1], LEFT, WIDTH - RIGHT, x.log),
        _Scale(up[0], up[1], height - BOTTOM, TOP, y.log),
    )


def _bounds(known: Sequence[float], axis: Axis) -> tuple[float, float]:
    low = axis.low if axis.low is not None else min(known, default=0.0)
    high = axis.high if axis.high is not None else max(known, default=1.0)
    if axis.log:
        low, high = max(low, 1e-9), max(high, 1e-9)
        return (low / 1.15 if axis.low is None else low), (high * 1.15 if axis.high is None else high)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _frame(across: _Scale, up: _Scale, x: Axis, y: Axis, height: int) -> list[str]:
    parts = []
    for tick in up.ticks():
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up.at(tick):.1f}" '
                     f'y2="{up.at(tick):.1f}"/>')  # fmt: skip
        parts.append(_text(LEFT - 8, up.at(tick) + 4, f"{tick:g}", "end"))
    for tick in across.ticks():
        parts.append(_text(across.at(tick), height - BOTTOM + 16, f"{tick:g}", "middle"))
    if up.low < 1 < up.high:
        parts.append(f'<line class="limit" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up.at(1):.1f}" y2="{up.at(1):.1f}"/>')
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, height - 8, x.title, "middle", "title"))
    middle = (TOP + height - BOTTOM) / 2
    turned = f'<text class="title" text-anchor="middle" transform="translate(14 {middle:.0f}) rotate(-90)">'
    return [*parts, f"{turned}{escape(y.title)}</text>"]


def _legend(names: Sequence[tuple[str, str]]) -> list[str]:
    if len(names) < 2:
        return []
    parts, x = [], WIDTH - RIGHT - sum(34 + 6.6 * len(name) for name, _ in names)
    for name, style in names:
        parts.append(f'<line class="line {style}" x1="{x:.0f}" x2="{x + 16:.0f}" y1="{TOP + 6}" y2="{TOP + 6}"/>')
        parts.append(_text(x + 21, TOP + 10, name, "start"))
        x += 34 + 6.6 * len(name)
    return parts


def _stepped(points: Sequence[Point]) -> list[Point]:
    found: list[Point] = []
    for x, y in points:
        if found:
            found.append((x, found[-1][1]))
        found.append((x, y))
    return found


def _pixels(points: Sequence[Point], across: _Scale, up: _Scale) -> str:
    return " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in points)


def _text(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(height: int, parts: Sequence[str]) -> str:
    return f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(max(rough, 1e-12)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)


def _log_ticks(low: float, high: float) -> list[float]:
    decades = math.log10(high / low)
    factors = (1, 2, 5) if decades < 2.5 else (1,)
    if decades < 0.5:
        factors = (1, 1.1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)  # type: ignore[assignment]
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1, max(1, round(decades / 5)))
    return [f * 10.0**k for k in powers for f in factors if low <= f * 10.0**k <= high]
