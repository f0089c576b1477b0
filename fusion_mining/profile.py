"""Stage `profiles`: one picked piece -> eager against Inductor, in interleaved pairs, correctness first.

Reads a Pick row; writes an Environment row and a Profile row, or a Failure. Runs the piece, so it belongs into a child
process with limits. Run: `passnet run profiles`, or `list(profile(row, ProfileConfig()))`.

Values are made by `passbench.inputs`, compared by `passbench.check`, timed by `passbench.clock`. A compiled piece whose
values are wrong is never timed. Recompilations during timing are counted and invalidate the profile.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo
import torch._inductor.config

from passbench.check import compare
from passbench.clock import PairTiming, Plan, environment, time_pairs
from passbench.inputs import materialize
from schemas.fx import lower
from schemas.rows import Environment, Failure, FailureKind, Pick, Profile, ProfileStatus, Text, TimingVerdict

Outputs = Sequence[Any]
RAISED_BY_OPS = (
    RuntimeError, TypeError, ValueError, IndexError, AttributeError, NotImplementedError, AssertionError,
)  # fmt: skip
"""What ops raise on inputs they do not take, and the compiler on graphs it does not take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileConfig:
    """How a piece is measured."""

    device: str = "cpu"
    """Device kind: cpu or cuda."""
    threads: int = 1
    """Threads that torch may use; one gives the steadiest times on shared machines."""
    pairs: int = 25
    """Most pairs of measurements."""
    inner_us: float = 2000.0
    """Least length of a window, microseconds."""
    max_seconds: float = 1.5
    """Time after which no further pair is started."""
    seed: int = 0
    """Seed of the input values."""

    def plan(self) -> Plan:
        """The clock's plan."""
        return Plan(pairs=self.pairs, inner_us=self.inner_us, max_seconds=self.max_seconds, seed=self.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compiled:
    """A compiled piece, ready to be called."""

    call: Callable[[], Outputs]
    outputs: Outputs
    seconds: float


def profile(row: Pick, config: ProfileConfig) -> Iterator[Environment | Profile | Failure]:
    """Measure one piece; a piece that does not run or compile gives a Failure."""
    with _quiet_machine(config.threads), torch.no_grad():
        inputs = materialize(row.graph, seed=config.seed, device=config.device)
        try:
            eager = lower(row.graph)
            expected: Outputs = eager(*inputs)
        except RAISED_BY_OPS as error:
            yield _failure(row, FailureKind.RUNTIME_ERROR, error)
            return
        compiled = _compile(row, inputs)
        if isinstance(compiled, Failure):
            yield compiled
            return
        place = environment(config.device)
        yield place
        found = compare(_dense(expected), _dense(compiled.outputs))
        if not found.passed:
            yield _wrong(row, config, place, compiled)
            return
        compiled.call()
        before = _compilations()
        timing = time_pairs(lambda: eager(*inputs), compiled.call, config.plan())
        yield _measured(row, config, place, compiled, timing, _compilations() - before)


@contextmanager
def _quiet_machine(threads: int) -> Iterator[None]:
    """Fixed thread count, no compile workers, no compiled code left from other pieces."""
    known = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    try:
        with torch._inductor.config.patch(compile_threads=1):
            yield
    finally:
        torch.set_num_threads(known)
        torch._dynamo.reset()


def _compilations() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def _compile(row: Pick, inputs: Sequence[Any]) -> _Compiled | Failure:
    """Compile with Inductor and call once; what the compiler raises is a result of the measurement."""
    function = torch.compile(lower(row.graph), backend="inductor", dynamic=False, fullgraph=True)
    started = time.perf_counter()
    try:
        outputs: Outputs = function(*inputs)
    except RAISED_BY_OPS as error:
        return _failure(row, FailureKind.COMPILE_ERROR, error)
    return _Compiled(call=lambda: function(*inputs), outputs=outputs, seconds=time.perf_counter() - started)


def _dense(outputs: Outputs) -> list[Any]:
    """Outputs in row-major order: the layout of what it returns is the compiler's choice, the values are not."""
    return [value.contiguous() if isinstance(value, torch.Tensor) else value for value in outputs]


def _failure(row: Pick, kind: FailureKind, error: Exception) -> Failure:
    lines = str(error).splitlines() or [repr(error)]
    return Failure(
        stage="profiles", item=row.subgraph, name=row.pattern, kind=kind, exception=type(error).__name__,
        message=lines[0], detail=Text(""),
    )  # fmt: skip


def _wrong(row: Pick, config: ProfileConfig, place: Environment, compiled: _Compiled) -> Profile:
    return Profile(
        subgraph=row.subgraph, environment=place.environment, settings=config.plan().settings(),
        status=ProfileStatus.WRONG_VALUE, verdict=TimingVerdict.AMBIGUOUS, eager_us=0.0, inductor_us=0.0, speedup=0.0,
        ci_low=0.0, ci_high=0.0, pairs=0, recompiles=0, compile_s=compiled.seconds, eager_samples_us=(),
        inductor_samples_us=(),
    )  # fmt: skip


def _measured(
    row: Pick, config: ProfileConfig, place: Environment, compiled: _Compiled, timing: PairTiming, recompiles: int
) -> Profile:
    return Profile(
        subgraph=row.subgraph, environment=place.environment, settings=config.plan().settings(),
        status=ProfileStatus.MEASURED, verdict=timing.verdict if not recompiles else TimingVerdict.AMBIGUOUS,
        eager_us=timing.baseline_us, inductor_us=timing.candidate_us, speedup=timing.speedup, ci_low=timing.ci_low,
        ci_high=timing.ci_high, pairs=timing.pairs, recompiles=recompiles, compile_s=compiled.seconds,
        eager_samples_us=timing.baseline_samples_us, inductor_samples_us=timing.candidate_samples_us,
    )  # fmt: skip
