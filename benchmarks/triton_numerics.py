"""Random expressions over Triton's arithmetic: the interpreter of a grading against torch, rounding after every step.

    python -m benchmarks.triton_numerics --json          # expressions max_ulp wrong seconds

Each expression is three to eight steps on blocks of 16 x 16 values, mostly bfloat16, some float16, float32 and int32,
with infinities, NaN, zeros of both signs and denormal numbers among them. It is written as a kernel and interpreted; a
step's right value is computed by torch in float32 (functions, sums and matrix products in float64) and rounded once to
the type that Triton's rules of promotion give, which are written down here once more (`promoted`). `max_ulp` is the
largest distance of any value of any expression in units in the last place of its type; `wrong` counts expressions with
a value further off than one.

Writes kernels to a temporary folder, as the interpreter reads a function's source.
"""

import argparse
import importlib.util
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

SIZE = 16
BACK = 0.6
"""How often a wider result is cast to bfloat16 at once."""
FLOATS = ("bf16", "fp16", "fp32")
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "i32": torch.int32, "i1": torch.bool}
TRITON = {"bf16": "tl.bfloat16", "fp16": "tl.float16", "fp32": "tl.float32", "i32": "tl.int32", "i1": "tl.int1",
          "fp8": "tl.float8e4nv"}  # fmt: skip
INPUTS = {"a": "bf16", "b": "bf16", "c": "bf16", "h": "fp16", "f": "fp32", "n": "i32"}
NUMBERS = (0.5, 2.0, -1.5, 0.1, 3.0, 1e-3, 100.0, 1)
Tensor = torch.Tensor
Kinds = tuple[str, ...]


# --- what a step gives ----------------------------------------------------------------------------------------------
def promoted(a: str, b: str, *, division: bool = False, numbers: tuple[bool, bool] = (False, False)) -> str:
    """Triton's type of a binary operation; `numbers` says which operand is a number in the source."""
    if numbers[0] != numbers[1]:
        number, tensor = (a, b) if numbers[0] else (b, a)
        rank = {"i1": 0, "i32": 1}
        if rank.get(number, 2) <= rank.get(tensor, 2):
            return "fp32" if division and tensor in ("bf16", "fp16") else tensor
    if "fp32" in (a, b):
        return "fp32"
    if "fp16" in (a, b):
        return "fp32" if division else "fp16"
    if a == b == "bf16":
        return "fp32" if division else "bf16"
    return "fp32" if "bf16" in (a, b) else "i32"


def rounded(value: Tensor, kind: str) -> Tensor:
    """A value as float32 or float64 rounded to a type."""
    return value.to(torch.float32).to(DTYPES[kind]) if kind in ("bf16", "fp16") else value.to(DTYPES[kind])


