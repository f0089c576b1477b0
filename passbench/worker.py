"""The worker side: the template's loop, and what a forked child does in its role. Trusted code, untrusted guests.

    prepare(); serve(link, hold, folder)         # in the process that `passbench.template` starts

Roles: "reference" runs the graph in eager mode, its float64 oracle and default Inductor, and never sees submitted code.
"matcher" imports the submission's passes and says what they do to a graph. "candidate" does that again from what was
said, with wrappers and kernels compiled from source, and runs it; it imports nothing of the submission. "compiler"
compiles for a GPU what a candidate interpreted. Reference and candidate make their inputs themselves from graph and
seed of the current call. A candidate never holds reference outputs, tolerances or later seeds. The broad `except` here
is the child-process seam: whatever is raised becomes an error answer.
"""

import contextlib
import ctypes
import gc
import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch._dynamo
import torch._dynamo.guards
import torch._inductor.config
import torch.hub
import torch.utils._pytree as pytree
from torch._inductor.utils import run_and_get_code

from passbench.candidate import Candidate, settled
from passbench.casting import with_scopes
from passbench.clock import Plan, time_pairs
from passbench.failure import describe_error
from passbench.folders import remove_folder
from passbench.guard import changes, snapshot
from passbench.interpreter import streamline
from passbench.matching import Matcher
from passbench.oracle import oracle_outputs
from passbench.ownership import Watch
from passbench.rounding import noisy_runs
from passbench.sandbox import LEVELS, Box, Reached, enter, limit_resources
from passbench.tripwire import Tripwire
from passbench.windows import NONE, Supply, given_inputs
from passbench.wire import Header, WireClosed, encode, receive, send
from schemas.fx import lower
from schemas.graph import Graph

MAX_CODE = 2**17
"""Most characters that are kept of the kernels Inductor generates."""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


class Reference:
    """Runs one graph without any submitted code."""

    def __init__(self, request: Header, device: str) -> None:
        self.graph = Graph.from_json(request["graph"])
        self.device = device
        self.module = lower(self.graph).to(device)
        torch._dynamo.reset()
        # All timed sides are called through Dynamo, so that each of them pays for its guards.
        timed = with_scopes(lower(self.graph)).to(device)
        self.call: Callable[..., Any] = torch.compile(timed, backend="eager", dynamic=False)

    def run(self, request: Header) -> tuple[Header, list[bytes]]:
        """Eager outputs and the inputs it changed; after them, the float64 oracle's where it exists."""
        inputs = given_inputs(self.graph, request, self.device)
        watch, before = Watch(inputs), snapshot()
        outputs = pytree.tree_leaves(self.module(*inputs))
        state = changes(before, snapshot())
        facts = watch.facts(outputs)
        changed = [inputs[position] for position in facts["changed"]]
        described, blobs = encode([*outputs, *changed])
        oracle = oracle_outputs(self.graph, given_inputs(self.graph, request, "cpu"), len(outputs))
        known, more = encode([*oracle.values, *(None for _ in changed)])
        told = {"outputs": described, "oracle": known, "split": len(blobs), "facts": facts, "mixes": oracle.mixes,
                "state": state}  # fmt: skip
        return told, [*blobs, *more]

    def noisy(self, request: Header) -> tuple[Header, list[bytes]]:
        """Outputs and changed inputs of runs whose steps round otherwise, run after run."""
        runs = noisy_runs(self.module, lambda: given_inputs(self.graph, request, self.device), request["changed"],
                          self.device)  # fmt: skip
        described, blobs = encode([value for run in runs for value in run])
        return {"outputs": described, "runs": len(runs)}, blobs

    def time_inductor(self, request: Header) -> Header:
        """Eager against default Inductor, timed here: no submitted code is in this process."""
        inputs = given_inputs(self.graph, request, self.device)
        module = with_scopes(lower(self.graph)).to(self.device)
        compiled = torch.compile(module, backend="inductor", dynamic=False)
        began = time.perf_counter()
        _, code = run_and_get_code(compiled, *inputs)
        compile_s = time.perf_counter() - began
        self.call(*inputs)
        sync = synchroniser(self.device)
        timing = time_pairs(lambda: sync(self.call(*inputs)), lambda: sync(compiled(*inputs)), Plan(**request["plan"]))
        return {
            "speedup": timing.speedup, "compile_s": compile_s, "verdict": timing.verdict.value,
            "code": "\n\n".join(code)[:MAX_CODE],
            "baseline_us": timing.baseline_samples_us, "candidate_us": timing.candidate_samples_us,
            "aa_width": timing.aa_width, "blocks": timing.blocks, "foreign": timing.foreign,
        }  # fmt: skip

    def floor(self, request: Header) -> Header:
        """Microseconds that copying the outputs takes at best, those left out that stand in an input's memory."""
        inputs = given_inputs(self.graph, request, self.device)
        outputs = [value for value in pytree.tree_leaves(self.module(*inputs)) if isinstance(value, torch.Tensor)]
        owned = {value.untyped_storage().data_ptr() for value in inputs if isinstance(value, torch.Tensor)}
        written = [value for value in outputs if value.untyped_storage().data_ptr() not in owned]
        pairs, sync, best = [(value, torch.empty_like(value)) for value in written], synchroniser(self.device), 1e9
        for _ in range(10):
            began = time.perf_counter()
            for value, place in pairs:
                place.copy_(value)
            sync(None)
            best = min(best, time.perf_counter() - began)
        return {"floor_us": best * 1e6}


