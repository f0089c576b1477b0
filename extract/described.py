"""Data as an initialiser: exactly where it is short or follows a pattern, else as a distribution of the same nature.

    described(data)        # '{"kind":"banded","low":1,"high":null,"inside":{"float":"-inf"},"outside":{"float":"0.0"}}'
    drawn_like(data)       # never the numbers themselves, unless they are one number or few different ones

| data, first that holds                              | initialiser                                                |
|-----------------------------------------------------|------------------------------------------------------------|
| one value, a range along the last dimension, a lower triangle | constant, arange, causal_mask                    |
| at most MAX_LITERAL numbers                         | literal                                                    |
| two values, one of them on a band of diagonals      | banded: causal masks, sliding windows                      |
| few different rows, or long runs in them            | lines: masks by blocks, tables that repeat                 |
| few different values                                | choice, as often as they occur                             |
| whole numbers                                       | integers from the least to the greatest                    |
| numbers that only rise or only fall                 | arange from first to last                                  |
| bounded numbers, or numbers of one sign             | uniform from the least to the greatest                     |
| other finite numbers                                | normal                                                     |

Reads and writes nothing.
"""

import math
from collections.abc import Callable
from itertools import groupby
from typing import Any

import torch

from schemas import values

MAX_LITERAL = 4096
"""Longest data kept literally, and most numbers that `lines` may hold."""
MAX_VALUES = 16
"""Most different numbers of data that is drawn from its own numbers."""
MIN_ORDERED = 16
"""Fewest numbers along a dimension whose order is taken for meant."""
BOUNDED, MIN_BOUNDED = 1.9, 128
"""Numbers, so many at least, that all lie within so many standard deviations of their mean are bounded: normal ones do
in one of 2,000 draws, uniform ones (1.73) and sine waves (1.41) always."""
_Matcher = Callable[[torch.Tensor], str | None]


def _json(kind: str, **fields: Any) -> str:
    return values.dumps({"kind": kind, **{key: number_value(item) for key, item in fields.items()}})


def number_value(value: Any) -> Any:
    """A Python number as a value of the attribute grammar; anything else as it is."""
    if isinstance(value, complex):
        return {"complex": [repr(value.real), repr(value.imag)]}
    return {"float": repr(value)} if isinstance(value, float) else value


def normal(mean: float, std: float) -> str:
    """A normal initialiser, rounded to six significant digits."""
    return _json("normal", mean=_rounded(mean), std=_rounded(std))


def _rounded(number: float) -> float:
    return float(f"{number:.6g}")


def described(data: torch.Tensor) -> str:
    """An initialiser that reproduces data exactly where it is short or follows a pattern; else one alike."""
    plain = _plain(data)
    return next(filter(None, (matcher(plain) for matcher in _EXACT)), None) or drawn_like(data)


def drawn_like(data: torch.Tensor) -> str:
    """An initialiser of numbers of the same nature: set of values, range, sign, wholeness, order, scale."""
    plain = _plain(data)
    return next(found for matcher in _ALIKE if (found := matcher(plain)) is not None)


def is_few_valued(data: torch.Tensor) -> bool:
    """Whether data has few different numbers, each of them often, or some that are not finite: a mask, not a draw."""
    plain = _plain(data)
    if plain.dtype.is_complex:
        return False
    return not bool(plain.isfinite().all()) or _constant(plain) is not None or _choice(plain) is not None


def _plain(data: torch.Tensor) -> torch.Tensor:
    """The same numbers in a dtype that every operation knows."""
    data = data.detach()
    if data.dtype in (torch.uint16, torch.uint32) or (data.dtype.is_floating_point and data.element_size() == 1):
        return data.to(torch.int64 if not data.dtype.is_floating_point else torch.float32)
    if data.dtype == torch.complex32:
        return data.to(torch.complex64)
    return data


def _is_whole(data: torch.Tensor) -> bool:
    return not (data.dtype.is_floating_point or data.dtype.is_complex or data.dtype == torch.bool)


