"""How fast the grader is, whether its lanes agree, and whether its memory stays flat.

    python -m benchmarks.harness --json                 # 20 tasks, 500 gradings; many minutes
    python -m benchmarks.harness --json --quick         # 3 tasks, 60 gradings
    python -m benchmarks.harness --json --against ../before --rounds 5   # this tree and another, by turns

Makes its own tasks and submissions below the temporary folder and removes them; writes standard output only.

| key               | meaning                                                                                          |
|-------------------|--------------------------------------------------------------------------------------------------|
| seconds_task10    | grading a task of 10 variants for correctness, harness started and ended within, 2 lanes         |
| cpu_task10        | processor seconds of that, all processes together                                                |
| seconds_loop      | the same variants in a loop: one new python process a graph, no isolation and no ghost run       |
| cpu_loop          | processor seconds of that                                                                        |
| speedup_vs_loop   | seconds_loop / seconds_task10                                                                    |
| isolation         | weakest isolation level of those 10 results                                                      |
| verdicts_equal    | whether the loop and the harness call the same variants right                                    |
| parallel_tasks    | tasks graded once by one lane and once by two                                                    |
| parallel_equal    | whether every verdict was the same both times                                                    |
| gradings          | gradings of one small task in one harness                                                        |
| rss_growth_mib    | growth of this process's resident memory after the first fifth of them, MiB                      |
| task10_here       | with --against: seconds_task10 of this tree, one a round                                         |
| task10_there      | with --against: of the other source tree                                                         |
| ratio_of_minima   | least of the first / least of the second                                                         |
| ratio_of_medians  | median of the first / median of the second                                                       |
| cpu_ratio         | the same of the least processor seconds                                                          |

The loop does per graph what an ordinary harness does, and with the same functions: import torch, load the submission,
compile, and for every call that the harness makes of the candidate run eager and the float64 oracle and compare.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Value = int | float | str | bool
DRAWS = 3


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one flat JSON object")
    parser.add_argument("--quick", action="store_true", help="fewer tasks and gradings")
    parser.add_argument("--against", type=Path, help="another source tree to compare the speed with, by turns")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each tree")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one)
        return 0
    if options.against:
        show(against(options.against.resolve(), options.rounds), options.json)
        return 0
    tasks, gradings = (3, 60) if options.quick else (20, 500)
    with tempfile.TemporaryDirectory(prefix="passbench-bench-") as folder:
        found = {**speed(Path(folder)), **parallel(Path(folder), tasks), **memory(Path(folder), gradings)}
    show(found, options.json)
    return 0


def show(found: Mapping[str, object], as_json: bool) -> None:
    """Print figures."""
    print(json.dumps(found) if as_json else "\n".join(f"{name:<18} {value}" for name, value in found.items()))


# --- speed ----------------------------------------------------------------------------------------------------------
def speed(folder: Path) -> dict[str, Value]:
    """Seconds of a 10-variant task, in the harness and in the loop."""
    from benchmarks.grader_tasks import EXAMPLE, layer_norm_task
    from passbench.run import Settings, grade
    from passbench.sandbox import LEVELS
    from passbench.submission import freeze

    task, variants = layer_norm_task()
    submission = freeze(EXAMPLE)
    with Stopwatch() as harness:
        graded = grade(submission, task, variants, Settings(inductor=False, draws=DRAWS, workers=2))
    with Stopwatch() as loop:
        right = [in_new_process(folder, submission, variant.graph.to_json()) for variant in variants]
    return {
        "seconds_task10": round(harness.seconds, 2), "cpu_task10": round(harness.cpu_s, 2),
        "seconds_loop": round(loop.seconds, 2), "cpu_loop": round(loop.cpu_s, 2),
        "speedup_vs_loop": round(loop.seconds / harness.seconds, 2),
        "isolation": min((row.isolation for row in graded.results), key=LEVELS.index),
        "verdicts_equal": right == [row.verdict.value == "PASSED" for row in graded.results],
    }  # fmt: skip


# --- against another tree ---------------------------------------------------------------------------------------------
MEASURE = """
import json, tempfile
from benchmarks.grader_tasks import EXAMPLE, layer_norm_task
from benchmarks.harness import DRAWS, Stopwatch
from passbench.run import Settings, grade
from passbench.submission import freeze

task, variants = layer_norm_task()
submission = freeze(EXAMPLE)
with Stopwatch() as watch:
    rows = grade(submission, task, variants, Settings(inductor=False, draws=DRAWS, workers=2)).results
