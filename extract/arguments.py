"""How the call of a model is written down: tensors as short texts in any structure, everything else as itself.

    tree, wanted = written_call({"sample": "1x4x64x64", "timestep": "int64 1 <1000", "scale": 1.0})
    model = called(model, tree, wanted)

A tensor is "[dtype] SHAPE [fill]": "1x3x224x224" (float32, normal), "int64 1x77 <1000" (whole numbers below 1000),
"1x77 ones", "bool 1x77 ones", "int64 16 arange", "1 unit" (uniform in [0, 1)), "scalar =0.5" (no dimensions, one
value). A text that is no tensor begins with "'". Lists and tables nest; a list of numbers alone is a tuple. Reads and
writes nothing; raises ValueError on a text that follows no rule.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from extract.inputs import WantedInput, dense_stride
from schemas import values
from schemas.graph import TensorSpec

TENSOR = re.compile(r"(?:(?P<dtype>[a-z]+\d*) )?(?P<shape>scalar|\d+(?:x\d+)*)(?: (?P<fill>\S+))?")
FILLS: tuple[tuple[str, Callable[[str], dict[str, Any]]], ...] = (
    (r"ones|zeros", lambda text: {"kind": text}),
    (r"normal", lambda text: {"kind": "normal", "mean": {"float": "0.0"}, "std": {"float": "1.0"}}),
    (r"unit", lambda text: {"kind": "uniform", "low": 0, "high": 1}),
    (r"arange", lambda text: {"kind": "arange", "start": 0, "step": 1}),
    (r"<\d+", lambda text: {"kind": "integers", "low": 0, "high": int(text[1:])}),
    (r"=-?\d+", lambda text: {"kind": "constant", "value": int(text[1:])}),
    (r"=-?\d+\.\d+", lambda text: {"kind": "constant", "value": {"float": repr(float(text[1:]))}}),
)
"""(pattern of a fill, the initialiser it stands for)."""
DEFAULT_FILLS = {"bool": '{"kind":"ones"}', "int64": '{"kind":"zeros"}'}
"""Initialiser of a tensor without a fill, by dtype; normal otherwise."""


@dataclass(frozen=True, kw_only=True)
class Slot:
    """The place of a tensor in a call."""

    name: str


@dataclass(frozen=True, kw_only=True)
class View:
    """The place of a tensor that lies inside another one; sizes, strides and offset in elements of that one."""

    name: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


@dataclass(frozen=True, kw_only=True)
class Made:
    """A container that is no plain list, tuple or dictionary."""

    make: Callable[[Sequence[Any]], Any]
    """Makes it of its items."""
    items: Sequence[Any]


class Called(torch.nn.Module):
    """A model behind keyword arguments that are tensors alone: puts each where the call of the model has it."""

    def __init__(self, model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        super().__init__()
        self.model = model
        self.arguments, self.keywords = list(args), dict(kwargs)

    def forward(self, **tensors: torch.Tensor) -> Any:
        """Call the model."""
        return self.model(*fill(self.arguments, tensors), **fill(self.keywords, tensors))


def fill(tree: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    """A structure with a tensor in the place of every Slot and View."""
    if isinstance(tree, Slot):
        return tensors[tree.name]
    if isinstance(tree, View):
        return tensors[tree.name].as_strided(tree.shape, tree.stride, tree.offset)
    if isinstance(tree, Made):
        return tree.make([fill(item, tensors) for item in tree.items])
    if isinstance(tree, list):
        return [fill(item, tensors) for item in tree]
    if isinstance(tree, tuple):
        return tuple([fill(item, tensors) for item in tree])
    if isinstance(tree, dict):
        return {key: fill(item, tensors) for key, item in tree.items()}
    return tree


def written_call(table: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[WantedInput, ...]]:
    """(keyword arguments with a Slot for every tensor, the tensors in order) of a call that is written down."""
    wanted: list[WantedInput] = []

    def read(name: str, value: Any) -> Any:
        if isinstance(value, str):
            if value.startswith("'"):
                return value[1:]
            wanted.append(written_tensor(name, value))
            return Slot(name=name)
        if isinstance(value, Mapping):
            return {_key(key): read(f"{name}_{key}", item) for key, item in value.items()}
        if isinstance(value, list) and value and all(isinstance(item, int | float) for item in value):
            return tuple(value)
        if isinstance(value, list):
            return [read(f"{name}_{index}", item) for index, item in enumerate(value)]
        return value

    return {name: read(name, value) for name, value in table.items()}, tuple(wanted)


def _key(key: str) -> str | int:
    """Tables of TOML and JSON have texts as keys; a number is meant as one."""
    return int(key) if key.isdecimal() else key


def written_tensor(name: str, text: str) -> WantedInput:
    """The tensor of a text; raises ValueError if it follows no rule."""
    found = TENSOR.fullmatch(text)
    if found is None:
        raise ValueError(f"input {name!r}: {text!r} is no tensor; write [dtype] SHAPE [fill], as in 'int64 1x77 <1000'")
    dtype = found["dtype"] or "float32"
    shape = () if found["shape"] == "scalar" else tuple(int(size) for size in found["shape"].split("x"))
    if not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise ValueError(f"input {name!r}: {text!r} names no dtype of torch")
    spec = TensorSpec(dtype=dtype, shape=shape, stride=dense_stride(shape), device="cpu")
    return WantedInput(name=name, spec=spec, init=_init(name, found["fill"], dtype))


def _init(name: str, text: str | None, dtype: str) -> str:
    if text is None:
        return DEFAULT_FILLS.get(dtype, _init(name, "normal", dtype))
    for pattern, make in FILLS:
        if re.fullmatch(pattern, text):
            return values.dumps(make(text))
    raise ValueError(f"input {name!r}: {text!r} is no fill; write ones, zeros, normal, unit, arange, <100 or =1")


def called(
    model: torch.nn.Module, call: Mapping[str, Any], wanted: tuple[WantedInput, ...], positional: Sequence[str] = ()
) -> torch.nn.Module:
    """The model, or the model behind `Called` where its call holds more than tensors by name; it knows its inputs.

    `positional` names what of the call is given by position, in order.
    """
    plain = not positional and all(isinstance(value, Slot) for value in call.values())
    named = {name: value for name, value in call.items() if name not in positional}
    found = model if plain else Called(model, [call[name] for name in positional], named)
    found.wanted_inputs = wanted  # type: ignore[assignment]
    return found
