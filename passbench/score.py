"""ES_t and everything beside it, from result rows at read time. No torch.

    score = score_task(rows, task, PRESETS["published"])            # ValueError if speed was not measured ...
    score = score_task(rows, task, PRESETS["published"], unit_speed=True)   # ... unless s = 1 is asked for; then marked
    score.task_score, score.es[-5], score.fast_p

N subgraphs (fixed by the task: a missing or duplicate row is a failure), s = eager time / candidate time,
M = correct at level t, K = of those with s < 1, alpha = geometric mean of s over correct, beta = geometric mean of the
s < 1 among them, lambda = M/N, eta = K/M, p = slow-down penalty, b = base penalty:

    ES_t = alpha^lambda * beta^(lambda*eta*p) * gamma_t^(1-lambda)
    gamma_t = b for t <= 0;  b^(share of failures whose class is not tolerated at t) for t >= 1

For t >= 1 correctness, speeds and failures are those of t = 1. `es_formula` is this text, `es_mean` the same as a
geometric mean over subgraphs (s, s^(p+1) if s < 1, b if failed, 1 if failed but tolerated); `score_task` asserts that
they agree. Task score AS = 10^(sum over t of w_t log10 ES_t), presets, class maps and weights in `passbench.presets`.

Beside ES_t, which alone misleads (an empty pass scores 1, one false 10x cancels one failure): coverage, correctness and
speed apart, fast_p, the same score with every s capped at its roofline ratio (`caps`, from `passbench.roofline`),
and default Inductor as a baseline. `passbench.bootstrap` gives the interval over tasks.

A row of verdict WRONG_VALUE is correct from its `correct_from` on, but was never timed: it counts with s = 1.
AMBIGUOUS_TIMING never counts against the submission: it counts as correct with s = 1. One HARNESS_ERROR voids the task:
it has no score, and neither has a summary over tasks of which one is void (`require_scored` says so).
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from passbench.bootstrap import mean_interval
from passbench.presets import CLASS_MAPS as CLASS_MAPS
from passbench.presets import MISSING as MISSING
from passbench.presets import PRESETS as PRESETS
from passbench.presets import WEIGHT_SETS
from passbench.presets import WEIGHTS as WEIGHTS
from passbench.presets import Preset as Preset
from schemas.rows import CORRECT_VERDICTS, EvalResult, Task, Verdict
from schemas.text import counted

VERDICT_CLASS: dict[Verdict, str] = {
    Verdict.WRONG_VALUE: "accuracy",
    Verdict.NONDETERMINISTIC: "accuracy",
    Verdict.NON_FINITE: "non_finite",
    Verdict.WRONG_SHAPE: "mismatch",
    Verdict.WRONG_DTYPE: "mismatch",
    Verdict.RUNTIME_ERROR: "runtime",
    Verdict.TIMEOUT: "runtime",
    Verdict.OOM: "runtime",
    Verdict.COMPILE_ERROR: "compile",
    Verdict.GRAPH_INVALID: "compile",
    Verdict.NO_MATCH: "compile",
    Verdict.PARTIAL_MATCH: "compile",
    Verdict.REJECTED: "integrity",
    Verdict.INTEGRITY: "integrity",
}
"""Error class of every verdict that can count against a submission."""
NO_SPEED = "not needed: no subgraph is correct"
"""TaskScore.speed of a submission that is nowhere correct: its score depends on no speed."""
FAST_P = (0.0, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one subgraph contributes."""

    correct_from: int | None
    """Level from which it is correct; None if it never is."""
    speedup: float
    """s; 1 where it is not known and the caller accepted that."""
    error_class: str
    """Class of the failure at levels where it is not correct."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskScore:
    """The score of one submission on one task; nothing here is stored."""

    task_id: str
    """Task.task_id."""
    submission: str
    """Content hash of the submission."""
    preset: Preset
    """Settings."""
    speed: str
    """"measured", "not measured: s = 1" where the caller asked for that, or NO_SPEED."""
    total: int
    """N."""
    voided: str
    """Why the task has no score, one sentence; empty if it has one."""
    es: Mapping[int, float]
    """ES_t by level; empty if voided."""
    task_score: float | None
    """AS; None if voided."""
    paper_score: float | None
    """AS of the same rows under preset `paper`; None if voided."""
    coverage: float
    """Share of subgraphs in which a pass fired."""
    correctness: float
    """Share of subgraphs whose verdict is PASSED or AMBIGUOUS_TIMING."""
    speedup: float | None
    """Geometric mean of the measured speed-ups of correct subgraphs; None if none was measured."""
    fast_p: Mapping[float, float] | None
    """p -> share of subgraphs correct and faster than p; None if speed was not measured."""
    winsorised: float | None
    """AS with every s capped at its roofline ratio; None if no caps were given or speed was not measured."""
    capped: int
    """Subgraphs whose s was above its cap, that is, faster than the machine can move the data."""
    inductor_speedup: float | None
    """Geometric mean of default Inductor's speed-up over eager where it was timed; None if nowhere."""
    inductor_score: float | None
    """AS of default Inductor on the same subgraphs, taken as correct; None unless it was timed on all of them."""
    over_inductor: float | None
    """Geometric mean of candidate over Inductor where both were timed; None if nowhere."""
    harness_errors: int
    """Subgraphs that the harness failed to grade; one voids the task."""
    verdicts: Mapping[str, int]
    """Verdict -> number of subgraphs, missing ones under "missing"."""


