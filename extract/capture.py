"""Capture one call of a model with Dynamo: all graphs it gives, and why it broke if it did.

    pieces, reasons = capture(built, wanted)

Nothing is computed on the fake rung, except from inputs and buffers that are read: where an input is given number by
number, or where a first call needs the values of one, small whole numbers and truth values are known to the capture,
what is computed from them alone is computed, and such inputs are recorded number by number. Reads and writes nothing;
raises whatever Dynamo or the model raises.
"""

import gc
import os
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.convert_frame
import torch._dynamo.output_graph
import torch._dynamo.utils
from torch._dynamo.source import RandomValueSource
from torch.utils import _pytree as pytree

from extract.build import Built, fake_scope
from extract.described import number_value
from extract.failures import CAPTURE, LIBRARY_ERRORS, NondeterministicError, clean, failure_kind, step
from extract.inputs import WantedInput
from schemas import values
from schemas.dead_code import remove_dead_calls
from schemas.fx import fake_input
from schemas.graph import TensorSpec
from schemas.known import MAX_EXAMPLE, WHOLE, Reads, computed_constants
from schemas.rows import FailureKind

UNCHECKED = {"TRANSFORMERS_DISABLE_TORCH_CHECK": "1"}
"""Environment of a call: transformers' own switch for leaving out checks of values, such as whether a text has as many
places for pictures as there are pictures; drawn token ids have none, and the ops are the same."""
LITERAL = "literal"
EXACT = frozenset({LITERAL, "zeros", "ones", "constant", "arange"})
"""Kinds of initialisers that give every number of an input."""
_DEPENDENT = re.compile(r"(?i)data.dependent|Tensor\.item|dynamic shape operator")
_SCALARS: dict[str, Any] = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One graph that Dynamo gave to its backend."""

    gm: torch.fx.GraphModule
    """The graph; its placeholders carry `meta["example_value"]`."""
    examples: tuple[Any, ...]
    """The very objects passed for the placeholders: the model's own tensors and the call's inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """What one call gave."""

    pieces: tuple[Piece, ...]
    """Graphs in calling order."""
    reasons: tuple[str, ...]
    """Reasons of the breaks, one line each; empty if the call is one graph."""
    inputs: dict[int, str]
    """id of an input tensor -> argument name; the tensors live in the pieces."""
    inits: dict[str, str] = field(default_factory=dict)
    """Argument name -> initialiser, where the capture read values; else those that were wanted hold."""
    reads: frozenset[str] = frozenset()
    """Names of arguments whose numbers were read: the graphs hold for these."""
    ran: bool = False
    """Whether the model's own code ran: what it keeps in Python is that of a second call then."""

    @property
    def is_whole(self) -> bool:
        """Whether the call gave exactly one graph and nothing ran outside of it."""
        return len(self.pieces) == 1 and not self.reasons

    @property
    def reason(self) -> str:
        """The first break reason, empty if there was none."""
        return self.reasons[0] if self.reasons else ""

    def reason_after(self, index: int) -> str:
        """The reason of the break after one piece; empty after the last piece."""
        if index == len(self.pieces) - 1 or not self.reasons:
            return ""
        return self.reasons[min(index, len(self.reasons) - 1)]


def capture(built: Built, wanted: Sequence[WantedInput], *, seed: int = 0, training: bool = False) -> Capture:
    """Capture one call, without gradients unless for training."""
    return _call(built, wanted, {}, seed, training=True) if training else _read_if_needed(built, wanted, seed)


