"""What a captured graph must survive to become a row.

    check_rebuilt(graph)                        # IR -> FX -> IR is the identity, fake propagation agrees
    verdict = compare(gm, graph, config...)     # traced and rebuilt module agree bit for bit on equal inputs

Reads nothing but its arguments; `compare` takes a file lock in the temporary directory while it holds much memory, so
that several workers on one machine do so in turn. Raises RoundtripError or NumericError.
"""

import ctypes
import fcntl
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from extract.failures import LIBRARY_ERRORS, NumericError, RoundtripError, failure_kind, first_line
from extract.inputs import dense_stride
from passbench.inputs import derive, number, value_of
from schemas.fx import lift, lower
from schemas.graph import Graph, Node, TensorSpec
from schemas.propagation import propagate
from schemas.rows import FailureKind, NumericCheck
from schemas.values import loads

GIB = 1 << 30
LOCK_FROM = 1 * GIB
"""Comparisons estimated at more bytes than this run one at a time on a machine."""
PERIOD = 1_048_583
"""Numbers drawn for all large parameters together; a prime."""
_MARGIN = 1.15
"""Allocator slack and the workspace of one operation, relative to what is counted."""
VIEWS = frozenset({
    "view", "reshape", "transpose", "permute", "expand", "t", "unsqueeze", "squeeze", "flatten", "chunk", "split",
    "unbind", "select", "narrow", "contiguous", "detach", "expand_as", "view_as", "swapaxes", "movedim", "unflatten",
    "mT", "T", "getattr", "getitem", "dropout", "to",
})  # fmt: skip
"""Last names of targets whose result usually shares the memory of its first operand."""


# --- rebuilding -----------------------------------------------------------------------------------------------------
def check_rebuilt(graph: Graph) -> list[tuple[TensorSpec, ...]]:
    """Raise RoundtripError unless the graph survives lowering; -> the propagated specs of every node.

    Strides of results are no part of it: they follow from the ops, and an op may lay out real values, fake ones and
    those of a sub-class differently. `settled` puts those of the propagation into the graph.
    """
    again = lift(lower(graph))
    if again != graph:
        raise RoundtripError(_first_difference(graph, again))
    specs = propagate(graph)
    for index, (node, found) in enumerate(zip(graph.nodes, specs, strict=True)):
        if node.is_call and node.outputs and not _agree(node.outputs, found):
            raise RoundtripError(
                f"node {index} ({node.target}): recorded {_show(node.outputs)}, rebuilt {_show(found)}"
            )
    return specs


def _agree(recorded: Sequence[TensorSpec], found: Sequence[TensorSpec]) -> bool:
    """Whether specs differ in nothing but strides."""
    return len(recorded) == len(found) and all(
        (left.dtype, left.shape, left.device) == (right.dtype, right.shape, right.device)
        for left, right in zip(recorded, found, strict=True)
    )


def settled(graph: Graph, specs: Sequence[tuple[TensorSpec, ...]]) -> Graph:
    """The graph with the propagated specs of every call, so that propagating it again gives what it states."""
    nodes = tuple(
        replace(node, outputs=found) if node.is_call and node.outputs else node
        for node, found in zip(graph.nodes, specs, strict=True)
    )
    return replace(graph, nodes=nodes)


def _first_difference(graph: Graph, again: Graph) -> str:
    for index, (left, right) in enumerate(zip(graph.nodes, again.nodes, strict=False)):
        if left != right:
            return f"node {index}: {_brief(left)} came back as {_brief(right)}"
    return f"{len(graph.nodes)} nodes came back as {len(again.nodes)}, or initialisers or nested graphs changed"


def _brief(node: Node) -> str:
    return f"{node.op} {node.target} {node.attrs[:80]} {_show(node.outputs)}"


def _show(specs: Sequence[TensorSpec]) -> str:
    return ", ".join(f"{spec.dtype}{list(spec.shape)}" for spec in specs[:4]) or "nothing"


# --- memory ---------------------------------------------------------------------------------------------------------
def estimate_bytes(graph: Graph, specs: Sequence[tuple[TensorSpec, ...]]) -> int:
    """Peak bytes of running a graph once: all placeholders and constants, plus the largest set of live values.

    `specs` are those of every node, as `propagate` gives them. A view counts nothing but keeps its operand alive.
    """
    last = _last_uses(graph)
    held = sum(_nbytes(found) for node, found in zip(graph.nodes, specs, strict=True) if not node.is_call)
    ends: dict[int, int] = {}
    live = peak = 0
    for index, node in enumerate(graph.nodes):
        if node.is_call and not is_view(node):
            size = _nbytes(specs[index])
            live += size
            ends[last[index]] = ends.get(last[index], 0) + size
        peak = max(peak, live)
        live -= ends.get(index, 0)
    return int((held + peak) * _MARGIN)


def is_view(node: Node) -> bool:
    """Whether a call's result usually shares the memory of its first operand."""
    return bool(node.inputs) and node.target.rsplit(".", 1)[-1] in VIEWS


