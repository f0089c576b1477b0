"""The float64 oracle: what a graph would give if no step of it rounded to a smaller type.

    found = oracle_outputs(graph, inputs, count)
    found.values                                 # float64 tensors; None where an output has no oracle
    found.mixes                                  # whether any step brings elements of one tensor together

Reads and writes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from passbench.rounding import is_pointwise
from schemas.fx import lower
from schemas.graph import Graph

_SMALL = (torch.float16, torch.bfloat16, torch.float32)
MAX_ELEMENTS = 2**26
"""Graphs with larger inputs get no oracle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle:
    """What a graph would give without rounding."""

    values: list[torch.Tensor | None]
    """Outputs in float64 on the CPU, None for those that did not become float64 or if the graph refuses it."""
    mixes: bool
    """Whether an element of an output may depend on several elements of an input; True where that is not known."""


class _Widen(TorchDispatchMode):
    """Every request for a smaller floating type becomes one for float64."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.mixes = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.mixes |= not is_pointwise(func)
        args, kwargs = pytree.tree_map(_widened, (args, kwargs or {}))
        return func(*args, **kwargs)


def _widened(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.float64 if value in _SMALL else value
    if isinstance(value, torch.Tensor) and value.dtype in _SMALL:
        return value.double()
    return value


def oracle_outputs(graph: Graph, inputs: Sequence[Any], count: int) -> Oracle:
    """The outputs of a graph without rounding."""
    nothing: list[torch.Tensor | None] = [None] * count
    if sum(value.numel() for value in inputs if isinstance(value, torch.Tensor)) > MAX_ELEMENTS:
        return Oracle(values=nothing, mixes=True)
    widen = _Widen()
    try:
        with widen:
            found = pytree.tree_leaves(lower(graph)(*map(_widened, inputs)))
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return Oracle(values=nothing, mixes=True)
    known = [value if isinstance(value, torch.Tensor) and value.dtype == torch.float64 else None for value in found]
    return Oracle(values=known, mixes=widen.mixes)
