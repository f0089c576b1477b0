"""Passes over rows: softmax, normalisation, means, sums, scans, arg-reductions."""

import torch
import torch.nn.functional as F

from tests.passbench.forms import one
from tests.passbench.passes import CONTRACT, HEAD, Pass


def normed() -> tuple[torch.Tensor, ...]:
    """Rows, a weight and a bias."""
    return torch.randn(2, 5, 48), torch.randn(48), torch.randn(48)


def rms_normed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A root mean square norm in single precision."""
    wide = x.to(torch.float32)
    return w * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-06))


def image() -> tuple[torch.Tensor]:
    """A batch of small images."""
    return (torch.randn(2, 6, 5, 7),)


PASSES = {
    "softmax_warps_by_width": Pass(
        source=HEAD
        + """
def pattern(x):
    return torch.nn.functional.softmax(x, dim=-1)


def replacement_args(x):
    return (x,)


@triton.jit
def softmax_kernel(out_ptr, in_ptr, in_stride, out_stride, n_cols, BLOCK_SIZE: tl.constexpr):
    row_idx = tl.program_id(0)
    row_start = in_ptr + row_idx * in_stride
    col_offsets = tl.arange(0, BLOCK_SIZE)
    row = tl.load(row_start + col_offsets, mask=col_offsets < n_cols, other=-float("inf"))
    row_minus_max = row - tl.max(row, axis=0)
    numerator = tl.exp(row_minus_max)
    denominator = tl.sum(numerator, axis=0)
    tl.store(out_ptr + row_idx * out_stride + col_offsets, numerator / denominator, mask=col_offsets < n_cols)


@torch.fx.wrap
def triton_softmax(x):
    orig_shape = x.shape
    x2 = x.reshape(-1, orig_shape[-1])
    n_rows, n_cols = x2.shape
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    num_warps = 4
    if BLOCK_SIZE >= 2048:
        num_warps = 8
    if BLOCK_SIZE >= 4096:
        num_warps = 16
    y = torch.empty_like(x2)
    softmax_kernel[(n_rows,)](y, x2, x2.stride(0), y.stride(0), n_cols, num_warps=num_warps, BLOCK_SIZE=BLOCK_SIZE)
    return y.view(orig_shape)


def replacement_func():
    return triton_softmax
""",
        eager=lambda x: F.softmax(x, dim=-1),
        inputs=one,
    ),
    "scaled_masked_softmax": Pass(
        source=HEAD
        + '''
from typing import Optional, Tuple, Union


def pattern(scores, mask):
    scaled = scores / 8.0
    masked = scaled.masked_fill(mask, -10000.0)
    return masked.softmax(-1)


def replacement_args(scores, mask):
    return (scores, mask, 0.125)


@triton.jit
def masked_softmax_kernel(s_ptr, m_ptr, o_ptr, scale, N, FILL: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    inb = c < N
    s = tl.load(s_ptr + r * N + c, mask=inb, other=0.0).to(tl.float32) * scale
    hidden = tl.load(m_ptr + r * N + c, mask=inb, other=1).to(tl.int1)
    s = tl.where(hidden, FILL, s)
    s = tl.where(inb, s, float("-inf"))
    s = s - tl.max(s, 0)
    e = tl.exp(s)
    tl.store(o_ptr + r * N + c, e / tl.sum(e, 0), mask=inb)


@torch.fx.wrap
def masked_softmax(scores: torch.Tensor, mask: Optional[torch.Tensor], scale: Union[int, float] = 1.0):
    """Scale, mask and softmax."""
    N = int(scores.size(-1))
    rows = scores.numel() // N
    out = torch.empty_like(scores)
    masked_softmax_kernel[(rows,)](scores, mask, out, scale, N, FILL=-10000.0, BLOCK=triton.next_power_of_2(N))
    return out


def replacement_func():
    return masked_softmax
''',
        eager=lambda s, m: (s / 8.0).masked_fill(m, -10000.0).softmax(-1),
        inputs=lambda: (torch.randn(2, 3, 4, 20), torch.rand(2, 3, 4, 20) > 0.5),
        args=lambda s, m: (s, m, 0.125),
    ),
    "layer_norm_in_a_loop": Pass(
        source=HEAD
        + """