def score_task(
    rows: Iterable[EvalResult],
    task: Task,
    preset: Preset,
    *,
    unit_speed: bool = False,
    caps: Mapping[int, float] | None = None,
) -> TaskScore:
    """Score the rows of one submission on one task; `caps` are roofline ratios by variant.

    Raises ValueError on foreign rows or on unmeasured speed.
    """
    flat_rows = list(rows)
    by_index = _rows_by_index(flat_rows, task)
    flat = [found[0] for found in by_index if len(found) == 1]
    unmeasured = [row for row in flat if row.verdict in CORRECT_VERDICTS and not row.speed_measured]
    if unmeasured and not unit_speed:
        raise ValueError(
            f"task {task.task_id}: speed was not measured on {len(unmeasured)} of {task.num_variants} subgraphs, so "
            "there is no ES_t; ask for s = 1 (--unit-speed) to see what correctness alone gives"
        )
    correct = [row for row in flat if row.verdict in CORRECT_VERDICTS]
    speeds = [row.speedup for row in correct if row.speedup is not None]
    verdicts = Counter(found[0].verdict.value if len(found) == 1 else MISSING for found in by_index)
    voided = why_void(flat, task)
    outcomes = [] if voided else outcomes_of(flat_rows, task, unit_speed=bool(unmeasured))
    es = {} if voided else es_curve(outcomes, preset)
    bounded = None if voided or unmeasured or caps is None else capped_outcomes(outcomes, caps)
    return TaskScore(
        task_id=task.task_id,
        submission=flat[0].submission if flat else "",
        preset=preset,
        speed="not measured: s = 1" if unmeasured else "measured" if correct else NO_SPEED,
        total=task.num_variants,
        voided=voided,
        es=es,
        task_score=None if voided else task_score(es, preset.weights),
        paper_score=None if voided else scored(outcomes, PRESETS["paper"]),
        coverage=sum(row.matches > 0 for row in flat) / task.num_variants,
        correctness=len(correct) / task.num_variants,
        speedup=geometric_mean(speeds) if speeds else None,
        fast_p=None if unmeasured else fast_p(speeds, task.num_variants),
        winsorised=None if bounded is None else scored(bounded, preset),
        capped=sum(one != two for one, two in zip(bounded or outcomes, outcomes, strict=True)),
        **_baselines(flat, task.num_variants, preset),
        harness_errors=verdicts[Verdict.HARNESS_ERROR.value],
        verdicts=dict(sorted(verdicts.items())),
    )


def why_void(rows: Iterable[EvalResult], task: Task) -> str:
    """Why a task has no score: the harness itself failed on some subgraph; empty if it has one."""
    failed = [row for row in rows if row.verdict is Verdict.HARNESS_ERROR]
    if not failed:
        return ""
    first = f"variant {failed[0].index}: {failed[0].detail}"
    return f"the harness failed on {len(failed)} of {task.num_variants} subgraphs, so there is no score ({first})"


