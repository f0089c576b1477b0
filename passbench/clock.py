"""The only clock: pairs of windows in ABBA order, a verdict from their log ratios.

    plan = Plan(pairs=20, warmup=3, inner_us=2000.0, max_seconds=10.0, seed=0)
    timing = time_pairs(eager, compiled, plan)       # two callables without arguments
    timing.speedup, timing.ci_low, timing.ci_high, timing.verdict

A window is `inner` calls in a row, so many that it lasts at least `inner_us`. Windows alternate A B B A, so that a
drift of the machine's speed hits both sides alike; a pair is one A and the B beside it. The speed-up is exp of the
median of the per-pair log ratios, its interval a 95% bootstrap, over processes and over the pairs of each. Inside a
window there is nothing but the calls and two readings of the host's monotonic clock. `time_windows` is the same for
sides that run elsewhere (another process): a side is then a function that makes n calls and returns when they are done;
`time_sessions` takes such sides from several fresh processes one after the other.

The rule, written before anything is seen: a round is the plan's pairs, spread over the plan's processes. If its verdict
is AMBIGUOUS, and there is time, one whole round more is made and all samples of all rounds are judged together; after
the last round AMBIGUOUS stands. No sample is ever left out. A speed-up counts as FASTER or SLOWER only beyond the
equivalence band and beyond the A/A width of the same samples: in A B B A order every second window follows one of its
own side, and what these neighbours differ by is noise. SAME is judged against the band alone, so noise cannot buy it.

Reads and writes nothing. The statistics are pure functions of samples. torch is imported by `environment` alone.
"""

import itertools
import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from schemas import values
from schemas.rows import Environment, TimingVerdict, content_id

BAND = 0.02
"""Half width of the equivalence band: speed-ups within 1/(1+BAND)..1+BAND count as the same."""
RESAMPLES = 2000
MAX_INNER = 1_000_000
Call = Callable[[], object]
Window = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A side that is made ready before each window, outside of what is timed."""

    ready: Window
    """Makes ready for n calls."""
    run: Window
    """Makes the n calls."""

    def __call__(self, count: int) -> None:
        self.ready(count)
        self.run(count)


Samples = NDArray[np.float64]


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
    processes: int = 1
    """Fresh processes a side that the pairs are spread over, where the caller can start such."""
    rounds: int = 2
    """Most rounds; a further one is made only while the verdict is AMBIGUOUS."""

    def __post_init__(self) -> None:
        if self.pairs < MIN_PAIRS or self.warmup < 0 or not self.inner_us > 0 or not self.max_seconds > 0:
            raise ValueError(f"a plan needs at least {MIN_PAIRS} pairs, warmup >= 0 and positive times, not {self}")
        if self.processes < 1 or self.rounds < 1:
            raise ValueError(f"a plan needs at least one process and one round, not {self}")

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
    """What the interval says against the equivalence band and the A/A width."""
    aa_width: float
    """Half width of the 95% interval of the A/A speed-up: 0.03 if equal sides could differ by 3%."""


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
    aa_width: float = 0.0
    """Half width of the 95% interval of the A/A speed-up in these samples."""
    blocks: tuple[int, ...] = ()
    """Pairs made in each process, in order."""
    foreign: float = 0.0
    """Share of this machine's processor time that went to neither side while they were timed; NaN if unknown."""


def time_pairs(baseline: Call, candidate: Call, plan: Plan) -> PairTiming:
    """Time two callables against each other; whatever they raise passes through."""
    return time_windows(_repeat(baseline), _repeat(candidate), plan)


def time_windows(baseline: Window, candidate: Window, plan: Plan) -> PairTiming:
    """Time two sides, each a function that makes n calls and returns when they are done."""
    return time_sessions(itertools.repeat((baseline, candidate)), plan)


def time_sessions(sessions: Iterable[tuple[Window, Window]], plan: Plan) -> PairTiming:
    """Time two sides in several processes: each session is both sides in fresh ones, taken when the last is done."""
    started, busy = time.perf_counter(), busy_seconds()
    source = iter(sessions)
    samples: tuple[list[float], list[float]] = ([], [])
    blocks: list[int] = []
    while True:
        for sides in itertools.islice(source, plan.processes):
            blocks.append(_block(sides, plan, started, samples))
        timing = summarise(samples[0], samples[1], seed=plan.seed, blocks=blocks)
        late = time.perf_counter() - started > plan.max_seconds
        if timing.verdict is not TimingVerdict.AMBIGUOUS or late or len(blocks) >= plan.rounds * plan.processes:
            break
    wall = time.perf_counter() - started
    return replace(timing, foreign=foreign_share(busy_seconds() - busy, wall))


