"""Kernel maps of whole architectures for a GPU that is not there: how many work, and how long one takes.

    python -m benchmarks.mining_maps --run runs/default --sample 60 --json        # the whole sample, resumable
    python -m benchmarks.mining_maps --run runs/default --sample 60 --limit 20    # its first 20 graphs

Reads the classes of a run; appends one JSON line a graph to `--state` (a second call goes on where the first stopped),
prints the sums. The sample is seeded. One process compiles the graphs one after another; one that dies or exceeds
`--timeout` seconds of its own processor time counts as failed, and the rest goes on in a new process. Seconds are
processor seconds of one core, compilation alone: reading the row and importing torch are not counted.

| key                 | meaning                                                          |
|---------------------|------------------------------------------------------------------|
| gpu_target_graphs   | graphs of the sample that were tried                             |
| gpu_target_share    | share of them that have a kernel map                             |
| gpu_target_median_s | median processor seconds of those                                |
| gpu_target_failed   | the others: name and reason                                      |
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemas.arrow import from_table
from schemas.rows import CanonicalGraph

GRACE_S = 60.0


def sample_of(run: Path, size: int, seed: int) -> list[tuple[str, str]]:
    """(class key, name) of a seeded sample of a run's classes, one an architecture family's member, in random order."""
    known: dict[str, str] = {}
    for part in sorted((run / "classes").glob("part-*.parquet")):
        data = pq.read_table(part, columns=["key", "name"])
        known |= dict(zip(data["key"].to_pylist(), data["name"].to_pylist(), strict=True))
    if not known:
        raise ValueError(f"{run} has no table 'classes': build one, or give --run")
    chosen = random.Random(seed).sample(sorted(known), min(size, len(known)))
    return [(key, known[key]) for key in chosen]


def row_of(run: Path, key: str) -> CanonicalGraph:
    """One class of a run."""
    for part in sorted((run / "classes").glob("part-*.parquet")):
        file = pq.ParquetFile(part)
        place = pc.index(file.read(columns=["key"])["key"], key).as_py()
        if place >= 0:
            return from_table(file.read().slice(place, 1), CanonicalGraph)[0]
    raise ValueError(f"{run} has no class {key}")


def compile_all(run: Path, keys: Sequence[str], target: str, state: Path) -> None:
    """Compile some classes for a target in this process, appending a line a graph: at its start and at its end."""
    from fusion_mining.device import stand_in
    from fusion_mining.kernel_map import compile_graph
    from fusion_mining.kernels import map_row
    from fusion_mining.targets import TARGETS

    stand_in(TARGETS[target])
    for key in keys:
        row = row_of(run, key)
        _append(state, {"key": key, "started": os.getpid()})
        began = time.process_time()
        found = map_row(key, row.name, row.graph, (target, compile_graph(row.graph, device="cuda")))
        seconds = round(time.process_time() - began, 2)
        computed = {index for launch in found.launches for index in launch.nodes}
        _append(
            state,
            {"key": key, "name": row.name, "nodes": row.num_nodes, "seconds": seconds, "kernels": found.kernels,
             "launches": found.generated, "library_calls": found.library_calls, "calls_placed": len(computed)},
        )  # fmt: skip


def _append(path: Path, line: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def done(state: Path) -> dict[str, dict[str, Any]]:
    """Finished graphs by key: compiled or failed."""
    return {line["key"]: line for line in _lines(state) if "started" not in line}


def supervise(run: Path, wanted: Sequence[tuple[str, str]], options: argparse.Namespace) -> None:
    """Start processes until every wanted graph is done; whoever dies or takes too long loses its graph."""
    names = dict(wanted)
    while left := [key for key, _ in wanted if key not in done(options.state)]:
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.mining_maps", "--run", str(run), "--keys", *left]
        command += ["--state", str(options.state), "--target", options.target]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=_limits) as child:
            reason = _watch(child, options)
            error = (child.stderr.read() if child.stderr else "").strip().splitlines()
        started = [line["key"] for line in _lines(options.state) if "started" in line]
        if started and started[-1] not in done(options.state):
            why = reason or (error[-1][:200] if error else f"exit status {child.returncode}")
            _append(options.state, {"key": started[-1], "name": names.get(started[-1], ""), "failed": why})
        elif child.returncode:
            raise RuntimeError(error[-1] if error else "the compiling process did not start")


def _limits() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _watch(child: "subprocess.Popen[str]", options: argparse.Namespace) -> str:
    """Wait for a process; kill it if one graph takes too much of its processor time. Returns why it was killed."""
    graph, since = "", 0.0
    while child.poll() is None:
        time.sleep(1.0)
        started = [line["key"] for line in _lines(options.state) if line.get("started") == child.pid]
        used = _processor_seconds(child.pid)
        if started and started[-1] != graph:
            graph, since = started[-1], used
        if graph and used - since > options.timeout:
            child.kill()
            return f"more than {options.timeout:g} processor seconds"
    return ""


def _processor_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def summary(state: Path, wanted: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The figures of the graphs that are done."""
    found = [line for key, line in done(state).items() if key in dict(wanted)]
    good = [line for line in found if "seconds" in line]
    return {
        "gpu_target_graphs": len(found), "gpu_target_share": round(len(good) / max(1, len(found)), 4),
        "gpu_target_median_s": statistics.median([line["seconds"] for line in good]) if good else None,
        "gpu_target_failed": {line["name"]: line["failed"] for line in found if "failed" in line},
    }  # fmt: skip


def _arguments() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "--run", {"type": Path, "default": Path("runs/default"), "help": "a run directory with classes"}
    yield "--sample", {"type": int, "default": 60, "help": "graphs of the sample"}
    yield "--limit", {"type": int, "default": 0, "help": "only so many of them; 0 means all"}
    yield "--seed", {"type": int, "default": 0, "help": "seed of the sample"}
    yield "--target", {"default": "H200", "help": "name of a target"}
    yield "--timeout", {"type": float, "default": 300.0, "help": "processor seconds a graph"}
    yield "--state", {"type": Path, "default": Path("/tmp/passnet-mining-maps.jsonl"), "help": "file of what is done"}
    yield "--keys", {"nargs": "*", "help": "compile these classes in this process"}
    yield "--json", {"action": "store_true", "help": "print one JSON object"}


def main() -> None:
    """Entry of `python -m benchmarks.mining_maps`."""
    parser = argparse.ArgumentParser(description="Kernel maps of whole architectures, without a GPU.")
    for name, settings in _arguments():
        parser.add_argument(name, **settings)
    options = parser.parse_args()
    if options.keys:
        compile_all(options.run, options.keys, options.target, options.state)
        return
    wanted = sample_of(options.run, options.sample, options.seed)
    supervise(options.run, wanted[: options.limit or None], options)
    found = summary(options.state, wanted)
    print(json.dumps(found) if options.json else "\n".join(f"{key:<20} {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
