"""What a forward may take from outside of its arguments and its tensors: clocks, generators, numbers kept in Python.

    with other_surroundings(7): result = model(x)     # clocks far ahead, Python's and numpy's generators seeded anew
    before = kept_state(model); model(x); before == kept_state(model)      # whether it keeps something in Python
    names = sources_called(lambda: model(x))          # ("time.time", "torch.manual_seed")

A graph holds none of these: what they decided while it was captured is a number in it. Comparing calls in other
surroundings finds such a graph; the names say where it comes from. Reads the running process; `other_surroundings`
replaces functions of clocks in `time`, `datetime` and in modules that are no part of Python or torch while it is open.
"""

import datetime
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import torch

AHEAD_S = 720_720 * 1_543 + 1
"""Seconds that clocks are put ahead by: one more than a multiple of every number up to 16: remainders differ too."""
_SECONDS = ("time", "perf_counter", "monotonic", "process_time", "thread_time")
_FROM_NOW = {"localtime": 0, "gmtime": 0, "ctime": 0, "strftime": 1}
"""Functions of `time` that take a moment, now without one -> position of that argument."""
_NOW = ("now", "utcnow", "today")
"""Constructors of dates that ask the clock."""
_STEADY = sys.stdlib_module_names | {"torch", "numpy"}
"""Packages that keep their clocks: time limits hang on them."""


# --- other surroundings ---------------------------------------------------------------------------------------------
@contextmanager
def other_surroundings(seed: int) -> Iterator[None]:
    """Seed Python's and numpy's generators and put clocks ahead for a while; afterwards all are as before."""
    python, numpys = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    try:
        with _clocks_ahead(AHEAD_S + seed % 1_000):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpys)


@contextmanager
def _clocks_ahead(seconds: int) -> Iterator[None]:
    """Replace clock functions wherever a module outside of Python and torch names them."""
    swapped = _ahead(seconds)
    with ExitStack() as stack:
        for module in [time, datetime, *_foreign_modules()]:
            names = [name for name, value in list(vars(module).items()) if _is_clock(value, swapped)]
            for name in names:
                kept = vars(module)[name]
                setattr(module, name, swapped[id(kept)])
                stack.callback(setattr, module, name, kept)
        yield


def _is_clock(value: Any, swapped: Mapping[int, Any]) -> bool:
    return id(value) in swapped


def _foreign_modules() -> list[ModuleType]:
    loaded = [item for item in list(sys.modules.values()) if isinstance(item, ModuleType)]
    return [item for item in loaded if str(item.__name__).partition(".")[0] not in _STEADY]


def _ahead(seconds: int) -> dict[int, Any]:
    """id of a clock's function or class -> one that is ahead."""
    found: dict[int, Any] = {}
    for name in _SECONDS:
        found[id(getattr(time, name))] = _plus(getattr(time, name), seconds)
        found[id(getattr(time, f"{name}_ns"))] = _plus(getattr(time, f"{name}_ns"), seconds * 10**9)
    for name, position in _FROM_NOW.items():
        found[id(getattr(time, name))] = _at(getattr(time, name), position, time.time, seconds)
    found[id(datetime.datetime)] = _later(datetime.datetime, datetime.timedelta(seconds=seconds))
    found[id(datetime.date)] = _later(datetime.date, datetime.timedelta(seconds=seconds))
    return found


def _plus(clock: Callable[[], Any], amount: int) -> Callable[[], Any]:
    return lambda: clock() + amount


def _at(function: Callable[..., Any], position: int, now: Callable[[], float], seconds: int) -> Callable[..., Any]:
    def ahead(*given: Any) -> Any:
        if len(given) > position and given[position] is not None:
            return function(*given)
        moment = now() + seconds
        return function(*given[:position], time.gmtime(moment) if position else moment)

    return ahead


def _later(kind: Any, by: datetime.timedelta) -> Any:
    """A class of dates whose present is later; instances are those of the class itself."""

    class Ahead(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, kind)

        def __call__(cls, *given: Any, **named: Any) -> Any:
            return kind(*given, **named)

        def __getattr__(cls, name: str) -> Any:
            found = getattr(kind, name)
            return (lambda *given, **named: found(*given, **named) + by) if name in _NOW else found

    return Ahead(kind.__name__, (), {})