def _baselines(flat: Sequence[EvalResult], total: int, preset: Preset) -> dict[str, float | None]:
    """What default Inductor gives on the same subgraphs, and the candidate over it."""
    known = [row.inductor_speedup for row in flat if row.inductor_speedup is not None]
    both = [row.speedup / row.inductor_speedup for row in flat if row.speedup and row.inductor_speedup]
    same = [Outcome(correct_from=-10, speedup=speed, error_class="") for speed in known]
    return {
        "inductor_speedup": geometric_mean(known) if known else None,
        "inductor_score": scored(same, preset) if len(known) == total else None,
        "over_inductor": geometric_mean(both) if both else None,
    }


def es_curve(outcomes: Sequence[Outcome], preset: Preset) -> dict[int, float]:
    """ES_t by level, computed in both forms, which must agree."""
    es = {level: es_formula(outcomes, level, preset) for level in preset.levels}
    for level, value in es.items():
        assert math.isclose(value, es_mean(outcomes, level, preset), rel_tol=1e-9), "the two forms of ES_t differ"
    return es


def capped_outcomes(outcomes: Sequence[Outcome], caps: Mapping[int, float]) -> list[Outcome]:
    """The outcomes with every speed-up at most its cap, but never below 1; subgraphs without a cap stay."""
    bounded = [min(item.speedup, max(caps.get(k, math.inf), 1.0)) for k, item in enumerate(outcomes)]
    return [replace(item, speedup=speed) for item, speed in zip(outcomes, bounded, strict=True)]


def outcomes_of(rows: Sequence[EvalResult], task: Task, *, unit_speed: bool) -> list[Outcome]:
    """What every subgraph of a task contributes, by index."""
    return [outcome_of(found, unit_speed=unit_speed) for found in _rows_by_index(rows, task)]


def outcome_of(found: Sequence[EvalResult], *, unit_speed: bool) -> Outcome:
    """What the rows found for one subgraph contribute: exactly one row counts, none or several are a failure.

    Raises ValueError on HARNESS_ERROR.
    """
    if len(found) != 1:
        return Outcome(correct_from=None, speedup=1.0, error_class=MISSING)
    row = found[0]
    if row.verdict is Verdict.HARNESS_ERROR:
        raise ValueError(f"variant {row.index}: the harness failed, so it contributes nothing and the task is void")
    if row.verdict in CORRECT_VERDICTS:
        known = row.verdict is Verdict.PASSED and row.speedup is not None and not unit_speed
        speed = row.speedup if known and row.speedup is not None else 1.0
        return Outcome(correct_from=row.correct_from, speedup=speed, error_class="accuracy")
    untrusted = row.verdict is Verdict.NONDETERMINISTIC
    return Outcome(
        correct_from=None if untrusted else row.correct_from, speedup=1.0, error_class=VERDICT_CLASS[row.verdict]
    )


def es_formula(outcomes: Sequence[Outcome], level: int, preset: Preset) -> float:
    """ES_t by its formula in alpha, beta, lambda, eta and gamma."""
    correct = [item for item in outcomes if _correct(item, level)]
    slow = [item.speedup for item in correct if item.speedup < 1]
    failed = [item for item in outcomes if not _correct(item, level)]
    total, count = len(outcomes), len(correct)
    alpha = geometric_mean([item.speedup for item in correct])
    beta = geometric_mean(slow)
    share, slow_share = count / total, (len(slow) / count if count else 0.0)
    tolerated_from = preset.tolerated_from
    exponent = 1.0
    if level >= 1 and failed:
        classes = Counter(item.error_class for item in failed)
        exponent = math.fsum(n / len(failed) for name, n in sorted(classes.items()) if tolerated_from[name] > level)
    gamma = preset.b**exponent
    return float(alpha**share * beta ** (share * slow_share * preset.p) * gamma ** (1 - share))


def es_mean(outcomes: Sequence[Outcome], level: int, preset: Preset) -> float:
    """ES_t as the geometric mean of what every subgraph counts."""
    return geometric_mean(contributions(outcomes, level, preset))


def contributions(outcomes: Sequence[Outcome], level: int, preset: Preset) -> list[float]:
    """What every subgraph counts at a level: s, s^(p+1) if slow, b if failed, 1 if failed but tolerated."""
    tolerated_from = preset.tolerated_from

    def counts(item: Outcome) -> float:
        if _correct(item, level):
            return item.speedup if item.speedup >= 1 else item.speedup ** (preset.p + 1)
        return 1.0 if level >= 1 and tolerated_from[item.error_class] <= level else preset.b

    return [counts(item) for item in outcomes]


