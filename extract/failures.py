"""What an exception of a foreign library means: from exception to `FailureKind`, and to a Failure row.

    failure_kind(error)                       # FailureKind.DATA_DEPENDENT
    failure_row(error, stage="graphs", ...)   # a Failure without machine paths

Is a table of (kind, exception type names, message pattern, step), tried in order, over the whole chain of causes.
`step` marks an exception with what was being done when it passed, without catching it. Reads and writes nothing;
needs no torch: exception types are compared by name.
"""

import re
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from schemas.rows import Failure, FailureKind, Text, row_key

LIBRARY_ERRORS = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, OSError, RuntimeError,
    TypeError, ValueError,
)  # fmt: skip
"""What a foreign constructor or forward is expected to raise; MemoryError and the like are the child's business."""
BUILD, FORWARD, CAPTURE, LIFT, REBUILD = "build", "forward", "capture", "lift", "rebuild"
"""Steps of tracing, as marked on a passing exception."""
DETAIL_CHARACTERS = 4000
_READ = 50_000
"""Characters of either end of a message that are looked at: a configuration may bring ten million into one."""


class GraphBreakError(RuntimeError):
    """One call of a model gave several graphs, or none."""


class RoundtripError(RuntimeError):
    """IR -> FX -> IR is not the identity, or shapes differ after rebuilding."""


class NumericError(RuntimeError):
    """The graph does not compute what its module computes."""


class NondeterministicError(RuntimeError):
    """The module does something else each time it is called, or takes numbers that no graph holds."""


class DeviceError(RuntimeError):
    """A model needs a device that graphs are not traced on; the message says what to do."""


class InputsError(ValueError):
    """No inputs can be made for a model."""


class SampleError(ValueError):
    """A published sample lacks a file, or a file of it is not in the form; the message says where and what to do."""


class SampleTargetError(SampleError):
    """The code of a sample calls or holds what no graph may."""


class SampleValueError(SampleError):
    """The code of a sample needs numbers that its files do not hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of the table; an empty field holds for everything."""

    kind: FailureKind
    types: tuple[str, ...] = ()
    message: str = ""
    steps: tuple[str, ...] = ()

    def holds(self, error: BaseException, where: str) -> bool:
        """Whether the line describes an exception that was raised in the step `where`."""
        names = {cls.__name__ for cls in type(error).__mro__}
        if self.types and names.isdisjoint(self.types):
            return False
        if self.steps and where not in self.steps:
            return False
        return not self.message or re.search(self.message, _ends(str(error))) is not None


RULES = (
    Rule(kind=FailureKind.SAMPLE_VALUES, types=("SampleValueError",)),
    Rule(kind=FailureKind.NOT_REPRESENTABLE, types=("SampleTargetError",)),
    Rule(kind=FailureKind.MALFORMED_SAMPLE, types=("SampleError",)),
    Rule(kind=FailureKind.NOT_REPRESENTABLE, types=("NotRepresentable",)),
    Rule(kind=FailureKind.ROUNDTRIP, types=("RoundtripError",)),
    Rule(kind=FailureKind.NUMERIC, types=("NumericError",)),
    Rule(kind=FailureKind.NONDETERMINISTIC, types=("NondeterministicError",)),
    Rule(
        kind=FailureKind.DATA_DEPENDENT, types=("GraphBreakError",),
        message=r"DataDependentOutput|DynamicOutputShape|(?i:data.dependent)|Tensor\.item",
    ),
    Rule(kind=FailureKind.GRAPH_BREAK, types=("GraphBreakError",)),
    Rule(kind=FailureKind.INPUT_MISMATCH, types=("InputsError",)),
    Rule(kind=FailureKind.OOM, types=("MemoryError",)),
    Rule(kind=FailureKind.OOM, message=r"(?i)can(?:no|')t allocate memory|\bbad_alloc\b"),
    Rule(kind=FailureKind.TIMEOUT, types=("TimeoutError",)),
    Rule(
        kind=FailureKind.DATA_DEPENDENT,
        types=("DataDependentOutputException", "DynamicOutputShapeException", "GuardOnDataDependentSymNode"),
    ),
    Rule(kind=FailureKind.DATA_DEPENDENT, message=r"(?i)data.dependent|_local_scalar_dense|no data allocated"),
    Rule(kind=FailureKind.BUILD_ERROR, steps=(BUILD,)),
    Rule(kind=FailureKind.RUNTIME_ERROR, types=("DeviceError",)),
    Rule(
        kind=FailureKind.INPUT_MISMATCH, steps=(FORWARD, CAPTURE),
        message=r"missing \d+ required|unexpected keyword|You (have to|must|should|cannot) specify|size of tensor|shape"
        r"|(?i:must match)|mat1 and mat2|Expected \d-?D|expected input|channels|index out of"
        r"|not enough values to unpack|too many values to unpack|invalid for input of size|'NoneType' object"
        r"|is required",
    ),
    Rule(kind=FailureKind.GRAPH_BREAK, types=("Unsupported",)),
    Rule(kind=FailureKind.RUNTIME_ERROR, types=("TorchRuntimeError",)),
    Rule(kind=FailureKind.DYNAMO_ERROR, types=("TorchDynamoException",)),
    Rule(kind=FailureKind.RUNTIME_ERROR, steps=(CAPTURE,)),
    Rule(kind=FailureKind.INPUT_MISMATCH, steps=(FORWARD,)),
    Rule(kind=FailureKind.NOT_REPRESENTABLE, steps=(LIFT,)),
    Rule(kind=FailureKind.ROUNDTRIP, steps=(REBUILD,)),
)  # fmt: skip
"""First line that holds decides; an exception that fits none is UNKNOWN."""


