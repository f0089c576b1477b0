"""The only clock: pairs of windows in ABBA order, a verdict from their log ratios.

    plan = Plan(pairs=20, warmup=3, inner_us=2000.0, max_seconds=10.0, seed=0)
    timing = time_pairs(eager, compiled, plan)       # two callables without arguments
    timing.speedup, timing.ci_low, timing.ci_high, timing.verdict

A window is `inner` calls in a row, so many that it lasts at least `inner_us`. Windows alternate A B B A, so that a
drift of the machine's speed hits both sides alike; a pair is one A and the B beside it. The speed-up is exp of the
median of the per-pair log ratios, its interval a 95% bootstrap over pairs. Inside a window there is nothing but the
calls and two readings of the host's monotonic clock. `time_windows` is the same for sides that run elsewhere (another
process): a side is then a function that makes n calls and returns when they are done.

Reads and writes nothing. The statistics are pure functions of samples. torch is imported by `environment` alone.
"""

import math
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from schemas import values
from schemas.rows import Environment, TimingVerdict, content_id

BAND = 0.02
"""Half width of the equivalence band: speed-ups within 1/(1+BAND)..1+BAND count as the same."""
RESAMPLES = 2000
MAX_INNER = 1_000_000
Call = Callable[[], object]
Window = Callable[[int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a pair of sides is timed; fixed before the sides are seen."""

    pairs: int = 20
    """Number of pairs."""
    warmup: int = 3
    """Calls of each side before the first window, besides those that size the window."""
    inner_us: float = 2000.0
    """Least length of a window, microseconds."""
    max_seconds: float = 20.0
    """Time after which no further pair is started; at least MIN_PAIRS are always made."""
    seed: int = 0
    """Seed of the bootstrap."""

    def __post_init__(self) -> None:
        if self.pairs < MIN_PAIRS or self.warmup < 0 or not self.inner_us > 0 or not self.max_seconds > 0:
            raise ValueError(f"a plan needs at least {MIN_PAIRS} pairs, warmup >= 0 and positive times, not {self}")

    def settings(self) -> str:
        """Canonical JSON of the plan and the band."""
        return values.dumps({**asdict(self), "band": BAND})


MIN_PAIRS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Speed-up of one side over another with its interval and what it means."""

    speedup: float
    """exp of the median of the log ratios baseline / candidate."""
    ci_low: float
    """Lower end of its 95% bootstrap interval."""
    ci_high: float
    """Upper end of it."""
    verdict: TimingVerdict
    """What the interval says against the equivalence band."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTiming:
    """Outcome of timing one pair of sides."""

    baseline_us: float
    """Median time of one baseline call, microseconds, host end to end."""
    candidate_us: float
    """Median time of one candidate call, microseconds, host end to end."""
    speedup: float
    """baseline / candidate: exp of the median of per-pair log ratios."""
    ci_low: float
    """Lower end of the 95% bootstrap interval of the speed-up."""
    ci_high: float
    """Upper end of it."""
    verdict: TimingVerdict
    """Candidate against baseline."""
    pairs: int
    """Number of pairs made."""
    baseline_samples_us: tuple[float, ...]
    """Baseline time a call in every pair."""
    candidate_samples_us: tuple[float, ...]
    """Candidate time a call in every pair."""


def time_pairs(baseline: Call, candidate: Call, plan: Plan) -> PairTiming:
    """Time two callables against each other; whatever they raise passes through."""
    return time_windows(_repeat(baseline), _repeat(candidate), plan)


def time_windows(baseline: Window, candidate: Window, plan: Plan) -> PairTiming:
    """Time two sides, each a function that makes n calls and returns when they are done."""
    started = time.perf_counter()
    counts = tuple(_inner_count(side, plan) for side in (baseline, candidate))
    samples: tuple[list[float], list[float]] = ([], [])
    for pair in range(plan.pairs):
        if pair >= MIN_PAIRS and time.perf_counter() - started > plan.max_seconds:
            break
        for side in (0, 1) if pair % 2 == 0 else (1, 0):
            samples[side].append(_window_us((baseline, candidate)[side], counts[side]))
    return summarise(samples[0], samples[1], seed=plan.seed)


def summarise(baseline_us: Sequence[float], candidate_us: Sequence[float], *, seed: int) -> PairTiming:
    """The timing of paired samples; pure."""
    found = estimate(baseline_us, candidate_us, seed=seed)
    return PairTiming(
        baseline_us=float(np.median(baseline_us)),
        candidate_us=float(np.median(candidate_us)),
        speedup=found.speedup,
        ci_low=found.ci_low,
        ci_high=found.ci_high,
        verdict=found.verdict,
        pairs=len(baseline_us),
        baseline_samples_us=tuple(map(float, baseline_us)),
        candidate_samples_us=tuple(map(float, candidate_us)),
    )


def estimate(baseline_us: Sequence[float], candidate_us: Sequence[float], *, seed: int, band: float = BAND) -> Estimate:
    """Speed-up, 95% percentile bootstrap over pairs, and verdict from paired samples; pure, seeded."""
    base, cand = np.asarray(baseline_us, dtype=np.float64), np.asarray(candidate_us, dtype=np.float64)
    if base.shape != cand.shape or base.ndim != 1 or not base.size:
        raise ValueError(f"samples come in pairs, not {base.size} and {cand.size}")
    if not ((base > 0).all() and (cand > 0).all()):
        raise ValueError("a time is positive")
    ratios = np.log(base / cand)
    picks = np.random.default_rng(seed).integers(0, ratios.size, size=(RESAMPLES, ratios.size))
    low, high = np.quantile(np.median(ratios[picks], axis=1), [0.025, 0.975])
    ci_low, ci_high = math.exp(low), math.exp(high)
    return Estimate(
        speedup=math.exp(float(np.median(ratios))),
        ci_low=ci_low,
        ci_high=ci_high,
        verdict=verdict_of(ci_low, ci_high, band=band),
    )


def verdict_of(ci_low: float, ci_high: float, *, band: float = BAND) -> TimingVerdict:
    """What an interval of the speed-up says: wholly above the band, below it, inside it, or none of these."""
    slow_edge, fast_edge = 1 / (1 + band), 1 + band
    if ci_low > fast_edge:
        return TimingVerdict.FASTER
    if ci_high < slow_edge:
        return TimingVerdict.SLOWER
    if slow_edge <= ci_low and ci_high <= fast_edge:
        return TimingVerdict.SAME
    return TimingVerdict.AMBIGUOUS


def environment(device: str = "cpu") -> Environment:
    """The machine and software of this process, as a row; `device` is "cpu" or "cuda"."""
    import torch

    parts = {
        "device": device,
        "processor": torch.cuda.get_device_name() if device == "cuda" else processor_name(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "triton": _triton_version(),
        "system": f"{platform.system()} {platform.release()}",
    }
    return Environment(environment=content_id(values.dumps(parts)), **parts)  # type: ignore[arg-type]


def processor_name() -> str:
    """Model name of the processor as the kernel gives it, or the machine type."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.machine()


def _triton_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("triton")
    except PackageNotFoundError:
        return ""


def _repeat(call: Call) -> Window:
    def window(count: int) -> None:
        for _ in range(count):
            call()

    return window


def _window_us(window: Window, count: int) -> float:
    """Microseconds a call of one window of `count` calls."""
    begin = time.perf_counter_ns()
    window(count)
    return (time.perf_counter_ns() - begin) / 1e3 / count


def _inner_count(window: Window, plan: Plan) -> int:
    """How many calls make a window of at least `inner_us`; also warms the side up."""
    if plan.warmup:
        window(plan.warmup)
    count = 1
    while count < MAX_INNER:
        total = _window_us(window, count) * count
        if total >= plan.inner_us:
            return count
        grown = math.ceil(count * 1.2 * plan.inner_us / max(total, 1.0))
        count = min(max(grown, count + 1), count * 20, MAX_INNER)
    return count
