"""Whether scores are what their definition says: both forms of ES_t, and the coverage of the interval over tasks.

    python -m benchmarks.scores --json           # keys sets max_difference coverage presets; about a minute

Draws random result sets (every error class, speeds of six orders of magnitude) and compares the formula of ES_t with
the geometric mean over subgraphs at every level of every preset. Then draws simulated benchmarks from a population of
task scores whose true mean is known and counts how often the 95% interval holds it, for 8 to 200 tasks; `coverage` is
the one farthest from 0.95, `coverage_by_tasks` all of them. Reads and writes nothing.
"""

import argparse
import json
import math
from collections.abc import Sequence

import numpy as np

from passbench.bootstrap import mean_interval
from passbench.score import CLASS_MAPS, PRESETS, Outcome, es_curve, es_formula, es_mean, task_score

CLASSES = tuple(CLASS_MAPS["default"])
SIZES = (8, 20, 50, 200)


def random_outcomes(
    rng: np.random.Generator, *, size: int | None = None, failing: float | None = None
) -> list[Outcome]:
    """One task: correct, late, slow and failed subgraphs of every class in random shares."""
    count = int(rng.integers(1, 25)) if size is None else size
    share = float(rng.beta(0.4, 1.6)) if failing is None else failing
    drift, found = float(rng.normal(0.1, 0.3)), []
    for _ in range(count):
        speed = math.exp(drift + float(rng.normal(0.0, 0.25 if size else 2.0)))
        failed = rng.random() < share
        level = int(rng.integers(-10, 6)) if not failed and (size is None or rng.random() < 0.1) else -7
        kind = CLASSES[int(rng.integers(0, len(CLASSES)))]
        found.append(Outcome(correct_from=None if failed else level, speedup=speed, error_class=kind))
    return found


def largest_difference(sets: int, *, seed: int = 0) -> float:
    """Largest relative difference of the two forms over random result sets, presets and levels."""
    rng, worst = np.random.default_rng(seed), 0.0
    presets = list(PRESETS.values())
    for index in range(sets):
        outcomes, preset = random_outcomes(rng), presets[index % len(presets)]
        for level in preset.levels:
            one, two = es_formula(outcomes, level, preset), es_mean(outcomes, level, preset)
            worst = max(worst, abs(one - two) / max(one, two))
    return worst


def population(tasks: int, *, seed: int = 1) -> np.ndarray:
    """Logs of task scores of simulated tasks of ten subgraphs, in which failures come in clumps."""
    rng, preset = np.random.default_rng(seed), PRESETS["passnet"]
    return np.array([math.log(task_score(es_curve(random_outcomes(rng, size=10), preset))) for _ in range(tasks)])


def coverage(logs: np.ndarray, tasks: int, *, trials: int, seed: int = 2) -> float:
    """Share of simulated benchmarks of so many tasks whose 95% interval holds the population's mean."""
    rng, truth, held = np.random.default_rng(seed), float(logs.mean()), 0
    for trial in range(trials):
        found = mean_interval(logs[rng.integers(0, logs.size, tasks)].tolist(), seed=trial, resamples=1000)
        held += found is not None and found.low <= truth <= found.high
    return held / trials


def measure(sets: int, trials: int, sizes: Sequence[int] = SIZES) -> dict[str, object]:
    """All figures."""
    logs = population(20_000 if trials >= 1000 else 4_000)
    shares = {str(size): round(coverage(logs, size, trials=trials), 4) for size in sizes}
    farthest = max(shares.values(), key=lambda share: abs(share - 0.95))
    return {
        "sets": sets, "max_difference": largest_difference(sets), "coverage": farthest, "presets": sorted(PRESETS),
        "coverage_by_tasks": shares, "trials": trials,
    }  # fmt: skip


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one flat JSON object")
    parser.add_argument("--sets", type=int, default=10_000, help="random result sets")
    parser.add_argument("--trials", type=int, default=2_000, help="simulated benchmarks a size")
    options = parser.parse_args()
    found = measure(options.sets, options.trials)
    print(json.dumps(found) if options.json else "\n".join(f"{key}: {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
