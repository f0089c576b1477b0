"""A pool of child processes (`data.child`): rows out of code that may raise, hang, swallow memory or die.

    with ChildPool(workers=2, work=run.path / ".work") as pool, pool.borrow() as child:
        tables = child.run_item(call, row, Item(key="bert/BertModel", name="bert/BertModel"))

Reads /proc; writes the children's captured output under `work`. Every item gives tables: its rows, or one Failure row
(TIMEOUT, OOM, CRASH or what the stage raised). Children are reused, and replaced after a number of items, above a
size, after a kill, or where an item left something behind; where a stage's module has a `warm_up`, they are forked
from one child that has run it (`data.template`). They never outlive this process: the kernel kills them even if it is
killed itself, and `data.warden` ends whatever else had been started below it.
Raises StageFailed where a stage cannot run at all, ValueError where the stage says that its input is wrong.
"""

import contextlib
import os
import queue
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from data.calls import Call, Item, Limits, StageFailed, failure_of_death
from data.child import ROOT, portable, receive_answer, send, stream_of, tables_of
from data.environment import environment_of_children
from data.processes import Seen, descendants, family, kill_below, processes, resident, total
from data.template import Forked, Template
from schemas.arrow import to_table
from schemas.rows import Failure, FailureKind

GIB = 1 << 30
LOG_LIMIT = 4 << 20
"""Bytes of captured output that a child may have before it is cut."""
Answer = tuple[dict[str, Any], list[bytes]]
"""Header and blobs of a message."""
_DYING_S = 10.0
"""How long a child that closed its connection may take to be dead, so that its exit status is its own."""


@dataclass(slots=True)
class _Process:
    """One living child."""

    popen: subprocess.Popen[bytes] | Forked
    link: socket.socket
    log: BinaryIO
    loaded: set[str]
    items: int = 0
    deadline: float | None = None
    memory_limit: float = float("inf")
    verdict: FailureKind | None = None
    """Why it was killed, if it was."""
    postponed: bool = False
    """Whether it was killed to make room; its item is asked for again."""
    log_start: int = 0
    tail: str = ""
    """End of what it printed, once it is buried."""
    template: Template | None = None
    """How to fork it, if that is what it is there for."""

    def log_tail(self) -> str:
        """What the child printed since its current item began, cut and made portable."""
        size = os.fstat(self.log.fileno()).st_size
        start = max(self.log_start if self.log_start <= size else 0, size - 16_384)
        return portable(os.pread(self.log.fileno(), size - start, start).decode("utf-8", "replace"))


class _Postponed(Exception):
    """The child had to make room; ask again later."""


