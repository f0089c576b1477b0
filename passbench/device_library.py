"""NVIDIA's device library (`tl.extra.cuda.libdevice`) for Triton's interpreter, which has none.

    install(bind)                                # once, in a process that does nothing but interpret
    call("__nv_tanhf", [handle], tl.float32)     # what a kernel's libdevice.tanh(x) comes to

Functions of floating-point numbers are computed in float64 and rounded once: for float32 within 0.51 units in the last
place, where the device's own are within 1 to 5; for float64 within a few units, as the functions of torch and numpy
are. The Bessel functions j0, j1, y0, y1 and yn are within 1e-6 absolute, as torch's are. Operations with a rounding
mode (`_rz`, `_rd`, `_ru`) round float32 in that direction; in float64 they round to the nearest. Functions named "fast"
are as exact as the others. Tests give int32. A name that is not in the tables is a NotImplementedError that says so.

Changes Triton's modules in this process.
"""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.language.extra import cuda
from triton.language.extra import libdevice as generic
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

Array = Any
Function = Callable[..., Array]


# --- functions of real numbers, in float64 ---------------------------------------------------------------------------
def _torch(name: str) -> Function:
    """An elementwise function of torch on float64 arrays."""
    function = getattr(torch.special, name, None) or getattr(torch, name)
    return lambda *args: function(*(torch.from_numpy(np.array(arg, dtype=np.float64)) for arg in args)).numpy()


def _each(function: Callable[[float], float]) -> Function:
    def guarded(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError):
            return float("nan") if x != x or x < 0 else float("inf")

    return np.vectorize(guarded, otypes=[np.float64])


def _gamma(x: Array) -> Array:
    """The gamma function; poles are NaN, as on the device, but for zeros."""
    found = _each(math.gamma)(np.where(x == 0, 1.0, x))
    return np.where(x == 0, np.copysign(np.inf, x), found)


def _round_away(x: Array) -> Array:
    """The nearest whole number, ties away from zero."""
    down = np.trunc(x)
    return np.where(np.abs(x - down) >= 0.5, down + np.copysign(1.0, x), down)


def _power(x: Array, n: Array) -> Array:
    return np.power(x, n.astype(np.float64))


def _bessel(n: Array, x: Array) -> Array:
    """J_n(x) by its integral over a period, which the trapezoidal rule gives to the last digits."""
    largest = float(np.nanmax(np.abs(np.where(np.isfinite(x), x, 0.0)), initial=0.0))
    steps = int(largest + float(np.max(np.abs(n), initial=0))) + 64
    at = 2 * np.pi * np.arange(2 * steps) / (2 * steps)
    return np.cos(n[..., None] * at - x[..., None] * np.sin(at)).mean(-1)


def _neumann(n: Array, x: Array) -> Array:
    """Y_n(x) by upward recurrence from Y_0 and Y_1."""
    low, high = _torch("bessel_y0")(x), _torch("bessel_y1")(x)
    found: Array = np.where(n == 0, low, high)
    for order in range(1, int(np.max(n, initial=0))):
        low, high = high, 2 * order / x * high - low
        found = np.where(n == order + 1, high, found)
    return found


def _hypotenuse(*sides: Array) -> Array:
    found: Array = np.zeros_like(sides[0])
    for side in sides:
        found = np.hypot(found, side)
    return found


def _in_half_turns(function: Function) -> Function:
    """sinpi and cospi: the argument is reduced before it is multiplied, so whole numbers are exact."""

    def call(x: Array) -> Array:
        found = function(np.pi * np.fmod(x, 2.0))
        whole = np.fmod(2 * x, 2.0 if function is np.cos else 1.0)
        zero = (np.abs(whole) == 1.0) if function is np.cos else (np.fmod(x, 1.0) == 0.0)
        return np.where(zero, np.copysign(0.0, x) if function is np.sin else 0.0, found)

    return call


