"""Tuned kernels: configurations, heuristics, constants of kernels."""

import torch

from tests.passbench.forms import HEAD, Form, one

BODY = """
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * x, mask=at < n)


"""
RUN = """
@torch.fx.wrap
def run(x):
    out = torch.empty_like(x)
    n = x.numel()
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
    kernel[grid](x, out, n)
    return out
"""
ARGUMENTS = "def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):" + BODY

FORMS = {
    "autotune": Form(source=f"""{HEAD}
@triton.autotune(
    configs=[
        triton.Config({{"BLOCK": 64}}, num_warps=2),
        triton.Config({{"BLOCK": 128}}, num_warps=4, num_stages=2),
    ],
    key=["n"],
)
@triton.jit
{ARGUMENTS}{RUN}""", eager=torch.square, inputs=one),
    "autotune_listed": Form(source=f"""{HEAD}
def get_configs():
    return [triton.Config({{"BLOCK": size}}, num_warps=warps) for size in (64, 128) for warps in [2, 4] if size >= 64]


@triton.autotune(configs=get_configs(), key=["n"])
@triton.jit
{ARGUMENTS}{RUN}""", eager=torch.square, inputs=one),
    "autotune_product": Form(source=f"""
import itertools
{HEAD}
CONFIGS = [
    triton.Config(dict(BLOCK=block), num_warps=w, num_stages=s)
    for block, w, s in itertools.product([64, 128], [2, 4], [1, 2])
]


@triton.autotune(CONFIGS, ["n"])
@triton.jit
{ARGUMENTS}{RUN}""", eager=torch.square, inputs=one),
    "autotune_pruned": Form(source=f"""{HEAD}
def pruned(configs, named_args, **kwargs):
    kept = [config for config in configs if config.kwargs["BLOCK"] <= max(64, named_args["n"])]
    return kept or configs[:1]


@triton.autotune(
    configs=[triton.Config({{"BLOCK": 1024}}), triton.Config({{"BLOCK": 64}})],
    key=["n"],
    prune_configs_by={{"early_config_prune": pruned}},
)
@triton.jit
{ARGUMENTS}{RUN}""", eager=torch.square, inputs=one),
    "heuristics": Form(source=f"""{HEAD}
@triton.heuristics({{"BLOCK": lambda args: min(256, triton.next_power_of_2(args["n"]))}})
@triton.jit
{ARGUMENTS}{RUN}""", eager=torch.square, inputs=one),
    "heuristics_under_autotune": Form(source=f"""{HEAD}
@triton.autotune(configs=[triton.Config({{"BLOCK": 64}})], key=["n"])
@triton.heuristics({{"EVEN": lambda args: args["n"] % args["BLOCK"] == 0}})
@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out_ptr + at, tl.load(x_ptr + at) * tl.load(x_ptr + at))
    else:
        x = tl.load(x_ptr + at, mask=at < n)
        tl.store(out_ptr + at, x * x, mask=at < n)

{RUN}""", eager=torch.square, inputs=one),
    "jit_with_options": Form(source=f"""{HEAD}
@triton.jit(do_not_specialize=["n"], debug=False)
{ARGUMENTS}{RUN.replace("kernel[grid](x, out, n)", "kernel[grid](x, out, n, BLOCK=64)")}""",
                             eager=torch.square, inputs=one),
    "constant_of_a_module": Form(source=f"""{HEAD}
SCALE: tl.constexpr = tl.constexpr(1)
LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def power(x, SCALE: tl.constexpr):
    return x * x * SCALE


@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    "Squares."
    at = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    x = x + 0.0 * LOG2E
    # each value by itself
    tl.store(out_ptr + at, power(x, SCALE), mask=at < n)

{RUN.replace("kernel[grid](x, out, n)", "kernel[grid](x, out, n, BLOCK=64)")}""", eager=torch.square, inputs=one),
    "language_names": Form(source="""
import torch
import triton
from triton import cdiv, jit
from triton import language as tl
from triton.language import arange, constexpr, load, program_id, store


@jit
def kernel(x_ptr, out_ptr, n, BLOCK: constexpr):
    at = program_id(0) * BLOCK + arange(0, BLOCK)
    x = load(x_ptr + at, mask=at < n)
    store(out_ptr + at, tl.math.exp2(x), mask=at < n)


@torch.fx.wrap
def run(x):
    out = torch.empty_like(x)
    kernel[(cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out
""", eager=torch.exp2, inputs=one),
}  # fmt: skip
