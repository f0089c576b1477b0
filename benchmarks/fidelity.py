"""Whether every graph that is admitted computes what its module computes, over modules written at random.

    python -m benchmarks.fidelity --json                           # 480 modules, two workers
    python -m benchmarks.fidelity --modules 25 --seed 3            # another sample
    python -m benchmarks.fidelity --only 17 --keep FOLDER          # one of them; files and graphs stay in the folder

`benchmarks.fidelity_grammar` writes the modules, a build of source `files` traces them in limited child processes, as
the command line does, and `benchmarks.fidelity_check` runs each module eagerly, in a fresh process, against its
published graph. Prints

| key           | meaning                                                                                |
|---------------|----------------------------------------------------------------------------------------|
| modules       | generated                                                                              |
| equal         | admitted, and equal to the eager module on the given inputs and on a second draw       |
| refused       | Failures of modules that run and give the same twice                                   |
| silent_wrong  | admitted, and not equal                                                                |
| unknown       | Failures of kind unknown, or without advice                                            |
| equal_share   | equal among the modules that run, give the same twice and do nothing forbidden         |
| illegal       | modules that raise by themselves and got no graph                                      |
| unsteady      | modules that give something else each time and got no graph                            |
| forbidden     | modules that do what no graph holds                                                    |
| forbidden_admitted | of these, those that got a graph: equal all the same, or silent_wrong             |
| refusals      | Failures by kind                                                                       |
| wrong         | names of the modules that are silent_wrong, each with what differs                     |
| seconds       | of the whole run                                                                       |

Progress and refusals of legal modules go to standard error; nothing is written but the folder.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.fidelity_grammar import Made, generate
from data.store import RunDirectory
from extract.files import digest
from flows.build import Plan, build
from flows.config import BuildConfig
from schemas.failures import EXPLANATIONS
from schemas.rows import Failure, GraphRecord

STAGES = ("models", "configs", "graphs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one module."""

    made: Made
    verdict: str
    """As `benchmarks.fidelity_check` says it."""
    why: str
    failure: Failure | None


def write(folder: Path, seed: int, numbers: Sequence[int]) -> dict[str, Made]:
    """Write a file a module; -> the modules by name."""
    found = {f"m{number:04}": generate(seed=seed, number=number) for number in numbers}
    for name, made in found.items():
        (folder / f"{name}.py").write_text(made.text, encoding="utf-8")
    return found


def trace(folder: Path, workers: int) -> tuple[dict[str, GraphRecord], dict[str, Failure]]:
    """Build the files up to their graphs; -> graphs and failures by module name."""
    files = [str(path) for path in sorted(folder.glob("*.py"))]
    settings: dict[str, dict[str, Any]] = {
        "models": {"sources": ["files"], "files": files, "files_digest": digest(files)}, "graphs": {"files": files},
    }  # fmt: skip
    config = BuildConfig(settings=settings, workers=workers, limit=len(files))
    for stage in STAGES:
        build(folder / "run", config, Plan(engine="local", only=stage))
    store = RunDirectory(folder / "run")
    graphs = {row.name.split("/")[0]: row for row in store.iter_rows("graphs")}
    failures = {
        row.name.split("/")[0].removesuffix(".py"): row
        for stage in STAGES
        for row in store.iter_rows(f"{stage}.failures")
    }
    for name, row in graphs.items():
        text = json.dumps({"graph": row.graph.to_json(), "capture": row.capture})
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return graphs, failures


def check(folder: Path) -> dict[str, dict[str, str]]:
    """The verdict of every module, from a process that knows nothing of the build."""
    command = [sys.executable, "-m", "benchmarks.fidelity_check", str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}


def run(folder: Path, *, seed: int, numbers: Sequence[int], workers: int = 2) -> dict[str, Outcome]:
    """Generate, trace and check modules; -> what became of each, by name."""
    made = write(folder, seed, numbers)
    graphs, failures = trace(folder, workers)
    verdicts = check(folder)
    lost = [name for name in made if name not in graphs and name not in failures]
    if lost:
        raise ValueError(f"{lost[0]} gave neither a graph nor a Failure")
    return {
        name: Outcome(
            made=item, verdict=verdicts[name]["verdict"], why=verdicts[name]["why"], failure=failures.get(name)
        )
        for name, item in made.items()
    }


def summary(outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """The flat result."""
    legal = [
        item for item in outcomes.values() if item.verdict not in ("illegal", "unsteady") and not item.made.forbidden
    ]
    counts = Counter(item.verdict for item in legal)
    forbidden = [item for item in outcomes.values() if item.made.forbidden]
    failed = [item.failure for item in outcomes.values() if item.failure is not None]
    wrong = {name: item.why for name, item in outcomes.items() if item.verdict == "wrong"}
    return {
        "modules": len(outcomes), "equal": counts["equal"], "refused": counts["refused"], "silent_wrong": len(wrong),
        "unknown": sum(row.kind == "unknown" or not EXPLANATIONS[row.kind].advice for row in failed),
        "equal_share": round(counts["equal"] / max(len(legal), 1), 4),
        "illegal": sum(item.verdict == "illegal" for item in outcomes.values()),
        "unsteady": sum(item.verdict == "unsteady" for item in outcomes.values()),
        "forbidden": len(forbidden), "forbidden_admitted": sum(item.failure is None for item in forbidden),
        "refusals": dict(sorted(Counter(str(row.kind) for row in failed).items())), "wrong": wrong,
    }  # fmt: skip


def tell(outcomes: Mapping[str, Outcome]) -> None:
    """Print what was refused, and what the modules themselves raise."""
    for name, item in outcomes.items():
        if item.failure is not None and not item.made.forbidden:
            row = item.failure
            print(f"{name} {item.verdict} {row.kind}: {row.exception}: {row.message} {item.why}", file=sys.stderr)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", type=int, default=480, help="how many modules")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, action="append", help="the module of this number alone, repeatable")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="folder for the files and graphs")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        folder = options.keep or Path(work)
        folder.mkdir(parents=True, exist_ok=True)
        outcomes = run(
            folder, seed=options.seed, numbers=options.only or range(options.modules), workers=options.workers
        )
    tell(outcomes)
    found = summary(outcomes) | {"seconds": round(time.monotonic() - began, 1)}
    print(json.dumps(found) if options.json else "\n".join(f"{key}: {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