def _read_if_needed(built: Built, wanted: Sequence[WantedInput], seed: int) -> Capture:
    """One call in which no value is known or, where that does not do, one in which values may be read."""
    if built.mode is None:
        return _call(built, wanted, {}, seed)
    broken = None
    if not any(_kind(item) == LITERAL for item in wanted):
        try:
            broken = _call(built, wanted, {}, seed)
            if not _DEPENDENT.search(" ".join(broken.reasons)):
                return broken
        except LIBRARY_ERRORS as error:
            if failure_kind(error) is not FailureKind.DATA_DEPENDENT:
                raise
    known = {item.name: _value(item, seed) for item in wanted if is_readable(item.spec)}
    literal = [as_literal(item, known) for item in wanted]
    try:
        found = _call(built, literal, known, seed)
    except LIBRARY_ERRORS:
        if broken is None:
            raise
        return broken
    return replace(found, inits={item.name: item.init for item in literal})


def _call(
    built: Built, wanted: Sequence[WantedInput], known: Mapping[str, torch.Tensor], seed: int, *, training: bool = False
) -> Capture:
    """One call; `known`: the numbers of arguments that the model may read."""
    with fake_scope(built):
        arguments = {item.name: _argument(item, built, seed) for item in wanted}
    data = {id(arguments[name]): value for name, value in known.items()}
    os.environ.update(UNCHECKED)
    ran, reads = False, Reads({id(arguments[name]): name for name in known})
    with step(CAPTURE), torch.set_grad_enabled(training), fake_scope(built), no_collection(), no_origins():
        if known:
            pieces, reasons = _capture_reading(built, arguments, data, reads)
        elif (whole := _capture_whole(built.model, arguments)) is not None:
            pieces, reasons = (whole,), ()
        else:
            pieces, reasons = _capture_pieces(built.model, arguments)
            ran = True
    _check_sources(pieces)
    named = {id(value): name for name, value in arguments.items()}
    return Capture(pieces=pieces, reasons=reasons, inputs=named, reads=frozenset(reads.found), ran=ran)


def _check_sources(pieces: Sequence[Piece]) -> None:
    """Raise NondeterministicError where a graph takes a number of Python's generator: it is no input of the model."""
    nodes = [node for piece in pieces for node in piece.gm.graph.nodes if node.op == "placeholder" and node.users]
    if any(isinstance(getattr(node, "_dynamo_source", None), RandomValueSource) for node in nodes):
        raise NondeterministicError("the forward calls random (Python's generator), which no graph holds")


def _capture_reading(
    built: Built, arguments: Mapping[str, Any], data: Mapping[int, torch.Tensor], reads: Reads
) -> tuple[tuple[Piece, ...], tuple[str, ...]]:
    """The one graph of a call that may read the numbers of some arguments; the graph itself is not run."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    pieces: list[Piece] = []

    def record(gm: torch.fx.GraphModule, examples: list[Any]) -> Any:
        remove_dead_calls(gm)
        pieces.append(Piece(gm=gm, examples=tuple(examples)))
        return _stop

    with _reading(built, data, reads), suppress(_Stopped):
        torch.compile(built.model, backend=record, dynamic=False, fullgraph=True)(**arguments)
    return tuple(pieces), tuple(_one_line(text) for text in torch._dynamo.utils.counters["graph_break"])


def _capture_whole(model: torch.nn.Module, arguments: Mapping[str, Any]) -> Piece | None:
    """The one graph of a whole call, traced without making or running code; None where Dynamo gives no such graph."""
    whole = getattr(torch._dynamo.convert_frame, "fullgraph_capture", None)
    torch._dynamo.reset()
    if whole is None:
        return None
    try:
        with torch._dynamo.utils.get_metrics_context():
            found = whole(model, (), dict(arguments)).backend_input
    except LIBRARY_ERRORS:
        return None
    return None if found is None else Piece(gm=found.graph_module, examples=tuple(found.example_inputs))


def _capture_pieces(model: torch.nn.Module, arguments: Mapping[str, Any]) -> tuple[tuple[Piece, ...], tuple[str, ...]]:
    """What reaches the backend of `torch.compile` in one call, in the order in which it runs, and the break reasons.

    Code that Dynamo skips without a word runs beside the graphs, and one compiled graph may run several times: that
    is a reason too, so that no part of a call passes for the whole.
    """
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    pieces: list[Piece] = []
    returned: list[list[Any]] = []

    def record(gm: torch.fx.GraphModule, examples: list[Any]) -> Any:
        pieces.append(Piece(gm=gm, examples=tuple(examples)))

        def run(*values: Any) -> Any:
            outputs = gm.forward(*values)
            returned.append(pytree.tree_leaves((outputs, values)))
            return outputs

        return run

    result = torch.compile(model, backend=record, dynamic=False)(**arguments)
    reasons = [_one_line(text) for text in torch._dynamo.utils.counters["graph_break"]]
    found = [id(leaf) for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    if len(returned) != len(pieces):
        reasons.append(f"{len(pieces)} graphs ran {len(returned)} times: code outside of them decides how often")
    elif pieces and not set(found) <= set(map(id, [*returned[-1], *arguments.values()])):
        reasons.append("the call computes more than its last graph gives")
    return tuple(pieces), tuple(reasons)


@contextmanager
def no_collection() -> Iterator[None]:
    """Leave cyclic garbage for later: tracing makes much that lives on, which the collector would walk again and
    again (a tenth to a quarter of the time of a capture)."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class _NoStack:
    """Stands for `traceback.StackSummary` where a node's lines of source are put together: there are none."""

    @staticmethod
    def from_list(_: Any) -> Any:
        """A summary of nothing."""
        return traceback.StackSummary()