def _last_uses(graph: Graph) -> list[int]:
    """For every node the index of the last node that reads it or a view of it."""
    last = list(range(len(graph.nodes)))
    for index in reversed(range(len(graph.nodes))):
        node = graph.nodes[index]
        for source in node.inputs:
            last[source] = max(last[source], index)
        if is_view(node):
            last[node.inputs[0]] = max(last[node.inputs[0]], last[index])
    return last


def _nbytes(specs: Sequence[TensorSpec]) -> int:
    return sum(spec.nbytes for spec in specs)


# --- values ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What is known about the values."""

    numeric: NumericCheck
    detail: str = ""


def compare(gm: torch.fx.GraphModule, graph: Graph, *, needed: int, limit: int, seed: int) -> Comparison:
    """Run the traced and the rebuilt module on equal inputs; raises NumericError if they differ.

    `needed` and `limit` are bytes; inputs are made anew for the second run where the first may have written into them.
    """
    if needed > limit:
        return Comparison(
            numeric=NumericCheck.TOO_LARGE, detail=f"needs about {needed / GIB:.1f} GiB, the limit is {limit / GIB:.1f}"
        )
    with _one_at_a_time() if needed > LOCK_FROM else nullcontext():
        inputs = drawn(graph, seed)
        before = _versions(inputs)
        try:
            expected = _run(gm, inputs, seed)
        except LIBRARY_ERRORS as error:
            if failure_kind(error) is FailureKind.OOM:
                raise
            return Comparison(numeric=NumericCheck.NOT_RUNNABLE, detail=f"{type(error).__name__}: {first_line(error)}")
        if _versions(inputs) != before or any(map(_hides_writes, graph.nodes)):
            del inputs
            inputs = drawn(graph, seed)
        actual = _run(lower(graph), inputs, seed)
        del inputs
        _return_memory()
    difference = first_unequal(expected, actual)
    if difference:
        raise NumericError(difference)
    return Comparison(numeric=NumericCheck.EQUAL)


def drawn(graph: Graph, seed: int) -> list[Any]:
    """One value a placeholder: as `passbench.inputs` gives it, but large normal parameters are stretches of one line of
    `PERIOD` normal numbers that repeats, each from a place of its own on.

    The period is a prime above any row's length, so that no two rows of a parameter and no two parameters are equal,
    and a graph that mixes them up is found; drawing every number anew cost as much as running the graph.
    """
    line = torch.randn(PERIOD, generator=torch.Generator().manual_seed(derive(seed)))
    found: list[Any] = []
    for position, index in enumerate(graph.placeholders):
        spec, raw = graph.nodes[index].outputs[0], loads(graph.inits[position])
        place = derive(seed, position)
        is_large = graph.nodes[index].target == "parameter" and spec.dtype == "float32" and spec.numel > PERIOD // 16
        if is_large and raw["kind"] == "normal" and spec.stride == dense_stride(spec.shape):
            found.append(_stretch(line, spec, place % PERIOD).mul_(number(raw["std"])).add_(number(raw["mean"])))
        else:
            found.append(value_of(graph.inits[position], spec, seed=place))
    return found


def _stretch(line: torch.Tensor, spec: TensorSpec, start: int) -> torch.Tensor:
    """Numbers of a line that repeats, as many as a tensor has, from a position on."""
    flat = torch.empty(spec.numel)
    first = min(PERIOD - start, spec.numel)
    flat[:first] = line[start : start + first]
    whole, rest = divmod(spec.numel - first, PERIOD)
    flat[first : first + whole * PERIOD].view(whole, PERIOD).copy_(line.expand(whole, PERIOD))
    flat[spec.numel - rest :] = line[:rest]
    return flat.view(spec.shape)


def _run(gm: torch.fx.GraphModule, inputs: Sequence[Any], seed: int) -> list[Any]:
    """The leaves of a module's outputs, copied so that no input is kept alive."""
    torch.manual_seed(seed)
    with torch.no_grad():
        outputs = gm(*inputs)
    return [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in pytree.tree_leaves(outputs)]


def _versions(inputs: Sequence[Any]) -> list[int]:
    """How often each tensor was written in place, as autograd counts it: through views and `detach` too."""
    return [value._version for value in inputs if isinstance(value, torch.Tensor)]


def _hides_writes(node: Node) -> bool:
    """Whether writes through a node's result are not counted: `tensor.data`, and tensors that change storage."""
    return '"data"' in node.attrs or node.target.rsplit(".", 1)[-1].startswith("set_")


def _return_memory() -> None:
    """Give freed memory back to the system where the C library can: it keeps hundreds of megabytes otherwise."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


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
            return f"output {index}: {left.dtype}{list(left.shape)} differs from {right.dtype}{list(right.shape)}"
    return ""


def _bits(value: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor's values, with every nan the same nan."""
    value = torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
    if value.is_floating_point():
        value = value.masked_fill(value.isnan(), float("nan"))
    return value.resolve_neg().contiguous().reshape(-1).view(torch.uint8)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Hold the machine-wide lock of large comparisons."""
    with (Path(tempfile.gettempdir()) / f"passnet-numeric-{os.getuid()}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
