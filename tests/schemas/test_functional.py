"""In-place calls and their functional forms, run on real tensors: every method and operator of torch that writes."""

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import pytest
import torch

from benchmarks.traced import Tracer, run
from schemas.functional import functionalise
from schemas.graph import Graph
from schemas.reviewed import INPLACE_PARAMETER

pytestmark = pytest.mark.torch
METHODS = sorted(
    name for name in dir(torch.Tensor) if name.endswith("_") and not name.startswith("_") and "map" not in name
)
OPERATORS = (
    "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor", "ilshift", "irshift",
    "imatmul",
)  # fmt: skip
DTYPES = (torch.bool, torch.uint8, torch.int64, torch.bfloat16, torch.float32, torch.float64, torch.complex64)


@dataclass(frozen=True)
class Of:
    """A tensor argument: its dtype (that of what is written if None), and how it lies in memory."""

    dtype: torch.dtype | None = None
    how: str = "dense"
    shape: tuple[int, ...] = (4, 4)


SAME, TURNED, OTHER, MASK = Of(), Of(how="turned"), Of(torch.float64), Of(torch.bool)
ZERO, INDEX, LINE = Of(shape=()), Of(torch.int64), Of(torch.int64, shape=(4,))
ARGUMENTS: tuple[tuple[Any, ...], ...] = (
    (), (1,), (True,), (2.5,), (0,), (SAME,), (TURNED,), (OTHER,), (ZERO,), (MASK, 1), (MASK, SAME), (SAME, SAME),
    (SAME, TURNED), (SAME, 0.5), (0, INDEX, SAME), (0, LINE, SAME), (0, LINE, 1), (0.25, 0.5), (INDEX, SAME),
    (2, 0, 1.0), (0, 1),
)  # fmt: skip
"""What some in-place call takes beside what it writes."""


def numbers(of: Of, dtype: torch.dtype, seed: int) -> torch.Tensor:
    dtype, generator = of.dtype or dtype, torch.Generator().manual_seed(seed)
    if dtype == torch.int64 and of.dtype is not None:
        return torch.randint(0, 4, of.shape, generator=generator)
    made = torch.randn(of.shape, generator=generator) * 2
    made = made.to(dtype) if dtype.is_floating_point or dtype.is_complex else made.abs().round().to(dtype)
    return made.t() if of.how == "turned" else made


def written(t: Tracer, dtype: torch.dtype, layout: str) -> torch.fx.Node:
    """A value of a layout that is the graph's own."""
    x = t.method("clone", t.input(numbers(Of(shape=(8, 4)), dtype, 0)))
    if layout == "sliced":
        return t.call(operator.getitem, x, slice(None, None, 2))
    half = t.method("clone", t.call(operator.getitem, x, slice(0, 4)))
    return t.method("t", half) if layout == "turned" else half


def graphs(dtype: torch.dtype, layout: str, call: Any) -> Iterator[tuple[Graph, Any]]:
    """A graph and its inputs for every argument list that the call takes."""
    for wanted in ARGUMENTS:
        given = [numbers(a, dtype, k) if isinstance(a, Of) else a for k, a in enumerate(wanted, start=1)]
        if not takes(call, numbers(SAME, dtype, 0), given):
            continue
        t = Tracer()
        w = written(t, dtype, layout)
        args = [t.input(a) if isinstance(a, torch.Tensor) else a for a in given]
        try:
            made = t.method(call, w, *args) if isinstance(call, str) else t.call(call, w, *args)
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
            continue
        if isinstance(t.values[made], torch.Tensor):
            yield t.graph(made, t.method("sum", made)), t.inputs


def takes(call: Any, w: torch.Tensor, args: list[Any]) -> bool:
    """Whether a call takes some arguments, on a tensor in the usual layout."""
    args = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
    try:
        return (getattr(w, call)(*args) if isinstance(call, str) else call(w, *args)) is not NotImplemented
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return False


CALLS: tuple[Any, ...] = (
    *METHODS, *(getattr(operator, name) for name in OPERATORS),
    *(partial(getattr(torch.nn.functional, n), inplace=True) for n in sorted(set(INPLACE_PARAMETER) - {"_threshold"})),
)  # fmt: skip
FEWEST = {"dense": 14, "turned": 10, "sliced": 0}
"""At least so many ops become functional, by the layout of what they write."""


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_functional_forms_compute_what_the_calls_in_place_compute(dtype: torch.dtype):
    for layout, fewest in FEWEST.items() if dtype == torch.float32 else [("dense", FEWEST["dense"])]:
        changed, ran = set[str](), 0
        for graph, inputs in chain.from_iterable(graphs(dtype, layout, call) for call in CALLS):
            made = functionalise(graph)
            ran += 1
            if made.nodes != graph.nodes:
                changed.add(graph.nodes[-3].target)
                assert run(made, inputs) == run(graph, inputs), (layout, graph.nodes[-3])
        assert ran > 100 and len(changed) >= fewest, (layout, ran, sorted(changed))
        assert fewest or not changed


# --- what must stay in place ----------------------------------------------------------------------------------------
def stays(t: Tracer, *outputs: torch.fx.Node) -> bool:
    graph = t.graph(*outputs)
    return functionalise(graph) == graph


def own(t: Tracer) -> torch.fx.Node:
    return t.method("clone", t.input(torch.rand(4, 4)))


def test_a_comparison_in_place_keeps_its_dtype():
    t = Tracer()
    assert stays(t, t.method("gt_", own(t), 0))
    t = Tracer()
    assert stays(t, t.method("logical_and_", own(t), own(t)))


def test_a_call_that_reads_what_it_writes_stays():
    """Added to itself, a column is read again after it was written: the functional form gives other numbers."""
    t = Tracer()
    x = own(t)
    made = t.method("add_", x, t.call(operator.getitem, x, (slice(None), slice(0, 1))))
    graph = t.graph(made)
    assert functionalise(graph) == graph
    h = t.inputs[0]
    assert not torch.equal(h.clone().add_(h[:, :1]), t.values[made])


def test_what_draws_random_numbers_stays():
    t = Tracer()
    assert stays(t, t.call(torch.nn.functional.dropout, own(t), 0.5, True, inplace=True))


def test_calls_inside_an_enabled_autocast_stay():
    for enabled in (True, False):
        t = Tracer()
        x = own(t)
        entered = t.call(torch.amp.autocast_mode._enter_autocast, "cpu", torch.bfloat16, enabled, None)
        made = t.method("exp_", x)
        t.call(torch.amp.autocast_mode._exit_autocast, entered)
        assert stays(t, made) == enabled


def test_what_was_written_is_seen_through_no_older_value():
    t = Tracer()
    x = own(t)
    view = t.method("t", x)
    assert stays(t, t.method("mul_", x, 2), view)
    t = Tracer()
    x = own(t)
    assert not stays(t, t.method("mul_", x, 2), t.input(torch.rand(3)))
