"""Role and initialiser of every placeholder of a captured graph.

    roles, inits = describe_placeholders(piece, captured, built, wanted)     # both by placeholder name

Inputs get the initialiser of their rule. Buffers, and tensors that the forward finds in lists, globals, closures and
the like (role constant), get their real data as `extract.described` describes it; so do parameters that hold whole
numbers or truth values, and all weights of a forward that ran with them and read numbers, exactly as far as a literal
reaches. Other parameters get one that lets every operation show in the output: a bias is never zero, a norm's weight
never exactly one. Reads and writes nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from extract.build import Built, is_plain
from extract.capture import Capture, Piece
from extract.described import described, normal, number_value
from extract.inputs import WantedInput
from schemas import values


# --- parameters -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where a tensor sits in the model."""

    module: str
    """Class name of the module that holds it."""
    name: str
    """Its name in that module."""
    shape: tuple[int, ...]
    constant: float | None
    """The value its constructor filled it with, if known and one for all elements."""


def _fan_in(slot: Slot) -> int:
    if slot.module == "Conv1D":
        return slot.shape[0]
    convolution = "Conv" in slot.module or len(slot.shape) > 3
    return math.prod(slot.shape[1:]) if convolution else slot.shape[-1]


def _around(slot: Slot) -> str:
    assert slot.constant is not None
    return normal(slot.constant, 0.1 * abs(slot.constant))


PARAMETERS: tuple[tuple[Callable[[Slot], bool], Callable[[Slot], str], str], ...] = (
    (lambda s: "Norm" in s.module and s.name == "weight", lambda s: normal(1.0, 0.1), "norm weights: near one"),
    (lambda s: s.name == "bias", lambda s: normal(0.0, 0.02), "biases: small, never zero"),
    (lambda s: s.constant == 0.0, lambda s: normal(0.0, 0.02), "made as zeros: small, never zero"),
    (lambda s: s.constant is not None and abs(s.constant) < 0.05, lambda s: normal(0.1, 0.01),
     "tiny constants, such as layer scales: large enough that their branch shows"),
    (lambda s: s.constant is not None, _around, "other constants: near them"),
    (lambda s: len(s.shape) > 1, lambda s: normal(0.0, 1 / math.sqrt(max(_fan_in(s), 1))),
     "matrices, kernels, tables: keep the variance, 1 / sqrt(fan in)"),
    (lambda s: s.name == "weight", lambda s: normal(1.0, 0.1), "other one-dimensional weights: near one"),
    (lambda s: True, lambda s: normal(0.0, 0.02), "the rest: small, never zero"),
)  # fmt: skip
"""(predicate, initialiser, sentence) rows; the first that holds describes a parameter."""
STATISTICS = {
    "running_mean": normal(0.0, 0.1),
    "running_var": '{"kind":"uniform","low":{"float":"0.5"},"high":{"float":"1.5"}}',
}
"""Buffers that hold running statistics, by name: as after some training, not as freshly made."""


def parameter_init(slot: Slot) -> str:
    """The initialiser of a parameter by the first row of `PARAMETERS` that holds."""
    return next(init(slot) for holds, init, _ in PARAMETERS if holds(slot))


# --- placeholders ---------------------------------------------------------------------------------------------------
def describe_placeholders(
    piece: Piece, captured: Capture, built: Built, wanted: Sequence[WantedInput], *, as_held: bool = False
) -> tuple[dict[str, str], dict[str, str]]:
    """(roles, initialisers) by placeholder name; `as_held`: weights have the numbers that they hold now."""
    rule_of = {item.name: item.init for item in wanted} | captured.inits
    roles: dict[str, str] = {}
    inits: dict[str, str] = {}
    placeholders = [node for node in piece.gm.graph.nodes if node.op == "placeholder"]
    for node, example in zip(placeholders, piece.examples, strict=True):
        argument = captured.inputs.get(id(example))
        if argument is not None:
            roles[node.name], inits[node.name] = "input", rule_of[argument]
        elif not isinstance(example, torch.Tensor):
            value = number_value(_plain(example))
            roles[node.name], inits[node.name] = "scalar", values.dumps({"kind": "scalar", "value": value})
        else:
            is_foreign = built.name_of(example) is None and len(captured.pieces) > 1
            describe = _describe_between if is_foreign else _describe_as_held if as_held else describe_held
            roles[node.name], inits[node.name] = describe(example, built)
    return roles, inits


def _describe_between(example: torch.Tensor, built: Built) -> tuple[str, str]:
    """A tensor that an earlier piece of a broken call made."""
    return "input", described(example) if is_plain(example) else _default(example)


def _describe_as_held(example: torch.Tensor, built: Built) -> tuple[str, str]:
    """A tensor of a model with real weights, by its numbers."""
    role, init = describe_held(example, built)
    return role, described(example) if is_plain(example) else init


def describe_held(example: torch.Tensor, built: Built) -> tuple[str, str]:
    """A tensor of the model, or one that its code found elsewhere."""
    name = built.name_of(example) or ""
    path, _, leaf = name.rpartition(".")
    if isinstance(example, torch.nn.Parameter):
        return "parameter", _parameter(path, leaf, example, built)
    role = "buffer" if name in built.buffers else "constant"
    if leaf in STATISTICS:
        return role, STATISTICS[leaf]
    data = built.computed(example)
    if data is None and is_plain(example):
        data = example
    return role, _default(example) if data is None else described(data)


def _plain(example: Any) -> bool | int | float:
    if isinstance(example, torch.SymBool):
        return bool(example)
    if isinstance(example, torch.SymInt):
        return int(example)
    if isinstance(example, torch.SymFloat):
        return float(example)
    assert isinstance(example, bool | int | float), f"a placeholder of type {type(example).__name__}"
    return example


def _parameter(path: str, leaf: str, example: torch.Tensor, built: Built) -> str:
    if not example.dtype.is_floating_point and not example.dtype.is_complex:
        data = built.computed(example)
        return _default(example) if data is None else described(data)
    data, constant = built.data_of(example), None
    if data is not None and data.numel():
        first = data.reshape(-1)[0]
        constant = first.item() if bool((data == first).all()) else None
        if constant is None and built.mode is not None:
            return described(data)
    owner = dict(built.model.named_modules(remove_duplicate=False)).get(path)
    constant = constant if isinstance(constant, int | float) else None
    return parameter_init(Slot(module=type(owner).__name__, name=leaf, shape=tuple(example.shape), constant=constant))


def _default(example: torch.Tensor) -> str:
    """Where nothing is known: normal numbers, zeros for integers, true for booleans."""
    if example.dtype == torch.bool:
        return '{"kind":"ones"}'
    return normal(0.0, 1.0) if example.dtype.is_floating_point or example.dtype.is_complex else '{"kind":"zeros"}'
