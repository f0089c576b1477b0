"""What is settled so far of one grading, kept on disk, so that a run that is killed goes on where it stopped.

    journal = Journal(out, submission, task, key_of(submission, task, variants, settings))
    graded = grade(submission, task, variants, settings, journal=journal)
    journal.forget()                             # once the results are written

Writes OUT/.<submission>-<hash>-<task>.progress/, one JSON file a settled variant, each whole or not at all. It counts
only under the same key: task, submission, harness, environment and settings; under another it is thrown away.
"""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from passbench.clock import environment
from passbench.grading import Settings, Settled, Timing
from passbench.results import folder_name
from passbench.submission import Submission
from schemas import values
from schemas.rows import EvalResult, Task, TaskVariant, Verdict, content_id

_ROOT = Path(__file__).resolve().parent.parent
_WITHOUT_EFFECT = frozenset({"workers"})
"""Settings that change no result."""


def key_of(submission: Submission, task: Task, variants: Sequence[TaskVariant], settings: Settings) -> str:
    """Content hash of everything a result depends on: task, submission, harness, environment and settings."""
    chosen = {name: value for name, value in asdict(settings).items() if name not in _WITHOUT_EFFECT}
    parts = [values.dumps(_plain(asdict(task))), submission.digest, harness_digest(), values.dumps(_plain(chosen))]
    graphs = [f"{row.index} {row.graph.to_json()}" for row in sorted(variants, key=lambda row: row.index)]
    return content_id(*parts, environment(settings.device).environment, *graphs)


def harness_digest() -> str:
    """Content hash of the code that grades."""
    paths = sorted(path for package in ("passbench", "schemas") for path in (_ROOT / package).rglob("*.py"))
    return content_id(*(part for path in paths for part in (path.relative_to(_ROOT).as_posix(), path.read_bytes())))


class Journal:
    """The settled variants of one grading."""

    def __init__(self, out: Path, submission: Submission, task: Task, key: str) -> None:
        self.folder = out / f".{folder_name(submission, task)}.progress"
        self.key = key
        self.done: dict[int, Settled] = {}
        if self.folder.is_dir():
            self.done = {row.row.index: row for row in map(self._read, sorted(self.folder.glob("*.json"))) if row}
            if not self.done:
                self.forget()

    def add(self, settled: Settled) -> None:
        """Keep one more variant."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{settled.row.index:05}.json"
        building = path.with_suffix(f".{os.getpid()}")
        building.write_text(json.dumps({"key": self.key, **asdict(settled)}))
        os.replace(building, path)

    def forget(self) -> None:
        """Throw it away."""
        self.done = {}
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self, path: Path) -> Settled | None:
        """One settled variant, None if it is of another grading."""
        try:
            raw = json.loads(path.read_text())
            if raw["key"] != self.key:
                return None
            row = EvalResult(**{**raw["row"], "verdict": Verdict(raw["row"]["verdict"])})
            errors = raw["errors"] and (raw["errors"][0], raw["errors"][1])
            timings = tuple(map(_timing, raw["timings"]))
            return Settled(row=row, timings=timings, errors=errors, artifacts=raw["artifacts"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _timing(raw: Mapping[str, Any]) -> Timing:
    lists: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in raw.items()}
    return Timing(**lists)


def _plain(value: Any) -> Any:
    """The value as JSON has it: tuples and sets as lists."""
    return json.loads(json.dumps(value, default=sorted))
