"""Which inputs a model is called with: the tables of `extract.input_rules`, followed.

    wanted = wanted_inputs(model, row)     # (WantedInput(name="input_ids", spec=..., init=...), ...)

An argument that no rule names is left to its default. Sizes are canonical and fixed (batch 1, text 128, decoder 16), so
that equal architectures give equal graphs. Reads and writes nothing; raises InputsError where no argument of `forward`
has a rule.
"""

import inspect
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import torch

from extract.failures import InputsError
from extract.input_rules import FACTS, INNER, MEDIA, PRODUCTS, RULES, InputRule
from extract.parts import signature_of
from passbench.inputs import value_of
from schemas import values
from schemas.fx import spec_of
from schemas.graph import TensorSpec
from schemas.rows import ModelConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedInput:
    """One keyword argument of the call."""

    name: str
    spec: TensorSpec
    init: str
    optional: bool = False
    """Whether a model that also takes a text can do without it."""
    example: torch.Tensor | None = field(default=None, compare=False, repr=False)
    """The very numbers that were given, where a person gave some: what a call that reads values has to see."""

    def value(self, seed: int) -> torch.Tensor:
        """The numbers that were given, a copy of them with their strides, or some by the initialiser."""
        if self.example is not None and spec_of(self.example) == self.spec:
            return copied(self.example)
        found = value_of(self.init, self.spec, seed=seed)
        assert isinstance(found, torch.Tensor), f"input {self.name} is a number, no tensor"
        return found


def copied(value: torch.Tensor) -> torch.Tensor:
    """A tensor of the same numbers and strides, expanded ones too, in a storage of its own."""
    if not value.numel():
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    extent = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    flat = value.as_strided((extent,), (1,), value.storage_offset()).clone()
    return flat.as_strided(value.shape, value.stride(), 0)


def wanted_inputs(model: torch.nn.Module, row: ModelConfig) -> tuple[WantedInput, ...]:
    """The keyword arguments a model is called with, in the order of its signature; a model may know them itself."""
    known: tuple[WantedInput, ...] | None = getattr(model, "wanted_inputs", None)
    if known is not None:
        return known
    facts = facts_of(json.loads(row.config), getattr(model, "config", None), family=row.family)
    parameters = signature_of(model).parameters
    signature = {
        name: parameter.default is inspect.Parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        for name, parameter in parameters.items()
    }
    names = tuple(signature)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        further = [rule.name for rule in RULES if rule.passed_on and rule.holds(row, names, needed=False)]
        signature |= {name: False for name in further if name not in signature}
    found = []
    for name, needed in signature.items():
        rule = next((rule for rule in RULES if rule.name == name and rule.holds(row, names, needed)), None)
        if rule is not None and rule.init:
            optional = not needed and any(fnmatchcase(name, glob) for glob in MEDIA)
            found.append(_wanted(rule, facts, optional))
    if not found:
        raise InputsError(f"no input rule for any argument of {row.class_name}.forward({', '.join(names)})")
    return tuple(found)


def without_media(wanted: tuple[WantedInput, ...]) -> tuple[WantedInput, ...]:
    """The call with text alone; the whole call where there is no text or nothing to leave out."""
    if not any(item.name == "input_ids" for item in wanted):
        return wanted
    return tuple(item for item in wanted if not item.optional)


def _wanted(rule: InputRule, facts: Mapping[str, int], optional: bool) -> WantedInput:
    shape = tuple(dim if isinstance(dim, int) else facts[dim] for dim in rule.shape)
    init = _filled({key: item for key, item in values.loads(rule.init).items() if key != "kind"}, facts)
    kind = values.loads(rule.init)["kind"]
    if kind in _WRITTEN:
        kind, init = "literal", {"data": _WRITTEN[kind](**init)}
    spec = TensorSpec(dtype=rule.dtype, shape=shape, stride=dense_stride(shape), device="cpu")
    return WantedInput(name=rule.name, spec=spec, init=values.dumps({"kind": kind, **init}), optional=optional)


