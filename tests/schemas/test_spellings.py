"""Spellings that identity takes for one op, run on real tensors: same bits, dtypes, strides and sharing."""

import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch

from benchmarks.traced import looks
from schemas import roles, targets
from schemas.roles import CAST_METHODS, FUNCTION_SPELLINGS, METHODS_LIKE_FUNCTIONS, OPERATOR_SPELLINGS, spell

pytestmark = pytest.mark.torch
DTYPES = (torch.bool, torch.uint8, torch.int64, torch.bfloat16, torch.float32, torch.complex64)


def numbers(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3
    return made.to(dtype) if dtype.is_floating_point or dtype.is_complex else made.abs().round().to(dtype)


@cache
def samples(dtype: torch.dtype) -> tuple[tuple[Any, ...], ...]:
    """Arguments that some op takes."""
    return tuple(_samples(dtype))


def _samples(dtype: torch.dtype) -> Iterator[tuple[Any, ...]]:
    x, y, mask = numbers((4, 6), dtype), numbers((4, 6), dtype, 1), numbers((4, 6), torch.bool, 2)
    index, line = torch.randint(0, 4, (4, 6)), torch.tensor([2, 0, 1])
    image, weight = numbers((2, 4, 6, 6), dtype), numbers((4, 4, 3, 3), dtype)
    views = (x, x.t(), numbers((4, 12), dtype)[:, ::2])
    for view in views:
        yield from [(view,), (view, 2), (view, 2.5), (view, -1), (view, 0), (view, 1), (view, True), (view, 0, 1)]
        yield from [(view, (0, 1)), (view, [1]), (view, (6, 4)), (view, (2, 12)), (view, 2, 1), (view, 1, 0, 2)]
    yield from [
        (2, x),
        (2.5, x),
        (3, x),
        (x, y),
        (x.t(), numbers((6, 4), dtype)),
        (x, numbers((6,), dtype)),
        (x, y[0, 0]),
    ]
    yield from [(x, mask, 2), (mask, x, y), (mask, x, 1.0), (x, 0, line), (x, 1, index), (x, 1, line, True)]
    yield from [
        ([x, y],),
        ((x, y), 1),
        (x, numbers((6, 5), dtype)),
        (numbers((2, 3, 4), dtype), numbers((2, 4, 5), dtype)),
    ]
    yield from [(numbers((4, 5), dtype), x, numbers((6, 5), dtype)), (x, numbers((7, 6), dtype), numbers((7,), dtype))]
    yield from [
        (x, (1, 1)),
        (x, (1, 1), "constant", 2.0),
        (image, 2),
        (image, (2, 2), 1),
        (image, weight),
        (image, 1, 3, 2),
    ]
    yield from [
        (image, weight, None, 1, 1),
        (image[:, :, 0], weight[..., 0]),
        (image[:, :, None], weight[:, :, None]),
        (image, image, image),
    ]
    batch = numbers((2, 4, 5), dtype), numbers((2, 4, 6), dtype), numbers((2, 6, 5), dtype)
    yield from [
        batch,
        (x, [2, 4]),
        (x, 3, -1, True, True),
        (index, 8),
        (index,),
        (x, (2, 3), (0, 1)),
        (x, [0, 1], True),
    ]
    yield from [(x, 0, 1, 2), (x, -1, torch.float32), (image[0], 2), (x, 4, 1), (x, [4, 2], 1)]


def both(first: Any, second: Any, args: tuple[Any, ...]) -> tuple[Any, Any] | None:
    """What two calls make of the same arguments, with which of them they share memory; None if one refuses.

    What a call refuses no graph holds, so it cannot be mixed up with the other.
    """
    try:
        return seen(first(*args), args), seen(second(*args), args)
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, NotImplementedError):
        return None


def seen(made: Any, args: tuple[Any, ...]) -> Any:
    tensors = [made] if isinstance(made, torch.Tensor) else [m for m in made if isinstance(m, torch.Tensor)]
    given = [a.untyped_storage().data_ptr() for a in args if isinstance(a, torch.Tensor)]
    return looks(list(tensors)), [
        given.index(p) if (p := t.untyped_storage().data_ptr()) in given else -1 for t in tensors
    ]


def compared(first: Any, second: Any) -> int:
    """How many samples both forms ran on; asserts that they agree."""
    ran = 0
    for dtype in DTYPES:
        for args in samples(dtype):
            pair = both(first, second, args)
            if pair is not None:
                ran += 1
                assert pair[0] == pair[1], args
    return ran


