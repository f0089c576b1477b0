"""Rows and reductions: widths, strides, epsilons, several blocks a row."""

import torch
from torch.nn import functional as F

from tests.passbench.forms import HEAD, ROWS, Form, one

NORM = """
@triton.jit
def norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, width, eps, BLOCK: tl.constexpr, HAS_BIAS: tl.constexpr = True):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < width
    x = tl.load(x_ptr + row * width + column, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / width
    centred = tl.where(inside, x - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / width + eps)
    out = centred * rstd * tl.load(w_ptr + column, mask=inside, other=0.0)
    if HAS_BIAS:
        out += tl.load(b_ptr + column, mask=inside, other=0.0)
    tl.store(out_ptr + row * width + column, out.to(out_ptr.dtype.element_ty), mask=inside)


"""
SOFTMAX = """
@triton.jit
def _largest(values):
    return tl.max(values, axis=0)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, stride, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + column, mask=column < width, other=-float("inf"))
    weight = tl.exp(x - _largest(x))
    tl.store(out_ptr + row * stride + column, weight / tl.sum(weight, axis=0), mask=column < width)


"""
LOOPED = """
@triton.jit
def looped_sum(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for begin in range(0, width, BLOCK):
        column = begin + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * width + column, mask=column < width, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(total, axis=0))


"""
MATMUL = """
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn,
                  BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACTIVATION: tl.constexpr):
    pm, pn = tl.program_id(0), tl.program_id(1)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        rk = k * BK + tl.arange(0, BK)
        inside_a, inside_b = (rm[:, None] < M) & (rk[None, :] < K), (rk[:, None] < K) & (rn[None, :] < N)
        a = tl.load(a_ptr + rm[:, None] * sam + rk[None, :] * sak, mask=inside_a, other=0.0)
        b = tl.load(b_ptr + rk[:, None] * sbk + rn[None, :] * sbn, mask=inside_b, other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    if ACTIVATION == "relu":
        acc = tl.maximum(acc, 0.0)
    tl.store(c_ptr + rm[:, None] * scm + rn[None, :] * scn, acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


"""


def norm_inputs():
    """Rows, weight and bias."""
    return torch.randn(3, 5, 24), torch.randn(24), torch.randn(24)


def layer_norm(x, w, b):
    """In eager mode."""
    return F.layer_norm(x, (24,), w, b, 1e-5)


def summed(body: str, **more: object) -> Form:
    """A function that sums rows."""
    return Form(
        source=f"{HEAD}{ROWS}@torch.fx.wrap\ndef run(x):\n{body}", eager=lambda x: x.sum(-1), inputs=one, **more
    )


