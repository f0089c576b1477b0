"""What a maintainer runs before a result is accepted: hash again, check the rows, grade a seeded sample again, compare.

    findings = inspect(Path("results"), Shelf("runs/default"), freeze("submission"))
    findings += regrade(Path("results"), Shelf("runs/default"), freeze("submission"), Sample(count=3, seed=17))
    accepted(findings)                           # whether all of them are confirmed
    refuted(findings)                            # whether one does not hold

A result is a claim of who made it. Hash, schema, task set, N and that speed-ups follow from raw times are checked
without running anything; verdicts and speeds by grading a few subgraphs of every task in this harness, picked by a seed
that the submitter did not know. What cannot be checked here (a speed-up on another processor, any on a device that this
machine lacks) is unconfirmed, never right.
Reads results folders, tasks and a frozen submission; writes nothing.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from passbench.clock import estimate
from passbench.details import Details, read_details
from passbench.results import Stored, read_results
from passbench.submission import Submission
from passbench.tasks import Shelf
from schemas import values
from schemas.rows import CORRECT_VERDICTS, EvalResult, Task, TaskVariant, Verdict, content_id

if TYPE_CHECKING:
    from passbench.run import Graded, Harness

_ALIKE = {Verdict.AMBIGUOUS_TIMING: Verdict.PASSED, Verdict.PARTIAL_MATCH: Verdict.NO_MATCH}
"""Verdicts that another run, or a run on a part of the task, may give instead."""
SPEED_SLACK = 1.1
"""Speed-ups agree if their intervals, each widened by this factor, overlap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was checked."""

    task: str
    """Title of the task."""
    what: str
    """What was checked."""
    holds: bool
    """Whether nothing speaks against it."""
    detail: str = ""
    """What was found, one line."""
    unconfirmed: str = ""
    """What is claimed and could not be checked here, one sentence; empty if all was."""

    @property
    def status(self) -> str:
        """ "ok", "unconfirmed" or "FAIL"."""
        return "FAIL" if not self.holds else "unconfirmed" if self.unconfirmed else "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What is graded again."""

    count: int = 3
    """Subgraphs of every task."""
    seed: int = 0
    """Which ones; not to be told to the submitter beforehand."""


def accepted(findings: Sequence[Finding]) -> bool:
    """Whether there are findings and all are confirmed."""
    return bool(findings) and all(item.status == "ok" for item in findings)


def refuted(findings: Sequence[Finding]) -> bool:
    """Whether there are none, or one does not hold."""
    return not findings or not all(item.holds for item in findings)


# --- without running anything ---------------------------------------------------------------------------------------
def inspect(results: Path, shelf: Shelf, submission: Submission) -> list[Finding]:
    """Hash, rows and tasks of every stored grading; raises ValueError if the results cannot be read at all."""
    return [item for stored in read_results(results) for item in _inspect(stored, shelf, submission)]


def _inspect(stored: Stored, shelf: Shelf, submission: Submission) -> list[Finding]:
    title, rows = stored.task.title, stored.rows
    hashes = sorted({row.submission for row in rows})
    told = ", ".join(item[:12] for item in hashes)
    indices = sorted(row.index for row in rows)
    complete = indices == list(range(stored.task.num_variants)) and {r.task_id for r in rows} == {stored.task.task_id}
    places = {row.environment for row in rows}
    env = stored.environment
    parts = {name: value for name, value in asdict(env).items() if name != "environment"}
    real = env.environment == content_id(values.dumps(parts))
    return [
        Finding(task=title, what="submission hash", holds=hashes == [submission.digest],
                detail=f"rows are of {told}, the folder hashes to {submission.digest[:12]}"),
        Finding(task=title, what="one row a subgraph", holds=complete,
                detail=f"{len(rows)} rows for {stored.task.num_variants} subgraphs"),
        Finding(task=title, what="environment", holds=places == {env.environment} and real,
                detail=f"{len(places)} environments in the rows" if real else "its id is not that of its contents"),
        _task_finding(stored, shelf),
        *(_speed_finding(stored, row) for row in rows if row.speedup is not None or row.speed_measured),
    ]  # fmt: skip


def _speed_finding(stored: Stored, row: EvalResult) -> Finding:
    """Whether the speed-up of a row follows from the raw times beside it."""
    what = f"speed of subgraph {row.index}"
    if row.speedup is None:
        lacks = row.verdict in CORRECT_VERDICTS
        detail = "said to be measured, but there is none" if lacks else "not timed: not correct"
        return Finding(task=stored.task.title, what=what, holds=not lacks, detail=detail)
    if row.ci_low is None or row.ci_high is None or not 0 < row.ci_low <= row.speedup <= row.ci_high < math.inf:
        return Finding(task=stored.task.title, what=what, holds=False,
                       detail=f"a speed-up of {row.speedup:.3f} without an interval that holds it")  # fmt: skip
    details = read_details(stored.folder)
    times = [item for item in details.times if item.index == row.index and item.side == "candidate"]
    plan = details.settings.get("plan", {})
    seed = plan.get("seed", 0) if isinstance(plan, dict) else 0
    try:
        (only,) = times
        found = estimate(only.eager_us, only.side_us, seed=seed if isinstance(seed, int) else 0)
    except ValueError:
        return Finding(task=stored.task.title, what=what, holds=False,
                       detail=f"a speed-up of {row.speedup:.3f} without the raw times that it is made of")  # fmt: skip
    same = math.isclose(found.speedup, row.speedup, rel_tol=1e-6)
    return Finding(task=stored.task.title, what=what, holds=same,
                   detail=f"{row.speedup:.3f} claimed, the raw times say {found.speedup:.3f}")  # fmt: skip


