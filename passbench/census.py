"""What a replacement function does beside launching kernels (layers D7 and D10), seen by torch's dispatcher.

    census = Census(poison=True)
    with census: function(*inputs)               # census.operators: names of operators that compute
    with census.rest(): kernel.run(...)          # what a launch itself does is not counted

However a library call is spelled (method, operator, getattr, alias, exec), it is one of torch's operators in the end.
ALLOWED holds those that allocate, view, copy or fill. With `poison`, memory that is allocated uninitialised is filled
with NaN, the largest whole number or True, so that what a kernel does not write is seen. A mode is bound to its thread:
other threads are for the state guard. Taken off before anything is timed. Reads and writes nothing.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

UNINITIALISED = frozenset("empty empty_like empty_strided new_empty new_empty_strided empty_permuted".split())
ALLOWED = UNINITIALISED | frozenset("""
    zeros zeros_like new_zeros ones ones_like new_ones full full_like new_full scalar_tensor lift_fresh fill_ zero_
    view _unsafe_view reshape _reshape_alias expand permute t transpose unsqueeze squeeze as_strided detach alias slice
    select split split_with_sizes unbind narrow unfold flatten view_as numpy_T mT movedim swapaxes diagonal
    clone copy_ _to_copy to contiguous set_ resize_ is_contiguous sym_size sym_stride sym_numel size stride numel dim
    storage_offset sym_storage_offset is_pinned _pin_memory record_stream
""".split())  # fmt: skip
"""Operators that a replacement function may run: they place data and do not compute."""


class Census(TorchDispatchMode):
    """Notes operators and poisons fresh memory while it is entered; reusable."""

    def __init__(self, *, poison: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.poison, self.resting = poison, False
        self.operators: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if self.resting:
            return found
        if name not in ALLOWED:
            self.operators.add(name)
        if name in UNINITIALISED and self.poison:
            for leaf in pytree.tree_leaves(found):
                spoil(leaf)
        return found

    @contextlib.contextmanager
    def rest(self) -> Iterator[None]:
        """Look away."""
        before, self.resting = self.resting, True
        try:
            yield
        finally:
            self.resting = before


def spoil(value: Any) -> None:
    """Fill a tensor with what no kernel would leave by chance."""
    if not isinstance(value, torch.Tensor) or not value.numel():
        return
    if value.dtype.is_floating_point or value.dtype.is_complex:
        value.fill_(float("nan"))
    else:
        value.fill_(True if value.dtype == torch.bool else torch.iinfo(value.dtype).max)
