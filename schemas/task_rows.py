"""Rows of the benchmark: a proposed task, a task, one of its subgraphs, and what a submission made of that one.

Is: `TaskCandidate`, `Task`, `TaskVariant`, `EvalResult` and the closed list `Verdict`; import them from `schemas.rows`,
where all row types are. Reads and writes nothing.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from schemas.graph import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One benchmark task: a family of subgraph variants that one submission must handle."""

    KEY: ClassVar[tuple[str, ...]] = ("task_id", "version")
    task_id: str
    """Content id of the variants' keys."""
    version: int
    """Raised when anything of a published task changes."""
    title: str
    """The compute ops of the family, for people."""
    split: str
    """train or test; no structure and no topology crosses."""
    structure: str
    """The family: Subgraph.structure of all variants."""
    num_variants: int
    """N of the score."""
    max_patterns: int
    """Most passes a submission may list."""
    max_functions: int
    """Most distinct replacement functions a submission may have."""
    document_frequency: int
    """A lower bound on the number of graph classes that contain a piece of the family: that of its commonest member."""
    families: tuple[str, ...]
    """Architecture families the pieces come from, sorted."""
    modalities: tuple[str, ...]
    """Modalities they come from, sorted."""
    licenses: tuple[str, ...]
    """Licences they come under, sorted."""
    rejected_solvers: tuple[str, ...]
    """Trivial solvers that were run against every variant and failed: zeros, constant, identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskVariant:
    """One subgraph of a task in one dtype and one set of shapes."""

    KEY: ClassVar[tuple[str, ...]] = ("task_id", "index")
    task_id: str
    """Task.task_id."""
    index: int
    """Position in the task, from 0."""
    subgraph: str
    """Exact canonical key of this variant's graph."""
    origin: str
    """Subgraph.key of the mined piece it was made from (itself, unless dtype or shape was varied)."""
    dtype: str
    """Floating-point dtype of the variant."""
    shapes: str
    """Input shapes, for people: "1x128x768, 768"."""
    graph: Graph
    """The graph to be sped up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCandidate:
    """A family of pieces proposed as a task, with all its variants, before admission."""

    KEY: ClassVar[tuple[str, ...]] = ("structure",)
    structure: str
    """Subgraph.structure that all variants' origins share."""
    title: str
    """As in Task."""
    split: str
    """As in Task."""
    document_frequency: int
    """As in Task."""
    families: tuple[str, ...]
    """As in Task."""
    modalities: tuple[str, ...]
    """As in Task."""
    licenses: tuple[str, ...]
    """As in Task."""
    variants: tuple[TaskVariant, ...]
    """Proposed variants; their task_id is empty until admission fixes N."""


class Verdict(StrEnum):
    """What happened to one subgraph of a submission: one closed list."""

    PASSED = "PASSED"
    NO_MATCH = "NO_MATCH"
    """No pass fired on any variant of the task."""
    PARTIAL_MATCH = "PARTIAL_MATCH"
    """No pass fired on this variant, though one did on another variant of the task: the task demands them all."""
    GRAPH_INVALID = "GRAPH_INVALID"
    REJECTED = "REJECTED"
    COMPILE_ERROR = "COMPILE_ERROR"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    TIMEOUT = "TIMEOUT"
    OOM = "OOM"
    WRONG_SHAPE = "WRONG_SHAPE"
    WRONG_DTYPE = "WRONG_DTYPE"
    NON_FINITE = "NON_FINITE"
    WRONG_VALUE = "WRONG_VALUE"
    NONDETERMINISTIC = "NONDETERMINISTIC"
    INTEGRITY = "INTEGRITY"
    AMBIGUOUS_TIMING = "AMBIGUOUS_TIMING"
    HARNESS_ERROR = "HARNESS_ERROR"


RAN_VERDICTS = frozenset({Verdict.PASSED, Verdict.WRONG_VALUE, Verdict.AMBIGUOUS_TIMING, Verdict.NONDETERMINISTIC})
"""Verdicts that come with error numbers: the candidate ran and gave outputs of the right form."""
CORRECT_VERDICTS = frozenset({Verdict.PASSED, Verdict.AMBIGUOUS_TIMING})
"""Verdicts that may come with a speed-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalResult:
    """What happened to one subgraph of a task under one submission; illegal combinations cannot be constructed."""

    KEY: ClassVar[tuple[str, ...]] = ("task_id", "index", "submission", "environment")
    task_id: str
    """Task.task_id."""
    index: int
    """TaskVariant.index."""
    submission: str
    """Content hash of the submission folder."""
    environment: str
    """Environment.environment."""
    verdict: Verdict
    """What happened."""
    rule: str
    """Which rule or integrity code decided REJECTED or INTEGRITY; empty otherwise."""
    detail: str
    """One line for people: what was expected, what was found."""
    matches: int
    """How many places the passes rewrote."""
    correct_from: int | None
    """Smallest tolerance level t (-10..5) from which outputs agree; None if they never do or did not run."""
    max_abs_error: float | None
    """Largest absolute error against the reference over all outputs and input draws; None if it did not run."""
    max_rel_error: float | None
    """Largest error relative to the reference's own largest magnitude; None if it did not run."""
    speed_measured: bool
    """Whether the candidate's speed is real: false where kernels ran in an interpreter."""
    speedup: float | None
    """eager / candidate time; None unless correct and measured."""
    ci_low: float | None
    """Lower end of its 95% interval."""
    ci_high: float | None
    """Upper end of it."""
    inductor_speedup: float | None
    """eager / default Inductor time in the same session; None if not timed."""
    isolation: str
    """Isolation level reached by the candidate's process."""

    def __post_init__(self) -> None:
        ran, correct = self.verdict in RAN_VERDICTS, self.verdict in CORRECT_VERDICTS
        if not ran and not (self.correct_from is self.max_abs_error is self.max_rel_error is None):
            raise ValueError(f"a result with verdict {self.verdict} did not run, so it carries no error numbers")
        if self.speedup is not None and not (correct and self.speed_measured):
            raise ValueError(f"a result with verdict {self.verdict} and unmeasured or wrong output has no speed-up")
        if correct and self.correct_from is None:
            raise ValueError(f"a result with verdict {self.verdict} needs the tolerance level it is correct from")
        if self.speedup is not None and not self.speedup > 0:
            raise ValueError(f"a speed-up is positive, not {self.speedup}")
