"""The layout rule against torch: strides of elementwise results, and what exchanging two operands changes."""

import itertools
import random

import pytest
import torch

from schemas.fx import spec_of
from schemas.layout import commutes, is_dense, is_dense_in, pointwise_strides
from schemas.roles import COMMUTATIVE

pytestmark = pytest.mark.torch


def operand(shape: list[int], rng: random.Random) -> torch.Tensor:
    """A tensor of a shape in a random layout: dense, permuted, sliced, expanded or with any strides."""
    kind = rng.randrange(6)
    if kind in (1, 2):
        order = rng.sample(range(len(shape)), len(shape))
        return torch.randn([shape[dim] for dim in order]).permute(sorted(range(len(shape)), key=order.__getitem__))
    if kind == 3:
        steps = [rng.choice((1, 1, 2, 3)) for _ in shape]
        whole = torch.randn([size * step for size, step in zip(shape, steps, strict=True)])
        return whole[tuple(slice(None, None, step) for step in steps)]
    if kind == 4:
        return torch.randn([rng.choice((size, 1)) for size in shape]).expand(shape)
    if kind == 5:
        return torch.randn(500).as_strided(shape, [rng.choice((0, 1, 2, 3, 5, 8)) for _ in shape])
    return torch.randn(shape)


def operands(rng: random.Random) -> list[torch.Tensor]:
    """One to three tensors that broadcast."""
    shape = [rng.choice((1, 1, 2, 3, 4, 5)) for _ in range(rng.randrange(6))]
    found = []
    for _ in range(rng.choice((1, 2, 2, 3))):
        own = [rng.choice((size, size, 1)) for size in shape] if rng.random() < 0.5 else shape
        found.append(operand(own[rng.randrange(len(own) + 1) if rng.random() < 0.3 else 0 :], rng))
    return found


FUNCTIONS = {1: torch.exp, 2: torch.add, 3: torch.addcmul}


def test_strides_of_results_are_those_of_torch():
    rng = random.Random(0)
    for _ in range(6000):
        given = operands(rng)
        made = FUNCTIONS[len(given)](*given)
        assert pointwise_strides(tuple(map(spec_of, given))) == made.stride(), [(x.shape, x.stride()) for x in given]


def test_empty_results_too():
    for shape, other in (
        ((3, 0, 2), (3, 1, 2)),
        ((0,), (1,)),
        ((2, 0), ()),
        ((0, 4), (4,)),
        ((3, 3, 0, 3), (3, 3, 1, 3)),
    ):
        a, b = torch.randn(shape), torch.randn(other)
        for pair in ((a, b), (b, a), (a.transpose(0, -1), b.transpose(0, -1) if b.dim() > 1 else b)):
            try:
                made = torch.add(*pair)
            except RuntimeError:
                continue
            assert pointwise_strides(tuple(map(spec_of, pair))) == made.stride()


def test_density_is_that_of_torch():
    rng = random.Random(1)
    for _ in range(2000):
        tensor = operand([rng.choice((1, 2, 3)) for _ in range(4)], rng)
        assert is_dense_in(spec_of(tensor)) == tensor.is_contiguous()
        assert is_dense_in(spec_of(tensor), (0, 2, 3, 1)) == tensor.is_contiguous(memory_format=torch.channels_last)
        assert is_dense(spec_of(tensor)) == (torch.empty_like(tensor).stride() == tensor.stride())


DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)
DTYPES = (*DTYPES, torch.complex64)
SHAPES = (((67,), (67,)), ((9, 5), (5,)), ((64,), ()), ((), ()), ((5, 1), (1, 7)), ((1,), ()))


def numbers(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Random numbers with zeros of both signs."""
    if dtype.is_complex:
        return torch.complex(numbers(shape, torch.float32), numbers(shape, torch.float32)).to(dtype)
    drawn, choice = torch.randn(shape, dtype=torch.float64) * 50, torch.randint(0, 6, shape)
    drawn = torch.where(choice == 0, torch.zeros(()), torch.where(choice == 1, -torch.zeros(()), drawn)).double()
    return (drawn if dtype.is_floating_point else drawn.abs()).to(dtype)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor, each NaN the same."""
    tensor = torch.view_as_real(tensor.contiguous()) if tensor.is_complex() else tensor
    tensor = torch.where(tensor.isnan(), torch.nan, tensor) if tensor.dtype.is_floating_point else tensor
    return tensor.contiguous().reshape(-1).view(torch.uint8)


@pytest.mark.parametrize("target", sorted(COMMUTATIVE))
def test_operands_that_commute_give_the_same_bits_in_both_orders(target: str):
    torch.manual_seed(0)
    op, seen = getattr(torch, target.removeprefix("torch.")), 0
    for left, right, (first, second) in itertools.product(DTYPES, DTYPES, SHAPES):
        a, b = numbers(first, left), numbers(second, right)
        try:
            made = op(a, b)
        except (RuntimeError, NotImplementedError):
            continue
        other = op(b, a)
        if commutes(target.rpartition(".")[2], spec_of(a), spec_of(b)):
            seen += 1
            assert (made.dtype, made.stride()) == (other.dtype, other.stride())
            assert torch.equal(bits(made), bits(other)), (left, right, first, second)
    assert seen > 50


def test_each_reason_not_to_commute_is_a_real_one():
    torch.manual_seed(0)
    w, x = torch.randn(4, 4), torch.randn(4, 4)
    zero, half, scale = torch.zeros(8), torch.randn(999).bfloat16(), torch.tensor(1.005)
    z = torch.view_as_complex(torch.randn(999, 2))
    differ = [
        ((x + w.t()).stride(), (w.t() + x).stride(), commutes("add", spec_of(x), spec_of(w.t()))),
        (1 / torch.maximum(zero, -zero), 1 / torch.maximum(-zero, zero), commutes("maximum", spec_of(x), spec_of(x))),
        (half * scale, scale * half, commutes("mul", spec_of(half), spec_of(scale))),
        (z * z.flip(0), z.flip(0) * z, commutes("mul", spec_of(z), spec_of(z))),
    ]
    for place, (one, other, merged) in enumerate(differ):
        same = torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
        assert not same and not merged, place
