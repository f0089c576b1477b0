"""What every chart is made of, as SVG text: axes, scales with round ticks, a frame with its grid, words and marks.

    frame = Frame(width=520, height=300, left=56)
    across, up, grid = frame.axes(Axis(title="p", log=True), Axis(title="share"), points)
    text = frame.drawn(grid, path("line one", points, across, up))

Looks are the page's: classes `grid`, `tick`, `title`, `name` for what stands around the marks, and those that the
caller gives its marks. Every text is escaped. Reads and writes nothing.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

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
    percent: bool = False
    """Whether its numbers are shares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """From values of one axis to places on the page."""

    axis: Axis
    low: float
    high: float
    start: float
    stop: float

    def at(self, value: float) -> float:
        """The place of a value; of one beyond the axis, its end."""
        low, high, value = (self._warped(item) for item in (self.low, self.high, value))
        return self.start + min(max((value - low) / (high - low), 0.0), 1.0) * (self.stop - self.start)

    def _warped(self, value: float) -> float:
        return math.log10(max(value, 1e-12)) if self.axis.log else value

    def ticks(self) -> list[float]:
        """About five round values, none beyond the axis: one that rounding puts there is the end itself."""
        if self.axis.log:
            return _log_ticks(self.low, self.high)
        step = _round_step((self.high - self.low) / 5)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [min(max(k * step, self.low), self.high) for k in range(first, last + 1)]

    def text(self, value: float) -> str:
        """A value as the axis writes it."""
        return f"{value:.0%}" if self.axis.percent else shortened(value)


def _log_ticks(low: float, high: float) -> list[float]:
    decades = math.log10(high / low)
    factors: Sequence[float] = (1,) if decades > 3 else (1, 2, 5)
    if decades < 0.5:
        factors = (1, 1.1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1, max(1, round(decades / 5)))
    return [f * 10.0**k for k in powers for f in factors if low <= f * 10.0**k <= high]


def _round_step(rough: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(max(rough, 1e-12)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)


def _scale(axis: Axis, found: Iterable[float], start: float, stop: float) -> Scale:
    """Ends that an axis does not give are those of the data, on a log axis a little beyond."""
    usable = [value for value in found if math.isfinite(value) and (value > 0 or not axis.log)] or [1.0]
    low, high, room = min(usable), max(usable), 1.15 if axis.log else 1.0
    if low == high and not axis.log:
        low, high = low - 0.5, high + 0.5
    low = low / room if axis.low is None else axis.low
    high = high * room if axis.high is None else axis.high
    return Scale(axis=axis, low=low, high=high if high > low else low + 1.0, start=start, stop=stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Where the axes of a chart stand, in pixels: its size, and the margins around what is drawn."""

    width: int
    height: int
    left: int
    right: int = 16
    top: int = 12
    bottom: int = 44

    def across(self, axis: Axis, found: Iterable[float]) -> Scale:
        """The horizontal scale that shows some values."""
        return _scale(axis, found, self.left, self.width - self.right)

    def axes(self, x: Axis, y: Axis, points: Sequence[Point]) -> tuple[Scale, Scale, str]:
        """Both scales that show some points, and what is drawn behind them: lines, numbers and titles."""
        across = self.across(x, (point[0] for point in points))
        up = _scale(y, (point[1] for point in points), self.height - self.bottom, self.top)
        rows = "".join(
            line("grid", self.left, up.at(tick), self.width - self.right, up.at(tick))
            + words(self.left - 7, up.at(tick) + 4, up.text(tick), anchor="end")
            for tick in up.ticks()
        )
        middle = (self.top + self.height - self.bottom) / 2
        turned = f'<text class="title" transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle">'
        return across, up, f"{self.columns(across)}{rows}{turned}{escape(y.title)}</text>"

    def columns(self, across: Scale) -> str:
        """Vertical lines with their numbers and the axis' title below."""
        low = self.height - self.bottom
        drawn = "".join(
            line("grid", across.at(tick), self.top, across.at(tick), low)
            + words(across.at(tick), low + 16, across.text(tick), anchor="middle")
            for tick in across.ticks()
        )
        middle = (self.left + self.width - self.right) / 2
        return drawn + words(middle, self.height - 8, across.axis.title, anchor="middle", kind="title")

    def legend(self, names: Sequence[tuple[str, str]]) -> str:
        """(name, class of its colour) side by side above the marks; nothing for fewer than two."""
        if len(names) < 2:
            return ""
        y = max(self.top - 12, 8)
        lengths = [28 + 6.6 * len(name) for name, _ in names]
        places = [self.width - self.right - sum(lengths[k:]) for k in range(len(names))]
        return "".join(
            f'<circle class="dot {kind}" cx="{x:.1f}" cy="{y}" r="4"/>{words(x + 9, y + 4, name)}'
            for x, (name, kind) in zip(places, names, strict=True)
        )

    def drawn(self, *parts: str) -> str:
        """The whole chart."""
        return f'<svg class="chart" viewBox="0 0 {self.width} {self.height}" role="img">{"".join(parts)}</svg>'


# --- marks ----------------------------------------------------------------------------------------------------------
def words(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "tick") -> str:
    """A line of text."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    """A straight line."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def dot(kind: str, x: float, y: float, name: str = "") -> str:
    """A round mark; browsers show its name at the pointer."""
    named = f"<title>{escape(name)}</title>" if name else ""
    return f'<circle class="dot {kind}" cx="{x:.1f}" cy="{y:.1f}" r="4.3">{named}</circle>'


def path(kind: str, points: Iterable[Point], across: Scale, up: Scale, *, tag: str = "polyline") -> str:
    """Points joined by lines; `tag` polygon closes them."""
    places = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in points)
    return f'<{tag} class="{kind}" points="{places}"/>'


def cut(text: str, width: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= width else text[: width - 1] + "\u2026"


def shortened(value: float) -> str:
    """A number in at most a few characters: 1.2k, 35M, 0.04."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"
