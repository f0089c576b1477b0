"""Launches of kernels: the only way from a wrapper to one, and the record that no submitted code can reach.

    kernel = Kernel("p.kernel", runnable, record)
    kernel.launch(grid, args, kwargs)            # what `kernel[grid](*args, **kwargs)` becomes
    record.count, record.ghost                   # launches so far; whether launches do nothing

A grid is whole numbers, or a function of the wrapper that gives such; it is evaluated apart from the kernel, on a plain
dictionary of the launch's settings. Arguments are tensors, numbers, texts, Triton's types and tuples of these. `run` is
how a launch is done; it may be replaced by what only notes it. Reads and writes nothing else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import triton.language as tl

from passbench.program.refusal import Refused

_SCALARS = frozenset({int, float, bool, str, type(None), tl.dtype, tl.constexpr})
_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
Grid = tuple[int, ...]
Specialisation = tuple[str, tuple[tuple[str, str], ...], tuple[tuple[str, Any], ...], tuple[tuple[str, int], ...]]
"""Kernel, (parameter, Triton's type), (parameter, constant), (option, value): what is compiled of a kernel."""


@dataclass(slots=True, kw_only=True)
class Record:
    """What was launched in this process."""

    count: int = 0
    """Launches."""
    ghost: bool = False
    """Whether launches do nothing."""
    noted: list[Any] | None = None
    """Where launches are only noted, what is noted of them."""
    wanted: set[Specialisation] = field(default_factory=set)
    """What has to be compiled for the launches so far; kernels that are interpreted only."""
    taken: Callable[[Any], None] | None = None
    """Told of every tensor that a kernel gets."""


class Kernel:
    """One kernel of a submission."""

    __slots__ = ("call", "inner", "name", "parameters", "record", "rest", "runnable")

    def __init__(
        self, name: str, runnable: Any, inner: Any, record: Record, call: Callable[..., Any], rest: Callable[[], Any]
    ) -> None:
        self.name, self.runnable, self.inner, self.record = name, runnable, inner, record
        self.call, self.rest = call, rest
        """How a function of the wrapper is called; a context in which operators are not counted."""
        self.parameters: tuple[str, ...] = tuple(inner.arg_names)

    def launch(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Launch on a grid; raises Refused on arguments that are none."""
        record = self.record
        for value in args:
            if type(value) not in _SCALARS and type(value) not in _TENSORS:
                check_argument(value)
        for value in kwargs.values():
            if type(value) not in _SCALARS and type(value) not in _TENSORS:
                check_argument(value)
        if record.taken is not None:
            for value in (*args, *kwargs.values()):
                record.taken(value)
        record.count += 1
        if record.ghost:
            return
        if record.noted is not None:
            record.noted.append((self.name, self.evaluated(grid, self.settings(args, kwargs)), noted(args, kwargs)))
            return
        whole = grid_of(grid) if type(grid) in (tuple, list, int) else self.grid_function(grid)
        with self.rest():
            self.runnable[whole](
                *map(plain_kernel, args), **{key: plain_kernel(value) for key, value in kwargs.items()}
            )

    def grid_function(self, grid: Any) -> Callable[[Mapping[str, Any]], Grid]:
        """A grid that depends on settings."""
        return lambda settings: self.evaluated(grid, settings)

    def evaluated(self, grid: Any, settings: Mapping[str, Any]) -> Grid:
        """The whole numbers of a grid."""
        if type(grid) in (tuple, list, int):
            return grid_of(grid)
        return grid_of(self.call(grid, dict(settings)))

    def settings(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name, others with a number in their place: for grids of launches that are only noted."""
        return {**dict.fromkeys(self.parameters, 64), **dict(zip(self.parameters, args, strict=False)), **kwargs}


def plain_kernel(value: Any) -> Any:
    """An argument as Triton takes it: of a kernel the function that another may call."""
    return value.inner if type(value) is Kernel else value


def check_argument(value: Any) -> None:
    """Raise Refused unless a kernel may get a value."""
    if type(value) is tuple or type(value) is list or type(value) is torch.Size:
        for item in value:
            check_argument(item)
    elif type(value) not in _SCALARS and type(value) not in _TENSORS and type(value) is not Kernel:
        raise Refused("launch", f"a kernel gets a {type(value).__name__}")


def grid_of(value: Any) -> Grid:
    """One to three whole numbers; raises Refused on anything else."""
    whole = value if type(value) in (tuple, list) else (value,)
    if not 1 <= len(whole) <= 3 or not all(type(item) is int for item in whole):
        kinds = ", ".join(type(item).__name__ for item in whole)
        raise Refused("launch", f"a grid of {kinds or 'nothing'}")
    return tuple(whole)


def noted(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What is compared of a launch that is only noted: values, and of tensors their form."""
    return tuple(map(_noted, args)), tuple((key, _noted(value)) for key, value in sorted(kwargs.items()))


def _noted(value: Any) -> Any:
    if type(value) in _TENSORS:
        return "tensor", str(value.dtype), tuple(value.shape), tuple(value.stride())
    if type(value) in (tuple, list, torch.Size):
        return tuple(map(_noted, value))
    return value.name if type(value) is Kernel else repr(value)
