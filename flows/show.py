"""How rows, the funnel and a finished build are printed.

    print_rows(Console(), RunDirectory("runs/default"), "subgraphs", ("3f2a", 20))

Reads a run directory; writes to the console that it is given.
"""

from collections.abc import Mapping
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from data.columns import Columns, row_type
from data.parts import key_columns
from data.store import RunDirectory
from dedup.lookup import did_you_mean
from flows.build import Outcome
from flows.report import FunnelRow
from schemas.failures import EXPLANATIONS
from schemas.graph import Graph
from schemas.rows import Failure
from schemas.source import source_of

SUMMARY_COLUMNS = 7
"""Most columns of a listing."""
LONG_COLUMNS = frozenset({
    "graph", "detail", "config", "nodes", "variants", "eager_samples_us", "inductor_samples_us", "settings",
    "shape_free", "dtype_free", "structure", "topology", "body", "representative", "architecture", "nodes_id", "tags",
})  # fmt: skip
"""Columns that a listing leaves out: long ones, and keys of other rows."""
KEY_DIGITS = 12
"""Digits of a content id in a listing: enough to name it."""


REPEATED = frozenset({"environments"})
"""Tables whose rows stand in every shard again; their number says nothing."""


def print_funnel(console: Console, rows: list[FunnelRow]) -> None:
    """The funnel as a table, and below it why items failed or were left out."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("stage", "in", "out", "also", "failed", "skipped", "seconds"):
        table.add_column(name, justify="left" if name in ("stage", "also") else "right", no_wrap=True)
    for row in rows:
        main, *others = row.out.items()
        also = ", ".join(f"{name} {count}" for name, count in others if name not in REPEATED)
        failed, skipped = sum(row.failures.values()), sum(row.skipped.values())
        table.add_row(
            row.stage, f"{row.read:,}", f"{main[1]:,}", also, str(failed or ""), f"{skipped:,}" if skipped else "",
            f"{row.seconds:,.0f}",
        )  # fmt: skip
    console.print(table)
    for row in rows:
        for kind, reasons in (("failed", row.failures), ("skipped", row.skipped)):
            for reason, count in reasons.items():
                console.print(f"  {row.stage}: {count:,} {kind}: {reason}", highlight=False, soft_wrap=True)


def print_outcome(console: Console, outcome: Outcome) -> None:
    """The funnel, where the datasets are, and what to type next."""
    print_funnel(console, outcome.funnel)
    if not outcome.computed:
        console.print("everything was done already", highlight=False)
    empty = why_empty(RunDirectory(outcome.run))
    if any(empty == reason for _, reason in EMPTIED):
        console.print(f"the datasets are whole but have empty tables: {empty}", highlight=False, soft_wrap=True)
    print_next(console, outcome.run, outcome.datasets)


EMPTIED: tuple[tuple[str, str], ...] = (
    ("models", "no model was listed; `passnet failures` says why"),
    ("graphs", "nothing was traced; `passnet failures` says why"),
    ("subgraphs", "no graph has a piece that one kernel could compute; `passnet status` counts what was skipped"),
    ("candidates", "no piece was proposed as a task; `passnet status` counts what was skipped"),
    ("tasks", "no family was admitted as a task; `passnet failures` says why"),
)
"""(table, what it means that it is the first without rows)."""


def why_empty(store: RunDirectory) -> str:
    """Why later tables of a run have no rows; empty if every one of `EMPTIED` has some or is not there yet."""
    for table, reason in EMPTIED:
        if (store.path / table).is_dir() and store.count(table) == 0:
            return reason
    return "every stage ran and left none"


def print_next(console: Console, run: Path, datasets: Mapping[str, str]) -> None:
    """Where the datasets of a run are, and the commands to try next."""
    out = "" if str(run) == "runs/default" else f" --out {run}"
    for name, folder in datasets.items():
        console.print(f"{name}: {run / folder}", highlight=False, soft_wrap=True)
    console.print("next (with the virtual environment's bin folder on PATH):", highlight=False)
    if not datasets:
        _next(console, f"passnet build{out}", "continue to the datasets")
        return
    _next(console, f"passnet show subgraphs{out}", "the pieces; add a key's beginning to read one as source")
    _next(console, f"passnet show graphs.failures{out}", "why architectures yielded no graph")
    _next(console, f"passbench list --tasks {run}", "the benchmark's tasks")
    dataset = run / datasets["PassNet-Dataset"]
    _next(console, f"python -c \"from datasets import load_dataset as d; print(d('{dataset}', 'fusible'))\"", "")


def _next(console: Console, command: str, what: str) -> None:
    console.print(f"  {command}" + (f"   # {what}" if what else ""), highlight=False, markup=False, soft_wrap=True)


def print_rows(console: Console, store: RunDirectory, table: str, wanted: tuple[str, int]) -> None:
    """Rows whose key or name begins with a text, at most so many; one row is printed whole, with its source."""
    prefix, limit = wanted
    rows = _matching(store, table, prefix, limit + 1)
    if not rows and not prefix and row_type(store, table) is not None:
        console.print(f"{table} has no rows: {why_empty(store)}", highlight=False, soft_wrap=True)
        return
    if not rows:
        raise ValueError(_nothing(store, table, prefix))
    if len(rows) == 1 and prefix:
        _print_whole(console, rows[0])
        return
    _print_listing(console, rows[:limit])
    if len(rows) > limit:
        total = store.count(table)
        console.print(f"... of {total} rows; --limit shows more, a key's beginning shows one", highlight=False)


def _matching(store: RunDirectory, table: str, prefix: str, limit: int) -> list[Any]:
    """The first rows whose key or name begins so; of all others no more than key and name are read."""
    cls = row_type(store, table)
    if cls is None:
        return []
    keys = key_columns(cls)
    names = list(dict.fromkeys([*keys, *_name_column(cls)]))
    columns = Columns(store, table, names)
    texts = (("/".join(map(str, row[: len(keys)])), str(row[-1]) if _name_column(cls) else "") for row in columns)
    places = (place for place, (key, name) in enumerate(texts) if key.startswith(prefix) or name.startswith(prefix))
    found = columns.rows(list(islice(places, limit)))
    return [found[place] for place in sorted(found)]


def _name_column(cls: type[Any]) -> list[str]:
    return [field.name for field in fields(cls) if field.name == "name"]


def _nothing(store: RunDirectory, table: str, prefix: str) -> str:
    cls = row_type(store, table)
    if cls is None:
        return f"{store.path} has no rows in {table!r}; `passnet status` shows what there is"
    names = [name for (name,) in Columns(store, table, _name_column(cls))] if _name_column(cls) else []
    return (
        f"no row of {table!r} has a key or name that begins with {prefix!r}{did_you_mean(prefix, names)}; "
        f"`passnet show {table}` lists them"
    )


def _print_listing(console: Console, rows: list[Any]) -> None:
    keys = rows[0].KEY
    names = [*keys, *(f.name for f in fields(rows[0]) if f.name not in LONG_COLUMNS and f.name not in keys)]
    if isinstance(rows[0], Failure):
        names = ["name", "kind", "message", "item"]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names[:SUMMARY_COLUMNS]:
        table.add_column(name, overflow="ellipsis", no_wrap=True, min_width=KEY_DIGITS if name in keys else None)
    for row in rows:
        table.add_row(*[_cell(getattr(row, name)) for name in names[:SUMMARY_COLUMNS]])
    console.print(table, markup=False)


def _cell(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value[:4])) + (", ..." if len(value) > 4 else "")
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    if len(text) == 32 and not text.strip("0123456789abcdef"):
        text = text[:KEY_DIGITS]
    return text.replace("[", "\\[")


def _print_whole(console: Console, row: Any) -> None:
    for field in fields(row):
        value = getattr(row, field.name)
        if isinstance(value, Graph):
            console.print(source_of(value), highlight=False, markup=False, soft_wrap=True)
        elif field.name == "detail" and value:
            console.print(f"detail:\n{value}", highlight=False, markup=False, soft_wrap=True)
        elif field.name != "variants":
            console.print(f"{field.name}: {value}", highlight=False, markup=False, soft_wrap=True)
    for variant in getattr(row, "variants", ()):
        console.print(f"variant {variant.index}: {variant.dtype} {variant.shapes}", highlight=False, markup=False)
    if isinstance(row, Failure):
        console.print(f"what to do: {EXPLANATIONS[row.kind].advice}", highlight=False, markup=False, soft_wrap=True)
