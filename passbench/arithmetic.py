"""Arithmetic of Triton's interpreter on numbers that numpy does not know, and where numpy rounds otherwise than a GPU.

    install()                                    # once, in a process that does nothing but interpret

Triton keeps bfloat16 and float8 as whole numbers and computes with these, so 1.5 * 2.0 is 0.0. Here every operation of
the builder on such operands computes in float32 and rounds its result once, to the nearest, ties to even
(`passbench.narrow`): sums, products, quotients, remainders, minima, comparisons, casts, constants, atomic sums.
Functions, matrix products and fused multiply-adds are computed in float64 and rounded once in every type.

| what                 | here                                     | a GPU                                             |
|----------------------|------------------------------------------|---------------------------------------------------|
| a * b + c            | rounded twice                            | may be contracted to one rounding                 |
| whole number to bf16 | by way of float32                        | sm_80 so, sm_90 in one rounding: at most 1 ulp    |
| dot                  | in float64, rounded once                 | in float32, operands of float32 in tf32           |
| exp, log, sin, ...   | in float64, rounded once                 | approximate instructions, about 2 ulp             |

Changes Triton's modules in this process.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton._C.libtriton import interpreter as native
from triton._C.libtriton import ir
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from passbench.narrow import BF16, NARROW, decode, encode

_COMPUTING = """
    fadd fsub fmul fdiv precise_divf frem fneg minimumf maximumf minnumf maxnumf clampf fma
    fcmpOLT fcmpOGT fcmpOLE fcmpOGE fcmpOEQ fcmpONE fcmpULT fcmpUGT fcmpULE fcmpUGE fcmpUEQ fcmpUNE floor ceil
""".split()
"""Operations of the builder on floating-point numbers, without their "create_"."""
_MASK_NAN = ir.PADDING_OPTION.PAD_NAN
Method = Callable[..., Any]


def widened(handle: TensorHandle) -> TensorHandle:
    """The same numbers in a type that numpy knows: float32 for what is narrow, else the handle itself."""
    name = handle.dtype.scalar.name
    return TensorHandle(decode(handle.data, name), tl.float32) if name in NARROW else handle


def narrowed(data: Any, kind: Any) -> TensorHandle:
    """Numbers as a handle of a scalar type, rounded if it is narrow."""
    if kind.name in NARROW:
        return TensorHandle(encode(data, kind.name), kind)
    return TensorHandle(data.astype(interpreter._get_np_dtype(kind), copy=False), kind)


def _by_float32(original: Method) -> Method:
    """An operation that computes in float32 where its first operand is narrow, and rounds once."""

    def method(self: Any, first: Any, *rest: Any) -> Any:
        kind = first.dtype.scalar
        if kind.name not in NARROW:
            return original(self, first, *rest)
        wide = [widened(item) if isinstance(item, TensorHandle) else item for item in (first, *rest)]
        found = original(self, *wide)
        return TensorHandle(found.data, tl.int1) if found.data.dtype == np.bool_ else narrowed(found.data, kind)

    return method


def _cast(self: Any, src: Any, dst_type: Any, *_: Any) -> Any:
    """Conversion of numbers between types; whole numbers wrap, floating-point ones are cut off."""
    source, target = src.dtype.scalar.name, dst_type.scalar
    if source not in NARROW and target.name not in NARROW:
        return TensorHandle(src.data.astype(interpreter._get_np_dtype(dst_type)), target)
    return narrowed(widened(src).data, target)


def _fp_to_fp(self: Any, src: Any, dst_type: Any, rounding: Any) -> Any:
    """Conversion between floating-point types with a rounding mode."""
    target, data = dst_type.scalar, widened(src).data
    if rounding != ir.ROUNDING_MODE.RTZ:
        return narrowed(data, target)
    if target.name in NARROW:
        return TensorHandle(encode(data, target.name, toward_zero=True), target)
    found = data.astype(interpreter._get_np_dtype(target))
    too_far = np.abs(found.astype(np.float64)) > np.abs(data.astype(np.float64))
    return TensorHandle(np.where(too_far, np.nextafter(found, found.dtype.type(0)), found), target)


def _fma(self: Any, x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded once: the product is exact in the wider type."""
    kind = z.dtype.scalar
    wide: Any = np.longdouble if z.data.dtype == np.float64 else np.float64
    x, y, z = (widened(item).data for item in (x, y, z))
    if not np.issubdtype(z.dtype, np.floating):
        return TensorHandle(x * y + z, kind)
    return narrowed(x.astype(wide) * y.astype(wide) + z.astype(wide), kind)


