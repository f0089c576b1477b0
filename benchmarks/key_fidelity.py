"""Keys against values: programs of one exact key compute the same, programs written in two ways have one key.

    python -m benchmarks.key_fidelity --json                 # 5,000 pairs
    python -m benchmarks.key_fidelity --pairs 300 --seed 5   # fewer, others

Three of four pairs are a random program and one edit of it; the fourth is a program and another way to write it. Each
is built as an FX graph and lifted as captured graphs are. Pairs of one exact key run on 5 draws of their inputs from
one seed; outputs, their strides and what is left in the inputs are compared bit by bit.
Reads nothing, writes standard output.

| key                   | meaning                                                                                    |
|-----------------------|--------------------------------------------------------------------------------------------|
| pairs                 | pairs that were compared                                                                    |
| equal_keys            | of them those with equal exact keys                                                         |
| unequal_values        | of these those that compute something else on some draw; must be 0                          |
| equal_by_construction | pairs written to be equal                                                                   |
| missed                | of these those with different exact keys; must be 0                                         |
| unequal_functional    | programs whose form without calls in place computes something else; must be 0               |
| laws_broken           | pairs equal at one level and not at a later one; must be 0                                  |
"""

import argparse
import json
import logging
import random
import time
import warnings
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import Any

import torch

from benchmarks.program_edits import edited, rewritten
from benchmarks.random_programs import Program, Traced, drawn, traced
from benchmarks.traced import looks
from schemas.canonical import Canonical, canonicalize
from schemas.functional import functionalise
from schemas.fx import lower
from schemas.graph import TensorSpec

DRAWS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two programs as graphs, and whether they were written to be one function."""

    left: Traced
    right: Traced
    by_construction: bool
    text: str


def pairs(seed: int) -> Iterator[Pair]:
    """Random pairs without end."""
    rng = random.Random(seed)
    while True:
        program = drawn(rng)
        left = traced(program)
        if left is None or not program.statements:
            continue
        for _ in range(3):
            other = edited(program, rng)
            right = traced(other) if other != program else None
            if right is not None:
                yield Pair(left=left, right=right, by_construction=False, text=_text(program, other))
        again, order = rewritten(program, rng)
        right = traced(again, order)
        if right is not None:
            yield Pair(left=left, right=right, by_construction=True, text=_text(program, again))


def _text(*programs: Program) -> str:
    return "\n--- and ---\n".join("\n".join(map(str, (p.inputs, *p.statements, p.outputs))) for p in programs)


def value_of(spec: TensorSpec, seed: int) -> torch.Tensor:
    """A draw for an input: floats with zeros of both signs, whole numbers from 0 to 3."""
    made, dtype = torch.Generator().manual_seed(seed), getattr(torch, spec.dtype)
    numbers = torch.randn(spec.shape, generator=made) * (1 + seed % 3)
    choice = torch.randint(0, 8, spec.shape, generator=made)
    if not dtype.is_floating_point:
        numbers = choice % 4 if dtype != torch.bool else choice % 2
    else:
        numbers = torch.where(choice == 0, torch.zeros(()), torch.where(choice == 1, -torch.zeros(()), numbers))
    last = sum((size - 1) * stride for size, stride in zip(spec.shape, spec.stride, strict=True)) + 1
    # as_strided reads what lies between the numbers too
    room = (torch.arange(last if spec.numel else 0) % 5).to(dtype)
    return room.as_strided(spec.shape, spec.stride).copy_(numbers.to(dtype))


def outcome(found: Traced, form: Canonical, draw: int, module: Any = None) -> Any:
    """What a graph yields on a draw, and what it leaves in its inputs, in canonical order of the inputs."""
    graph = found.graph
    place = {index: k for k, index in enumerate(i for i in form.order if graph.nodes[i].op == "placeholder")}
    given = [value_of(graph.nodes[i].outputs[0], 100 * draw + place.get(i, 77)) for i in graph.placeholders]
    torch.default_generator.manual_seed(draw)
    enabled = torch.is_grad_enabled()
    try:
        made = looks((module or found.module)(*given))
    except (RuntimeError, ValueError, TypeError, IndexError):
        made = "raises"
    finally:
        torch.set_grad_enabled(enabled)
    left = {place[i]: looks(value) for i, value in zip(graph.placeholders, given, strict=True) if i in place}
    return made, left


def measure(count: int, seed: int, *, show: bool = False) -> dict[str, Any]:
    """Every figure over a number of pairs."""
    began = time.perf_counter()
    found = dict.fromkeys(
        ("equal_keys", "unequal_values", "equal_by_construction", "missed", "unequal_functional", "laws_broken"), 0
    )
    examples: list[str] = []
    for number, pair in enumerate(pairs(seed)):
        if number == count:
            break
        for name in _verdicts(pair):
            found[name] += 1
            if name in ("unequal_values", "missed", "unequal_functional", "laws_broken"):
                examples.append(f"{name}\n{pair.text}")
    if show:
        print("\n\n".join(examples[:12]))
    return {"pairs": count, **found, "seconds": round(time.perf_counter() - began, 1)}


def _verdicts(pair: Pair) -> Iterator[str]:
    left, right = canonicalize(pair.left.graph), canonicalize(pair.right.graph)
    levels = [a == b for a, b in zip(astuple(left.keys), astuple(right.keys), strict=True)]
    if levels != sorted(levels):
        yield "laws_broken"
    if pair.by_construction:
        yield "equal_by_construction"
        if not levels[0]:
            yield "missed"
    if levels[0]:
        yield "equal_keys"
        if any(outcome(pair.left, left, d) != outcome(pair.right, right, d) for d in range(DRAWS)):
            yield "unequal_values"
    changed = functionalise(pair.right.graph)
    if changed != pair.right.graph and outcome(pair.right, right, 0, lower(changed)) != outcome(pair.right, right, 0):
        yield "unequal_functional"


def main() -> None:
    """Entry of `python -m benchmarks.key_fidelity`."""
    parser = argparse.ArgumentParser(description="Programs of one key compute the same, and the reverse.")
    parser.add_argument("--pairs", type=int, default=5000, help="pairs to compare")
    parser.add_argument("--seed", type=int, default=0, help="seed of the generator")
    parser.add_argument("--show", action="store_true", help="print up to 12 pairs that are wrong")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    found = measure(options.pairs, options.seed, show=options.show)
    print(json.dumps(found) if options.json else "\n".join(f"{key:<22} {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
