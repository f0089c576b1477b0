"""What `passnet doctor` finds out: is everything here that a build needs, and what would it use.

    for check in examine(Path("runs")): print(check.ok, check.name, check.found, check.advice)

Reads the environment, installed distributions, free disk and /proc; uses the network only if asked for (`online`).
"""

import os
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from flows.orchestrate import configured_server
from flows.report import LIBRARIES, machine, versions

MORE = {
    "torchvision": ("zoo", "about 107 architectures"),
    "diffusers": ("zoo", "about 150 architectures"),
    "torch_geometric": ("torch_geometric", "28 architectures"),
    "torchaudio": ("torchaudio", "27 architectures"),
    "ultralytics": ("ultralytics", "about 246 architectures under AGPL-3.0"),
}
"""Distributions that a default build can do without: the extra that installs each, and what it adds."""
NEEDED = ("torch", "transformers", "timm", "pyarrow", "xxhash", "networkx", "prefect")
"""Distributions without which a default build stops."""
MIN_DISK_GIB, MIN_MEMORY_GIB = 5, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    """What."""
    ok: bool
    """Whether a default build can go on."""
    found: str
    """What was found."""
    advice: str = ""
    """What to do if it is not ok."""


def examine(out: Path, *, online: bool = False) -> list[Check]:
    """Look at Python, packages, compiler, GPU, memory, disk, the Prefect server and, if asked, the Hub."""
    checks = [_python(), *_packages(), _compiler(), _gpu(), _memory(), _disk(out), _prefect(), _namespace()]
    return [*checks, _hub()] if online else checks


def _python() -> Check:
    found = versions()["python"]
    ok = tuple(int(part) for part in found.split(".")[:2]) >= (3, 11)
    return Check(name="python", ok=ok, found=found, advice="install Python 3.11 or newer")


def _absent(name: str) -> str:
    extra, adds = MORE.get(name, ("", ""))
    return f'absent; pip install -e ".[{extra}]" adds {adds}' if extra else "absent"


def _packages() -> list[Check]:
    known = versions()
    return [
        Check(
            name=name,
            ok=name in known or name not in NEEDED,
            found=known.get(name, _absent(name)),
            advice='pip install -e ".[build,zoo]"',
        )
        for name in LIBRARIES
    ]


def _compiler() -> Check:
    path = shutil.which(os.environ.get("CXX", "g++"))
    return Check(
        name="c++ compiler",
        ok=path is not None,
        found=_first_line([path, "--version"]) if path else "absent",
        advice="install g++ (apt-get install g++): profiling compiles with Inductor",
    )


def _gpu() -> Check:
    tool = shutil.which("nvidia-smi")
    found = _first_line([tool, "-L"]) if tool else ""
    return Check(name="gpu", ok=True, found=found or "none: everything is measured on the CPU")


def _memory() -> Check:
    facts = machine()
    ok = facts["memory_gib"] >= MIN_MEMORY_GIB
    found = f"{facts['memory_gib']} GiB, {facts['cores']} cores"
    return Check(name="memory", ok=ok, found=found, advice="a default build needs up to 6 GiB: lower --workers to 1")


def _disk(out: Path) -> Check:
    there = next(folder for folder in (out, *out.resolve().parents) if folder.exists())
    free = shutil.disk_usage(there).free / 2**30
    ok = free >= MIN_DISK_GIB and os.access(there, os.W_OK)
    return Check(name="disk", ok=ok, found=f"{free:.0f} GiB free at {there}", advice="choose another folder with --out")


def _prefect() -> Check:
    server = configured_server()
    found = server or "none configured: a build starts its own, in the run directory"
    return Check(name="prefect server", ok=True, found=found)


def _namespace() -> Check:
    """The packages' plain names must mean this project."""
    root = Path(__file__).resolve().parent.parent
    strange = [name for name in ("data", "schemas") if Path(__import__(name).__file__ or "").parent.parent != root]
    return Check(
        name="import names", ok=not strange, found=", ".join(strange) + " from elsewhere" if strange else "own",
        advice="another distribution has packages of the same name: use a virtual environment of its own",
    )  # fmt: skip


def _hub() -> Check:
    try:
        socket.create_connection(("huggingface.co", 443), timeout=5).close()
    except OSError as error:
        return Check(name="hub", ok=True, found=f"unreachable ({error}); the default build does not need it")
    return Check(name="hub", ok=True, found="reachable")


def _first_line(command: list[str | None]) -> str:
    try:
        words = [word for word in command if word]
        text = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "does not answer"
    return text.strip().splitlines()[0] if text.strip() else ""