def synchroniser(device: str) -> Callable[[object], None]:
    """A function that waits until the device has done what was asked of it."""
    return (lambda _: torch.cuda.synchronize()) if device == "cuda" else (lambda _: None)


class Session:
    """Answers requests of one child until it is told to finish."""

    def __init__(self, role: str, link: socket.socket, device: str, trip: Tripwire | None) -> None:
        self.role, self.link, self.device, self.trip = role, link, device, trip
        self.sides: dict[str, Reference | Candidate] = {}
        self.supply: Supply
        self.kept: list[_Kept] = []
        self.changes: list[int] = []
        self.matcher: Matcher | None = None

    def serve(self) -> None:
        """Answer until "finish" or until the orchestrator is gone."""
        while True:
            try:
                request, _ = receive(self.link)
            except WireClosed:
                return
            nonce = request["nonce"]
            try:
                with torch.no_grad():
                    answer, blobs = self.answer(request)
            except BaseException as error:  # the child-process seam
                answer, blobs = {"error": describe_error(error)}, []
            send(self.link, {**answer, "nonce": nonce}, blobs)
            if request["do"] == "finish":
                return

    def answer(self, request: Header) -> tuple[Header, list[bytes]]:
        """Do what a request asks."""
        do, on = request["do"], request.get("on", "")
        if do == "finish":
            return {"final": True}, []
        if do == "compile":
            from passbench.offline import compiled

            return compiled(request), []
        if self.role == "matcher":
            return {**self.match(request), "refused": self.refused}, []
        if do == "load":
            side = self.sides[on] = self.load(request)
            return {"captured": side.capture()} if isinstance(side, Candidate) else {"loaded": True}, []
        side = self.sides[on]
        if do == "bind":
            assert isinstance(side, Candidate)
            side.bind(request)
            return {"bound": True}, []
        if do == "run":
            if isinstance(side, Reference):
                return side.run(request)
            return {**side.run(request), "refused": self.refused}, []
        if do == "prepare":
            return self.prepare(side, request), []
        if do == "fill":
            return self.fill(request), []
        if do == "window":
            return self.window(side, request), []
        if do == "kept":
            described, blobs = encode(self.kept.pop(0).settle(self.changes))
            return {"outputs": described}, blobs
        if do == "state":
            assert isinstance(side, Candidate)
            refused = self.trip.refused[:8] if self.trip else []
            return {"state": changes(side.loaded.state, snapshot())[:8], "refused": refused}, []
        if do == "kernels":
            assert isinstance(side, Candidate)
            return {"kernels": True}, [side.kernels()]
        if do == "read":
            assert isinstance(side, Candidate)
            return side.read(request["index"])
        assert isinstance(side, Reference)
        if do == "noisy":
            return side.noisy(request)
        return side.time_inductor(request) if do == "inductor" else side.floor(request), []

    @property
    def refused(self) -> list[str]:
        """What submitted code tried and Python refused."""
        return self.trip.refused[:8] if self.trip else []

    def load(self, request: Header) -> Reference | Candidate:
        """A graph in this process; what graphs share is made with the first."""
        if self.role == "reference":
            return Reference(request, self.device)
        first = self.sides.get("")
        return Candidate(request, self.device, first.loaded if isinstance(first, Candidate) else None)

    def match(self, request: Header) -> Header:
        """Import the passes, or apply them to one graph."""
        try:
            if request["do"] == "load":
                self.matcher = Matcher(request)
                return self.matcher.account()
            assert self.matcher is not None
            return self.matcher.match(request)
        except Exception as error:
            raise settled(error) from error

    def prepare(self, side: Reference | Candidate, request: Header) -> Header:
        """Make ready for windows on inputs of a seed, and compile if nothing did before."""
        if isinstance(side, Candidate):
            side.loaded.watch(False)
        self.supply, self.kept, self.changes = Supply(side.graph, request, self.device), [], request["changes"]
        self.supply.fill(1, request["seed"])
        if not isinstance(side, Candidate) or not side.last:
            side.call(*self.supply.sets[0])
        return {"ready": True}

    def fill(self, request: Header) -> Header:
        """Give every call of the next window inputs of its own; what was kept before is copied out of their way."""
        for kept in self.kept:
            kept.settle(self.changes)
        return {"sets": self.supply.fill(request["count"], request["seed"])}

    def window(self, side: Reference | Candidate, request: Header) -> Header:
        """Call `count` times on the sets that are told between the calls; with "watched" launches are counted."""
        call, sync, sets, chunk = side.call, synchroniser(self.device), self.supply.sets, request["chunk"]
        watched = isinstance(side, Candidate) and request.get("watched", False)
        before = side.loaded.launched if isinstance(side, Candidate) else 0
        if watched and isinstance(side, Candidate):
            side.loaded.watch(True)
        held: list[_Kept] = []
        for begin in range(0, request["count"], chunk):
            told = self.link.recv(1 + 2 * chunk, socket.MSG_WAITALL)
            if told[0] != NONE:
                self.kept.append(held[told[0]])
            held = []
            for index in struct.unpack_from(f"<{min(chunk, request['count'] - begin)}H", told, 1):
                outputs = call(*sets[index])
                sync(outputs)
                held.append(_Kept(outputs, sets[index]))
        told = self.link.recv(1, socket.MSG_WAITALL)
        if told[0] != NONE:
            self.kept.append(held[told[0]])
        if isinstance(side, Candidate):
            side.loaded.watch(False)
            return {"done": True, "launches": side.loaded.launched - before}
        return {"done": True}


