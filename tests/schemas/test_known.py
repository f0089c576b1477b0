"""Fake tensors that know their values: what is computed from them, and what is not."""

import operator
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _python_dispatch as dispatch

from passbench.inputs import value_of
from schemas import values
from schemas.fx import example_input, lift
from schemas.graph import TensorSpec
from schemas.known import computed_constants, exact_numbers
from schemas.propagation import called, on_fakes, propagate
from tests.schemas.test_fx import hand_made

pytestmark = pytest.mark.torch


def test_what_is_computed_from_known_tensors_alone_is_known():
    with computed_constants(), FakeTensorMode(), torch.no_grad():
        grid = torch.tensor([[1, 4, 6], [2, 2, 2]])
        lengths = torch.repeat_interleave(grid[:, 1] * grid[:, 2], grid[:, 0])
        assert lengths.tolist() == [24, 4, 4]
        places = torch.arange(6)
        assert places[places != 3].tolist() == [0, 1, 2, 4, 5]


def test_what_also_depends_on_unknown_data_is_not():
    with computed_constants(), FakeTensorMode(), torch.no_grad():
        mixed = torch.tensor([1, 2]) + torch.empty(2, dtype=torch.int64)
        with pytest.raises(RuntimeError):
            mixed.tolist()


def test_a_tensor_that_is_written_into_forgets_its_data():
    with computed_constants(), FakeTensorMode(), torch.no_grad():
        table = torch.tensor([1, 2])
        table.copy_(torch.empty(2, dtype=torch.int64))
        with pytest.raises(RuntimeError):
            table.tolist()


def test_torch_is_left_as_it_was():
    before = (FakeTensorMode.from_tensor, FakeTensorMode.dispatch)
    with pytest.raises(ZeroDivisionError), computed_constants():
        raise ZeroDivisionError
    assert (FakeTensorMode.from_tensor, FakeTensorMode.dispatch) == before


def test_threads_that_propagate_side_by_side_leave_torch_as_it_was():
    graph = lift(hand_made(lambda g, x: g.call_function(torch.relu, (x,)), torch.ones(2)))
    before = (FakeTensorMode.from_tensor, FakeTensorMode.dispatch, dispatch._is_in_torch_dispatch_mode)
    kept = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: propagate(graph), range(80)))
    finally:
        sys.setswitchinterval(kept)
    assert (FakeTensorMode.from_tensor, FakeTensorMode.dispatch, dispatch._is_in_torch_dispatch_mode) == before
    assert all(specs == found[0] for specs in found)


@pytest.mark.parametrize(
    ("init", "dtype", "shape"),
    [
        ('{"kind":"literal","data":[1,16,16]}', "int64", (1, 3)),
        ('{"kind":"literal","data":[true,false]}', "bool", (2,)),
        ('{"kind":"ones"}', "int64", (1, 128)),
        ('{"kind":"zeros"}', "bool", (3,)),
        ('{"kind":"arange","start":3,"step":2}', "int32", (2, 5)),
        ('{"kind":"constant","value":{"float":"0.5"}}', "float32", ()),
        ('{"kind":"arange","start":{"float":"-1.0"},"step":{"float":"0.25"}}', "float32", (1,)),
    ],
)
def test_exact_numbers_are_those_of_the_initialiser(init, dtype, shape):
    stride = torch.empty(shape).stride()
    spec = TensorSpec(dtype=dtype, shape=shape, stride=stride, device="cpu")
    value = value_of(init, spec, seed=0)
    assert exact_numbers(spec, values.loads(init)) == value.reshape(-1).tolist()
    with computed_constants(), FakeTensorMode():
        assert example_input(spec, init).tolist() == value.tolist()


def test_what_memory_held_before_is_never_known():
    places = torch.arange(5)
    with computed_constants(), FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        table = torch.arange(9)
        for made in (table[places], torch.empty_like(table), table.new_empty(4)):
            assert made.constant is None


@pytest.mark.parametrize("init", ['{"kind":"integers","low":0,"high":9}', '{"kind":"literal","data":[1,2]}'])
def test_drawn_numbers_and_those_of_another_size_are_not_known(init):
    spec = TensorSpec(dtype="int64", shape=(3,), stride=(1,), device="cpu")
    assert exact_numbers(spec, values.loads(init)) is None


def test_fractions_that_are_counted_up_are_not_known():
    spec = TensorSpec(dtype="float32", shape=(2, 3), stride=(3, 1), device="cpu")
    init = '{"kind":"arange","start":{"float":"-1.0"},"step":{"float":"0.25"}}'
    assert exact_numbers(spec, values.loads(init)) is None


def test_propagation_follows_a_mask_that_is_given_number_by_number():
    from schemas.fx import lift

    graph = torch.fx.Graph()
    data, mask = graph.placeholder("data"), graph.placeholder("mask")
    graph.output((graph.call_function(operator.getitem, (data, mask)),))
    gm = torch.fx.GraphModule({}, graph)
    values_of = {"data": torch.zeros(4), "mask": torch.tensor([True, False, True, True])}
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            node.meta["example_value"] = values_of[node.name]
        elif node.op == "call_function":
            node.meta["example_value"] = torch.zeros(3)
    inits = {"data": '{"kind":"zeros"}', "mask": '{"kind":"literal","data":[true,false,true,true]}'}
    found = propagate(lift(gm, roles={"data": "input", "mask": "input"}, inits=inits))
    assert (3,) in [spec.shape for specs in found for spec in specs]


# --- scalars that stand for a number --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "make",
    [
        lambda number: torch.full((2, 3), number),
        lambda number: torch.full((2,), number, dtype=torch.float64),
        lambda number: torch.linspace(0, number, 4),
        lambda number: torch.scalar_tensor(number),
        lambda number: torch.tensor([1.0, 2.0]) * number,
        lambda number: torch.tensor([1.0, 2.0]).fill_(number),
        lambda number: torch.where(torch.tensor([True, False]), number, 0.0),
        lambda number: called(torch.tensor, (number,), {}),
        lambda number: called(torch.tensor, ([number, 1.0],), {"dtype": torch.float32}),
    ],
)  # fmt: skip
def test_a_number_that_nobody_knows_stays_unknown(make: Callable[[Any], torch.Tensor]):
    real = make(0.5)
    with on_fakes():
        made = make(torch.empty(3).max().item())
        assert (made.dtype, made.shape) == (real.dtype, real.shape)
        assert made.constant is None


def test_what_is_written_with_an_unknown_number_is_forgotten_and_its_views_too():
    with on_fakes():
        known, other = torch.tensor([3, 2]), torch.tensor([5])
        view = known[:1]
        known.add(torch.empty(1).max().item())
        assert known[1].item() == 2, "a call that writes nothing changes nothing"
        known.fill_(torch.empty(1, dtype=torch.int64).max().item())
        assert not isinstance(known[1].item(), int)
        assert not isinstance(view.item(), int)
        assert other.item() == 5