def _block(sides: tuple[Window, Window], plan: Plan, started: float, samples: tuple[list[float], list[float]]) -> int:
    """Add the pairs of one session to the samples; how many."""
    counts = tuple(_inner_count(side, plan) for side in sides)
    wanted, least = -(-plan.pairs // plan.processes), -(-MIN_PAIRS // plan.processes)
    for pair in range(wanted):
        if pair >= least and time.perf_counter() - started > plan.max_seconds:
            return pair
        for side in (0, 1) if pair % 2 == 0 else (1, 0):
            samples[side].append(_window_us(sides[side], counts[side]))
    return wanted


def summarise(
    baseline_us: Sequence[float], candidate_us: Sequence[float], *, seed: int, blocks: Sequence[int] = ()
) -> PairTiming:
    """The timing of paired samples; pure."""
    found = estimate(baseline_us, candidate_us, seed=seed, blocks=blocks)
    return PairTiming(
        baseline_us=float(np.median(baseline_us)), candidate_us=float(np.median(candidate_us)),
        speedup=found.speedup, ci_low=found.ci_low, ci_high=found.ci_high, verdict=found.verdict,
        pairs=len(baseline_us), baseline_samples_us=tuple(map(float, baseline_us)),
        candidate_samples_us=tuple(map(float, candidate_us)), aa_width=found.aa_width,
        blocks=tuple(blocks) or (len(baseline_us),),
    )  # fmt: skip


def estimate(
    baseline_us: Sequence[float], candidate_us: Sequence[float], *, seed: int, band: float = BAND,
    blocks: Sequence[int] = (),
) -> Estimate:  # fmt: skip
    """Speed-up, 95% percentile bootstrap over blocks and their pairs, and verdict from paired samples; pure, seeded."""
    base, cand = np.asarray(baseline_us, dtype=np.float64), np.asarray(candidate_us, dtype=np.float64)
    if base.shape != cand.shape or base.ndim != 1 or not base.size:
        raise ValueError(f"samples come in pairs, not {base.size} and {cand.size}")
    if not ((base > 0).all() and (cand > 0).all()):
        raise ValueError("a time is positive")
    sizes = list(blocks) or [base.size]
    if sum(sizes) != base.size or min(sizes) < 1:
        raise ValueError(f"blocks of {sizes} pairs do not make {base.size} pairs")
    ratios = np.log(base / cand)
    low, high = np.quantile(_medians(ratios, sizes, seed), [0.025, 0.975])
    ci_low, ci_high = math.exp(low), math.exp(high)
    width = aa_width(base, cand, sizes, seed=seed)
    return Estimate(
        speedup=math.exp(float(np.median(ratios))), ci_low=ci_low, ci_high=ci_high,
        verdict=verdict_of(ci_low, ci_high, band=band, noise=width), aa_width=width,
    )  # fmt: skip


def aa_width(base: Samples, cand: Samples, sizes: Sequence[int], *, seed: int) -> float:
    """Half width of the 95% interval of the median ratio of neighbouring windows of one side; 0 of fewer than two."""
    ends = np.cumsum(sizes)
    spans = [range(end - size, end - 1) for end, size in zip(ends, sizes, strict=True)]
    # Pair 0 is A B, pair 1 is B A: after even pairs the candidate's windows are neighbours, after odd the baseline's.
    steps = [
        math.log(side[i + 1] / side[i])
        for span in spans
        for i in span
        for side in [base if (i - span.start) % 2 else cand]
    ]
    if len(steps) < 2:
        return 0.0
    low, high = np.quantile(_medians(np.asarray(steps), [len(steps)], seed), [0.025, 0.975])
    return math.exp(float(high - low) / 2) - 1


def _medians(values: Samples, sizes: Sequence[int], seed: int) -> Samples:
    """Bootstrap medians: blocks are drawn with replacement, then the values of each."""
    rng = np.random.default_rng(seed)
    if len(sizes) == 1:
        return np.asarray(np.median(values[rng.integers(0, values.size, size=(RESAMPLES, values.size))], axis=1))
    chosen = rng.integers(0, len(sizes), size=(RESAMPLES, len(sizes), 1))
    limits, starts = np.asarray(sizes), np.cumsum([0, *sizes[:-1]])
    places = rng.random((RESAMPLES, len(sizes), max(sizes)))
    picks: Samples = values[starts[chosen] + np.floor(places * limits[chosen]).astype(np.int64)]
    if min(sizes) == max(sizes):
        return np.asarray(np.median(picks.reshape(RESAMPLES, -1), axis=1))
    absent = np.arange(max(sizes)) >= limits[chosen]
    return np.asarray(np.nanmedian(np.where(absent, np.nan, picks).reshape(RESAMPLES, -1), axis=1))


def verdict_of(ci_low: float, ci_high: float, *, band: float = BAND, noise: float = 0.0) -> TimingVerdict:
    """What an interval of the speed-up says: beyond band and noise, inside the band, or none of these."""
    edge = 1 + max(band, noise)
    if ci_low > edge:
        return TimingVerdict.FASTER
    if ci_high < 1 / edge:
        return TimingVerdict.SLOWER
    if 1 / (1 + band) <= ci_low and ci_high <= 1 + band:
        return TimingVerdict.SAME
    return TimingVerdict.AMBIGUOUS


def busy_seconds() -> float:
    """Processor seconds that all processors of this machine have been busy; NaN where the kernel does not say."""
    try:
        with open("/proc/stat", encoding="ascii") as lines:
            ticks = [int(word) for word in lines.readline().split()[1:]]
    except (OSError, ValueError):
        return math.nan
    user, nice, system, _, _, irq, softirq, steal = ticks[:8]
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def foreign_share(busy_s: float, wall_s: float) -> float:
    """Share of the machine that was busy beyond the one thread that is timed, 0 to 1."""
    cores = os.cpu_count() or 1
    return min(max((busy_s - wall_s) / (cores * wall_s), 0.0), 1.0) if wall_s > 0 and busy_s == busy_s else math.nan


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
    run = window
    if isinstance(window, Prepared):
        window.ready(count)
        run = window.run
    begin = time.perf_counter_ns()
    run(count)
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