def function_of(target: str) -> Any:
    """The function, method or operator behind a canonical target."""
    if target.startswith("torch.Tensor."):
        name = target.removeprefix("torch.Tensor.")
        return getattr(torch.Tensor, name)
    return targets.resolve(target)


@pytest.mark.parametrize("target", sorted(FUNCTION_SPELLINGS))
def test_functions_that_are_one(target: str):
    function = targets.resolve(target)
    assert function is function_of(FUNCTION_SPELLINGS[target]) or canonically_compared(target, function) > 0


def canonically_compared(target: str, function: Any) -> int:
    """As `compared`, with what identity takes a call of these arguments for."""
    ran = 0
    for dtype, args in itertools.chain.from_iterable(((d, a) for a in samples(d)) for d in DTYPES):
        attrs = {"args": [{"in": k} if isinstance(a, torch.Tensor) else a for k, a in enumerate(args)], "kwargs": {}}
        canonical, _ = spell("call_function", target, attrs, tensor=True)
        pair = both(function, function_of(canonical), args)
        if pair is not None:
            ran += 1
            assert pair[0] == pair[1], (dtype, args)
    return ran


@pytest.mark.parametrize("name", sorted(METHODS_LIKE_FUNCTIONS))
def test_methods_that_are_functions(name: str):
    target = FUNCTION_SPELLINGS.get(f"torch.{name}", f"torch.{name}")
    assert compared(function_of(f"torch.Tensor.{name}"), function_of(target)) > 0


@pytest.mark.parametrize("target", sorted(OPERATOR_SPELLINGS))
def test_operators_on_tensors(target: str):
    assert canonically_compared(target, targets.resolve(target)) > 0


def test_a_number_divided_by_a_tensor_is_not_what_div_computes():
    x = numbers((50,), torch.float32)
    assert not torch.equal(3.3 / x, torch.div(3.3, x))
    target, _ = spell(
        "call_function", "operator.truediv", {"args": [{"float": "3.3"}, {"in": 0}], "kwargs": {}}, tensor=True
    )
    assert target == "operator.truediv"


@pytest.mark.parametrize("name", sorted(CAST_METHODS))
def test_casts_are_to(name: str):
    dtype = getattr(torch, CAST_METHODS[name])
    assert compared(function_of(f"torch.Tensor.{name}"), lambda x: x.to(dtype)) > 0
    assert compared(lambda x: x.type(dtype), lambda x: x.to(dtype)) > 0


def test_functional_forms_without_their_extra_parameters():
    pairs = {
        ("relu", ()): torch.relu, ("softmax", (-1,)): torch.softmax, ("log_softmax", (0,)): torch.log_softmax,
        ("max_pool2d", (2, 2, 1)): torch.max_pool2d,
    }  # fmt: skip
    for (name, extra), plain in pairs.items():
        attrs = {"args": [{"in": 0}, *extra], "kwargs": {}}
        canonical, _ = spell("call_function", f"torch.nn.functional.{name}", attrs, tensor=True)
        assert function_of(canonical) is plain
        function = getattr(torch.nn.functional, name)
        assert (
            compared(lambda x, f=function, e=extra: f(x, *e), lambda x, f=plain, e=extra: f(x, *e))
            or name == "max_pool2d"
        )
    image = torch.randn(1, 2, 8, 8)
    assert torch.equal(torch.nn.functional.max_pool2d(image, 2, 2, 1), torch.max_pool2d(image, 2, 2, 1))


def test_lists_are_tuples_where_identity_says_so():
    assert roles.LISTS_LIKE_TUPLES
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    given = {
        "cat": ([x, y], 1),
        "stack": ([x, y], 0),
        "concat": ([x, y],),
        "sum": (x, [0, 1]),
        "mean": (x, [0]),
        "amax": (x, [1]),
        "amin": (x, [0, 1]),
        "var": (x, [0]),
        "std": (x, [1]),
        "layer_norm": (x, [4]),
        "rms_norm": (x, [4]),
        "pad": (x, [1, 1]),
        "roll": (x, [1], [0]),
    }
    assert set(given) == roles.LISTS_LIKE_TUPLES
    for name, args in given.items():
        function = getattr(torch, name, None) or getattr(torch.nn.functional, name)
        swapped = tuple(tuple(a) if isinstance(a, list) else a for a in args)
        assert looks(function(*args)) == looks(function(*swapped)), name