@contextmanager
def no_origins() -> Iterator[None]:
    """Do not have Dynamo format, for every node, the lines of source that it comes from: nothing reads them."""
    module: Any = torch._dynamo.output_graph
    was = module.traceback
    module.traceback = SimpleNamespace(**{**vars(traceback), "StackSummary": _NoStack})
    try:
        yield
    finally:
        module.traceback = was


class _Stopped(Exception):
    """The whole call is recorded; its graph need not run, and could not on tensors that know nothing."""


def _stop(*_: Any) -> Any:
    raise _Stopped


def _argument(item: WantedInput, built: Built, seed: int) -> torch.Tensor:
    return fake_input(item.spec) if built.mode is not None else _value(item, seed)


def _value(item: WantedInput, seed: int) -> torch.Tensor:
    return item.value(seed)


# --- values that the model may read ---------------------------------------------------------------------------------
def _kind(item: WantedInput) -> str:
    return str(values.loads(item.init)["kind"])


def is_readable(spec: TensorSpec) -> bool:
    """Whether an input is small and holds whole numbers or truth values."""
    return spec.dtype in WHOLE and is_few(spec)


def is_few(spec: TensorSpec) -> bool:
    """Whether the numbers of an input are written out where they were read."""
    return spec.numel <= MAX_EXAMPLE


def as_literal(item: WantedInput, known: Mapping[str, torch.Tensor]) -> WantedInput:
    """The same input with its numbers written out, unless its initialiser gives them already."""
    if item.name not in known or _kind(item) in EXACT:
        return item
    data = [number_value(value) for value in known[item.name].reshape(-1).tolist()]
    return replace(item, init=values.dumps({"kind": LITERAL, "data": data}))


@contextmanager
def _reading(built: Built, data: Mapping[int, torch.Tensor], reads: Reads) -> Iterator[None]:
    """Let a capture read inputs, and buffers whose data the constructor computed; nothing if there are no inputs."""
    if not data:
        yield
        return
    buffers: dict[int, torch.Tensor] = {
        key: value for key, value in built.data.items()
        if value.numel() <= MAX_EXAMPLE and str(value.dtype).removeprefix("torch.") in WHOLE
    }  # fmt: skip
    with torch._dynamo.config.patch(**_SCALARS), computed_constants({**buffers, **data}, reads):
        yield


def _one_line(reason: str) -> str:
    """A break reason as one line: Dynamo's title and explanation, without hints, paths and addresses."""
    lines = [line.strip() for line in clean(reason).splitlines() if line.strip()]
    return " | ".join(lines[:3])[:300]
