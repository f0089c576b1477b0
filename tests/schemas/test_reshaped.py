"""Calls that reshape a tensor in place, and results placed by position: what older specs say does not hold then."""

import inspect
from typing import Any

import pytest
import torch

from benchmarks.traced import Tracer, run
from schemas import roles
from schemas.canonical import canonicalize
from schemas.effects import effect_of
from schemas.forms import RESHAPING
from schemas.functional import functionalise
from schemas.graph import Graph

pytestmark = pytest.mark.torch
SPACES = {
    "torch": torch, "torch.nn.functional": torch.nn.functional, "torch.linalg": torch.linalg,
    "torch.special": torch.special, "torch.fft": torch.fft,
}  # fmt: skip
RESHAPES: tuple[tuple[Any, ...], ...] = (
    ("t_",), ("transpose_", 0, 1), ("swapaxes_", 0, 1), ("swapdims_", 0, 1), ("as_strided_", (4, 4), (1, 4)),
)  # fmt: skip


def inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(4, 4, generator=generator), torch.randn(4, 4, generator=generator)]


def summed(reshape: tuple[Any, ...], *, swapped: bool) -> Graph:
    """A sum of a copy that is reshaped in place, under its older name, and another tensor."""
    t = Tracer()
    x, y = (t.input(value) for value in inputs())
    z = t.method("clone", x)
    t.method(reshape[0], z, *reshape[1:])
    return t.graph(t.call(torch.add, *((y, z) if swapped else (z, y))))


@pytest.mark.parametrize("reshape", RESHAPES, ids=lambda item: item[0])
def test_operands_that_were_reshaped_in_place_keep_their_order(reshape):
    left, right = (summed(reshape, swapped=swapped) for swapped in (False, True))
    assert run(left, inputs()) != run(right, inputs())
    assert canonicalize(left).key != canonicalize(right).key


def test_operands_that_nothing_reshapes_are_exchanged():
    left, right = (summed(("mul_", 2), swapped=swapped) for swapped in (False, True))
    assert run(left, inputs()) == run(right, inputs())
    assert canonicalize(left).key == canonicalize(right).key


def test_a_given_output_of_another_layout_counts_as_reshaped():
    found = []
    for swapped in (False, True):
        t = Tracer()
        x, y = (t.input(value.t()) for value in inputs())
        z = t.input(torch.empty(0))
        t.call(torch.mul, x, x, out=z)
        t.call(torch.mul, y, y)
        plain = t.method("contiguous", y)
        found.append(t.graph(t.call(torch.add, *((plain, z) if swapped else (z, plain)))))
    given = [*(value.t() for value in inputs()), torch.empty(0)]
    assert run(found[0], given) != run(found[1], given)
    assert canonicalize(found[0]).key != canonicalize(found[1]).key


def test_the_list_holds_what_torch_tags_as_a_view_in_place():
    names = {schema.name.removeprefix("aten::") for schema in torch._C._jit_get_all_schemas()}
    tagged = set()
    for packet in (getattr(torch.ops.aten, name) for name in names if name.endswith("_") and "::" not in name):
        if any(torch.Tag.inplace_view in getattr(packet, overload).tags for overload in packet.overloads()):
            tagged.add(packet.__name__)
    assert "t_" in tagged and "squeeze_" in tagged
    assert tagged - {"detach_"} <= RESHAPING  # which leaves shape and strides


def test_a_write_into_what_was_reshaped_stays_in_place():
    t = Tracer()
    x, y = (t.input(value) for value in inputs())
    z = t.method("clone", x)
    t.method("t_", z)
    graph = t.graph(t.method("add_", z, y))
    assert functionalise(graph) == graph


def _places_of_outputs() -> list[tuple[str, int]]:
    """Python functions of torch with a parameter `out` that may be given by position -> its place."""
    found = []
    for space, module in SPACES.items():
        for name, function in vars(module).items():
            if not inspect.isfunction(function):
                continue
            for place, parameter in enumerate(inspect.signature(function).parameters.values()):
                if parameter.name == "out" and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                    found.append((f"{space}.{name}", place))
    return found


def test_an_output_that_is_given_by_position_is_written():
    places = _places_of_outputs()
    assert {("torch.nn.functional.normalize", 4), ("torch.tensordot", 3)} <= set(places)
    for target, place in places:
        given = [{"in": 0}, *[None] * (place - 1), {"in": 1}]
        for args, kwargs in ((given, {}), (given[:1], {"out": {"in": 1}})):
            spelled = roles.spell("call_function", target, {"args": args, "kwargs": kwargs}, tensor=True)
            effect = effect_of(*spelled)
            assert effect is not None, target
            assert effect.writes == (1,), target
