"""Passes over elements: activations, biases, casts, in the spellings of many authors."""

import torch
import torch.nn.functional as F

from tests.passbench.forms import one
from tests.passbench.passes import Pass

PASSES = {
    "autotuned_six_ways": Pass(
        source='''
import torch
import triton
import triton.language as tl

# Pattern: add followed by relu
def pattern(in_0, in_1):
    tmp_0 = in_0 + in_1
    tmp_1 = torch.nn.functional.relu(tmp_0, inplace=False)
    return tmp_1


def replacement_args(in_0, in_1):
    return (in_0, in_1)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_SIZE": 128}, num_warps=2),
        triton.Config({"BLOCK_SIZE": 256}, num_warps=4),
        triton.Config({"BLOCK_SIZE": 512}, num_warps=4, num_stages=2),
        triton.Config({"BLOCK_SIZE": 1024}, num_warps=8, num_stages=3),
        triton.Config({"BLOCK_SIZE": 2048}, num_warps=8),
        triton.Config(kwargs={"BLOCK_SIZE": 4096}, num_warps=16, num_stages=1),
    ],
    key=["n_elements"],
)
@triton.jit
def fused_add_relu_kernel(
    in_0_ptr,
    in_1_ptr,
    out_ptr,
    n_elements,
    BLOCK_SIZE: tl.constexpr,
):
    """Fused add + relu."""
    pid = tl.program_id(axis=0)
    block_start = pid * BLOCK_SIZE
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    a = tl.load(in_0_ptr + offsets, mask=mask, other=0.0)
    b = tl.load(in_1_ptr + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + offsets, tl.maximum(a + b, 0.0), mask=mask)


@torch.fx.wrap
def fused_add_relu(in_0, in_1):
    n_elements = in_0.numel()
    out = torch.empty_like(in_0)
    grid = lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)
    fused_add_relu_kernel[grid](in_0, in_1, out, n_elements)
    return out


def replacement_func():
    return fused_add_relu
''',
        eager=lambda a, b: F.relu(a + b, inplace=False),
    ),
    "configs_in_a_comprehension": Pass(
        source="""
import torch
import torch.nn.functional as F
import triton
import triton.language as tl

_CONFIGS = [
    triton.Config({"XBLOCK": xb}, num_warps=w, num_stages=s)
    for xb in (256, 512, 1024)
    for w in [4, 8]
    for s in (1, 2)
    if xb // w >= 64
]


def pattern(x):
    return F.silu(x)


def replacement_args(x):
    return (x,)


@triton.autotune(configs=_CONFIGS, key=["xnumel"])
@triton.jit
def silu_kernel(x_ptr, y_ptr, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x = tl.load(x_ptr + xindex, xmask)
    xf = x.to(tl.float32)
    tl.store(y_ptr + xindex, (xf * tl.sigmoid(xf)).to(x.dtype), xmask)


@torch.fx.wrap
def triton_silu(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    silu_kernel[lambda META: (triton.cdiv(x.numel(), META['XBLOCK']), 1, 1)](x, y, x.numel())
    return y


def replacement_func():
    return triton_silu
""",
        eager=F.silu,
        inputs=one,
    ),
    "configs_from_a_function": Pass(
        source="""
from typing import List

import torch
import triton
import triton.language as tl


def get_configs() -> List[triton.Config]:
    configs = []
    for block in [64, 128]:
        for warps in [2, 4]:
            if block == 64 and warps == 4:
                continue
            configs.append(triton.Config({'BLOCK': block}, num_warps=warps))
    return configs


@triton.autotune(configs=get_configs(), key=['n'])
@triton.jit
def _mul_sigmoid(x_ptr, g_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = offs < n
    x = tl.load(x_ptr + offs, mask=m).to(tl.float32)
    g = tl.load(g_ptr + offs, mask=m).to(tl.float32)
    tl.store(o_ptr + offs, x * (1.0 / (1.0 + tl.exp(-g))), mask=m)


@torch.fx.wrap
def mul_sigmoid(x, g):
    o = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n = o.numel()
    def grid(meta):
        return (triton.cdiv(n, meta['BLOCK']),)
    _mul_sigmoid[grid](x, g, o, n)
    return o


def pattern(x, g):
    s = torch.sigmoid(g)
    return x * s


def replacement_args(x, g):
    return (x, g)


def replacement_func():
    return mul_sigmoid
""",
        eager=lambda x, g: x * torch.sigmoid(g),
    ),
    "constexpr_constants": Pass(
        source="""
import math
import torch
import triton
import triton.language as tl
from torch import Tensor

SQRT_2_OVER_PI: tl.constexpr = tl.constexpr(0.7978845608028654)
COEFF = tl.constexpr(0.044715)
LOG2E = tl.constexpr(math.log2(math.e))


@triton.jit
def _tanh(v):
    e = tl.math.exp2(-2.0 * tl.abs(v) * LOG2E)
    t = (1.0 - e) / (1.0 + e)
    return tl.where(v >= 0, t, -t)


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    inner = SQRT_2_OVER_PI * (x + COEFF * x * x * x)
    y = 0.5 * x * (1.0 + _tanh(inner))
    tl.store(out_ptr + offsets, y, mask=mask)


@torch.fx.wrap
def gelu_tanh(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    n = x.numel()
    BLOCK_SIZE = 1024 if n > 65536 else 256
    gelu_kernel[((n + BLOCK_SIZE - 1) // BLOCK_SIZE,)](x, out, n, BLOCK_SIZE=BLOCK_SIZE)
    return out


def pattern(x):
    return torch.nn.functional.gelu(x, approximate='tanh')


def replacement_args(x):
    return (x,)


def replacement_func():
    return gelu_tanh
""",
        eager=lambda x: F.gelu(x, approximate="tanh"),
        inputs=one,
    ),
    "erf_of_tl_math": Pass(
        source="""
import torch, triton
import triton.language as tl


def pattern(x, b):
    y = x + b
    return torch.nn.functional.gelu(y)


def replacement_args(x, b):
    return (x, b)


@triton.jit
def bias_gelu_kernel(x_ptr, b_ptr, out_ptr, N, total, BLOCK: tl.constexpr):
    idx = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = idx < total
    col = idx % N
    v = tl.load(x_ptr + idx, mask=ok).to(tl.float32) + tl.load(b_ptr + col, mask=ok).to(tl.float32)
    r = v * 0.5 * (1.0 + tl.math.erf(v * 0.7071067811865476))
    tl.store(out_ptr + idx, r.to(out_ptr.dtype.element_ty), mask=ok)


@torch.fx.wrap
def bias_gelu(x, b):
    assert x.is_contiguous(), "x must be contiguous"
    assert b.ndim == 1 and x.shape[-1] == b.shape[0], f"bad bias {tuple(b.shape)} for {x.shape}"
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    total, N = x.numel(), x.shape[-1]
    bias_gelu_kernel[(triton.cdiv(total, 512),)](x, b, out, N, total, BLOCK=512, num_warps=4)
    return out


def replacement_func():
    return bias_gelu
""",
        eager=lambda x, b: F.gelu(x + b),
        inputs=lambda: (torch.randn(6, 40), torch.randn(40)),
    ),
    "libdevice_from_extra": Pass(
        source="""
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


def pattern(x):
    return torch.tanh(x)


def replacement_args(x):
    return (x,)


@triton.jit
def k(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    x = tl.load(x_ptr + i, mask=m, other=0.)
    tl.store(o_ptr + i, libdevice.tanh(x.to(tl.float32)).to(x.dtype), mask=m)


@torch.fx.wrap
def run_tanh(x):
    o = torch.empty_like(x); n = x.numel(); B = 256
    k[(triton.cdiv(n, B), )](x, o, n, B)
    return o


def replacement_func(): return run_tanh
""",
        eager=torch.tanh,
        inputs=one,
    ),
    "libdevice_by_full_path": Pass(
        source="""
import torch
import triton
import triton.language as tl
import triton.language.extra.cuda.libdevice as ld


@triton.jit
def _softplus(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    x = tl.load(x_ptr + i, mask=m, other=0.0).to(tl.float32)
    y = tl.where(x > 20.0, x, ld.log1p(ld.exp(x)))
    tl.store(o_ptr + i, y, mask=m)


@torch.fx.wrap
def softplus(x):
    o = x.new_empty(x.size())
    _softplus[(max(1, -(-x.numel() // 128)),)](x, o, x.numel(), 128)
    return o


def pattern(x):
    return torch.nn.functional.softplus(x)


def replacement_args(x):
    return (x,)


def replacement_func():
    return softplus
""",
        eager=lambda x: F.softplus(x),
        inputs=one,
    ),
    "clamped_and_scaled": Pass(
        source="""
import torch
import triton
import triton.language as tl


def pattern(in_0):
    tmp_1 = in_0 + 3
    tmp_2 = torch.clamp(tmp_1, 0, 6)
    tmp_3 = tmp_2 / 6
    tmp_4 = in_0 * tmp_3
    return (tmp_4,)


def replacement_args(in_0):
    return (in_0,)


@triton.jit
def hswish(x_ptr, y_ptr, n, LO: tl.constexpr, HI: tl.constexpr, BLOCK: tl.constexpr):
    off = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
    mask = off < n
    x = tl.load(x_ptr + off, mask=mask, other=0.0, eviction_policy="evict_last")
    t = tl.clamp(x.to(tl.float32) + 3.0, LO, HI) / 6.0
    tl.store(y_ptr + off, (x * t).to(y_ptr.type.element_ty), mask=mask, cache_modifier=".wb")


@torch.fx.wrap
def hard_swish(in_0):
    out = torch.empty_like(in_0)
    N = in_0.numel()
    if N == 0:
        return (out,)
    BLOCK = min(1024, triton.next_power_of_2(N))
    hswish[(triton.cdiv(N, BLOCK),)](in_0, out, N, LO=0.0, HI=6.0, BLOCK=BLOCK)
    return (out,)


def replacement_func():
    return hard_swish
""",
        eager=lambda x: (x * (torch.clamp(x + 3, 0, 6) / 6),),
        inputs=one,
    ),
    "slope_as_an_argument": Pass(
        source="""
import torch
import triton
import triton.language as tl

DEFAULTS = dict(BLOCK=256, num_warps=4)


def pattern(x, slope):
    return torch.nn.functional.leaky_relu(x, slope, False)


def replacement_args(x, slope):
    return (x, slope)


@triton.jit
def lrelu_kernel(x_ptr, o_ptr, slope, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(o_ptr + i, tl.where(x > 0, x, x * slope), mask=i < n)


@torch.fx.wrap
def lrelu(x, slope=0.01):
    o = torch.empty_like(x)
    n = x.nelement()
    lrelu_kernel[(triton.cdiv(n, DEFAULTS["BLOCK"]),)](x, o, float(slope), n, **DEFAULTS)
    return o


def replacement_func():
    return lrelu
""",
        eager=lambda x: F.leaky_relu(x, 0.2, False),
        inputs=one,
        args=lambda x: (x, 0.2),
    ),
    "cuda_device_context": Pass(
        source='''
"""Squared relu."""
from __future__ import annotations

import torch
import triton
import triton.language as tl

__all__ = ["pattern", "replacement_args", "replacement_func"]


@triton.jit
def _kernel(X, Y, n: tl.int32, BLOCK: "tl.constexpr"):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    x = tl.load(X + o, mask=m, other=0)
    x = tl.maximum(x, 0)
    tl.store(Y + o, x * x, mask=m)


@torch.fx.wrap
def squared_relu(x: torch.Tensor) -> torch.Tensor:
    if not x.is_contiguous():
        x = x.contiguous()
    y = torch.empty_like(x)
    n = y.numel()
    with torch.cuda.device(x.device):
        _kernel[(triton.cdiv(n, 1024), 1, 1)](x, y, n, BLOCK=1024)
    return y


def pattern(x):
    r = torch.relu(x)
    return r.pow(2)


def replacement_args(x):
    return (x,)


def replacement_func():
    return squared_relu


if __name__ == "__main__":
    t = torch.randn(8, 8, device="cuda")
    print(torch.allclose(squared_relu(t), torch.relu(t) ** 2))
''',
        eager=lambda x: torch.relu(x).pow(2),
        inputs=one,
    ),
    "size_table": Pass(
        source="""
import torch
import triton
import triton.language as tl

LAUNCH = {
    "small": {"BLOCK_SIZE": 128, "num_warps": 2, "num_stages": 1},
    "medium": {"BLOCK_SIZE": 512, "num_warps": 4, "num_stages": 2},
    "large": {"BLOCK_SIZE": 1024, "num_warps": 8, "num_stages": 2},
}


def _bucket(n):
    if n < 1 << 12:
        return "small"
    if n < 1 << 18:
        return "medium"
    return "large"


@triton.jit
def exp_neg(x_ptr, y_ptr, n, BLOCK_SIZE: tl.constexpr):
    i = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, tl.exp(-x), mask=i < n)


@torch.fx.wrap
def run(x):
    n = x.numel()
    cfg = LAUNCH[_bucket(n)]
    block_size = cfg["BLOCK_SIZE"]
    y = torch.empty_like(x)
    exp_neg[(triton.cdiv(n, block_size),)](
        x, y, n,
        BLOCK_SIZE=block_size,
        num_warps=cfg["num_warps"],
        num_stages=cfg["num_stages"],
    )
    return y


def pattern(x):
    return torch.exp(-x)


def replacement_args(x):
    return (x,)


def replacement_func():
    return run
""",
        eager=lambda x: torch.exp(-x),
        inputs=one,
    ),
    "wrapped_by_name": Pass(
        source="""
import torch
import triton
import triton.language as tl
from torch import nn


def pattern(a, b):
    c = a * b
    return nn.functional.relu6(c)


def replacement_args(a, b):
    return a, b


@triton.jit
def mul_relu6_kernel(a, b, c, n, BLOCK: tl.constexpr = 256):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    live = at < n
    v = tl.load(a + at, live, 0.0) * tl.load(b + at, live, 0.0)
    v = tl.minimum(tl.maximum(v, 0.0), 6.0)
    tl.store(c + at, v, live)


def mul_relu6(a, b):
    c = torch.empty_like(a)
    mul_relu6_kernel[(triton.cdiv(a.numel(), 256),)](a, b, c, a.numel())
    return c


torch.fx.wrap("mul_relu6")


def replacement_func():
    return mul_relu6
""",
        eager=lambda a, b: F.relu6(a * b),
    ),
    "wrapped_after": Pass(
        source="""
import torch
import triton
import triton.language as tl
from torch.fx import wrap


@triton.jit
def elu_kernel(inp, outp, size, alpha: tl.constexpr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    start = tl.program_id(0) * BLOCK
    ptrs = inp + start + lane
    keep = (start + lane) < size
    v = tl.load(ptrs, mask=keep, other=0.0).to(tl.float32)
    w = tl.where(v > 0.0, v, alpha * (tl.exp(v) - 1.0))
    tl.store(outp + start + lane, w, mask=keep)


@wrap
def elu(x):
    size = x.numel()
    y = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=x.device)
    elu_kernel[(triton.cdiv(size, 128),)](x, y, size, alpha=1.0, BLOCK=128)
    return y


def pattern(x):
    return torch.nn.functional.elu(x, 1.0, False)


def replacement_args(x):
    return (x,)


def replacement_func():
    return elu
""",
        eager=lambda x: F.elu(x, 1.0, False),
        inputs=one,
    ),
}