class _Kept:
    """Outputs of one call with its inputs, until they are read."""

    __slots__ = ("inputs", "outputs", "settled")

    def __init__(self, outputs: Any, inputs: Sequence[Any]) -> None:
        self.outputs, self.inputs, self.settled = outputs, inputs, False

    def settle(self, changes: Sequence[int]) -> list[Any]:
        """All outputs and the inputs at positions `changes`, in memory that nothing else writes."""
        if not self.settled:
            found = [*pytree.tree_leaves(self.outputs), *(self.inputs[position] for position in changes)]
            self.outputs = [value.clone() if isinstance(value, torch.Tensor) else value for value in found]
            self.inputs, self.settled = (), True
        return list(self.outputs)


# --- the template ---------------------------------------------------------------------------------------------------
def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _limit(limits: dict[str, int], device: str) -> None:
    memory = limits["memory_mib"] if device == "cpu" else None
    limit_resources(memory_mib=memory, file_mib=limits["file_mib"], cpu_s=limits["cpu_s"])


def _shut_in(request: Header, keep: Sequence[int], start: Header) -> Reached:
    """The sandbox, for a process that will run submitted code."""
    if request["role"] == "reference":
        return Reached()
    scratch = Path(request["scratch"])
    devices = [] if start["device"] == "cpu" else [*map(str, Path("/dev").glob("nvidia*"))]
    limits, off = start["limits"], request["off"]
    highest = LEVELS[0] if "D3.sandbox" in off else start["isolation"]
    native = start["device"] != "cpu" or "D3.native" in off
    box = Box(scratch=scratch, highest=highest, processes=limits["processes"], scratch_mib=limits["scratch_mib"],
              devices=devices, native=native, calls="D3.seccomp" not in off)  # fmt: skip
    return enter(box, keep)


