"""What changed of the architectures whose capture reads values, between another source tree and this one.

    git worktree add ../before COMMIT
    python -m benchmarks.retraced --before ../before --out runs/retraced --json [--shrink] [--groups transformers_types]
                                  [--limit 100 --seed 0] [--seconds 2700]

Architectures are traced as `benchmarks.extract_coverage` does, with this tree first. Those that gave a graph that holds
for numbers that were read, and those that this tree refuses, are traced with the other tree as well; of the refused
those count that the other tree admitted. Each tree traces in processes of its own. Results are appended to
OUT/traced.jsonl as they come, graphs to OUT; a run over the same OUT goes on where it stopped.

| key              | meaning                                                                                        |
|------------------|------------------------------------------------------------------------------------------------|
| listed, tried    | architectures of the groups; those that this tree traced                                       |
| read             | tried ones whose capture read values, in either tree                                           |
| compared         | of these those that both trees admitted                                                        |
| graphs_changed   | compared ones whose graphs differ in anything but the names of nodes                           |
| keys_changed     | compared ones whose exact key is another, each by its own tree                                 |
| functions_changed| compared ones whose graphs have other exact keys by the rules of this tree                     |
| refused_now      | admitted by the other tree alone: name -> why not now                                          |
| admitted_now     | admitted by this tree alone                                                                    |
| waiting          | read or refused, and not yet traced by the other tree                                          |

Reads the installed libraries; writes OUT, standard output, and a line an architecture to standard error.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.extract_coverage import GROUPS, Outcome, configurations, list_groups, sample, shrink
from data.calls import Call, Item, Limits
from data.pool import ChildPool
from schemas.arrow import from_bytes, from_table, to_bytes, to_table
from schemas.canonical import canonicalize
from schemas.graph import Graph
from schemas.rows import Failure, GraphRecord, ModelConfig, Text

ROOT = Path(__file__).resolve().parent.parent
NOW, BEFORE = "now", "before"
Found = dict[str, Any]
"""One line of OUT/traced.jsonl: name, side, kind, message, capture, key, file and seconds."""


# --- one tree -------------------------------------------------------------------------------------------------------
def serve(folder: Path, timeout: float, memory: float) -> None:
    """Trace the configurations of standard input with the tree that this process imports; runs in either tree."""
    settings = {"numeric_limit_gib": 0.5, "seed": 0}
    call = Call(
        stage="graphs", function="extract.trace:trace", config_class="extract.trace:TraceConfig", config=settings,
        limits=Limits(timeout_s=timeout, memory_gib=memory, recycle_items=16),
    )  # fmt: skip
    with ChildPool(workers=1, work=folder / ".work") as pool:
        for line in sys.stdin:
            rows = [ModelConfig(**fields) for fields in json.loads(line)]
            for row in rows:
                found = _traced(pool, call, row, folder)
                if not found["kind"]:
                    break
            print(json.dumps(found), flush=True)


def _traced(pool: ChildPool, call: Call, row: ModelConfig, folder: Path) -> Found:
    began = time.perf_counter()
    with pool.borrow() as child:
        tables = child.run_item(call, to_table([row], ModelConfig), Item(key=row.architecture, name=row.name))
    found = {"name": row.name, "kind": "", "message": "", "capture": "", "key": "", "file": ""}
    found["seconds"] = f"{time.perf_counter() - began:.1f}"
    records = from_table(tables["GraphRecord"], GraphRecord) if "GraphRecord" in tables else []
    if not records:
        failures = from_table(tables["Failure"], Failure)
        return found | {"kind": str(failures[0].kind), "message": failures[0].message[:300]}
    path = folder / f"{hashlib.sha256(row.name.encode()).hexdigest()[:24]}.arrow"
    path.write_bytes(to_bytes(records[:1], GraphRecord))
    key = canonicalize(records[0].graph).key
    return found | {"capture": records[0].capture, "key": key, "file": str(path)}


class Tree:
    """A process that traces with the code of one source tree."""

    def __init__(self, tree: Path, folder: Path, options: argparse.Namespace) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-P", str(Path(__file__).resolve()), "--serve", str(folder.resolve())]
        command += ["--timeout", str(options.timeout), "--memory", str(options.memory)]
        self._process = subprocess.Popen(
            command, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree.resolve())}, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )  # fmt: skip

    def trace(self, rows: Sequence[ModelConfig]) -> Found:
        """The first of some configurations that gives a graph, else why the last gives none."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([asdict(row) for row in rows]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process that traces {rows[0].name} ended: {self._process.wait()}")
        found: Found = json.loads(line)
        return found

    def close(self) -> None:
        """End the process and its children."""
        self._process.communicate()


