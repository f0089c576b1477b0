"""Distances of the interpreter's device library from mpmath and from whole numbers of Python, as one JSON list.

TRITON_INTERPRET=1 python tests/passbench/library_values.py
"""

import inspect
import itertools
import json
import random
import warnings

import mpmath as mp
import numpy as np
import triton.language as tl
from triton.language.extra.cuda import libdevice
from triton.runtime import interpreter as inner

from passbench.interpreter import streamline

warnings.simplefilter("ignore")
functions = {
    name: len(inspect.signature(inspect.unwrap(f)).parameters) - 1
    for name, f in vars(libdevice).items()
    if tl.core.is_builtin(f) and name != "extern_elementwise"
}
streamline()
mp.mp.dps = 40
NUMPY = {
    "fp32": np.float32,
    "fp64": np.float64,
    "int32": np.int32,
    "int64": np.int64,
    "uint32": np.uint32,
    "uint64": np.uint64,
}


def called(name, kinds, *columns):
    """A function on lists of numbers, which are filled up to a block's size."""
    args, count = [], len(columns[0])
    size = 1 << (count - 1).bit_length()
    for kind, column in zip(kinds, columns, strict=True):
        data = np.array([*column, *[column[0]] * (size - count)], dtype=NUMPY[kind])
        handle = inner.TensorHandle(data, tl.dtype(kind))
        args.append(tl.tensor(handle, tl.block_type(tl.dtype(kind), [size])))
    return getattr(libdevice, name)(*args).handle.data[:count]


def every():
    """Functions of which no choice of types can be called, with the last error."""
    bad = {}
    for name, count in functions.items():
        reached = 0
        for kinds in itertools.product(NUMPY, repeat=count):
            columns = [[1.5, 2.0] if kind[0] == "f" else [2, 3] for kind in kinds]
            try:
                found = called(name, kinds, *columns)
            except KeyError:  # the library has no such function
                continue
            reached += 1
            if found.shape != (2,):
                bad[name] = str(found.shape)
        if not reached:
            bad[name] = "no types"
    return [len(functions), bad]


REAL = {
    "exp": mp.exp,
    "exp2": lambda x: mp.mpf(2) ** x,
    "exp10": lambda x: mp.mpf(10) ** x,
    "expm1": mp.expm1,
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": mp.tan,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "tanh": mp.tanh,
    "atan": mp.atan,
    "asinh": mp.asinh,
    "sinpi": mp.sinpi,
    "cospi": mp.cospi,
    "erf": mp.erf,
    "erfc": mp.erfc,
    "normcdf": mp.ncdf,
    "erfcx": lambda x: mp.exp(x * x) * mp.erfc(x),
    "cyl_bessel_i0": lambda x: mp.besseli(0, x),
    "cyl_bessel_i1": lambda x: mp.besseli(1, x),
    "floor": mp.floor,
    "ceil": mp.ceil,
    "fast_expf": mp.exp,
    "fast_sinf": mp.sin,
    "fast_tanf": mp.tan,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
}
POSITIVE = {
    "log": mp.log,
    "log2": lambda x: mp.log(x, 2),
    "log10": mp.log10,
    "log1p": mp.log1p,
    "sqrt": mp.sqrt,
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "rcbrt": lambda x: 1 / mp.cbrt(x),
    "lgamma": mp.loggamma,
    "tgamma": mp.gamma,
    "fast_logf": mp.log,
    "fast_log2f": lambda x: mp.log(x, 2),
    "rcp_rn": lambda x: 1 / x,
    "sqrt_rn": mp.sqrt,
}
BOUNDED = {"asin": mp.asin, "acos": mp.acos, "atanh": mp.atanh, "erfinv": mp.erfinv}
TWO = {
    "pow": lambda x, y: abs(x) ** y,
    "atan2": mp.atan2,
    "hypot": mp.hypot,
    "rhypot": lambda x, y: 1 / mp.hypot(x, y),
    "fdim": lambda x, y: max(x - y, mp.mpf(0)),
    "div_rn": lambda x, y: x / y,
    "add_rn": lambda x, y: x + y,
    "copysign": lambda x, y: abs(x) * (mp.sign(y) or 1),
}


def units(found, right):
    """Distance in units in the last place of float32."""
    if right == 0 or abs(right) > mp.mpf(2) ** 128:
        return 0.0 if right == found or np.isinf(found) else float(abs(found))
    spacing = max(2.0 ** (int(mp.floor(mp.log(abs(right), 2))) - 23), 2.0**-149)
    return float(abs(mp.mpf(float(found)) - right) / spacing)


def real():
    rng, worst = random.Random(0), {}
    draws = [float(np.float32(rng.gauss(0, 1) * 2.0 ** rng.randint(-6, 3))) for _ in range(48)]
    positive = [abs(x) + 1e-6 for x in draws]
    bounded = [float(np.float32(rng.uniform(-0.99, 0.99))) for _ in range(48)]
    for table, column in ((REAL, draws), (POSITIVE, [float(np.float32(x)) for x in positive]), (BOUNDED, bounded)):
        for name, right in table.items():
            found = called(name, ["fp32"], column)
            worst[name] = max(units(f, right(mp.mpf(x))) for f, x in zip(found, column, strict=True))
    others = draws[::-1]
    for name, right in TWO.items():
        first = [abs(x) for x in draws] if name == "pow" else draws
        found = called(name, ["fp32", "fp32"], first, others)
        worst[name] = max(units(f, right(mp.mpf(x), mp.mpf(y))) for f, x, y in zip(found, first, others, strict=True))
    return worst


