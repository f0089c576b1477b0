"""Comparison of outputs: tolerance levels from their definition, forms, non-finite values, the float64 oracle."""

import math

import pytest
import torch

from passbench.check import LEVELS, compare, merge, stride_order, tolerance
from schemas.rows import Verdict

pytestmark = pytest.mark.torch

K = {torch.float16: 3.0, torch.bfloat16: 1.796, torch.float32: 5.886, torch.float64: 7.0}


@pytest.mark.parametrize("dtype", list(K))
def test_level_minus_5_is_the_default_of_torch_testing(dtype):
    defaults = {
        torch.float16: (1e-5, 1e-3), torch.bfloat16: (1e-5, 1.6e-2), torch.float32: (1e-5, 1.3e-6),
        torch.float64: (1e-7, 1e-7),
    }  # fmt: skip
    atol, rtol = tolerance(dtype, -5)
    assert math.isclose(atol, defaults[dtype][0]) and math.isclose(rtol, defaults[dtype][1], rel_tol=1e-3)


def limit_of(dtype, level):
    return 10.0 ** (level if dtype != torch.float64 else 7 * level / 5)


REPRESENTABLE = [
    (dtype, t)
    for dtype in K
    for t in LEVELS
    if t > -10 and torch.finfo(dtype).tiny < limit_of(dtype, t) < torch.finfo(dtype).max / 2
]


@pytest.mark.parametrize("dtype, level", REPRESENTABLE)
def test_a_difference_just_inside_a_level_is_found_there_and_just_outside_one_level_later(dtype, level):
    limit = limit_of(dtype, level)  # the expected value is 0, so the relative part has no say
    want = torch.zeros(3, dtype=dtype)
    inside, outside = (torch.tensor([0, limit * f, 0], dtype=torch.float64).to(dtype) for f in (0.95, 1.05))
    assert compare([want], [inside]).correct_from == level
    after = compare([want], [outside]).correct_from
    assert after == (level + 1 if level < 5 else None)


@pytest.mark.parametrize("dtype", list(K))
def test_relative_part_of_the_tolerance(dtype):
    want = torch.full((2,), 1024.0, dtype=dtype)
    got = want.clone()
    got[0] *= 1.25
    expected = next(t for t in LEVELS if tolerance(dtype, t)[0] + 10 ** (K[dtype] * t / 5) * 1024 >= 256)
    assert compare([want], [got]).correct_from == expected


def test_equal_is_minus_10_and_passed_and_integers_are_exact():
    value = torch.arange(6)
    same = compare([value], [value.clone()])
    assert (same.correct_from, same.passed, same.max_abs_error, same.detail) == (-10, True, 0.0, "")
    off = compare([value], [value + 1])
    assert off.correct_from is None and off.verdict is Verdict.WRONG_VALUE and off.max_abs_error == 1


@pytest.mark.parametrize(
    "want, got, verdict, words",
    [
        (torch.zeros(2), torch.zeros(2, dtype=torch.float16), "WRONG_DTYPE", "torch.float32 expected"),
        (torch.zeros(2, 1), torch.zeros(2), "WRONG_SHAPE", r"shape \(2, 1\)"),
        (torch.zeros(2, 3), torch.zeros(1, 3), "WRONG_SHAPE", "shape"),
        (torch.zeros(2, 3), torch.zeros(3, 2).t(), "WRONG_SHAPE", "strides"),
        (torch.zeros(2), torch.tensor([0.0, math.nan]), "NON_FINITE", "0 non-finite values expected, 1 found"),
        (torch.tensor([math.inf]), torch.tensor([-math.inf]), "NON_FINITE", "same places"),
        (torch.tensor([math.inf]), torch.tensor([1.0]), "NON_FINITE", "1 non-finite values expected, 0 found"),
        (torch.ones(2), torch.zeros(2), "WRONG_VALUE", "largest error 1"),
        (3, 4, "WRONG_SHAPE", "3 expected"),
        (torch.zeros(1), None, "WRONG_DTYPE", "NoneType found"),
        (math.nan, 3.0, "WRONG_SHAPE", "nan expected"),
    ],
)
def test_differences_of_form_and_value(want, got, verdict, words):
    found = compare([torch.ones(1), want], [torch.ones(1), got])
    assert found.verdict == Verdict(verdict)
    assert "output 1" in found.detail
    assert words.replace("\\", "") in found.detail


def test_wrong_number_of_outputs():
    assert compare([torch.ones(1)], []).verdict is Verdict.WRONG_SHAPE


def test_legitimate_non_finite_values_agree():
    value = torch.tensor([math.nan, math.inf, -math.inf, 1.0])
    found = compare([value], [value.clone()])
    assert found.passed and found.correct_from == -10


def test_all_zero_output_agrees_from_level_0_but_is_wrong():
    want = torch.rand(100) * 0.9
    found = compare([want], [torch.zeros(100)])
    assert found.correct_from == 0 and found.verdict is Verdict.WRONG_VALUE


def test_more_exact_than_eager_passes_with_the_oracle_and_cheaper_than_eager_does_not():
    torch.manual_seed(0)
    x, y, z = (torch.randn(4096, dtype=torch.bfloat16) * s for s in (100, 100, 1))
    eager = (x + y) - x - z
    oracle = (x.double() + y.double()) - x.double() - z.double()
    exact = oracle.to(torch.bfloat16)
    assert not compare([eager], [exact]).passed
    assert compare([eager], [exact], oracle=[oracle]).passed
    coarse = (oracle / 8).round().to(torch.bfloat16) * 8
    assert not compare([exact], [coarse], oracle=[oracle]).passed
    assert not compare([eager], [torch.zeros_like(eager)], oracle=[oracle]).passed


def test_what_passes_by_the_oracle_is_correct_from_the_level_that_passing_needs():
    eager, exact = torch.tensor([1.0, 1.5]).half(), torch.tensor([1.0, 1.25]).half()
    found = compare([eager], [exact], oracle=[exact.double()])
    assert found.passed and found.correct_from == -5 and found.max_abs_error == 0.25


def test_the_oracle_forgives_nothing_where_eager_is_exact_even_beside_a_large_value():
    want = torch.full((1000,), 0.1, dtype=torch.bfloat16)
    want[0] = 1000
    got = torch.zeros_like(want)
    got[0] = 1000
    assert not compare([want], [got], oracle=[want.double()]).passed
    assert not compare([want], [got], oracle=[want.double() * 1.001]).passed


def test_whole_numbers_that_are_one_float64_still_differ():
    value = torch.tensor([2**53, 7])
    found = compare([value], [value + torch.tensor([1, 0])])
    assert found.verdict is Verdict.WRONG_VALUE and found.correct_from is None


def test_merge_takes_the_worst():
    want = torch.zeros(1)
    calls = [compare([want], [torch.tensor([e])]) for e in (0.0, 5e-3, 5e-6)]
    worst = merge(calls)
    assert worst.correct_from == -2 and worst.verdict is Verdict.WRONG_VALUE and "5" in worst.detail
    assert merge([*calls, compare([want], [])]).verdict is Verdict.WRONG_SHAPE


@pytest.mark.parametrize(
    "shape, stride, order",
    [
        ((2, 3), (3, 1), (0, 1)), ((2, 3), (1, 2), (1, 0)), ((2, 1, 3), (3, 99, 1), (0, 2)), ((2, 3), (3, 0), None),
        ((2, 3), (8, 1), None), ((0, 3), (3, 1), ()), ((), (), ()),
    ],
)  # fmt: skip
def test_stride_order(shape, stride, order):
    assert stride_order(shape, stride) == order