_REAL: dict[str, Any] = {
    **{name: getattr(np, name) for name in (
        "floor ceil trunc rint exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh sqrt cbrt copysign fmod "
        "hypot").split()},
    **{name: getattr(np, f"arc{name[1:]}") for name in "asin acos atan asinh acosh atanh atan2".split()},
    **{name: _torch(name) for name in "erf erfc erfinv erfcx".split()},
    "fabs": np.abs, "nearbyint": np.rint, "round": _round_away, "saturate": lambda x: np.fmin(np.fmax(x, 0.0), 1.0),
    "exp10": lambda x: np.power(10.0, x), "rsqrt": lambda x: 1.0 / np.sqrt(x), "rcbrt": lambda x: 1.0 / np.cbrt(x),
    "sinpi": _in_half_turns(np.sin), "cospi": _in_half_turns(np.cos), "lgamma": _torch("gammaln"), "tgamma": _gamma,
    "erfcinv": lambda x: -_torch("ndtri")(x / 2) / np.sqrt(2.0),
    "normcdf": lambda x: _torch("erfc")(-x / np.sqrt(2.0)) / 2,
    "normcdfinv": _torch("ndtri"), "j0": _torch("bessel_j0"), "j1": _torch("bessel_j1"), "y0": _torch("bessel_y0"),
    "y1": _torch("bessel_y1"), "jn": _bessel, "yn": _neumann, "cyl_bessel_i0": _torch("i0"),
    "cyl_bessel_i1": _torch("i1"), "logb": lambda x: np.where(x == 0, -np.inf, np.frexp(x)[1] - 1.0),
    "remainder": lambda x, y: x - y * np.rint(x / y), "rhypot": lambda x, y: 1.0 / np.hypot(x, y),
    "norm3d": _hypotenuse, "norm4d": _hypotenuse, "rnorm3d": lambda *x: 1.0 / _hypotenuse(*x),
    "rnorm4d": lambda *x: 1.0 / _hypotenuse(*x), "fdim": lambda x, y: np.where(np.isnan(x - y) | (x > y), x - y, 0.0),
    "pow": np.power, "powi": _power, "ldexp": lambda x, n: np.ldexp(x, n.astype(np.int64)),
    "scalbn": lambda x, n: np.ldexp(x, n.astype(np.int64)), "fma": lambda x, y, z: x * y + z,
    "fdivide": np.divide, "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "rcp": lambda x: 1.0 / x,
}  # fmt: skip
"""Name without its type -> the function in float64. Third operands and whole numbers come as they are."""
_TESTS: dict[str, Any] = {"isnan": np.isnan, "isinf": np.isinf, "finite": np.isfinite, "isfinite": np.isfinite,
                               "signbit": np.signbit, "ilogb": lambda x: np.frexp(x)[1] - 1}  # fmt: skip
"""Functions of a real number that give int32."""
_ROUNDED: dict[str, Any] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}


# --- functions of whole numbers --------------------------------------------------------------------------------------
def _unsigned(x: Array) -> Array:
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


def _bits(x: Array) -> Array:
    """The bits of whole numbers along a new last axis, the lowest first."""
    width = 8 * x.dtype.itemsize
    return (_unsigned(x)[..., None] >> np.arange(width, dtype=_unsigned(x).dtype)) & 1


def _first_set(x: Array) -> Array:
    return np.where(x == 0, 0, np.argmax(_bits(x), -1) + 1)


def _leading_zeros(x: Array) -> Array:
    width = 8 * x.dtype.itemsize
    return np.where(x == 0, width, np.argmax(_bits(x)[..., ::-1], -1))


def _reversed(x: Array) -> Array:
    width = 8 * x.dtype.itemsize
    weights = np.uint64(1) << np.arange(width, dtype=np.uint64)[::-1]
    return (_bits(x).astype(np.uint64) * weights).sum(-1, dtype=np.uint64).astype(_unsigned(x).dtype)


