"""Timed windows: contents that no call had before, an order that is told call by call, and checks of what was kept."""

import struct
from dataclasses import replace

import pytest
import torch

from passbench.windows import LEAST_SETS, NONE, Order, Supply, chunk_of, given_inputs
from tests.passbench.cases import captured

pytestmark = pytest.mark.torch


class Mixed(torch.nn.Module):
    def forward(self, x, y, ids, mask):
        return torch.where(mask, x * 2 + y, ids.float())


INITS = (
    '{"kind":"normal","mean":3.0,"std":1.0}', '{"kind":"uniform","low":-2.0,"high":5.0}',
    '{"kind":"integers","low":4,"high":90}', '{"kind":"bool","p":0.5}',
)  # fmt: skip


@pytest.fixture(scope="module")
def graph():
    shape = (40, 30)
    inputs = [
        torch.randn(shape),
        torch.rand(shape).t().contiguous().t(),
        torch.ones(shape).long(),
        torch.ones(shape) > 0,
    ]
    return replace(captured(Mixed(), *inputs), inits=INITS)


def test_every_call_of_every_window_has_contents_that_no_other_had(graph):
    supply, seen = Supply(graph, {"seed": 3}, "cpu"), [set() for _ in INITS]
    for seed in (11, 12):
        assert supply.fill(20, seed) == 20
        for inputs in supply.sets[:20]:
            for contents, value in zip(seen, inputs, strict=True):
                contents.add(bytes(value.contiguous().view(torch.uint8).numpy().tobytes()))
    assert [len(contents) for contents in seen[:2]] == [40, 40]  # whole numbers are moved on only: a few meet by chance
    assert all(len(contents) > 30 for contents in seen[2:])
    places = [value.data_ptr() for inputs in supply.sets for value in inputs]
    assert len(set(places)) == len(places)


def test_contents_stay_where_they_are_drawn_from_and_keep_their_form(graph):
    supply = Supply(graph, {"seed": 3}, "cpu")
    supply.fill(8, 5)
    for x, y, ids, mask in supply.sets:
        assert 2.5 < x.mean() < 3.5 and 0.7 < x.std() < 1.3
        assert -2 <= y.min() < -1 and 4 < y.max() < 5 and y.stride() == (1, 40)
        assert ids.min() >= 4 and ids.max() < 90 and 0.3 < mask.float().mean() < 0.7


def test_the_reference_makes_the_inputs_of_any_call_again(graph):
    supply = Supply(graph, {"seed": 3}, "cpu")
    supply.fill(4, 77)
    for index in range(4):
        again = given_inputs(graph, {"seed": 3, "set": [77, index]}, "cpu")
        assert all(torch.equal(one, two) for one, two in zip(again, supply.sets[index], strict=True))
    plain = given_inputs(graph, {"seed": 3}, "cpu")
    assert not any(torch.equal(one, two) for one, two in zip(plain, supply.sets[0], strict=True))


def test_what_was_written_into_inputs_is_gone_in_the_next_window(graph):
    supply = Supply(graph, {"seed": 3}, "cpu")
    supply.fill(2, 1)
    kept = [value.clone() for value in supply.sets[1]]
    for inputs in supply.sets:
        inputs[0].fill_(0.0)
    supply.fill(2, 1)
    assert all(torch.equal(one, two) for one, two in zip(kept, supply.sets[1], strict=True))


def test_large_inputs_share_sets_and_constants_stay_what_they_are():
    class Add(torch.nn.Module):
        def forward(self, x, y):
            return x + y

    graph = captured(Add(), torch.zeros(1), torch.zeros(1))
    big = replace(graph, inits=(INITS[0], '{"kind":"constant","value":2.5}'))
    supply = Supply(big, {"seed": 1}, "cpu")
    supply.most = LEAST_SETS
    assert supply.fill(50, 9) == LEAST_SETS and all(float(inputs[1]) == 2.5 for inputs in supply.sets)


def read(order):
    """What a worker learns from a message: the sets in order, and the calls that are kept."""
    raw, at, sets, kept = order.message(), 0, [], []
    while len(sets) < len(order.sets):
        before, *indices = struct.unpack_from(f"<B{order.chunk}H", raw, at)
        kept += [len(sets) - order.chunk + before] if before != NONE else []
        sets += indices[: len(order.sets) - len(sets)]
        at += 1 + 2 * order.chunk
    (before,) = raw[at:]
    last = len(sets) - (len(sets) % order.chunk or order.chunk)
    return tuple(sets), kept + ([last + before] if before != NONE else [])


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 64, 100])
@pytest.mark.parametrize("chunk", [1, 3, 8])
def test_a_message_tells_every_set_and_the_call_that_is_kept_after_it_was_made(count, chunk):
    kept = set()
    for _ in range(40):
        order = Order.drawn(count=count, sets=min(count, 9), chunk=chunk, keep=True)
        sets, told = read(order)
        assert sets == order.sets and told == [order.keep] and 0 <= order.keep < min(count, 9)
        assert sorted(order.sets[: min(count, 9)]) == list(range(min(count, 9)))  # each once before any comes again
        kept.add(order.keep)
    assert len(kept) > 1 or count == 1
    assert read(Order.drawn(count=count, sets=count, chunk=chunk, keep=False))[1] == []


def test_small_outputs_are_held_for_some_calls_and_large_ones_for_one():
    assert (chunk_of(0), chunk_of(100), chunk_of(2**15), chunk_of(2**20)) == (8, 8, 2, 1)