def bessel():
    rng, worst = random.Random(3), {}
    column = [float(np.float32(rng.uniform(0.5, 30.0))) for _ in range(64)]
    for letter, right in (("j", mp.besselj), ("y", mp.bessely)):
        for last in "01n":
            orders = [int(last) if last != "n" else k % 5 for k in range(64)]
            given = (["fp64"], column) if last != "n" else (["int32", "fp64"], orders, column)
            exact = [right(n, mp.mpf(x)) for n, x in zip(orders, column, strict=True)]
            pairs = zip(called(letter + last, *given), exact, strict=True)
            worst[letter + last] = max(float(abs(mp.mpf(float(f)) - value) / max(1, abs(value))) for f, value in pairs)
    return worst


def directed():
    """Operations with a rounding mode keep their side of the exact result and are its nearest number there."""
    rng, bad = random.Random(1), []
    x = [float(np.float32(rng.gauss(0, 1))) for _ in range(200)]
    y = [float(np.float32(rng.gauss(0, 1))) for _ in range(200)]
    exact = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b, "sub": lambda a, b: a - b}
    for op, right in exact.items():
        for mode in ("rz", "rd", "ru"):
            for f, a, b in zip(called(f"{op}_{mode}", ["fp32", "fp32"], x, y), x, y, strict=True):
                value, f = right(mp.mpf(a), mp.mpf(b)), np.float32(f)
                down = mode == "rd" or (mode == "rz" and value > 0)
                there = mp.mpf(float(f)) <= value if down else mp.mpf(float(f)) >= value
                beyond = np.nextafter(f, np.float32(np.inf if down else -np.inf))
                nearest = mp.mpf(float(beyond)) > value if down else mp.mpf(float(beyond)) < value
                if not (there and nearest):
                    bad.append([op, mode, a, b])
    return bad


def wrap(n):
    return (n + 2**31) % 2**32 - 2**31


def octets(n):
    return (n % 2**32).to_bytes(4, "little")


def low24(n):
    return ((n & 0xFFFFFF) ^ 0x800000) - 0x800000


def one(name, kinds, *columns):
    return called(name, kinds, *columns).tolist()


def whole():
    rng, right = random.Random(2), {}
    x = [rng.randrange(-(2**31), 2**31) for _ in range(64)] + [0, 1, -1]
    y = x[::-1]
    right["clz"] = one("clz", ["int32"], x) == [32 - (n % 2**32).bit_length() for n in x]
    right["popc"] = one("popc", ["int32"], x) == [(n % 2**32).bit_count() for n in x]
    right["ffs"] = one("ffs", ["int32"], x) == [(n & -n).bit_length() if n else 0 for n in x]
    right["brev"] = one("brev", ["int32"], x) == [wrap(int(f"{n % 2**32:032b}"[::-1], 2)) for n in x]
    right["mulhi"] = one("mulhi", ["int32", "int32"], x, y) == [(a * b) >> 32 for a, b in zip(x, y, strict=True)]
    right["mul24"] = one("mul24", ["int32", "int32"], x, y) == [
        wrap(low24(a) * low24(b)) for a, b in zip(x, y, strict=True)
    ]
    right["hadd"] = one("hadd", ["int32", "int32"], x, y) == [(a + b) >> 1 for a, b in zip(x, y, strict=True)]
    right["byte_perm"] = one("byte_perm", ["int32"] * 3, x, y, [0x5140] * len(x)) == [
        wrap(int.from_bytes([(octets(a) + octets(b))[k] for k in (0, 4, 1, 5)], "little"))
        for a, b in zip(x, y, strict=True)
    ]
    floats = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4999, 1e10, float("nan")]
    right["float2int_rn"] = one("float2int_rn", ["fp32"], floats)[:7] == [-2, -2, 0, 0, 2, 2, 2]
    right["float2int_rz"] = one("float2int_rz", ["fp32"], floats)[:7] == [-2, -1, 0, 0, 1, 2, 2]
    right["saturation"] = one("float2int_rn", ["fp32"], floats)[7:] == [2**31 - 1, 0]
    right["round"] = one("round", ["fp32"], floats)[:7] == [-3, -2, -1, 1, 2, 3, 2]
    right["rint"] = one("rint", ["fp32"], floats)[:7] == [-2, -2, 0, 0, 2, 2, 2]
    right["llround"] = one("llround", ["fp32"], floats)[:7] == [-3, -2, -1, 1, 2, 3, 2]
    right["float_as_int"] = one("float_as_int", ["fp32"], [1.0, -2.0]) == [0x3F800000, wrap(0xC0000000)]
    right["int_as_float"] = one("int_as_float", ["int32"], [0x3F800000]) == [1.0]
    right["tests"] = [
        one(f, ["fp32"], [1.0, float("inf"), float("nan"), -0.0]) for f in ("isnan", "isinf", "finitef", "signbit")
    ] == [[0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 1]]
    right["ldexp"] = one("ldexp", ["fp32", "int32"], [1.5, -3.0], [4, -1]) == [24.0, -1.5]
    right["fmod"] = one("fmod", ["fp32", "fp32"], [5.5, -5.5], [2.0, 2.0]) == [1.5, -1.5]
    right["remainder"] = one("remainder", ["fp32", "fp32"], [5.5, -5.5], [2.0, 2.0]) == [-0.5, 0.5]
    right["fma"] = one("fma", ["fp32"] * 3, [1 + 2**-12], [1 + 2**-12], [-1.0]) == [2**-11 + 2**-24]
    right["saturatef"] = one("saturatef", ["fp32"], [-1.0, 0.25, 7.0]) == [0.0, 0.25, 1.0]
    right["ilogb"] = one("ilogb", ["fp32"], [0.25, 10.0]) == [-2, 3]
    return right


print(json.dumps([every(), real(), directed(), whole(), bessel()]))
