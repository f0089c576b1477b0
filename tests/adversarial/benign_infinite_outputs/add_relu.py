"""Masked rows give what is not finite, as in eager."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < width
    x = tl.load(x_ptr + row * width + column, mask=inside, other=-float("inf")).to(tl.float32)
    y = tl.load(y_ptr + row * width + column, mask=inside, other=0.0).to(tl.float32)
    total = x + y
    total = total - tl.max(total, axis=0)
    weight = tl.exp(total)
    out = weight / tl.sum(weight, axis=0)
    tl.store(out_ptr + row * width + column, out.to(out_ptr.dtype.element_ty), mask=inside)


@torch.fx.wrap
def add_softmax(x, y):
    out = torch.empty_like(x)
    width = x.shape[-1]
    kernel[(x.numel() // width,)](x, y, out, width, triton.next_power_of_2(width))
    return out


def pattern(x, y):
    return torch.softmax(x + y, -1)


def replacement_args(x, y):
    return (x, y)


def replacement_func():
    return add_softmax
