"""Task folders of the published layout: read one as tasks that `passbench` runs, write a task as one.

    import_tasks([Path("samples")], Path("runs/published"))    # -> Imported(tasks, refused); tables of tasks, variants
    export_task(Shelf("runs/default"), "add > layer_norm", Path("published"))    # -> the folder written

A task folder holds graph_list.txt (graph folders, one a line, below it or below its graphs/), sample_uids.txt
(comma-joined) and pass_dir/ (a submission). Graphs are read through `extract.samples`: parsed, never run. N is the
number of lines of graph_list.txt; a graph that cannot be read refuses the whole task, because a task with fewer graphs
is another task. A batch, a folder of task folders at any depth, is read as all of them. Reads and writes folders.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from passbench.tasks import Shelf
from schemas.arrow import to_table
from schemas.canonical import canonicalize
from schemas.graph import Graph
from schemas.roles import short_name
from schemas.rows import Task, TaskVariant, content_id

LIST_FILE, UIDS_FILE, GRAPHS, PASSES = "graph_list.txt", "sample_uids.txt", "graphs", "pass_dir"
ORDER_FILE = "sorted_output_pass_rule_names.json"
MAX_TITLE_OPS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A task folder that did not become a task."""

    folder: Path
    """The folder."""
    why: str
    """What is wrong, one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came of task folders."""

    tasks: tuple[Task, ...]
    """Those that were written, in order."""
    refused: tuple[Refused, ...]
    """The others."""


def import_tasks(folders: Sequence[Path], out: Path) -> Imported:
    """Read task folders, and those below folders of them, and write what can be read as tables of tasks and variants.

    A folder that cannot be read stops no other. Nothing is written if none can. Raises ValueError if `out` is taken.
    """
    if (out / "tasks").exists():
        raise ValueError(f"{out} holds tasks already; choose another folder with --out")
    tasks: dict[str, tuple[Path, Task]] = {}
    variants: list[TaskVariant] = []
    refused: list[Refused] = []
    for folder in (found for given in folders for found in task_folders(given)):
        try:
            task, own = read_task(folder)
        except (ValueError, OSError, RecursionError) as error:
            refused.append(Refused(folder=folder, why=" ".join(str(error).split()) or type(error).__name__))
            continue
        if task.task_id in tasks:
            refused.append(Refused(folder=folder, why=f"the same task as {tasks[task.task_id][0]}"))
            continue
        tasks[task.task_id] = (folder, task)
        variants += own
    rows = [task for _, task in tasks.values()]
    if rows:
        _write(rows, variants, out)
    return Imported(tasks=tuple(rows), refused=tuple(refused))


def _write(tasks: Sequence[Task], variants: Sequence[TaskVariant], out: Path) -> None:
    tables: Sequence[tuple[str, Sequence[Any], type]] = (("tasks", tasks, Task), ("variants", variants, TaskVariant))
    for name, rows, cls in tables:
        (out / name).mkdir(parents=True)
        pq.write_table(to_table(rows, cls), out / name / "part-00000.parquet", compression="zstd")


def task_folders(folder: Path) -> list[Path]:
    """The folder if it is a task folder, else all task folders below it, by path; itself if there is none."""
    found = []
    for place, below, files in os.walk(folder):
        if LIST_FILE in files:
            found.append(Path(place))
            below.clear()  # graphs, no tasks
    return sorted(found) or [folder]


def read_task(folder: Path) -> tuple[Task, list[TaskVariant]]:
    """One task folder as a task and its variants."""
    from curate.families import dtype_of, shapes_of

    graphs = [_read_graph(path) for path in graph_folders(folder)]
    keys = [canonicalize(graph, free_outputs=True).keys for graph in graphs]
    task_id = content_id(*(key.exact for key in keys))
    variants = [
        TaskVariant(task_id=task_id, index=index, subgraph=key.exact, origin=key.exact, dtype=dtype_of(graph),
                    shapes=shapes_of(graph), graph=graph)
        for index, (graph, key) in enumerate(zip(graphs, keys, strict=True))
    ]  # fmt: skip
    task = Task(
        task_id=task_id, version=1, title=f"{_title(graphs[0])} ({folder.resolve().name[:12]})", split="test",
        structure=keys[0].structure, num_variants=len(graphs), max_patterns=100, max_functions=1,
        document_frequency=1, families=(), modalities=(), licenses=(), rejected_solvers=(),
    )  # fmt: skip
    return task, variants


def graph_folders(folder: Path) -> list[Path]:
    """The graph folders that graph_list.txt names, in its order; raises ValueError if one is missing or outside."""
    try:
        text = (folder / LIST_FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{folder}: {LIST_FILE} cannot be read: is it a published task folder?") from error
    names = [line.split("\t")[-1].strip() for line in text.splitlines() if line.strip()]
    if not names:
        raise ValueError(f"{folder}/{LIST_FILE}: names no graph")
    return [_graph_folder(folder, name) for name in names]


def _graph_folder(folder: Path, name: str) -> Path:
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{folder}/{LIST_FILE}: {name!r} is not below the task folder")
    homes = (folder / GRAPHS / path, folder / path)
    found = next((home for home in homes if (home / "model.py").is_file()), None)
    if found is None:
        raise ValueError(f"{folder}/{LIST_FILE}: {name!r} has no model.py in {GRAPHS}/ or beside the list")
    return found


def _read_graph(path: Path) -> Graph:
    from extract.failures import RoundtripError
    from extract.samples import read_sample

    try:
        return read_sample(path)
    except (ValueError, RoundtripError) as error:
        raise ValueError(f"{path}: {error}") from error


def _title(graph: Graph) -> str:
    names = [short_name(node.target) for _, node in graph.calls()]
    shown = [name for name in names if name != "getitem"] or names
    return " > ".join(shown[:MAX_TITLE_OPS]) + (" > ..." if len(shown) > MAX_TITLE_OPS else "")


def export_task(shelf: Shelf, name: str, out: Path) -> Path:
    """Write one task as a task folder below `out`, named as published; raises ValueError if it is there or not apt."""
    from extract.samples import write_sample

    task = shelf.find(name)
    variants = shelf.variants(task.task_id)
    uids = [content_id(task.task_id, str(row.index), row.graph.to_json()) for row in variants]
    folder = out / hashlib.sha256("\n".join(sorted(uids)).encode()).hexdigest()
    if folder.exists():
        raise ValueError(f"{folder} exists; choose another folder with --out")
    places = [f"{row.dtype}/{row.index}" for row in variants]
    for row, place in zip(variants, places, strict=True):
        home = folder / GRAPHS / place
        write_sample(row.graph, home, name=task.title)
        digest = hashlib.sha256((home / "model.py").read_bytes()).hexdigest()
        (home / "graph_hash.txt").write_text(digest)
    (folder / LIST_FILE).write_text("\n".join(places) + "\n", encoding="utf-8")
    (folder / UIDS_FILE).write_text(",".join(uids), encoding="utf-8")
    (folder / PASSES).mkdir()
    (folder / PASSES / ORDER_FILE).write_text(json.dumps([]) + "\n")
    return folder