# --- both trees -----------------------------------------------------------------------------------------------------
class State:
    """What was traced: by architecture and side."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "traced.jsonl"
        self.found: dict[tuple[str, str], Found] = {}
        for line in self._file.read_text().splitlines() if self._file.exists() else ():
            item = json.loads(line)
            self.found[item["name"], item["side"]] = item

    def add(self, side: str, item: Found) -> None:
        """Keep a result, at once and for good."""
        self.found[item["name"], side] = item = {**item, "side": side}
        with self._file.open("a") as file:
            file.write(json.dumps(item) + "\n")
        what = item["kind"] or item["capture"]
        print(f"{side:<7}{item['name']:<64}{item.get('seconds', ''):>6} s  {what}", file=sys.stderr, flush=True)

    def of(self, side: str) -> dict[str, Found]:
        """What one tree gave, by name."""
        return {name: item for (name, of), item in self.found.items() if of == side}


def is_reading(item: Mapping[str, Any]) -> bool:
    """Whether a graph holds for numbers that its capture read."""
    return str(item["capture"]).endswith("-specialised")


def trace_both(rows: Sequence[Any], state: State, options: argparse.Namespace) -> None:
    """Trace with this tree, and with the other what it concerns, until the time is over."""
    ends = time.monotonic() + options.seconds
    folder, trees = Path(options.out), dict[str, Tree]()

    def traced(side: str, given: Sequence[ModelConfig]) -> None:
        if side not in trees:
            trees[side] = Tree(ROOT if side == NOW else Path(options.before), folder / side, options)
        state.add(side, trees[side].trace(given))

    for name, given in _ways(rows, shrunk=options.shrink):
        if time.monotonic() > ends:
            break
        if (name, NOW) not in state.found:
            traced(NOW, given)
        now = state.found[name, NOW]
        if (is_reading(now) or now["kind"]) and (name, BEFORE) not in state.found:
            traced(BEFORE, given)
    for tree in trees.values():
        tree.close()


def _ways(rows: Sequence[Any], *, shrunk: bool) -> Iterator[tuple[str, list[ModelConfig]]]:
    """(name, configurations to try in turn) of every architecture that has one."""
    for row in configurations(rows):
        if isinstance(row, Outcome):
            continue
        small = Text(json.dumps(shrink(json.loads(row.config)), sort_keys=True, separators=(",", ":")))
        yield row.name, [replace(row, config=small), row] if shrunk and small != row.config else [row]


# --- the figures ----------------------------------------------------------------------------------------------------
def _graph(item: Mapping[str, Any]) -> Graph:
    (record,) = from_bytes(Path(item["file"]).read_bytes(), GraphRecord)
    return record.graph


def _nameless(graph: Graph) -> Graph:
    nodes = tuple(replace(node, name="") for node in graph.nodes)
    return replace(graph, nodes=nodes, subgraphs=tuple(map(_nameless, graph.subgraphs)))


def report(listed: int, state: State) -> dict[str, Any]:
    """All figures."""
    now, before = state.of(NOW), state.of(BEFORE)
    both = {name: (before[name], item) for name, item in now.items() if name in before}
    compared = {name: pair for name, pair in both.items() if not any(item["kind"] for item in pair)}
    graphs = {name: (_graph(old), _graph(new)) for name, (old, new) in compared.items()}
    refused = {name: new for name, (old, new) in both.items() if new["kind"] and not old["kind"]}
    refused_reading = {name: new for name, new in refused.items() if is_reading(before[name])}
    return {
        "listed": listed,
        "tried": len(now),
        "read": sum(map(is_reading, now.values())) + len(refused_reading),
        "compared": len(compared),
        "graphs_changed": sum(_nameless(old) != _nameless(new) for old, new in graphs.values()),
        "keys_changed": sum(old["key"] != new["key"] for old, new in compared.values()),
        "functions_changed": sum(canonicalize(old).key != canonicalize(new).key for old, new in graphs.values()),
        "refused_now": {name: f"{new['kind']}: {new['message'][:120]}" for name, new in sorted(refused.items())},
        "admitted_now": sorted(name for name, (old, new) in both.items() if old["kind"] and not new["kind"]),
        "waiting": sum((is_reading(item) or bool(item["kind"])) and name not in before for name, item in now.items()),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", help="the other source tree")
    parser.add_argument("--out", default="runs/retraced", help="folder of results; continued if it has some")
    parser.add_argument("--groups", default=",".join(GROUPS), help="groups to try in this order, commas between")
    parser.add_argument("--limit", type=int, default=0, help="architectures of each group; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="decides their order")
    parser.add_argument("--shrink", action="store_true", help="cut stacks of layers to two")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no architecture after so long")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds an architecture and tree")
    parser.add_argument("--memory", type=float, default=4.0, help="GiB a child")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(Path(options.serve), options.timeout, options.memory)
        return
    groups = list_groups()
    unknown = [name for name in options.groups.split(",") if name not in groups]
    if unknown:
        parser.error(f"unknown group {unknown[0]!r}: choose from {', '.join(groups)}")
    chosen = [row for name in options.groups.split(",") for row in sample(groups[name], options.limit, options.seed)]
    state = State(Path(options.out))
    if options.before:
        trace_both(list({row.name: row for row in chosen}.values()), state, options)
    found = report(len({row.name for row in chosen}), state)
    print(json.dumps(found) if options.json else "\n".join(f"{key:<20}{value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
