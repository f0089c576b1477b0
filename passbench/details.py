"""What stands beside the rows of a grading: settings, isolation, raw times, errors, the submission and the graphs.

    found = read_details(stored.folder)          # empty parts where an older results folder lacks them
    found.eager_us, found.noise                  # eager time by variant; the session's A/A noise floor

Reads results.json, variants.parquet, submission/ and artifacts/ of one results folder; writes nothing. No torch.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from schemas.arrow import from_table
from schemas.rows import TaskVariant

MAX_TEXT = 2**18
"""Most characters of a source or artifact that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Raw times of one variant and side."""

    index: int
    """TaskVariant.index."""
    side: str
    """What was timed against eager: candidate or inductor."""
    eager_us: tuple[float, ...]
    """Eager time a call of every pair."""
    side_us: tuple[float, ...]
    """The side's time a call of every pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numerics:
    """Errors of one variant against the float64 oracle, largest over outputs and draws."""

    index: int
    """TaskVariant.index."""
    error: float
    """The candidate's, relative to the oracle's largest value."""
    eager_error: float
    """Eager's own."""

    @property
    def ratio(self) -> float | None:
        """The candidate's error over eager's; None if eager makes none."""
        return self.error / self.eager_error if self.eager_error else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """Everything of a results folder that is no row of the score."""

    name: str = ""
    """The submission's name."""
    passes: tuple[str, ...] = ()
    """Its passes in order."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """`run.Settings` as JSON."""
    isolation: Mapping[str, str] = field(default_factory=dict)
    """Each measure: "yes", or why not."""
    times: tuple[Times, ...] = ()
    """Raw times."""
    numerics: tuple[Numerics, ...] = ()
    """Errors against the oracle."""
    variants: tuple[TaskVariant, ...] = ()
    """The graphs that were graded."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Path -> text of the submission."""
    artifacts: Mapping[str, str] = field(default_factory=dict)
    """Path -> text of what was kept on the way: graphs after the passes, generated kernels."""

    @property
    def eager_us(self) -> dict[int, float]:
        """Variant -> median eager time of a call, microseconds."""
        found: dict[int, list[float]] = {}
        for item in self.times:
            found.setdefault(item.index, []).extend(item.eager_us)
        return {index: float(np.median(samples)) for index, samples in sorted(found.items()) if samples}

    @property
    def noise(self) -> float | None:
        """The A/A noise floor of these timings; see `noise_floor`."""
        return noise_floor([item.eager_us for item in self.times])


def noise_floor(eager: Sequence[Sequence[float]], *, seed: int = 0) -> float | None:
    """How far from 1 the measured speed-up of two equal sides lies in 95% of measurements; None of too few samples.

    In ABBA order the eager windows of pairs 2k and 2k+1 (counted from 1) are neighbours in time and of one side, so
    the log of their ratio is a measurement of nothing. A speed-up is the median over as many such numbers as a
    measurement has pairs, resampled from all of the session's.
    """
    ratios = [math.log(side[k] / side[k + 1]) for side in eager for k in range(1, len(side) - 1, 2)]
    if len(ratios) < 4:
        return None
    pairs = max(1, round(float(np.median([len(side) for side in eager]))))
    known = np.asarray(ratios)
    picks = np.random.default_rng(seed).integers(0, known.size, size=(2000, pairs))
    signs = np.random.default_rng(seed + 1).choice([-1.0, 1.0], size=picks.shape)  # which of the two is first is chance
    return math.exp(float(np.quantile(np.abs(np.median(known[picks] * signs, axis=1)), 0.95))) - 1


def read_details(folder: Path) -> Details:
    """All that a results folder holds beside its rows; raises ValueError if it is there but cannot be read."""
    raw = _json_of(folder / "results.json")
    submission, numerics = raw.get("submission", {}), raw.get("numerics", [])
    try:
        return Details(
            name=str(submission.get("name", folder.name)), passes=tuple(submission.get("passes", ())),
            settings=dict(raw.get("settings", {})), isolation=dict(raw.get("isolation", {})),
            times=tuple(
                Times(index=item["index"], side=item["side"], eager_us=tuple(item["eager_us"]),
                      side_us=tuple(item["side_us"]))
                for item in raw.get("timings", [])
            ),
            numerics=tuple(Numerics(**item) for item in numerics),
            variants=_variants(folder / "variants.parquet"),
            sources=_texts(folder / "submission"), artifacts=_texts(folder / "artifacts"),
        )  # fmt: skip
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder}/results.json: not written by passbench run: {error!r}") from error


def _json_of(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: not readable as JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path}: a JSON object is needed")
    return found


def _variants(path: Path) -> tuple[TaskVariant, ...]:
    if not path.is_file():
        return ()
    try:
        return tuple(from_table(pq.read_table(path), TaskVariant))
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise ValueError(f"{path}: not a table of variants: {str(error).splitlines()[0]}") from error


def _texts(folder: Path) -> dict[str, str]:
    """The readable files below a folder, each cut to MAX_TEXT."""
    found = {}
    for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
        if path.is_file() and not path.is_symlink():
            with path.open(encoding="utf-8", errors="replace") as file:
                found[path.relative_to(folder).as_posix()] = file.read(MAX_TEXT)
    return found
