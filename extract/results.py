"""The tensors in what a forward returns, in the order in which a person would list them.

    tensors_in(ModelOutput(...))        # also those in dataclasses, named tuples and plain objects

Reads a value alone and writes nothing.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

DEPTH = 8
"""Objects inside objects that are entered."""


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Every tensor of a result, as often as it stands there."""
    return list(_tensors(value, DEPTH))


def _tensors(value: Any, depth: int) -> Iterator[torch.Tensor]:
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif depth and not isinstance(leaf, torch.nn.Module | type) and not callable(leaf):
            for item in _items(leaf):
                yield from _tensors(item, depth - 1)


def _items(value: Any) -> list[Any]:
    """What an object that is no container holds."""
    if is_dataclass(value):
        return [getattr(value, field.name) for field in fields(value)]
    if isinstance(value, list | tuple | dict):
        return list(value.values()) if isinstance(value, dict) else list(value)
    return list(vars(value).values()) if hasattr(value, "__dict__") else []
