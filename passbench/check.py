"""Comparison of outputs: what agrees, from which tolerance level on, and how far apart the values are. Pure.

    found = compare(expected, actual)            # lists of tensors or Python scalars
    found.verdict                                # PASSED, WRONG_SHAPE, WRONG_DTYPE, NON_FINITE or WRONG_VALUE
    found.correct_from                           # smallest level t in -10..5 from which all outputs agree, or None

Tolerance at level t: |actual - expected| <= atol + rtol * |expected| with

| dtype    | atol       | rtol             |
|----------|------------|------------------|
| float16  | 10^t       | 10^(3 t/5)       |
| bfloat16 | 10^t       | 10^(1.796 t/5)   |
| float32  | 10^t       | 10^(5.886 t/5)   |
| float64  | 10^(7 t/5) | 10^(7 t/5)       |
| others   | 0          | 0                |

Level -5 is the default of torch.testing; PASSED means correct from there or earlier. Where a float64 oracle is given,
an output counts as correct from level -5 as well if its error against the oracle, beyond the one rounding that storing
the oracle's own value costs, is at most ORACLE_FACTOR times that of the expected output, largest and root mean square:
a kernel that is more exact than eager is never wrong. nan equals nan, inf equals inf of its sign; where eager gives
another of these than the oracle does as the output's dtype holds it, either is right. Any other non-finite difference
is NON_FINITE. `passbench.pointwise` compares outputs on unusual inputs. Reads and writes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from schemas.rows import Verdict

LEVELS = range(-10, 6)
PASS_LEVEL = -5
ORACLE_FACTOR = 2.0
_SLOPES = {torch.float16: (1.0, 0.6), torch.bfloat16: (1.0, 1.796 / 5), torch.float32: (1.0, 5.886 / 5),
           torch.float64: (1.4, 1.4)}  # fmt: skip
"""dtype -> exponents of ten a level, for atol and rtol."""
_NARROW = (torch.float16, torch.bfloat16)
Output = torch.Tensor | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What the comparison of all outputs of one call found."""

    verdict: Verdict
    """PASSED, WRONG_SHAPE, WRONG_DTYPE, NON_FINITE or WRONG_VALUE."""
    correct_from: int | None
    """Smallest tolerance level from which every output agrees; None if none does."""
    max_abs_error: float | None
    """Largest absolute error over the finite values of all outputs; None if the forms differ."""
    max_rel_error: float | None
    """Largest over outputs of absolute error / the expected output's largest finite magnitude."""
    detail: str
    """One line: which output, what was expected, what was found; empty if passed."""

    @property
    def passed(self) -> bool:
        """Whether the verdict is PASSED."""
        return self.verdict is Verdict.PASSED


UNCHECKED = Comparison(verdict=Verdict.PASSED, correct_from=PASS_LEVEL, max_abs_error=0.0, max_rel_error=0.0, detail="")
"""What stands for a comparison where values are not compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _One:
    """One output's level and errors."""

    level: int | None
    passed: bool
    abs_error: float
    rel_error: float
    rounding: str = ""
    """What a narrow type has to do with the error."""


def tolerance(dtype: torch.dtype, level: int) -> tuple[float, float]:
    """(atol, rtol) of a dtype at level t; (0, 0) for dtypes that are compared exactly."""
    if dtype not in _SLOPES:
        return 0.0, 0.0
    absolute, relative = _SLOPES[dtype]
    return 10.0 ** (absolute * level), 10.0 ** (relative * level)


def compare(
    expected: Sequence[Output], actual: Sequence[Output], *, oracle: Sequence[torch.Tensor | None] | None = None
) -> Comparison:
    """Compare two lists of outputs; `oracle` holds float64 values of the expected outputs, None where unknown."""
    if len(expected) != len(actual):
        return _refused(Verdict.WRONG_SHAPE, f"{len(expected)} outputs expected, {len(actual)} found")
    found: list[_One] = []
    for index, (want, got) in enumerate(zip(expected, actual, strict=True)):
        refusal = _form_difference(want, got)
        if refusal is not None:
            return _refused(refusal[0], f"output {index}: {refusal[1]}")
        assert isinstance(want, torch.Tensor) == isinstance(got, torch.Tensor)
        if isinstance(want, torch.Tensor) and isinstance(got, torch.Tensor):
            if not _finite_alike(want, got):
                want = _reconciled(want, got, oracle[index] if oracle else None)
            if not _finite_alike(want, got):
                return _refused(Verdict.NON_FINITE, f"output {index}: {_non_finite_counts(want, got)}")
            found.append(_compare_one(want, got, oracle[index] if oracle else None))
    return _gather(found)


