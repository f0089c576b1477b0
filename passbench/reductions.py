"""Reductions and scans of Triton's interpreter: in whole arrays instead of one element after the other.

    install()                                    # once, in a process that does nothing but interpret

Triton interprets a reduction by a function of the kernel's own element by element, a millisecond for a few dozen. Here
the function is applied to halves of the block, pairs of neighbours first, as a GPU does; a scan doubles its reach at
each step. A function that branches on a value can only be asked about one element, so it still is.

Sums, running sums and running products are made in float64 and rounded once. A GPU rounds after every addition, in an
order of its own, so its result is less exact. Minima and maxima leave NaN out as the GPU's do.

Changes Triton's modules in this process.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

from passbench.arithmetic import narrowed, widened

Array = Any


class AmbiguousTruth(ValueError):
    """A block of several values was asked whether it is true."""


def _function(combine: Any) -> Callable[..., Any]:
    """The rewritten function of a kernel's combining function."""
    rewritten: Callable[..., Any] = combine.rewrite() if hasattr(combine, "rewrite") else combine.fn
    return rewritten


def _tensor(data: Array, kind: Any) -> Any:
    return tl.tensor(TensorHandle(data, kind), tl.block_type(kind, list(data.shape)))


def _wide(item: Any) -> Array:
    """The numbers of a tensor, real ones in float64."""
    data = widened(item.handle).data
    return data.astype(np.float64) if np.issubdtype(data.dtype, np.floating) else data


def combined(combine: Callable[..., Any], left: Sequence[Array], right: Sequence[Array], kinds: Sequence[Any]) -> list:  # type: ignore[type-arg]
    """What a combining function gives of two lists of arrays, one array a value; raises AmbiguousTruth if it branches.

    Arrays and results are raw data of the scalar types `kinds`.
    """
    args = [_tensor(data, kind) for data, kind in zip([*left, *right], [*kinds, *kinds], strict=True)]
    found = combine(*args)
    values = [found] if isinstance(found, tl.tensor) or not isinstance(found, tuple | list | tl.tuple) else list(found)
    semantic, shape = interpreter.interpreter_semantic, [int(size) for size in left[0].shape]
    results = []
    for value, kind in zip(values, kinds, strict=True):
        tensor = semantic.cast(semantic.to_tensor(value), kind)
        results.append(np.broadcast_to(tensor.handle.data, shape))
    return results


class Reduce(interpreter.ReduceOps):  # type: ignore[misc]
    """`tl.reduce`."""

    def generic_reduce(self, input: Any) -> Any:
        """By the kernel's own function, in a tree."""
        try:
            return self._tree(input)
        except AmbiguousTruth:
            return super().generic_reduce(input)

    def _tree(self, input: Any) -> Any:
        arrays, axis = [item.handle.data for item in input], self.axis
        if axis is None:
            arrays, axis = [data.reshape(-1) for data in arrays], 0
        kinds, combine = [item.dtype for item in input], _function(self.combine_fn)
        axis %= arrays[0].ndim
        while arrays[0].shape[axis] > 1:
            even, odd = ((slice(None),) * axis + (slice(k, None, 2),) for k in (0, 1))
            arrays = combined(combine, [data[even] for data in arrays], [data[odd] for data in arrays], kinds)
        return [self._packed(data, axis, item) for data, item in zip(arrays, input, strict=True)]

    def _packed(self, data: Array, axis: int, item: Any) -> Any:
        if self.axis is None:
            kept = data.reshape([1] * len(item.shape)) if self.keep_dims else data.reshape(-1)[0]
        else:
            kept = data if self.keep_dims else np.squeeze(data, axis)
        return self.to_tensor(kept, item.dtype)

    def _numbers(self, item: Any, reduce: Callable[..., Array]) -> Any:
        """A reduction by numpy of the numbers of a tensor, of real ones in float64."""
        wide = _wide(item)
        found = reduce(wide, axis=self.axis, keepdims=self.keep_dims)
        return self.to_tensor(narrowed(np.asarray(found), item.dtype.scalar).data, item.dtype)

    def sum(self, input: Any) -> Any:
        """By addition."""
        return self._numbers(input, np.sum)

    def min_max(self, input: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:
        """By minimum or maximum, NaN left out; with `idx_reduce_op` the place of the first as well."""
        item = input[0] if isinstance(input, tuple) else input
        least = val_reduce_op is np.nanmin
        value = self._numbers(item, np.fmin.reduce if least else np.fmax.reduce)
        if idx_reduce_op is None:
            return value
        wide = _wide(item)
        if np.issubdtype(wide.dtype, np.floating):
            wide = np.where(np.isnan(wide), np.inf if least else -np.inf, wide)
        found = (np.argmin if least else np.argmax)(wide, axis=self.axis, keepdims=self.keep_dims)
        return value, self.to_tensor(np.asarray(found), tl.int32)


class Scan(interpreter.ScanOps):  # type: ignore[misc]
    """`tl.associative_scan`."""

    def generic_scan(self, input: Any) -> Any:
        """By the kernel's own function, reaching twice as far at each step."""
        try:
            return self._doubling(input)
        except AmbiguousTruth:
            return super().generic_scan(input)

    def _doubling(self, input: Any) -> Any:
        arrays, kinds = [item.handle.data for item in input], [item.dtype for item in input]
        combine, axis = _function(self.combine_fn), self.axis % arrays[0].ndim
        size, reach = arrays[0].shape[axis], 1
        place = np.arange(size).reshape([size if d == axis else 1 for d in range(arrays[0].ndim)])
        while reach < size:
            found = combined(combine, [np.roll(data, reach, axis) for data in arrays], arrays, kinds)
            arrays = [np.where(place >= reach, new, old) for new, old in zip(found, arrays, strict=True)]
            reach *= 2
        return [self.to_tensor(data, item.dtype) for data, item in zip(arrays, input, strict=True)]

    def _running(self, item: Any, run: Callable[..., Array]) -> Any:
        wide = _wide(item)
        found = run(wide, axis=self.axis, dtype=wide.dtype)
        return [self.to_tensor(narrowed(found, item.dtype.scalar).data, item.dtype)]

    def cumsum(self, input: Any) -> Any:
        """By addition."""
        return self._running(input, np.cumsum)

    def cumprod(self, input: Any) -> Any:
        """By multiplication."""
        return self._running(input, np.cumprod)


def install() -> None:
    """Put both in the place of the interpreter's own."""
    interpreter.ReduceOps, interpreter.ScanOps = Reduce, Scan
