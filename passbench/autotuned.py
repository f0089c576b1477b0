"""Autotuned kernels without a GPU: which configuration runs, and how more than one is tried.

    kernel = runnable(jitted, [Decorator(name="triton.autotune", kwargs={"configs": [...], "key": ["n"]})])
    with choose(1) as used: kernel[grid](x, out, n)      # the second valid configuration of every tuned kernel
    used.valid                                           # {"kernel": ["BLOCK: 512, num_warps: 4", ...]}

Triton's autotuner times every configuration on a device and takes the fastest. An interpreter's times say nothing, so
here the first valid configuration runs, and whoever grades asks for further ones with `choose`: any of them may be the
fastest on some device, so each must be right. Valid are those that `prune_configs_by` leaves and whose kernel breaks no
`tl.static_assert`; what such a kernel wrote is taken back. As Triton does, `reset_to_zero` fills its arguments with
zeros before the first launch of a new key and never afterwards, hooks of a configuration run before each launch, and a
single configuration is taken as it is. `restore_value` and hooks around trials have nothing to do where no trial runs.

On compiled kernels Triton's own decorators are used. `install` puts `autotune` in the place of Triton's.
"""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import triton
from triton.runtime import autotuner
from triton.runtime.errors import AutotunerError, InterpreterError
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import KernelInterface

MAX_TOLD = 64
"""Most configurations of a kernel that are told."""
MAX_TEXT = 120
"""Most characters of a configuration's name."""


@dataclass(slots=True, kw_only=True)
class Used:
    """What tuned kernels ran with while a choice was in force."""

    choice: int = 0
    """Which of the valid configurations is taken; the last where there are fewer."""
    valid: dict[str, list[str]] = field(default_factory=dict)
    """Kernel -> its valid configurations in one line each, the one that ran at the place of `choice`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decorator:
    """One decorator of a kernel, above `triton.jit`, with values for its arguments."""

    name: str
    """Dotted name: triton.autotune or triton.heuristics."""
    args: Sequence[Any] = ()
    """Positional arguments."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Arguments by name."""


_used = Used()


@contextlib.contextmanager
def choose(number: int) -> Iterator[Used]:
    """Have every tuned kernel run its valid configuration of this number, counted from 0."""
    global _used
    before, _used = _used, Used(choice=number)
    try:
        yield _used
    finally:
        _used = before


def name_of(config: Any) -> str:
    """A configuration in one line: its parameters, then warps and stages."""
    return ", ".join(f"{name}: {value}" for name, value in config.all_kwargs().items() if name != "num_ctas")[:MAX_TEXT]


