"""The call stack is at hand."""

import inspect
import torch
import triton
import triton.language as tl

CALLER = inspect.currentframe


@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, count, scale, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < count
    x = tl.load(x_ptr + offset, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + offset, mask=inside, other=0.0).to(tl.float32)
    out = tl.maximum(x + y, 0.0) * scale
    tl.store(out_ptr + offset, out.to(out_ptr.dtype.element_ty), mask=inside)


@torch.fx.wrap
def add_relu(x, y):
    out = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), 1.0, 256)
    return out


def pattern(x, y):
    return torch.relu(x + y)


def replacement_args(x, y):
    return (x, y)


def replacement_func():
    return add_relu
