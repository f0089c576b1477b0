"""Role and initialiser of every placeholder of a captured graph.

    roles, inits = describe_placeholders(piece, captured, built, wanted)     # both by placeholder name

Inputs get the initialiser of their rule. Buffers get their real data where the constructor computed it: literally if
it is short, else as the pattern it follows. Parameters get one that lets every operation show in the output: a bias
is never zero, a norm's weight never exactly one. Reads and writes nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from extract.build import Built
from extract.capture import Capture, Piece
from extract.inputs import WantedInput
from schemas import values

MAX_LITERAL = 4096
"""Longest data kept literally."""


def _json(kind: str, **fields: float) -> str:
    tagged = {key: {"float": repr(item)} if isinstance(item, float) else item for key, item in fields.items()}
    return values.dumps({"kind": kind, **tagged})


def normal(mean: float, std: float) -> str:
    """A normal initialiser, rounded to six significant digits."""
    return _json("normal", mean=float(f"{mean:.6g}"), std=float(f"{std:.6g}"))


# --- data that is known ---------------------------------------------------------------------------------------------
def describe(data: torch.Tensor) -> str:
    """An initialiser that reproduces data exactly where it is constant, a range, causal or short; else alike."""
    for matcher in (_constant, _arange, _causal, _literal):
        found = matcher(data)
        if found is not None:
            return found
    if data.dtype == torch.bool:
        return _json("bool", p=float(data.float().mean()))
    if data.dtype.is_complex:
        parts = torch.view_as_real(data).double()
        return normal(0.0, float((parts**2).sum(-1).mean().sqrt()))
    if not data.dtype.is_floating_point:
        return _json("integers", low=int(data.min()), high=int(data.max()) + 1)
    finite = data[torch.isfinite(data)].double()
    return normal(float(finite.mean()), float(finite.std())) if finite.numel() > 1 else _json("zeros")


def _number(value: bool | int | float | complex) -> Any:
    if isinstance(value, complex):
        return {"complex": [repr(value.real), repr(value.imag)]}
    return {"float": repr(value)} if isinstance(value, float) else value


def _constant(data: torch.Tensor) -> str | None:
    if data.numel() == 0:
        return _json("zeros")
    first = data.reshape(-1)[0]
    if not bool((data == first).all()):
        return None
    return values.dumps({"kind": "constant", "value": _number(first.item())})


def _arange(data: torch.Tensor) -> str | None:
    whole = not (data.dtype.is_floating_point or data.dtype.is_complex or data.dtype == torch.bool)
    if not whole or data.dim() == 0 or data.shape[-1] < 3:
        return None
    line = data.reshape(-1, data.shape[-1])[0]
    start, step = int(line[0]), int(line[1] - line[0])
    wanted = torch.arange(data.shape[-1], dtype=torch.int64) * step + start
    if not bool((data == wanted.to(data.dtype)).all()):
        return None
    return _json("arange", start=start, step=step)


def _causal(data: torch.Tensor) -> str | None:
    if data.dim() < 2 or data.dtype.is_floating_point or data.shape[-1] != data.shape[-2]:
        return None
    wanted = torch.ones(data.shape[-2:], dtype=torch.bool).tril().to(data.dtype)
    return _json("causal_mask") if bool((data == wanted).all()) else None


def _literal(data: torch.Tensor) -> str | None:
    if data.numel() > MAX_LITERAL:
        return None
    return values.dumps({"kind": "literal", "data": [_number(item) for item in data.reshape(-1).tolist()]})


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
STATISTICS = {"running_mean": normal(0.0, 0.1), "running_var": _json("uniform", low=0.5, high=1.5)}
"""Buffers that hold running statistics, by name: as after some training, not as freshly made."""


def parameter_init(slot: Slot) -> str:
    """The initialiser of a parameter by the first row of `PARAMETERS` that holds."""
    return next(init(slot) for holds, init, _ in PARAMETERS if holds(slot))


# --- placeholders ---------------------------------------------------------------------------------------------------
def describe_placeholders(
    piece: Piece, captured: Capture, built: Built, wanted: Sequence[WantedInput]
) -> tuple[dict[str, str], dict[str, str]]:
    """(roles, initialisers) by placeholder name."""
    rule_of = {item.name: item.init for item in wanted} | captured.inits
    roles: dict[str, str] = {}
    inits: dict[str, str] = {}
    placeholders = [node for node in piece.gm.graph.nodes if node.op == "placeholder"]
    for node, example in zip(placeholders, piece.examples, strict=True):
        argument = captured.inputs.get(id(example))
        if argument is not None:
            roles[node.name], inits[node.name] = "input", rule_of[argument]
        else:
            roles[node.name], inits[node.name] = _describe_example(example, built)
    return roles, inits


def _describe_example(example: Any, built: Built) -> tuple[str, str]:
    if not isinstance(example, torch.Tensor):
        return "scalar", values.dumps({"kind": "scalar", "value": _number(_plain(example))})
    name = built.name_of(example)
    data = built.data_of(example) if built.mode is not None else example.detach()
    if name is None:
        return "input", describe(data) if data is not None and built.mode is None else _default(example)
    if isinstance(example, torch.nn.Parameter):
        return "parameter", _parameter(name, example, data, built)
    leaf = name.rsplit(".", 1)[-1]
    role = "buffer" if name in built.buffers else "constant"
    if leaf in STATISTICS:
        return role, STATISTICS[leaf]
    return role, _default(example) if data is None else describe(data)


def _plain(example: Any) -> bool | int | float:
    if isinstance(example, torch.SymBool):
        return bool(example)
    if isinstance(example, torch.SymInt):
        return int(example)
    if isinstance(example, torch.SymFloat):
        return float(example)
    assert isinstance(example, bool | int | float), f"a placeholder of type {type(example).__name__}"
    return example


def _parameter(name: str, example: torch.Tensor, data: torch.Tensor | None, built: Built) -> str:
    path, _, leaf = name.rpartition(".")
    constant = None
    if data is not None and data.numel():
        first = data.reshape(-1)[0]
        constant = float(first) if bool((data == first).all()) else None
        if constant is None and built.mode is not None:
            return describe(data)
    module = type(built.model.get_submodule(path)).__name__
    return parameter_init(Slot(module=module, name=leaf, shape=tuple(example.shape), constant=constant))


def _default(example: torch.Tensor) -> str:
    """Where nothing is known: normal numbers, zeros for integers, true for booleans."""
    if example.dtype == torch.bool:
        return _json("ones")
    return normal(0.0, 1.0) if example.dtype.is_floating_point or example.dtype.is_complex else _json("zeros")
