"""A stored grading with its score and the conditions under which the score holds: what is compared, shown and ranked.

    entries = read_entries(Path("results"), PRESETS["published"], unit_speed=True)
    differences(entries[0].conditions, entries[1].conditions)    # ["isolation: namespaces against limits"]

Reads results folders; writes nothing. Two scores are comparable only if `differences` is empty.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from passbench.details import Details, read_details
from passbench.results import Stored, read_results
from passbench.roofline import caps_of
from passbench.sandbox import LEVELS
from passbench.score import NO_SPEED, Preset, TaskScore, score_task

UNKNOWN = ""
"""A condition that does not matter here (no candidate ran, or nothing was correct) and so differs from nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Everything that two scores must share; each value as text."""

    preset: str
    """Name of the preset."""
    p: str
    """Slow-down penalty."""
    b: str
    """What a failure counts."""
    levels: str
    """The grid of tolerance levels."""
    map: str
    """Class map with its version, and the weights of the levels."""
    basis: str
    """Which time the speed-ups are of."""
    speed: str
    """Whether speed was measured; unknown where nothing was correct."""
    isolation: str
    """Weakest isolation level of a candidate's process; unknown where none ran."""
    device: str
    """Kind and model of the device, threads."""
    software: str
    """Versions of torch and triton."""
    grading: str
    """Draws, clock's plan and time limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One submission on one task."""

    stored: Stored
    """Rows, task and environment."""
    details: Details
    """What stands beside the rows."""
    score: TaskScore
    """The score."""
    conditions: Conditions
    """What it holds under."""


def read_entries(folder: Path, preset: Preset, *, unit_speed: bool = False) -> list[Entry]:
    """All gradings at or below a folder; raises ValueError if there is none, or where speed was not measured."""
    return [entry_of(stored, preset, unit_speed=unit_speed) for stored in read_results(folder)]


def entry_of(stored: Stored, preset: Preset, *, unit_speed: bool = False) -> Entry:
    """A stored grading, scored."""
    details = read_details(stored.folder)
    caps = caps_of(details.variants, details.eager_us, stored.environment)
    score = score_task(stored.rows, stored.task, preset, unit_speed=unit_speed, caps=caps or None)
    return Entry(stored=stored, details=details, score=score, conditions=conditions_of(stored, details, score))


def conditions_of(stored: Stored, details: Details, score: TaskScore) -> Conditions:
    """The conditions of a score."""
    preset, env, settings = score.preset, stored.environment, details.settings
    ran = [row.isolation for row in stored.rows if row.isolation in LEVELS]
    plan = settings.get("plan", {})
    return Conditions(
        preset=preset.name, p=f"{preset.p:g}", b=f"{preset.b:g}", levels=f"{preset.levels[0]}..{preset.levels[-1]}",
        map=f"{preset.class_map} v{preset.version}, {preset.weights} weights", basis=preset.basis,
        speed=UNKNOWN if score.speed == NO_SPEED else score.speed,
        isolation=min(ran, key=LEVELS.index) if ran else UNKNOWN,
        device=f"{env.device}, {env.processor}, {env.threads} threads",
        software=f"torch {env.torch}" + (f", triton {env.triton}" if env.triton else ""),
        grading=", ".join([
            f"draws {settings.get('draws', '?')}", f"timeout {settings.get('timeout_s', '?')} s",
            *(f"{name} {plan[name]}" for name in ("pairs", "inner_us", "max_seconds") if name in plan),
        ]),
    )  # fmt: skip


def differences(a: Conditions, b: Conditions) -> list[str]:
    """Each condition in which two scores differ: "name: this against that"."""
    pairs = [(field.name, getattr(a, field.name), getattr(b, field.name)) for field in fields(Conditions)]
    return [f"{name}: {one} against {two}" for name, one, two in pairs if one != two and UNKNOWN not in (one, two)]


def common(conditions: Sequence[Conditions]) -> Conditions:
    """The conditions of many scores as one; raises ValueError that names the first two that differ."""
    if not conditions:
        raise ValueError("no scores to compare")
    first = conditions[0]
    for other in conditions:
        found = differences(first, other)
        if found:
            raise ValueError(f"scores of unequal settings are never averaged or compared: {'; '.join(found)}")
        values = {f.name: getattr(first, f.name) or getattr(other, f.name) for f in fields(Conditions)}
        first = Conditions(**values)
    return first
