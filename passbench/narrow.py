"""Floating-point numbers that numpy does not know, as bits: bfloat16 and the five kinds of float8 of Triton.

    bits = encode(values, BF16)                  # float32 -> uint16, to the nearest, ties to even
    values = decode(bits, BF16)                  # uint16 -> float32, exact

bfloat16 follows cvt.rn.bf16.f32: what is too large becomes infinite, NaN stays NaN, denormal numbers are kept. float8
follows cvt.rn.satfinite: what is too large becomes the largest finite number. With `toward_zero` bits are cut off
instead (cvt.rz). Pure; reads and writes nothing.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float32]
Bits = npt.NDArray[Any]
BF16 = "bf16"
_BF16_NAN = np.uint16(0x7FFF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Float8:
    """One kind of float8: a sign, `5` or `4` bits of exponent, the rest mantissa."""

    exponent: int
    """Bits of the exponent."""
    bias: int
    """Its bias."""
    nan: tuple[int, ...]
    """Codes that are NaN."""
    infinite: int | None = None
    """Code of positive infinity; None if there is none."""


FLOAT8 = {
    "fp8e5": Float8(exponent=5, bias=15, nan=(0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF), infinite=0x7C),
    "fp8e4nv": Float8(exponent=4, bias=7, nan=(0x7F, 0xFF)),
    "fp8e4b15": Float8(exponent=4, bias=15, nan=()),
    "fp8e4b8": Float8(exponent=4, bias=8, nan=(0x80,)),
    "fp8e5b16": Float8(exponent=5, bias=16, nan=(0x80,)),
}
"""Triton's name of the type -> its layout."""
NARROW = frozenset({BF16, *FLOAT8})
"""Names of the types whose numbers are bits here."""


def decode(bits: Bits, kind: str) -> Values:
    """The numbers that bits of a type stand for, exactly, as float32."""
    if kind == BF16:
        wide: Values = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return wide
    found: Values = _table(kind)[bits.view(np.uint8)]
    return found


def encode(values: npt.NDArray[Any], kind: str, *, toward_zero: bool = False) -> Bits:
    """Bits of the nearest number of a type, ties to even; with `toward_zero` of the next that is not larger in size."""
    single = values.astype(np.float32, copy=False)
    return _encode_bf16(single, toward_zero) if kind == BF16 else _encode_float8(single, kind, toward_zero)


def _encode_bf16(values: Values, toward_zero: bool) -> Bits:
    bits = np.ascontiguousarray(values).view(np.uint32).reshape(values.shape)
    if not toward_zero:
        bits = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))  # wraps for NaN only
    found: Bits = (bits >> np.uint32(16)).astype(np.uint16)
    odd = np.isnan(values)
    return np.where(odd, _BF16_NAN, found) if odd.any() else found


@cache
def _table(kind: str) -> Values:
    """The number of each of the 256 codes."""
    layout = FLOAT8[kind]
    mantissa = 7 - layout.exponent
    codes = np.arange(256)
    power = (codes >> mantissa) & ((1 << layout.exponent) - 1)
    fraction = (codes & ((1 << mantissa) - 1)) / (1 << mantissa)
    sizes = np.where(power == 0, fraction * 2.0 ** (1 - layout.bias), (1 + fraction) * 2.0 ** (power - layout.bias))
    found = np.where(codes >= 128, -sizes, sizes).astype(np.float32)
    found[list(layout.nan)] = np.nan
    if layout.infinite is not None:
        found[[layout.infinite, layout.infinite | 0x80]] = np.inf, -np.inf
    return found


@cache
def _sizes(kind: str) -> npt.NDArray[np.float64]:
    """The finite numbers that are not negative, by code."""
    found = _table(kind)[:128].astype(np.float64)
    return found[: int(np.isfinite(found).sum())]


def _encode_float8(values: Values, kind: str, toward_zero: bool) -> Bits:
    sizes, wide = _sizes(kind), np.abs(values.astype(np.float64))
    below = np.clip(np.searchsorted(sizes, wide, side="right") - 1, 0, len(sizes) - 1)
    above = np.minimum(below + 1, len(sizes) - 1)
    up = (wide - sizes[below]) > (sizes[above] - wide)
    tie = (wide - sizes[below]) == (sizes[above] - wide)
    rounds_up = (up | (tie & (below % 2 == 1))) & ~np.bool_(toward_zero)
    codes = np.where(rounds_up, above, below).astype(np.uint8)
    layout = FLOAT8[kind]
    negative = np.signbit(values) & ((codes != 0) | (0x80 not in layout.nan))
    codes = np.where(negative, codes | np.uint8(0x80), codes)
    return np.where(np.isnan(values), np.uint8(layout.nan[0] if layout.nan else 0x7F), codes).astype(np.uint8)
