"""Processes for code that is not trusted: forked from one template, limited, watched, killed whole.

    with Template(device="cpu", limits=Limits()) as template:
        child = template.fork("candidate")
        header, blobs = child.ask({"do": "run", "seed": 7}, timeout_s=60, limit=2**20)
        end = child.end()                        # always: kills what is left and says how it ended

The template is a process that has imported torch and runs no submitted code; each child is a fork of it, so a fresh
process costs milliseconds. A child has its own session, a private scratch folder as home, temporary folder, caches and
working directory, resource limits, standard input and output at the null device, standard error in a file of bounded
size, and no descriptor but its socket. At the end its process group is killed, and so is whatever escaped from the
group: the template is the reaper of all its descendants. That is the level "process"; a candidate's process is shut in
further by `passbench.sandbox`, and says which level it reached before it runs submitted code.

Any of these processes may be killed at any moment. Children end with the template; if the template ends, TemplateDied
is raised and a new one may be started; if the orchestrator ends, the template kills its children and removes their
folder; if both end, the next orchestrator sweeps it (`passbench.folders`). Several threads may fork children.

Reads nothing; writes below one temporary folder, which is removed.
"""

import contextlib
import itertools
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from passbench.folders import make_folder, remove_folder, sweep
from passbench.patience import Patience
from passbench.sandbox import LEVELS, at_least
from passbench.wire import Header, WireClosed, WireError, WireTimeout, cleaned, receive, send
from schemas.text import plain

START_S = 300.0
_KEPT = ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "CC", "CXX", "LANG", "LC_ALL")
_ERROR_TAIL = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one child may use."""

    memory_mib: int = 6144
    """Address space beyond the template's own; not limited where a GPU driver maps its own."""
    file_mib: int = 256
    """Largest file it may write."""
    cpu_s: int = 1800
    """Processor seconds."""
    threads: int = 1
    """Threads of torch."""
    processes: int = 256
    """Most processes and threads of a candidate."""
    scratch_mib: int = 1024
    """Size of a candidate's home and of its temporary folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a child ended."""

    code: int | None
    """Exit code; None if a signal ended it."""
    signal: int
    """The signal, 0 if none."""
    killed: bool
    """Whether it was still running and we ended it."""
    stderr: str
    """The end of its standard error, for people; never parsed."""


class TemplateDied(Exception):
    """The template process is gone, and all its children with it; says nothing about what they ran."""


class Child:
    """One forked worker."""

    def __init__(self, template: "Template", pid: int, told: Header, link: socket.socket, scratch: Path) -> None:
        self.template, self.pid, self.link, self.scratch = template, pid, link, scratch
        self.is_guest = not scratch.name.startswith("reference-")
        self.level: str = told["level"]
        self.measures: dict[str, str] = told["measures"]
        self.ended: End | None = None

    def ask(
        self, request: Mapping[str, Any], *, timeout_s: float, limit: int = 2**62, told: bytes = b""
    ) -> tuple[Header, list[bytearray]]:
        """Send a request and receive its answer; raises WireClosed, WireTimeout, or WireError on a wrong nonce.

        Bytes that are `told` are read by the worker while it does what is asked (`passbench.windows`).
        Whatever a candidate says comes through here, and its text is plain from here on.
        """
        nonce, deadline = secrets.token_hex(8), time.monotonic() + timeout_s
        send(self.link, {**request, "nonce": nonce}, told=told, deadline=deadline)
        header, blobs = receive(self.link, deadline=Patience(self.pid, seconds=timeout_s), limit=limit)
        if header.pop("nonce", None) != nonce:
            raise WireError("the answer is not to this request")
        return cleaned(header) if self.is_guest else header, blobs

    def end(self) -> End:
        """Kill the child's process group and everything that escaped from it; how it ended."""
        if self.ended is None:
            self.link.close()
            status, killed = self.template.reap(self.pid)
            text = _tail(self.scratch / "stderr")
            code = os.waitstatus_to_exitcode(status)
            self.ended = End(code=code if code >= 0 else None, signal=max(-code, 0), killed=killed, stderr=text)
            shutil.rmtree(self.scratch, ignore_errors=True)
        return self.ended