def _become_child(request: Header, link: socket.socket, start: Header, parent: int) -> NoReturn:
    """Turn a fresh fork into a limited child, tell what isolation it reached, and serve; never returns."""
    role, scratch = request["role"], Path(request["scratch"])
    code = 1
    try:
        os.setsid()
        _prctl(_PR_SET_CHILD_SUBREAPER, 0)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        log = os.open(scratch / "stderr", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 2)
        os.close(log)
        private = {"HOME": "home", "TMPDIR": "tmp", "TRITON_CACHE_DIR": "tmp/triton",
                   "TORCHINDUCTOR_CACHE_DIR": "tmp/inductor"}  # fmt: skip
        os.environ.update({name: str(scratch / part) for name, part in private.items()})
        os.chdir(scratch)
        torch._inductor.config.cpp_cache_precompile_headers = False  # they lie in a folder shared by all processes
        _limit(start["limits"], start["device"])
        reached = _shut_in(request, [link.fileno()], start)
        send(link, {"level": reached.level, "measures": reached.measures})
        torch.set_num_threads(start["limits"]["threads"])
        trip = _tripwire(request, start) if role != "reference" else None
        Session(role, link, start["device"], trip).serve()
        code = 0
    finally:
        os._exit(code)


def _tripwire(request: Header, start: Header) -> Tripwire:
    """What Python refuses from now on; compiled kernels need programs to be started."""
    everyone = start["device"] == "cpu" and "D3.native" not in request["off"]
    return Tripwire(guests="D3.audit" not in request["off"], everyone=everyone)


def _warm_up() -> None:
    """Have Dynamo and the interpreter import what they need once, before any child is forked; touches no GPU."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        streamline()
    # Dynamo times each new guard once, for a debug log, and empties the processor's cache for it: 20 ms a compilation.
    vars(torch._dynamo.guards)["profile_guard_manager"] = lambda *_: 0.0
    # The progress bar of torch's graph interpreter would start a thread that watches it, which the guard would see.
    vars(torch.hub)["tqdm"].monitor_interval = 0
    if "PASSBENCH_COLD" not in os.environ:
        small = torch.fx.symbolic_trace(torch.nn.functional.relu)
        torch.compile(small, backend="eager", dynamic=False, fullgraph=True)(torch.ones(2))
        torch._dynamo.reset()
    gc.collect()
    gc.freeze()  # a collection in a child would otherwise touch, and so copy, every page that holds an object
    gc.enable()


def _children() -> set[int]:
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


def _reap(pid: int, known: set[int], patience_s: float = 0.5) -> Header:
    """Kill a child with its group, then every stray that became ours when its parent died."""
    done, status = os.waitpid(pid, os.WNOHANG)
    # A child that just answered "finish" is given a moment to leave by itself.
    deadline = time.monotonic() + patience_s
    while not done and time.monotonic() < deadline:
        time.sleep(0.002)
        done, status = os.waitpid(pid, os.WNOHANG)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    killed = not done
    if killed:
        _, status = os.waitpid(pid, 0)
    known.discard(pid)
    while strays := _children() - known:
        for stray in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(stray, signal.SIGKILL)
            os.waitpid(stray, 0)
    return {"status": status, "killed": killed}


def _fork(link: socket.socket, hold: int, request: Header, start: Header) -> int:
    """Fork the child that a request asks for; its process id."""
    _, (fd,), _, _ = socket.recv_fds(link, 1, 1)
    parent = os.getpid()
    pid = os.fork()
    if not pid:
        link.close()
        os.close(hold)
        _become_child(request, socket.socket(fileno=fd), start, parent)
    os.close(fd)
    return pid


def prepare() -> None:
    """Warm this process up for being forked, and make it the reaper of all its descendants."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _warm_up()


def serve(descriptor: int, hold: int, folder: Path) -> NoReturn:
    """The template's loop: fork children on request and reap them, until the orchestrator is gone; then clean up."""
    link = socket.socket(fileno=descriptor)
    known: set[int] = set()
    with contextlib.suppress(WireClosed):
        start, _ = receive(link)
        send(link, {"ready": True})
        while True:
            request, _ = receive(link)
            if request["do"] == "reap":
                send(link, _reap(request["pid"], known))
                continue
            pid = _fork(link, hold, request, start)
            known.add(pid)
            send(link, {"pid": pid})
    for pid in list(known):
        _reap(pid, known, patience_s=0.0)
    remove_folder(folder)
    os._exit(0)  # what an interpreter does at its end takes seconds and is of no use here
