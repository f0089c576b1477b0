"""Kernels that are interpreted, and what they must give: run with TRITON_INTERPRET=1, prints name -> whether it does.

    TRITON_INTERPRET=1 python tests/passbench/interpreted.py

The right values are torch's or are written down here.
"""

import json
import warnings

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as of_cuda

from passbench.interpreter import streamline

warnings.simplefilter("ignore")
streamline()
from triton.language.extra.libdevice import tanh as imported_tanh  # noqa: E402  # after, as a kernel's module is
from triton.language.math import exp as imported_exp  # noqa: E402

BF16 = torch.bfloat16
CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


def bf16(*numbers):
    return torch.tensor(numbers, dtype=BF16)


@triton.jit
def product(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr + at) * tl.load(y_ptr + at))


@check
def one_and_a_half_times_two_is_three():
    out = bf16(0, 0)
    product[(1,)](bf16(1.5, torch.inf), bf16(2.0, 0.0), out, 2)
    return out[0] == 3.0 and bool(out[1].isnan())


@triton.jit
def stored(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr + at))


@check
def a_store_rounds_to_the_nearest_even():
    bits = torch.randint(-(2**31), 2**31, (4096,), dtype=torch.int64).to(torch.int32)
    bits[:64] = (torch.arange(64, dtype=torch.int32) << 16) | 0x3F008000  # ties
    x, out = bits.view(torch.float32), torch.zeros(4096, dtype=BF16)
    stored[(1,)](x, out, 4096)
    return torch.equal(out.nan_to_num(7.0), x.to(BF16).nan_to_num(7.0))


@check
def whole_numbers_become_bfloat16():
    found = []
    for kind in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8):
        x, out = torch.arange(0, 128).to(kind), torch.zeros(128, dtype=BF16)
        stored[(1,)](x, out, 128)
        found.append(torch.equal(out, x.to(BF16)))
    return all(found)


@triton.jit
def constants(out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.full((N,), 0.1, tl.bfloat16) + 1)
    tl.store(out_ptr + N + at, tl.zeros((N,), tl.bfloat16) - 0.1)


@check
def constants_are_bfloat16():
    out = torch.zeros(4, dtype=BF16)
    constants[(1,)](out, 2)
    tenth = torch.tensor(0.1).to(BF16)
    return torch.equal(out, torch.stack([(tenth.float() + 1).to(BF16)] * 2 + [-tenth] * 2))


@triton.jit
def reductions(x_ptr, out_ptr, whole_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr + 0, tl.sum(x, axis=0))
    tl.store(out_ptr + 1, tl.max(x, axis=0))
    tl.store(out_ptr + 2, tl.min(x))
    tl.store(whole_ptr + 0, tl.argmax(x, axis=0))
    tl.store(whole_ptr + 1, tl.argmin(x, axis=0))


@check
def reductions_of_bfloat16():
    x, out, whole = torch.randn(64).to(BF16), torch.zeros(3), torch.zeros(2, dtype=torch.int32)
    reductions[(1,)](x, out, whole, 64)
    right = [x.float().sum().to(BF16).float(), x.float().max(), x.float().min()]
    return torch.equal(out, torch.stack(right)) and whole.tolist() == [int(x.argmax()), int(x.argmin())]


@check
def reductions_leave_nan_out():
    x, out, whole = torch.randn(8), torch.zeros(3), torch.zeros(2, dtype=torch.int32)
    x[3] = torch.nan
    reductions[(1,)](x, out, whole, 8)
    kept = x[~x.isnan()]
    first = out[1] == kept.max() and out[2] == kept.min() and whole[0] == int(x.nan_to_num(-9.0).argmax())
    reductions[(1,)](torch.full((8,), torch.nan), out, whole, 8)
    return bool(first) and bool(out.isnan().all()) and bool((whole == 0).all())


@triton.jit
def _larger_size(x, i, y, j):
    takes_x = tl.abs(x) > tl.abs(y) or (tl.abs(x) == tl.abs(y) and i < j)
    return tl.where(takes_x, x, y), tl.where(takes_x, i, j)


@triton.jit
def _branching(x, y):
    if x > y:
        z = x
    else:
        z = y
    return z