def _ends(text: str) -> str:
    """A text without the middle of a very long one."""
    return text if len(text) <= 2 * _READ else f"{text[:_READ]} ... {text[-_READ:]}"


@contextmanager
def step(name: str) -> Iterator[None]:
    """Mark an exception that passes with the innermost step it was raised in; nothing is caught."""
    try:
        yield
    except StopIteration:
        # A generator may not pass it on, and none of the callers expects it.
        raised = RuntimeError(f"the {'constructor' if name == BUILD else 'forward'} raised StopIteration")
        raised.__dict__["passnet_step"] = name
        raise raised from None
    except BaseException as error:
        if not hasattr(error, "passnet_step"):
            error.__dict__["passnet_step"] = name
        raise


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
        seen.append(current)
        yield current
        current = current.__cause__ or current.__context__


def failure_kind(error: BaseException) -> FailureKind:
    """The kind of an exception: the first rule that holds for it or, rule by rule, for one of its causes."""
    where = str(getattr(error, "passnet_step", ""))
    for rule in RULES:
        if any(rule.holds(item, where) for item in _chain(error)):
            return rule.kind
    return FailureKind.UNKNOWN


OWN = (DeviceError, NondeterministicError)
"""Exceptions that say of the author's code, not of how it was captured, why there is no graph."""


def told(error: Exception) -> Exception:
    """The exception in a chain of causes that says most: one of `OWN`, else the last that was raised."""
    found = next((item for item in _chain(error) if isinstance(item, OWN)), error)
    if found is not error and hasattr(error, "passnet_step"):
        found.__dict__.setdefault("passnet_step", error.passnet_step)
    return found


_NOISE = (
    (re.compile(r'File "[^"]*/(?:site-packages|lib/python\d\.\d+)/'), 'File "'),
    (re.compile(r'File "/[^"]*/((?:extract|schemas|passbench)/[^"]*)"'), r'File "\1"'),
    (re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+"), ""),
    (re.compile(r"0x[0-9a-f]{6,}"), "0x"),
    (re.compile(r"\bid=\d{6,}"), "id="),
)
"""What differs between machines or runs, and what replaces it."""


def clean(text: str) -> str:
    """A text without machine paths and memory addresses."""
    for pattern, replacement in _NOISE:
        text = pattern.sub(replacement, text)
    return text


_FAKE_CALL = re.compile(r"\bgot (\w+\(.*\))")
"""What Dynamo says an op raised on fake tensors, after a first line that is the same for all of them."""


def first_line(error: BaseException) -> str:
    """The first non-empty line of an exception's message, cleaned; its type if there is none."""
    text = _ends(str(error))
    lines = [line.strip() for line in clean(text).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    cause = _FAKE_CALL.search(text) if "fake tensor call" in lines[0] else None
    return (f"{lines[0]}: {clean(cause[1])}" if cause else sentence(lines))[:300]


def sentence(lines: Sequence[str]) -> str:
    """The first line of a message, with the lines that it announces by a colon at its end."""
    last = next((index for index, line in enumerate(lines) if not line.endswith(":")), len(lines) - 1)
    return " ".join(lines[: last + 1])


def failure_row(error: BaseException, *, stage: str, row: Any, kind: FailureKind | None = None) -> Failure:
    """A Failure row for an input row and the exception that stopped it."""
    detail = clean(_ends("".join(traceback.format_exception(error))))[-DETAIL_CHARACTERS:]
    return Failure(
        stage=stage, item=row_key(row), name=row.name, kind=kind or failure_kind(error),
        exception=type(error).__name__, message=first_line(error), detail=Text(detail),
    )  # fmt: skip