class Child:
    """A borrowed place in the pool; its process is started when needed and replaced when it died."""

    def __init__(self, pool: "ChildPool") -> None:
        self._pool = pool
        self.process: _Process | None = None

    def run_item(self, call: Call, row: pa.Table, item: Item) -> dict[str, pa.Table]:
        """Tables by row type for one input row; exactly one Failure row where the item failed in any way."""
        row_type = row.schema.metadata[b"row_type"].decode()
        request = call.request("item") | {"row_type": row_type, "key": item.key, "name": item.name}
        answer = self._patiently(call, request, [stream_of([row])])
        if answer is None:
            return {"Failure": to_table([self._death(call, item)], Failure)}
        header, blobs = answer
        if "error" in header:
            raise StageFailed(f"stage {call.stage}: {header['error']['message']}", header["error"]["detail"])
        self._retire(call.limits, is_spent=header["spent"])
        return tables_of(header, blobs)

    def run_table(self, call: Call, reads: Mapping[str, Sequence[Path]]) -> dict[str, pa.Table]:
        """Tables by row type of a stage that reads whole tables; reads: table -> its parts."""
        paths = {name: [str(path.resolve()) for path in parts] for name, parts in reads.items()}
        header, blobs = self._expect(call, self._patiently(call, call.request("table") | {"reads": paths}))
        self._retire(call.limits, is_spent=header["spent"])
        return tables_of(header, blobs)

    def settle(self, call: Call) -> dict[str, Any]:
        """The whole configuration of a call, defaults filled in; raises ValueError on an unknown setting."""
        config: dict[str, Any] = self._expect(call, self._patiently(call, call.request("settle")))[0]["config"]
        return config

    def run_path(self, call: Call, path: Path) -> dict[str, str]:
        """Call a function on one path; returns the fields of the dataclass it returns, as texts."""
        header, _ = self._expect(call, self._patiently(call, call.request("path") | {"path": str(path.resolve())}))
        value: dict[str, str] = header["value"]
        return value

    def close(self) -> None:
        """End the process, if there is one."""
        if self.process is not None:
            self._bury(self.process)

    def _patiently(self, call: Call, request: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> Answer | None:
        """Ask a child, again if it had to make room for others; None where it died of the request."""
        while True:
            self._pool.refuse_if_aborted()
            try:
                process = self._ready(call, request)
                return self._ask(process, request, blobs, call.limits)
            except _Postponed:
                self._pool.wait_turn()

    def _ready(self, call: Call, request: Mapping[str, Any]) -> _Process:
        """A living process that has imported the call's function."""
        old = self.process
        if old is not None and (old.verdict or old.postponed or old.popen.poll() is not None):
            self._bury(old)
        if request["do"] == "settle":
            self.process = self.process or self._pool.spawn()
            return self.process
        if self.process is None or call.function not in self.process.loaded:
            with self._pool.loading(call.function):
                self._load(call)
        assert self.process is not None
        return self.process

    def _load(self, call: Call) -> None:
        """Have a process that imported the call's function: this one, or one forked from the function's template."""
        template = self._pool.templates.get(call.function)
        if template is not None and self._take_fork(call, template):
            return
        process = self.process = self.process or self._pool.spawn()
        warms = self._expect(call, self._ask(process, call.request("load"), [], call.limits))[0].get("warms")
        process.loaded.add(call.function)
        template = self._warm(call) if warms else None
        if template is not None and not self._take_fork(call, template):
            raise StageFailed(f"stage {call.stage}: the process that forks its workers died at once")

    def _take_fork(self, call: Call, template: "_Process") -> bool:
        """Go on with a process forked from a template; forget the template if it is gone."""
        self.close()
        try:
            self.process = self._pool.fork(template)
        except ConnectionError:
            self._pool.refuse_if_aborted()
            self._pool.end(self._pool.templates.pop(call.function), 0.0)
            return False
        return True

    def _warm(self, call: Call) -> "_Process | None":
        """Make the template of a function out of a fresh process; None if it cannot be forked."""
        process = self.process
        if process is None or process.items or len(process.loaded) > 1:
            self.close()
            process = self.process = self._pool.spawn()
            self._expect(call, self._ask(process, call.request("load"), [], call.limits))
        header, _ = self._expect(call, self._ask(process, call.request("warm"), [], call.limits))
        process.loaded.add(call.function)
        if not header["forks"]:
            return None
        process.template = Template(process.link, process.popen.pid)
        self._pool.templates[call.function] = process
        self.process = None
        return process

    def _ask(
        self, process: _Process, request: Mapping[str, Any], blobs: Sequence[bytes], limits: Limits
    ) -> Answer | None:
        process.log_start = os.fstat(process.log.fileno()).st_size
        process.memory_limit = limits.memory_gib * GIB
        seconds = limits.start_s if request["do"] in ("load", "settle", "warm") else limits.timeout_s
        process.deadline = time.monotonic() + seconds
        try:
            send(process.link, request, blobs)
            answer = receive_answer(process.link)
        except (BrokenPipeError, ConnectionError):
            answer = None
        finally:
            process.deadline = None
            self._pool.finished += 1
        if answer is None and process.postponed:
            raise _Postponed
        return answer

    def _death(self, call: Call, item: Item) -> Failure:
        """Bury the process that died of an item and tell why it did."""
        assert self.process is not None
        dead = self._bury(self.process, _DYING_S)
        self._pool.refuse_if_aborted()
        return failure_of_death(call, item, dead.verdict or FailureKind.CRASH, (dead.popen.wait(), dead.tail))

    def _expect(self, call: Call, answer: Answer | None) -> Answer:
        """An answer that is no error and no death."""
        if answer is None:
            dead = self._death(call, Item(key="", name=""))
            raise StageFailed(f"stage {call.stage} stopped: {dead.message}", dead.detail)
        if "error" not in answer[0]:
            return answer
        error = answer[0]["error"]
        if error["user"]:
            raise ValueError(error["message"])
        raise StageFailed(f"stage {call.stage} raised {error['type']}: {error['message']}", error["detail"])

    def _retire(self, limits: Limits, *, is_spent: bool) -> None:
        """Replace the process after its share of items, if it has grown, or if an item left something behind."""
        process = self.process
        assert process is not None
        process.items += 1
        if is_spent or process.items >= limits.recycle_items or resident(process.popen.pid) > limits.recycle_gib * GIB:
            self._bury(process)

    def _bury(self, process: _Process, patience_s: float = 0.2) -> _Process:
        """End a process for good and forget it; returns it with its exit status and last words known."""
        self._pool.end(process, patience_s)
        self.process = None
        return process


class ChildPool:
    """A fixed number of children, shared by threads; one supervising thread starts, watches and kills them."""

    def __init__(
        self,
        *,
        workers: int,
        work: Path,
        env: Mapping[str, str] | None = None,
        memory_gib: float = float("inf"),
        poll_s: float = 0.1,
    ) -> None:
        """workers: children at once; work: folder for captured output; env: additions to the children's environment.

        memory_gib: what this process and everything below it may hold together; above it children make room.
        `child_peaks` grows by the most bytes that a forked child ever had resident, as the kernel counts, when it ends.
        """
        self._budget, self.finished = memory_gib * GIB, 0
        self._work = work
        self._env = environment_of_children(env or {})
        self._poll_s = poll_s
        self._idle: queue.LifoQueue[Child] = queue.LifoQueue()
        self._children = [Child(self) for _ in range(workers)]
        for child in reversed(self._children):
            self._idle.put(child)
        self._alive: list[_Process] = []
        self._lock = threading.Lock()
        self._wanted: queue.SimpleQueue[queue.SimpleQueue[_Process | BaseException]] = queue.SimpleQueue()
        self._wake, self._stop = threading.Event(), threading.Event()
        self._aborted, self._told = False, ""
        self.templates: dict[str, _Process] = {}
        self._loading: dict[str, threading.Lock] = {}
        self.peak_bytes, self.child_peaks = 0, list[int]()
        self._thread = threading.Thread(target=self._supervise, name="child-supervisor", daemon=True)

    def __enter__(self) -> "ChildPool":
        self._work.mkdir(parents=True, exist_ok=True)
        warden = [sys.executable, "-I", "-S", str(ROOT / "data" / "warden.py")]
        self._warden = subprocess.Popen(warden, stdin=subprocess.PIPE, start_new_session=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children:
            child.close()
        for process in self.templates.values():
            self.end(process, 0.2)
        self._stop.set()
        self._wake.set()
        self._thread.join()
        self._tell_warden("")
        self._warden.communicate()
        shutil.rmtree(self._work, ignore_errors=True)

    @contextlib.contextmanager
    def borrow(self) -> Iterator[Child]:
        """Take a child out of the pool, waiting for one if need be."""
        child = self._idle.get()
        try:
            yield child
        finally:
            self._idle.put(child)

    def abort(self) -> None:
        """Kill every child; whoever waits for one gets StageFailed, never a Failure row."""
        self._aborted = True
        table = processes()
        with self._lock:
            for process in self._alive:
                _kill(process, table)

    def wait_turn(self) -> None:
        """Wait until some other child is done with its request."""
        since = self.finished
        while self.finished == since and any(process.deadline is not None for process in list(self._alive)):
            self.refuse_if_aborted()
            time.sleep(self._poll_s)

    def refuse_if_aborted(self) -> None:
        """Raise StageFailed if `abort` was called; without the supervising thread no death of a child means a thing."""
        if self._aborted:
            raise StageFailed("the build was interrupted")
        assert self._thread.is_alive(), "the thread that starts and watches children has ended"

    def spawn(self) -> _Process:
        """A new child, started by the supervising thread: a child dies with the thread that started it."""
        self.refuse_if_aborted()
        reply: queue.SimpleQueue[_Process | BaseException] = queue.SimpleQueue()
        self._wanted.put(reply)
        self._wake.set()
        while reply.empty():
            self.refuse_if_aborted()
            time.sleep(0.005)
        found = reply.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def loading(self, function: str) -> threading.Lock:
        """The lock under which a function is loaded: what one child has warmed up, the next ones take over."""
        with self._lock:
            return self._loading.setdefault(function, threading.Lock())

    def fork(self, parent: _Process) -> _Process:
        """A new child out of a template; raises ConnectionError if the template is gone."""
        assert parent.template is not None
        ours, theirs, log = self._channel()
        with theirs:
            popen = parent.template.fork(theirs.fileno(), log.fileno())
        return self._enlist(_Process(popen=popen, link=ours, log=log, loaded=set(parent.loaded)))

    def end(self, process: _Process, patience_s: float) -> None:
        """Let a child end by itself for a moment, then kill it and its descendants and release what it held."""
        with self._lock:
            if process in self._alive:
                self._alive.remove(process)
        with contextlib.suppress(OSError):
            process.link.shutdown(socket.SHUT_RDWR)
        if process.verdict is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.popen.wait(patience_s)
        _kill(process, processes())
        process.popen.wait()
        self.child_peaks += [process.popen.peak_bytes] if isinstance(process.popen, Forked) else []
        process.link.close()
        process.tail = process.log_tail()
        process.log.close()

    # --- the supervising thread -------------------------------------------------------------------------------------
    def _supervise(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(self._poll_s)
            self._wake.clear()
            while not self._wanted.empty():
                reply = self._wanted.get()
                try:
                    reply.put(self._start())
                except OSError as error:
                    reply.put(error)
            self._watch()

    def _start(self) -> _Process:
        ours, theirs, log = self._channel()
        with theirs:
            popen = subprocess.Popen(
                [sys.executable, "-P", "-m", "data.child", str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._work, env=self._env,
                pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip
        return self._enlist(_Process(popen=popen, link=ours, log=log, loaded=set()))

    def _channel(self) -> tuple[socket.socket, socket.socket, BinaryIO]:
        """Both ends of a new child's connection, and its log."""
        ours, theirs = socket.socketpair()
        return ours, theirs, self._work.joinpath(f"child-{time.monotonic_ns()}.log").open("ab+")

    def _enlist(self, process: _Process) -> _Process:
        with self._lock:
            self._alive.append(process)
        return process

    def _watch(self) -> None:
        """Measure everything once and kill what is over a limit or half dead."""
        table = processes()
        below = descendants(os.getpid(), table)
        used = total(table, {os.getpid()} | below)
        self.peak_bytes = max(self.peak_bytes, used)
        self._tell_warden(" ".join(f"{pid} {table[pid].born}" for pid in sorted(below - {self._warden.pid})))
        with self._lock:
            alive = list(self._alive)
        for process in alive:
            verdict = self._judge(process, table)
            if verdict is not None and process.verdict is None:
                process.verdict = verdict
                _kill(process, table)
                with contextlib.suppress(OSError):
                    process.link.shutdown(socket.SHUT_RDWR)
        if used > self._budget:
            self._make_room(alive, table)
        for process in alive:
            with contextlib.suppress(OSError, ValueError):
                if os.fstat(process.log.fileno()).st_size > LOG_LIMIT:
                    os.ftruncate(process.log.fileno(), 0)

    def _make_room(self, alive: Sequence[_Process], table: Mapping[int, Seen]) -> None:
        """Over the budget: end the idle children, else the smallest of several busy ones, which is asked again."""
        living = [p for p in alive if p.verdict is None and not p.postponed and p.template is None]
        idle = [process for process in living if process.deadline is None]
        busy = sorted(living, key=lambda process: total(table, family(process.popen.pid, table)))
        for process in idle or busy[: len(busy) > 1]:
            process.postponed = True
            _kill(process, table)
            with contextlib.suppress(OSError):
                process.link.shutdown(socket.SHUT_RDWR)

    def _tell_warden(self, line: str) -> None:
        """Tell the warden which processes must not outlive this one, if they changed."""
        if line != self._told and self._warden.stdin is not None:
            self._told = line
            with contextlib.suppress(BrokenPipeError):
                self._warden.stdin.write(line.encode() + b"\n")
                self._warden.stdin.flush()

    def _judge(self, process: _Process, table: Mapping[int, Seen]) -> FailureKind | None:
        deadline = process.deadline
        if deadline is None:
            return None
        if process.popen.poll() is not None:
            return FailureKind.CRASH
        if time.monotonic() > deadline:
            return FailureKind.TIMEOUT
        used = total(table, family(process.popen.pid, table))
        return FailureKind.OOM if used > process.memory_limit else None


def _kill(process: _Process, table: Mapping[int, Seen]) -> None:
    process.popen.kill()
    kill_below(process.popen.pid, table)
