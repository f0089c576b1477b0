"""Functions that wrappers call by name: Python's own, and those of torch, Triton and math that compute nothing.

    namespace.update(library(guards, {"torch.empty", "triton.cdiv", "math.ceil"}))    # "__py_len", "__lib_torch_empty"

Each does what the function of that name does with numbers, sizes and containers of them, and refuses tensors; those of
torch allocate. Reads the properties of the device.
"""

import builtins
import contextlib
import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterable
from importlib import import_module
from types import FunctionType
from typing import Any

import torch
import triton

from passbench.program.guards import Guards, iterable, number, plain, text
from passbench.program.refusal import Refused
from passbench.program.tables import ALLOCATING, CALLABLE, EXCEPTIONS, LANGUAGE, LANGUAGE_MODULES, MATH_FUNCTIONS
from passbench.program.values import TENSORS, Partial

_UNWRITTEN = frozenset({"torch.empty", "torch.empty_like", "torch.empty_strided"})
_PLAIN = "abs bool divmod float int max min pow range round slice sum any all".split()
_TYPES = {"int": int, "float": float, "bool": bool, "str": str, "tuple": tuple, "list": list, "dict": dict, "set": set,
          "range": range, "slice": slice, "frozenset": frozenset, "complex": complex}  # fmt: skip


