"""The results folder: what a grading gave, as Parquet for machines and JSON for people, written whole or not at all.

    folder = write_results(graded, task, submission, Path("results"))
    for item in read_results(Path("results")): item.task, item.rows

Writes OUT/<submission>-<hash>-<task>/: results.parquet (EvalResult), tasks.parquet, environments.parquet,
variants.parquet (the graphs), results.json (rows, settings, raw times, errors), submission/ (the frozen files) and
artifacts/ (graphs before and after the passes, kernels Inductor generated). Scores are not stored: `passbench.score`
computes them from the rows.
"""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from passbench.submission import Submission
from schemas.arrow import from_table, to_table
from schemas.rows import SCHEMA_VERSION, Environment, EvalResult, Task, TaskVariant

if TYPE_CHECKING:
    from passbench.run import Graded


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One results folder, read back."""

    folder: Path
    """Where it lies."""
    task: Task
    """The task that was graded."""
    rows: tuple[EvalResult, ...]
    """Its results."""
    environment: Environment
    """Where they were made."""


def prepare(out: Path) -> None:
    """Make the output folder, before hours are spent; raises ValueError if it cannot be written to."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not os.access(out, os.W_OK):
            raise PermissionError(13, "no permission to write")
    except OSError as error:
        raise ValueError(
            f"cannot write results to {out}: {error.strerror}; choose another folder with --out"
        ) from error


def folder_name(submission: Submission, task: Task) -> str:
    """The name of the folder of a submission's results on a task."""
    return f"{submission.name}-{submission.digest[:8]}-{task.task_id[:8]}"


def write_results(
    graded: "Graded", task: Task, submission: Submission, out: Path, variants: Sequence[TaskVariant] = ()
) -> Path:
    """Write one grading below `out`, replacing an earlier one of the same submission and task; -> its folder."""
    if graded.settings.layers_off:
        raise ValueError(f"results made without {', '.join(graded.settings.layers_off)} prove a layer; store none")
    final = out / folder_name(submission, task)
    building = out / f".{final.name}.{os.getpid()}"
    _sweep(out, final.name)
    try:
        building.mkdir(parents=True)
        tables: Sequence[tuple[str, Sequence[Any], type]] = (
            ("results", graded.results, EvalResult),
            ("tasks", [task], Task),
            ("environments", [graded.environment], Environment),
            ("variants", variants, TaskVariant),
        )
        for name, rows, cls in tables:
            sink = pa.BufferOutputStream()  # in memory first: a full disk then meets a plain write
            pq.write_table(to_table(rows, cls), sink, compression="zstd")
            (building / f"{name}.parquet").write_bytes(sink.getvalue())
        submission.write_to(building / "submission")
        for name, text in graded.artifacts.items():
            path = building / "artifacts" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="replace")
        (building / "results.json").write_text(
            json.dumps({"key": graded.key, **_readable(graded, task, submission)}, indent=1) + "\n"
        )
        shutil.rmtree(final, ignore_errors=True)
        os.replace(building, final)
    except OSError as error:
        shutil.rmtree(building, ignore_errors=True)
        raise ValueError(f"cannot write results to {final}: {error.strerror}; choose another with --out") from error
    return final


def finished(out: Path, submission: Submission, task: Task, key: str) -> Stored | None:
    """The results of an earlier grading under the same key, if it was finished."""
    folder = out / folder_name(submission, task)
    try:
        same = json.loads((folder / "results.json").read_text()).get("key") == key
        return _read_one(folder) if same else None
    except (OSError, ValueError):
        return None


def _sweep(out: Path, name: str) -> None:
    """Remove what killed processes left unfinished."""
    for path in out.glob(f".{name}.*"):
        owner = path.suffix[1:]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(path, ignore_errors=True)


def write_rows(folder: Path, task: Task, environment: Environment, rows: Sequence[EvalResult]) -> Path:
    """Write rows that were not graded here as a results folder; raises ValueError if there is one already."""
    if folder.exists():
        raise ValueError(f"{folder} exists; choose another with --out")
    folder.mkdir(parents=True)
    tables: Sequence[tuple[str, Sequence[Any], type]] = (
        ("results", rows, EvalResult), ("tasks", [task], Task), ("environments", [environment], Environment),
    )  # fmt: skip
    for name, items, cls in tables:
        pq.write_table(to_table(items, cls), folder / f"{name}.parquet", compression="zstd")
    return folder


def read_results(folder: Path) -> list[Stored]:
    """All gradings at or below a folder, by name; raises ValueError if there is none or one cannot be read."""
    found = sorted(path.parent for path in folder.rglob("results.parquet") if not path.parent.name.startswith("."))
    if not found:
        raise ValueError(f"no results at {folder}: results.parquet is not in it or below; run `passbench run` first")
    return [_read_one(path) for path in found]


def _read_one(folder: Path) -> Stored:
    try:
        rows = from_table(pq.read_table(folder / "results.parquet"), EvalResult)
        (task,) = from_table(pq.read_table(folder / "tasks.parquet"), Task)
        (environment,) = from_table(pq.read_table(folder / "environments.parquet"), Environment)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise ValueError(f"{folder}: not readable as results: {str(error).splitlines()[0]}") from error
    return Stored(folder=folder, task=task, rows=tuple(rows), environment=environment)


def _readable(graded: "Graded", task: Task, submission: Submission) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "submission": {"name": submission.name, "digest": submission.digest, "passes": submission.passes},
        "task": {"task_id": task.task_id, "version": task.version, "title": task.title, "variants": task.num_variants},
        "environment": asdict(graded.environment),
        "settings": asdict(graded.settings),
        "isolation": dict(graded.measures),
        "results": [asdict(row) for row in graded.results],
        "timings": [asdict(timing) for timing in graded.timings],
        "numerics": [{"index": index, "error": error, "eager_error": own} for index, error, own in graded.numerics],
    }
