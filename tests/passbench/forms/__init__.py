"""Honest replacement functions in the forms in which people and models write them, with inputs and what they must give.

`all_forms()` -> name -> Form. A form's source is a module with a function `run`; the tests compile it as the grader
does and compare what it computes with `eager`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

HEAD = """
import math

import torch
import triton
import triton.language as tl


"""
ADD = """
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside)
    y = tl.load(y_ptr + at, mask=inside)
    tl.store(out_ptr + at, x + y, mask=inside)


"""
UNARY = """
@triton.jit
def square_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside).to(tl.float32)
    tl.store(out_ptr + at, (x * x).to(out_ptr.dtype.element_ty), mask=inside)


"""
ROWS = """
@triton.jit
def row_sum_kernel(x_ptr, out_ptr, stride, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + column, mask=column < width, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(x, axis=0).to(out_ptr.dtype.element_ty))


"""


def two() -> tuple[torch.Tensor, torch.Tensor]:
    """Two inputs of one shape."""
    return torch.randn(6, 40), torch.randn(6, 40)


def one() -> tuple[torch.Tensor]:
    """One input."""
    return (torch.randn(6, 40),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One replacement function."""

    source: str
    """The module."""
    eager: Callable[..., Any]
    """What `run` must give."""
    inputs: Callable[[], tuple[Any, ...]] = two
    """Arguments of a call."""
    beside: dict[str, str] = field(default_factory=dict)
    """Other modules of the folder: path -> text."""


def all_forms() -> dict[str, Form]:
    """Every form by name."""
    from tests.passbench.forms import caches, dispatch, layouts, pointwise, reductions, tuned

    found: dict[str, Form] = {}
    for part in (pointwise, reductions, layouts, dispatch, caches, tuned):
        found.update({f"{part.__name__.rpartition('.')[2]}.{name}": form for name, form in part.FORMS.items()})
    return found