BLOCK_N = 16


@triton.jit
def _layer_norm_fwd(X, Y, W, B, stride, N, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    Y += row * stride
    X += row * stride
    mean = 0.0
    _mean = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        a = tl.load(X + cols, mask=cols < N, other=0.).to(tl.float32)
        _mean += a
    mean = tl.sum(_mean, axis=0) / N
    _var = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        x = tl.load(X + cols, mask=cols < N, other=0.).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.)
        _var += x * x
    var = tl.sum(_var, axis=0) / N
    rstd = 1 / tl.sqrt(var + eps)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        mask = cols < N
        w = tl.load(W + cols, mask=mask)
        b = tl.load(B + cols, mask=mask)
        x = tl.load(X + cols, mask=mask, other=0.).to(tl.float32)
        x_hat = (x - mean) * rstd
        tl.store(Y + cols, x_hat * w + b, mask=mask)


@torch.fx.wrap
def layer_norm_fwd(x, weight, bias, eps):
    x_arg = x.reshape(-1, x.shape[-1])
    M, N = x_arg.shape
    y = torch.empty_like(x)
    MAX_FUSED_SIZE = 65536 // x.element_size()
    if N > MAX_FUSED_SIZE:
        raise RuntimeError("This layer norm doesn't support feature dim >= 64KB.")
    num_warps = min(max(BLOCK_N // 256, 1), 8)
    _layer_norm_fwd[(M,)](x_arg, y, weight, bias, x_arg.stride(0), N, eps, BLOCK_SIZE=BLOCK_N, num_warps=num_warps)
    return y


def pattern(x, normalized_shape, weight, bias, eps):
    return torch.nn.functional.layer_norm(x, normalized_shape, weight, bias, eps)


def replacement_args(x, normalized_shape, weight, bias, eps):
    return (x, weight, bias, eps)


def replacement_func():
    return layer_norm_fwd
""",
        eager=lambda x, w, b: F.layer_norm(x, (48,), w, b, 1e-6),
        inputs=normed,
        args=lambda x, w, b: (x, w, b, 1e-6),
    ),
    "rms_norm": Pass(
        source=HEAD
        + """
def pattern(hidden_states, weight):
    hidden_states = hidden_states.to(torch.float32)
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    normed = hidden_states * torch.rsqrt(variance + 1e-06)
    return weight * normed


def replacement_args(hidden_states, weight):
    return (hidden_states, weight, 1e-06)


@triton.jit
def rms_norm_kernel(
    x_ptr, w_ptr, y_ptr,
    stride_row,
    hidden_size,
    eps,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK_SIZE)
    mask = offs < hidden_size
    x = tl.load(x_ptr + row * stride_row + offs, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    ms = tl.sum(x * x, axis=0) / hidden_size
    inv = tl.rsqrt(ms + eps)
    tl.store(y_ptr + row * stride_row + offs, w * (x * inv), mask=mask)


@torch.fx.wrap
def rms_norm(x, w, eps):
    *lead, hidden = x.shape
    rows = 1
    for d in lead:
        rows *= d
    y = torch.empty(x.shape, device=x.device, dtype=torch.float32)
    rms_norm_kernel[(rows,)](x, w, y, hidden, hidden, eps, BLOCK_SIZE=triton.next_power_of_2(hidden))
    return y


def replacement_func():
    return rms_norm
""",
        eager=rms_normed,
        inputs=lambda: normed()[:2],
        args=lambda x, w: (x, w, 1e-6),
    ),
    "mean_over_space": Pass(
        source=HEAD
        + """
def pattern(x):
    return x.mean((2, 3), keepdim=True)


def replacement_args(x):
    return (x,)


@triton.jit
def spatial_mean_kernel(x_ptr, out_ptr, HW, BLOCK_HW: tl.constexpr):
    pid = tl.program_id(0)
    acc = tl.zeros((BLOCK_HW,), dtype=tl.float32)
    for start in tl.range(0, HW, BLOCK_HW):
        hw = start + tl.arange(0, BLOCK_HW)
        acc += tl.load(x_ptr + pid * HW + hw, mask=hw < HW, other=0.0)
    tl.store(out_ptr + pid, (tl.sum(acc) / HW).to(out_ptr.dtype.element_ty))


@torch.fx.wrap
def spatial_mean(x):
    if x.dim() != 4:
        raise ValueError(f"expected 4D input, got {x.dim()}D: {list(x.shape)}")
    B, C, H, W = x.shape
    out = torch.empty((B, C, 1, 1), dtype=x.dtype, device=x.device)
    HW = H * W
    grid = (B * C,)
    spatial_mean_kernel[grid](x, out, HW, BLOCK_HW=max(16, min(1024, triton.next_power_of_2(HW))))
    return out


def replacement_func():
    return spatial_mean
""",
        eager=lambda x: x.mean((2, 3), keepdim=True),
        inputs=image,
    ),
    "sum_by_atomics": Pass(
        source=HEAD
        + """
@triton.jit
def column_sum(x_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (m[:, None] < M) & (n[None, :] < N)
    t = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=mask, other=0.0)
    tl.atomic_add(out_ptr + n, tl.sum(t, axis=0), mask=n < N)


@torch.fx.wrap
def sum_columns(x):
    M, N = x.shape
    out = torch.zeros(N, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 4), triton.cdiv(N, 16))
    column_sum[grid](x, out, M, N, BM=4, BN=16)
    return out


def pattern(x):
    return x.sum(0)
"""
        + CONTRACT.format(arguments="x", function="sum_columns"),
        eager=lambda x: x.sum(0),
        inputs=one,
    ),
    "scan_along_rows": Pass(
        source=HEAD
        + """
def pattern(x):
    return torch.cumsum(x, -1)


@triton.jit
def cumsum_kernel(x_ptr, y_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(axis=0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x_ptr + r * N + c, mask=c < N, other=0.0)
    tl.store(y_ptr + r * N + c, tl.cumsum(v, axis=0), mask=c < N)


@torch.fx.wrap
def cumsum_rows(x):
    y = torch.empty_like(x)
    N = x.shape[-1]
    cumsum_kernel[(x.numel() // N,)](x, y, N=N, BLOCK=triton.next_power_of_2(N))
    return y
"""
        + CONTRACT.format(arguments="x", function="cumsum_rows"),
        eager=lambda x: torch.cumsum(x, -1),
        inputs=one,
    ),
    "combined_by_own_function": Pass(
        source=HEAD
        + """
@triton.jit
def _multiply(a, b):
    return a * b


@triton.jit
def product_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + r * n + c, mask=c < n, other=1.0)
    tl.store(o_ptr + r, tl.reduce(x, 0, _multiply))


@torch.fx.wrap
def products(x):
    o = torch.empty(x.shape[:-1], dtype=x.dtype, device=x.device)
    product_kernel[o.numel(),](x, o, x.shape[-1], BLOCK=triton.next_power_of_2(x.shape[-1]))
    return o


def pattern(x):
    return x.prod(-1)
"""
        + CONTRACT.format(arguments="x", function="products"),
        eager=lambda x: x.prod(-1),
        inputs=lambda: (torch.rand(6, 12) + 0.5,),
    ),
    "place_of_the_largest": Pass(
        source=HEAD
        + """
def pattern(logits):
    return logits.argmax(dim=-1)


@triton.jit
def argmax_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + r * n + c, mask=c < n, other=float("-inf"))
    tl.store(o_ptr + r, tl.argmax(x, axis=0).to(tl.int64))


@torch.fx.wrap
def argmax_rows(logits):
    rows, n = logits.size(0), logits.size(1)
    out = torch.empty([rows], dtype=torch.int64, device=logits.device)
    argmax_kernel[(rows,)](logits, out, n, triton.next_power_of_2(n))
    return out
"""
        + CONTRACT.format(arguments="logits", function="argmax_rows"),
        eager=lambda x: x.argmax(dim=-1),
        inputs=one,
    ),
    "batch_norm_and_relu": Pass(
        source=HEAD
        + """
def pattern(x, running_mean, running_var, weight, bias):
    y = torch.nn.functional.batch_norm(x, running_mean, running_var, weight, bias, False, 0.1, 1e-05)
    z = torch.nn.functional.relu(y, inplace=True)
    return z


@triton.autotune(
    configs=[triton.Config({'BLOCK_HW': 32}), triton.Config({'BLOCK_HW': 64})],
    key=['HW', 'C'],
)
@triton.heuristics({'EVEN': lambda args: args['HW'] % args['BLOCK_HW'] == 0})
@triton.jit
def bn_relu_kernel(x_ptr, mean_ptr, var_ptr, w_ptr, b_ptr, y_ptr, C, HW, eps,
                   EVEN: tl.constexpr, BLOCK_HW: tl.constexpr):
    nc = tl.program_id(0)
    c = nc % C
    mean = tl.load(mean_ptr + c)
    inv = 1.0 / tl.sqrt(tl.load(var_ptr + c) + eps)
    scale = tl.load(w_ptr + c) * inv
    shift = tl.load(b_ptr + c) - mean * scale
    hw = tl.program_id(1) * BLOCK_HW + tl.arange(0, BLOCK_HW)
    base = nc * HW
    if EVEN:
        x = tl.load(x_ptr + base + hw)
        tl.store(y_ptr + base + hw, tl.maximum(x * scale + shift, 0.0))
    else:
        m = hw < HW
        x = tl.load(x_ptr + base + hw, mask=m, other=0.0)
        tl.store(y_ptr + base + hw, tl.maximum(x * scale + shift, 0.0), mask=m)


@torch.fx.wrap
def bn_relu(x, running_mean, running_var, weight, bias):
    N, C, H, W = x.shape
    HW = H * W
    out = torch.empty_like(x)
    dev = x.device
    mean, var, w, b = (t.to(dev) for t in (running_mean, running_var, weight, bias))
    grid = lambda META: (N * C, triton.cdiv(HW, META['BLOCK_HW']))
    bn_relu_kernel[grid](x, mean, var, w, b, out, C, HW, 1e-5)
    return out
"""
        + CONTRACT.format(arguments="x, running_mean, running_var, weight, bias", function="bn_relu"),
        eager=lambda x, m, v, w, b: F.relu(F.batch_norm(x, m, v, w, b, False, 0.1, 1e-5), inplace=True),
        inputs=lambda: (*image(), torch.randn(6), torch.rand(6) + 0.5, torch.randn(6), torch.randn(6)),
    ),
    "group_norm_of_a_silu": Pass(
        source=HEAD
        + """
from functools import lru_cache

GROUPS = 3


@lru_cache(maxsize=None)
def _block(n: int) -> int:
    return triton.next_power_of_2(n)


def pattern(x, w, b):
    n = torch.nn.functional.group_norm(x, 3, w, b, 1e-05)
    return torch.nn.functional.silu(n)


@triton.jit
def gn_silu(x_ptr, w_ptr, b_ptr, o_ptr, per_group, HW, CPG, G, eps, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    g = pid % G
    i = tl.arange(0, BLOCK)
    m = i < per_group
    x = tl.load(x_ptr + pid * per_group + i, mask=m, other=0.0).to(tl.float32)
    mu = tl.sum(x, 0) / per_group
    d = tl.where(m, x - mu, 0.0)
    rs = tl.rsqrt(tl.sum(d * d, 0) / per_group + eps)
    ch = g * CPG + i // HW
    y = d * rs * tl.load(w_ptr + ch, mask=m, other=0.0) + tl.load(b_ptr + ch, mask=m, other=0.0)
    tl.store(o_ptr + pid * per_group + i, y * tl.sigmoid(y), mask=m)


@torch.fx.wrap
def group_norm_silu(x, w, b):
    n, c, *space = x.shape
    hw = math.prod(space)
    cpg = c // GROUPS
    out = torch.empty_like(x)
    gn_silu[(n * GROUPS,)](x, w, b, out, cpg * hw, hw, cpg, GROUPS, 1e-5, BLOCK=_block(cpg * hw))
    return out
"""
        + CONTRACT.format(arguments="x, w, b", function="group_norm_silu"),
        eager=lambda x, w, b: F.silu(F.group_norm(x, 3, w, b, 1e-5)),
        inputs=lambda: (*image(), torch.randn(6), torch.randn(6)),
    ),
    "two_statistics": Pass(
        source=HEAD
        + """
def pattern(x):
    m = x.mean(-1)
    a = x.amax(-1)
    return (m, a)


@triton.jit
def mean_max_kernel(x_ptr, m_ptr, a_ptr, n, BLOCK: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, BLOCK)
    live = c < n
    x = tl.load(x_ptr + r * n + c, mask=live, other=0.0)
    tl.store(m_ptr + r, tl.sum(x, 0) / n)
    tl.store(a_ptr + r, tl.max(tl.where(live, x, float('-inf')), 0))


@torch.fx.wrap
def mean_and_max(x):
    outs = [torch.empty(x.shape[:-1], dtype=x.dtype, device=x.device) for _ in range(2)]
    n = x.shape[-1]
    mean_max_kernel[(outs[0].numel(),)](x, *outs, n, BLOCK=triton.next_power_of_2(n))
    return tuple(outs)
"""
        + CONTRACT.format(arguments="x", function="mean_and_max"),
        eager=lambda x: (x.mean(-1), x.amax(-1)),
        inputs=one,
    ),
    "l2_normalised": Pass(
        source=HEAD
        + """
def pattern(x):
    return torch.nn.functional.normalize(x, p=2, dim=-1)


@triton.jit
def l2_kernel(x_ptr, o_ptr, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    tl.static_assert(ROWS >= 1)
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, BLOCK)[None, :]
    m = (r < rows) & (c < n)
    x = tl.load(x_ptr + r * n + c, mask=m, other=0.0).to(tl.float32)
    norm = tl.sqrt(tl.sum(x * x, axis=1, keep_dims=True))
    tl.store(o_ptr + r * n + c, x / tl.maximum(norm, 1e-12), mask=m)


@torch.fx.wrap
def l2_normalize(x):
    n = x.shape[-1]
    rows = x.numel() // n
    o = torch.empty_like(x)
    ROWS = 1 if n > 512 else 2 if n > 256 else 4
    l2_kernel[(triton.cdiv(rows, ROWS),)](x, o, rows, n, ROWS, triton.next_power_of_2(n))
    return o
"""
        + CONTRACT.format(arguments="x", function="l2_normalize"),
        eager=lambda x: F.normalize(x, p=2, dim=-1),
        inputs=one,
    ),
    "log_softmax_online": Pass(
        source=HEAD
        + """
def pattern(x):
    return torch.log_softmax(x, dim=1)


@triton.jit
def log_softmax_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    m_i = float("-inf")
    l_i = 0.0
    for s in range(0, n, BLOCK):
        c = s + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + c, mask=c < n, other=float("-inf"))
        m_new = tl.maximum(m_i, tl.max(x, 0))
        l_i = l_i * tl.exp(m_i - m_new) + tl.sum(tl.exp(x - m_new), 0)
        m_i = m_new
    lse = m_i + tl.log(l_i)
    for s in range(0, n, BLOCK):
        c = s + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + c, mask=c < n)
        tl.store(y_ptr + row * n + c, x - lse, mask=c < n)


@torch.fx.wrap
def log_softmax(x):
    y, n = torch.empty_like(x), x.shape[1]
    log_softmax_kernel[(x.shape[0],)](x, y, n, BLOCK=16)
    return y
"""
        + CONTRACT.format(arguments="x", function="log_softmax"),
        eager=lambda x: torch.log_softmax(x, dim=1),
        inputs=one,
    ),
}
