"""What of the Python interpreter an item may leave changed, and how it is put back: one row a global.

    Global(what="sys.path", read=lambda: tuple(sys.path), restore=...)
    INTERPRETER             # the rows, in the order in which they are put back

Reads the interpreter's globals; a row's `restore` writes them. `extract.torch_state` has the rows of torch, and
`extract.isolation` goes through both.
"""

import builtins
import gc
import locale
import logging
import math
import multiprocessing
import operator
import os
import random
import resource
import signal
import sys
import sysconfig
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("schemas", "data", "passbench", "extract", "dedup", "fusion_mining", "curate", "flows")
"""The packages of PassNet, which stay loaded."""
_MISSING = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Global:
    """One thing that code shares with whatever runs after it in the process."""

    what: str
    """Its name for people."""
    read: Callable[[], Any]
    """Its value now, of which later changes change nothing."""
    restore: Callable[[Any], None]
    """Gives it a value that was read."""
    same: Callable[[Any, Any], bool] = operator.eq
    """Whether two values that were read are the same."""
    changed: Callable[[Any], bool] | None = None
    """Whether it is another than a value that was read, where that is told without reading it anew."""
    lingers: bool = False
    """Whether a change ends the process although it is undone: whoever made it may be alive still and act again."""

    def differs(self, before: Any) -> bool:
        """Whether it is another now than a value that was read of it."""
        return not self.same(before, self.read()) if self.changed is None else self.changed(before)


def nothing(_: Any) -> None:
    """Stands where there is no way back: reading again tells that the value is another."""


# --- modules --------------------------------------------------------------------------------------------------------
@cache
def _library_roots() -> tuple[str, ...]:
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    own = {str(ROOT / package) for package in PACKAGES}
    return tuple(sorted(str(Path(path).resolve()) + os.sep for path in paths | own))


@cache
def _is_below_library(path: str) -> bool:
    return (str(Path(path).resolve()) + os.sep).startswith(_library_roots())


def is_library(name: str, module: Any) -> bool:
    """Whether a loaded module belongs to Python, to an installed distribution or to PassNet.

    A module without a file, which extensions make, goes with the package that its name is in.
    """
    origin = getattr(getattr(module, "__spec__", None), "origin", None) or getattr(module, "__file__", None)
    top = name.partition(".")[0]
    if origin in ("built-in", "frozen") or top in sys.stdlib_module_names:
        return True
    if isinstance(origin, str) and os.path.isabs(origin):
        return _is_below_library(origin)
    folders = list(getattr(module, "__path__", ()))
    if folders:
        return _is_below_library(str(folders[0]))
    return top != name and top in sys.modules and is_library(top, sys.modules[top])


