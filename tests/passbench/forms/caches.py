"""Settings that are kept between calls, and scratch memory."""

import torch

from tests.passbench.forms import ADD, HEAD, UNARY, Form, one, two

FORMS = {
    "block_by_shape": Form(source=f"""{HEAD}{UNARY}
_BLOCKS = {{}}


def block_of(shape):
    if shape not in _BLOCKS:
        n = 1
        for size in shape:
            n *= size
        _BLOCKS[shape] = 64 if n < 1000 else 256
    return _BLOCKS[shape]


@torch.fx.wrap
def run(x):
    out = torch.empty_like(x)
    block = block_of(tuple(x.shape))
    square_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), block)
    return out
""", eager=torch.square, inputs=one),
    "settings_by_key": Form(source=f"""{HEAD}{UNARY}
CONFIGS: dict = {{}}


@torch.fx.wrap
def run(x):
    key = (x.numel(), x.dtype, str(x.device))
    config = CONFIGS.get(key)
    if config is None:
        config = {{"BLOCK": 64, "num_warps": 4}}
        CONFIGS[key] = config
    out = torch.empty_like(x)
    square_kernel[(triton.cdiv(x.numel(), config["BLOCK"]),)](x, out, x.numel(), **config)
    return out
""", eager=torch.square, inputs=one),
    "lru_cache": Form(source=f"""
from functools import lru_cache
{HEAD}{UNARY}
@lru_cache(maxsize=None)
def settings(n):
    return (128, 4) if n > 100 else (64, 2)


@torch.fx.wrap
def run(x):
    block, warps = settings(x.numel())
    out = torch.empty_like(x)
    square_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), block, num_warps=warps)
    return out
""", eager=torch.square, inputs=one),
    "launches_by_grid": Form(source=f"""{HEAD}{UNARY}
LAUNCHES = {{}}


@torch.fx.wrap
def run(x):
    grid = (triton.cdiv(x.numel(), 64),)
    if grid not in LAUNCHES:
        LAUNCHES[grid] = square_kernel[grid]
    out = torch.empty_like(x)
    LAUNCHES[grid](x, out, x.numel(), BLOCK=64)
    return out
""", eager=torch.square, inputs=one),
    "scratch_by_shape": Form(source=f"""{HEAD}{ADD}{UNARY}
SCRATCH = {{}}


@torch.fx.wrap
def run(x, y):
    if x.shape not in SCRATCH:
        SCRATCH[x.shape] = torch.empty_like(x)
    total = SCRATCH[x.shape]
    out = torch.empty_like(x)
    n = x.numel()
    add_kernel[(triton.cdiv(n, 64),)](x, y, total, n, 64)
    square_kernel[(triton.cdiv(n, 64),)](total, out, n, 64)
    return out
""", eager=lambda x, y: (x + y) ** 2, inputs=two),
    "table_filled_at_import": Form(source=f"""{HEAD}{UNARY}
SIZES = [32, 64, 128]
TABLE = {{}}
for size in SIZES:
    TABLE[size] = {{"block": size, "warps": max(1, size // 32)}}
SIZES.append(256)
TABLE.update({{256: dict(block=256, warps=8)}})


@torch.fx.wrap
def run(x):
    chosen = [size for size in SIZES if size <= max(32, x.shape[-1])][-1]
    out = torch.empty_like(x)
    square_kernel[(triton.cdiv(x.numel(), TABLE[chosen]["block"]),)](x, out, x.numel(), TABLE[chosen]["block"])
    return out
""", eager=torch.square, inputs=one),
}  # fmt: skip
