"""What a forward may take from outside of its arguments and its tensors: clocks, generators, numbers kept in Python.

    with surroundings(7) as asked: result = model(x)      # other clocks, Python's and numpy's generators seeded anew
    before = kept_state(model); model(x); before == kept_state(model)      # whether it keeps something in Python
    names = sources_called(lambda: model(x))              # ("time.time", "torch.manual_seed")

A graph holds none of these: what they decided while it was captured is a number in it. Comparing calls in other
surroundings finds such a graph; the names say where it comes from. Nothing depends on the time or on luck: clocks
show what the number of the surroundings says, and go on by a step at each look. Reads the running process; while
`surroundings` is open, functions of clocks are replaced in `time`, `datetime` and modules outside of Python and torch.
"""

import datetime
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import torch

_CYCLE = 720_720
"""A multiple of every number up to 16: what is one more has another remainder by each of them."""
_BASE_NS = 1_700_000_000_000_000_000
_APART_S = _CYCLE * 1_543 + 1
"""Seconds between the clocks of two surroundings: 35 years, and other months, days of the week and hours too."""
_APART_NS = _APART_S * 10**9 + (1 - _APART_S * 10**9) % _CYCLE
_SECONDS = ("time", "perf_counter", "monotonic", "process_time", "thread_time")
_FROM_NOW = {"localtime": 0, "gmtime": 0, "ctime": 0, "strftime": 1}
"""Functions of `time` that take a moment, now without one -> position of that argument."""
_NOW = ("now", "utcnow", "today")
"""Constructors of dates that ask the clock."""
_STEADY = sys.stdlib_module_names | {"torch", "numpy"}
"""Packages that keep their clocks: time limits hang on them."""


# --- other surroundings ---------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Asked:
    """Whether a call asked for what is outside."""

    number: int
    looks: int = 0
    """How often it looked at a clock."""
    drew: bool = False
    """Whether it drew from Python's or numpy's generator."""

    def __bool__(self) -> bool:
        return self.drew or self.looks > 0

    def now_ns(self) -> int:
        """What clocks show; each look takes longer in later surroundings."""
        step = _CYCLE * (1 + self.number) * self.looks
        self.looks += 1
        return _BASE_NS + _APART_NS * self.number + step

    def now(self) -> float:
        """The same in seconds."""
        return self.now_ns() / 1e9


@contextmanager
def surroundings(number: int) -> Iterator[Asked]:
    """Set clocks and the generators of Python and numpy by a number (a small one) for a while."""
    kept, asked = _states(), Asked(number)
    random.seed(number)
    np.random.seed(number)
    before = _states()
    try:
        with _clocks(asked):
            yield asked
    finally:
        asked.drew = not _same_states(before, _states())
        random.setstate(kept[0])
        np.random.set_state(kept[1])


def _states() -> tuple[Any, Any]:
    return random.getstate(), np.random.get_state()


def _same_states(left: tuple[Any, Any], right: tuple[Any, Any]) -> bool:
    return left[0] == right[0] and all(np.array_equal(a, b) for a, b in zip(left[1], right[1], strict=True))


@contextmanager
def _clocks(asked: Asked) -> Iterator[None]:
    """Replace clock functions wherever a module outside of Python and torch names them."""
    swapped = _replacements(asked)
    with ExitStack() as stack:
        for module in [time, datetime, *_foreign_modules()]:
            for name, kept in [(name, value) for name, value in list(vars(module).items()) if id(value) in swapped]:
                setattr(module, name, swapped[id(kept)])
                stack.callback(setattr, module, name, kept)
        yield


def _foreign_modules() -> list[ModuleType]:
    loaded = [item for item in list(sys.modules.values()) if isinstance(item, ModuleType)]
    return [item for item in loaded if not _is_steady(str(item.__name__))]


def _is_steady(module: str) -> bool:
    return module.partition(".")[0] in _STEADY


def _replacements(asked: Asked) -> dict[int, Any]:
    """id of a clock's function or class -> what stands for it."""
    found: dict[int, Any] = {}
    for name in _SECONDS:
        found[id(getattr(time, name))] = asked.now
        found[id(getattr(time, f"{name}_ns"))] = asked.now_ns
    for name, position in _FROM_NOW.items():
        found[id(getattr(time, name))] = _at(getattr(time, name), position, asked)
    for kind in (datetime.datetime, datetime.date):
        found[id(kind)] = _dated(kind, asked)
    return found


def _at(function: Callable[..., Any], position: int, asked: Asked) -> Callable[..., Any]:
    """A function of a moment that takes the present of the surroundings for one that is left out."""
    gmtime = time.gmtime

    def dated(*given: Any) -> Any:
        if len(given) > position and given[position] is not None:
            return function(*given)
        moment = asked.now()
        return function(*given[:position], gmtime(moment) if position else moment)

    return dated


def _dated(kind: Any, asked: Asked) -> Any:
    """A class of dates with the present of the surroundings; instances are those of the class itself."""

    class Dated(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, kind)

        def __call__(cls, *given: Any, **named: Any) -> Any:
            return kind(*given, **named)

        def __getattr__(cls, name: str) -> Any:
            if name not in _NOW:
                return getattr(kind, name)
            return lambda *zone, **named: kind.fromtimestamp(asked.now(), *zone, *named.values())

    return Dated(kind.__name__, (), {})


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
    states = _states()

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
    after = _states()
    if after[0] != states[0]:
        found["random (Python's generator)"] = None
    if not _same_states((None, states[1]), (None, after[1])):
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
