"""Whether a graph computes what its module computes, bit for bit.

    verdict = compare(lifted, memory, eager=make, seed=0)      # lifted: the captured module and its graph

The reference is the module itself, called eagerly (`extract.eager`): its outputs, what it wrote into inputs, buffers
and parameters, and the state it leaves torch's generator in. Compared are the person's own inputs and a second draw of
the same shapes, where there are such inputs; numbers that are unknown to a capture are drawn once. Each call of the
module has other surroundings (clocks, generators of Python and numpy), so that a graph with numbers of them is found.

| outcome                                            | what follows                                                 |
|----------------------------------------------------|--------------------------------------------------------------|
| equal on all draws                                 | EQUAL                                                        |
| equal on the first; the second reads other numbers | EQUAL if the graph is marked as specialised, and says so     |
| only the module under a compiler is equal, and the | CLOSE; the row says how far the two ways of the module are   |
| module without one differs from it by rounding     | apart                                                        |
| the module asks a clock or a generator, and other  | NondeterministicError, naming what it asks                   |
| captures of it give other graphs                   |                                                              |
| the module differs from itself                     | NondeterministicError, naming what it asks                   |
| anything else differs                              | NumericError                                                 |
| the module raises on a person's own inputs         | what it raises                                               |
| the module cannot be called here                   | the captured graph is the reference, and the row says so     |

Takes a file lock in the temporary directory while it holds much memory, so that several workers on one machine do so
in turn; else reads nothing but its arguments.
"""

import ctypes
import fcntl
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from extract.admission import GIB
from extract.draws import Draws
from extract.eager import Eager, Found, Leaf, digest_of
from extract.failures import (
    FORWARD,
    LIBRARY_ERRORS,
    NondeterministicError,
    NumericError,
    failure_kind,
    first_line,
    step,
)
from extract.patches import compiling
from schemas.fx import lower
from schemas.graph import Graph, TensorSpec
from schemas.rows import FailureKind, NumericCheck

LOCK_FROM = 1 * GIB
"""Comparisons estimated at more bytes than this run one at a time on a machine."""
ROUNDING = 256
"""Two ways of one module may be apart by this many units of rounding of the largest number of an output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What is known about the values."""

    numeric: NumericCheck
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifted:
    """A graph, and the module it was captured as."""

    module: torch.fx.GraphModule
    graph: Graph
    specialised: bool = False
    """Whether the graph holds only for numbers that were read."""
    specs: list[tuple[TensorSpec, ...]] | None = None
    """The propagated specs of every node, where the graph was rebuilt already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes that a run needs and may need."""

    needed: int
    limit: int


def compare(lifted: Lifted, memory: Memory, *, eager: Callable[[], Eager] | None = None, seed: int = 0) -> Comparison:
    """Run module and rebuilt graph on equal numbers; raises NumericError or NondeterministicError if they differ.

    `eager` makes the reference; without it, or where it cannot be called, the captured module is the reference.
    """
    if memory.needed > memory.limit:
        needed, limit = memory.needed / GIB, memory.limit / GIB
        return Comparison(
            numeric=NumericCheck.TOO_LARGE, detail=f"needs about {needed:.1f} GiB, the limit is {limit:.1f}"
        )
    with _one_at_a_time() if memory.needed > LOCK_FROM else nullcontext(), _memory_returned():
        why = ""
        if eager is not None:
            try:
                return _with_module(lifted, eager)
            except _NotCalled as error:
                why = f"compared with the captured graph, not with the module: {error}"
        found = _with_captured(lifted, seed)
    return found if found.detail or not why else Comparison(numeric=found.numeric, detail=why)


# --- the module as the reference ------------------------------------------------------------------------------------
class _NotCalled(Exception):
    """The module cannot be called here; the message says why."""


def _with_module(lifted: Lifted, make: Callable[[], Eager]) -> Comparison:
    """Compare with the module itself; raises _NotCalled where that is not possible."""
    with _called():
        eager = make()
    with step(FORWARD) if eager.is_given else _called():
        first = eager.run()
    found = _judged(eager, lifted, first)
    if not found.as_module:
        raise _error(eager, first, found.text)
    if eager.asked:
        _check_captures(eager)
    if eager.varies:
        return _second(lifted, eager, first, found)
    if eager.keeps:
        _check_repeats(eager, first)
    return found.comparison()


def _check_captures(eager: Eager) -> None:
    """Raise NondeterministicError if the graphs of two captures in other surroundings differ.

    A number of a clock or a generator may stand in a graph and not show in its results, which saturate or round it.
    """
    one, other = ([graph.to_json() for graph in eager.source.recapture(number)] for number in range(2))
    if one != other:
        raise _unsteady(eager.sources())


