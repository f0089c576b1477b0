"""The cases of tests/adversarial: attacks on the grader and honest look-alikes, each a folder with a case.json.

    for case in cases(): ...
    with submission_of(case) as submission: ...

case.json says what a case tries and who must decide it. A case holds its files itself, or it names another as its
"base" and lists "edits" [[file, text, other text], ...]; each text stands once in that file. Own files come over those
of the base. Reads tests/adversarial; writes one temporary folder a submission and removes it.
"""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from passbench.submission import Submission, freeze

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "adversarial"
ABOUT = "case.json"
_DEFAULTS: dict[str, Any] = {"rule": "", "or_verdict": "", "task": "add_relu", "beside": [], "off": [],
                             "why_not": "", "says": "", "gpu": False, "base": "", "edits": []}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackCase:
    """One folder of tests/adversarial as its case.json describes it."""

    name: str
    """Name of the folder."""
    reason: str
    """What it tries, one sentence."""
    layer: str
    """Layer that must decide it; empty for an honest submission."""
    verdict: str
    """Expected verdict of its last variant."""
    or_verdict: str
    """Another that is as right: where the inputs drawn decide if a wrong element is not finite; or empty."""
    rule: str
    """Expected rule."""
    task: str
    """Key of `adversarial_tasks.TASKS`."""
    beside: tuple[str, ...]
    """Layers left out so that the layer named has to hold alone."""
    off: tuple[str, ...]
    """Layers left out besides, without which it passes; empty where that cannot be shown."""
    why_not: str
    """Why the layer cannot be turned off."""
    says: str
    """What the detail must contain."""
    gpu: bool
    """Whether it means something on a GPU only."""
    base: str
    """The case whose files it changes; empty if it holds all files itself."""
    edits: tuple[tuple[str, str, str], ...]
    """(file, text that stands there once, what takes its place)."""


def cases() -> list[AttackCase]:
    """All cases by name."""
    return [case_named(path.parent.name) for path in sorted(FOLDER.glob(f"*/{ABOUT}"))]


def case_named(name: str) -> AttackCase:
    """One case; raises ValueError on a key that case.json does not have."""
    raw = {**_DEFAULTS, **json.loads((FOLDER / name / ABOUT).read_text(encoding="utf-8"))}
    lists = {key: tuple(raw.pop(key)) for key in ("beside", "off")}
    edits = tuple((str(file), str(old), str(new)) for file, old, new in raw.pop("edits"))
    try:
        return AttackCase(name=name, **raw, **lists, edits=edits)
    except TypeError as error:
        raise ValueError(f"{name}/{ABOUT}: {error}") from error


def files_of(case: AttackCase) -> dict[str, bytes]:
    """Path -> bytes of a case's submission; raises ValueError on an edit whose text does not stand there once."""
    files = files_of(case_named(case.base)) if case.base else {}
    for name, old, new in case.edits:
        text = files.get(name, b"").decode()
        if text.count(old) != 1:
            raise ValueError(f"{case.name}: {old!r} stands {text.count(old)} times in {name} of {case.base}, not once")
        files[name] = text.replace(old, new).encode()
    own = [path for path in (FOLDER / case.name).rglob("*") if path.is_file() and path.name != ABOUT]
    return {**files, **{path.relative_to(FOLDER / case.name).as_posix(): path.read_bytes() for path in own
                        if "__pycache__" not in path.parts}}  # fmt: skip


@contextlib.contextmanager
def submission_of(case: AttackCase) -> Iterator[Submission]:
    """The frozen submission of a case."""
    with tempfile.TemporaryDirectory(prefix="case-") as made:
        folder = Path(made) / case.name
        for path, blob in files_of(case).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(blob)
        yield freeze(folder)