assert all(row.verdict.value == "PASSED" for row in rows), rows
print(json.dumps([watch.seconds, watch.cpu_s]))
"""


def against(other: Path, rounds: int) -> dict[str, object]:
    """Seconds of a 10-variant task in this tree and in another, measured by turns in new processes."""
    here = Path(__file__).resolve().parent.parent
    found: dict[Path, list[list[float]]] = {here: [], other: []}
    for _ in range(rounds):
        for tree in (other, here):
            env = {**os.environ, "PYTHONPATH": str(tree)}
            done = subprocess.run([sys.executable, "-c", MEASURE], cwd=tree, env=env, check=True, capture_output=True)
            found[tree].append(json.loads(done.stdout.splitlines()[-1]))
    wall, cpu = ([[row[place] for row in found[tree]] for tree in (here, other)] for place in (0, 1))
    return {
        "task10_here": [round(s, 2) for s in wall[0]], "task10_there": [round(s, 2) for s in wall[1]],
        "ratio_of_minima": round(min(wall[0]) / min(wall[1]), 3),
        "ratio_of_medians": round(statistics.median(wall[0]) / statistics.median(wall[1]), 3),
        "cpu_ratio": round(min(cpu[0]) / min(cpu[1]), 3),
    }  # fmt: skip


class Stopwatch:
    """Wall and processor time of a block, with the processes that were started and ended in it."""

    def __enter__(self) -> "Stopwatch":
        self.seconds, self.cpu_s = time.perf_counter(), processor_s()
        return self

    def __exit__(self, *error: object) -> None:
        self.seconds, self.cpu_s = time.perf_counter() - self.seconds, processor_s() - self.cpu_s


def processor_s() -> float:
    """Processor seconds of this process and of its children that have ended, with theirs."""
    parts = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in parts)


def in_new_process(folder: Path, submission: Any, graph: str) -> bool:
    """Whether a graph's outputs are right, found by a process of its own."""
    place = Path(tempfile.mkdtemp(dir=folder))
    submission.write_to(place / "submission")
    job = place / "job.json"
    job.write_text(json.dumps({"graph": graph, "passes": submission.passes}))
    env = {**os.environ, "TRITON_INTERPRET": "1", "TMPDIR": str(place), "OMP_NUM_THREADS": "1",
           "PYTHONPATH": os.pathsep.join([str(Path(__file__).resolve().parent.parent), *sys.path[1:]])}  # fmt: skip
    subprocess.run([sys.executable, "-m", "benchmarks.harness", "--one", str(job)], cwd=place, env=env, check=True)
    return bool(json.loads((place / "answer.json").read_text())["right"])


def one(job: Path) -> None:
    """One graph in this process: load, compile, run, compare; the answer is written beside the job."""
    import torch

    from passbench.candidate import Candidate
    from passbench.check import compare
    from passbench.interpreter import streamline
    from passbench.matching import Matcher
    from passbench.wire import decode
    from passbench.worker import Reference

    asked = json.loads(job.read_text())
    wrapped = [[stem, name] for stem in asked["passes"] for name in names(stem)]
    sources = {path.name: path.read_text() for path in Path("submission").glob("*.py")}
    torch.set_num_threads(1)
    streamline()
    with torch.no_grad():
        reference = Reference({"graph": asked["graph"]}, "cpu")
        candidate = Candidate({"graph": asked["graph"], "off": []}, "cpu")
        matcher = Matcher({"passes": asked["passes"], "wrapped": wrapped})
        told = matcher.match({"captured": candidate.capture(), "only": asked["passes"]})
        passes = json.loads(json.dumps(matcher.account()["passes"]))
        terms = {"wrapped": wrapped, "sources": sources, "keys": asked["passes"]}
        candidate.bind({"passes": passes, "steps": told["steps"], **terms})
        seeds = [*range(DRAWS), 0, DRAWS - 1]
        right = True
        for index, seed in enumerate(seeds):
            header, blobs = reference.run({"seed": seed})
            candidate.run({"seed": seed, "changes": [], "refill": index == DRAWS + 1})
            answer, found = candidate.read(index)
            split = header["split"]
            expected = decode(header["outputs"], list(map(bytearray, blobs[:split])))
            oracle = decode(header["oracle"], list(map(bytearray, blobs[split:])))
            outputs = decode(answer["outputs"], list(map(bytearray, found)))
            right &= compare(expected, outputs, oracle=oracle).passed
    (job.parent / "answer.json").write_text(json.dumps({"right": right}))


def names(stem: str) -> list[str]:
    """Names of the functions that a pass module defines."""
    import ast

    tree = ast.parse(Path("submission", f"{stem}.py").read_text())
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


# --- lanes ----------------------------------------------------------------------------------------------------------
def parallel(folder: Path, tasks: int) -> dict[str, Value]:
    """Verdicts of tasks under right and faulty passes, by one lane and by two."""
    from dataclasses import replace

    from benchmarks.grader_tasks import FAULTS, add_relu_task, write_submission
    from passbench.run import Harness, Settings
    from passbench.submission import freeze

    sources = list(FAULTS.values())
    jobs = [
        (add_relu_task(n, 4), freeze(write_submission(folder / f"s{n}", sources[n % len(sources)])))
        for n in range(tasks)
    ]
    verdicts = []
    settings = Settings(inductor=False, draws=2)
    for lanes in (1, 2):
        with Harness(replace(settings, workers=lanes)) as harness:
            rows = [harness.grade(submission, *job).results for job, submission in jobs]
        verdicts.append([[(row.index, row.verdict.value, row.rule, row.matches) for row in found] for found in rows])
    return {"parallel_tasks": tasks, "parallel_equal": verdicts[0] == verdicts[1],
            "parallel_verdicts": len({row[1] for found in verdicts[0] for row in found})}  # fmt: skip


# --- memory ---------------------------------------------------------------------------------------------------------
def memory(folder: Path, gradings: int) -> dict[str, Value]:
    """Growth of this process over many gradings, after a fifth of them."""
    from benchmarks.grader_tasks import ADD_RELU, add_relu_task, write_submission
    from passbench.run import Harness, Settings
    from passbench.submission import freeze

    task, variants = add_relu_task(0, 1)
    submission = freeze(write_submission(folder / "memory", ADD_RELU))
    sizes = []
    with Harness(Settings(inductor=False, draws=1, workers=2)) as harness:
        for _ in range(gradings):
            rows = harness.grade(submission, task, variants).results
            assert all(row.verdict.value == "PASSED" for row in rows), rows
            sizes.append(resident_mib())
    few = max(1, gradings // 50)
    return {"gradings": gradings, "rss_mib": round(mean(sizes[-few:]), 1),
            "rss_growth_mib": round(mean(sizes[-few:]) - mean(sizes[gradings // 5 :][:few]), 2)}  # fmt: skip


def resident_mib() -> float:
    """Resident memory of this process, MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def mean(values: Sequence[float]) -> float:
    """Their mean."""
    return sum(values) / len(values)


if __name__ == "__main__":
    sys.exit(main())
