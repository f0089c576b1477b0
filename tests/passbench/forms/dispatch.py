"""Several kernels behind one function: routes by text, by dtype, by shape; helpers, siblings, records."""

import torch

from tests.passbench.forms import ADD, HEAD, ROWS, UNARY, Form, one, two

BOTH = HEAD + ADD + UNARY
SHARED = {"shared.py": HEAD + UNARY + """
BLOCK_SIZE = 64
LIMIT = BLOCK_SIZE * 2


def blocks(n, block=BLOCK_SIZE):
    return (triton.cdiv(n, block),)


@torch.fx.wrap
def square_all(x, route="square"):
    if route == "square":
        out = torch.empty_like(x)
        square_kernel[blocks(x.numel())](x, out, x.numel(), BLOCK_SIZE)
        return out
    raise RuntimeError(f"unknown route {route}")
"""}  # fmt: skip

FORMS = {
    "route_text": Form(source=f"""{BOTH}
def _add(x, y):
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 64),)](x, y, out, x.numel(), 64)
    return out


def _square(x):
    out = torch.empty_like(x)
    square_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), 64)
    return out


@torch.fx.wrap
def run(*args):
    route = args[-1]
    inner = args[:-1]
    if route == "add":
        return _add(*inner)
    elif route == "square":
        return _square(inner[0])
    else:
        raise ValueError(f"Unknown route: {{route}}")
""", eager=lambda x, y, route: x + y, inputs=lambda: (*two(), "add")),
    "route_number": Form(source=f"""{BOTH}
@torch.fx.wrap
def run(x, y, route):
    out = torch.empty_like(x)
    n = x.numel()
    if route == 0:
        add_kernel[(triton.cdiv(n, 64),)](x, y, out, n, 64)
    elif route == 1:
        square_kernel[(triton.cdiv(n, 64),)](x, out, n, 64)
    return out
""", eager=lambda x, y, route: x * x, inputs=lambda: (*two(), 1)),
    "table_of_functions": Form(source=f"""{BOTH}
def add_route(x, y, n):
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(n, 64),)](x, y, out, n, 64)
    return out


def square_route(x, y, n):
    out = torch.empty_like(x)
    square_kernel[(triton.cdiv(n, 64),)](x, out, n, 64)
    return out


ROUTES = {{"add": add_route, "square": square_route}}


@torch.fx.wrap
def run(x, y, route):
    return ROUTES[route](x, y, x.numel())
""", eager=lambda x, y, route: x * x, inputs=lambda: (*two(), "square")),
    "table_of_kernels": Form(source=f"""{HEAD}{UNARY}
@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


KERNELS = {{"square": square_kernel, "double": double_kernel}}


@torch.fx.wrap
def run(x, route="double"):
    out = torch.empty_like(x)
    kernel = KERNELS.get(route, square_kernel)
    kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out
""", eager=lambda x: x * 2, inputs=one),
    "by_dtype": Form(source=f"""{HEAD}
@triton.jit
def cast_kernel(x_ptr, out_ptr, n, OUT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n).to(tl.float32)
    tl.store(out_ptr + at, (x * 2).to(OUT), mask=at < n)


TYPES = {{torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}}


@torch.fx.wrap
def run(x):
    out = torch.empty_like(x)
    cast_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), OUT=TYPES[x.dtype], BLOCK=64)
    return out
""", eager=lambda x: x * 2, inputs=lambda: (torch.randn(4, 5).half(),)),
    "dtype_number": Form(source=f"""{HEAD}
@triton.jit
def typed(x_ptr, out_ptr, n, dtype_id, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    if WIDE:
        x = x.to(tl.float32)
    tl.store(out_ptr + at, x * 2, mask=at < n)


@torch.fx.wrap
def run(x):
    dtype = x.dtype
    dtype_id = 0 if dtype == torch.float16 else (1 if dtype == torch.bfloat16 else 2)
    out = torch.empty_like(x)
    typed[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), dtype_id, 64, WIDE=dtype is not torch.float32)
    return out
""", eager=lambda x: x * 2, inputs=one),
    "by_rank": Form(source=f"""{HEAD}{ROWS}{UNARY}
@torch.fx.wrap
def run(x):
    if x.ndim == 3:
        n0, n1, n2 = x.shape
        out = torch.empty(n0, n1, n2, dtype=x.dtype, device=x.device)
    elif x.dim() in [1, 2]:
        out = torch.empty_like(x)
    else:
        return x.contiguous()
    square_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), 64)
    return out
""", eager=torch.square, inputs=lambda: (torch.randn(2, 3, 4),)),
    "sibling": Form(source="import torch\nfrom shared import square_all as run\n", eager=torch.square, inputs=one,
                    beside=SHARED),
    "pass_dir_sibling": Form(source="""
import torch
from pass_dir.shared import square_all


@torch.fx.wrap
def run(x):
    return square_all(x, "square")
""", eager=torch.square, inputs=one, beside=SHARED),
    "sibling_module": Form(source="""
import torch
import pass_dir.shared as shared


@torch.fx.wrap
def run(x):
    assert shared.LIMIT == 128
    return shared.square_all(x)
""", eager=torch.square, inputs=one, beside=SHARED),
    "siblings_kernel": Form(source="""
import torch
import triton
from .shared import BLOCK_SIZE, square_kernel


@torch.fx.wrap
def run(x):
    out = torch.empty_like(x)
    grid = (x.numel() + BLOCK_SIZE - 1) // BLOCK_SIZE
    square_kernel[(grid,)](x, out, x.numel(), BLOCK=BLOCK_SIZE)
    return out
""", eager=torch.square, inputs=one, beside=SHARED),
    "record": Form(source=f"""
from dataclasses import dataclass
from typing import NamedTuple
{HEAD}{UNARY}
@dataclass(frozen=True)
class Launch:
    block: int = 64
    warps: int = 4


class Place(NamedTuple):
    rows: int
    width: int


@torch.fx.wrap
def run(x):
    launch, place = Launch(block=128), Place(*x.shape)
    out = torch.empty_like(x)
    n = place.rows * place.width
    square_kernel[(triton.cdiv(n, launch.block),)](x, out, n, launch.block, num_warps=launch.warps)
    return out
""", eager=torch.square, inputs=one),
    "constants_in_a_class": Form(source=f"""{HEAD}{UNARY}
class Config:
    BLOCK = 64
    WARPS = 4


@torch.fx.wrap
def run(x):
    out = torch.empty_like(x)
    square_kernel[(triton.cdiv(x.numel(), Config.BLOCK),)](x, out, x.numel(), Config.BLOCK, num_warps=Config.WARPS)
    return out
""", eager=torch.square, inputs=one),
    "try_and_fall_back": Form(source=f"""{HEAD}{UNARY}
@torch.fx.wrap
def run(x):
    out = torch.empty_like(x)
    try:
        block = {{40: 64, 80: 128}}[x.shape[-1]]
    except (KeyError, IndexError) as error:
        print("no block for", error)
        block = 32
    square_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), block)
    return out
""", eager=torch.square, inputs=one),
    "optional_import": Form(source=f"""{HEAD}{UNARY}
try:
    from triton.language.extra.cuda import libdevice
    HAS_LIBDEVICE = True
except ImportError:
    HAS_LIBDEVICE = False


@torch.fx.wrap
def run(x):
    out = torch.empty_like(x)
    block = 64 if HAS_LIBDEVICE else 32
    square_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), block)
    return out
""", eager=torch.square, inputs=one),
    "prebound_launch": Form(source=f"""{HEAD}{UNARY}
_GRID = (4,)
_launch = square_kernel[_GRID]


@torch.fx.wrap
def run(x):
    out = torch.empty_like(x)
    _launch(x, out, x.numel(), BLOCK=64)
    return out
""", eager=torch.square, inputs=one),
    "unused_functions": Form(source=f"""{HEAD}{UNARY}
import functools


def reference(x):
    return (x.softmax(-1) @ x.t()).item()


class Unused:
    def __init__(self):
        self.value = functools.reduce(lambda a, b: a + b, [1, 2])


@torch.fx.wrap
def run(x):
    out = torch.empty_like(x)
    square_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), 64)
    return out


if __name__ == "__main__":
    print(run(torch.randn(3)))
""", eager=torch.square, inputs=one),
    "local_import": Form(source=f"""{HEAD}{UNARY}
def rounded(n):
    import math as m
    from triton import cdiv
    return m.ceil(cdiv(n, 64))


@torch.fx.wrap
def run(x):
    out = torch.empty_like(x)
    square_kernel[(rounded(x.numel()),)](x, out, x.numel(), 64)
    return out
""", eager=torch.square, inputs=one),
}  # fmt: skip