def _second(lifted: Lifted, eager: Eager, first: Found, before: "_Judged") -> Comparison:
    """Compare on other numbers of the same shapes."""
    eager.restore(draw=1)
    try:
        with _called():
            second = eager.run()
    except _NotCalled as error:
        return before.comparison(f"on the given inputs; on others the module stops: {error}")
    found = _judged(eager, lifted, second)
    if found.as_module:
        return (found if found.text else before).comparison()
    eager.restore(draw=0)
    if not lifted.specialised:
        raise _error(eager, first, f"on a second draw of the inputs, {found.text}")
    _check_repeats(eager, first)
    return before.comparison("on the given inputs; on others the numbers that it read differ")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """What a comparison on one draw found."""

    as_module: bool
    """Whether the graph does what the module does."""
    text: str
    """How they differ; empty if they do not at all."""

    def comparison(self, detail: str = "") -> Comparison:
        """What a row says of a graph that does what its module does."""
        numeric = NumericCheck.CLOSE if self.text else NumericCheck.EQUAL
        return Comparison(numeric=numeric, detail="; ".join(filter(None, (self.text, detail))))


def _judged(eager: Eager, lifted: Lifted, expected: Found) -> _Judged:
    """Compare with what the module did, then with what it does where it is told that a compiler runs it."""
    difference = _difference(eager, lifted, expected)
    if not difference:
        return _Judged(as_module=True, text="")
    try:
        with _called(), compiling():
            compiled = eager.run()
    except _NotCalled:
        return _Judged(as_module=False, text=difference)
    apart = units_apart(expected.leaves, compiled.leaves)
    if not apart <= ROUNDING or _effects_differ(expected, compiled) or _difference(eager, lifted, compiled):
        return _Judged(as_module=False, text=difference)
    text = f"as the module computes under a compiler; without one its results are up to {apart:.3g} roundings apart"
    return _Judged(as_module=True, text=text)


def units_apart(left: Sequence[Leaf], right: Sequence[Leaf]) -> float:
    """How far two results of a module are apart, in units of rounding of the largest number of each output.

    The unit is `torch.finfo(dtype).eps` times the largest finite absolute value; infinite where forms, whole numbers or
    the places of what is not finite differ.
    """
    if len(left) != len(right):
        return math.inf
    return max((_units(one.value, other.value) for one, other in zip(left, right, strict=True)), default=0.0)


def _units(left: torch.Tensor, right: torch.Tensor) -> float:
    if not first_unequal([left], [right]):
        return 0.0
    if left.dtype != right.dtype or left.shape != right.shape or not left.is_floating_point():
        return math.inf
    finite = left.isfinite()
    if first_unequal([left.masked_fill(finite, 0)], [right.masked_fill(finite, 0)]):
        return math.inf
    wide, other = left[finite].double(), right[finite].double()
    unit = torch.finfo(left.dtype).eps * wide.abs().max()
    return float((wide - other).abs().max() / unit)


@contextmanager
def _called() -> Iterator[None]:
    """Tell what a module raises as `_NotCalled`, but a lack of memory."""
    try:
        yield
    except LIBRARY_ERRORS as error:
        if failure_kind(error) is FailureKind.OOM:
            raise
        raise _NotCalled(f"{type(error).__name__}: {first_line(error)}") from error


def _difference(eager: Eager, lifted: Lifted, expected: Found) -> str:
    """How the graph differs from what the module did on the same numbers; empty if it does not."""
    eager.restore()
    try:
        actual = eager.run(lower(lifted.graph))
    except LIBRARY_ERRORS as error:
        if failure_kind(error) is FailureKind.OOM:
            raise
        return f"the module runs and its graph does not: {type(error).__name__}: {first_line(error)}"
    eager.restore()
    wanted, found = expected.leaves, [leaf.value for leaf in actual.leaves]
    difference, rest = unmatched(wanted, found)
    if not difference and rest:
        captured = [leaf.value for leaf in eager.run(lifted.module).leaves]
        eager.restore()
        difference = first_unequal(captured, found)
    return difference or _effects_differ(expected, actual)


def unmatched(wanted: Sequence[Leaf], found: Sequence[torch.Tensor]) -> tuple[str, int]:
    """(the first output of the module that the graph does not give, number of outputs that only the graph gives).

    A graph may leave out what the module was given and what stands in the result twice, give values that the module
    keeps, and order its outputs in its own way.
    """
    every = [leaf.value for leaf in wanted]
    if not first_unequal(every, found):
        return "", 0
    left = list(found)
    for number, leaf in enumerate(wanted):
        place = next((k for k, value in enumerate(left) if not first_unequal([leaf.value], [value])), None)
        if place is not None:
            del left[place]
        elif leaf.is_own:
            same = len(every) == len(found)
            text = first_unequal(every, found) if same else f"output {number}: {_shown(leaf.value)} is not among"
            return (text if same else f"{text} the {len(found)} of the graph"), len(left)
    return "", len(left)


