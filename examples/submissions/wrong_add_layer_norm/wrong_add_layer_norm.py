"""The same fusion with a mistake: the residual is subtracted, so every output has the right form and a wrong value."""

import torch
import triton
import triton.language as tl

ROWS = 8


@triton.jit
def add_layer_norm_kernel(x_ptr, y_ptr, weight_ptr, bias_ptr, out_ptr, rows, width, eps,
                          ROWS: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = (row[:, None] < rows) & (column[None, :] < width)
    offset = row[:, None].to(tl.int64) * width + column[None, :]
    x = tl.load(x_ptr + offset, mask=inside, other=0.0)
    y = tl.load(y_ptr + offset, mask=inside, other=0.0)
    # The sum is rounded to the storage type, as the unfused graph does, so that both see the same values.
    total = (x - y).to(tl.float32)
    mean = tl.sum(total, axis=1) / width
    centred = tl.where(inside, total - mean[:, None], 0.0)
    variance = tl.sum(centred * centred, axis=1) / width
    normal = centred * (1.0 / tl.sqrt(variance + eps))[:, None]
    weight = tl.load(weight_ptr + column, mask=column < width, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + column, mask=column < width, other=0.0).to(tl.float32)
    out = normal * weight[None, :] + bias[None, :]
    tl.store(out_ptr + offset, out.to(out_ptr.dtype.element_ty), mask=inside)


@torch.fx.wrap
def add_layer_norm(x, y, weight, bias, eps):
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty_like(x)
    width = x.shape[-1]
    rows = x.numel() // width
    grid = (triton.cdiv(rows, ROWS),)
    block = triton.next_power_of_2(width)
    add_layer_norm_kernel[grid](x, y, weight.contiguous(), bias.contiguous(), out, rows, width, eps, ROWS, block)
    return out


def pattern(x, y, shape, weight, bias, eps):
    total = x + y
    return torch.nn.functional.layer_norm(total, shape, weight, bias, eps)


def replacement_args(x, y, shape, weight, bias, eps):
    return (x, y, weight, bias, eps)


def replacement_func():
    return add_layer_norm
