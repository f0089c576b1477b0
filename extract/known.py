"""Which tensors of a forward have known values although the weights are fake, and how a call runs on them.

    known = Known(built)
    known.value(mask)                    # its real values, or None
    known.run(torch.any, (mask,), {})    # for real where all operands are known, else on fake tensors

Known are: results of factory calls of moderate size, integer and boolean inputs, buffers that a constructor computed,
and whatever is computed from these alone; never parameters or running statistics. A known tensor that something
unknown is written into is known no longer, nor are its views. Reads and writes nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils import _pytree as pytree

from extract.build import FACTORIES, Built, is_moderate
from extract.initialisers import STATISTICS

ALIKE = frozenset("zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty new_tensor".split())
"""Calls that need the dtype and shape of their operand, not its values."""
FITTED = frozenset({"expand_as", "view_as", "reshape_as", "type_as"})
"""Methods that need the dtype and shape of their argument, not its values."""
_INPLACE = frozenset(
    "__setitem__ __iadd__ __isub__ __imul__ __imatmul__ __itruediv__ __idiv__ __ifloordiv__ __imod__ __ipow__ "
    "__ilshift__ __irshift__ __iand__ __ixor__ __ior__".split()
)
"""Operators that write into their first operand."""


class Known:
    """The values known in one call of a model."""

    def __init__(self, built: Built) -> None:
        self.built = built
        self._lost: dict[int, torch.UntypedStorage] = {}
        """Storages that something unknown was written into, kept alive so that no other gets their number."""

    def value(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The real values of a tensor, or None."""
        if int(tensor.untyped_storage()._cdata) in self._lost:
            return None
        if not isinstance(tensor, FakeTensor):
            return tensor
        name = self.built.name_of(tensor) or ""
        if isinstance(tensor, torch.nn.Parameter) or name.rpartition(".")[2] in STATISTICS:
            return None
        return self.built.data_of(tensor)

    def run(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The result of a call: real if it can be, else fake."""
        if self.built.mode is None:
            return func(*args, **kwargs)
        operands = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if not operands and not (func in (*FACTORIES, torch.empty) and is_moderate(func, args, kwargs)):
            return func(*args, **kwargs)
        if func.__name__ in ALIKE and _is_moderate_like(func.__name__, args, kwargs):
            args = (_blank(args[0]), *args[1:])
            operands = operands[1:]
        if func.__name__ in FITTED and len(args) == 2:
            args = (args[0], _blank(args[1]))
            operands = operands[:1]
        values = {id(operand): self.value(operand) for operand in operands}
        written = _written(operands, kwargs) if _writes(func.__name__, kwargs) else ()
        unknown = any(value is None for value in values.values())
        if unknown or any(isinstance(item, FakeTensor) for item in written):
            for item in written:
                storage = item.untyped_storage()
                self._lost[int(storage._cdata)] = storage
            return func(*args, **kwargs)
        with unset_fake_temporarily():
            given, spec = pytree.tree_flatten((args, kwargs))
            real = [values.get(id(leaf), leaf) for leaf in given]
            real_args, real_kwargs = pytree.tree_unflatten(real, spec)
            return func(*real_args, **real_kwargs)


def _is_moderate_like(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    sizes = tuple(args[0].shape) if name.endswith("_like") else args[1:]
    return name == "new_tensor" or is_moderate(torch.zeros, sizes, kwargs)


def _blank(tensor: torch.Tensor) -> torch.Tensor:
    """A real tensor of the same dtype and shape."""
    with unset_fake_temporarily():
        return torch.empty(tuple(tensor.shape), dtype=tensor.dtype)


def _writes(name: str, kwargs: Mapping[str, Any]) -> bool:
    """Whether a call writes into its first operand, or into `out`."""
    inplace = (name.endswith("_") and not name.endswith("__")) or bool(kwargs.get("inplace"))
    return inplace or name in _INPLACE or kwargs.get("out") is not None


def _written(operands: Sequence[torch.Tensor], kwargs: Mapping[str, Any]) -> Sequence[torch.Tensor]:
    return pytree.tree_leaves(kwargs["out"]) if kwargs.get("out") is not None else operands[:1]