def _effects_differ(expected: Found, actual: Found) -> str:
    """How what two calls wrote differs; empty if it does not."""
    for name in sorted({*expected.written, *actual.written}):
        left, right = expected.written.get(name), actual.written.get(name)
        if left is None or right is None:
            return f"{name or 'a tensor'} is written by the {'graph' if left is None else 'module'} alone"
        if first_unequal([left], [right]):
            return f"{name or 'a tensor'} holds other numbers after the call"
    if not torch.equal(expected.generator, actual.generator):
        return "torch's generator is left in another state"
    return ""


def _repeats(first: Found, again: Found) -> bool:
    left, right = ([leaf.value for leaf in found.leaves] for found in (first, again))
    return not first_unequal(left, right) and not _effects_differ(first, again)


def _check_repeats(eager: Eager, first: Found) -> None:
    """Raise NondeterministicError unless the module does the same on the same numbers, which stand as they were.

    A module that asked a clock is called twice: remainders of two clocks may be equal, not of three.
    """
    for _ in range(2 if eager.keeps else 1):
        try:
            with _called():
                again = eager.run()
        except _NotCalled as error:
            raise NondeterministicError(f"called a second time, the forward stops: {error}") from error
        eager.restore()
        if not _repeats(first, again):
            raise _unsteady(eager.sources())


def _error(eager: Eager, first: Found, difference: str) -> Exception:
    """What to raise for a difference: what a module does that differs from itself is no graph's fault."""
    _check_repeats(eager, first)
    sources = eager.sources()
    return _unsteady(sources) if sources else NumericError(difference)


def _unsteady(sources: Sequence[str]) -> NondeterministicError:
    if sources:
        return NondeterministicError(f"the forward calls {', '.join(sources[:4])}, which no graph holds")
    return NondeterministicError("called again on equal inputs, the forward does something else: it keeps a state")


# --- the captured graph as the reference ----------------------------------------------------------------------------
def _with_captured(lifted: Lifted, seed: int) -> Comparison:
    draws = Draws(lifted.graph, seed)
    inputs = draws.all()
    before = _digests(inputs)
    try:
        expected = _run(lifted.module, inputs, seed)
    except LIBRARY_ERRORS as error:
        if failure_kind(error) is FailureKind.OOM:
            raise
        return Comparison(numeric=NumericCheck.NOT_RUNNABLE, detail=f"{type(error).__name__}: {first_line(error)}")
    for index, digest in enumerate(_digests(inputs)):
        if digest != before[index]:
            expected.append(inputs[index])
            inputs[index] = draws.one(index)
    actual = _run(lower(lifted.graph), inputs, seed)
    actual += [inputs[index] for index, digest in enumerate(_digests(inputs)) if digest != before[index]]
    difference = first_unequal(expected, actual)
    if difference:
        raise NumericError(difference)
    return Comparison(numeric=NumericCheck.EQUAL)


def _digests(inputs: Sequence[Any]) -> list[int]:
    return [digest_of(value) if isinstance(value, torch.Tensor) else 0 for value in inputs]


def _run(gm: torch.fx.GraphModule, inputs: Sequence[Any], seed: int) -> list[Any]:
    """The leaves of a module's outputs, copied so that no input is kept alive."""
    torch.manual_seed(seed)
    with torch.no_grad():
        outputs = gm(*inputs)
    return [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in pytree.tree_leaves(outputs)]


# --- equality -------------------------------------------------------------------------------------------------------
def first_unequal(expected: Sequence[Any], actual: Sequence[Any]) -> str:
    """A sentence about the first output that is not equal bit for bit (nan equals nan); empty if all are."""
    if len(expected) != len(actual):
        return f"{len(expected)} outputs became {len(actual)}"
    for index, (left, right) in enumerate(zip(expected, actual, strict=True)):
        if isinstance(left, torch.Tensor) != isinstance(right, torch.Tensor):
            return f"output {index}: {type(left).__name__} became {type(right).__name__}"
        if not isinstance(left, torch.Tensor):
            if left != right:
                return f"output {index}: {left!r} became {right!r}"
        elif left.dtype != right.dtype or left.shape != right.shape or not torch.equal(_bits(left), _bits(right)):
            return f"output {index}: {_shown(left)} differs from {_shown(right)}"
    return ""


def _shown(value: torch.Tensor) -> str:
    return f"{value.dtype}{list(value.shape)}"


def _bits(value: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor's values, with every nan the same nan."""
    value = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
    if value.is_floating_point():
        value = value.masked_fill(value.isnan(), float("nan"))
    return value.resolve_neg().contiguous().reshape(-1).view(torch.uint8)


# --- memory ---------------------------------------------------------------------------------------------------------
@contextmanager
def _memory_returned() -> Iterator[None]:
    """Give freed memory back to the system where the C library can: it keeps hundreds of megabytes otherwise."""
    try:
        yield
    finally:
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Hold the machine-wide lock of large comparisons."""
    with (Path(tempfile.gettempdir()) / f"passnet-numeric-{os.getuid()}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
