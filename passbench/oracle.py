"""The float64 oracle: what a graph would give if no step of it rounded to a smaller type.

    oracle_outputs(graph, inputs, count)         # float64 tensors; None where an output has no oracle

Reads and writes nothing.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from schemas.fx import lower
from schemas.graph import Graph

_SMALL = (torch.float16, torch.bfloat16, torch.float32)
MAX_ELEMENTS = 2**26
"""Graphs with larger inputs get no oracle."""


class _Widen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Every request for a smaller floating type becomes one for float64."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map(_widened, (args, kwargs or {}))
        return func(*args, **kwargs)


def _widened(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.float64 if value in _SMALL else value
    if isinstance(value, torch.Tensor) and value.dtype in _SMALL:
        return value.double()
    return value


def oracle_outputs(graph: Graph, inputs: Sequence[Any], count: int) -> list[torch.Tensor | None]:
    """Outputs in float64 on the CPU, None for outputs that did not become float64 or if the graph refuses it."""
    nothing: list[torch.Tensor | None] = [None] * count
    if sum(value.numel() for value in inputs if isinstance(value, torch.Tensor)) > MAX_ELEMENTS:
        return nothing
    try:
        with _Widen():  # type: ignore[no-untyped-call]
            found = pytree.tree_leaves(lower(graph)(*map(_widened, inputs)))
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return nothing
    return [value if isinstance(value, torch.Tensor) and value.dtype == torch.float64 else None for value in found]