# --- exactly --------------------------------------------------------------------------------------------------------
def _constant(data: torch.Tensor) -> str | None:
    if data.numel() == 0:
        return _json("zeros")
    first = data.reshape(-1)[0]
    return _json("constant", value=first.item()) if bool((data == first).all()) else None


def _arange(data: torch.Tensor) -> str | None:
    if not _is_whole(data) or data.dim() == 0 or data.shape[-1] < 3 or data.dtype == torch.uint64:
        return None
    line = data.reshape(-1, data.shape[-1])[0]
    start, step = int(line[0]), int(line[1]) - int(line[0])
    if abs(start) + abs(step) * data.shape[-1] >= 1 << 62:
        return None
    wanted = torch.arange(data.shape[-1], dtype=torch.int64) * step + start
    return _json("arange", start=start, step=step) if bool((data == wanted.to(data.dtype)).all()) else None


def _causal(data: torch.Tensor) -> str | None:
    if data.dim() < 2 or data.dtype.is_complex or data.shape[-1] != data.shape[-2]:
        return None
    allowed = torch.ones(data.shape[-2:], dtype=torch.bool).tril()
    wanted = allowed.to(data.dtype)
    if data.dtype.is_floating_point:
        wanted = torch.zeros(data.shape[-2:], dtype=data.dtype).masked_fill(~allowed, torch.finfo(data.dtype).min)
    return _json("causal_mask") if bool((data == wanted).all()) else None


def _literal(data: torch.Tensor) -> str | None:
    if data.numel() > MAX_LITERAL:
        return None
    return values.dumps({"kind": "literal", "data": [number_value(item) for item in data.reshape(-1).tolist()]})


def _banded(data: torch.Tensor) -> str | None:
    """Two values, the same in every matrix of the last two dimensions; the diagonals with one of them are a range."""
    if data.dim() < 2 or data.dtype.is_complex or min(data.shape[-2:]) < 3:
        return None
    rows, columns = data.shape[-2:]
    matrix = data.reshape(-1, rows, columns)[0]
    found = _different(matrix, 2)
    if found is None or len(found) != 2 or not bool((data == matrix).all()):
        return None
    offsets = torch.arange(columns) - torch.arange(rows)[:, None]
    for inside, outside in ((found[0], found[1]), (found[1], found[0])):
        held = offsets[matrix == inside]
        low, high = int(held.min()), int(held.max())
        if bool((((offsets >= low) & (offsets <= high)) == (matrix == inside)).all()):
            ends = {"low": None if low == 1 - rows else low, "high": None if high == columns - 1 else high}
            return _json("banded", **ends, inside=inside.item(), outside=outside.item())
    return None


def _lines(data: torch.Tensor) -> str | None:
    """Few different rows, each as runs of few different values."""
    if data.dim() < 1 or data.dtype.is_complex:
        return None
    rows = data.reshape(-1, data.shape[-1])
    if bool(rows.isnan().any()) or len(rows) > 64 * MAX_LITERAL:
        return None
    lines, order = torch.unique(rows, dim=0, return_inverse=True)
    found = _different(lines, MAX_LITERAL) if lines.numel() <= 1 << 20 else None
    if found is None:
        return None
    runs_of_order = _runs(order.tolist())
    runs = [_runs(line) for line in torch.unique(lines, return_inverse=True)[1].tolist()]
    if len(found) + len(runs_of_order) + sum(map(len, runs)) > MAX_LITERAL:
        return None
    numbers = [number_value(item) for item in found.tolist()]
    return values.dumps({"kind": "lines", "values": numbers, "lines": runs, "order": runs_of_order})


def _runs(items: list[int]) -> list[int]:
    """[item, how often, next item, how often, ...]"""
    return [part for item, same in groupby(items) for part in (item, sum(1 for _ in same))]


