"""Which functions a graph may call, and their one qualified name each.

Is: the allow-list of namespaces, `name_of(function)` and `resolve(name)`, inverses of each other. A graph is data
from anywhere, so `resolve` never imports what a name asks for: it only looks up the namespaces below; a custom op may
load the one library that is known to register it.
Needs torch. Run: not runnable; `schemas.fx` uses it in both directions.
"""

import builtins
import math
import operator
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
import torch._functorch.predispatch
import torch._functorch.vmap
import torch.amp.autocast_mode

_TORCH_EXTRAS = frozenset({
    "finfo", "iinfo", "sym_int", "sym_float", "sym_not", "sym_max", "sym_min", "sym_sqrt", "sym_ite", "sym_sum",
    "Size", "_check", "_check_is_size", "_assert", "_shape_as_tensor", "set_grad_enabled", "is_grad_enabled",
    "is_tensor", "compiled_with_cxx11_abi", "is_inference_mode_enabled", "is_autocast_enabled",
})  # fmt: skip
_OPERATORS = frozenset(name for name in dir(operator) if not name.startswith("_")) - {
    "attrgetter", "itemgetter", "methodcaller", "call",
}  # fmt: skip


def _torch_root(name: str, value: Any) -> bool:
    """Functions of the `torch` namespace that compute on tensors; not load, save, compile or other machinery."""
    if name in _TORCH_EXTRAS or getattr(torch._C._VariableFunctions, name, None) is not None:
        return True
    return getattr(value, "__module__", "") == "torch.functional"


def _public(name: str, value: Any) -> bool:
    return not name.startswith("__") and not isinstance(value, ModuleType)


def _one_of(*names: str) -> Callable[[str, Any], bool]:
    return lambda name, value: name in names


NAMESPACES: tuple[tuple[str, Any, Callable[[str, Any], bool]], ...] = (
    ("torch", torch, _torch_root),
    ("torch.nn.functional", torch.nn.functional, _public),
    ("torch.special", torch.special, _public),
    ("torch.linalg", torch.linalg, _public),
    ("torch.fft", torch.fft, _public),
    ("operator", operator, lambda name, value: name in _OPERATORS),
    ("math", math, _public),
    (
        "builtins",
        builtins,
        _one_of("int", "float", "bool", "complex", "max", "min", "abs", "sum", "len", "round", "pow"),
    ),
    ("torch._C._nn", torch._C._nn, _public),
    ("torch._C._functorch", torch._C._functorch, _public),
    ("torch._functorch.predispatch", torch._functorch.predispatch, _public),
    ("torch._functorch.vmap", torch._functorch.vmap, _public),
    ("torch.amp.autocast_mode", torch.amp.autocast_mode, _one_of("_enter_autocast", "_exit_autocast")),
    ("torch._C", torch._C, _one_of("_set_grad_enabled", "_log_api_usage_once", "_autograd_init")),
    ("torch.Tensor", torch.Tensor, lambda name, value: not name.startswith("_") and callable(value)),
)
"""(prefix, namespace, predicate over (name, value)); the first namespace that holds a function names it."""


def _entries(prefix: str, space: Any, allowed: Any) -> Iterator[tuple[str, Any]]:
    for name in sorted(dir(space)):
        value = getattr(space, name, None)
        if callable(value) and allowed(name, value):
            yield f"{prefix}.{name}", value


@cache
def _tables() -> tuple[dict[str, Any], dict[int, str]]:
    by_name: dict[str, Any] = {}
    by_identity: dict[int, str] = {}
    for prefix, space, allowed in NAMESPACES:
        for name, value in _entries(prefix, space, allowed):
            by_name[name] = value
            by_identity.setdefault(id(value), name)
    return by_name, by_identity


def _name_of_operator(function: Any) -> str | None:
    if isinstance(function, torch._ops.OpOverload):
        return f"torch.ops.{function}"
    if isinstance(function, torch._ops.OpOverloadPacket):
        return f"torch.ops.{function._qualified_op_name.replace('::', '.')}"
    if isinstance(function, torch._ops.HigherOrderOperator):
        return f"torch.ops.higher_order.{function.__name__}"
    return None


OP_LIBRARIES = {"transformers": "transformers.integrations.moe", "torchvision": "torchvision"}
"""Namespace of custom ops -> the module whose import registers them; loaded on demand, where it is installed."""


def _custom_op(name: str) -> Any:
    """An op of `torch.ops`, after loading the known library of its namespace if need be; None if there is none."""
    parts = name.split(".")[2:]
    found = _lookup(parts)
    if found is None and parts[0] in OP_LIBRARIES and find_spec(OP_LIBRARIES[parts[0]].split(".")[0]):
        import_module(OP_LIBRARIES[parts[0]])
        found = _lookup(parts)
    return found


def _lookup(parts: list[str]) -> Any:
    found: Any = torch.ops
    for part in parts:
        found = getattr(found, part, None) if not part.startswith("__") else None
    is_op = isinstance(found, torch._ops.OpOverload | torch._ops.OpOverloadPacket | torch._ops.HigherOrderOperator)
    return found if is_op else None


def name_of(function: Any) -> str:
    """The qualified name of a function; raises ValueError if it is not one a graph may call."""
    name = _name_of_operator(function) or _tables()[1].get(id(function))
    if name is None:
        where = f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', function)}"
        raise ValueError(f"a graph cannot call {where}: it is in none of the allowed namespaces (schemas/targets.py)")
    return name


def resolve(name: str) -> Any:
    """The function of a qualified name; raises ValueError if a graph may not call it or this torch lacks it."""
    if name.startswith("torch.ops."):
        found = _custom_op(name)
        if found is not None:
            return found
    elif name in _tables()[0]:
        return _tables()[0][name]
    space = name.split(".")[2] if name.startswith("torch.ops.") and name.count(".") > 1 else ""
    if space in OP_LIBRARIES:
        raise ValueError(f"the custom op {name!r} needs the package {OP_LIBRARIES[space].split('.')[0]}: install it")
    raise ValueError(f"unknown call target {name!r}: not allowed in a graph, or not in torch {torch.__version__}")