def fitted(expected: Sequence[Output], actual: Sequence[Output]) -> list[Output]:
    """The actual outputs cast and broadcast to the form of the expected ones, where that is possible."""
    pairs = zip(expected, actual, strict=False)
    return [_fitted(want, got) for want, got in pairs]


def _fitted(want: Output, got: Output) -> Output:
    if not isinstance(want, torch.Tensor) or not isinstance(got, torch.Tensor):
        return got
    try:
        return torch.empty_like(want).copy_(got.broadcast_to(want.shape))
    except RuntimeError:
        return got


def merge(comparisons: Sequence[Comparison]) -> Comparison:
    """The worst of several calls: the first that did not run in the right form, else the largest level and errors."""
    for item in comparisons:
        if item.max_abs_error is None:
            return item
    levels = [item.correct_from for item in comparisons]
    worst = next((item for item in comparisons if not item.passed), comparisons[0])
    return Comparison(
        verdict=worst.verdict,
        correct_from=_worst(levels),
        max_abs_error=max(item.max_abs_error or 0.0 for item in comparisons),
        max_rel_error=max(item.max_rel_error or 0.0 for item in comparisons),
        detail=worst.detail,
    )


def stride_order(shape: Sequence[int], stride: Sequence[int]) -> tuple[int, ...] | None:
    """Stride class: the dimensions from outermost to innermost, without those of size 1; None if not dense."""
    if 0 in shape:
        return ()
    order = sorted((d for d in range(len(shape)) if shape[d] > 1), key=lambda d: (-stride[d], d))
    step = 1
    for dim in reversed(order):
        if stride[dim] != step:
            return None
        step *= shape[dim]
    return tuple(order)


def _refused(verdict: Verdict, detail: str) -> Comparison:
    return Comparison(verdict=verdict, correct_from=None, max_abs_error=None, max_rel_error=None, detail=detail)


def _form_difference(want: Output, got: Output) -> tuple[Verdict, str] | None:
    """Verdict and sentence if the two are not of one form: kind, dtype, shape, stride class, device."""
    if not isinstance(want, torch.Tensor) or not isinstance(got, torch.Tensor):
        if type(want) is not type(got):
            return Verdict.WRONG_DTYPE, f"{type(want).__name__} expected, {type(got).__name__} found"
        same = want == got or (want != want and got != got)
        return None if same else (Verdict.WRONG_SHAPE, f"{want!r} expected, {got!r} found")
    if want.dtype != got.dtype:
        return Verdict.WRONG_DTYPE, f"{want.dtype} expected, {got.dtype} found"
    if want.shape != got.shape:
        return Verdict.WRONG_SHAPE, f"shape {tuple(want.shape)} expected, {tuple(got.shape)} found"
    order = stride_order(want.shape, want.stride())
    if order is not None and order != stride_order(got.shape, got.stride()):
        return Verdict.WRONG_SHAPE, f"strides like {want.stride()} expected, {got.stride()} found"
    return None


def _finite_alike(want: torch.Tensor, got: torch.Tensor) -> bool:
    if not want.dtype.is_floating_point and not want.dtype.is_complex:
        return True
    left, right = wide(want), wide(got)
    odd = ~(torch.isfinite(left) & torch.isfinite(right))
    if not odd.any():
        return True
    left, right = left[odd], right[odd]
    return bool(((left == right) | (left.isnan() & right.isnan())).all())


def _reconciled(want: torch.Tensor, got: torch.Tensor, oracle: torch.Tensor | None) -> torch.Tensor:
    """The expected output, with the oracle's value where eager overflowed or rounded to what the oracle is not.

    Only where the output is of the oracle's kind (finite, nan, inf, -inf) and eager's is of another.
    """
    if oracle is None or oracle.shape != want.shape or not want.dtype.is_floating_point:
        return want
    stored = oracle.to(want.dtype)
    right = (_kinds(stored) == _kinds(got)) & (_kinds(want) != _kinds(got))
    return torch.where(right, stored, want)


def _kinds(value: torch.Tensor) -> torch.Tensor:
    """0 for a finite element, 1 for nan, 2 for inf, 3 for -inf."""
    exact = wide(value)
    return exact.isnan() + 2 * (exact == float("inf")) + 3 * (exact == float("-inf"))