def _filled(value: Any, facts: Mapping[str, int]) -> Any:
    """An initialiser with facts for their names and floats in the attribute grammar's exact form."""
    if isinstance(value, dict):
        return {key: _filled(item, facts) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, facts) for item in value]
    if isinstance(value, str):
        return facts[value]
    return {"float": repr(value)} if isinstance(value, float) else value


def _lattice(side: int) -> list[int]:
    """Column and row of every cell of a square, row by row."""
    return [number for row in range(side) for column in range(side) for number in (column, row)]


def _sentence(length: int, last: int) -> list[int]:
    """Tokens of which one, the last, ends the text."""
    return [*(3 + k for k in range(length - 1)), last]


def _first(length: int, count: int) -> list[int]:
    """A mask of the first places of a text."""
    return [int(place < count) for place in range(length)]


def _placed(length: int, count: int, token: int) -> list[int]:
    """Tokens of which the first stand for parts of a picture."""
    text = [number for number in range(3, 4 + length - count) if number != token]
    return [*(token for _ in range(count)), *text[: length - count]]


_WRITTEN: dict[str, Callable[..., list[int]]] = {
    "lattice": _lattice, "sentence": _sentence, "first": _first, "placed": _placed,
}  # fmt: skip
"""Kinds of the tables that stand for a literal."""


def dense_stride(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a contiguous tensor."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


# --- facts ----------------------------------------------------------------------------------------------------------
def facts_of(settings: Mapping[str, Any], config: Any = None, *, family: str = "") -> dict[str, int]:
    """All facts of a configuration, given as its dictionary and, if there is one, as the library's object."""
    facts: dict[str, int] = {}
    size = settings.get("input_size")
    if isinstance(size, list) and len(size) == 3:
        settings = {**settings, "num_channels": size[0], "image_size": size[1:]}
    levels = tuple(_levels(settings))
    for fact in FACTS:
        if fact.name in facts or f"{fact.name}_height" in facts:
            continue
        if not any(fnmatchcase(family, glob) for glob in fact.families):
            continue
        found = _look_up(fact.keys, levels, config)
        if fact.name.endswith("image"):
            facts[f"{fact.name}_height"], facts[f"{fact.name}_width"] = _sides(found, fact.default)
            continue
        if isinstance(found, list | tuple) and found:
            found = found[min(fact.entry, len(found) - 1)]
        value = found * fact.scale if isinstance(found, int) and found > 0 else fact.default * fact.scale
        facts[fact.name] = value if fact.limit is None else min(value, fact.limit)
    for name, factors, divisors in PRODUCTS:
        facts[name] = math.prod(facts[key] for key in factors) // math.prod(facts[key] for key in divisors)
    return facts


def _levels(settings: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A configuration and all inside it, outer ones first."""
    waiting = [settings]
    while waiting:
        level = waiting.pop(0)
        yield level
        names = [*(name for name in INNER if name in level), *sorted(name for name in level if name not in INNER)]
        waiting += [item for name in names if isinstance(item := level[name], Mapping)]


def _look_up(keys: tuple[str, ...], levels: tuple[Mapping[str, Any], ...], config: Any) -> Any:
    """The first key that the outer or a nested configuration has; attribute aliases of the object count."""
    for level in levels:
        for key in keys:
            if level.get(key) is not None:
                return level[key]
    return next((found for key in keys if (found := getattr(config, key, None)) is not None), None)


def _sides(found: Any, default: int) -> tuple[int, int]:
    """Height and width of an image size: a number, a pair, or a dictionary."""
    if isinstance(found, Mapping):
        found = [found.get("height", default), found.get("width", default)]
    if isinstance(found, list | tuple) and found:
        return int(found[0]), int(found[-1])
    return (int(found), int(found)) if isinstance(found, int) and found > 0 else (default, default)
