"""Two submissions against each other: the paired difference of their scores with its interval by task.

    found = compare(read_entries(a, preset), read_entries(b, preset))     # ValueError on unequal settings
    found.ratio, found.interval                  # score of A over score of B

Both sides are graded on the same tasks, so a task's difficulty cancels: what is averaged is the difference of the log
scores of one task, and what is resampled are tasks (`passbench.bootstrap`). Unequal settings, unequal task sets and
void tasks are refused, by name. Reads and writes nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from passbench.bootstrap import Interval, mean_interval
from passbench.entries import Conditions, Entry, common, differences
from passbench.score import TaskScore, require_scored
from schemas.text import counted

MAX_NAMED = 3
"""Most tasks that a refusal names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTask:
    """One task, both scores."""

    title: str
    """Task.title."""
    task_id: str
    """Task.task_id."""
    a: float
    """Score of the first submission."""
    b: float
    """Score of the second."""

    @property
    def ratio(self) -> float:
        """First over second."""
        return self.a / self.b


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A mean difference over tasks."""

    name: str
    """What differs."""
    value: float
    """The first submission's mean less the second's."""
    interval: Interval | None
    """95% interval by task; None of too few tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """What a comparison found."""

    a: str
    """The first submission's name and hash."""
    b: str
    """The second's."""
    ratio: float
    """Geometric mean over tasks of score A over score B."""
    interval: Interval | None
    """Its 95% interval by task; None of too few tasks."""
    tasks: tuple[PairedTask, ...]
    """Both scores of every task, by title."""
    beside: tuple[Difference, ...]
    """Differences of coverage, correctness and log speed."""

    @property
    def verdict(self) -> str:
        """What can be said: "A is better", "B is better" or "no difference is shown"."""
        if self.interval is None:
            return "too few tasks to say"
        if self.interval.low > 1:
            return "A is better"
        return "B is better" if self.interval.high < 1 else "no difference is shown"


def compare(a: Sequence[Entry], b: Sequence[Entry], *, seed: int = 0) -> Paired:
    """The paired comparison of two submissions, one entry a task each; raises ValueError if they are not comparable."""
    for side, entries in (("A", a), ("B", b)):
        _one_submission(side, entries)
    refusals = [*_void_tasks(a, b), *_unequal_tasks(a, b), *differences(_common("A", a), _common("B", b))]
    if refusals:
        raise ValueError(f"A and B are not comparable: {'; '.join(refusals)}")
    pairs = _paired(a, b)
    scored = [(require_scored(one.score), require_scored(two.score)) for one, two in pairs]
    logs = [math.log(one / two) for one, two in scored]
    found = mean_interval(logs, seed=seed)
    return Paired(
        a=_name(a), b=_name(b), ratio=math.exp(math.fsum(logs) / len(logs)),
        interval=None if found is None else found.exp(),
        tasks=tuple(
            PairedTask(title=one.stored.task.title, task_id=one.stored.task.task_id, a=values[0], b=values[1])
            for (one, _), values in zip(pairs, scored, strict=True)
        ),
        beside=_beside([(one.score, two.score) for one, two in pairs], seed),
    )  # fmt: skip


def lines_of(found: Paired) -> list[str]:
    """A comparison for people, one line each."""
    lines = [f"A  {found.a}", f"B  {found.b}"]
    ends = "" if found.interval is None else f"  95% interval {found.interval.low:.3f} to {found.interval.high:.3f}"
    lines.append(f"score A / B over {counted(len(found.tasks), 'task')}: {found.ratio:.3f}{ends}: {found.verdict}")
    for item in found.beside:
        ends = "" if item.interval is None else f"  [{item.interval.low:+.3f}, {item.interval.high:+.3f}]"
        lines.append(f"{item.name}, A less B: {item.value:+.3f}{ends}")
    for task in sorted(found.tasks, key=lambda task: (-abs(math.log(task.ratio)), task.title)):
        lines.append(f"  {task.ratio:8.3f}  {task.a:.3f} against {task.b:.3f}  {task.title} ({task.task_id[:12]})")
    return lines


def _one_submission(side: str, entries: Sequence[Entry]) -> None:
    if not entries:
        raise ValueError(f"{side} holds no results")
    found = sorted({row.submission for entry in entries for row in entry.stored.rows})
    if len(found) > 1:
        raise ValueError(f"{side} holds {len(found)} submissions ({', '.join(x[:8] for x in found)}): name one of them")
    ids = [entry.stored.task.task_id for entry in entries]
    if len(set(ids)) < len(ids):
        raise ValueError(f"{side} holds a task twice: name a folder with one grading a task")


def _common(side: str, entries: Sequence[Entry]) -> Conditions:
    try:
        return common([entry.conditions for entry in entries])
    except ValueError as error:
        raise ValueError(f"{side}: {error}") from error


def _unequal_tasks(a: Sequence[Entry], b: Sequence[Entry]) -> list[str]:
    sides = [{(e.stored.task.task_id, e.stored.task.version): e.stored.task.title for e in side} for side in (a, b)]
    found = []
    for name, own, other in (("A", sides[0], sides[1]), ("B", sides[1], sides[0])):
        alone = [title for key, title in own.items() if key not in other]
        if alone:
            more = f" and {len(alone) - MAX_NAMED} more" if len(alone) > MAX_NAMED else ""
            found.append(f"task set: only {name} has {', '.join(alone[:MAX_NAMED])}{more}")
    return found


def _void_tasks(a: Sequence[Entry], b: Sequence[Entry]) -> list[str]:
    return [
        f"{name} has no score on {entry.stored.task.title}: {entry.score.voided}"
        for name, side in (("A", a), ("B", b))
        for entry in side
        if entry.score.voided
    ]


def _paired(a: Sequence[Entry], b: Sequence[Entry]) -> list[tuple[Entry, Entry]]:
    other = {entry.stored.task.task_id: entry for entry in b}
    ordered = sorted(a, key=lambda entry: (entry.stored.task.title, entry.stored.task.task_id))
    return [(entry, other[entry.stored.task.task_id]) for entry in ordered]


def _name(entries: Sequence[Entry]) -> str:
    return f"{entries[0].details.name} {entries[0].score.submission[:8]}"


def _beside(pairs: Sequence[tuple[TaskScore, TaskScore]], seed: int) -> tuple[Difference, ...]:
    parts: tuple[tuple[str, Callable[[TaskScore], float | None]], ...] = (
        ("coverage", lambda score: score.coverage),
        ("correctness", lambda score: score.correctness),
        ("log speed-up where both are correct", lambda score: math.log(score.speedup) if score.speedup else None),
    )
    found = []
    for name, part in parts:
        known = [(part(one), part(two)) for one, two in pairs]
        values = [one - two for one, two in known if one is not None and two is not None]
        if values:
            mean = math.fsum(values) / len(values)
            found.append(Difference(name=name, value=mean, interval=mean_interval(values, seed=seed)))
    return tuple(found)
