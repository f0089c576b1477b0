"""Data as an initialiser: what is reproduced exactly, and what a drawn stand-in has in common with it."""

import json

import pytest
import torch

from extract.described import MAX_LITERAL, described, drawn_like, is_few_valued
from passbench.inputs import value_of
from schemas.fx import spec_of

pytestmark = pytest.mark.torch
INF = float("inf")
G = torch.Generator().manual_seed(0)


def again(data, describe=described):
    init = describe(data)
    return json.loads(init)["kind"], value_of(init, spec_of(data), seed=5)


def block_mask(side: int, block: int) -> torch.Tensor:
    place = torch.arange(side) // block
    return torch.zeros(side, side).masked_fill(place[:, None] != place, -INF)


WINDOW = (torch.arange(90) - torch.arange(90)[:, None]).abs() <= 8
EXACT = {
    "one value": (torch.full((3, 4), 0.5), "constant"),
    "no numbers": (torch.empty(0, 4), "zeros"),
    "a range": (torch.arange(9000) * 3 - 5, "arange"),
    "a lower triangle of truth": (torch.ones(80, 80, dtype=torch.bool).tril(), "causal_mask"),
    "an additive causal mask": (torch.full((70, 70), torch.finfo(torch.float32).min).triu(1), "causal_mask"),
    "short": (torch.tensor([[1, 0], [0, 1]]), "literal"),
    "a causal mask with infinities": (torch.full((80, 80), -INF).triu(1), "banded"),
    "the same for every head": (torch.full((80, 80), -INF).triu(1).expand(1, 3, 80, 80), "banded"),
    "a sliding window": (torch.zeros(90, 90).masked_fill(~WINDOW, -INF), "banded"),
    "a sliding window of truth": (WINDOW, "banded"),
    "an upper triangle of whole numbers": (torch.ones(100, 90, dtype=torch.int8).triu(-3), "banded"),
    "a wide causal mask": (torch.full((60, 100), -INF).triu(41), "banded"),
    "blocks": (block_mask(96, 12), "lines"),
    "blocks of truth in half precision": (block_mask(96, 32).half(), "lines"),
    "a few rows in any order": (torch.randn(5, 40, generator=G)[torch.arange(200) * 7 % 5], "lines"),
    "runs of classes": (torch.arange(60).repeat_interleave(100), "lines"),
}


@pytest.mark.parametrize("name", EXACT)
def test_data_that_is_short_or_follows_a_pattern_comes_back_exactly(name):
    data, kind = EXACT[name]
    found, value = again(data)
    assert found == kind
    assert value.dtype == data.dtype and value.shape == data.shape and torch.equal(value, data)


@pytest.mark.parametrize(
    "dtype",
    ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "bool", "float16", "bfloat16", "float64",
     "float8_e4m3fn", "float8_e5m2", "complex64", "complex128"],
)  # fmt: skip
def test_short_data_of_every_dtype_comes_back_exactly(dtype):
    data = (torch.tensor([[0.0, 1.0, 1.0], [3.0, 0.0, 2.0]])).to(getattr(torch, dtype))
    _, value = again(data)
    assert value.dtype == data.dtype and value.tolist() == data.tolist()
    _, value = again(data.t())
    assert value.stride() == data.t().stride() and value.tolist() == data.t().tolist()


def test_whole_numbers_at_the_ends_of_their_dtype_come_back():
    for dtype in (torch.uint8, torch.int8, torch.uint16, torch.int16, torch.int32, torch.int64):
        ends = torch.iinfo(dtype)
        data = torch.tensor([ends.max, ends.min, 1, 0], dtype=dtype)
        assert again(data)[1].tolist() == data.tolist()
    largest = torch.tensor([2**64 - 1, 1, 2**63], dtype=torch.uint64)
    assert again(largest)[1].tolist() == largest.tolist()


def test_nan_does_not_pass_for_a_number():
    data = torch.tensor([float("nan"), 1.0, float("nan")])
    value = again(data)[1]
    assert value.isnan().tolist() == [True, False, True]


LONG = MAX_LITERAL + 1000


@pytest.mark.parametrize(
    ("data", "kind", "holds"),
    [
        (torch.randn(LONG, generator=G) * 3 + 1, "normal", lambda v: 0.7 < v.mean() < 1.3 and 2.7 < v.std() < 3.3),
        (torch.rand(LONG, generator=G) + 0.25, "uniform", lambda v: v.min() >= 0.25 and v.max() <= 1.25),
        (torch.arange(LONG * 64).sin().view(LONG, 64), "uniform", lambda v: v.abs().max() <= 1),
        (torch.randn(LONG, generator=G).exp(), "uniform", lambda v: v.min() > 0),
        (torch.linspace(-1, 2, LONG), "arange", lambda v: (v.diff() > 0).all() and v.min() == -1 and v.max() <= 2.001),
        (torch.logspace(3, -3, LONG), "arange", lambda v: (v.diff() < 0).all()),
        (torch.randint(-8, 8, (LONG,), generator=G).char(), "integers", lambda v: v.min() == -8 and v.max() == 7),
        (torch.randperm(LONG, generator=G), "integers", lambda v: v.min() >= 0 and v.max() < LONG),
        (torch.randint(0, 40000, (LONG,), generator=G).to(torch.uint16), "integers", lambda v: v.long().max() > 30000),
        (torch.randint(0, 99, (LONG,), generator=G).float(), "integers", lambda v: set(v.tolist()) == set(range(99))),
        (torch.rand(4 * LONG, generator=G) > 0.75, "bool", lambda v: 0.2 < v.float().mean() < 0.3),
        (torch.where(torch.rand(LONG, generator=G) > 0.3, 0.0, -INF), "choice", lambda v: set(v.tolist()) == {0, -INF}),
        (torch.where(torch.rand(LONG, generator=G) > 0.3, 7, 500), "choice", lambda v: set(v.tolist()) == {7, 500}),
        (torch.randn(LONG, generator=G, dtype=torch.complex64), "normal", lambda v: v.imag.std() > 0.4),
    ],
)  # fmt: skip
def test_other_data_is_drawn_from_numbers_of_the_same_nature(data, kind, holds):
    found, value = again(data)
    assert found == kind and value.dtype == data.dtype and value.shape == data.shape and holds(value)


def test_numbers_with_infinities_among_many_different_ones_keep_their_scale():
    data = torch.randn(LONG, generator=G) * 2
    data[::7] = -INF
    found, value = again(data)
    assert found == "normal" and abs(value.std() - 2) < 0.2


def test_short_data_may_be_described_without_its_numbers():
    data = torch.randn(64, generator=torch.Generator().manual_seed(3)) + 5
    found, value = again(data, drawn_like)
    assert found == "uniform" and not torch.equal(value, data) and value.min() >= data.min() - 1e-4


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (torch.randn(200, generator=G), False),
        (torch.rand(3, generator=G), False),
        (torch.full((40, 40), -INF).triu(1), True),
        ((torch.randn(50, generator=G) > 0).float(), True),
        (torch.ones(5), True),
        (torch.tensor([1.0, 2.0, 3.0]), False),
        (torch.tensor([1.0, INF, 3.0]), True),
    ],
)
def test_masks_are_told_from_draws(data, expected):
    assert is_few_valued(data) is expected
