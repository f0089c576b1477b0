"""A kernel where there is no GPU: Triton's interpreter runs its text; what Triton would have to compile is noted.

    kernel = Interpreted(function); kernel.name, kernel.record = "g0_kernel", record
    kernel[(8,)](x, out, n, BLOCK=128)

The grid is evaluated here, on the launch's arguments by name. Reads and writes nothing.
"""

from typing import Any

import torch
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import mangle_type

from passbench.program.launcher import Record

_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


class Interpreted(InterpretedFunction):  # type: ignore[misc]
    """One kernel."""

    name: str
    record: Record

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """One launch."""
        named = {**dict(zip(self.arg_names, args, strict=False)), **kwargs}
        whole = grid(named) if callable(grid) else grid
        if not warmup:
            self.note(named)
        return super().run(*args, grid=whole, warmup=warmup, **kwargs)

    def note(self, named: dict[str, Any]) -> None:
        """Note the types and constants that a launch needs compiled."""
        if len(self.record.wanted) >= MAX_WANTED:
            return
        types, constants = [], []
        constexprs = self.constexpr_names()
        for name in self.arg_names:
            value = named.get(name, self.defaults().get(name))
            if name in constexprs or value is None or (type(value) is int and value == 1):
                types.append((name, "constexpr"))
                constants.append((name, constant_text(value)))
            else:
                types.append((name, type_text(value)))
        options = tuple((name, named[name]) for name in _OPTIONS if type(named.get(name)) is int)
        self.record.wanted.add((self.name, tuple(types), tuple(constants), options))

    def constexpr_names(self) -> frozenset[str]:
        """Parameters that are compile-time constants."""
        notes = self.fn.__annotations__
        return frozenset(name for name, note in notes.items() if note is tl.constexpr or "constexpr" in str(note))

    def defaults(self) -> dict[str, Any]:
        """Default values of parameters."""
        values = self.fn.__defaults__ or ()
        return dict(zip(self.arg_names[len(self.arg_names) - len(values) :], values, strict=True))


MAX_WANTED = 64
"""Most specialisations of all kernels that are noted."""


def type_text(value: Any) -> str:
    """Triton's name of an argument's type."""
    return "*i1" if isinstance(value, torch.Tensor) and value.dtype == torch.bool else str(mangle_type(value))


def constant_text(value: Any) -> Any:
    """A compile-time constant as JSON has it: numbers, texts, None, and Triton's dtypes by name."""
    value = value.value if isinstance(value, tl.constexpr) else value
    if isinstance(value, tl.dtype):
        return ("dtype", value.name)
    if isinstance(value, InterpretedFunction):
        return ("kernel", getattr(value, "name", ""))
    if isinstance(value, tuple | list):
        return ("tuple", tuple(map(constant_text, value)))
    return value
