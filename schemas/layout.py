"""Strides that torch gives the result of an elementwise op: they follow the operands, and can follow their order.

    pointwise_strides((a, b))      # of torch.add(a, b); not always those of torch.add(b, a)
    commutes(a, b, dtype)          # whether exchanging two operands changes neither values nor strides

Is: the rule of torch's TensorIterator over specs, and what follows from it. Reads and writes nothing; no torch.
`tests/schemas/test_layout.py` compares it with torch on random operands.
"""

from collections.abc import Sequence
from functools import lru_cache

from schemas.graph import TensorSpec

_CHANNELS_LAST = (0, 2, 3, 1)


def dense_strides(shape: Sequence[int], order: Sequence[int] | None = None) -> tuple[int, ...]:
    """Strides of a dense tensor whose dimensions lie in memory in an order, outermost first; row-major if None."""
    found, step = [0] * len(shape), 1
    for dim in reversed(range(len(shape)) if order is None else order):
        found[dim] = step
        step *= max(shape[dim], 1)
    return tuple(found)


def is_dense_in(spec: TensorSpec, order: Sequence[int] | None = None) -> bool:
    """Whether a tensor is dense in an order of dimensions; what a dimension of one element has for a stride is free."""
    expected = dense_strides(spec.shape, order)
    pairs = zip(spec.shape, spec.stride, expected, strict=True)
    return not spec.numel or all(stride == wanted for size, stride, wanted in pairs if size != 1)


def is_dense(spec: TensorSpec) -> bool:
    """Whether the elements of a tensor fill a piece of memory without gaps or overlaps, in whatever order."""
    order = sorted((dim for dim, size in enumerate(spec.shape) if size > 1), key=lambda dim: spec.stride[dim])
    step = 1
    for dim in order:
        if spec.stride[dim] != step:
            return False
        step *= spec.shape[dim]
    return True


@lru_cache(maxsize=1 << 14)
def pointwise_strides(operands: tuple[TensorSpec, ...]) -> tuple[int, ...]:
    """Strides of the result of an elementwise op on operands that broadcast."""
    shape = _broadcast(operands)
    if all(spec.shape == shape for spec in operands):
        if all(map(is_dense_in, operands)):
            return dense_strides(shape)
        if len(shape) == 4 and all(is_dense_in(spec, _CHANNELS_LAST) for spec in operands):
            return dense_strides(shape, _CHANNELS_LAST)
        if all(map(is_dense, operands)) and len({spec.stride for spec in operands}) == 1:
            return operands[0].stride
    order = _innermost_first(shape, [_as_broadcast(spec, shape) for spec in operands])
    if order == [*reversed(range(len(shape)))]:
        return dense_strides(shape)
    found, step = [0] * len(shape), 1
    for dim in order:
        found[dim] = step
        step *= shape[dim]
    return tuple(found)


def _broadcast(operands: Sequence[TensorSpec]) -> tuple[int, ...]:
    shape = [1] * max(len(spec.shape) for spec in operands)
    for spec in operands:
        for back, size in enumerate(reversed(spec.shape), start=1):
            shape[-back] = size if size != 1 else shape[-back]
    return tuple(shape)


def _as_broadcast(spec: TensorSpec, shape: Sequence[int]) -> list[int]:
    """Strides of an operand over the result's dimensions, 0 where it is repeated."""
    missing = len(shape) - len(spec.shape)
    sizes = zip(spec.shape, spec.stride, shape[missing:], strict=True)
    return [0] * missing + [0 if size == 1 != whole else stride for size, stride, whole in sizes]


def _innermost_first(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> list[int]:
    """Dimensions sorted by the strides of the first operand that tells two apart, as torch sorts them: by insertion."""
    order = [*reversed(range(len(shape)))]
    for start in range(1, len(order)):
        place = start
        for other in reversed(range(start)):
            verdict = _compare(order[other], order[place], shape, strides)
            if verdict > 0:
                order[other], order[place] = order[place], order[other]
                place = other
            elif verdict < 0:
                break
    return order


def _compare(a: int, b: int, shape: Sequence[int], strides: Sequence[Sequence[int]]) -> int:
    for operand in strides:
        if not operand[a] or not operand[b]:
            continue
        if operand[a] != operand[b]:
            return -1 if operand[a] < operand[b] else 1
        if shape[a] > shape[b]:
            return 1
    return 0


# --- commutation ----------------------------------------------------------------------------------------------------
_ORDERED_FLOATS = frozenset({"maximum", "minimum"})
"""Of 0.0 and -0.0 these yield the one that stands at a certain place."""


@lru_cache(maxsize=1 << 14)
def commutes(name: str, a: TensorSpec, b: TensorSpec) -> bool:
    """Whether exchanging the operands of a commutative op changes no bit of its result and no stride.

    Not so: where strides follow the order; for complex numbers, whose products are not rounded symmetrically; where a
    0-d operand of another dtype is taken at full precision at one place only; for the sign of a zero maximum. The
    payload of a NaN is not looked at.
    """
    if a.dtype != b.dtype and (not a.shape or not b.shape or not (is_dense(a) and is_dense(b))):
        return False
    dtypes = a.dtype + b.dtype
    if "complex" in dtypes or (name in _ORDERED_FLOATS and "float" in dtypes):
        return False
    if a.stride == b.stride and a.shape == b.shape:
        return True
    return pointwise_strides((a, b)) == pointwise_strides((b, a))