def _over_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gets values without tensors."""

    def call(*args: Any, **kwargs: Any) -> Any:
        for value in args:
            plain(value)
        if kwargs:
            plain(kwargs)
        return function(*args, **kwargs)

    return call


def _over_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        for value in args:
            number(value)
        return function(*args)

    return call


def _length(value: Any) -> int:
    return len(value if type(value) in TENSORS else iterable(value))


def _nothing(*args: Any, **kwargs: Any) -> None:
    """What `print` does."""


def _type(value: Any, *more: Any) -> type:
    if more:
        raise Refused("wrapper-call", "type() of three arguments makes a class, which no wrapper may")
    return type(value)


def _zip(*parts: Any, strict: bool = False) -> list[Any]:
    return list(zip(*map(iterable, parts), strict=strict))


def _enumerate(value: Any, start: int = 0) -> list[Any]:
    return list(enumerate(iterable(value), start))


def _reversed(value: Any) -> list[Any]:
    return list(reversed(list(iterable(value))))


def _dictionary(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    pairs = [pair for part in args for pair in (part.items() if type(part) is dict else iterable(part))]
    return {**{plain(iterable(pair)[0]): iterable(pair)[1] for pair in pairs}, **kwargs}


def python_functions(guards: Guards) -> dict[str, Any]:
    """Python's functions and exceptions, "__py_len" and so on."""
    call = guards.call
    found: dict[str, Any] = {name: _over_plain(getattr(builtins, name)) for name in _PLAIN}

    def with_key(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            plain(args)
            return function(*args, **guards.with_key(kwargs))

        return called

    def mapped(function: Any, *parts: Any) -> list[Any]:
        return [call(function, *row) for row in zip(*map(iterable, parts), strict=False)]

    def filtered(function: Any, part: Any) -> list[Any]:
        return [item for item in iterable(part) if plain(item if function is None else call(function, item))]

    found.update({
        "len": _length, "print": _nothing, "type": _type, "zip": _zip, "enumerate": _enumerate, "reversed": _reversed,
        "dict": _dictionary, "list": lambda value=(): list(iterable(value)), "map": mapped, "filter": filtered,
        "tuple": lambda value=(): tuple(iterable(value)), "set": lambda value=(): set(plain(iterable(value))),
        "frozenset": lambda value=(): frozenset(plain(iterable(value))), "str": lambda value="": str(text(value)),
        "repr": lambda value: repr(text(value)), "sorted": with_key(sorted), "min": with_key(min), "max": with_key(max),
    })  # fmt: skip
    types: dict[Any, Any] = {found[name]: kind for name, kind in _TYPES.items() if name in found}

    def is_instance(value: Any, kinds: Any) -> bool:
        wanted = kinds if type(kinds) is tuple else (kinds,)
        given: list[Any] = [types.get(kind, kind) for kind in wanted]
        return isinstance(value, tuple(given))

    found["isinstance"] = is_instance
    found.update({name: getattr(builtins, name) for name in EXCEPTIONS})
    return {f"__py_{name}": value for name, value in found.items()}


# --- libraries ------------------------------------------------------------------------------------------------------
def _allocator(name: str, guards: Guards) -> Callable[..., Any]:
    function = getattr(torch, name.removeprefix("torch."))
    unwritten = name in _UNWRITTEN

    def allocate(*args: Any, **kwargs: Any) -> Any:
        if kwargs and "out" in kwargs:
            raise Refused("tensor-method", f"{name} with out=")
        for value in args[1:]:
            plain(value)
        found = function(*args, **kwargs)
        if unwritten and guards.store.shared:
            guards.store.fresh[id(found)] = found
        if unwritten and not guards.store.sealed:
            guards.store.unwritten[id(found)] = found
        return found

    return allocate


def _filled(name: str) -> Callable[..., Any]:
    """`full`, `full_like` and `as_tensor`, of numbers."""
    function = getattr(torch, name.removeprefix("torch."))
    may_take = name in ("torch.full_like", "torch.as_tensor")

    def made(*args: Any, **kwargs: Any) -> Any:
        if "out" in kwargs:
            raise Refused("tensor-method", f"{name} with out=")
        for place, value in enumerate(args):
            if place or not (may_take and type(value) in TENSORS):
                plain(value)
        if not all(type(value) in TENSORS and key in ("input", "data") for key, value in kwargs.items()):
            plain({key: value for key, value in kwargs.items() if key not in ("input", "data")})
        return function(*args, **kwargs)

    return made


def _cdiv(one: Any, two: Any) -> Any:
    return (number(one) + number(two) - 1) // two


def _product(*parts: Any, repeat: int = 1) -> list[Any]:
    return list(itertools.product(*map(iterable, parts), repeat=repeat))


def _math_product(values: Any, *, start: Any = 1) -> Any:
    return math.prod((number(value) for value in iterable(values)), start=number(start))


def _partial(function: Any, /, *args: Any, **kwargs: Any) -> Partial:
    return Partial(function, args, kwargs)


def _is_tensor(value: Any) -> bool:
    return type(value) in TENSORS


def _numel(value: Any) -> int:
    if type(value) not in TENSORS:
        raise TypeError("torch.numel is of tensors")
    return int(value.numel())


def _is_floating(value: Any) -> bool:
    return bool(value.is_floating_point()) if type(value) in TENSORS else bool(plain(value).is_floating_point)


def context(name: str, *args: Any) -> Any:
    """What stands in a `with`: a device where there is a GPU, else nothing."""
    if name == "torch.cuda.device" and torch.cuda.is_available():
        return torch.cuda.device(plain(args[0]))
    if name == "torch.cuda.device_of" and torch.cuda.is_available():
        return torch.cuda.device_of(args[0])  # type: ignore[no-untyped-call]
    return contextlib.nullcontext()


def library_function(name: str, guards: Guards) -> Any:
    """What a library's name stands for in a wrapper; raises Refused if it is not here."""
    if name in ("torch.full", "torch.full_like", "torch.as_tensor"):
        return _filled(name)
    if name in ALLOCATING:
        return _allocator(name, guards)
    if name in MATH_FUNCTIONS:
        return _math_product if name == "math.prod" else _over_numbers(getattr(math, name.removeprefix("math.")))
    special: dict[str, Any] = {
        "triton.cdiv": _cdiv, "triton.next_power_of_2": _over_numbers(triton.next_power_of_2),
        "triton.Config": _config(guards), "functools.partial": _partial, "functools.reduce": _reduce(guards),
        "itertools.product": _product,
        "operator.mul": _over_numbers(operator.mul), "operator.add": _over_numbers(operator.add),
        "torch.is_tensor": _is_tensor, "torch.numel": _numel, "torch.is_floating_point": _is_floating,
        "triton.language.constexpr": _over_plain(import_module(LANGUAGE).constexpr),
    }  # fmt: skip
    if name in special:
        return special[name]
    value = resolved(name)
    ordinary = name.startswith("torch.") and callable(value) and not isinstance(value, type)
    if name in ("torch.device", "torch.Size", "torch.finfo", "torch.iinfo") or ordinary:
        return _over_plain(value)
    return value


def resolved(name: str) -> Any:
    """The value of a dotted name of torch, math or Triton's language; raises Refused if there is none."""
    parts = name.split(".")
    try:
        if name.startswith(f"{LANGUAGE}.") or name in LANGUAGE_MODULES:
            count = next(k for k in range(len(parts), 1, -1) if ".".join(parts[:k]) in LANGUAGE_MODULES)
        else:
            count = 1
        found: Any = import_module(".".join(parts[:count]))
        for part in parts[count:]:
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise Refused("wrapper-call", f"{name} is not here: {error}") from error
    return found


def _config(guards: Guards) -> Callable[..., Any]:
    """triton.Config, whose hook before a launch is a function of the wrapper."""

    def config(*args: Any, pre_hook: Any = None, **kwargs: Any) -> Any:
        plain([*args, kwargs])
        hook = None if pre_hook is None else (lambda given: guards.call(pre_hook, dict(given)))
        return triton.Config(*args, pre_hook=hook, **kwargs)

    return config


def _reduce(guards: Guards) -> Callable[..., Any]:
    def reduce(function: Any, values: Any, *start: Any) -> Any:
        return functools.reduce(lambda one, two: guards.call(function, one, two), iterable(values), *start)

    return reduce


def library(guards: Guards, names: Iterable[str]) -> dict[str, Any]:
    """Python's functions, and the libraries' that a submission uses."""
    found = python_functions(guards)
    called = {name: library_function(name, guards) for name in names}
    guards.known |= {value for value in found.values() if isinstance(value, FunctionType)}
    guards.known |= {called[name] for name in CALLABLE & called.keys() if isinstance(called[name], FunctionType)}
    found.update({f"__lib_{name.replace('.', '_')}": value for name, value in called.items()})
    found["__context"] = context
    return found
