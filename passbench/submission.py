"""The submission contract: a folder of passes, frozen by content before anything of it runs.

    submission = freeze("examples/submissions/fused_add_layer_norm")
    submission.digest                            # content hash of all its files
    submission.write_to(scratch)                 # the frozen copy that the candidate's process loads

A folder holds `sorted_output_pass_rule_names.json` (a JSON list of file stems in order of application) and one module a
pass. A pass exposes `pattern(*args)`, `replacement_args(*args)` and `replacement_func()`, or instead of these
`graph_pass(gm, example_inputs)`. An optional `task.json` holds {"task": title, structure key or task id}. Other
modules of the folder may be imported by passes. Reads the folder once; writes only where `write_to` is told to.
Raises Rejected with the rule that was broken and one line of file, line and what to do.
"""

import ast
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from schemas.rows import content_id
from schemas.text import plain

ORDER_FILE = "sorted_output_pass_rule_names.json"
TASK_FILE = "task.json"
CONTRACT = ("pattern", "replacement_args", "replacement_func")
GRAPH_PASS = "graph_pass"
MAX_FILES, MAX_BYTES = 1000, 16 * 2**20
MAX_PATH, MAX_PARTS, MAX_NAME = 200, 8, 80
"""Most characters of a path inside the folder, parts of it, and characters of the folder's own name that are kept."""
MAX_PATTERNS = 100


class Rejected(ValueError):
    """A submission breaks a rule; `rule` names it, the message is one line."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(plain(message))
        self.rule = rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A frozen submission."""

    name: str
    """Name of its folder, for people."""
    digest: str
    """Content hash over names and bytes of all files."""
    files: tuple[tuple[str, bytes], ...]
    """(path inside the folder, bytes), sorted by path."""
    passes: tuple[str, ...]
    """Stems of the pass modules in order of application."""
    task: str
    """What `task.json` says: a title, structure key or task id; empty if there is none."""

    @property
    def sources(self) -> dict[str, bytes]:
        """Path -> bytes of the Python files."""
        return {path: blob for path, blob in self.files if path.endswith(".py")}

    def write_to(self, folder: Path) -> None:
        """Write the frozen files below a folder."""
        for path, blob in self.files:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(blob)


def freeze(folder: str | Path) -> Submission:
    """Read a submission folder once; raises Rejected if it breaks the contract, ValueError if there is no folder."""
    root = Path(folder)
    if not root.is_dir():
        raise ValueError(f"no submission folder at {root}")
    files = _read_files(root)
    if ORDER_FILE not in files:
        raise Rejected("order-file", f"{root.name}: {ORDER_FILE} is missing; list the pass modules in it, in order")
    passes = _pass_names(files)
    task = _declared_task(files)
    ordered = tuple(sorted(files.items()))
    parts = [part for path, blob in ordered for part in (path, blob)]
    name = re.sub(r"[^\w.+-]", "_", plain(root.resolve().name, MAX_NAME))
    return Submission(name=name, digest=content_id(*parts), files=ordered, passes=passes, task=task)


def parse(path: str, blob: bytes) -> ast.Module:
    """The syntax tree of one Python file; raises Rejected("syntax")."""
    try:
        return ast.parse(blob, filename=path)
    except SyntaxError as error:
        raise Rejected("syntax", f"{path}:{error.lineno}: {error.msg}") from error
    except ValueError as error:
        raise Rejected("syntax", f"{path}:1: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise Rejected("syntax", f"{path}:1: an expression is nested too deeply; split it") from error


def _read_files(root: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    size = 0
    for path in sorted(_paths(root)):
        relative = path.relative_to(root)
        if path.is_symlink():
            raise Rejected("symlink", f"{relative}: a submission holds plain files, not links")
        if not path.is_file():
            continue
        size += path.stat().st_size
        if len(found) >= MAX_FILES or size > MAX_BYTES:
            raise Rejected("size", f"more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB in {root.name}")
        try:
            found[relative.as_posix()] = path.read_bytes()
        except OSError as error:
            raise ValueError(f"cannot read {path}: {error.strerror}; change its permissions") from error
    return found


def _paths(root: Path) -> Iterator[Path]:
    """Every path below a folder that is not hidden; raises Rejected on names that no other folder might hold."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            raise ValueError(f"cannot list {folder}: {error.strerror}; change its permissions") from error
        for entry in entries:
            if entry.name.startswith(".") or entry.name == "__pycache__":
                continue
            path = folder / entry.name
            told = plain(path.relative_to(root).as_posix())
            if len(told) > MAX_PATH or told.count("/") >= MAX_PARTS:
                limit = f"at most {MAX_PATH} characters and {MAX_PARTS} parts"
                raise Rejected("file-name", f"{told[:60]}…: a path of a submission has {limit}; shorten it")
            if told != path.relative_to(root).as_posix():
                raise Rejected("file-name", f"{told}: a name has a character that is not plain text; rename it")
            yield path
            if entry.is_dir(follow_symlinks=False):
                waiting.append(path)


def _json_file(files: dict[str, bytes], name: str) -> object:
    try:
        return json.loads(files[name])
    except (ValueError, RecursionError) as error:
        raise Rejected("order-file" if name == ORDER_FILE else "task-file", f"{name}: not JSON: {error}") from error


def _pass_names(files: dict[str, bytes]) -> tuple[str, ...]:
    names = _json_file(files, ORDER_FILE)
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise Rejected("order-file", f'{ORDER_FILE}: a non-empty list of file stems is needed, such as ["fused_norm"]')
    for name in names:
        if "/" in name or f"{name}.py" not in files:
            raise Rejected("order-file", f"{ORDER_FILE}: names {name!r}, but there is no module {name}.py")
    if len(set(names)) < len(names):
        raise Rejected("order-file", f"{ORDER_FILE}: a pass is listed twice")
    return tuple(names)


def _declared_task(files: dict[str, bytes]) -> str:
    if TASK_FILE not in files:
        return ""
    raw = _json_file(files, TASK_FILE)
    if not isinstance(raw, dict) or not isinstance(raw.get("task"), str):
        raise Rejected("task-file", f'{TASK_FILE}: {{"task": "title, structure key or task id"}} is needed')
    return str(raw["task"])
