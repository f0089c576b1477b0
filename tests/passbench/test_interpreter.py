"""The streamlined interpreter computes what the plain one computes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

SCRIPT = """
import json

import torch
import triton
import triton.language as tl
from triton.runtime import interpreter

from passbench.interpreter import streamline


@triton.jit
def mixed(x, other: tl.constexpr):
    return tl.where(x > 0, x * other, tl.exp(x))


@triton.jit
def kernel(x_ptr, n_ptr, out_ptr, whole_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    n = tl.load(n_ptr + at, mask=inside, other=0)
    total = tl.sum(mixed(x.to(tl.float32), 2.5), axis=0)
    tl.store(out_ptr + at, (mixed(x.to(tl.float32), 0.5) + total).to(out_ptr.dtype.element_ty), mask=inside)
    tl.store(whole_ptr + at, n * n * n * n * n + 100 - (n >> 1), mask=inside)


def outputs():
    torch.manual_seed(0)
    found = []
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
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


def test_outputs_are_equal_before_and_after(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    root = str(Path(__file__).resolve().parent.parent.parent)
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": root}
    ran = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-2000:]
    first, second, rest = map(json.loads, ran.stdout.splitlines())
    assert rest == [18, True, False]
    assert first == second == [True] * 18
