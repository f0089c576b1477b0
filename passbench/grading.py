"""What a grading is asked and what it gives: settings, results, raw times, and the case of one variant on its way.

    settings = Settings(draws=3)
    graded.results                               # one EvalResult a variant
    row_of(case, variant, submission, environment, speed=False)

Reads and writes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from passbench.check import Comparison
from passbench.clock import PairTiming, Plan
from passbench.evidence import partial_matches
from passbench.isolate import Limits
from passbench.layers import check_layers, marked
from passbench.sandbox import LEVELS, NONE, at_least
from passbench.submission import Submission
from schemas.rows import CORRECT_VERDICTS, Environment, EvalResult, TaskVariant, Verdict
from schemas.text import plain

MAX_DETAIL, MAX_RULE = 1000, 40
"""Most characters of a row's detail and rule."""


CONTRACTS = ("passbench", "published")
"""What a submission is graded by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a submission is graded."""

    device: str = "cpu"
    """Device kind: cpu or cuda."""
    draws: int = 3
    """Input draws a variant, each with a fresh seed."""
    timeout_s: float = 120.0
    """Most processor seconds of one answer of a candidate, compilation included, and most seconds it may do nothing."""
    reference_timeout_s: float = 300.0
    """The same for the reference."""
    budget_s: float = 300.0
    """Processor seconds of a candidate after which what is beyond the necessary is left out, and the row says so."""
    limits: Limits = field(default_factory=Limits)
    """What a child may use."""
    plan: Plan = field(default_factory=lambda: Plan(pairs=12, processes=3, inner_us=3000.0, max_seconds=6.0))
    """The clock's plan, for both baselines."""
    inductor: bool = True
    """Whether default Inductor is timed too."""
    isolation: str = LEVELS[-1]
    """The highest isolation level that is tried for the candidate's process."""
    require_isolation: str = LEVELS[0]
    """Nothing is graded where less than this level is reached."""
    layers_off: tuple[str, ...] = ()
    """Layers that are left out to prove what they do (`passbench.layers`); such results are never stored."""
    contract: str = CONTRACTS[0]
    """"passbench", or "published": the listed sizes and the graph itself alone are graded, as upstream does."""
    workers: int = 1
    """Variants graded side by side, where the candidate's speed is not measured; whatever is timed is timed alone."""

    def __post_init__(self) -> None:
        if self.device not in ("cpu", "cuda") or self.draws < 1 or not self.timeout_s > 0:
            raise ValueError(
                "settings need device cpu or cuda, draws of at least 1 and a positive timeout, "
                f"not {self.device}, {self.draws} and {self.timeout_s:g}"
            )
        if self.contract not in CONTRACTS:
            raise ValueError(f"no contract {self.contract!r}; there are {', '.join(CONTRACTS)}")
        if self.workers < 1:
            raise ValueError(f"settings need at least one worker, not {self.workers}")
        at_least(self.isolation, self.require_isolation)  # both are names of levels
        check_layers(self.layers_off)

    def has(self, layer: str) -> bool:
        """Whether a layer is on."""
        return layer not in self.layers_off


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Raw times of one variant, stored beside its result."""

    index: int
    """TaskVariant.index."""
    side: str
    """What was timed against eager: candidate or inductor."""
    verdict: str
    """TimingVerdict."""
    speedup: float
    """eager / side."""
    eager_us: tuple[float, ...]
    """Eager time a call of every pair, microseconds."""
    side_us: tuple[float, ...]
    """The side's time a call of every pair, microseconds."""
    aa_width: float = 0.0
    """Half width of the 95% interval of what equal sides would differ by, from these samples."""
    blocks: tuple[int, ...] = ()
    """Pairs made in each fresh process, in order."""
    foreign: float = 0.0
    """Share of the machine that was busy with something else meanwhile; NaN if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """Everything that grading one submission on one task gave."""

    results: tuple[EvalResult, ...]
    """One row a variant, by index."""
    environment: Environment
    """Where it ran."""
    timings: tuple[Timing, ...]
    """Raw samples."""
    settings: Settings
    """How it was graded."""
    measures: Mapping[str, str] = field(default_factory=dict)
    """Each measure of isolation on the last candidate's process: "yes", or why not."""
    numerics: tuple[tuple[int, float, float], ...] = ()
    """(TaskVariant.index, error of the candidate, error of eager) against the float64 oracle, where there is one."""
    artifacts: Mapping[str, str] = field(default_factory=dict)
    """Path -> text of what is kept for the report: graphs before and after the passes, kernels Inductor generated."""
    key: str = ""
    """Which task, submission, harness, environment and settings it was made under (`passbench.journal`)."""


