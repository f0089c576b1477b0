"""A module and its example inputs: what it is called with, read off the tensors a person gave.

    model = with_examples(module, lambda: (torch.randn(1, 64),), name="Net of my_models.py")

The inputs are a tensor, a tuple by position or a dictionary by name; tensors may sit in lists, tuples and
dictionaries. Floating-point values are kept as a distribution, whole numbers and booleans exactly where they are few.
Reads and writes nothing; raises ValueError that names the model if there is no tensor.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from extract.arguments import Called, Slot
from extract.inputs import WantedInput
from schemas.graph import TensorSpec


def with_examples(module: Any, inputs: Callable[[], Any], *, name: str) -> torch.nn.Module:
    """The module, behind `Called` where its call holds more than tensors by name; it knows its inputs."""
    if not isinstance(module, torch.nn.Module):
        raise ValueError(f"{name} is a {type(module).__name__}, no torch.nn.Module: its factory has to make one")
    with unset_fake_temporarily(), torch.device("cpu"):
        given = inputs()
    args = list(given) if isinstance(given, tuple) else [given] if not isinstance(given, Mapping) else []
    kwargs = dict(given) if isinstance(given, Mapping) else {}
    known = [
        item.name for item in inspect.signature(module.forward).parameters.values()
        if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)
    ]  # fmt: skip
    wanted: list[WantedInput] = []
    if len(args) <= len(known):
        kwargs = {**dict(zip(known, args, strict=False)), **kwargs}
        args = []
    tree = [_slots(f"input_{index}", item, wanted) for index, item in enumerate(args)]
    named = {key: _slots(str(key), item, wanted) for key, item in kwargs.items()}
    if not wanted:
        raise ValueError(f"the example inputs of {name} hold no tensor: give at least one")
    plain = not tree and all(isinstance(item, Slot) for item in named.values())
    found = module if plain else Called(module, tree, named)
    found.wanted_inputs = tuple(wanted)  # type: ignore[assignment]
    return found


def _slots(name: str, value: Any, wanted: list[WantedInput]) -> Any:
    """A structure with a Slot in place of every tensor; the tensors are noted in `wanted`."""
    if isinstance(value, torch.Tensor):
        wanted.append(WantedInput(name=name, spec=_spec(value), init=_init(value)))
        return Slot(name=name)
    if isinstance(value, Mapping):
        return {key: _slots(f"{name}_{key}", item, wanted) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_slots(f"{name}_{index}", item, wanted) for index, item in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) else items
    return value


def _spec(value: torch.Tensor) -> TensorSpec:
    return TensorSpec(
        dtype=str(value.dtype).removeprefix("torch."), shape=tuple(value.shape), stride=tuple(value.stride()),
        device="cpu",
    )  # fmt: skip


def _init(value: torch.Tensor) -> str:
    from extract.initialisers import describe, normal

    constant = value.numel() > 0 and bool((value == value.reshape(-1)[0]).all())
    if not value.dtype.is_floating_point or constant or value.numel() < 2:
        return describe(value.detach())
    finite = value.detach()[torch.isfinite(value)].double()
    return normal(float(finite.mean()), float(finite.std())) if finite.numel() > 1 else describe(value.detach())
