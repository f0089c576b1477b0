"""Every tensor that a module holds or its code names, with a path: not parameters and buffers alone.

    for path, tensor in held_tensors(model): ...      # "fc.weight", "scales.0", "forward.TABLE", "shift.offset"

Found are, in this order, parameters, buffers and attributes of every module; then what lists, dictionaries, dataclasses
and plain objects in attributes hold, hooks too; then class attributes, and what the methods of classes and functions in
attributes bring along: defaults, closures, and the globals that they name. A tensor has the first path that leads to
it; equal modules give equal paths. Reads the module alone and writes nothing.
"""

import functools
from collections import deque
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

DEPTH = 6
"""Containers inside containers that are entered."""
LARGEST = 10_000
"""Items of a container, above which it is not entered."""
_OWN = frozenset({"_parameters", "_buffers", "_modules"})
_FOREIGN = ("torch", "builtins", "numpy", "typing", "collections", "functools")
"""Packages whose classes and functions hold no tensors of a model."""
Found = tuple[str, torch.Tensor]


def held_tensors(model: torch.nn.Module) -> Iterator[Found]:
    """(path, tensor), each tensor once."""
    seen: set[int] = set()
    for found in (slot_tensors(model), _contained(model)):
        for path, tensor in found:
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield path, tensor


def slot_tensors(model: torch.nn.Module) -> Iterator[Found]:
    """(qualified name, tensor) of every parameter, buffer and plain tensor attribute."""
    for prefix, module in model.named_modules():
        for slots in (module._parameters, module._buffers, module.__dict__):
            for key, value in list(slots.items()):
                if isinstance(value, torch.Tensor):
                    yield f"{prefix}.{key}".lstrip("."), value


def _contained(model: torch.nn.Module) -> Iterator[Found]:
    walk = _Walk()
    for prefix, module in model.named_modules():
        for key, value in list(vars(module).items()):
            if key not in _OWN:
                yield from walk.enter(value, f"{prefix}.{key}".lstrip("."), DEPTH)
    for prefix, module in model.named_modules():
        for base in type(module).__mro__:
            if not _is_foreign(base):
                yield from walk.enter_class(base, prefix)


def _is_foreign(value: Any) -> bool:
    module = getattr(value, "__module__", None) or ""
    return module.partition(".")[0] in _FOREIGN


class _Walk:
    """One walk through what modules hold; every object is entered once."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def enter(self, value: Any, path: str, depth: int) -> Iterator[Found]:
        """Every tensor in a value, however deep."""
        if isinstance(value, torch.Tensor):
            yield path, value
            return
        if depth == 0 or value is None or isinstance(value, str | int | float | type | torch.nn.Module | ModuleType):
            return
        if id(value) in self.seen:
            return
        self.seen.add(id(value))
        for key, item in self._items(value):
            yield from self.enter(item, f"{path}.{key}", depth - 1)

    def enter_class(self, base: type, path: str) -> Iterator[Found]:
        """Attributes of a class, and what its methods bring along."""
        if id(base) in self.seen:
            return
        self.seen.add(id(base))
        for key, value in list(vars(base).items()):
            if not key.startswith("__"):
                yield from self.enter(value, f"{path}.{key}".lstrip("."), DEPTH)

    def _items(self, value: Any) -> Iterator[tuple[Any, Any]]:
        """(key, item) of what a container, a function or an instance holds."""
        if isinstance(value, staticmethod | classmethod | MethodType):
            yield "__func__", value.__func__
        elif isinstance(value, property | functools.cached_property):
            yield "fget", value.fget if isinstance(value, property) else value.func
        elif isinstance(value, functools.partial):
            yield from (("func", value.func), ("args", value.args), ("keywords", value.keywords))
        elif isinstance(value, FunctionType):
            yield from _brought_along(value)
        elif isinstance(value, list | tuple | deque | dict):
            if len(value) <= LARGEST:
                yield from list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        elif callable(value) and hasattr(value, "__wrapped__"):
            yield "__wrapped__", value.__wrapped__
        elif not _is_foreign(type(value)):
            yield from fields_of(value).items()


def fields_of(value: Any) -> dict[str, Any]:
    """Attributes of an instance, those in slots too."""
    slots = [name for base in reversed(type(value).__mro__) for name in _names_of_slots(base)]
    found = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return found | dict(getattr(value, "__dict__", {}))


def _names_of_slots(base: type) -> list[str]:
    slots = vars(base).get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _brought_along(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Closure, defaults and named globals of a function."""
    if _is_foreign(function):
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue
    yield from (("__defaults__", function.__defaults__), ("__kwdefaults__", function.__kwdefaults__))
    names = _names(function.__code__)
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType) and not _is_foreign_module(value):
            yield from ((f"{name}.{key}", vars(value)[key]) for key in names if key in vars(value))
        elif value is not None:
            yield name, value


def _is_foreign_module(value: ModuleType) -> bool:
    return value.__name__.partition(".")[0] in _FOREIGN


def _names(code: CodeType) -> list[str]:
    """Names of globals and attributes that a function and the functions in it use."""
    inner = [name for item in code.co_consts if isinstance(item, CodeType) for name in _names(item)]
    return list(dict.fromkeys([*code.co_names, *inner]))
