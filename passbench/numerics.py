"""How exact outputs are against the float64 oracle, beside eager's own exactness.

    found = oracle_errors(expected, actual, oracle)      # (error of actual, error of expected), or None

Reads and writes nothing.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch


def oracle_errors(
    expected: Sequence[Any], actual: Sequence[Any], oracle: Sequence[torch.Tensor | None]
) -> tuple[float, float] | None:
    """Largest absolute error of `actual` and of `expected` over outputs, each relative to its oracle's largest value.

    Outputs without an oracle, of another shape or with values that are not finite are left out; None if all are.
    """
    pairs = [
        (_error(got, exact), _error(want, exact))
        for want, got, exact in zip(expected, actual, oracle, strict=False)
        if exact is not None and _comparable(want, exact) and _comparable(got, exact)
    ]
    known = [(got, want) for got, want in pairs if got is not None and want is not None]
    return (max(got for got, _ in known), max(want for _, want in known)) if known else None


def worst_errors(
    calls: Iterable[tuple[Sequence[Any], Sequence[Any], Sequence[torch.Tensor | None]]],
) -> tuple[float, float] | None:
    """The largest `oracle_errors` over calls, each (expected, actual, oracle); None if no call has any."""
    known = [pair for call in calls if (pair := oracle_errors(*call)) is not None]
    return (max(error for error, _ in known), max(error for _, error in known)) if known else None


def _comparable(value: Any, exact: torch.Tensor) -> bool:
    return isinstance(value, torch.Tensor) and value.shape == exact.shape and value.dtype.is_floating_point


def _error(value: torch.Tensor, exact: torch.Tensor) -> float | None:
    wide = value.to(exact)
    scale = float(exact.abs().max()) if exact.numel() else 0.0
    error = float((wide - exact).abs().max()) if exact.numel() else 0.0
    return error / scale if 0 < scale < float("inf") and error == error and error < float("inf") else None
