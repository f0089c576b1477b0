"""Values that the language of wrappers has, beyond Python's numbers, texts and containers.

    Record(("block", "warps"), (128, 4))         # an instance of a class of fields
    Launch(kernel, (8,))                         # kernel[grid]
    ATOMS                                        # exact types that hold nothing else

Reads and writes nothing.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import triton.language as tl

if TYPE_CHECKING:
    from passbench.program.launcher import Kernel

TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
"""What counts as a tensor; there are no others in a graph's calls."""
NUMBERS = frozenset({int, float, bool, complex})
ATOMS = NUMBERS | {str, bytes, type(None), type(...), torch.dtype, torch.device, torch.memory_format, torch.layout,
                   torch.Size, range, type, tl.dtype, tl.constexpr}  # fmt: skip
"""Types of values that hold nothing else and cannot be changed."""


class RecordType:
    """A class of fields; called like one."""

    __slots__ = ("defaults", "fields", "name")

    def __init__(self, name: str, items: Sequence[tuple[Any, ...]]) -> None:
        self.name = name
        self.fields = tuple(item[0] for item in items)
        self.defaults = {item[0]: item[1] for item in items if len(item) > 1}

    def make(self, args: Sequence[Any], kwargs: dict[str, Any]) -> "Record":
        """An instance; raises TypeError as a class would."""
        given = {**self.defaults, **dict(zip(self.fields, args, strict=False)), **kwargs}
        if len(args) > len(self.fields) or set(given) != set(self.fields):
            raise TypeError(f"{self.name} has the fields {', '.join(self.fields)}")
        return Record(self, tuple(given[name] for name in self.fields))


class Record:
    """An instance of a RecordType; it cannot be changed."""

    __slots__ = ("kind", "values")

    def __init__(self, kind: RecordType, values: tuple[Any, ...]) -> None:
        self.kind, self.values = kind, values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.kind is other.kind and self.values == other.values

    def __hash__(self) -> int:
        return hash((id(self.kind), self.values))


class Launch:
    """A kernel with its grid."""

    __slots__ = ("grid", "kernel")

    def __init__(self, kernel: "Kernel", grid: Any) -> None:
        self.kernel, self.grid = kernel, grid


class Partial:
    """A function with its first arguments."""

    __slots__ = ("args", "function", "kwargs")

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs


def is_fixed(value: Any) -> bool:
    """Whether a value, and all that it holds, is an atom, a kernel or a record type: nothing that a call made."""
    from passbench.program.launcher import Kernel

    if type(value) is tuple:
        return all(map(is_fixed, value))
    return type(value) in ATOMS or type(value) in (Kernel, RecordType)


def field(value: Any, name: str) -> Any:
    """A field of a record, or its default in a record type; raises AttributeError."""
    if type(value) is Record and name in value.kind.fields:
        return value.values[value.kind.fields.index(name)]
    if type(value) is RecordType and name in value.defaults:
        return value.defaults[name]
    raise AttributeError(f"{type(value).__name__} has no field {name}")