FORMS = {
    "row_sum": summed("""
    rows, width = x.shape
    out = torch.empty((rows,), dtype=x.dtype, device=x.device)
    row_sum_kernel[(rows,)](x, out, x.stride(0), width, BLOCK=triton.next_power_of_2(width))
    return out
"""),
    "row_sum_by_product": summed("""
    width = x.shape[-1]
    rows = 1
    for size in x.shape[:-1]:
        rows *= size
    out = torch.empty(x.shape[:-1], dtype=x.dtype, device=x.device)
    row_sum_kernel[(rows,)](x, out, width, width, BLOCK=triton.next_power_of_2(width))
    return out
"""),
    "row_sum_math_prod": summed("""
    *lead, width = x.shape
    out = torch.empty(lead, dtype=x.dtype, device=x.device)
    row_sum_kernel[(math.prod(lead),)](x, out, width, width, BLOCK=triton.next_power_of_2(width))
    return out
"""),
    "keepdim_shape": Form(source=f"""{HEAD}{ROWS}
@torch.fx.wrap
def run(x):
    shape = list(x.shape)
    width = shape[-1]
    shape[-1] = 1
    out = torch.empty(tuple(shape), dtype=x.dtype, device=x.device)
    row_sum_kernel[(x.numel() // width,)](x, out, width, width, BLOCK=triton.next_power_of_2(width))
    return out
""", eager=lambda x: x.sum(-1, keepdim=True), inputs=one),
    "shape_tuple_joined": Form(source=f"""{HEAD}{ROWS}
@torch.fx.wrap
def run(x):
    width = x.size(-1)
    out = torch.empty(x.shape[:-1] + (1, 1), dtype=x.dtype, device=x.device)
    row_sum_kernel[(x.numel() // width,)](x, out, x.stride()[0], width, triton.next_power_of_2(width))
    return out
""", eager=lambda x: x.sum(-1)[..., None, None], inputs=one),
    "layer_norm": Form(source=f"""{HEAD}{NORM}
@torch.fx.wrap
def run(x, weight, bias):
    x = x.contiguous()
    N = weight.shape[0]
    M = x.numel() // N
    out = torch.empty_like(x)
    norm_kernel[(M,)](x, weight, bias, out, N, 1e-5, BLOCK=triton.next_power_of_2(N), num_warps=4)
    return out
""", eager=layer_norm, inputs=norm_inputs),
    "layer_norm_two_dimensional_view": Form(source=f"""{HEAD}{NORM}
@torch.fx.wrap
def run(x, weight, bias, eps=1e-05):
    orig_shape = x.shape
    hidden = orig_shape[-1]
    x_2d = x.view(-1, hidden)
    out = torch.empty(x_2d.shape[0], hidden, dtype=x.dtype, device=x.device)
    norm_kernel[(x_2d.shape[0],)](x_2d, weight, bias, out, hidden, eps, BLOCK=triton.next_power_of_2(hidden))
    return out.view(orig_shape)
""", eager=layer_norm, inputs=norm_inputs),
    "optional_bias": Form(source=f"""{HEAD}{NORM}
@torch.fx.wrap
def run(x, weight, bias=None):
    has_bias = bias is not None
    N = x.shape[-1]
    out = torch.empty_like(x)
    norm_kernel[(x.numel() // N,)](
        x, weight, bias if has_bias else weight, out, N, 1e-5,
        BLOCK=triton.next_power_of_2(N), HAS_BIAS=has_bias,
    )
    return out
""", eager=lambda x, w: F.layer_norm(x, (24,), w, None, 1e-5), inputs=lambda: norm_inputs()[:2]),
    "softmax_with_a_second_kernel": Form(source=f"""{HEAD}{SOFTMAX}
@torch.fx.wrap
def run(x):
    rows, cols = x.shape[0], x.shape[1]
    BLOCK = triton.next_power_of_2(cols)
    num_warps = 4
    if BLOCK >= 2048:
        num_warps = 8
    if BLOCK >= 4096:
        num_warps = 16
    y = torch.empty_like(x)
    softmax_kernel[(rows,)](x, y, x.stride(0), cols, num_warps=num_warps, BLOCK=BLOCK)
    return y
""", eager=lambda x: x.softmax(-1), inputs=one),
    "several_blocks_a_row": Form(source=f"""{HEAD}{LOOPED}
@torch.fx.wrap
def run(x):
    width = x.shape[-1]
    out = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    looped_sum[(x.shape[0],)](x, out, width, 16)
    return out
""", eager=lambda x: x.sum(-1), inputs=one),
    "matmul_with_epilogue": Form(source=f"""{HEAD}{MATMUL}
@torch.fx.wrap
def run(a, b):
    assert a.shape[1] == b.shape[0], "inner sizes differ"
    M, K = a.shape
    K, N = b.shape
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    grid = lambda META: (triton.cdiv(M, META["BM"]), triton.cdiv(N, META["BN"]))
    matmul_kernel[grid](
        a, b, c, M, N, K,
        a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0), c.stride(1),
        BM=16, BN=16, BK=16, ACTIVATION="relu",
    )
    return c
""", eager=lambda a, b: torch.relu(a @ b), inputs=lambda: (torch.randn(20, 24), torch.randn(24, 18))),
    "attention_scores": Form(source=f"""{HEAD}{SOFTMAX}
@torch.fx.wrap
def run(scores, *unused):
    B, H, T, S = scores.shape
    flat = scores.reshape(B * H * T, S)
    out = torch.empty_like(flat)
    softmax_kernel[(flat.size(0),)](flat, out, flat.stride(0), S, BLOCK=triton.next_power_of_2(S))
    return out.reshape(B, H, T, S)
""", eager=lambda x: x.softmax(-1), inputs=lambda: (torch.randn(2, 2, 3, 10),)),
    "two_dimensional_grid": Form(source=f"""{HEAD}
@triton.jit
def scale_kernel(x_ptr, s_ptr, out_ptr, C, HW, BLOCK: tl.constexpr):
    pid_c, pid_hw = tl.program_id(0), tl.program_id(1)
    at = pid_hw * BLOCK + tl.arange(0, BLOCK)
    scale = tl.load(s_ptr + pid_c % C)
    x = tl.load(x_ptr + pid_c * HW + at, mask=at < HW)
    tl.store(out_ptr + pid_c * HW + at, x * scale, mask=at < HW)


@torch.fx.wrap
def run(x, scale):
    N, C, H, W = x.shape
    HW = H * W
    out = torch.empty_like(x)
    scale_kernel[(N * C, triton.cdiv(HW, 16))](x, scale, out, C, HW, BLOCK=16)
    return out
""", eager=lambda x, s: x * s[:, None, None], inputs=lambda: (torch.randn(2, 3, 5, 5), torch.randn(3))),
}  # fmt: skip
