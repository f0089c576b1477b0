"""Tasks and their variants, from a PassBench folder or a run directory.

    shelf = Shelf("runs/default")                # a run, a published PassBench folder, its parent or a version of it
    task = shelf.find("gelu")                    # task id or its beginning, structure key, title or part of a title
    shelf.variants(task.task_id)

Reads Parquet: `tasks` and `subgraphs` of a published folder, else `tasks` and `variants` of a run. Columns beyond those
of the row types are left unread. Writes nothing. Raises ValueError, one line, if there is nothing to read.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.arrow import from_table, schema_of
from schemas.rows import Task, TaskVariant

T = TypeVar("T")
_VARIANT_TABLES = ("variants", "subgraphs")
"""Where variants stand: in a run under their own name (its `subgraphs` are other rows), published as `subgraphs`."""
_HOMES = ("", "latest", "PassBench/latest", "datasets/PassBench/latest")
"""Where, below the given folder, the tables may be, in order of preference; a published folder beats a run's tables."""


class Shelf:
    """The tasks below one folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.tasks_at, self.variants_at = _locate(self.folder)

    def tasks(self) -> list[Task]:
        """All tasks, by title and id."""
        return sorted(read_rows(self.tasks_at, Task), key=lambda task: (task.title, task.task_id))

    def variants(self, task_id: str) -> list[TaskVariant]:
        """The variants of one task by index; raises ValueError if there are none."""
        rows = read_rows(self.variants_at, TaskVariant, task_id=task_id)
        if not rows:
            raise ValueError(f"task {task_id} has no variants in {self.variants_at}; rebuild or republish it")
        return sorted(rows, key=lambda row: row.index)

    def find(self, text: str) -> Task:
        """The one task that a text names; raises ValueError that lists what there is if none or several do."""
        return find_task(self.tasks(), text)


def find_task(tasks: Sequence[Task], text: str) -> Task:
    """The task with this id, structure key or title, else the only one whose id begins with it or title holds it."""
    exact = [task for task in tasks if text in (task.task_id, task.structure, task.title)]
    loose = [task for task in tasks if text and (task.task_id.startswith(text) or text in task.title)]
    found = exact or loose
    if len(found) == 1:
        return found[0]
    shown = "; ".join(f"{task.task_id[:12]} {task.title}" for task in (found or tasks)[:8])
    more = f" and {len(found or tasks) - 8} more" if len(found or tasks) > 8 else ""
    if found:
        how = "names" if exact else "is no task's title, but part of the titles of"
        raise ValueError(f"{text!r} {how} {len(found)} tasks; choose one with its id (run: --task ID): {shown}{more}")
    raise ValueError(f"no task is named {text!r}; there are {len(tasks)}: {shown}{more}")


def read_rows(folder: Path, cls: type[T], *, task_id: str | None = None) -> list[T]:
    """Rows of a type from all Parquet files of a folder, extra columns left out."""
    row_type: Any = cls
    schema = schema_of(row_type)
    filters = None if task_id is None else [("task_id", "==", task_id)]
    tables = []
    for path in _parquet_files(folder):
        try:
            table = pq.read_table(path, columns=schema.names, filters=filters, partitioning=None)
            tables.append(table.select(schema.names).cast(schema))
        except (pa.ArrowException, KeyError, ValueError, OSError) as error:
            raise ValueError(f"{path}: not a table of {cls.__name__}: {str(error).splitlines()[0]}") from error
    return [row for table in tables for row in from_table(table.replace_schema_metadata(schema.metadata), cls)]


def _parquet_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.parquet") if not path.name.startswith("."))


def _locate(folder: Path) -> tuple[Path, Path]:
    for home in (folder / part for part in reversed(_HOMES)):
        for base in (home / "data", home):
            at = _tables_in(base)
            if at is not None:
                return at
    raise ValueError(
        f"no tasks at {folder}: expected a PassBench folder (data/tasks/*.parquet, data/subgraphs/*.parquet) or a run "
        "directory; make one with `passnet build`, or name another with --tasks"
    )


def _tables_in(base: Path) -> tuple[Path, Path] | None:
    if not _parquet_files(base / "tasks"):
        return None
    variants: Iterable[Path] = (base / name for name in _VARIANT_TABLES)
    return next(((base / "tasks", path) for path in variants if _parquet_files(path)), None)