class Tuned(KernelInterface):  # type: ignore[misc]
    """A kernel with configurations, in a process that interprets."""

    def __init__(self, fn: Any, configs: Sequence[Any], key: Sequence[str], options: Mapping[str, Any]) -> None:
        self.fn, self.arg_names, self.keys = fn, fn.arg_names, list(key)
        self.configs = list(configs) or [triton.Config({})]
        self.prune: Mapping[str, Any] = options.get("prune_configs_by") or {}
        self.zeroed: list[str] = list(options.get("reset_to_zero") or [])
        self.pre_hook: Callable[..., Any] | None = options.get("pre_hook")
        self.seen: set[Any] = set()
        self.refused: set[tuple[Any, int]] = set()
        """(key, number among the configurations) of those whose kernel broke a static assertion."""
        self.proven: set[tuple[Any, int]] = set()
        """The same of those that ran."""
        self.best_config: Any = None

    @property
    def __name__(self) -> str:
        return str(interpreted_in(self.fn).__name__)

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """One launch with the chosen configuration; raises what the kernel raises."""
        if warmup:
            return None
        named = {**dict(zip(self.arg_names, args, strict=False)), **kwargs}
        configs, key = self.valid(named, kwargs), self.key_of(named)
        while True:
            left = [k for k in range(len(configs)) if (key, k) not in self.refused]
            number = left[min(_used.choice, len(left) - 1)]
            config = self.best_config = configs[number]
            self.note(config, kwargs, [configs[k] for k in left])
            if key not in self.seen and len(configs) > 1:
                self.reset({**named, **config.all_kwargs()})
            self.seen.add(key)
            kept = snapshot(named) if len(left) > 1 and (key, number) not in self.proven else None
            if config.pre_hook is not None:
                config.pre_hook({**named, **config.all_kwargs()})
            try:
                found = self.fn.run(*args, grid=grid, warmup=False, **kwargs, **config.all_kwargs())
            except (InterpreterError, AssertionError) as error:
                if kept is None or not is_static_assertion(error):
                    raise
                restore(named, kept)
                self.refused.add((key, number))
            else:
                self.proven.add((key, number))
                return found

    def note(self, config: Any, kwargs: Mapping[str, Any], valid: Sequence[Any]) -> None:
        """Tell which configurations there are; raises ValueError if the launch gives what the chosen one gives."""
        _used.valid[self.__name__] = [name_of(item) for item in valid[:MAX_TOLD]]
        conflicts = sorted(kwargs.keys() & config.kwargs.keys())
        if conflicts:
            raise ValueError(f"{', '.join(conflicts)}: given at the launch and by the configurations of the kernel")

    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> list[Any]:
        """Nothing is compiled here."""
        return []

    def valid(self, named: Mapping[str, Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The configurations that pruning leaves."""
        early, model = self.prune.get("early_config_prune"), self.prune.get("perf_model")
        given = {name: value for name, value in named.items() if name not in kwargs}
        found = list(early(self.configs, given, **kwargs)) if early and len(self.configs) > 1 else self.configs
        if not found:
            raise AutotunerError("early_config_prune leaves no configuration; it must leave one at least")
        count = self.prune.get("top_k", 1.0)
        if isinstance(count, float):
            count = int(len(self.configs) * count)
        if model and len(self.configs) > 1 and len(found) > count:
            times = {k: model(**named, **config.all_kwargs()) for k, config in enumerate(found)}
            found = [found[k] for k in sorted(times, key=lambda k: times[k])[: max(1, count)]]
        return found

    def key_of(self, named: Mapping[str, Any]) -> Any:
        """What a configuration is chosen for: the values that the key names, and the dtypes of tensors."""
        known = {name: value for name, value in named.items() if name in self.arg_names}
        dtypes = [str(value.dtype) for value in known.values() if hasattr(value, "dtype")]
        return (*(str(known[name]) for name in self.keys if name in known), *dtypes)

    def reset(self, named: Mapping[str, Any]) -> None:
        """What is done before the first launch of a new key."""
        if self.pre_hook is not None:
            self.pre_hook(dict(named), reset_only=True)
            return
        for name in self.zeroed:
            if named[name] is not None:
                named[name].zero_()


def snapshot(named: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The contents of tensor arguments."""
    return {name: value.clone() for name, value in named.items() if isinstance(value, torch.Tensor)}


def restore(named: Mapping[str, Any], kept: Mapping[str, torch.Tensor]) -> None:
    """Put contents back."""
    for name, value in kept.items():
        named[name].copy_(value)


def is_static_assertion(error: BaseException | None) -> bool:
    """Whether a kernel failed by `tl.static_assert`."""
    while error is not None:
        if isinstance(error, StaticAssertionFailed):
            return True
        error = error.__cause__
    return False


class StaticAssertionFailed(AssertionError):
    """A `tl.static_assert` does not hold: compiled, this configuration would be left out."""


def static_assert(cond: Any, msg: Any = "") -> None:
    """`tl.static_assert`."""
    if not cond:
        raise StaticAssertionFailed(getattr(msg, "value", msg))


def autotune(configs: Sequence[Any], key: Sequence[str], *args: Any, **options: Any) -> Callable[[Any], Any]:
    """`triton.autotune`: of an interpreted kernel, as this module says; of a compiled one, Triton's own."""
    given = inspect.signature(_TRITONS_OWN).bind(configs, key, *args, **options).arguments
    own = {name: value for name, value in given.items() if name not in ("configs", "key")}

    def decorate(fn: Any) -> Any:
        interpreted = interpreted_in(fn) is not None
        return Tuned(fn, configs, key, own) if interpreted else _TRITONS_OWN(configs, key, **own)(fn)

    return decorate


def interpreted_in(fn: Any) -> Any:
    """The interpreted kernel under its decorators; None if it is compiled."""
    while not isinstance(fn, InterpretedFunction):
        if not hasattr(fn, "fn"):
            return None
        fn = fn.fn
    return fn


_TRITONS_OWN = autotuner.autotune
_DECORATORS: dict[str, Callable[..., Callable[[Any], Any]]] = {
    "triton.autotune": autotune, "triton.heuristics": autotuner.heuristics
}  # fmt: skip


def runnable(kernel: Any, decorators: Sequence[Decorator]) -> Any:
    """What is launched: a jitted kernel under its decorators, the outermost first; ValueError on an unknown one."""
    for item in reversed(decorators):
        if item.name not in _DECORATORS:
            known = ", ".join(sorted(_DECORATORS))
            raise ValueError(f"a kernel may stand under {known} above triton.jit, not under {item.name}")
        kernel = _DECORATORS[item.name](*item.args, **item.kwargs)(kernel)
    return kernel


def install() -> None:
    """Put `autotune` in the place of Triton's, for modules that are loaded from now on."""
    triton.autotune = triton.runtime.autotune = autotuner.autotune = autotune