# --- what is kept from call to call ---------------------------------------------------------------------------------
_DEPTH = 5
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_NOT_ENTERED = frozenset({"_parameters", "_buffers", "_modules"})


def kept_state(model: torch.nn.Module) -> dict[str, Any]:
    """What a model keeps in Python: path -> number, text, or the identity of a tensor or another object.

    Looked at are attributes of its modules, of their classes and plain values in the files that define them.
    """
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for prefix, module in model.named_modules():
        for name, value in list(vars(module).items()):
            if name not in _NOT_ENTERED:
                _note(found, f"{prefix}.{name}", value, _DEPTH, seen)
    classes = {cls for module in model.modules() for cls in type(module).__mro__ if not _is_steady(cls.__module__)}
    for cls in sorted(classes, key=lambda cls: (cls.__module__, cls.__qualname__)):
        for owner, space in ((cls.__qualname__, vars(cls)), (cls.__module__, _globals(cls.__module__))):
            for name, value in list(space.items()):
                if isinstance(value, (*_PLAIN, list, dict, set)) and not name.startswith("__"):
                    _note(found, f"{owner}.{name}", value, _DEPTH, seen)
    return found


def _is_steady(module: str) -> bool:
    return module.partition(".")[0] in _STEADY


def _globals(module: str) -> Mapping[str, Any]:
    return vars(sys.modules[module]) if module in sys.modules else {}


def _note(found: dict[str, Any], path: str, value: Any, depth: int, seen: set[int]) -> None:
    if isinstance(value, _PLAIN):
        found[path] = value
        return
    items = _items(value) if depth and id(value) not in seen else None
    found[path] = id(value) if items is None else (type(value).__name__, len(items))
    if items is not None:
        seen.add(id(value))
        for key, item in items:
            _note(found, f"{path}.{key}", item, depth - 1, seen)


def _items(value: Any) -> list[tuple[Any, Any]] | None:
    """What is in a container or a plain object; None for what is taken as one thing."""
    if isinstance(value, dict):
        return list(value.items())[:1000]
    if isinstance(value, list | tuple):
        return list(enumerate(value[:1000]))
    if isinstance(value, set | frozenset):
        return [(0, len(value))]
    if isinstance(value, torch.Tensor | torch.nn.Module | type | ModuleType) or callable(value):
        return None
    return list(vars(value).items()) if hasattr(value, "__dict__") else None


# --- who asks for what ----------------------------------------------------------------------------------------------
def sources_called(call: Callable[[], Any]) -> tuple[str, ...]:
    """Which clocks and generators outside of tensors a call asks, in order, without repetition; errors pass."""
    found: dict[str, None] = {}
    python, numpys = random.getstate(), np.random.get_state()

    def watch(frame: FrameType, event: str, what: Any) -> None:
        if event == "c_call":
            name = _of_builtin(what, frame)
        else:
            name = _of_python(frame) if event == "call" else ""
        if name:
            found[name] = None

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before)
    if random.getstate() != python:
        found["random (Python's generator)"] = None
    if not all(np.array_equal(a, b) for a, b in zip(np.random.get_state(), numpys, strict=True)):
        found["numpy.random"] = None
    return tuple(found)


def _of_builtin(function: Any, frame: FrameType) -> str:
    """The name of a built-in source, asked by code that is no part of Python or torch; else empty."""
    if _is_steady(str(frame.f_globals.get("__name__", ""))):
        return ""
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if isinstance(owner, torch.Generator):
        return f"torch.Generator.{name}"
    if owner is time:
        return f"time.{name}" if name.removesuffix("_ns") in _SECONDS or name in _FROM_NOW else ""
    if owner in (datetime.datetime, datetime.date) and name in _NOW:
        return f"datetime.{name}"
    return "os.urandom" if function is os.urandom else ""


def _of_python(frame: FrameType) -> str:
    """The name of a function that seeds or reads torch's generator, or asks the system for numbers; else empty."""
    module, name = str(frame.f_globals.get("__name__", "")), frame.f_code.co_name
    if module in ("torch.random", "torch.cuda.random") and name in torch.random.__all__:
        return f"torch.{name}"
    return f"{module}.{name}" if module in ("secrets", "uuid") else ""