def by_float32(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of operands that were cast to one type: computed in float32, rounded once."""

    return lambda kind, *args: rounded(function(*_cast(kind, args)), kind)


def compared(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A comparison of operands that were cast to one type."""
    return lambda kind, *args: function(*_cast(kind, args))


def _cast(kind: str, args: Sequence[Tensor]) -> list[Tensor]:
    return [rounded(arg.float(), kind).float() if kind in FLOATS else arg.to(DTYPES[kind]) for arg in args]


def by_float64(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of float32 or narrower numbers: computed in float64, rounded once."""
    return lambda kind, *args: rounded(function(*(arg.double() for arg in args)), kind)


def _clamp(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return torch.fmin(torch.fmax(x, low), high)


def _remainder(x: Tensor, y: Tensor) -> Tensor:
    """Exact; torch's own gives NaN where the quotient is large."""
    pairs = zip(x.flatten().tolist(), y.flatten().tolist(), strict=True)
    odd = [math.nan if b == 0 or not math.isfinite(a) or b != b else math.fmod(a, b) for a, b in pairs]
    return torch.tensor(odd, dtype=torch.float64).view(x.shape)


def _to_whole(kind: str, x: Tensor) -> Tensor:
    low, high = torch.tensor(-1000.0), torch.tensor(1000.0)
    return torch.trunc(_clamp(x.float(), low, high)).to(torch.int32)


def _same(x: Tensor) -> Tensor:
    return x.expand(SIZE, SIZE).contiguous()


def _fma(kind: str, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return rounded(x.double() * y.double() + z.double(), kind)


def _float8(kind: str, x: Tensor) -> Tensor:
    bound = torch.tensor(448.0)
    return _clamp(x.float(), -bound, bound).to(torch.float8_e4m3fn).to(torch.float32)


def _sigmoid(kind: str, x: Tensor) -> Tensor:
    risen = 1.0 + torch.exp(-x.double()).float()
    return 1.0 / risen


def _pick(kind: str, cond: Tensor, x: Tensor, y: Tensor) -> Tensor:
    cast = [rounded(arg.float(), kind) if kind in FLOATS else arg.to(DTYPES[kind]) for arg in (x, y)]
    return torch.where(cond, cast[0], cast[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One kind of step."""

    text: str
    """Triton's text; {0}, {1}, ... are the operands."""
    takes: tuple[Kinds, ...]
    """Which types each operand may have; ("like",) is the first operand's."""
    gives: str
    """Its type: a name, "promoted", "divided", or "like" for the first operand's."""
    right: Callable[..., Tensor]
    """The right value from the type it gives and the operands."""
    number: bool = False
    """Whether the last operand may be a number in the source."""


ANY, REAL, WHOLE, TRUTH, SINGLE = (*FLOATS, "i32"), FLOATS, ("i32",), ("i1",), ("fp32",)
NARROW = ("bf16", "fp16")
_COMPARED = {"<": torch.lt, "<=": torch.le, ">": torch.gt, ">=": torch.ge, "==": torch.eq, "!=": torch.ne}
_FUNCTIONS = {"exp": torch.exp, "exp2": torch.exp2, "log": torch.log, "log2": torch.log2, "sin": torch.sin,
              "cos": torch.cos, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "erf": torch.erf, "floor": torch.floor,
              "ceil": torch.ceil}  # fmt: skip
_LIBRARY = {"tanh": torch.tanh, "expm1": torch.expm1, "log1p": torch.log1p, "atan": torch.atan, "sinh": torch.sinh,
            "asinh": torch.asinh, "erfc": torch.erfc, "trunc": torch.trunc, "rint": torch.round,
            "fast_expf": torch.exp, "rsqrt": torch.rsqrt, "fabs:abs": torch.abs}  # fmt: skip
STEPS: tuple[Step, ...] = (
    *(Step(text=f"{{0}} {op} {{1}}", takes=(ANY, ANY), gives="promoted", right=by_float32(f), number=True)
      for op, f in (("+", torch.add), ("-", torch.sub), ("*", torch.mul)) for _ in range(3)),
    Step(text="{0} / {1}", takes=(REAL, REAL), gives="divided", right=by_float32(torch.div), number=True),
    Step(text="{0} % {1}", takes=(REAL, REAL), gives="divided", right=by_float32(_remainder), number=True),
    Step(text="tl.fdiv({0}, {1})", takes=(REAL, ("like",)), gives="like", right=by_float32(torch.div)),
    Step(text="-{0}", takes=(ANY,), gives="like", right=by_float32(torch.neg)),
    Step(text="tl.abs({0})", takes=(ANY,), gives="like", right=by_float32(torch.abs)),
    *(Step(text=f"tl.{name}({{0}}, {{1}})", takes=(REAL, REAL), gives="raised", right=by_float32(f))
      for name, f in (("maximum", torch.fmax), ("minimum", torch.fmin))),
    *(Step(text=f"tl.{name}({{0}}, {{1}}, propagate_nan=tl.PropagateNan.ALL)", takes=(REAL, REAL), gives="raised",
           right=by_float32(f)) for name, f in (("maximum", torch.maximum), ("minimum", torch.minimum))),
    Step(text="tl.clamp({0}, -1.5, 2.0)", takes=(REAL,), gives="fp32",
         right=by_float32(lambda x: _clamp(x, torch.tensor(-1.5), torch.tensor(2.0)))),
    Step(text="tl.fma({0}, {1}, {2})", takes=(REAL, ("like",), ("like",)), gives="like", right=_fma),
    *(Step(text=f"{{0}} {op} {{1}}", takes=(ANY, ANY), gives="compared", right=compared(f), number=True)
      for op, f in _COMPARED.items()),
    *(Step(text=f"{{0}} {op} {{1}}", takes=(TRUTH, TRUTH), gives="i1", right=lambda kind, x, y, f=f: f(x, y))
      for op, f in (("&", torch.logical_and), ("|", torch.logical_or), ("^", torch.logical_xor),
                    ("and", torch.logical_and), ("or", torch.logical_or))),
    Step(text="not {0}", takes=(TRUTH,), gives="i1", right=lambda kind, x: ~x),
    *(Step(text="tl.where({0}, {1}, {2})", takes=(TRUTH, ANY, ANY), gives="picked", right=_pick) for _ in range(3)),
    *(Step(text=f"{{0}}.to({TRITON[kind]})", takes=((*ANY, "i1"),), gives=kind,
           right=lambda kind, x: rounded(x.float(), kind)) for kind in ("bf16", "bf16", "fp16", "fp32")),
    Step(text="tl.clamp({0}.to(tl.float32), -1000.0, 1000.0).to(tl.int32)", takes=(REAL,), gives="i32",
         right=_to_whole),
    Step(text="tl.clamp({0}.to(tl.float32), -448.0, 448.0).to(tl.float8e4nv).to(tl.float32)", takes=(REAL,),
         gives="fp32", right=_float8),
    *(Step(text=f"tl.{name}({{0}}.to(tl.float32))", takes=(REAL,), gives="fp32", right=by_float64(f))
      for name, f in _FUNCTIONS.items()),
    *(Step(text=f"libdevice.{name.partition(':')[2] or name}({{0}}.to(tl.float32))", takes=(REAL,), gives="fp32",
           right=by_float64(f)) for name, f in _LIBRARY.items()),
    Step(text="libdevice.pow({0}.to(tl.float32), {1}.to(tl.float32))", takes=(REAL, REAL), gives="fp32",
         right=by_float64(torch.pow)),
    Step(text="tl.sigmoid({0}.to(tl.float32))", takes=(REAL,), gives="fp32", right=_sigmoid),
    *(Step(text=f"_same(tl.{name}({{0}}, axis={axis}, keep_dims=True))", takes=(REAL,), gives=gives,
           right=by_float64(lambda x, f=f, axis=axis: _same(f(x, axis))))
      for axis in (0, 1) for name, gives, f in (
          ("sum", "like", lambda x, axis: x.sum(axis, keepdim=True)),
          ("max", "fp32", lambda x, axis: torch.where(x.isnan(), -torch.inf, x).amax(axis, keepdim=True)
           .where(~x.isnan().all(axis, keepdim=True), torch.nan)),
          ("min", "fp32", lambda x, axis: torch.where(x.isnan(), torch.inf, x).amin(axis, keepdim=True)
           .where(~x.isnan().all(axis, keepdim=True), torch.nan)))),
    *(Step(text=f"tl.cumsum({{0}}, axis={axis})", takes=(REAL,), gives="run",
           right=by_float64(lambda x, axis=axis: x.cumsum(axis))) for axis in (0, 1)),
    Step(text="tl.reduce({0}, 1, _times, keep_dims=True) + {0}", takes=(NARROW,), gives="like",
         right=lambda kind, x: rounded(_product(kind, x).float() + x.float(), kind)),
    Step(text="tl.dot({0}, {1})", takes=(NARROW, ("like",)), gives="fp32", right=by_float64(torch.matmul)),
    Step(text="tl.dot({0}, {1}, input_precision='ieee')", takes=(SINGLE, SINGLE), gives="fp32",
         right=by_float64(torch.matmul)),
    Step(text="tl.trans({0})", takes=((*ANY, "i1"),), gives="like", right=lambda kind, x: x.t().contiguous()),
    Step(text="{0}.to(tl.int16, bitcast=True).to({t}, bitcast=True)", takes=(NARROW,), gives="like",
         right=lambda kind, x: x),
)  # fmt: skip
"""All kinds of step; those that stand here more than once are drawn as often."""


def _product(kind: str, x: Tensor) -> Tensor:
    """Products of rows, pairs of neighbours first, rounded after each."""
    while x.shape[1] > 1:
        x = rounded(x[:, 0::2].float() * x[:, 1::2].float(), kind)
    return x


# --- expressions ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A kernel's lines, and the right value of the last."""

    lines: tuple[str, ...]
    """One assignment each."""
    last: str
    """The name that is compared."""
    kind: str
    """Its type."""
    right: Tensor
    """Its right value."""


def made(rng: random.Random, values: dict[str, Tensor]) -> Expression:
    """A random expression on input values."""
    known = {name: (INPUTS[name], values[name]) for name in INPUTS}
    lines: list[str] = []
    want = rng.randint(3, 8)
    while len(lines) < want:
        step = rng.choice(STEPS)
        found = _operands(rng, step, known)
        if found is None:
            continue
        names, kinds, args = found
        kind = _kind(step, kinds, tuple(name not in known for name in names))
        name = f"v{len(lines)}"
        text = step.text.format(*names, t=TRITON[kinds[0]])
        right = step.right(kind, *args)
        lines.append(f"{name} = {text}")
        known[name] = ("i1" if step.gives == "compared" else kind, right)
        if kind in ("fp32", "fp16") and rng.random() < BACK:  # most of a bfloat16 kernel is bfloat16
            lines.append(f"{name}b = {name}.to(tl.bfloat16)")
            known.pop(name)
            known[f"{name}b"] = ("bf16", rounded(right.float(), "bf16"))
    last = lines[-1].split()[0]
    kind, right = known[last]
    return Expression(lines=tuple(lines), last=last, kind=kind, right=right)


def _operands(
    rng: random.Random, step: Step, known: dict[str, tuple[str, Tensor]]
) -> tuple[list[str], list[str], list[Tensor]] | None:
    """Names, types and values that a step takes, late ones more often; None if there are none of its types."""
    names: list[str] = []
    kinds: list[str] = []
    args: list[Tensor] = []
    for position, allowed in enumerate(step.takes):
        if step.number and position == len(step.takes) - 1 and rng.random() < 0.25 and kinds[0] in FLOATS:
            number = rng.choice(NUMBERS)
            names.append(repr(number))
            kinds.append("i32" if isinstance(number, int) else "fp32")
            args.append(torch.full((SIZE, SIZE), number))
            continue
        wanted = tuple(kinds[:1]) if allowed == ("like",) else allowed
        fitting = [name for name, (kind, _) in known.items() if kind in wanted]
        if not fitting:
            return None
        name = fitting[-1] if rng.random() < 0.5 else rng.choice(fitting)
        names.append(name)
        kinds.append(known[name][0])
        args.append(known[name][1])
    return names, kinds, args


def _kind(step: Step, kinds: Sequence[str], numbers: tuple[bool, ...]) -> str:
    """The type that a step computes in, which is the type that it gives but for a comparison."""
    if step.gives in DTYPES:
        return step.gives
    if step.gives in ("promoted", "divided", "compared"):
        flags = (numbers[0], numbers[1]) if step.gives != "compared" else (False, False)  # a tensor of its own there
        return promoted(kinds[0], kinds[1], division=step.gives == "divided", numbers=flags)
    if step.gives == "picked":
        return promoted(kinds[1], kinds[2])
    raised = ["fp32" if kind == "bf16" else kind for kind in kinds]
    if step.gives == "raised":
        return promoted(raised[0], raised[1])
    return raised[0] if step.gives == "run" else kinds[0]


def inputs(rng: random.Random) -> dict[str, Tensor]:
    """Values of all inputs, odd ones among them."""
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    found = {}
    for name, kind in INPUTS.items():
        if kind == "i32":
            found[name] = torch.randint(-50, 50, (SIZE, SIZE), generator=generator, dtype=torch.int32)
            continue
        value = torch.randn(SIZE, SIZE, generator=generator) * 2.0 ** torch.randint(
            -8, 6, (SIZE, SIZE), generator=generator
        )
        odd = torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0, -0.0, 1e-39, 3e38, 1.0])
        at = torch.randint(0, SIZE * SIZE, (len(odd),), generator=generator)
        if rng.random() < 0.3:
            value.view(-1)[at] = odd
        found[name] = value.to(DTYPES[kind])
    return found


# --- comparison -----------------------------------------------------------------------------------------------------
def distance(right: Tensor, found: Tensor) -> int:
    """The largest distance in units in the last place of the type; NaN equals NaN, 0 equals -0."""
    if not right.dtype.is_floating_point:
        return int((right.long() - found.long()).abs().max())
    bits = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32}[right.dtype]

    def ordered(value: Tensor) -> Tensor:
        whole = value.contiguous().view(bits).long()
        top = 1 << (8 * value.element_size() - 1)
        return torch.where(whole < 0, -(whole + top), whole)

    odd = right.isnan() | found.isnan()
    off = (ordered(right) - ordered(found)).abs()
    return int(torch.where(odd, torch.where(right.isnan() & found.isnan(), 0, 2**31), off).max())


HEAD = """import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def _times(x, y):
    return x * y


@triton.jit
def _same(x):
    return tl.broadcast_to(x, (16, 16))

"""


def source(number: int, expression: Expression) -> str:
    """A kernel."""
    loads = "".join(f"    {name} = tl.load({name}_ptr + at)\n" for name in INPUTS)
    lines = "".join(f"    {line}\n" for line in expression.lines)
    pointers = ", ".join(f"{name}_ptr" for name in INPUTS)
    return (
        f"\n@triton.jit\ndef kernel_{number}({pointers}, out_ptr):\n"
        f"    at = tl.arange(0, {SIZE})[:, None] * {SIZE} + tl.arange(0, {SIZE})[None, :]\n{loads}{lines}"
        f"    tl.store(out_ptr + at, {expression.last})\n"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The figures."""

    expressions: int
    """How many were tried."""
    max_ulp: int
    """Largest distance of any value."""
    wrong: int
    """Expressions with a value more than one unit off."""
    seconds: float
    """Time of all."""
    bfloat16: int
    """Expressions whose last value is bfloat16."""
    worst: tuple[str, ...] = ()
    """The first few wrong expressions."""


def tried(count: int, seed: int) -> Report:
    """Interpret expressions, here: this process must have TRITON_INTERPRET=1 from its start."""
    from passbench.interpreter import streamline

    streamline()
    began, rng = time.perf_counter(), random.Random(seed)
    drawn = [(values, made(rng, values)) for values in (inputs(rng) for _ in range(count))]
    with tempfile.TemporaryDirectory(prefix="passnet-numerics-") as folder:
        path = Path(folder) / "kernels.py"
        path.write_text(HEAD + "".join(source(k, expression) for k, (_, expression) in enumerate(drawn)))
        spec = importlib.util.spec_from_file_location("kernels", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        off = [_measured(getattr(module, f"kernel_{k}"), *item) for k, item in enumerate(drawn)]
    wrong = [k for k, far in enumerate(off) if far > 1]
    return Report(
        expressions=count, max_ulp=max(off), wrong=len(wrong), seconds=round(time.perf_counter() - began, 1),
        bfloat16=sum(item.kind == "bf16" for _, item in drawn),
        worst=tuple(f"{off[k]} ulp: {'; '.join(drawn[k][1].lines)}" for k in wrong[:8]),
    )  # fmt: skip


def _measured(kernel: Any, values: dict[str, Tensor], expression: Expression) -> int:
    out = torch.zeros(SIZE, SIZE, dtype=DTYPES[expression.kind])
    kernel[(1,)](*values.values(), out)
    return distance(expression.right, out)


def main() -> None:
    """Command line; the expressions are interpreted in a process of their own."""
    parser = argparse.ArgumentParser(description="Random expressions: Triton's interpreter against torch.")
    parser.add_argument("--expressions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    args = parser.parse_args()
    if os.environ.get("TRITON_INTERPRET") != "1":
        env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore"}
        command = [sys.executable, "-m", "benchmarks.triton_numerics", *sys.argv[1:]]
        raise SystemExit(subprocess.run(command, env=env).returncode)
    found = tried(args.expressions, args.seed)
    if args.json:
        print(json.dumps(asdict(found)))
    else:
        print(f"{found.expressions} expressions ({found.bfloat16} end in bfloat16): largest distance {found.max_ulp} "
              f"ulp, {found.wrong} wrong, {found.seconds} s", *found.worst, sep="\n")  # fmt: skip
    raise SystemExit(1 if found.wrong else 0)


if __name__ == "__main__":
    main()
