"""What the last build achieved, in one flat JSON object or a table.

    python -m benchmarks.spine --json                   # reads runs/default
    python -m benchmarks.spine --out runs/other

Reads a run directory: its tables, run.json and, where gradings lie beside them, their result rows. Writes standard
output only. The IR round trip is recomputed: every admitted graph is lowered to torch.fx and lifted again.

| key                        | meaning                                                                                |
|----------------------------|----------------------------------------------------------------------------------------|
| models_with_graph          | models whose architecture gave at least one admitted graph                             |
| bytes_per_node             | bytes of the graphs table in Parquet over its nodes                                     |
| roundtrip_identity         | share of admitted graphs with lift(lower(g)) == g                                      |
| roundtrip_numeric_checked  | share of graphs that were run against the traced module                                |
| roundtrip_numeric_equal    | share of those that gave equal outputs; graphs that failed for it count against it     |
| pieces_fusible             | distinct fusible pieces                                                                |
| tasks_train, tasks_test    | tasks a split                                                                          |
| as_<grading>               | task score of a grading under RUN/results, preset published, mean over its tasks       |
| passed_<grading>           | share of its result rows with verdict PASSED                                           |
| speed_measured_<grading>   | share of its result rows whose speed was measured; elsewhere the score takes speed as 1 |
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from data.contents import TABLES, Source
from data.store import StoreError
from schemas.arrow import from_table
from schemas.graph import Graph
from schemas.rows import EvalResult, FailureKind, NumericCheck, Task, Verdict

Value = int | float | str | None


def measure(run: Path) -> dict[str, Value]:
    """All figures of a run; raises ValueError if there is none."""
    source = Source(run)
    if not source.store.parts("models"):
        raise ValueError(f"{run} holds no run: build one first with `make run`, or name its folder with --out")
    failures = Counter(kind for table in TABLES for kind in column(source, f"{table}.failures", "kind"))
    record = source.store.read_json("run.json") or {}
    tables = ("models", "configs", "graphs", "classes", "subgraphs", "profiles", "candidates", "tasks", "variants")
    return {
        **{table: source.store.count(table) for table in tables},
        "models_with_graph": models_with_graph(source),
        "pieces_fusible": column(source, "subgraphs", "kind").count("fusible"),
        "tasks_train": column(source, "tasks", "split").count("train"),
        "tasks_test": column(source, "tasks", "split").count("test"),
        "failures": failures.total(),
        "failures_unknown": failures[FailureKind.UNKNOWN.value],
        **{f"failures_{kind}": count for kind, count in sorted(failures.items()) if kind != FailureKind.UNKNOWN},
        "seconds": record.get("wall_s"),
        "peak_rss_gib": record.get("peak_rss_gib"),
        "bytes_per_node": bytes_per_node(source),
        "roundtrip_identity": roundtrip_identity(source),
        **numeric(source, failures[FailureKind.NUMERIC.value]),
        **gradings(source),
    }


def column(run: Source, table: str, name: str) -> list[Any]:
    """One column of a table; empty if the table does not exist."""
    return [value for (value,) in run.columns(table, name)]


def share(part: int, whole: int) -> float | None:
    """part / whole, rounded to six digits; None of nothing."""
    return round(part / whole, 6) if whole else None


def models_with_graph(run: Source) -> int:
    """Models whose architecture gave at least one admitted graph."""
    traced = set(column(run, "graphs", "architecture"))
    links = zip(column(run, "links", "model"), column(run, "links", "architecture"), strict=True)
    return len({model for model, architecture in links if architecture in traced})


def bytes_per_node(run: Source) -> float | None:
    """Bytes of the graphs table on disk over the nodes of its graphs."""
    nodes = sum(column(run, "graphs", "num_nodes"))
    return round(sum(path.stat().st_size for path in run.store.parts("graphs")) / nodes, 2) if nodes else None


def graphs_of(run: Source) -> Iterator[Graph]:
    """Every admitted graph, one at a time."""
    return (row.graph for row in run.store.iter_rows("graphs"))


def roundtrip_identity(run: Source) -> float | None:
    """Share of admitted graphs that come back from torch.fx unchanged, computed here and now."""
    from schemas.fx import lift, lower

    same = [lift(lower(graph)) == graph for graph in graphs_of(run)]
    return share(sum(same), len(same))


def numeric(run: Source, unequal: int) -> dict[str, Value]:
    """Shares of graphs compared by running them, and of those that were equal."""
    checks = Counter(column(run, "graphs", "numeric"))
    equal = checks[NumericCheck.EQUAL.value]
    return {
        "roundtrip_numeric_checked": share(equal + unequal, checks.total() + unequal),
        "roundtrip_numeric_equal": share(equal, equal + unequal),
        "numeric_too_large": checks[NumericCheck.TOO_LARGE.value],
        "numeric_not_runnable": checks[NumericCheck.NOT_RUNNABLE.value],
    }


def gradings(run: Source) -> dict[str, Value]:
    """Scores of all result tables under RUN/results, by the name of their folder."""
    tasks = {row.task_id: row for row in run.store.iter_rows("tasks")}
    found: dict[str, Value] = {}
    for path in sorted((run.store.path / "results").rglob("*.parquet")):
        if (pq.read_schema(path).metadata or {}).get(b"row_type") == b"EvalResult":
            found |= grading(path.parent.name, from_table(pq.read_table(path), EvalResult), tasks)
    return found


def grading(name: str, rows: list[EvalResult], tasks: dict[str, Task]) -> dict[str, Value]:
    """Score and shares of the result rows of one grading."""
    from passbench.score import PRESETS, geometric_mean, score_task

    graded = sorted({row.task_id for row in rows} & set(tasks))
    scores = [
        score_task([row for row in rows if row.task_id == task], tasks[task], PRESETS["published"], unit_speed=True)
        for task in graded
    ]
    return {
        f"as_{name}": round(geometric_mean([score.task_score for score in scores]), 6) if scores else None,
        f"passed_{name}": share(sum(row.verdict is Verdict.PASSED for row in rows), len(rows)),
        f"speed_measured_{name}": share(sum(row.speed_measured for row in rows), len(rows)),
    }


def main(arguments: list[str] | None = None) -> int:
    """Print the figures; exit code 1 and one line if there is no run to read."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spine", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/default"), help="run directory (default: runs/default)")
    parser.add_argument("--json", action="store_true", help="print one flat JSON object")
    options = parser.parse_args(arguments)
    try:
        found = measure(options.out)
    except (ValueError, StoreError) as error:
        print(error, file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        width = max(map(len, found))
        print("\n".join(f"{name:<{width}}  {'-' if value is None else value}" for name, value in found.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