class Template:
    """The process that children are forked from; a context manager, usable from several threads."""

    def __init__(
        self, *, device: str, limits: Limits, isolation: str = LEVELS[-1], interpret: bool | None = None
    ) -> None:
        self.device, self.limits, self.isolation = device, limits, isolation
        self.interpret = device == "cpu" if interpret is None else interpret
        """Whether Triton interprets kernels in these processes."""
        sweep()
        self.folder, self.hold = make_folder()
        self.serial = itertools.count(1)
        self.turn = threading.Lock()

    def __enter__(self) -> "Template":
        ours, theirs = socket.socketpair()
        self.link = ours
        with theirs, open(self.folder / "template.stderr", "wb") as log:
            given = [theirs.fileno(), self.hold]
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "passbench.template", *map(str, given)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, pass_fds=given,
                env=self._environment(), cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        try:
            send(self.link, {"device": self.device, "limits": asdict(self.limits), "isolation": self.isolation})
            receive(self.link, deadline=time.monotonic() + START_S)
        except (WireClosed, WireTimeout) as error:
            tail = _tail(self.folder / "template.stderr")
            self.__exit__(None, None, None)
            raise TemplateDied(f"the worker process did not start: {tail}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.link.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()
        remove_folder(self.folder)
        if self.hold >= 0:
            os.close(self.hold)
            self.hold = -1

    def kill(self) -> None:
        """End the template at once, and its children with it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def fork(self, role: str, files: Sequence[tuple[str, bytes]] = (), off: Sequence[str] = ()) -> Child:
        """A fresh child in a role (those of `passbench.worker`), with files in `submission` of its scratch folder.

        `off` names layers that are left out (`passbench.layers`).
        """
        scratch = self.folder / f"{role}-{next(self.serial)}"
        try:
            for part in ("home", "tmp", "submission"):
                (scratch / part).mkdir(parents=True)
            for path, blob in files:
                target = scratch / "submission" / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(blob)
        except FileNotFoundError as error:  # a template that ends by itself removes the folder
            raise TemplateDied(f"the folder {self.folder} is gone") from error
        ours, theirs = socket.socketpair()
        with theirs:
            request = {"do": "fork", "role": role, "scratch": str(scratch), "off": list(off)}
            pid = int(self._ask(request, theirs.fileno())["pid"])
        try:
            told, _ = receive(ours, deadline=time.monotonic() + START_S)
        except (WireClosed, WireTimeout):
            told = {"level": LEVELS[0], "measures": {}}  # it ended; the first request finds that out
        return Child(self, pid, told, ours, scratch)

    def _ask(self, request: Header, descriptor: int | None = None) -> Header:
        """One exchange with the template; raises TemplateDied."""
        with self.turn:
            try:
                send(self.link, request)
                if descriptor is not None:
                    socket.send_fds(self.link, [b"+"], [descriptor])
                return receive(self.link, deadline=time.monotonic() + START_S)[0]
            except (WireClosed, WireTimeout, OSError) as error:
                raise TemplateDied(f"the template process ended or is stuck ({self.process.poll()})") from error

    def reachable(self, required: str) -> str:
        """The isolation level that a candidate's process reaches here; raises ValueError if that is not enough."""
        child = self.fork("candidate")
        child.end()
        if not at_least(child.level, required):
            missing = [f"{name}: {why}" for name, why in child.measures.items() if why.startswith("no")]
            why = "; ".join(missing) or "no more was tried"
            raise ValueError(f"isolation {required} is required, {child.level} is what was reached here ({why})")
        return child.level

    def reap(self, pid: int) -> tuple[int, bool]:
        """Kill a child's group and wait for it: (wait status, whether it was still running)."""
        header = self._ask({"do": "reap", "pid": pid})
        return int(header["status"]), bool(header["killed"])

    def _environment(self) -> dict[str, str]:
        root = str(Path(__file__).resolve().parent.parent)
        found = {name: os.environ[name] for name in _KEPT if name in os.environ}
        found.update({"PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0",
                      "OMP_NUM_THREADS": str(self.limits.threads), "HOME": str(self.folder),
                      "TORCHINDUCTOR_COMPILE_THREADS": "1"})  # fmt: skip
        if self.interpret:
            found["TRITON_INTERPRET"] = "1"
        elif self.device == "cpu":  # its children compile kernels and run no graph
            found["PASSBENCH_COLD"] = "1"
        return found


def _tail(path: Path) -> str:
    """The end of a text file that a child may have replaced by anything; only a plain file is read."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as log:
            log.seek(-min(_ERROR_TAIL, os.fstat(log.fileno()).st_size), os.SEEK_END)
            return plain(log.read(_ERROR_TAIL).decode("utf-8", "replace").strip())
    except OSError:
        return ""
