"""The interpreter of a grading computes what a GPU computes; where nothing was wrong, what the plain one computes."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.triton_numerics import DTYPES, distance, promoted, rounded

pytestmark = pytest.mark.torch
ROOT = Path(__file__).resolve().parent.parent.parent

SCRIPT = """
import json

import torch
import triton
import triton.language as tl
from triton.runtime import interpreter

from passbench.interpreter import streamline


@triton.jit
def mixed(x, other: tl.constexpr):
    return tl.where(x > 0, x * other, x - other)


@triton.jit
def kernel(x_ptr, n_ptr, out_ptr, whole_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    n = tl.load(n_ptr + at, mask=inside, other=0)
    total = tl.max(mixed(x.to(tl.float32), 2.5), axis=0)
    tl.store(out_ptr + at, (mixed(x.to(tl.float32), 0.5) / total).to(out_ptr.dtype.element_ty), mask=inside)
    tl.store(whole_ptr + at, n * n * n * n * n + 100 - (n >> 1), mask=inside)


def outputs():
    torch.manual_seed(0)
    found = []
    for dtype in (torch.float32, torch.float16, torch.float64):
        for whole in (torch.int32, torch.int64, torch.uint8):
            x, n = torch.randn(100).to(dtype), torch.randint(0, 100, (100,)).to(whole)
            out, other = torch.empty_like(x), torch.zeros(100, dtype=torch.int64)
            kernel[(4,)](x, n, out, other, 100, 32)
            found += [out, other]
    return found


plain = outputs()
unpatched = tl.load
streamline()
streamline()
for _ in range(2):
    print(json.dumps([torch.equal(a, b) for a, b in zip(plain, outputs(), strict=True)]))
print(json.dumps([len(plain), tl.load is not unpatched, interpreter.interpreter_builder.options.sanitize_overflow]))
"""


def interpreted(*command: str) -> list[object]:
    """The lines of JSON that a program prints which was started for interpreting."""
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    ran = subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_outputs_are_equal_before_and_after(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    first, second, rest = interpreted(str(script))
    assert rest == [18, True, False]
    assert first == second == [True] * 18


def test_kernels_mean_what_they_mean_compiled() -> None:
    (found,) = interpreted(str(ROOT / "tests" / "passbench" / "interpreted.py"))
    assert len(found) >= 17 and [name for name, right in found.items() if not right] == []


def test_random_expressions_are_float32_then_rounded() -> None:
    (found,) = interpreted("-m", "benchmarks.triton_numerics", "--expressions", "100", "--seed", "7", "--json")
    assert found["expressions"] == 100 and found["bfloat16"] > 50
    assert (found["wrong"], found["worst"]) == (0, []) and found["max_ulp"] <= 1


def test_the_yardstick_sees_one_unit_and_more() -> None:
    for kind in ("bf16", "fp16", "fp32"):
        one = torch.tensor([1.0, -0.0, torch.inf, torch.nan], dtype=DTYPES[kind])
        next_up = torch.nextafter(one, torch.tensor(4.0).to(one))
        next_up[2:] = one[2:]
        assert distance(one, one) == 0 and distance(one, next_up) == 1
        assert distance(one, -one) > 1000 and distance(one, one.nan_to_num(0.0)) > 1000
    assert distance(torch.tensor([3]), torch.tensor([5])) == 2
    assert promoted("bf16", "bf16") == "bf16" and promoted("bf16", "bf16", division=True) == "fp32"
    assert promoted("bf16", "fp32", numbers=(False, True)) == "bf16" and promoted("bf16", "fp16") == "fp16"
    assert rounded(torch.tensor(1.0 + 2**-8 + 2**-20), "bf16") == 1.0 + 2**-7


def test_narrow_numbers_are_those_of_torch() -> None:
    from passbench.narrow import BF16, decode, encode

    generator = torch.Generator().manual_seed(random.Random(0).randrange(2**31))
    bits = torch.randint(-(2**31), 2**31, (200_000,), generator=generator, dtype=torch.int64).to(torch.int32)
    values = bits.view(torch.float32)
    values = values[~values.isnan()]
    assert (encode(values.numpy(), BF16) == values.bfloat16().view(torch.uint16).numpy()).all()
    kinds = {"fp8e5": torch.float8_e5m2, "fp8e4nv": torch.float8_e4m3fn, "fp8e4b8": torch.float8_e4m3fnuz,
             "fp8e5b16": torch.float8_e5m2fnuz}  # fmt: skip
    codes = torch.arange(256).to(torch.uint8)
    for name, kind in kinds.items():
        right = codes.view(kind).float()
        assert torch.equal(torch.from_numpy(decode(codes.numpy(), name)).nan_to_num(7.0), right.nan_to_num(7.0))
        finite = right[right.isfinite()]
        between = (finite[:, None] + finite[None, :]).flatten() / 2  # with all ties
        near = torch.cat([between, torch.nextafter(between, torch.tensor(0.0)), values[values.abs() <= finite.max()]])
        near = near[near.abs() <= finite.max()]
        assert (encode(near.numpy(), name) == near.to(kind).view(torch.uint8).numpy()).all()
        top = decode(encode(torch.tensor([1e9, -1e9]).numpy(), name), name)
        assert top.tolist() == [float(finite.max()), -float(finite.max())]