def _high_product(x: Array, y: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    product = (x.astype(object) * y.astype(object)) >> bits
    return (product & ((1 << bits) - 1)).astype(_unsigned(x).dtype)


def _permuted_bytes(x: Array, y: Array, chosen: Array) -> Array:
    pool = _unsigned(x).astype(np.uint64) | (_unsigned(y).astype(np.uint64) << np.uint64(32))
    found = np.zeros_like(pool)
    for k in range(4):
        place = (_unsigned(chosen).astype(np.uint64) >> np.uint64(4 * k)) & np.uint64(7)
        found |= ((pool >> (np.uint64(8) * place)) & np.uint64(255)) << np.uint64(8 * k)
    return found.astype(np.uint32)


def _mean(x: Array, y: Array, more: int) -> Array:
    return (x.astype(np.int64) + y.astype(np.int64) + more) >> 1


def _low_24(x: Array) -> Array:
    wide = x.astype(np.int64) & 0xFFFFFF
    return np.where(wide >= 1 << 23, wide - (1 << 24), wide) if np.issubdtype(x.dtype, np.signedinteger) else wide


_WHOLE: dict[str, Function] = {
    "clz": _leading_zeros, "clzll": _leading_zeros, "popc": lambda x: _bits(x).sum(-1),
    "popcll": lambda x: _bits(x).sum(-1), "ffs": _first_set, "ffsll": _first_set, "brev": _reversed,
    "brevll": _reversed, "byte_perm": _permuted_bytes, "abs": np.abs, "llabs": np.abs,
    **dict.fromkeys(("mulhi", "umulhi", "mul64hi", "umul64hi"), _high_product),
    **dict.fromkeys(("mul24", "umul24"), lambda x, y: _low_24(x) * _low_24(y)),
    **dict.fromkeys(("sad", "usad"), lambda x, y, z: np.abs(x.astype(np.int64) - y.astype(np.int64)) + z),
    **dict.fromkeys(("hadd", "uhadd"), lambda x, y: _mean(x, y, 0)),
    **dict.fromkeys(("rhadd", "urhadd"), lambda x, y: _mean(x, y, 1)),
    "hiloint2double": lambda high, low: (
        (_unsigned(high).astype(np.uint64) << np.uint64(32)) | _unsigned(low).astype(np.uint64)
    ).view(np.float64),
    "double2loint": lambda x: (x.view(np.uint64) & np.uint64(0xFFFFFFFF)).astype(np.uint32),
    "double2hiint": lambda x: (x.view(np.uint64) >> np.uint64(32)).astype(np.uint32),
    "rcp64h": lambda x: (1.0 / x).view(np.uint64).__and__(np.uint64(0xFFFFFFFF00000000)).view(np.float64),
}  # fmt: skip
"""Functions of whole numbers and of bits; results wrap to their type."""
_REINTERPRETED = re.compile(r"^(?:u?int|longlong|float|double)_as_(?:u?int|longlong|float|double)$")
_CONVERSION = re.compile(r"^(?:double|float|u?int|u?ll)2(double|float|u?int|u?ll)_(rn|rz|rd|ru)$")
_WITH_MODE = re.compile(r"^(fsqrt|dsqrt|frsqrt|frcp|drcp|fdiv|ddiv|fadd|dadd|fsub|dsub|fmul|dmul|fmaf?)_(rn|rz|rd|ru)$")
_TO_WHOLE: dict[str, Any] = {"llrint": np.rint, "llround": _round_away}


# --- dispatch --------------------------------------------------------------------------------------------------------
def _directed(wide: Array, mode: str, kind: Any) -> Array:
    """float64 numbers as a type, rounded in a direction; float64 itself is what it is."""
    found = wide.astype(kind)
    if mode == "rn" or kind == np.float64:
        return found
    toward = {"rz": np.zeros_like(wide), "rd": np.full_like(wide, -np.inf), "ru": np.full_like(wide, np.inf)}[mode]
    above, below = found.astype(np.float64) > wide, found.astype(np.float64) < wide
    wrong = {"rz": np.where(wide > 0, above, below), "rd": above, "ru": below}[mode]
    return np.where(wrong, np.nextafter(found, toward.astype(kind)), found)


def _to_whole(wide: Array, kind: Any) -> Array:
    """Whole float64 numbers as a type: what is too large becomes the largest, NaN becomes 0."""
    limits = np.iinfo(kind)
    inside = np.clip(np.nan_to_num(wide, nan=0.0), float(limits.min), float(limits.max))
    found = inside.astype(np.float64)
    top = found >= float(limits.max)
    return np.where(top, np.array(limits.max, kind), np.where(top, 0.0, found).astype(kind))


def _real_name(name: str) -> str:
    """The key of a name in the tables of real functions, without what says its type or speed; empty if none."""
    short = name.removeprefix("fast_")
    for key in (name, short, short.removesuffix("f"), short.removesuffix("d")):
        if key in _REAL or key in _TESTS or key in _TO_WHOLE:
            return key
    return ""


def _wide(data: Array) -> Array:
    return data.astype(np.float64) if np.issubdtype(data.dtype, np.floating) else data


def compute(name: str, args: list[Array], kind: Any) -> Array:
    """A function of the library on arrays, as an array of a numpy type; NotImplementedError on an unknown name."""
    if name in _WHOLE:
        return _WHOLE[name](*args).astype(kind)
    if _REINTERPRETED.match(name):
        return args[0].view(kind)
    conversion, with_mode = _CONVERSION.match(name), _WITH_MODE.match(name)
    if conversion:
        if np.issubdtype(kind, np.floating):
            return _directed(args[0].astype(np.float64), conversion[2], kind)
        return _to_whole(_ROUNDED[conversion[2]](args[0].astype(np.float64)), kind)
    if with_mode:
        key = "fma" if with_mode[1].startswith("fma") else with_mode[1][1:]
        return _directed(np.asarray(_REAL[key](*map(_wide, args))), with_mode[2], kind)
    if name.startswith("nextafter"):
        return np.nextafter(*args)
    key = _real_name(name)
    if key in _TO_WHOLE:
        return _to_whole(_TO_WHOLE[key](args[0].astype(np.float64)), kind)
    if key:
        function: Function = _REAL[key] if key in _REAL else _TESTS[key]
        return np.asarray(function(*map(_wide, args))).astype(kind)
    raise NotImplementedError(f"the device function __nv_{name} is not interpreted on a CPU")


def call(symbol: str, args: list[TensorHandle], result: Any) -> TensorHandle:
    """What a symbol of the library gives of interpreted values, as a handle of the result's scalar type."""
    scalar = result.scalar
    with np.errstate(all="ignore"):
        arrays = np.broadcast_arrays(*(np.atleast_1d(arg.data) for arg in args))
        found = compute(symbol.removeprefix("__nv_"), list(map(np.ascontiguousarray, arrays)),
                        interpreter._get_np_dtype(scalar))  # fmt: skip
    return TensorHandle(found, scalar)


def _extern(self: Any, lib: str, path: str, symbol: str, args: list[Any], result: Any, is_pure: bool) -> TensorHandle:
    if not symbol.startswith("__nv_"):
        raise NotImplementedError(f"the external function {symbol} is not interpreted on a CPU")
    return call(symbol, args, result)


def install(bind: Callable[[Any, str, Any], None]) -> None:
    """Give the builder its external functions; `bind` puts a builtin function where kernels can call it."""
    interpreter.InterpreterBuilder.create_extern_elementwise = _extern
    for library in {id(one): one for one in (cuda.libdevice, tl.extra.cuda.libdevice)}.values():
        for name, member in list(vars(library).items()):
            if tl.core.is_builtin(member):
                bind(library, name, member)
    for name in dir(generic):  # what Triton resolves to the library of the target
        if callable(getattr(generic, name)) and hasattr(cuda.libdevice, name):
            setattr(generic, name, getattr(cuda.libdevice, name))