@triton.jit
def _affine(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def own_reductions(x_ptr, out_ptr, whole_ptr, R: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, R)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    place = tl.broadcast_to(tl.arange(0, N)[None, :], (R, N))
    value, index = tl.reduce((x, place), 1, _larger_size)
    tl.store(out_ptr + tl.arange(0, R), value)
    tl.store(whole_ptr + tl.arange(0, R), index)
    tl.store(out_ptr + R + tl.arange(0, R), tl.reduce(x, 1, _branching))
    _, sums = tl.associative_scan((x, x), 1, _affine)
    tl.store(out_ptr + 2 * R + at, sums)
    _, sums = tl.associative_scan((x, x), 0, _affine, reverse=True)
    tl.store(out_ptr + 2 * R + R * N + at, sums)


@check
def reductions_and_scans_by_functions_of_the_kernel():
    found = []
    for kind in (torch.float32, BF16):
        x = (torch.randint(-4, 5, (4, 8)) / 4).to(kind)
        out, whole = torch.zeros(2 * 4 + 2 * 32, dtype=kind), torch.zeros(4, dtype=torch.int32)
        own_reductions[(1,)](x, out, whole, 4, 8)
        index = x.float().abs().argmax(1)
        right = [x.gather(1, index[:, None])[:, 0], x.max(1)[0]]
        for axis, way in ((1, x), (0, x.flip(0))):
            run = way.float().clone().movedim(axis, 0)
            for k in range(1, run.shape[0]):
                run[k] = run[k - 1] * way.float().movedim(axis, 0)[k] + way.float().movedim(axis, 0)[k]
            run = run.movedim(0, axis)
            right.append((run if axis else run.flip(0)).reshape(-1))
        near = torch.allclose(out.float(), torch.cat([r.float() for r in right]), rtol=4e-2 if kind is BF16 else 1e-6)
        found += [near, torch.equal(out[:8], torch.cat([*right[:2]])), torch.equal(whole.long(), index)]
    return all(found)


@triton.jit
def truths(x_ptr, out_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    inside = at < n and x > 0
    tl.store(out_ptr + at, inside)
    tl.store(out_ptr + N + at, at < n or x > 0)
    tl.store(out_ptr + 2 * N + at, not inside)
    tl.store(out_ptr + 3 * N + at, tl.where(not (at < n and (x > 0 or x < -1)), 1, 0))


@check
def and_or_not_work_on_blocks():
    x, out = torch.randn(16), torch.zeros(64, dtype=torch.int32)
    truths[(1,)](x, out, 9, 16)
    inside = torch.arange(16) < 9
    right = [inside & (x > 0), inside | (x > 0), ~(inside & (x > 0)), ~(inside & ((x > 0) | (x < -1)))]
    return torch.equal(out, torch.cat(right).int())


@triton.jit
def extremes(x_ptr, out_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, max(x, 0.0) + min(x, 1.0, -0.5))
    tl.store(out_ptr + N + at, x * min(n, 3) * max(N, 4))


@check
def min_and_max_are_tritons_on_blocks():
    x, out = torch.randn(16), torch.zeros(32)
    extremes[(1,)](x, out, 7, 16)
    return torch.equal(out, torch.cat([x.clamp(min=0) + x.clamp(max=-0.5), x * 3 * 16])) and max(2, 3) == 3


@triton.jit
def ambiguous(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    if x > 0:
        tl.store(out_ptr, 1.0)


@check
def a_block_is_neither_true_nor_false():
    try:
        ambiguous[(1,)](torch.randn(4), torch.zeros(1), 4)
    except Exception as error:
        return "neither true nor false" in str(error)
    return False


@triton.jit
def sums_in_place(out_ptr, at_ptr, x_ptr, old_ptr, N: tl.constexpr):
    lane = tl.arange(0, N)
    at, x = tl.load(at_ptr + lane), tl.load(x_ptr + lane)
    tl.store(old_ptr + lane, tl.atomic_add(out_ptr + at, x, mask=lane < N - 1))


@check
def atomic_sums_of_bfloat16():
    at, x = torch.tensor([0, 1, 0, 2, 0, 1, 3, 3]), bf16(1, 2, 3, 4, 5, 6, 7, 100)
    out, old = bf16(0.5, 0, 0, 0), torch.full((8,), -1.0).to(BF16)
    sums_in_place[(1,)](out, at, x, old, 8)
    sums_in_place[(1,)](out, at, x, old, 8)
    return out.tolist() == [18.5, 16, 8, 14] and old.tolist()[:7] == [9.5, 8, 10.5, 4, 13.5, 10, 7]


@triton.jit
def matrix_product(a_ptr, b_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))


@check
def matrix_products():
    found = []
    for kind in (BF16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2):
        a, b, out = torch.randn(32, 32).to(kind), torch.randn(32, 32).to(kind), torch.zeros(32, 32)
        matrix_product[(1,)](a, b, out, 32)
        found.append(torch.equal(out, (a.double() @ b.double()).float()))
    a, b = torch.randint(-9, 9, (32, 32), dtype=torch.int8), torch.randint(-9, 9, (32, 32), dtype=torch.int8)
    whole = torch.zeros(32, 32, dtype=torch.int32)
    matrix_product[(1,)](a, b, whole, 32)
    return all(found) and torch.equal(whole.long(), a.long() @ b.long())


@triton.jit
def through_float8(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, x.to(tl.float8e4nv).to(tl.float32))
    tl.store(out_ptr + N + at, x.to(tl.float8e5).to(tl.float16).to(tl.float32))
    tl.store(out_ptr + 2 * N + at, x.to(tl.bfloat16, fp_downcast_rounding="rtz").to(tl.float32))
    tl.store(out_ptr + 3 * N + at, x.to(tl.float16, fp_downcast_rounding="rtz").to(tl.float32))


@check
def casts_to_float8_and_toward_zero():
    x, out = torch.randn(256) * 2.0 ** torch.randint(-12, 6, (256,)), torch.zeros(4 * 256)
    through_float8[(1,)](x, out, 256)
    eight = [x.to(kind).float() for kind in (torch.float8_e4m3fn, torch.float8_e5m2)]
    cut = [(x.view(torch.int32) & ~0xFFFF).view(torch.float32)]
    half = x.to(torch.float16)
    beyond = half.float().abs() > x.abs()
    cut.append(torch.where(beyond, torch.nextafter(half, torch.zeros_like(half)), half).float())
    return torch.equal(out, torch.cat([*eight, *cut]))


@triton.jit
def ordered(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.sort(x))
    tl.store(out_ptr + N + at, tl.sort(x, descending=True))
    tl.store(out_ptr + 2 * N + at, tl.flip(x, 0))
    tl.store(out_ptr + 3 * N + tl.arange(0, 4), tl.topk(x, 4))


@check
def sorted_blocks_of_bfloat16():
    x, out = torch.randn(32).to(BF16), torch.zeros(100, dtype=BF16)
    ordered[(1,)](x, out, 32)
    up = x.sort()[0]
    return torch.equal(out, torch.cat([up, up.flip(0), x.flip(0), up.flip(0)[:4]]))


@triton.jit
def library(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.extra.cuda.libdevice.tanh(x))
    tl.store(out_ptr + N + at, libdevice.tanh(x))
    tl.store(out_ptr + 2 * N + at, of_cuda.tanh(x))
    tl.store(out_ptr + 3 * N + at, imported_tanh(x))
    tl.store(out_ptr + 4 * N + at, libdevice.pow(x * x, 0.5))
    tl.store(out_ptr + 5 * N + at, libdevice.isnan(x).to(tl.float32))


@check
def the_device_library_by_all_its_names():
    x, out = torch.randn(64), torch.zeros(6 * 64)
    library[(1,)](x, out, 64)
    right = torch.tanh(x.double()).float()
    return torch.equal(out, torch.cat([*[right] * 4, (x * x).double().sqrt().float(), torch.zeros(64)]))


@triton.jit
def functions(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, imported_exp(x))
    tl.store(out_ptr + N + at, tl.exp(x))
    tl.store(out_ptr + 2 * N + at, x.exp())
    tl.store(out_ptr + 3 * N + at, tl.math.rsqrt(x * x + 1.0))


@check
def functions_round_once():
    x, out = torch.randn(64), torch.zeros(4 * 64)
    functions[(1,)](x, out, 64)
    return torch.equal(out, torch.cat([*[torch.exp(x.double()).float()] * 3, (x * x + 1.0).double().rsqrt().float()]))


@triton.jit
def nothing_of_the_interpreter(out_ptr):
    tl.store(out_ptr, np.float32(1.0))  # noqa: F821


@check
def a_kernel_sees_only_its_module():
    try:
        nothing_of_the_interpreter[(1,)](torch.zeros(1))
    except Exception as error:
        return "name 'np' is not defined" in str(error)
    return False


if __name__ == "__main__":
    torch.manual_seed(0)
    print(json.dumps({name: bool(function()) for name, function in CHECKS.items()}))