def _dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
    """a @ b + d, rounded once to d's type."""
    left, right, start = (widened(item).data for item in (a, b, d))
    kind = np.dtype(np.float64) if np.issubdtype(left.dtype, np.floating) else start.dtype
    return narrowed(np.matmul(left.astype(kind), right.astype(kind)) + start.astype(kind), d.dtype.scalar)


def _rounded_once(function: Callable[[Any], Any]) -> Method:
    """A function of one number in float64, rounded once to the number's type."""

    def method(self: Any, arg: Any) -> Any:
        with np.errstate(all="ignore"):
            return narrowed(function(widened(arg).data.astype(np.float64)), arg.dtype.scalar)

    return method


def _inverse_root(x: Any) -> Any:
    return 1.0 / np.sqrt(x)


def _erf(x: Any) -> Any:
    return torch.special.erf(torch.from_numpy(np.ascontiguousarray(x))).numpy().reshape(x.shape)


def _atomic(original: Method) -> Method:
    """Atomic operations; a sum in a narrow type takes one addend a place after the other, each sum rounded."""

    def method(self: Any, rmw: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        kind = val.dtype.scalar
        if kind.name not in NARROW or rmw != ir.ATOMIC_OP.FADD:
            return original(self, rmw, ptr, val, mask, sem, scope)
        places, left = ptr.data.ravel(), np.broadcast_to(mask.data, ptr.data.shape).ravel().copy()
        values, old = decode(val.data, kind.name).ravel(), np.zeros(places.shape, val.data.dtype)
        while left.any():
            waiting = np.flatnonzero(left)
            _, first = np.unique(places[waiting], return_index=True)
            now = waiting[first]
            every, nothing = np.ones(now.shape, dtype=bool), np.zeros(now.shape, old.dtype)
            old[now] = native.load(places[now], every, nothing, old.dtype)
            native.store(places[now], encode(decode(old[now], kind.name) + values[now], kind.name), every)
            left[now] = False
        return TensorHandle(old.reshape(ptr.data.shape), kind)

    return method


def _descriptor_load(original: Method) -> Method:
    """Loads through a descriptor; NaN for what lies outside, in types of which numpy knows no NaN."""

    def method(self: Any, desc: Any, indices: Any, cache_modifier: Any, eviction_policy: Any) -> Any:
        kind = desc.base.get_element_ty()
        if kind.name not in NARROW or desc.padding != _MASK_NAN:
            return original(self, desc, indices, cache_modifier, eviction_policy)
        places, mask = desc.materialize_pointers(indices)
        other = narrowed(np.full(places.data.shape, np.nan, np.float32), kind)
        return self.create_masked_load(places, TensorHandle(mask, tl.int1), other, None, None, False)

    return method


def _constant(kind: Any) -> Method:
    return lambda self, value: narrowed(np.array([value], dtype=np.float32), kind)


_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sin": np.sin, "cos": np.cos, "sqrt": np.sqrt,
    "precise_sqrt": np.sqrt, "rsqrt": _inverse_root, "erf": _erf,
}  # fmt: skip
"""Functions of the builder, without their "create_"."""


def install() -> None:
    """Change the interpreter's builder for good."""
    builder: Any = InterpreterBuilder
    builder.cast_impl, builder.create_fp_to_fp = _cast, _fp_to_fp
    for name in (f"create_{name}" for name in _COMPUTING):
        if hasattr(builder, name):
            setattr(builder, name, _by_float32(getattr(builder, name)))
    for name, function in _FUNCTIONS.items():
        setattr(builder, f"create_{name}", _rounded_once(function))
    builder.create_fma, builder.create_dot = _fma, _dot
    builder.create_atomic_rmw = _atomic(builder.create_atomic_rmw)
    builder.create_descriptor_load = _descriptor_load(builder.create_descriptor_load)
    builder.get_bf16 = _constant(tl.bfloat16)
    assert tl.bfloat16.name == BF16
