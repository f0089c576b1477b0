"""Input values of unusual kinds: where functions bend, saturate, overflow and vanish, drawn from a seed.

    value = in_mood(value, "mixed", kind, seed=7, bends=(0.3,))      # a tensor of the same form with other values

| mood         | values                                                                                    |
|--------------|-------------------------------------------------------------------------------------------|
| heavy-tailed | ratios of normal numbers                                                                  |
| large, small | the drawn values times 32, and over 1024                                                  |
| sparse       | nine in ten are zero                                                                      |
| mixed        | every element from one of REGIONS by chance                                               |
| striped      | every line along one dimension from one of REGIONS, so that a row is all of one kind      |
| far mixed    | mixed, with magnitudes over the whole range of the dtype; for graphs whose every element  |
| far striped  | depends on one element of each input alone: elsewhere one such value would drown a row    |

REGIONS cover the range that is of use in a dtype: ordinary values, tails on both sides, all magnitudes, the numbers at
which common functions bend and the literals of the graph, each with its neighbours, whole numbers, one value repeated,
one sign, zeros, and what is too small for the dtype's full precision. Values drawn uniformly stay within their bounds,
and whole numbers too: there the ends and what is next to them come more often. Reads and writes nothing.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

BENDS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 11.0, 16.0, 20.0, 32.0, 64.0, 88.0, 100.0)
"""Numbers near which activations, exponentials and roundings change; of either sign."""
_FAR = {torch.float16: (-14.0, 15.5), torch.float64: (-80.0, 60.0)}
_FAR_ELSEWHERE, _NEAR = (-40.0, 30.0), (-14.0, 7.0)
"""Exponents of two between which magnitudes are drawn: squares and cubes stay finite in what computes them."""
EQUALS = 12
"""One element in so many is made equal to another input's."""
LARGEST_BESIDE_OTHERS = 128.0
"""Largest number given that stands in a row of ordinary ones, which it must not drown."""
COPIES = 8
"""Places of every number given: at some of them other inputs hide what is wrong there."""
ROOM = 4
"""At most one element in so many is one of the numbers given."""
_OTHERS = ("heavy-tailed", "large", "small", "sparse")
MOODS = ("mixed", "striped", *_OTHERS)
"""Moods of inputs of graphs in which elements of an input are brought together."""
FAR_MOODS = ("far mixed", "far striped", *_OTHERS)
"""Moods of inputs of graphs in which every element stands for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What values are drawn from."""

    generator: torch.Generator
    dtype: torch.dtype
    bends: tuple[float, ...]
    """Literals of the graph."""
    device: str
    """Where they are used: a GPU's fast functions take denormal numbers for zero."""
    far: bool = False
    """Whether magnitudes cover the whole range of the dtype."""

    def normal(self, count: int) -> torch.Tensor:
        """Standard normal numbers, float64."""
        return torch.randn(count, generator=self.generator, dtype=torch.float64)

    def uniform(self, count: int, low: float, high: float) -> torch.Tensor:
        """Uniform numbers, float64."""
        return torch.rand(count, generator=self.generator, dtype=torch.float64) * (high - low) + low

    def sign(self, count: int) -> torch.Tensor:
        """1 or -1."""
        return torch.randint(0, 2, (count,), generator=self.generator) * 2.0 - 1.0

    def pick(self, count: int, of: Sequence[float]) -> torch.Tensor:
        """Any of some numbers."""
        places = torch.randint(0, len(of), (count,), generator=self.generator)
        return torch.tensor(of, dtype=torch.float64)[places]


def _magnitudes(source: Source, count: int) -> torch.Tensor:
    exponents = _FAR.get(source.dtype, _FAR_ELSEWHERE) if source.far else _NEAR
    return source.sign(count) * 2.0 ** source.uniform(count, *exponents)


def _bends(source: Source, count: int) -> torch.Tensor:
    """A number where something may change, half of them the graph's own, and half of those next to it in the dtype."""
    common, own = source.pick(count, BENDS), source.pick(count, source.bends or BENDS)
    numbers = source.sign(count) * torch.where(source.sign(count) > 0, common, own)
    steps = torch.randint(-1, 2, (count,), generator=source.generator) * (source.sign(count) > 0)
    return numbers * (1.0 + steps * torch.finfo(source.dtype).eps)


def _denormals(source: Source, count: int) -> torch.Tensor:
    info = torch.finfo(source.dtype)
    if source.device != "cpu" and source.dtype != torch.float16:
        return source.sign(count) * info.tiny * source.uniform(count, 1.0, 4.0)
    return source.sign(count) * info.tiny * 2.0 ** -source.uniform(count, 0.0, -math.log2(info.eps))


REGIONS: dict[str, Callable[[Source, int], torch.Tensor]] = {
    "ordinary": lambda source, count: source.normal(count),
    "tails": lambda source, count: source.sign(count) * source.uniform(count, 3.0, 40.0),
    "near tails": lambda source, count: source.sign(count) * source.uniform(count, 3.0, 12.0),
    "magnitudes": _magnitudes,
    "close to zero": lambda source, count: source.sign(count) * 2.0 ** source.uniform(count, -20.0, -4.0),
    "bends": _bends,
    "whole numbers": lambda source, count: torch.randint(-8, 9, (count,), generator=source.generator).double(),
    "heavy-tailed": lambda source, count: source.normal(count) / (source.normal(count).abs() + 0.02),
    "denormals": _denormals,
    "zeros": lambda source, count: torch.zeros(count, dtype=torch.float64),
    "positive": lambda source, count: source.normal(count).abs(),
    "negative": lambda source, count: -source.normal(count).abs(),
    "one value": lambda source, count: source.normal(1).expand(count) * 2.0,
}
"""name -> values of one kind."""