def task_score(es: Mapping[int, float], weights: str = "current") -> float:
    """AS: the weighted geometric mean of ES_t over the levels that have a weight."""
    logs = (weight * math.log10(es[level]) for level, weight in WEIGHT_SETS[weights].items())
    return float(10 ** math.fsum(logs))


def scored(outcomes: Sequence[Outcome], preset: Preset) -> float:
    """AS of what the subgraphs contribute under a preset."""
    return task_score(es_curve(outcomes, preset), preset.weights)


def fast_p(speedups: Sequence[float], total: int) -> dict[float, float]:
    """p -> share of all subgraphs that are correct and more than p times as fast as eager."""
    return {p: sum(speed > p for speed in speedups) / total for p in FAST_P}


def geometric_mean(numbers: Sequence[float]) -> float:
    """Geometric mean; 1 of nothing."""
    return math.exp(math.fsum(map(math.log, numbers)) / len(numbers)) if numbers else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Several task scores of one submission as one number."""

    score: float | None
    """Geometric mean of the task scores; None if a task is void."""
    paper_score: float | None
    """The same of their scores under preset `paper`."""
    voided: str
    """Why there is none, one sentence; empty if there is one."""
    ci_low: float | None
    """Lower end of its 95% interval, bootstrap over tasks; None of too few tasks or without a score."""
    ci_high: float | None
    """Upper end of it."""
    tasks: int
    """Number of tasks."""


def summarise(scores: Sequence[TaskScore], *, seed: int = 0) -> Summary:
    """One number of several tasks; raises ValueError if they were scored under unequal settings."""
    require_comparable(scores)
    known = [score.task_score for score in scores if score.task_score is not None]
    if len(known) < len(scores):
        first = next(score.voided for score in scores if score.voided)
        voided = f"{len(scores) - len(known)} of {counted(len(scores), 'task')} void: {first}"
        return Summary(score=None, paper_score=None, voided=voided, ci_low=None, ci_high=None, tasks=len(scores))
    logs = [math.log(value) for value in known]
    found = mean_interval(logs, seed=seed)
    ends = (None, None) if found is None else (found.exp().low, found.exp().high)
    mean = math.exp(math.fsum(logs) / len(logs))
    paper = geometric_mean([score.paper_score for score in scores if score.paper_score is not None])
    return Summary(score=mean, paper_score=paper, voided="", ci_low=ends[0], ci_high=ends[1], tasks=len(scores))


def require_scored(score: TaskScore) -> float:
    """The task score; raises ValueError that says why where the task is void."""
    if score.task_score is None:
        raise ValueError(f"task {score.task_id} has no score: {score.voided}")
    return score.task_score


def require_comparable(scores: Sequence[TaskScore]) -> None:
    """Raise ValueError unless there is a score and all were made under equal settings."""
    if not scores:
        raise ValueError("no scores to compare")
    settings = {(score.preset, score.speed): score for score in scores if score.speed != NO_SPEED}
    settings = settings or {(scores[0].preset, NO_SPEED): scores[0]}
    first = next(iter(settings))
    for preset, speed in [*settings, *((score.preset, first[1]) for score in scores)]:
        if (preset, speed) != first:
            raise ValueError(
                f"scores of unequal settings are not comparable: {preset.name}, speed {speed} against "
                f"{first[0].name}, speed {first[1]}; score all of them with one preset"
            )


def _correct(item: Outcome, level: int) -> bool:
    return item.correct_from is not None and item.correct_from <= min(level, 1)


def _rows_by_index(rows: Sequence[EvalResult], task: Task) -> list[list[EvalResult]]:
    found: list[list[EvalResult]] = [[] for _ in range(task.num_variants)]
    submissions = {row.submission for row in rows}
    if len(submissions) > 1:
        raise ValueError(f"rows of {len(submissions)} submissions: score each alone")
    for row in rows:
        if row.task_id != task.task_id or not 0 <= row.index < task.num_variants:
            raise ValueError(f"row {row.task_id}/{row.index} is not of task {task.task_id} with {task.num_variants}")
        found[row.index].append(row)
    return found
