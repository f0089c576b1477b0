"""Comparison of outputs on unusual inputs: every element against what rounding may do to it. Pure.

    found = compare_each(expected, actual, Doubtful(oracle=oracle))              # cheap: eager's own error alone
    found = compare_each(expected, actual, Doubtful(oracle=oracle, noisy=runs))  # with runs whose steps round otherwise

`passbench.check.compare` allows an absolute error that hides a whole tail in half precision, and an error relative to
the largest value hides whatever is small beside it. Here an element passes if its distance from the float64 oracle
(from eager where there is none) is at most

    FACTOR * max(eager's own error, spread of the noisy runs) + rtol * |oracle| + FLOOR

of that very element, with rtol of tolerance level LOOSE_LEVEL. In graphs that bring elements together, a few roundings
of single precision at the output's largest value are allowed besides: what is subtracted from a row's logarithm of sums
was as large as that. Noisy runs are the reference with every rounding step
moved at random (`passbench.rounding`): where a result hangs on rounding they spread, so an honest kernel that rounds
elsewhere is not refused there, and nowhere else is anything forgiven.

What is not finite is compared by kind and place: nan, inf or -inf is right where eager, a noisy run or the oracle as
the output's dtype holds it is so too; a finite value is right where eager is not finite only if it is near the oracle
(eager overflowed on the way) or near a noisy run. Whole numbers and truth values are equal to eager's or a noisy run's.
Reads and writes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from passbench.check import PASS_LEVEL, Comparison, Output, compare, tolerance, wide
from schemas.rows import Verdict

LOOSE_LEVEL, FACTOR = -4, 8.0
"""Level whose relative tolerance every element has, and multiple of what rounding does to it."""
MIXED = 4.0
"""Roundings of single precision, at an output's largest value, that are allowed where elements are brought together."""
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
FLOORS = {torch.float64: 2e-14}
FLOOR = 1e-6
"""Absolute error allowed everywhere, by dtype where it differs: a few roundings of intermediate values near 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubtful:
    """What is known of how exact the expected outputs are."""

    oracle: Sequence[torch.Tensor | None]
    """Float64 values of every output, None where there are none."""
    noisy: Sequence[Sequence[Output]] = field(default=())
    """Outputs of runs whose rounding steps were moved."""
    mixes: bool = False
    """Whether the graph brings elements of one tensor together."""


def compare_each(expected: Sequence[Output], actual: Sequence[Output], known: Doubtful) -> Comparison:
    """The verdict on all outputs of one call: PASSED, WRONG_SHAPE, WRONG_DTYPE, NON_FINITE or WRONG_VALUE."""
    found = compare(expected, actual)
    if found.verdict in (Verdict.WRONG_SHAPE, Verdict.WRONG_DTYPE):
        return found
    for index, (want, got) in enumerate(zip(expected, actual, strict=True)):
        if isinstance(want, torch.Tensor) and isinstance(got, torch.Tensor) and want.numel():
            runs = [run[index] for run in known.noisy]
            noisy = [value for value in runs if isinstance(value, torch.Tensor) and value.shape == want.shape]
            oracle = known.oracle[index]
            around = _Around(
                oracle=oracle if oracle is not None and oracle.shape == want.shape else None, noisy=noisy,
                mixes=known.mixes,
            )  # fmt: skip
            fault = _fault(want, got, around)
            if fault is not None:
                return Comparison(
                    verdict=fault[0], correct_from=None, max_abs_error=found.max_abs_error,
                    max_rel_error=found.max_rel_error, detail=f"output {index}: {fault[1]}",
                )  # fmt: skip
    return Comparison(
        verdict=Verdict.PASSED, correct_from=PASS_LEVEL, max_abs_error=found.max_abs_error,
        max_rel_error=found.max_rel_error, detail="",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """What is known of one output's exact values."""

    oracle: torch.Tensor | None
    noisy: Sequence[torch.Tensor]
    mixes: bool


def _fault(want: torch.Tensor, got: torch.Tensor, around: _Around) -> tuple[Verdict, str] | None:
    """Verdict and sentence on the first wrong element of a tensor, None if all are right."""
    if want.dtype.is_complex:
        want, got, *noisy = [torch.view_as_real(value.resolve_conj()) for value in (want, got, *around.noisy)]
        around = _Around(oracle=None, noisy=noisy, mixes=around.mixes)
    eager, value, runs = wide(want), wide(got), [wide(run) for run in around.noisy]
    if not want.dtype.is_floating_point:
        right = torch.stack([_signed(got) == _signed(one) for one in (want, *around.noisy)]).any(dim=0)
        return None if bool(right.all()) else _told(right, eager, value, Verdict.WRONG_VALUE)
    exact = eager if around.oracle is None else wide(around.oracle)
    stored = exact.to(want.dtype).to(torch.float64)
    alike = torch.stack([_same_kind(value, one) for one in (eager, stored, *runs)]).any(dim=0)
    centre = exact
    for one in (eager, *runs):
        centre = torch.where(torch.isfinite(centre), centre, one)
    spread = torch.stack([_distance(one, centre) for one in (eager, *runs)]).amax(dim=0)
    near = _near(value, centre, spread, want.dtype, mixes=around.mixes)
    right = torch.where(torch.isfinite(value), near | (value == eager), alike)
    if bool(right.all()):
        return None
    finite = torch.isfinite(value) & torch.isfinite(eager)
    odd = ~right & ~finite
    if bool(odd.any()):
        return _told(~odd, eager, value, Verdict.NON_FINITE)
    return _told(right, eager, value, Verdict.WRONG_VALUE)


def _same_kind(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    """Where two tensors are not finite in the same way."""
    return ~torch.isfinite(one) & ((one == two) | (one.isnan() & two.isnan()))


def _near(
    value: torch.Tensor, centre: torch.Tensor, spread: torch.Tensor, dtype: torch.dtype, *, mixes: bool
) -> torch.Tensor:
    """Where a value is as near to the centre as it must be; what lies beyond the dtype may be its largest value."""
    info = torch.finfo(dtype)
    relative = tolerance(dtype, LOOSE_LEVEL)[1] or 4 * info.eps
    allowed = FACTOR * spread + relative * centre.abs() + FLOORS.get(dtype, FLOOR)
    known = torch.isfinite(centre)
    if mixes and bool(known.any()):
        single = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
        allowed = allowed + MIXED * single * float(centre[known].abs().max())
    return (value - centre.clamp(-info.max, info.max)).abs() <= allowed


def _signed(value: torch.Tensor) -> torch.Tensor:
    """The same bits as a dtype that can be compared everywhere."""
    return value.view(_SIGNED[value.dtype]) if value.dtype in _SIGNED else value


def _distance(one: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
    """Absolute difference, 0 where either is not finite."""
    return torch.where(torch.isfinite(one) & torch.isfinite(centre), (one - centre).abs(), 0.0)


def _told(right: torch.Tensor, want: torch.Tensor, got: torch.Tensor, verdict: Verdict) -> tuple[Verdict, str]:
    wrong = ~right
    first = int(wrong.reshape(-1).to(torch.uint8).argmax())
    values = f"{float(want.reshape(-1)[first]):.6g} expected, {float(got.reshape(-1)[first]):.6g} found"
    return verdict, f"{int(wrong.sum())} of {wrong.numel()} elements are wrong, the first: {values}"