def _same_modules(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return not _lost(before, now) and not _strangers(before, now)


def _lost(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return [name for name, module in before.items() if now.get(name, _MISSING) is not module]


def _strangers(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return [name for name in now.keys() - before.keys() if not is_library(name, now[name])]


def _restore_modules(before: Mapping[str, Any]) -> None:
    """Put back what was replaced, forget what is not a library's; libraries that were loaded stay loaded."""
    for name in _strangers(before, sys.modules):
        del sys.modules[name]
    for name in _lost(before, sys.modules):
        sys.modules[name] = before[name]


# --- functions that were replaced -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Bindings:
    """What modules and classes bound their names to at one time."""

    owners: tuple[Any, ...]
    names: tuple[dict[str, Any], ...]
    """Of each owner, in order."""

    def changed(self) -> list[tuple[Any, str, Any]]:
        """(owner, name, what it was bound to or _MISSING) of every name that is bound to something else now.

        In a module only functions and classes count, other values are its own business; in a class everything does.
        """
        found = []
        for owner, old in zip(self.owners, self.names, strict=True):
            now = vars(owner)
            if len(old) == len(now) and all(map(operator.is_, old.values(), now.values())):
                continue
            is_class = isinstance(owner, type)
            found += [(owner, name, value) for name, value in old.items()
                      if now.get(name, _MISSING) is not value and (is_class or callable(value))]  # fmt: skip
            found += [(owner, name, _MISSING) for name, value in now.items()
                      if name not in old and callable(value) and not name.startswith("__")]  # fmt: skip
        return found


def bindings(owners: Iterable[Any]) -> Bindings:
    """What modules and classes bind their names to now."""
    kept = tuple(owners)
    return Bindings(owners=kept, names=tuple(dict(vars(owner)) for owner in kept))


def is_rebound(before: Bindings) -> bool:
    """Whether any name is bound to something else now."""
    return bool(before.changed())


def restore_bindings(before: Bindings) -> None:
    """Bind every name again to what it was bound to, and take away the names that were none."""
    for owner, name, value in before.changed():
        if value is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, value)


# --- single globals -------------------------------------------------------------------------------------------------
def contents(what: str, held: list[Any], *, lingers: bool = False) -> Global:
    """The row of a list."""

    def restore(value: Any) -> None:
        held[:] = value

    return Global(what=what, read=lambda: tuple(held), restore=restore, lingers=lingers)


def mapping(what: str, held: MutableMapping[Any, Any]) -> Global:
    """The row of a dictionary."""

    def restore(value: Mapping[Any, Any]) -> None:
        held.clear()
        held.update(value)

    return Global(what=what, read=lambda: dict(held), restore=restore)


def _restore_environment(value: Mapping[str, str]) -> None:
    for name in os.environ.keys() - value.keys():
        del os.environ[name]
    os.environ.update({name: text for name, text in value.items() if os.environ.get(name) != text})
    time.tzset()


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _restore_filters(value: Any) -> None:
    warnings.resetwarnings()  # tells the places that warned that filters are others
    warnings.filters[:] = value  # type: ignore[index]


def _loggers() -> dict[str, logging.Logger]:
    known = logging.root.manager.loggerDict
    return {"": logging.root} | {name: item for name, item in known.items() if isinstance(item, logging.Logger)}


def _logging() -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {
        name: (item.level, item.propagate, item.disabled, tuple(item.handlers), tuple(item.filters))
        for name, item in _loggers().items()
    }
    return found | {"disabled below": (logging.root.manager.disable,)}


def _same_logging(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return all(now.get(name) == value for name, value in before.items())


def _restore_logging(before: Mapping[str, tuple[Any, ...]]) -> None:
    logging.disable(before["disabled below"][0])
    for name, item in _loggers().items():
        if name in before:
            level, item.propagate, item.disabled, handlers, filters = before[name]
            item.setLevel(level)
            item.handlers[:], item.filters[:] = handlers, filters


_SIGNALS = tuple(sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))


def _handlers() -> tuple[Any, ...]:
    return tuple(map(signal.getsignal, _SIGNALS))


def _restore_handlers(before: Sequence[Any]) -> None:
    for number, handler, now in zip(_SIGNALS, before, _handlers(), strict=True):
        if handler is not now and handler is not None:
            signal.signal(number, handler)


def _restore_collector(value: tuple[bool, tuple[int, int, int], int, tuple[Any, ...]]) -> None:
    enabled, thresholds, debug, callbacks = value
    (gc.enable if enabled else gc.disable)()
    gc.set_threshold(*thresholds)
    gc.set_debug(debug)
    gc.callbacks[:] = callbacks


def _umask() -> int:
    value = os.umask(0o77)
    os.umask(value)
    return value


_LIMITS = tuple(value for name, value in sorted(vars(resource).items()) if name.startswith("RLIMIT_"))


def _restore_limits(before: Sequence[tuple[int, int]]) -> None:
    for which, value in zip(_LIMITS, before, strict=True):
        if resource.getrlimit(which) != value:
            resource.setrlimit(which, value)


def _threads() -> frozenset[int]:
    return frozenset(thread.ident or 0 for thread in threading.enumerate())


def _processes() -> frozenset[str]:
    """Processes that the threads of this one started and that are still there."""
    lists = Path("/proc/self/task").glob("*/children")
    return frozenset(pid for path in lists for pid in _text(path).split())


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""


def _no_more(before: frozenset[Any], now: frozenset[Any]) -> bool:
    return now <= before


_STREAMS = ("stdin", "stdout", "stderr", "excepthook", "displayhook", "unraisablehook", "argv", "dont_write_bytecode")


def _restore_streams(value: Sequence[Any]) -> None:
    for name, item in zip(_STREAMS, value, strict=True):
        setattr(sys, name, item)


def _hooks() -> tuple[Any, ...]:
    return sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile(), threading.excepthook


def _restore_hooks(value: tuple[Any, ...]) -> None:
    trace, profile, trace_all, profile_all, threading.excepthook = value
    sys.settrace(trace)
    sys.setprofile(profile)
    threading.settrace(trace_all)
    threading.setprofile(profile_all)


# --- numpy, where it is loaded --------------------------------------------------------------------------------------
def _numpy() -> Any:
    return sys.modules.get("numpy")


def _numpy_state() -> Any:
    numpy = _numpy()
    if numpy is None:
        return None
    kind, key, *rest = numpy.random.get_state()
    return kind, key.tobytes(), *rest


def _restore_numpy_state(value: Any) -> None:
    numpy = _numpy()
    if value is not None and numpy is not None:
        kind, key, *rest = value
        numpy.random.set_state((kind, numpy.frombuffer(key, dtype=numpy.uint32), *rest))


def _numpy_settings() -> Any:
    numpy = _numpy()
    return None if numpy is None else (numpy.get_printoptions(), numpy.geterr(), numpy.getbufsize())


def _restore_numpy_settings(value: Any) -> None:
    numpy = _numpy()
    if value is not None and numpy is not None:
        printing, errors, buffer = value
        numpy.set_printoptions(**printing)
        numpy.seterr(**errors)
        numpy.setbufsize(buffer)


def _first_loaded(before: Any, now: Any) -> bool:
    """Whether two values are the same, or were first read after their library was loaded."""
    return before is None or bool(before == now)


_PYTHON = (builtins, math, random, operator, os, time, sys, warnings)

FUNCTIONS = Global(
    what="functions of Python", read=lambda: bindings(_PYTHON), restore=restore_bindings, changed=is_rebound
)
INTERPRETER: tuple[Global, ...] = (
    Global(what="sys.modules", read=lambda: dict(sys.modules), restore=_restore_modules, same=_same_modules),
    contents("sys.path", sys.path), contents("sys.meta_path", sys.meta_path),
    contents("sys.path_hooks", sys.path_hooks),
    Global(what="streams and hooks of sys", read=lambda: tuple(getattr(sys, name) for name in _STREAMS),
           restore=_restore_streams),
    Global(what="trace and profile hooks", read=_hooks, restore=_restore_hooks),
    Global(what="environment", read=lambda: dict(os.environ), restore=_restore_environment, lingers=True),
    Global(what="working folder", read=_folder, restore=os.chdir),
    Global(what="umask", read=_umask, restore=lambda value: nothing(os.umask(value))),
    Global(what="locale", read=lambda: locale.setlocale(locale.LC_ALL),
           restore=lambda value: nothing(locale.setlocale(locale.LC_ALL, value))),
    Global(what="warnings", read=lambda: tuple(warnings.filters), restore=_restore_filters),
    Global(what="logging", read=_logging, restore=_restore_logging, same=_same_logging),
    Global(what="signal handlers", read=_handlers, restore=_restore_handlers),
    Global(what="blocked signals", read=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
           restore=lambda value: nothing(signal.pthread_sigmask(signal.SIG_SETMASK, value))),
    Global(what="timer", read=lambda: signal.getitimer(signal.ITIMER_REAL)[0] > 0,
           restore=lambda value: nothing(value or signal.setitimer(signal.ITIMER_REAL, 0.0))),
    Global(what="garbage collector", restore=_restore_collector,
           read=lambda: (gc.isenabled(), gc.get_threshold(), gc.get_debug(), tuple(gc.callbacks))),
    Global(what="recursion limit", read=sys.getrecursionlimit, restore=sys.setrecursionlimit),
    Global(what="switch interval", read=sys.getswitchinterval, restore=sys.setswitchinterval),
    Global(what="digits of whole numbers", read=sys.get_int_max_str_digits, restore=sys.set_int_max_str_digits),
    Global(what="start method of multiprocessing", read=lambda: multiprocessing.get_start_method(allow_none=True),
           restore=lambda value: multiprocessing.set_start_method(value, force=True)),
    Global(what="limits of the process", read=lambda: tuple(map(resource.getrlimit, _LIMITS)),
           restore=_restore_limits),
    Global(what="processors of the process", read=lambda: os.sched_getaffinity(0),
           restore=lambda value: os.sched_setaffinity(0, value)),
    Global(what="random", read=random.getstate, restore=random.setstate),
    Global(what="numpy.random", read=_numpy_state, restore=_restore_numpy_state, same=_first_loaded),
    Global(what="settings of numpy", read=_numpy_settings, restore=_restore_numpy_settings, same=_first_loaded),
    Global(what="threads", read=_threads, restore=nothing, same=_no_more),
    Global(what="processes", read=_processes, restore=nothing, same=_no_more),
)  # fmt: skip
"""Everything else of Python that is put back, in this order."""
