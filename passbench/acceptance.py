"""What a maintainer runs before a result is accepted: hash again, check the rows, grade a seeded sample again, compare.

    findings = inspect(Path("results"), Shelf("runs/default"), freeze("submission"))
    findings += regrade(Path("results"), Shelf("runs/default"), freeze("submission"), Sample(count=3, seed=17))
    accepted(findings)                           # whether all of them hold

A result is a claim of who made it. Hash, schema, task set and N are checked without running anything; verdicts and
speeds by grading a few subgraphs of every task in this harness, picked by a seed that the submitter did not know.
Reads results folders, tasks and a frozen submission; writes nothing.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from passbench.details import Details, read_details
from passbench.results import Stored, read_results
from passbench.submission import Submission
from passbench.tasks import Shelf
from schemas.rows import EvalResult, Task, TaskVariant, Verdict

if TYPE_CHECKING:
    from passbench.run import Harness

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
    """Whether it holds."""
    detail: str = ""
    """What was found, one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What is graded again."""

    count: int = 3
    """Subgraphs of every task."""
    seed: int = 0
    """Which ones; not to be told to the submitter beforehand."""


def accepted(findings: Sequence[Finding]) -> bool:
    """Whether there are findings and all hold."""
    return bool(findings) and all(item.holds for item in findings)


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
    return [
        Finding(task=title, what="submission hash", holds=hashes == [submission.digest],
                detail=f"rows are of {told}, the folder hashes to {submission.digest[:12]}"),
        Finding(task=title, what="one row a subgraph", holds=complete,
                detail=f"{len(rows)} rows for {stored.task.num_variants} subgraphs"),
        Finding(task=title, what="environment", holds=places == {stored.environment.environment},
                detail=f"{len(places)} environments in the rows"),
        _task_finding(stored, shelf),
    ]  # fmt: skip


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
        settings = Settings(device=stored.environment.device, inductor=False, draws=_draws(details))
        with Harness(settings) as harness:
            found += _regrade(stored, shelf.variants(stored.task.task_id), submission, sample, harness)
    return found


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
            same = stored.environment.processor == graded.environment.processor
            found.append(agreement(stored.task, claimed, again, speeds=same))
    return found


def agreement(task: Task, claimed: EvalResult, again: EvalResult, *, speeds: bool) -> Finding:
    """Whether a second grading of one subgraph confirms the first; speeds count on the same processor only."""
    one, two = (_ALIKE.get(row.verdict, row.verdict) for row in (claimed, again))
    what, said = f"subgraph {claimed.index}", f"{claimed.verdict.value} claimed, {again.verdict.value} found"
    if one is not two or claimed.rule != again.rule:
        more = f": {again.detail}" if again.detail else ""
        return Finding(task=task.title, what=what, holds=False, detail=said + more)
    levels = (claimed.correct_from, again.correct_from)
    if one is Verdict.WRONG_VALUE and None not in levels and abs(levels[0] - levels[1]) > 1:  # type: ignore[operator]
        return Finding(task=task.title, what=what, holds=False, detail=f"correct from {levels[0]}, found {levels[1]}")
    if speeds and not _overlap(claimed, again):
        detail = f"speed-up {claimed.speedup:.3f} claimed, {again.speedup:.3f} found"
        return Finding(task=task.title, what=what, holds=False, detail=detail)
    return Finding(task=task.title, what=what, holds=True, detail=said)


def _overlap(one: EvalResult, two: EvalResult) -> bool:
    ends = (one.ci_low, one.ci_high, two.ci_low, two.ci_high)
    if any(end is None for end in ends):
        return True
    low, high, other_low, other_high = (end for end in ends if end is not None)
    return low / SPEED_SLACK <= other_high * SPEED_SLACK and other_low / SPEED_SLACK <= high * SPEED_SLACK
