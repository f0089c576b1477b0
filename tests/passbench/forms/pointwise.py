"""Pointwise kernels: how sizes, grids and outputs are made."""

import torch

from tests.passbench.forms import ADD, HEAD, UNARY, Form, one, two

add, square = torch.add, torch.square


def added(body: str, **more: object) -> Form:
    """A function of two inputs that adds."""
    return Form(source=f"{HEAD}{ADD}@torch.fx.wrap\ndef run(x, y):\n{body}", eager=add, **more)


def squared(body: str, **more: object) -> Form:
    """A function of one input that squares."""
    return Form(source=f"{HEAD}{UNARY}@torch.fx.wrap\ndef run(x):\n{body}", eager=square, inputs=one, **more)


FORMS = {
    "plain": added("""
    out = torch.empty_like(x)
    n = x.numel()
    add_kernel[(triton.cdiv(n, 128),)](x, y, out, n, BLOCK=128)
    return out
"""),
    "by_keyword": added('''
    """Adds."""
    n_elements = x.numel()
    BLOCK_SIZE = 128
    num_programs = (n_elements + BLOCK_SIZE - 1) // BLOCK_SIZE
    out = torch.empty_like(x)
    add_kernel[(num_programs,)](
        x_ptr=x, y_ptr=y, out_ptr=out,
        n=n_elements,
        BLOCK=BLOCK_SIZE,
    )
    return out
'''),
    "grid_lambda": added("""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n = out.numel()
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
    add_kernel[grid](x, y, out, n, BLOCK=64, num_warps=4)
    return out
"""),
    "grid_function": added("""
    out = torch.empty_like(x)
    total = x.numel()

    def grid(META):
        return (triton.cdiv(total, META['BLOCK']),)

    add_kernel[grid](x, y, out, total, BLOCK=256)
    return out
"""),
    "block_by_size": added("""
    n = x.numel()
    if n <= 1024:
        block, num_warps = 128, 4
    elif n <= 8192:
        block, num_warps = 512, 4
    else:
        block, num_warps = 1024, 8
    out = torch.empty_like(x)
    if n == 0:
        return out
    add_kernel[(math.ceil(n / block),)](x, y, out, n, BLOCK=block, num_warps=num_warps, num_stages=1)
    return out
"""),
    "asserts": added("""
    assert x.shape == y.shape, f"shapes differ: {x.shape} and {y.shape}"
    assert x.is_contiguous() and y.is_contiguous()
    assert x.device == y.device and x.dtype in (torch.float32, torch.float16, torch.bfloat16), "unsupported"
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 64),)](x, y, out, x.numel(), 64)
    return out
"""),
    "raises_otherwise": added("""
    if x.dtype != y.dtype:
        raise ValueError(f"dtypes differ: {x.dtype}, {y.dtype}")
    if x.numel() != y.numel():
        raise RuntimeError("sizes differ")
    out = x.new_empty(x.size())
    add_kernel[(triton.cdiv(x.nelement(), 64),)](x, y, out, x.nelement(), 64)
    return out
"""),
    "contiguous_first": added("""
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty(*x.shape, device=x.device, dtype=x.dtype)
    add_kernel[(triton.cdiv(x.numel(), 64),)](x, y, out, x.numel(), 64)
    return out
"""),
    "contiguous_where_needed": added("""
    x = x if x.is_contiguous() else x.contiguous()
    if not y.is_contiguous():
        y = y.contiguous()
    out = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    add_kernel[(triton.cdiv(x.numel(), 64),)](x, y, out, x.numel(), 64)
    return out
""", inputs=lambda: (torch.randn(6, 40), torch.randn(40, 6).t())),
    "flat_views": added("""
    flat, other = x.reshape(-1), y.view(-1)
    out = torch.zeros_like(flat)
    add_kernel[(triton.cdiv(flat.shape[0], 64),)](flat, other, out, flat.shape[0], 64)
    return out.view(x.shape)
"""),
    "annotated": added("""
    block: int = 64
    n: int = int(x.numel())
    out: torch.Tensor = torch.empty_like(x)
    grid: tuple = (int((n + block - 1) / block),)
    add_kernel[grid](x, y, out, n, block)
    return out
"""),
    "annotated_parameters": Form(source=f"""{HEAD}{ADD}
from typing import Optional, Tuple


@torch.fx.wrap
def run(x: torch.Tensor, y: Optional[torch.Tensor] = None, *, block: int = 64) -> Tuple[torch.Tensor, ...]:
    other = x if y is None else y
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), block),)](x, other, out, x.numel(), block)
    return out
""", eager=add),
    "ones_and_full": squared("""
    n = x.numel()
    scale = torch.ones((1,), dtype=x.dtype, device=x.device)
    offset = torch.full([1], 0.0, dtype=scale.dtype, device=x.device)
    assert scale.numel() == 1 and offset.dim() == 1
    out = torch.full_like(x, 0)
    square_kernel[(triton.cdiv(n, 64),)](x, out, n, 64)
    return out
"""),
    "two_launches": squared("""
    once, out = torch.empty_like(x), torch.empty_like(x)
    n = x.numel()
    for source, target in ((x, once), (x, out)):
        square_kernel[(triton.cdiv(n, 64),)](source, target, n, BLOCK=64)
    return out
"""),
    "loop_over_rows": squared("""
    rows, width = x.shape
    out = torch.empty_like(x)
    for row in range(rows):
        square_kernel[(1,)](x[row], out[row], width, BLOCK=64)
    return out
"""),
    "while_power": squared("""
    n = x.numel()
    block = 1
    while block < n and block < 1024:
        block *= 2
    out = torch.empty_like(x)
    square_kernel[((n - 1) // block + 1,)](x, out, n, block)
    return out
"""),
    "walrus_and_ternary": squared("""
    if (n := x.numel()) > 4096:
        block = 1024
    else:
        block = 256 if n > 256 else 128
    out = torch.empty_like(x)
    square_kernel[(-(-n // block),)](x, out, n, block)
    return out
"""),
    "min_max_next_power": squared("""
    n = x.numel()
    BLOCK = min(1024, max(16, triton.next_power_of_2(n)))
    warps = 8 if BLOCK >= 512 else 4
    out = torch.empty_like(x)
    square_kernel[(triton.cdiv(n, BLOCK), 1, 1)](x, out, n, BLOCK=BLOCK, num_warps=warps)
    return out
"""),
    "log_of_size": squared("""
    n = x.numel()
    block = 2 ** int(math.ceil(math.log2(n)))
    block = block if block < 2048 else 2048
    out = torch.empty_like(x)
    square_kernel[(int(math.ceil(n / float(block))),)](x, out, n, block)
    return out
"""),
    "half_computed_in_single": Form(source=f"""{HEAD}{UNARY}
@torch.fx.wrap
def run(x):
    out = torch.empty_like(x, dtype=torch.float32)
    square_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), 64)
    return out.to(x.dtype)
""", eager=square, inputs=lambda: (torch.randn(5, 8).half(),)),
    "casts": Form(source=f"""{HEAD}{UNARY}
@torch.fx.wrap
def run(x):
    wide = x.float()
    out = torch.empty_like(wide)
    square_kernel[(triton.cdiv(x.numel(), 64),)](wide, out, x.numel(), 64)
    return out.half() if x.dtype == torch.float16 else out.type_as(x)
""", eager=square, inputs=lambda: (torch.randn(5, 8).half(),)),
    "scalar_arguments": Form(source=f"""{HEAD}
@triton.jit
def scaled(x_ptr, out_ptr, scale, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, x * scale, mask=at < n)


@torch.fx.wrap
def run(x, scale, offset=0):
    factor = float(scale) * 2 - scale + offset
    out = torch.empty_like(x)
    scaled[(triton.cdiv(x.numel(), 64),)](x, out, factor, x.numel(), 64)
    return out
""", eager=lambda x, scale: x * scale, inputs=lambda: (torch.randn(6, 40), 0.5)),
    "device_context": squared("""
    out = torch.empty_like(x)
    with torch.cuda.device(x.device):
        square_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), 64)
    return out
"""),
    "both_outputs": Form(source=f"""{HEAD}{ADD}{UNARY}
@torch.fx.wrap
def run(x, y):
    total, again = torch.empty_like(x), torch.empty_like(y)
    n = x.numel()
    add_kernel[(triton.cdiv(n, 64),)](x, y, total, n, 64)
    square_kernel[(triton.cdiv(n, 64),)](total, again, n, 64)
    return total, again
""", eager=lambda x, y: (x + y, (x + y) ** 2), inputs=two),
    "list_of_outputs": Form(source=f"""{HEAD}{UNARY}
@torch.fx.wrap
def run(x, y):
    results = []
    for value in (x, y):
        out = torch.empty_like(value)
        square_kernel[(triton.cdiv(value.numel(), 64),)](value, out, value.numel(), 64)
        results.append(out)
    return tuple(results)
""", eager=lambda x, y: (x**2, y**2)),
}  # fmt: skip
