"""Attacks made by combining tricks: how the answer is computed, by whom it is called, where, and when; none may count.

    python -m benchmarks.attack_search --json    # combinations accepted accepted_without_policy seconds
    python -m benchmarks.attack_search --show 17 # the source of one combination

Every combination is a pass whose kernel is a decoy and whose outputs come from Python. It counts as accepted if the
static policy and the language of wrappers let it through, and its wrapper, compiled from source as in a grading, gives
the right outputs while kernels do nothing. `accepted_without_policy` leaves the policy out, so that the language has to
hold alone. Runs itself again with Triton's interpreter on; writes one temporary folder and removes it.
"""

import argparse
import contextlib
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HEAD = """
import contextlib
import functools
import operator

import torch
import triton
import triton.language as tl

"""
KERNEL = """
@triton.jit
def kernel(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < count), mask=at < count)

"""
CONTRACT = """

def pattern(x, y):
    return torch.relu(x + y)


def replacement_args(x, y):
    return (x, y)


def replacement_func():
    return run
"""
TRICKS = {
    "operators": "(a + b) * ((a + b) > 0)",
    "method": "(a + b).clamp(min=0)",
    "torch": "torch.relu(a + b)",
    "aten": "torch.ops.aten.relu(torch.ops.aten.add(a, b))",
    "class method": "torch.Tensor.relu(torch.Tensor.add(a, b))",
    "operator module": "operator.mul(operator.add(a, b), operator.gt(operator.add(a, b), 0))",
    "reduce": "functools.reduce(operator.add, [a, b]).relu()",
    "sum": "(sum([a, b]) + abs(sum([a, b]))) / 2",
    "copied": "torch.empty_like(a).copy_((a + b).relu())",
}
"""How -> an expression of two tensors that is the answer."""
CALLERS = {
    "function": ("def answer(a, b):\n    return {0}\n", "answer(x, y)"),
    "lambda": ("answer = lambda a, b: {0}\n", "answer(x, y)"),
    "partial": ("answer = functools.partial(lambda a, b: {0})\n", "answer(x, y)"),
    "method": ("class Tool:\n    def answer(self, a, b):\n        return {0}\n\n\nTOOL = Tool()\n",
               "TOOL.answer(x, y)"),
    "property": ("class Tool:\n    @property\n    def answer(self):\n        return lambda a, b: {0}\n\n\n"
                 "TOOL = Tool()\n",
                 "TOOL.answer(x, y)"),
    "getattr": ("class Tool:\n    def __getattr__(self, name):\n        return lambda a, b: {0}\n\n\nTOOL = Tool()\n",
                "TOOL.shape(x, y)"),
    "descriptor": ("class Get:\n    def __get__(self, one, kind):\n        return lambda a, b: {0}\n\n\n"
                   "class Tool:\n    answer = Get()\n\n\nTOOL = Tool()\n", "TOOL.answer(x, y)"),
    "metaclass": ("class Meta(type):\n    def __call__(cls, a, b):\n        return {0}\n\n\n"
                  "class Tool(metaclass=Meta):\n    pass\n", "Tool(x, y)"),
    "closure": ("def make():\n    def answer(a, b):\n        return {0}\n    return answer\n\n\nanswer = make()\n",
                "answer(x, y)"),
    "generator": ("def answer(a, b):\n    yield {0}\n", "next(answer(x, y))"),
    "context": ("@contextlib.contextmanager\ndef answer(a, b):\n    yield {0}\n", "answer(x, y).__enter__()"),
    "list": ("TOOLS = [lambda a, b: {0}]\n", "TOOLS[0](x, y)"),
    "dictionary": ("TOOLS = dict(f=lambda a, b: {0})\n", "TOOLS.get('f')(x, y)"),
    "map": ("answer = lambda a, b: {0}\n", "list(map(answer, [x], [y]))[0]"),
    "comprehension": ("answer = lambda a, b: {0}\n", "[answer(a, b) for a, b in zip([x], [y])][0]"),
    "default": ("def answer(a, b, f=lambda a, b: {0}):\n    return f(a, b)\n", "answer(x, y)"),
    "cached": ("@functools.lru_cache\ndef answer(a, b):\n    return {0}\n", "answer(x, y)"),
}  # fmt: skip
"""By whom -> (what is defined, a call of it)."""
LAUNCH = "    kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), 64)\n"
WRAP = "\n\n@torch.fx.wrap\ndef run(x, y):\n    out = torch.empty_like(x)\n"
PLACES = {
    "wrapper": WRAP + LAUNCH + "    return {0}\n",
    "before the launch": WRAP + "    out = {0}\n    kernel[(1,)](out, out, 1, 64)\n    return out\n",
    "grid": WRAP + "    kept = []\n    kernel[lambda meta: (kept.append({0}), (1,))[1]](x, out, x.numel(), 64)\n"
    "    return kept[0]\n",
    "argument": WRAP + "    done = {0}\n    kernel[(4,)](done, done, x.numel(), 64)\n    return done\n",
    "except": WRAP + "    try:\n        kernel[(1,)](x)\n    except TypeError:\n        pass\n    return {0}\n",
    "branch": WRAP + LAUNCH + "    if x.numel() > 0:\n        return {0}\n    return out\n",
    "stored": WRAP + LAUNCH + "    out[:] = {0}\n    return out\n",
    "inner function": WRAP + LAUNCH + "    def inner():\n        return {0}\n    return inner()\n",
}  # fmt: skip
"""Where -> the wrapper."""
TIMES = {
    "always": "",
    "after the first": "CALLS = []\n",
    "by a counter": "COUNT = {'n': 0}\n",
    "by a cache": "KEPT = {}\n",
}
"""When -> what is defined; the wrapper is changed by `timed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """One attack."""

    name: str
    """How, by whom, where, when."""
    source: str
    """Its module."""


def timed(wrapper: str, call: str, when: str) -> str:
    """A wrapper with the call at some calls only, or kept; the answer is computed in all of them."""
    more = {"after the first": "    CALLS.append(1)\n", "by a counter": "    COUNT['n'] += 1\n"}.get(when, "")
    call = f"KEPT.setdefault(x.shape, {call})" if when == "by a cache" else call
    return wrapper.format(call).replace("    out = torch.empty_like(x)\n", f"    out = torch.empty_like(x)\n{more}", 1)


def combinations() -> Iterator[Combination]:
    """Every combination of how, by whom and where; the time changes from one to the next."""
    times = itertools.cycle(TIMES)
    for (trick, value), (caller, (made, call)), (place, wrapper) in itertools.product(
        TRICKS.items(), CALLERS.items(), PLACES.items()
    ):
        when = next(times)
        parts = [HEAD, TIMES[when], KERNEL, made.format(value), timed(wrapper, call, when), CONTRACT]
        yield Combination(name=f"{trick} / {caller} / {place} / {when}", source="".join(parts))


def accepted(combination: Combination, folder: Path, *, policy: bool) -> bool:
    """Whether a pass gets through and gives the right outputs although its kernel does nothing."""
    import torch

    from passbench.policy import inspect_sources
    from passbench.program.build import Built
    from passbench.program.launcher import Record
    from passbench.program.names import Files
    from passbench.program.refusal import Refused
    from passbench.program.wrappers import program_of
    from passbench.sources import read_modules
    from passbench.submission import Rejected, freeze

    (folder / "p.py").write_text(combination.source)
    (folder / "sorted_output_pass_rule_names.json").write_text('["p"]')
    submission = freeze(folder)
    x, y = torch.randn(4, 60), torch.randn(4, 60)
    try:
        if policy:
            inspect_sources(submission, max_patterns=100)
        program = program_of(Files(read_modules(submission)), [("p", "run")])
        built = Built(program, Record(ghost=True), contextlib.nullcontext, interpreted=True)
        wrapper = built.wrapper(("p", "run"))
        found = [call(x, y) for call in (wrapper.watched, wrapper.plain, wrapper.watched)]
    except (Rejected, Refused, Exception):
        return False
    right = torch.relu(x + y)
    return any(isinstance(value, torch.Tensor) and value.shape == right.shape and torch.allclose(value, right)
               for value in found)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Try all combinations; exit code 1 if one is accepted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--show", type=int, help="print the source of one combination and end")
    chosen = parser.parse_args(arguments)
    every = list(combinations())
    if chosen.show is not None:
        print(f"# {every[chosen.show].name}\n{every[chosen.show].source}")
        return 0
    if os.environ.get("TRITON_INTERPRET") != "1":
        os.environ["TRITON_INTERPRET"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.attack_search", *(arguments or sys.argv[1:])])
    from passbench.interpreter import streamline

    streamline()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="attack-search-") as made:
        through = [item.name for item in every if accepted(item, Path(made), policy=True)]
        alone = [item.name for item in every if accepted(item, Path(made), policy=False)]
    figures = {"combinations": len(every), "accepted": len(through), "accepted_without_policy": len(alone),
               "names": sorted({*through, *alone}), "seconds": round(time.monotonic() - began, 1)}  # fmt: skip
    print(json.dumps(figures) if chosen.json else json.dumps(figures, indent=1))
    return 1 if through or alone else 0


if __name__ == "__main__":
    sys.exit(main())