@dataclass(slots=True, kw_only=True)
class Case:
    """What is known so far of one variant; becomes an EvalResult."""

    off: tuple[str, ...] = ()
    verdict: Verdict = Verdict.HARNESS_ERROR
    """Until something settles it, the harness has not done its part; `passbench.lanes` says what becomes of such."""
    rule: str = ""
    detail: str = ""
    isolation: str = NONE
    measures: Mapping[str, str] = field(default_factory=dict)
    killed: bool = False
    """Whether a process was killed by something outside: one more try decides."""
    matches: int = 0
    configs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Kernel -> its valid configurations, of autotuned kernels; see `passbench.configs`."""
    comparison: Comparison | None = None
    timing: PairTiming | None = None
    timings: list[Timing] = field(default_factory=list)
    inductor_speedup: float | None = None
    errors: tuple[float, float] | None = None
    """Errors of the candidate and of eager against the float64 oracle."""
    artifacts: dict[str, str] = field(default_factory=dict)
    is_slow: bool = False
    """Whether calls take so long that only the necessary ones are made."""
    checked: list[str] = field(default_factory=list)
    """What was checked beyond the listed sizes, or left out, for people."""

    def fail(self, verdict: Verdict, detail: str, rule: str = "") -> None:
        """Settle on a verdict; whatever the texts come from, a row can hold them."""
        self.verdict, self.detail, self.rule = verdict, plain(detail, MAX_DETAIL), plain(rule, MAX_RULE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """One variant that is done."""

    row: EvalResult
    """Its result, before the variants are weighed against each other."""
    timings: tuple[Timing, ...] = ()
    """Its raw samples."""
    errors: tuple[float, float] | None = None
    """As in Case."""
    artifacts: Mapping[str, str] = field(default_factory=dict)
    """As in Graded, of this variant."""


class Journal(Protocol):
    """What is settled so far, kept by the caller; see `passbench.journal`."""

    @property
    def done(self) -> Mapping[int, Settled]:
        """Settled variants by index."""
        ...

    def add(self, settled: Settled) -> None:
        """Keep one more."""
        ...


Progress = Callable[[EvalResult], None]


def silent(row: EvalResult) -> None:
    """Report no progress."""


def weighed(rows: Sequence[EvalResult]) -> tuple[EvalResult, ...]:
    """The rows of one task, those without a match told apart by what happened to the others."""
    partial = partial_matches([row.verdict for row in rows])
    return tuple(replace(row, verdict=Verdict.PARTIAL_MATCH) if i in partial else row for i, row in enumerate(rows))


def settled_of(case: Case, row: EvalResult) -> Settled:
    """A case that is done, with what is kept beside its result."""
    return Settled(row=row, timings=tuple(case.timings), errors=case.errors, artifacts=case.artifacts)


def gather(done: Sequence[Settled], env: Environment, settings: Settings, measures: Mapping[str, str]) -> Graded:
    """Everything that the variants of one task, in order, gave."""
    return Graded(
        results=weighed([item.row for item in done]), environment=env, settings=settings, measures=measures,
        timings=tuple(timing for item in done for timing in item.timings),
        numerics=tuple((item.row.index, *item.errors) for item in done if item.errors),
        artifacts={f"{item.row.index:03}/{name}": text for item in done for name, text in item.artifacts.items()},
    )  # fmt: skip


def row_of(case: Case, variant: TaskVariant, submission: Submission, env: Environment, *, speed: bool) -> EvalResult:
    """The result that a case has come to."""
    correct = case.verdict in CORRECT_VERDICTS
    errors = case.comparison if correct or case.verdict in (Verdict.WRONG_VALUE, Verdict.NONDETERMINISTIC) else None
    timing = case.timing if correct and speed else None
    detail = case.detail or (plain("; ".join(case.checked), MAX_DETAIL) if correct else "")
    return EvalResult(
        task_id=variant.task_id, index=variant.index, submission=submission.digest, environment=env.environment,
        verdict=case.verdict, rule=case.rule, detail=marked(detail, case.off), matches=case.matches,
        correct_from=errors.correct_from if errors else None,
        max_abs_error=errors.max_abs_error if errors else None,
        max_rel_error=errors.max_rel_error if errors else None,
        speed_measured=speed, speedup=timing.speedup if timing else None,
        ci_low=timing.ci_low if timing else None, ci_high=timing.ci_high if timing else None,
        inductor_speedup=case.inductor_speedup, isolation=case.isolation,
    )  # fmt: skip