def in_mood(value: torch.Tensor, mood: str, init: Mapping[str, Any], source: Source) -> torch.Tensor:
    """The values of a mood in the form of a tensor drawn from an initialiser; the tensor itself if none fit."""
    if not value.numel() or init.get("kind") not in ("normal", "uniform", "integers"):
        return value
    flat = storage_of(value).clone()
    distinct = flat.as_strided(
        [n if s else 1 for n, s in zip(value.shape, value.stride(), strict=True)], value.stride()
    )
    if init["kind"] == "normal":
        if not value.dtype.is_floating_point:
            return value
        made = _NORMAL[mood](distinct.double(), source)
        limit = torch.finfo(value.dtype).max
        distinct.copy_(made.clamp(-limit, limit))
    elif mood not in _OTHERS:
        distinct.copy_(_bounded(distinct, init, source))
    return flat.as_strided(value.shape, value.stride())


def with_numbers(value: torch.Tensor, numbers: Sequence[float], mood: str, source: Source) -> torch.Tensor:
    """The same values in a mood that mixes; every number given stands somewhere, of either sign, as far as there is
    room for them in a part of the tensor."""
    if mood not in ("mixed", "far mixed") or not numbers or not value.dtype.is_floating_point:
        return value
    flat = storage_of(value).clone()
    limit = torch.finfo(value.dtype).max if mood == "far mixed" else LARGEST_BESIDE_OTHERS
    signed = torch.tensor([sign * number for number in numbers for sign in (1.0, -1.0) if number <= limit])
    signed = signed.repeat(COPIES)
    places = torch.randperm(flat.numel(), generator=source.generator)[: min(len(signed), flat.numel() // ROOM)]
    flat[places] = signed[: len(places)].to(value.dtype)
    return flat.as_strided(value.shape, value.stride())


def with_equals(value: torch.Tensor, others: Sequence[torch.Tensor], mood: str, source: Source) -> torch.Tensor:
    """Values some of which equal those of another input of the same form at the same place, or their negatives.

    One element in EQUALS does; what compares or divides two inputs may change there. For inputs that `in_mood` gives
    values of a normal kind: what is constant, written down or bounded holds nothing else.
    """
    alike = [one for one in others if one.shape == value.shape and one.dtype == value.dtype]
    if not alike or mood in _OTHERS or not value.dtype.is_floating_point or not value.numel():
        return value
    other = alike[int(torch.randint(0, len(alike), (), generator=source.generator))]
    chosen = torch.randint(0, 2 * EQUALS, value.shape, generator=source.generator)
    flat = storage_of(value).clone()
    made = flat.as_strided([n if s else 1 for n, s in zip(value.shape, value.stride(), strict=True)], value.stride())
    if made.shape == value.shape:
        made.copy_(torch.where(chosen < 2, torch.where(chosen < 1, other, -other), value))
    return flat.as_strided(value.shape, value.stride())


def storage_of(value: torch.Tensor) -> torch.Tensor:
    """All elements of a tensor's storage from its first element on."""
    count = value.untyped_storage().nbytes() // value.element_size() - value.storage_offset()
    return value.as_strided((count,), (1,))


def _mixed(value: torch.Tensor, source: Source) -> torch.Tensor:
    chosen = torch.randint(0, len(REGIONS), value.shape, generator=source.generator)
    return _filled(value, chosen, source)


def _striped(value: torch.Tensor, source: Source) -> torch.Tensor:
    """One region a line; lines run along a dimension that is long enough to be one."""
    long = [dim for dim, size in enumerate(value.shape) if size > 1]
    lines = list(value.shape)
    if long:
        lines[long[int(torch.randint(0, len(long), (), generator=source.generator))]] = 1
    chosen = torch.randint(0, len(REGIONS), lines, generator=source.generator)
    return _filled(value, chosen.expand(value.shape), source)


def _filled(value: torch.Tensor, chosen: torch.Tensor, source: Source) -> torch.Tensor:
    made = torch.empty(value.shape, dtype=torch.float64)
    for index, draw in enumerate(REGIONS.values()):
        place = chosen == index
        made[place] = draw(source, int(place.sum()))
    return made


_NORMAL: dict[str, Callable[[torch.Tensor, Source], torch.Tensor]] = {
    "mixed": _mixed,
    "striped": _striped,
    "far mixed": lambda value, source: _mixed(value, replace(source, far=True)),
    "far striped": lambda value, source: _striped(value, replace(source, far=True)),
    "heavy-tailed": lambda value, source: value / (source.normal(value.numel()).reshape(value.shape).abs() + 0.02),
    "large": lambda value, source: value * 32,
    "small": lambda value, source: value / 1024,
    "sparse": lambda value, source: torch.where(source.normal(value.numel()).reshape(value.shape) > 1.2, value, 0.0),
}


def _bounded(value: torch.Tensor, init: Mapping[str, Any], source: Source) -> torch.Tensor:
    """Half of the values at or next to the bounds that they are drawn within."""
    low, high = float(init["low"]), float(init["high"])
    count = value.numel()
    inner = 2.0 ** -source.uniform(count, 1.0, 24.0)
    share = torch.where(source.sign(count) > 0, inner, 1.0 - inner)
    share = torch.where(source.uniform(count, 0.0, 1.0) < 0.2, 0.0, share).reshape(value.shape)
    edges = low + share * (high - low)
    if not value.dtype.is_floating_point:
        edges = edges.floor().clamp(low, max(high - 1, low))
    else:
        edges = edges.clamp(low, float(torch.nextafter(torch.tensor(high), torch.tensor(low))))
    keep = source.sign(count).reshape(value.shape) > 0
    return torch.where(keep, value.double(), edges)
