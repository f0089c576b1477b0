"""Whether the clock calls what is planted, calls nothing where nothing is, and times no compilation.

    python -m benchmarks.clock --json                   # pieces made here
    python -m benchmarks.clock --json --run runs/default --pieces 40

Reads, with --run, the tasks of a run directory; writes standard output only.

| key              | meaning                                                                                       |
|------------------|-----------------------------------------------------------------------------------------------|
| planted          | sides that sleep, timed in earnest: one sleeps twice or half as long as the other             |
| planted_called   | share of them called FASTER and SLOWER, as planted                                            |
| simulated_same   | of 100 simulated measurements without a difference, under drift and noise, those called       |
|                  | SAME or AMBIGUOUS                                                                             |
| aa_pairs         | pieces whose graph was compiled twice by the same compiler and timed against itself           |
| aa_false_slow    | share of them called SLOWER                                                                   |
| aa_false_fast    | share of them called FASTER                                                                   |
| aa_ambiguous     | share of them called AMBIGUOUS                                                                |
| aa_width_median  | median of the noise that the clock saw between neighbouring windows of one side               |
| foreign_median   | median share of the machine that was busy with something else meanwhile                       |
| recompiles       | graphs and frames that Dynamo compiled while a clock ran                                      |
"""

import argparse
import json
import math
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from passbench.clock import PairTiming, Plan, Window, summarise, time_pairs, time_windows
from schemas.graph import Graph

Value = int | float
PLAN = Plan(pairs=12, inner_us=1000.0, max_seconds=6.0)


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one flat JSON object")
    parser.add_argument("--run", type=Path, help="take the pieces from the tasks of this run directory")
    parser.add_argument("--pieces", type=int, default=40, help="pieces timed against themselves (default: 40)")
    options = parser.parse_args()
    graphs = list(of_run(options.run, options.pieces) if options.run else made(options.pieces))
    found = {**planted(), **simulated(), **against_itself(graphs)}
    print(json.dumps(found) if options.json else "\n".join(f"{name:<18} {value}" for name, value in found.items()))
    return 0


def planted(repetitions: int = 10) -> dict[str, Value]:
    """Sides that sleep 20 ms against 10 and 40 ms."""
    called = []
    for factor, verdict in ((0.5, "FASTER"), (2.0, "SLOWER")):
        for seed in range(repetitions):
            plan = Plan(pairs=16, warmup=1, inner_us=1.0, max_seconds=6.0, seed=seed)
            called.append(time_windows(sleeper(0.02), sleeper(0.02 * factor), plan).verdict == verdict)
    return {"planted": len(called), "planted_called": sum(called) / len(called)}


def sleeper(seconds: float) -> Window:
    """A side whose calls sleep."""

    def window(count: int) -> None:
        for _ in range(count):
            time.sleep(seconds)

    return window


def simulated(repetitions: int = 100) -> dict[str, Value]:
    """Equal sides on a machine that slows down up to threefold, with noise of 1% to 10% and a stall now and then."""
    same = 0
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        pairs, noise = 24, rng.uniform(0.01, 0.1)
        drift = np.linspace(1.0, rng.uniform(1.0, 3.0), 2 * pairs).reshape(pairs, 2)
        drift[1::2] = drift[1::2, ::-1]  # the second pair of ABBA times the candidate first
        times = (
            100.0 * drift * np.exp(rng.normal(0.0, noise, (pairs, 2))) * np.where(rng.random((pairs, 2)) < 0.03, 3, 1)
        )
        verdict = summarise(list(times[:, 0]), list(times[:, 1]), seed=seed, blocks=(8, 8, 8)).verdict
        same += verdict in ("SAME", "AMBIGUOUS")
    return {"simulated": repetitions, "simulated_same": same}


def against_itself(graphs: list[Graph]) -> dict[str, Value]:
    """Every graph against itself."""
    timings, compiled = [], 0
    for graph in graphs:
        timing, more = aa(graph)
        timings.append(timing)
        compiled += more
    verdicts = Counter(timing.verdict.value for timing in timings)
    shares = {name: round(verdicts[verdict] / max(len(timings), 1), 4)
              for name, verdict in (("slow", "SLOWER"), ("fast", "FASTER"))}  # fmt: skip
    foreign = [timing.foreign for timing in timings if not math.isnan(timing.foreign)]
    return {
        "aa_pairs": len(timings), **{f"aa_false_{name}": share for name, share in shares.items()},
        "aa_ambiguous": round(verdicts["AMBIGUOUS"] / max(len(timings), 1), 4),
        "aa_width_median": round(statistics.median(timing.aa_width for timing in timings), 4),
        "foreign_median": round(statistics.median(foreign or [math.nan]), 3), "recompiles": compiled,
    }  # fmt: skip


def aa(graph: Graph) -> tuple[PairTiming, int]:
    """One graph, compiled twice alike, and what Dynamo compiled while the clock ran."""
    import torch

    from passbench.inputs import materialize
    from schemas.fx import lower

    torch._dynamo.reset()
    torch.set_num_threads(1)
    inputs = materialize(graph, seed=0)
    with torch.no_grad():
        first, second = (torch.compile(lower(graph), backend="eager", dynamic=False) for _ in range(2))
        for _ in range(2):
            first(*inputs), second(*inputs)
        before = compilations()
        timing = time_pairs(lambda: first(*inputs), lambda: second(*inputs), PLAN)
        return timing, compilations() - before


def compilations() -> int:
    """Graphs and frames that Dynamo has compiled."""
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"] + counters["frames"]["total"])


# --- pieces ---------------------------------------------------------------------------------------------------------
def of_run(run: Path, count: int) -> Iterator[Graph]:
    """The first variant of every task of a run, then the second, until there are enough."""
    from passbench.tasks import Shelf

    shelf = Shelf(run)
    families = [shelf.variants(task.task_id) for task in shelf.tasks()]
    ordered = [rows[i] for i in range(max(map(len, families))) for rows in families if i < len(rows)]
    yield from (row.graph for row in ordered[:count])


def made(count: int) -> Iterator[Graph]:
    """Pieces of many sizes and dtypes."""
    from benchmarks.grader_tasks import add_relu_task, layer_norm_task

    kinds = [layer_norm_task()[1], *(add_relu_task(10 * n, 10)[1] for n in range(max(1, -(-count // 10))))]
    yield from [row.graph for rows in kinds for row in rows][:count]


if __name__ == "__main__":
    sys.exit(main())
