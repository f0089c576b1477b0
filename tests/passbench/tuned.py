"""Autotuned kernels that are interpreted, and what they must give: run with TRITON_INTERPRET=1, prints name -> whether.

TRITON_INTERPRET=1 python tests/passbench/tuned.py
"""

import json
import warnings

import torch
import triton
import triton.language as tl

from passbench.interpreter import streamline

warnings.simplefilter("ignore")
streamline()
from passbench.autotuned import Decorator, choose, runnable  # noqa: E402

CHECKS = {}
CONFIGS = [triton.Config({"BLOCK": size}, num_warps=warps) for size, warps in ((16, 4), (32, 8), (64, 4))]


def check(function):
    CHECKS[function.__name__] = function
    return function


@triton.jit
def doubled(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, 2 * tl.load(x_ptr + at, mask=at < n), mask=at < n)
    tl.store(out_ptr + n, BLOCK, mask=tl.program_id(0) == 0)


def launched(kernel, number=0, count=100, **options):
    """What a kernel gives of its configuration of a number: whether it doubles, its block, what was told."""
    x, out = torch.randn(count), torch.zeros(count + 1)
    with choose(number) as used:
        kernel[lambda meta: (triton.cdiv(count, meta["BLOCK"]),)](x, out, count, **options)
    return torch.equal(out[:-1], 2 * x), int(out[-1]), used.valid


@check
def any_valid_configuration_can_be_chosen():
    kernel = triton.autotune(configs=CONFIGS, key=["n"])(doubled)
    told = {"doubled": [f"BLOCK: {c.kwargs['BLOCK']}, num_warps: {c.num_warps}, num_stages: 3" for c in CONFIGS]}
    return [launched(kernel, k) for k in (0, 1, 2, 7)] == [(True, size, told) for size in (16, 32, 64, 64)]


@check
def options_of_a_launch_and_an_empty_key_do_not_matter():
    kernel = triton.autotune(CONFIGS, [])(doubled)
    with_stages = [triton.Config({"BLOCK": 32}, num_warps=8, num_stages=2, num_ctas=1, maxnreg=64)]
    other = triton.autotune(with_stages, key=["n"], warmup=5, rep=10, use_cuda_graph=False)(doubled)
    return launched(kernel, count=48)[:2] == (True, 16) and launched(other, debug=False)[:2] == (True, 32)


@check
def warming_up_runs_nothing():
    kernel, out = triton.autotune(CONFIGS, key=["n"])(doubled), torch.zeros(5)
    kernel.warmup(torch.ones(4), out, 4, grid=(1,))
    kernel.run(torch.ones(4), out, 4, grid=(1,), warmup=True)
    return torch.equal(out, torch.zeros(5))


@check
def heuristics_stand_above_and_below():
    jitted = triton.jit(doubled.fn, do_not_specialize=["n"], debug=False, noinline=False)
    alone = triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})(jitted)
    two = [triton.Config({}, num_warps=4), triton.Config({}, num_warps=8)]
    below = triton.autotune(two, key=["n"])(alone)
    above = triton.heuristics({"n": lambda args: args["x_ptr"].numel()})(triton.autotune(CONFIGS, key=["n"])(jitted))
    x, out = torch.randn(40), torch.zeros(41)
    above[lambda meta: (triton.cdiv(40, meta["BLOCK"]),)](x, out)
    return (launched(alone)[:2] == (True, 128) and launched(below, 1)[:2] == (True, 128)
            and torch.equal(out[:-1], 2 * x))  # fmt: skip


