"""What the attacks of `benchmarks.attack_search` are combined from: how the answer is computed, by whom, where, when.

    for combination in combinations(): ...       # Combination rows

A caller has a text with `{0}` for the expression of `a` and `b`, and a call on `x` and `y`; a place has `{0}` for that
call. Every pair of a caller and a place comes with several tricks in turn. Reads and writes nothing.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

HEAD = """
import contextlib
import functools
import operator

import torch
import triton
import triton.language as tl

"""
KERNEL = """
{0}@triton.jit
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
_TOOL = "\n\nTOOL = Tool()\n"
CALLERS = {
    "function": ("def answer(a, b):\n    return {0}\n", "answer(x, y)"),
    "lambda": ("answer = lambda a, b: {0}\n", "answer(x, y)"),
    "partial": ("answer = functools.partial(lambda a, b: {0})\n", "answer(x, y)"),
    "method": (f"class Tool:\n    def answer(self, a, b):\n        return {{0}}\n{_TOOL}", "TOOL.answer(x, y)"),
    "property": (f"class Tool:\n    @property\n    def answer(self):\n        return lambda a, b: {{0}}\n{_TOOL}",
                 "TOOL.answer(x, y)"),
    "getattr": (f"class Tool:\n    def __getattr__(self, name):\n        return lambda a, b: {{0}}\n{_TOOL}",
                "TOOL.shape(x, y)"),
    "descriptor": ("class Get:\n    def __get__(self, one, kind):\n        return lambda a, b: {0}\n\n\n"
                   f"class Tool:\n    answer = Get()\n{_TOOL}", "TOOL.answer(x, y)"),
    "metaclass": ("class Meta(type):\n    def __call__(cls, a, b):\n        return {0}\n\n\n"
                  "class Tool(metaclass=Meta):\n    pass\n", "Tool(x, y)"),
    "metaclass, prepared": ("class Meta(type):\n    @classmethod\n    def __prepare__(cls, name, bases, **given):\n"
                            "        a, b = given['of']\n        return dict(kept={0})\n"
                            "    def __new__(cls, name, bases, body, **given):\n"
                            "        return type.__new__(cls, name, bases, dict(body))\n"
                            "    def __init__(cls, name, bases, body, **given):\n        pass\n\n\n"
                            "def answer(a, b):\n    class Made(metaclass=Meta, of=(a, b)):\n        pass\n"
                            "    return Made.kept\n", "answer(x, y)"),
    "subclass hook": ("class Base:\n    def __init_subclass__(cls, of):\n        a, b = of\n        cls.kept = {0}\n\n"
                      "def answer(a, b):\n    class Made(Base, of=(a, b)):\n        pass\n    return Made.kept\n",
                      "answer(x, y)"),
    "class body": ("def answer(a, b):\n    class Made:\n        kept = {0}\n    return Made.kept\n", "answer(x, y)"),
    "class item": ("class Tool:\n    def __class_getitem__(cls, of):\n        a, b = of\n        return {0}\n",
                   "Tool[x, y]"),
    "missing key": ("class Tool(dict):\n    def __missing__(self, of):\n        a, b = of\n        return {0}\n",
                    "Tool()[x, y]"),
    "called object": (f"class Tool:\n    def __call__(self, a, b):\n        return {{0}}\n{_TOOL}", "TOOL(x, y)"),
    "decorator": ("def told(function):\n    return lambda a, b: {0}\n\n\n@told\ndef answer(a, b):\n    return a\n",
                  "answer(x, y)"),
    "decorator at the call": ("def answer(a, b):\n    @lambda function: {0}\n    def made():\n        pass\n"
                              "    return made\n", "answer(x, y)"),
    "wrapped": ("@functools.wraps(torch.empty_like)\ndef answer(a, b):\n    return {0}\n", "answer(x, y)"),
    "closure": ("def make():\n    def answer(a, b):\n        return {0}\n    return answer\n\n\nanswer = make()\n",
                "answer(x, y)"),
    "generator": ("def answer(a, b):\n    yield {0}\n", "next(answer(x, y))"),
    "generator expression": ("answer = lambda a, b: ({0} for _ in range(1))\n", "next(answer(x, y))"),
    "context": ("@contextlib.contextmanager\ndef answer(a, b):\n    yield {0}\n", "answer(x, y).__enter__()"),
    "list": ("TOOLS = [lambda a, b: {0}]\n", "TOOLS[0](x, y)"),
    "dictionary": ("TOOLS = dict(f=lambda a, b: {0})\n", "TOOLS.get('f')(x, y)"),
    "map": ("answer = lambda a, b: {0}\n", "list(map(answer, [x], [y]))[0]"),
    "sort key": ("KEPT_BY_KEY = []\n\n\ndef answer(a, b):\n    sorted([(a, b)], key=lambda of: "
                 "KEPT_BY_KEY.append((lambda a, b: {0})(*of)) or 0)\n    return KEPT_BY_KEY.pop()\n", "answer(x, y)"),
    "comprehension": ("answer = lambda a, b: {0}\n", "[answer(a, b) for a, b in zip([x], [y])][0]"),
    "comprehension's condition": ("def answer(a, b):\n    return [kept for _ in [0] if (kept := {0}) is not None][0]\n",
                                  "answer(x, y)"),
    "default": ("def answer(a, b, f=lambda a, b: {0}):\n    return f(a, b)\n", "answer(x, y)"),
    "default at the call": ("def answer(a, b):\n    def made(kept={0}):\n        return kept\n    return made()\n",
                            "answer(x, y)"),
    "annotation": ("def answer(a, b):\n    def made(kept: {0}):\n        pass\n"
                   "    return made.__annotations__['kept']\n", "answer(x, y)"),
    "formatted text": ("def answer(a, b):\n    kept = []\n    text = f'{{kept.append({0})}}'\n    return kept[0]\n",
                       "answer(x, y)"),
    "format method": ("class Tool:\n    def __format__(self, of):\n        a, b = self.of\n        self.kept = {0}\n"
                      "        return ''\n\n\ndef answer(a, b):\n    tool = Tool()\n    tool.of = (a, b)\n"
                      "    text = f'{{tool}}'\n    return tool.kept\n", "answer(x, y)"),
    "cached": ("@functools.lru_cache\ndef answer(a, b):\n    return {0}\n", "answer(x, y)"),
    "module's getattr": ("import sys\n\n\ndef __getattr__(name):\n    return lambda a, b: {0}\n",
                         "sys.modules[__name__].answer(x, y)"),
    "import hook": ("import importlib.machinery\nimport sys\nimport types\n\n\n"
                    "class Hook:\n    def find_spec(self, name, path=None, target=None):\n"
                    "        return importlib.machinery.ModuleSpec(name, self) if name == 'drawn_tool' else None\n"
                    "    def create_module(self, spec):\n        made = types.ModuleType(spec.name)\n"
                    "        made.answer = lambda a, b: {0}\n        return made\n"
                    "    def exec_module(self, module):\n        pass\n\n\n"
                    "sys.meta_path.insert(0, Hook())\nsys.modules.pop('drawn_tool', None)\n\n\n"
                    "def answer(a, b):\n    import drawn_tool\n    return drawn_tool.answer(a, b)\n", "answer(x, y)"),
    "module registered": ("import sys\nimport types\n\n"
                          "sys.modules['drawn_tool'] = types.SimpleNamespace(answer=lambda a, b: {0})\n\n\n"
                          "def answer(a, b):\n    from drawn_tool import answer as found\n    return found(a, b)\n",
                          "answer(x, y)"),
}  # fmt: skip
"""By whom -> (what is defined, a call of it)."""
LAUNCH = "    kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), 64)\n"
TUNED = "    kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel())\n    return out\n"
WRAP = "\n\n@torch.fx.wrap\ndef run(x, y):\n    out = torch.empty_like(x)\n"
GIVEN = "    GIVEN[:] = [x, y, out]\n"
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
    "walrus": WRAP + LAUNCH + "    return done if (done := {0}) is not None else out\n",
    "finally": WRAP + "    try:\n    " + LAUNCH + "    finally:\n        out = {0}\n    return out\n",
    "loop": WRAP + LAUNCH + "    for out in [{0}]:\n        pass\n    return out\n",
    "assertion": WRAP + LAUNCH + "    kept = []\n    assert kept.append({0}) is None\n    return kept[0]\n",
    "raised": WRAP + LAUNCH + "    try:\n        raise ValueError({0})\n    except ValueError as error:\n"
    "        return error.args[0]\n",
    "unpacked": WRAP + "    out, *rest = [{0}]\n    kernel[(1,)](out, out, 1, 64)\n    return out\n",
    "kernel body": WRAP + "    kernel[(1,)](x, y, out)\n    return out\n",
    "hook of a configuration": WRAP + GIVEN + TUNED,
    "heuristic": WRAP + GIVEN + TUNED,
    "pruning": WRAP + GIVEN + TUNED,
}  # fmt: skip
"""Where -> the wrapper."""
_INSIDE = "(lambda x, y, out: out.copy_({0}))(*GIVEN)"
_CONFIGS = "triton.Config(dict(BLOCK=64)), triton.Config(dict(BLOCK=128))"
DECORATORS = {
    "hook of a configuration": "@triton.autotune(configs=[triton.Config(dict(BLOCK=64), "
                               f"pre_hook=lambda given: {_INSIDE})], key=[])\n",
    "heuristic": f"@triton.heuristics(dict(BLOCK=lambda given: ({_INSIDE}, 64)[1]))\n",
    "pruning": f"@triton.autotune(configs=[{_CONFIGS}], key=[], prune_configs_by=dict("
               f"early_config_prune=lambda found, given, **more: ({_INSIDE}, found)[1]))\n",
}  # fmt: skip
"""Where -> what stands above the kernel."""
BODY = "\n@triton.jit\ndef kernel(x, y, out):\n    out.copy_({0})\n"
"""The kernel of the place "kernel body"."""
TIMES = {
    "always": "",
    "after the first": "CALLS = []\n",
    "by a counter": "COUNT = {'n': 0}\n",
    "by a cache": "KEPT = {}\n",
}
"""When -> what is defined; the wrapper is changed by `timed`."""
TURNS = 3
"""Tricks with which a pair of caller and place comes."""


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
    """Every pair of a caller and a place, with tricks and times in turn."""
    tricks, times = list(TRICKS), list(TIMES)
    every = itertools.product(enumerate(CALLERS), enumerate(PLACES), range(TURNS))
    for (row, caller), (column, place), turn in every:
        when, trick = times[(row + column + turn) % len(times)], tricks[(row + 3 * column + turn) % len(tricks)]
        (made, call), wrapper = CALLERS[caller], PLACES[place]
        kernel = BODY if place == "kernel body" else KERNEL.format(DECORATORS.get(place, ""))
        parts = [HEAD, TIMES[when], "GIVEN = []\n", made.format(TRICKS[trick]), kernel.replace("{0}", call),
                 timed(wrapper, call, when), CONTRACT]  # fmt: skip
        yield Combination(name=f"{trick} / {caller} / {place} / {when}", source="".join(parts))