def _task_finding(stored: Stored, shelf: Shelf) -> Finding:
    task = stored.task
    found = next((item for item in shelf.tasks() if item.task_id == task.task_id), None)
    if found is None:
        return Finding(task=task.title, what="task", holds=False, detail=f"no task {task.task_id} is published")
    if found != task:
        return Finding(task=task.title, what="task", holds=False,
                       detail=f"version {task.version} with {task.num_variants} subgraphs, published is version "
                              f"{found.version} with {found.num_variants}")  # fmt: skip
    own, published = read_details(stored.folder).variants, shelf.variants(task.task_id)
    other = [row.index for row in own if row not in published]
    detail = f"graphs {other} are not the published ones" if other else f"version {task.version}"
    return Finding(task=task.title, what="task", holds=not other, detail=detail)


# --- grading again --------------------------------------------------------------------------------------------------
def regrade(results: Path, shelf: Shelf, submission: Submission, sample: Sample) -> list[Finding]:
    """Grade a seeded sample of every task again and compare; raises ValueError where the device is not here."""
    from passbench.run import Harness, Settings

    found: list[Finding] = []
    for stored in read_results(results):
        details = read_details(stored.folder)
        settings = Settings(device=_device(stored.environment.device), inductor=False, draws=_draws(details))
        with Harness(settings) as harness:
            found += _regrade(stored, shelf.variants(stored.task.task_id), submission, sample, harness)
    return found


def _device(claimed: str) -> str:
    """The device kind to grade on: the one claimed, or the processor where this machine lacks it."""
    import torch

    return "cuda" if claimed == "cuda" and torch.cuda.is_available() else "cpu"


def _draws(details: Details) -> int:
    draws = details.settings.get("draws", 3)
    return draws if isinstance(draws, int) and 1 <= draws <= 16 else 3


def chosen(task: Task, sample: Sample) -> list[int]:
    """The subgraphs of a task that a sample takes; another seed or task takes others."""
    order = list(range(task.num_variants))
    random.Random(f"{sample.seed}/{task.task_id}").shuffle(order)
    return sorted(order[: sample.count])


def _regrade(
    stored: Stored, variants: Sequence[TaskVariant], submission: Submission, sample: Sample, harness: "Harness"
) -> list[Finding]:
    indices = [index for index in chosen(stored.task, sample) if index < len(variants)]
    part = [replace(variants[index], index=k) for k, index in enumerate(indices)]
    graded = harness.grade(submission, replace(stored.task, num_variants=len(part)), part)
    by_index = {row.index: row for row in stored.rows}
    found = []
    for index, again in zip(indices, graded.results, strict=True):
        claimed = by_index.get(index)
        if claimed is None:
            found.append(Finding(task=stored.task.title, what=f"subgraph {index}", holds=False, detail="has no row"))
        else:
            found.append(agreement(stored.task, claimed, again, elsewhere=_elsewhere(stored, graded)))
    return found


def _elsewhere(stored: Stored, graded: "Graded") -> str:
    """Why speeds that were measured there cannot be compared with those measured here; empty if they can."""
    one, two = stored.environment, graded.environment
    names = ("device", "processor", "cores", "threads")
    other = [f"{getattr(one, name)} there, {getattr(two, name)} here" for name in names
             if getattr(one, name) != getattr(two, name)]  # fmt: skip
    return "; ".join(other)


def agreement(task: Task, claimed: EvalResult, again: EvalResult, *, elsewhere: str) -> Finding:
    """Whether a second grading of one subgraph confirms the first.

    `elsewhere` says why speeds are not comparable; a speed-up that is then claimed is unconfirmed.
    """
    one, two = (_ALIKE.get(row.verdict, row.verdict) for row in (claimed, again))
    what, said = f"subgraph {claimed.index}", f"{claimed.verdict.value} claimed, {again.verdict.value} found"
    if one is not two or claimed.rule != again.rule:
        more = f": {again.detail}" if again.detail else ""
        return Finding(task=task.title, what=what, holds=False, detail=said + more)
    levels = (claimed.correct_from, again.correct_from)
    if one is Verdict.WRONG_VALUE and None not in levels and abs(levels[0] - levels[1]) > 1:  # type: ignore[operator]
        return Finding(task=task.title, what=what, holds=False, detail=f"correct from {levels[0]}, found {levels[1]}")
    speed = _speed_agreement(claimed, again, elsewhere)
    return replace(speed, task=task.title, what=what, detail=speed.detail or said)


def _speed_agreement(claimed: EvalResult, again: EvalResult, elsewhere: str) -> Finding:
    """Whether the speed-ups of two gradings agree; a finding without task and title."""
    blank = Finding(task="", what="", holds=True)
    if claimed.speedup is None:
        return blank
    ends = (claimed.ci_low, claimed.ci_high, again.ci_low, again.ci_high)
    told = f"speed-up {claimed.speedup:.3f} claimed"
    if claimed.ci_low is None or claimed.ci_high is None:
        return replace(blank, holds=False, detail=f"{told} without an interval")
    if not elsewhere and not again.speed_measured:
        return replace(blank, holds=False, detail=f"{told}, but this device measures none: kernels are interpreted")
    if elsewhere or again.speedup is None:
        why = elsewhere or "it was not measured here"
        return replace(blank, detail=told, unconfirmed=f"{told} is not confirmed: {why}")
    low, high, other_low, other_high = (end or math.nan for end in ends)
    near = low / SPEED_SLACK <= other_high * SPEED_SLACK and other_low / SPEED_SLACK <= high * SPEED_SLACK
    return replace(blank, holds=near, detail=f"{told}, {again.speedup:.3f} found")
