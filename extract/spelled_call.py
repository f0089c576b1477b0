"""How a call of a torch function is spelled in an FX graph: as Dynamo spells it.

    op, target, args = spelled_call(torch.Tensor.__radd__, (x, 2))

Reads and writes nothing. Raises NotRepresentable for a property of a tensor that no graph holds.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from schemas.fx import NotRepresentable

_SWAPPED = {
    "__rsub__": operator.sub, "__rpow__": operator.pow, "__rdiv__": operator.truediv, "__rmod__": operator.mod,
    "__rfloordiv__": operator.floordiv, "__rmatmul__": operator.matmul, "__rlshift__": operator.lshift,
    "__rrshift__": operator.rshift, "__rand__": operator.and_, "__ror__": operator.or_, "__rxor__": operator.xor,
}  # fmt: skip
"""Reflected operators -> the operator of swapped operands."""
_PROPERTIES: dict[str, tuple[str, Any]] = {
    "T": ("call_function", torch.ops.aten.numpy_T), "mT": ("call_function", torch.ops.aten.mT),
    "H": ("call_method", "adjoint"), "mH": ("call_method", "adjoint"), "data": ("call_method", "detach"),
    "real": ("call_function", torch.real), "imag": ("call_function", torch.imag),
}  # fmt: skip
"""Tensor properties that are tensors -> (FX op, target)."""


def spelled_call(func: Callable[..., Any], args: Sequence[Any]) -> tuple[str, Any, Sequence[Any]]:
    """(FX op, target, positional arguments) of a call, spelled as Dynamo does."""
    name = func.__name__
    if name == "__get__":
        attribute = func.__self__.__name__  # type: ignore[attr-defined]
        if attribute not in _PROPERTIES:
            raise NotRepresentable(f"the property {attribute!r} of a tensor is not held by the IR")
        return *_PROPERTIES[attribute], args
    if name in _SWAPPED:
        return "call_function", _SWAPPED[name], (args[1], args[0])
    if name.startswith("__"):
        plain = name.strip("_")
        return "call_function", getattr(operator, plain, None) or getattr(operator, f"{plain}_"), args
    for operation in (name, f"i{name.removesuffix('_')}"):
        if getattr(torch.Tensor, f"__{operation}__", None) is func:
            return "call_function", getattr(operator, operation), args
    if getattr(torch.Tensor, name, None) is func:
        return "call_method", name, args
    public = getattr(torch.nn.functional, name.lstrip("_"), None)
    is_dispatched = name.startswith("_") and getattr(torch.nn.functional, name, None) is func
    return "call_function", public if is_dispatched and public is not None else func, args