def _non_finite_counts(want: torch.Tensor, got: torch.Tensor) -> str:
    counts = [int((~torch.isfinite(wide(item))).sum()) for item in (want, got)]
    return f"{counts[0]} non-finite values expected, {counts[1]} found, or not in the same places"


def wide(value: torch.Tensor) -> torch.Tensor:
    """A tensor's values as float64, or complex128."""
    return value.to(torch.complex128 if value.dtype.is_complex else torch.float64)


def _compare_one(want: torch.Tensor, got: torch.Tensor, oracle: torch.Tensor | None) -> _One:
    """Level and errors of two tensors of one form whose non-finite values agree."""
    whole = not (want.dtype.is_floating_point or want.dtype.is_complex)
    if whole and torch.equal(want, got):
        return _One(level=LEVELS[0], passed=True, abs_error=0.0, rel_error=0.0)
    left, right = wide(want), wide(got)
    keep = torch.isfinite(left)
    left, right = left[keep], right[keep]
    if not left.numel():
        return _One(level=LEVELS[0], passed=True, abs_error=0.0, rel_error=0.0)
    error, size = (right - left).abs(), left.abs()
    # Whole numbers beyond 2^53 may differ and yet be one float64.
    level = None if whole else _level(error, size, want.dtype)
    worst, scale = float(error.max()), float(size.max())
    relative = 0.0 if worst == 0 else worst / scale if scale else float("inf")
    late = level is not None and level > PASS_LEVEL
    if late and oracle is not None and oracle.shape == want.shape and want.dtype.is_floating_point:
        level = PASS_LEVEL if _as_exact_as_eager(left, right, wide(oracle)[keep], want.dtype) else level
    passed = level is not None and level <= PASS_LEVEL
    note = "" if passed or want.dtype not in _NARROW else _rounding(error, size, want.dtype)
    return _One(level=level, passed=passed, abs_error=worst, rel_error=relative, rounding=note)


def _rounding(error: torch.Tensor, size: torch.Tensor, dtype: torch.dtype) -> str:
    """The error in units in the last place of a narrow type, and which rounding the expected values have."""
    info, name = torch.finfo(dtype), str(dtype).removeprefix("torch.")
    spacing = torch.exp2(torch.floor(torch.log2(size.clamp(min=info.tiny)))) * info.eps
    units = float((error / spacing).max())
    return f"; up to {units:.3g} units in the last place of {name}, to which the reference rounds every operation"


def _level(error: torch.Tensor, size: torch.Tensor, dtype: torch.dtype) -> int | None:
    """Smallest level at which every error is within tolerance, by bisection: tolerances grow with the level."""

    def within(level: int) -> bool:
        atol, rtol = tolerance(dtype, level)
        return bool((error <= atol + rtol * size).all())

    low, high = LEVELS[0], LEVELS[-1]
    if not within(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if within(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _as_exact_as_eager(want: torch.Tensor, got: torch.Tensor, oracle: torch.Tensor, dtype: torch.dtype) -> bool:
    if not bool(torch.isfinite(oracle).all()):
        return False
    info = torch.finfo(dtype)
    rounding = oracle.abs().clamp(min=info.tiny) * info.eps / 2
    own, other = (((value - oracle).abs() - rounding).clamp(min=0) for value in (want, got))
    largest = float(other.max()) <= ORACLE_FACTOR * float(own.max())
    mean = float(other.square().mean()) <= ORACLE_FACTOR**2 * float(own.square().mean())
    return largest and mean


def _worst(levels: Sequence[int | None]) -> int | None:
    known = [level for level in levels if level is not None]
    return None if len(known) < len(levels) else max(known, default=LEVELS[0])


def _gather(found: Sequence[_One]) -> Comparison:
    levels = [item.level for item in found]
    wrong = [index for index, item in enumerate(found) if not item.passed]
    detail = ""
    if wrong:
        item = found[wrong[0]]
        since = "at no level" if item.level is None else f"only from level {item.level}"
        share = f"{item.rel_error:.3g} of the largest value"
        detail = f"output {wrong[0]}: largest error {item.abs_error:.3g} ({share}), agrees {since}{item.rounding}"
    return Comparison(
        verdict=Verdict.WRONG_VALUE if wrong else Verdict.PASSED,
        correct_from=_worst(levels),
        max_abs_error=max((item.abs_error for item in found), default=0.0),
        max_rel_error=max((item.rel_error for item in found), default=0.0),
        detail=detail,
    )
