"""Charts of a grading as SVG text: curves with a band, a forest of intervals, a scatter of points.

    svg = curves([Curve(name="mine", points=[(-5, 1.2), ...])], Axis(title="t"), Axis(title="ES_t", log=True))

Colours are classes and variables that the page's style defines, so a chart follows a light or a dark page. Depends on
its arguments alone. Reads and writes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from data.svg import Axis, Frame, Point, Scale, cut, dot, line, path, words

FRAME = Frame(width=520, height=300, left=56, top=30)
_ROW = 22


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


def curves(found: Sequence[Curve], x: Axis, y: Axis) -> str:
    """Lines with bands over common axes, and a legend where there are several."""
    across, up, grid = FRAME.axes(x, y, [p for curve in found for p in (*curve.points, *_edge(curve))])
    parts = [grid, _even(up)]
    for curve in found:
        if curve.band:
            parts.append(path(f"band {curve.style}", _edge(curve), across, up, tag="polygon"))
        points = _stepped(curve.points) if curve.steps else curve.points
        parts.append(path(f"line {curve.style}", points, across, up))
    return FRAME.drawn(*parts, FRAME.legend([(curve.name, curve.style) for curve in found]))


def _edge(curve: Curve) -> list[Point]:
    """Along the lower end of a band and back along the upper."""
    return [(x, low) for x, low, _ in curve.band] + [(x, high) for x, _, high in reversed(curve.band)]


def _even(up: Scale) -> str:
    """The line at 1, if the axis shows it."""
    y = up.at(1)
    return line("limit", FRAME.left, y, FRAME.width - FRAME.right, y) if up.low < 1 < up.high else ""


def _stepped(points: Sequence[Point]) -> list[Point]:
    found: list[Point] = []
    for x, y in points:
        found += [(x, found[-1][1]), (x, y)] if found else [(x, y)]
    return found


def scatter(points: Sequence[tuple[float, float, str, str]], x: Axis, y: Axis) -> str:
    """Points (x, y, name, style) over log axes with the line y = x, and a legend of the styles that occur."""
    places = [(px, py) for px, py, _, _ in points]
    least = max(min(px for px, _ in places), min(py for _, py in places))
    across, up, grid = FRAME.axes(x, y, [*places, (2 * least, 2 * least)])  # room for the line
    low, high = max(across.low, up.low), min(across.high, up.high)
    parts = [grid, _even(up), path("limit", [(low, low), (high, high)], across, up)]
    marks = [dot(style, across.at(px), up.at(py), name) for px, py, name, style in points]
    styles = {style for _, _, _, style in points}
    legend = FRAME.legend([(name, style) for name, style in (("submission", "one"), ("Inductor", "two"))
                           if style in styles])  # fmt: skip
    return FRAME.drawn(*parts, *marks, legend)


def forest(spans: Sequence[Span], axis: Axis) -> str:
    """One row a span: mark, interval, the baseline's mark; the line at 1 is drawn through."""
    frame = Frame(width=520, height=58 + _ROW * max(1, len(spans)), left=190, top=14)
    known = [v for s in spans for v in (s.value, s.low, s.high, s.other) if v is not None]
    low, high = min([0.9, *known]) / 1.05, max([1.1, *known]) * 1.05
    across = frame.across(Axis(title=axis.title, log=True, low=low, high=high), known)
    parts = [frame.columns(across), line("limit", across.at(1), frame.top, across.at(1), frame.height - frame.bottom)]
    for row, span in enumerate(spans):
        parts += _span(span, across, frame.top + _ROW * row + _ROW / 2)
    return frame.drawn(*parts)


def _span(span: Span, across: Scale, y: float) -> list[str]:
    label = words(across.start - 10, y + 4, cut(span.name, 27), anchor="end", kind="name")
    parts = [f"<g><title>{escape(span.name)}</title>{label}</g>"]
    if span.note:
        kind = "bad halo" if span.style == "bad" else "halo"
        mark = across.start if span.other is None else across.at(span.other)
        right = span.other is not None and mark < (across.start + across.stop) / 2  # the baseline's mark is at the left
        clear = across.at(1) + 8 if across.at(1) + 120 < mark or span.other is None else across.start + 8
        place, anchor = (across.stop - 4, "end") if right else (clear, "start")
        parts.append(words(place, y + 4, span.note, anchor=anchor, kind=kind))
    if span.low is not None and span.high is not None:
        parts.append(line(f"whisker {span.style}", across.at(span.low), y, across.at(span.high), y))
    if span.other is not None:
        parts.append(f'<path class="mark two" d="M{across.at(span.other):.1f} {y - 5}l5 5l-5 5l-5 -5z"/>')
    if span.value is not None:
        parts.append(dot(span.style, across.at(span.value), y))
    return parts
