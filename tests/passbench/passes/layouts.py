"""Passes that move elements: permutes, views, concatenation, splits, gathers, pooling, padding."""

import torch
import torch.nn.functional as F

from tests.passbench.forms import one, two
from tests.passbench.passes import CONTRACT, HEAD, Pass


def gated(x: torch.Tensor) -> torch.Tensor:
    """One half times the silu of the other."""
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up


PASSES = {
    "permuted_copy": Pass(
        source=HEAD
        + """
def pattern(x):
    y = x.permute(0, 2, 1)
    return y.contiguous()


@triton.jit
def transpose_kernel(x_ptr, y_ptr, M, N, sxb, sxm, sxn, BM: tl.constexpr, BN: tl.constexpr):
    b = tl.program_id(2)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (m[:, None] < M) & (n[None, :] < N)
    t = tl.load(x_ptr + b * sxb + m[:, None] * sxm + n[None, :] * sxn, mask=mask)
    tl.store(y_ptr + b * M * N + n[:, None] * M + m[None, :], tl.trans(t), mask=(n[:, None] < N) & (m[None, :] < M))


@torch.fx.wrap
def transpose_last(x):
    B, M, N = x.size()
    y = torch.empty((B, N, M), dtype=x.dtype, device=x.device)
    transpose_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 16), B)](x, y, M, N, *x.stride(), BM=16, BN=16)
    return y
"""
        + CONTRACT.format(arguments="x", function="transpose_last"),
        eager=lambda x: x.permute(0, 2, 1).contiguous(),
        inputs=lambda: (torch.randn(2, 5, 18),),
    ),
    "heads_split": Pass(
        source=HEAD
        + """
def pattern(x):
    v = x.view(2, 6, 4, 8)
    return v.transpose(1, 2)


def replacement_args(x):
    return (x,)


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@torch.fx.wrap
def split_heads(x):
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), 256)
    b, s, hidden = x.shape
    return out.view(b, s, -1, 8).transpose(1, 2)


def replacement_func():
    return split_heads
""",
        eager=lambda x: x.view(2, 6, 4, 8).transpose(1, 2),
        inputs=lambda: (torch.randn(2, 6, 32),),
    ),
    "concatenated": Pass(
        source=HEAD
        + """
def pattern(a, b):
    return torch.cat((a, b), dim=-1)


@triton.jit
def cat_kernel(a_ptr, b_ptr, o_ptr, NA, NB, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    from_a = c < NA
    from_b = (c >= NA) & (c < NA + NB)
    a = tl.load(a_ptr + r * NA + c, mask=from_a, other=0.0)
    b = tl.load(b_ptr + r * NB + (c - NA), mask=from_b, other=0.0)
    tl.store(o_ptr + r * (NA + NB) + c, tl.where(from_a, a, b), mask=from_a | from_b)


@torch.fx.wrap
def cat_last(a, b):
    shape = list(a.shape)
    shape[-1] += b.shape[-1]
    out = torch.empty(shape, dtype=a.dtype, device=a.device)
    rows = out.numel() // shape[-1]
    cat_kernel[(rows, triton.cdiv(shape[-1], 32))](a, b, out, a.shape[-1], b.shape[-1], BLOCK=32)
    return out
"""
        + CONTRACT.format(arguments="a, b", function="cat_last"),
        eager=lambda a, b: torch.cat((a, b), dim=-1),
        inputs=lambda: (torch.randn(6, 40), torch.randn(6, 24)),
    ),
    "gated_halves": Pass(
        source=HEAD
        + """
def pattern(x):
    chunk = x.chunk(2, dim=-1)
    gate = chunk[0]
    up = chunk[1]
    return torch.nn.functional.silu(gate) * up


@triton.jit
def swiglu_kernel(x_ptr, o_ptr, half, row_stride, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m = c < half
    g = tl.load(x_ptr + r * row_stride + c, mask=m, other=0.0).to(tl.float32)
    u = tl.load(x_ptr + r * row_stride + half + c, mask=m, other=0.0).to(tl.float32)
    tl.store(o_ptr + r * half + c, (g * tl.sigmoid(g) * u).to(o_ptr.dtype.element_ty), mask=m)


@torch.fx.wrap
def swiglu(x):
    *batch, width = x.shape
    half = width // 2
    out = torch.empty(*batch, half, dtype=x.dtype, device=x.device)
    rows = math.prod(batch) if batch else 1
    swiglu_kernel[(rows, triton.cdiv(half, 64))](x, out, half, width, BLOCK=64)
    return out
"""
        + CONTRACT.format(arguments="x", function="swiglu"),
        eager=gated,
        inputs=one,
    ),
    "rotary": Pass(
        source=HEAD
        + """
def pattern(q, cos, sin):
    a = q * cos
    x1 = q[..., :8]
    x2 = q[..., 8:]
    n = -x2
    r = torch.cat((n, x1), dim=-1)
    b = r * sin
    return a + b


@triton.jit
def rope_kernel(q_ptr, cos_ptr, sin_ptr, o_ptr, S, D: tl.constexpr):
    row = tl.program_id(0)
    s = row % S
    d = tl.arange(0, D)
    half: tl.constexpr = D // 2
    other = tl.where(d < half, d + half, d - half)
    sign = tl.where(d < half, -1.0, 1.0)
    q = tl.load(q_ptr + row * D + d)
    p = tl.load(q_ptr + row * D + other) * sign
    c, n = tl.load(cos_ptr + s * D + d), tl.load(sin_ptr + s * D + d)
    tl.store(o_ptr + row * D + d, q * c + p * n)


@torch.fx.wrap
def rope(q, cos, sin):
    B, H, S, D = q.shape
    assert D & (D - 1) == 0, "head size must be a power of two"
    q = q if q.is_contiguous() else q.contiguous()
    out = torch.empty_like(q)
    rope_kernel[(B * H * S,)](q, cos, sin, out, S, D=D)
    return out
"""
        + CONTRACT.format(arguments="q, cos, sin", function="rope"),
        eager=lambda q, c, s: q * c + torch.cat((-q[..., 8:], q[..., :8]), dim=-1) * s,
        inputs=lambda: (torch.randn(2, 3, 5, 16), torch.randn(5, 16), torch.randn(5, 16)),
    ),
    "embedding_rows": Pass(
        source=HEAD
        + """
def pattern(ids, table):
    return torch.nn.functional.embedding(ids, table, None, None, 2.0, False, False)


@triton.jit
def gather_rows(ids_ptr, t_ptr, o_ptr, width, BLOCK: tl.constexpr):
    at = tl.program_id(0)
    row = tl.load(ids_ptr + at).to(tl.int64)
    c = tl.arange(0, BLOCK)
    tl.store(o_ptr + at * width + c, tl.load(t_ptr + row * width + c, mask=c < width), mask=c < width)


@torch.fx.wrap
def embed(ids, table):
    width = table.shape[1]
    out = torch.empty(ids.shape + (width,), dtype=table.dtype, device=ids.device)
    gather_rows[(ids.numel(),)](ids, table, out, width, BLOCK=triton.next_power_of_2(width))
    return out
"""
        + CONTRACT.format(arguments="ids, table", function="embed"),
        eager=lambda i, t: F.embedding(i, t, None, None, 2.0, False, False),
        inputs=lambda: (torch.randint(0, 11, (2, 7)), torch.randn(11, 24)),
    ),
    "pooled_two_by_two": Pass(
        source=HEAD
        + """
def pattern(x):
    return torch.nn.functional.max_pool2d(x, 2, 2, 0, 1, ceil_mode=False, return_indices=False)


@triton.jit
def pool_kernel(x_ptr, o_ptr, W, OW, per_image, total, in_per_image, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < total
    img, rest = i // per_image, i % per_image
    oh, ow = rest // OW, rest % OW
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    for dy in tl.static_range(2):
        for dx in tl.static_range(2):
            v = tl.load(x_ptr + img * in_per_image + (oh * 2 + dy) * W + ow * 2 + dx, mask=m, other=float("-inf"))
            best = tl.maximum(best, v)
    tl.store(o_ptr + i, best, mask=m)


@torch.fx.wrap
def pool(x):
    N, C, H, W = x.shape
    OH, OW = H // 2, W // 2
    out = torch.empty((N, C, OH, OW), device=x.device, dtype=x.dtype)
    total = out.numel()
    pool_kernel[(triton.cdiv(total, 64),)](x, out, W, OW, OH * OW, total, H * W, BLOCK=64)
    return out
"""
        + CONTRACT.format(arguments="x", function="pool"),
        eager=lambda x: F.max_pool2d(x, 2, 2, 0, 1, False, False),
        inputs=lambda: (torch.randn(2, 3, 6, 8),),
    ),
    "broadcast_by_strides": Pass(
        source=HEAD
        + """
def pattern(x, y):
    return x + y


@triton.jit
def add_broadcast(x_ptr, y_ptr, o_ptr, D1, D2, total, x0, x1, x2, y0, y1, y2, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < total
    c = i % D2
    b = (i // D2) % D1
    a = i // (D1 * D2)
    v = tl.load(x_ptr + a * x0 + b * x1 + c * x2, mask=m) + tl.load(y_ptr + a * y0 + b * y1 + c * y2, mask=m)
    tl.store(o_ptr + i, v, mask=m)


def _broadcast_shape(s1, s2):
    return tuple(max(a, b) for a, b in zip(s1, s2))


@torch.fx.wrap
def broadcast_add(x, y):
    shape = _broadcast_shape(x.shape, y.shape)
    xs, ys = x.expand(shape).stride(), y.expand(*shape).stride()
    out = torch.empty(shape, dtype=x.dtype, device=x.device)
    n = out.numel()
    add_broadcast[(triton.cdiv(n, 128),)](x, y, out, shape[1], shape[2], n, *xs, *ys, BLOCK=128)
    return out
"""
        + CONTRACT.format(arguments="x, y", function="broadcast_add"),
        eager=lambda x, y: x + y,
        inputs=lambda: (torch.randn(3, 1, 20), torch.randn(1, 7, 20)),
    ),
    "patches_flattened": Pass(
        source=HEAD
        + """
def pattern(x):
    f = x.flatten(2)
    return f.transpose(1, 2)


@triton.jit
def tile(x_ptr, y_ptr, C, L, BC: tl.constexpr, BL: tl.constexpr):
    pid_l, pid_b = tl.program_id(0), tl.program_id(1)
    x_block = tl.make_block_ptr(base=x_ptr + pid_b * C * L, shape=(C, L), strides=(L, 1), offsets=(0, pid_l * BL),
                                block_shape=(BC, BL), order=(1, 0))
    y_block = tl.make_block_ptr(base=y_ptr + pid_b * C * L, shape=(C, L), strides=(L, 1), offsets=(0, pid_l * BL),
                                block_shape=(BC, BL), order=(1, 0))
    tl.store(y_block, tl.load(x_block, boundary_check=(0, 1)), boundary_check=(0, 1))


@torch.fx.wrap
def to_tokens(x):
    B, C, H, W = x.shape
    L = H * W
    y = torch.empty_like(x)
    tile[(triton.cdiv(L, 16), B)](x, y, C, L, BC=triton.next_power_of_2(C), BL=16)
    return y.view(B, C, L).permute(0, 2, 1)
"""
        + CONTRACT.format(arguments="x", function="to_tokens"),
        eager=lambda x: x.flatten(2).transpose(1, 2),
        inputs=lambda: (torch.randn(2, 6, 5, 7),),
    ),
    "window_rolled_back": Pass(
        source=HEAD
        + """
def pattern(x):
    return torch.roll(x, (1, 2), (1, 2))


@triton.jit
def roll_kernel(x_ptr, y_ptr, H, W, C, total, SH: tl.constexpr, SW: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < total
    c = i % C
    w = (i // C) % W
    h = (i // (C * W)) % H
    b = i // (C * W * H)
    src = ((b * H + (h + H - SH) % H) * W + (w + W - SW) % W) * C + c
    tl.store(y_ptr + i, tl.load(x_ptr + src, mask=m), mask=m)


@torch.fx.wrap
def roll(x):
    y = torch.empty_like(x)
    B, H, W, C = x.shape
    roll_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, H, W, C, x.numel(), SH=1, SW=2, BLOCK=128)
    return y
"""
        + CONTRACT.format(arguments="x", function="roll"),
        eager=lambda x: torch.roll(x, (1, 2), (1, 2)),
        inputs=lambda: (torch.randn(2, 4, 5, 6),),
    ),
    "split_outputs": Pass(
        source=HEAD
        + """
def pattern(x):
    parts = torch.split(x, [16, 8, 16], dim=-1)
    q = parts[0]
    k = parts[1]
    v = parts[2]
    return q, k, v


SIZES = (16, 8, 16)


@triton.jit
def take_columns(x_ptr, o_ptr, start, width, stride, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    tl.store(o_ptr + r * width + c, tl.load(x_ptr + r * stride + start + c, mask=c < width), mask=c < width)


@torch.fx.wrap
def split_qkv(x):
    rows, total = x.shape
    outs, start = [], 0
    for width in SIZES:
        part = torch.empty((rows, width), dtype=x.dtype, device=x.device)
        take_columns[(rows,)](x, part, start, width, total, BLOCK=triton.next_power_of_2(width))
        outs.append(part)
        start += width
    return outs[0], outs[1], outs[2]
"""
        + CONTRACT.format(arguments="x", function="split_qkv"),
        eager=lambda x: torch.split(x, [16, 8, 16], dim=-1),
        inputs=one,
    ),
    "cast_on_the_way": Pass(
        source=HEAD
        + """
_TRITON_DTYPE = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}


def pattern(x, y):
    f = x.to(torch.float32)
    s = f * y
    return s.to(torch.float16)


@triton.jit
def mul_cast(x_ptr, y_ptr, o_ptr, n, OUT_DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    x = tl.cast(tl.load(x_ptr + i, mask=m), tl.float32)
    y = tl.load(y_ptr + i, mask=m).to(tl.float32)
    tl.store(o_ptr + i, (x * y).to(OUT_DTYPE), mask=m)


@torch.fx.wrap
def mul_to_half(x, y):
    out_dtype = torch.float16
    o = torch.empty(x.shape, dtype=out_dtype, device=x.device)
    mul_cast[(triton.cdiv(x.numel(), 256),)](
        x, y, o, x.numel(), OUT_DTYPE=_TRITON_DTYPE.get(out_dtype, tl.float32), BLOCK=256
    )
    return o
"""
        + CONTRACT.format(arguments="x, y", function="mul_to_half"),
        eager=lambda x, y: (x.to(torch.float32) * y).to(torch.float16),
        inputs=two,
    ),
}