@check
def pruning_leaves_configurations_out():
    def early(configs, named, **kwargs):
        assert set(named) == {"x_ptr", "out_ptr", "n"}
        return [config for config in configs if config.kwargs["BLOCK"] >= named["n"] // 4]

    def model(n, BLOCK, num_warps, **others):
        return -BLOCK

    kernel = triton.autotune(CONFIGS, key=["n"], prune_configs_by={"early_config_prune": early})(doubled)
    best = triton.autotune(CONFIGS, ["n"], {"perf_model": model, "top_k": 2})(doubled)
    nothing = triton.autotune(CONFIGS, ["n"], {"early_config_prune": lambda *_, **__: []})(doubled)
    try:
        launched(nothing)
    except Exception as error:
        refused = "no configuration" in str(error)
    return (launched(kernel)[1], launched(kernel, 1)[1], launched(best)[1], launched(best, 5)[1]) == (
        32, 64, 64, 32) and refused  # fmt: skip


@triton.jit
def added(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@check
def zeros_are_set_before_the_first_launch_of_a_key_alone():
    kernel = triton.autotune(CONFIGS, key=["n"], reset_to_zero=["out_ptr"], restore_value=["x_ptr"])(added)
    found = []
    for count in (32, 32, 16):
        x, out = torch.ones(count), torch.full((count,), 5.0)
        kernel[lambda meta, n=count: (triton.cdiv(n, meta["BLOCK"]),)](x, out, count)
        found.append(out[0].item())
    return found == [1.0, 6.0, 1.0]


@check
def hooks_of_a_configuration_run_before_every_launch():
    def hook(named):
        named["out_ptr"].zero_()
        sizes.append(named["BLOCK"])

    sizes = []
    configs = [triton.Config({"BLOCK": size}, pre_hook=hook) for size in (16, 32)]
    kernel = triton.autotune(configs, key=["n"])(added)
    found = []
    for number in (0, 0, 1):
        x, out = torch.ones(32), torch.full((32,), 5.0)
        with choose(number):
            kernel[lambda meta: (triton.cdiv(32, meta["BLOCK"]),)](x, out, 32)
        found.append(out[0].item())
    return found == [1.0, 1.0, 1.0] and sizes == [16, 16, 32]


@check
def a_hook_of_the_tuner_resets_once_a_key():
    def hook(named, reset_only=False):
        calls.append((named["BLOCK"], reset_only))

    calls = []
    kernel = triton.autotune(CONFIGS, key=["n"], pre_hook=hook, post_hook=lambda named, exception: None)(doubled)
    launched(kernel), launched(kernel), launched(kernel, count=64)
    return calls == [(16, True), (16, True)]


@triton.jit
def asserting(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, -1.0, mask=at < n)
    tl.static_assert(BLOCK > 16, "too small")
    tl.store(out_ptr + at, 2 * tl.load(x_ptr + at, mask=at < n), mask=at < n)
    tl.store(out_ptr + n, BLOCK, mask=tl.program_id(0) == 0)


@check
def a_configuration_that_asserts_is_left_out_and_leaves_no_trace():
    kernel = triton.autotune(CONFIGS, key=["n"])(asserting)
    x, out = torch.randn(40), torch.full((64,), 9.0)
    kernel[lambda meta: (1,)](x, out, 20)
    untouched = torch.equal(out[21:], torch.full((43,), 9.0)) and torch.equal(out[:20], 2 * x[:20])
    first, second = launched(kernel), launched(kernel, 1)
    alone = triton.autotune(CONFIGS[:1], key=["n"])(asserting)
    try:
        launched(alone)
    except Exception as error:
        raised = "too small" in str(error)
    return untouched and (first[:2], second[:2]) == ((True, 32), (True, 64)) and raised


@triton.jit
def failing(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK - 16)
    tl.store(out_ptr + at, tl.load(x_ptr + at))


@check
def other_errors_are_the_kernels():
    kernel = triton.autotune(CONFIGS, key=["n"])(failing)
    try:
        launched(kernel, 0)
    except Exception as error:
        return "greater than the start" in str(error)
    return False


@check
def a_parameter_given_twice_is_refused():
    kernel = triton.autotune(CONFIGS, key=["n"])(doubled)
    try:
        kernel[(1,)](torch.ones(4), torch.zeros(5), 4, BLOCK=16)
    except ValueError as error:
        return "BLOCK" in str(error)
    return False


@check
def decorators_make_a_kernel_runnable():
    decorators = [
        Decorator(name="triton.autotune", kwargs={"configs": [triton.Config({"W": 4})] * 2, "key": ["n"]}),
        Decorator(name="triton.heuristics", args=({"BLOCK": lambda args: 32},)),
    ]
    try:
        runnable(doubled, [Decorator(name="functools.cache")])
    except ValueError as error:
        refused = "functools.cache" in str(error)
    found = runnable(doubled, decorators[1:])
    return launched(found)[:2] == (True, 32) and runnable(doubled, []) is doubled and refused


@check
def two_kernels_are_told_by_name():
    one, two = triton.autotune(CONFIGS, ["n"])(doubled), triton.autotune(CONFIGS[:2], ["n"])(added)
    x, out = torch.ones(64), torch.zeros(65)
    with choose(1) as used:
        one[(4,)](x, out, 64)
        two[(4,)](x, out, 64)
    return {name: len(texts) for name, texts in used.valid.items()} == {"doubled": 3, "added": 2}


if __name__ == "__main__":
    torch.manual_seed(0)
    print(json.dumps({name: bool(function()) for name, function in CHECKS.items()}))
