"""Why items of a run failed: counted by kind, explained, drawn as bars in text and as an SVG file.

    found = failures_of(RunDirectory("runs/default"), STAGES)
    print_failures(Console(), found)
    Path("failures.svg").write_text(chart(found), encoding="utf-8")

Reads the failures tables and manifests of a run directory; the console and the caller's file are all it writes to.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from rich.console import Console
from rich.table import Table

from data.store import RunDirectory
from data.svg import words
from flows.report import funnel
from flows.stages import Stage
from schemas.failures import EXPLANATIONS, FailureKind
from schemas.rows import Failure, Text

EXAMPLES = 3
"""Failures shown of each kind."""
BAR = 28
"""Characters of the longest bar of text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCount:
    """All failures of one kind."""

    kind: FailureKind
    """The kind."""
    count: int
    """How many."""
    stages: Mapping[str, int]
    """How many in each stage, in the order of the funnel."""
    examples: tuple[Failure, ...]
    """The first few, by stage and name, of messages that differ as far as there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """The failures of a run."""

    title: str
    """The run directory."""
    reads: Mapping[str, int]
    """Rows that went into each stage that had failures, in the order of the funnel."""
    kinds: tuple[KindCount, ...]
    """By count, the largest first."""

    @property
    def count(self) -> int:
        """How many items failed."""
        return sum(kind.count for kind in self.kinds)

    @property
    def lines(self) -> list[str]:
        """How many items of each stage failed: "graphs: 7 of 40 (17.5%)"."""
        failed: Counter[str] = Counter()
        for kind in self.kinds:
            failed.update(kind.stages)
        return [
            f"{name}: {failed[name]:,} of {read:,} ({failed[name] / read:.1%})" for name, read in self.reads.items()
        ]


def failures_of(store: RunDirectory, stages: Sequence[Stage], only: str = "") -> Failures:
    """Count the failures of a run, or of one stage of it."""
    chosen = [stage for stage in stages if only in ("", stage.name)]
    order = [stage.name for stage in chosen]
    rows: list[Failure] = []
    for name in order:
        rows += [replace(row, detail=Text("")) for row in store.iter_rows(f"{name}.failures")]
    failed = Counter(row.stage for row in rows)
    reads = {name: failed[name] for name in order if name in failed}
    for row in funnel(store, tuple(chosen)):
        if row.stage in failed:
            reads[row.stage] = row.read or sum(row.failures.values()) + next(iter(row.out.values()), 0)
    kinds = [_count(kind, [row for row in rows if row.kind is kind], order) for kind in FailureKind]
    found = sorted((kind for kind in kinds if kind.count), key=lambda kind: -kind.count)
    return Failures(title=str(store.path), reads=reads, kinds=tuple(found))


def _count(kind: FailureKind, rows: Sequence[Failure], order: Sequence[str]) -> KindCount:
    stages = Counter(row.stage for row in rows)
    ordered = sorted(rows, key=lambda row: (order.index(row.stage), row.name))
    distinct = list({row.message: row for row in reversed(ordered)}.values())[::-1][:EXAMPLES]
    rest = [row for row in ordered if row not in distinct]
    return KindCount(
        kind=kind, count=len(rows), stages={name: stages[name] for name in order if stages[name]},
        examples=tuple([*distinct, *rest][:EXAMPLES]),
    )  # fmt: skip


def as_json(found: Failures) -> dict[str, Any]:
    """The same as plain values: kind -> count, share, stages, retry, cause, advice, examples."""
    return {
        "failed": found.count, "reads": dict(found.reads),
        "kinds": {kind.kind.value: _entry(found, kind) for kind in found.kinds},
    }  # fmt: skip


def _entry(found: Failures, kind: KindCount) -> dict[str, Any]:
    explained = EXPLANATIONS[kind.kind]
    return {
        "count": kind.count, "share": round(kind.count / found.count, 4), "stages": dict(kind.stages),
        "retry": explained.retry.value, "cause": explained.cause, "advice": explained.advice,
        "examples": [{"name": row.name, "message": row.message} for row in kind.examples],
    }  # fmt: skip


# --- text -----------------------------------------------------------------------------------------------------------
def print_failures(console: Console, found: Failures) -> None:
    """A table with bars, then a paragraph on every kind."""
    if not found.count:
        console.print(f"{found.title}: nothing failed", highlight=False)
        return
    console.print(f"{found.count:,} failed; {'; '.join(found.lines)}", highlight=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("kind", "count", "share", "", "try again", "stages"):
        table.add_column(name, justify="right" if name in ("count", "share") else "left", no_wrap=name != "stages")
    for kind in found.kinds:
        table.add_row(
            kind.kind.value, f"{kind.count:,}", f"{kind.count / found.count:.1%}",
            bar(kind.count, found.kinds[0].count), EXPLANATIONS[kind.kind].retry.value, _stages(kind),
        )  # fmt: skip
    console.print(table, markup=False)
    for kind in found.kinds:
        _print_kind(console, kind)


def _stages(kind: KindCount) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in kind.stages.items())


def bar(count: int, largest: int) -> str:
    """A bar of block characters, in eighths of a character; never empty."""
    eighths = max(1, round(count / largest * BAR * 8))
    rest: tuple[str, ...] = ("", *"\u258f\u258e\u258d\u258c\u258b\u258a\u2589")
    return "\u2588" * (eighths // 8) + rest[eighths % 8]


def _print_kind(console: Console, kind: KindCount) -> None:
    explained = EXPLANATIONS[kind.kind]
    lines = [f"\n{kind.kind.value}: {explained.cause}", f"  what to do: {explained.advice}"]
    lines += [f"  {row.name}: {row.message}" for row in kind.examples]
    if kind.count > len(kind.examples):
        stage = max(kind.stages, key=lambda name: kind.stages[name])
        lines.append(f"  ... `passnet show {stage}.failures` lists them")
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


# --- picture --------------------------------------------------------------------------------------------------------
COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0", "#d6a3c0")
"""One a stage, in the order of the funnel."""
ROW, LINE, RIM, NAME, LONGEST, VALUE = 26, 20, 20, 150, 460, 130
"""Pixels: height of a row, of a line of the legend, margin, width of the names, of the longest bar, of the figures."""
WIDTH = 2 * RIM + NAME + LONGEST + VALUE
STYLE = (
    "text{font:13px system-ui,'Segoe UI',Helvetica,'DejaVu Sans',sans-serif;fill:#24292f}"
    ".headline{font-size:16px;font-weight:600}.quiet{fill:#57606a}"
)


def chart(found: Failures) -> str:
    """A bar chart as an SVG text that needs no other file: one bar a kind, its stages in colours."""
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(found.reads)}
    top = 44 + LINE * len(found.reads) + 10
    height = top + ROW * len(found.kinds) + RIM
    headline = f"{found.count:,} items failed" if found.count else "nothing failed"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        words(RIM, 30, headline, kind="headline"),
    ]
    for index, line in enumerate(found.lines):
        y = 44 + LINE * index
        parts.append(f'<rect x="{RIM}" y="{y}" width="12" height="12" rx="2" fill="{COLOURS[index % len(COLOURS)]}"/>')
        parts.append(words(RIM + 18, y + 11, line, kind="quiet"))
    for index, kind in enumerate(found.kinds):
        parts += _bar(found, kind, top + ROW * index, colours)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(found: Failures, kind: KindCount, y: int, colours: Mapping[str, str]) -> list[str]:
    scale = LONGEST / found.kinds[0].count
    title = f"{kind.kind.value}: {EXPLANATIONS[kind.kind].cause}"
    x = float(RIM + NAME)
    parts = [f"<g><title>{escape(title)}</title>", words(RIM + NAME - 10, y + 14, kind.kind.value, anchor="end")]
    for name, count in kind.stages.items():
        length = max(1.5, count * scale)
        parts.append(f'<rect x="{x:.1f}" y="{y}" width="{length:.1f}" height="{ROW - 8}" fill="{colours[name]}"/>')
        x += length
    figures = f"{kind.count:,} \u00b7 {kind.count / found.count:.1%}"
    return [*parts, words(x + 8, y + 14, figures), "</g>"]
