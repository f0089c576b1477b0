"""How long `passnet same`, `find` and `families` take on a run of very many classes.

    python -m benchmarks.lookups --json                     # 20,000 classes, about 5 minutes and 1 GB of disk
    python -m benchmarks.lookups --classes 500 --json       # a small run
    python -m benchmarks.lookups --work FOLDER --json       # keep the run: the same command measures it again

Reads the golden graphs; writes a run directory into a temporary folder, or into `--work`, and standard output. The run
holds the golden graphs again and again under other names and keys: a third of the classes alone in their families, the
others in families of up to 522, as the largest one of the public samples. Its rows are as large as real ones.

| key        | meaning                                                                                       |
|------------|-----------------------------------------------------------------------------------------------|
| classes    | classes of the run                                                                            |
| start_s    | processor seconds of `passnet same --help`, which all commands take to start                  |
| same_s     | processor seconds of `passnet same NAME NAME`, starting included                              |
| find_s     | processor seconds of `passnet find NAME`, starting included                                   |
| families_s | processor seconds of `passnet families`, starting included                                    |
| wall_s     | wall seconds of the three together                                                            |
| decoded_s  | processor seconds of decoding every class of a tenth of the run, times ten: what it was before |
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.golden import stored_graphs
from data.store import Part, RunDirectory
from dedup.classes import ClassifyConfig, classify
from schemas.arrow import to_table
from schemas.rows import CanonicalGraph, GraphRecord, Member, ModelConfig, NumericCheck, Text, content_id

PER_PART = 1_000
LARGEST = 522
"""Classes of the largest family of the public samples."""


def base_rows() -> tuple[list[GraphRecord], list[CanonicalGraph]]:
    """The golden graphs and their classes, one a graph."""
    graphs = [
        GraphRecord(
            graph_id=content_id(name), architecture=content_id(name), name=name, family=name.split("/")[0],
            modality="other", license="", entry_point="forward", capture="dynamo", rung="fake", break_index=0,
            break_count=1, break_reason="", num_nodes=len(graph.nodes), num_ops=graph.num_ops, num_parameters=0,
            numeric=NumericCheck.EQUAL, numeric_detail="", graph=graph,
        )
        for name, graph in stored_graphs() if not graph.subgraphs
    ]  # fmt: skip
    return graphs, [row for row in classify(graphs=graphs, config=ClassifyConfig()) if isinstance(row, CanonicalGraph)]


def replaced(data: pa.Table, columns: dict[str, Sequence[Any]]) -> pa.Table:
    """A table with some of its columns replaced, its schema kept."""
    for name, values in columns.items():
        place = data.schema.get_field_index(name)
        data = data.set_column(place, data.schema.field(place), pa.array(values, data.schema.field(place).type))
    return data


def family_of(number: int) -> int:
    """The family of a class: every third class is alone, one family has LARGEST classes, the others few or many."""
    if number % 3 == 0:
        return -number - 1
    return 0 if number < 3 * LARGEST // 2 else 1 + (number * number) % 997


def write_run(folder: Path, count: int) -> None:
    """A run directory of that many classes and graphs."""
    graphs, classes = base_rows()
    store = RunDirectory(folder)
    store.create()
    sources = {"graphs": to_table(graphs, GraphRecord), "classes": to_table(classes, CanonicalGraph)}
    for index, start in enumerate(range(0, count, PER_PART)):
        numbers = range(start, min(start + PER_PART, count))
        names = [f"synthetic/model_{number:05d}" for number in numbers]
        ids, keys = ([content_id(kind, name) for name in names] for kind in ("graph", "class"))
        families = [content_id("family", str(family_of(number))) for number in numbers]
        rows = {"graphs": len(graphs), "classes": len(classes)}
        taken = {name: table.take([number % rows[name] for number in numbers]) for name, table in sources.items()}
        taken["graphs"] = replaced(taken["graphs"], {"graph_id": ids, "architecture": ids, "name": names})
        levels = dict.fromkeys(("key", "shape_free", "dtype_free", "body", "inference"), keys)
        taken["classes"] = replaced(taken["classes"], {
            **levels, "structure": families, "topology": families, "name": names, "representative": ids,
        })  # fmt: skip
        members = [
            Member(graph_id=graph, key=key, architecture=graph, family="", modality="", license="")
            for graph, key in zip(ids, keys, strict=True)
        ]
        configs = [
            ModelConfig(
                architecture=graph, name=name, library="timm", library_version="", class_name="", config=Text("{}"),
                family="", modality="", license="",
            )
            for graph, name in zip(ids, names, strict=True)
        ]  # fmt: skip
        taken |= {"members": to_table(members, Member), "configs": to_table(configs, ModelConfig)}
        store.write_parts([Part(table=table, index=index, data=data) for table, data in taken.items()])
    store.write_json("run.json", {})


def command_seconds(*arguments: str) -> tuple[float, float]:
    """(processor, wall) seconds of a `passnet` command; raises CalledProcessError if it is refused."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    code = "import sys; from flows.cli import main; sys.argv[0] = 'passnet'; main()"
    run = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    if run.returncode > 1:
        raise subprocess.CalledProcessError(run.returncode, run.args, run.stdout, run.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, time.monotonic() - began


def decoding_seconds(store: RunDirectory, count: int) -> float:
    """Processor seconds of decoding all classes, from a tenth of them."""
    began = time.process_time()
    for _ in islice(store.iter_rows("classes"), max(1, count // 10)):
        pass
    return 10 * (time.process_time() - began)


def measure(folder: Path, count: int) -> dict[str, Any]:
    """Make the run unless it is there, and time the commands."""
    if not (folder / "run.json").exists():
        write_run(folder, count)
    store = RunDirectory(folder)
    names = [f"synthetic/model_{number:05d}" for number in (count // 2, count - 1)]
    start, _ = command_seconds("same", "--help")
    same = command_seconds("same", *names, "--out", str(folder))
    find = command_seconds("find", names[0], "--out", str(folder))
    families = command_seconds("families", "--out", str(folder))
    return {
        "classes": store.count("classes"), "start_s": round(start, 2), "same_s": round(same[0], 2),
        "find_s": round(find[0], 2), "families_s": round(families[0], 2),
        "wall_s": round(same[1] + find[1] + families[1], 2), "decoded_s": round(decoding_seconds(store, count), 1),
    }  # fmt: skip


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, default=20_000, help="how many classes")
    parser.add_argument("--work", type=Path, help="folder of the run; kept, and used again if it is there")
    parser.add_argument("--json", action="store_true", help="print one flat JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        found = measure(options.work or Path(temporary) / "run", options.classes)
    print(json.dumps(found) if options.json else "\n".join(f"{key}: {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
