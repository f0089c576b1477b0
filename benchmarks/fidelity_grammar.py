"""Write small modules at random, each a Python file in the form that `passnet build --files` takes.

    made = generate(seed=0, number=7)
    made.text, made.kinds, made.forbidden

A module has a way to be called, two to five statements of `benchmarks.fidelity_statements` and something to return; the
first statement, the call and the return go round their tables, so that a run of as many modules as there are
statements uses each. One in sixteen also does something that no graph holds. Reads and writes nothing; equal arguments
give equal texts.
"""

import random
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from string import Template

from benchmarks.fidelity_calls import RETURNS, WAYS, Way
from benchmarks.fidelity_modules import STATEMENTS
from benchmarks.fidelity_statements import FORBIDDEN, Statement

HEADER = """\
import datetime, functools, io, logging, os, random, time, uuid, warnings
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Any, NamedTuple
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint
"""
EXTRAS = {
    "lengths": "torch.tensor([$k, 1, $C - 1, 2][:$R])",
    "ids": "torch.tensor([3, 0, 4, 1][:$R])",
    "mask": "torch.randn($R, $C) > 0.3",
}
"""Further inputs that statements ask for."""
FORBIDDEN_EVERY = 16
"""One module in so many holds a forbidden statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A generated module."""

    text: str
    """Its file."""
    kinds: tuple[str, ...]
    """Kinds of its statements."""
    forbidden: bool
    """Whether no graph can hold it."""


def generate(*, seed: int, number: int) -> Made:
    """The module of that number."""
    random_ = random.Random(f"{seed}:{number}")
    order = random.Random(seed)
    statements, ways, returns = (order.sample(range(len(table)), len(table)) for table in (STATEMENTS, WAYS, RETURNS))
    chosen = [STATEMENTS[statements[number % len(statements)]], *_drawn(random_)]
    random_.shuffle(chosen)
    forbidden = number % FORBIDDEN_EVERY == FORBIDDEN_EVERY - 1
    if forbidden:
        chosen.append(FORBIDDEN[number // FORBIDDEN_EVERY % len(FORBIDDEN)])
    way, ending = WAYS[ways[number % len(ways)]], RETURNS[returns[number // 2 % len(returns)]]
    text = _text(chosen, way, ending, random_)
    return Made(text=text, kinds=tuple(item.kind for item in chosen), forbidden=forbidden)


def _drawn(random_: random.Random) -> list[Statement]:
    """One to four further statements; every kind is as likely."""
    kinds = sorted({item.kind for item in STATEMENTS})
    wanted = random_.choices(kinds, k=random_.randint(1, 4))
    return [random_.choice([item for item in STATEMENTS if item.kind == kind]) for kind in wanted]


def _text(chosen: Sequence[Statement], way: Way, ending: tuple[str, str], random_: random.Random) -> str:
    rows, columns = random_.choice((2, 3, 4)), random_.choice((4, 6, 8))
    sizes = {"R": str(rows), "C": str(columns), "H": str(columns // 2), "first": way.first}

    def written(text: str, number: int = 0) -> str:
        constant = random_.choice(("0.5", "1.25", "0.75", "1.5"))
        names = {"n": str(number), "c": constant, "k": str(random_.randint(1, columns - 1))}
        return Template(text).substitute(sizes | names)

    body, kept = [written(way.start)], []
    for number, item in enumerate(chosen):
        body.append(written(item.body, number))
        what = random_.random()
        if what < 0.3:
            body.append(f"kept{number} = h[:, :2]")
            kept.append(f"h = h + kept{number}.mean()")
        elif what < 0.5:
            body.append("h = torch.tanh(h)")
    needs = list(dict.fromkeys(name for item in chosen for name in item.needs))
    given = [(name, written(EXTRAS[name])) for name in needs]
    init = ["super().__init__()", *(written(item.init, number) for number, item in enumerate(chosen) if item.init)]
    if "self." in ending[0]:
        init.append(written("self.head = nn.Linear($C, $C); self.register_buffer('tail', torch.ones($C))"))
    tops = [written(item.top, number) for number, item in enumerate(chosen) if item.top]
    methods = [written(item.method, number) for number, item in enumerate(chosen) if item.method]
    lines = [HEADER, *(text for text in (way.top, ending[1], *tops) if text), "class M(nn.Module):"]
    parts = [
        "def __init__(self):\n" + _in("\n".join(init)),
        "@staticmethod\ndef example_inputs():\n    torch.manual_seed(7)\n    return "
        + _example(way, written(way.given), given),
        *methods,
        f"def forward(self, {written(_signature(way, needs))}):\n"
        + _in("\n".join([*_taken(way, needs), *body, *kept, f"return {written(ending[0])}"])),
    ]
    return "\n".join([*lines, *(_in(part) for part in parts), ""])


def _in(text: str) -> str:
    return textwrap.indent(text, "    ")


def _example(way: Way, given: str, extras: Sequence[tuple[str, str]]) -> str:
    if way.named:
        return "{" + ", ".join([given, *(f"'{name}': {text}" for name, text in extras)]) + "}"
    return "(" + ", ".join([given.rstrip(","), *(text for _, text in extras)]) + ",)"


def _signature(way: Way, needs: Sequence[str]) -> str:
    """Further inputs stand before those with defaults; variable arguments hold them anyway."""
    further = () if way.signature.startswith("*") else needs
    return ", ".join([way.signature, *further, *filter(None, [way.defaults])])


def _taken(way: Way, needs: Sequence[str]) -> list[str]:
    """Statements that get further inputs out of variable arguments."""
    if way.signature.startswith("**"):
        return [f"{name} = kw['{name}']" for name in needs]
    if way.signature.startswith("*"):
        return [f"{name} = xs[{2 + index}]" for index, name in enumerate(needs)]
    return []