def _different(data: torch.Tensor, limit: int) -> torch.Tensor | None:
    """The different values of data, ascending; None where there are more than a limit."""
    flat = data.reshape(-1)
    if len(torch.unique(flat[: 4 * limit])) > limit:
        return None
    found = torch.unique(flat)
    return found if len(found) <= limit else None


# --- alike ----------------------------------------------------------------------------------------------------------
def _truth(data: torch.Tensor) -> str | None:
    return _json("bool", p=float(data.float().mean())) if data.dtype == torch.bool else None


def _complex(data: torch.Tensor) -> str | None:
    if not data.dtype.is_complex:
        return None
    parts = torch.view_as_real(data.resolve_conj()).double()
    return normal(0.0, float((parts**2).sum(-1).mean().sqrt()))


def _choice(data: torch.Tensor) -> str | None:
    """Few different numbers that are no range of whole ones: some are infinite, or each occurs often."""
    numbers = data[~data.isnan()]
    found = _different(numbers, MAX_VALUES) if len(numbers) else None
    if found is None or not (len(numbers) >= 8 * len(found) or bool(found.isinf().any())):
        return None
    if _is_whole(data) and int(found[-1]) - int(found[0]) < len(found):
        return None
    counts = [int((numbers == item).sum()) for item in found]
    return values.dumps({"kind": "choice", "values": [number_value(item) for item in found.tolist()], "counts": counts})


def _integers(data: torch.Tensor) -> str | None:
    if _is_whole(data):
        flat = data.reshape(-1).tolist() if data.dtype == torch.uint64 else [int(data.min()), int(data.max())]
        return _json("integers", low=min(flat), high=max(flat) + 1)
    finite = data[data.isfinite()]
    if finite.numel() < 2 or not bool((finite == finite.round()).all()) or float(finite.abs().max()) >= 1 << 31:
        return None
    return _json("integers", low=int(finite.min()), high=int(finite.max()) + 1)


def _ordered(data: torch.Tensor) -> str | None:
    if data.dim() == 0 or data.shape[-1] < MIN_ORDERED or not bool(data.isfinite().all()):
        return None
    steps = data.double().diff(dim=-1)
    if not (bool((steps >= 0).all()) or bool((steps <= 0).all())):
        return None
    rows = data.double().reshape(-1, data.shape[-1])
    first, last = float(rows[:, 0].mean()), float(rows[:, -1].mean())
    return _json("arange", start=_rounded(first), step=_rounded((last - first) / (data.shape[-1] - 1)))


def _uniform(data: torch.Tensor) -> str | None:
    finite = data[data.isfinite()].double()
    if finite.numel() < 2:
        return None
    low, high, std = float(finite.min()), float(finite.max()), float(finite.std())
    distance = float((finite - finite.mean()).abs().max())
    is_bounded = finite.numel() >= MIN_BOUNDED and distance < BOUNDED * std
    return _json("uniform", low=_outer(low, -1), high=_outer(high, 1)) if low >= 0 or is_bounded else None


def _outer(number: float, direction: int) -> float:
    """A bound with six significant digits that excludes nothing; zero stays zero."""
    rounded = _rounded(number)
    return rounded if (rounded - number) * direction >= 0 else _rounded(rounded + direction * abs(rounded) * 1e-5)


def _normal(data: torch.Tensor) -> str:
    finite = data[data.isfinite()].double()
    if finite.numel() > 1:
        return normal(float(finite.mean()), float(finite.std()))
    return _json("constant", value=_finite(float(data.reshape(-1)[0]))) if data.numel() else _json("zeros")


def _finite(number: float) -> float:
    return number if math.isfinite(number) else 0.0


_EXACT: tuple[_Matcher, ...] = (_constant, _arange, _causal, _literal, _banded, _lines)
_ALIKE: tuple[_Matcher, ...] = (
    _constant, _truth, _complex, _choice, _integers, _ordered, _uniform, _normal,
)  # fmt: skip
