"""Input values for a graph: one value a placeholder, from its initialiser and spec, reproducible from a seed.

    values = materialize(graph, seed=7)          # list of tensors and Python scalars, in calling order

Reads the graph alone and writes nothing. Strides are honoured, expanded (0) and overlapping ones included. A value
depends on (seed, position of the placeholder, initialiser, spec) and on nothing else: not on other placeholders, nor
on the global random state, which is left untouched.

| initialiser                              | value                                                             |
|------------------------------------------|-------------------------------------------------------------------|
| {"kind":"normal","mean":m,"std":s}       | normal; rounded for integers, positive means True for bool        |
| {"kind":"uniform","low":a,"high":b}      | uniform in [a, b); floored for integers, above the middle is True |
| {"kind":"integers","low":a,"high":b}     | uniform integers, b exclusive                                     |
| {"kind":"bool","p":q}                    | True (or 1) with probability q                                    |
| {"kind":"zeros"}, {"kind":"ones"}        | what it says                                                      |
| {"kind":"constant"/"scalar","value":v}   | v everywhere; v itself for a SymInt, SymFloat or SymBool          |
| {"kind":"arange","start":a,"step":d}     | a, a+d, ... along the last dimension                              |
| {"kind":"causal_mask"}                   | last two dimensions: 0 where key <= query, else the dtype's lowest finite value; True/1 and False/0 for bool and integers |
| {"kind":"banded","low":a,"high":b,"inside":u,"outside":v} | last two dimensions: u where a <= column - row <= b, else v; null is no bound |
| {"kind":"literal","data":[...]}          | the data, row-major, nested or flat                               |
| {"kind":"lines","values":[...],"lines":[[i,n,j,m,...],...],"order":[l,n,...]} | rows of the last dimension, one after the other: line l n times; a line: n times value i, m times value j |
| {"kind":"choice","values":[...],"counts":[...]} | one of the values, as likely as it is counted                |

Numbers may be JSON numbers or the tagged floats of `schemas.values`.
"""  # noqa: E501

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import xxhash

from passbench.moods import Source, in_mood, storage_of, with_equals, with_numbers
from schemas import values
from schemas.graph import SCALAR_DTYPES, Graph, TensorSpec

Scalar = int | float | bool
Input = torch.Tensor | Scalar
Fill = Callable[[Mapping[str, Any], tuple[int, ...], torch.dtype, torch.Generator], torch.Tensor]
MAX_BEND, MAX_BENDS = 1e4, 16
"""Literals of a graph that inputs are drawn at: below this size, at most so many."""
GUARD = 64
"""Elements before and behind the values of a guarded tensor: a multiple of every alignment that kernels rely on."""
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
"""Bytes of an element -> a dtype of as many that may be indexed, as not every dtype may."""
_PYTHON_TYPES: dict[str, Callable[[Any], Scalar]] = {"SymInt": int, "SymFloat": float, "SymBool": bool}


def materialize(
    graph: Graph,
    *,
    seed: int,
    device: str = "cpu",
    mood: str = "",
    guarded: bool = False,
    numbers: Sequence[float] = (),
) -> list[Input]:
    """One value a placeholder, in calling order, on `device`; raises ValueError on an initialiser it cannot follow.

    A mood (of `passbench.moods`) changes what is drawn for inputs that are no parameters; `numbers` stand among what is
    drawn in those that mix all kinds. Guarded tensors lie inside larger storages of GUARD more elements on either side,
    all of whose bytes are set.
    """
    found: list[Input] = []
    bends, drawn = bends_of(graph) if mood else (), list[torch.Tensor]()
    for position, index in enumerate(graph.placeholders):
        node = graph.nodes[index]
        try:
            value = value_of(graph.inits[position], node.outputs[0], seed=derive(seed, position))
            if mood and node.target == "input" and isinstance(value, torch.Tensor):
                generator = torch.Generator().manual_seed(derive(seed, position, 1))
                source = Source(generator=generator, dtype=value.dtype, bends=bends, device=device)
                init = values.loads(graph.inits[position])
                value = in_mood(value, mood, init, source)
                if init.get("kind") == "normal":
                    value = with_numbers(with_equals(value, drawn, mood, source), numbers, mood, source)
                drawn.append(value)
            found.append(_placed(value, device, guarded=guarded))
        except (KeyError, TypeError, RuntimeError, OverflowError) as error:
            raise ValueError(
                f"placeholder {position} ({node.name!r}): cannot follow initialiser {graph.inits[position]}: {error!r}"
            ) from error
    return found


def value_of(init: str, spec: TensorSpec, *, seed: int, device: str = "cpu") -> Input:
    """The value of one placeholder with the strides of its spec; raises ValueError on an unknown kind."""
    raw = values.loads(init)
    kind = raw.get("kind")
    if kind not in FILLS:
        raise ValueError(f"unknown initialiser kind {kind!r}; known: {', '.join(FILLS)}")
    fill, positional = FILLS[kind]
    generator = torch.Generator().manual_seed(seed)
    if spec.dtype in SCALAR_DTYPES:
        return _PYTHON_TYPES[spec.dtype](fill(raw, (), _scalar_dtype(spec), generator).item())
    dtype = getattr(torch, spec.dtype)
    if 0 in spec.shape:
        return torch.empty_strided(spec.shape, spec.stride, dtype=dtype, device=device)
    storage = _positioned(fill, raw, spec, generator) if positional else fill(raw, (extent(spec),), dtype, generator)
    return storage.to(device).as_strided(spec.shape, spec.stride)


def bends_of(graph: Graph) -> tuple[float, ...]:
    """Numbers that the calls of a graph hold as literals, each once: a function may bend there."""
    found: dict[float, None] = {}
    for node in graph.nodes:
        raw = values.loads(node.attrs)
        for item in values.walk([raw.get("args", []), list(raw.get("kwargs", {}).values())]):
            value = number(item) if type(item) is int or values.tag_of(item) == "float" else math.inf
            if isinstance(value, int | float) and 0 < abs(value) < MAX_BEND:  # false of nan
                found[abs(float(value))] = None
    return tuple(found)[:MAX_BENDS]


def _placed(value: Input, device: str, *, guarded: bool) -> Input:
    """A value on a device, its strides kept, inside a guarded storage where that is wanted."""
    if not isinstance(value, torch.Tensor):
        return value
    if not value.numel():
        return value.to(device)
    flat = storage_of(value)
    if not guarded:
        return flat.to(device).as_strided(value.shape, value.stride())
    pattern = 1 if value.dtype == torch.bool else 255
    raw = torch.full(((len(flat) + 2 * GUARD) * value.element_size(),), pattern, dtype=torch.uint8)
    whole = raw.view(value.dtype)
    whole[GUARD:-GUARD] = flat
    return whole.to(device).as_strided(value.shape, value.stride(), GUARD)


def derive(seed: int, *parts: int) -> int:
    """A 63-bit seed from the content of (seed, parts)."""
    return int(xxhash.xxh3_64_intdigest(struct.pack(f"<{len(parts) + 1}q", seed, *parts))) >> 1


def extent(spec: TensorSpec) -> int:
    """Elements of the smallest storage that holds a tensor of this shape and stride."""
    return 1 + sum((size - 1) * stride for size, stride in zip(spec.shape, spec.stride, strict=True))


def _scalar_dtype(spec: TensorSpec) -> torch.dtype:
    return {"SymInt": torch.int64, "SymFloat": torch.float64, "SymBool": torch.bool}[spec.dtype]


def _positioned(fill: Fill, raw: Mapping[str, Any], spec: TensorSpec, generator: torch.Generator) -> torch.Tensor:
    """A storage in which every element of the strided tensor has the value of its logical position."""
    dtype = getattr(torch, spec.dtype)
    logical = fill(raw, spec.shape, dtype, generator)
    offsets = torch.zeros((), dtype=torch.int64)
    for dim, (size, stride) in enumerate(zip(spec.shape, spec.stride, strict=True)):
        tail = [1] * (len(spec.shape) - dim - 1)
        offsets = offsets + (torch.arange(size) * stride).reshape([size, *tail])
    storage = torch.zeros(extent(spec), dtype=dtype)
    bits = _BITS[storage.element_size()]
    storage.view(bits)[offsets.reshape(-1)] = logical.contiguous().view(bits).reshape(-1)
    return storage


def number(value: Any) -> int | float | bool | complex:
    """A number of the attribute grammar: a JSON number or a tagged float or complex."""
    tag = values.tag_of(value)
    if tag == "float":
        return float(value["float"])
    if tag == "complex":
        return complex(*map(float, value["complex"]))
    if isinstance(value, bool | int | float):
        return value
    raise TypeError(f"not a number: {value!r}")


# --- kinds ----------------------------------------------------------------------------------------------------------
def _cast(data: torch.Tensor, dtype: torch.dtype, threshold: float) -> torch.Tensor:
    if dtype == torch.bool:
        return data > threshold
    return data.to(dtype)


def _normal(raw: Mapping[str, Any], shape: tuple[int, ...], dtype: torch.dtype, gen: torch.Generator) -> torch.Tensor:
    mean, std = number(raw.get("mean", 0)), number(raw.get("std", 1))
    work = torch.complex64 if dtype.is_complex else torch.float64 if dtype == torch.float64 else torch.float32
    data = torch.randn(shape, generator=gen, dtype=work) * std + mean
    integral = not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
    return _cast(data.round() if integral else data, dtype, 0.0)


def _uniform(raw: Mapping[str, Any], shape: tuple[int, ...], dtype: torch.dtype, gen: torch.Generator) -> torch.Tensor:
    low, high = number(raw["low"]), number(raw["high"])
    if isinstance(low, complex) or isinstance(high, complex):
        raise TypeError("low and high are real numbers")
    work = torch.float64 if dtype == torch.float64 else torch.float32
    data = torch.rand(shape, generator=gen, dtype=work) * (high - low) + low
    integral = not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
    return _cast(data.floor() if integral else data, dtype, (low + high) / 2)


def _integers(raw: Mapping[str, Any], shape: tuple[int, ...], dtype: torch.dtype, gen: torch.Generator) -> torch.Tensor:
    low, high = number(raw["low"]), number(raw["high"])
    if not isinstance(low, int) or not isinstance(high, int):
        raise TypeError("low and high are whole numbers")
    return torch.randint(low, high, shape, generator=gen).to(dtype)


def _bool(raw: Mapping[str, Any], shape: tuple[int, ...], dtype: torch.dtype, gen: torch.Generator) -> torch.Tensor:
    return (torch.rand(shape, generator=gen) < number(raw.get("p", 0.5))).to(dtype)


def _zeros(raw: Mapping[str, Any], shape: tuple[int, ...], dtype: torch.dtype, gen: torch.Generator) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def _ones(raw: Mapping[str, Any], shape: tuple[int, ...], dtype: torch.dtype, gen: torch.Generator) -> torch.Tensor:
    return torch.ones(shape).to(dtype)


def _constant(raw: Mapping[str, Any], shape: tuple[int, ...], dtype: torch.dtype, gen: torch.Generator) -> torch.Tensor:
    return _exact(number(raw["value"])).to(dtype).expand(shape).clone()


def _exact(numbers: Any) -> torch.Tensor:
    """Numbers as a tensor that loses nothing: torch itself takes float32 for what Python has in double precision."""
    made = torch.tensor(numbers)
    wide = {torch.float32: torch.float64, torch.complex64: torch.complex128}.get(made.dtype)
    return made if wide is None else torch.tensor(numbers, dtype=wide)


def _arange(raw: Mapping[str, Any], shape: tuple[int, ...], dtype: torch.dtype, gen: torch.Generator) -> torch.Tensor:
    start, step = number(raw.get("start", 0)), number(raw.get("step", 1))
    last = shape[-1] if shape else 1
    line = torch.arange(last, dtype=torch.float64) * step + start
    return line.to(dtype).expand(shape) if shape else line[0].to(dtype)


def _causal(raw: Mapping[str, Any], shape: tuple[int, ...], dtype: torch.dtype, gen: torch.Generator) -> torch.Tensor:
    rows, columns = shape[-2:] if len(shape) > 1 else (1, math.prod(shape))
    allowed = torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows)
    if dtype.is_floating_point:
        lowest = torch.tensor(torch.finfo(dtype).min, dtype=dtype)
        return torch.where(allowed, torch.zeros((), dtype=dtype), lowest).expand(shape)
    return allowed.to(dtype).expand(shape)


def _banded(raw: Mapping[str, Any], shape: tuple[int, ...], dtype: torch.dtype, gen: torch.Generator) -> torch.Tensor:
    rows, columns = shape[-2:] if len(shape) > 1 else (1, math.prod(shape))
    offsets = torch.arange(columns) - torch.arange(rows)[:, None]
    held = torch.ones(rows, columns, dtype=torch.bool)
    held &= offsets >= raw["low"] if raw["low"] is not None else held
    held &= offsets <= raw["high"] if raw["high"] is not None else held
    inside, outside = (_exact(number(raw[side])).to(dtype) for side in ("inside", "outside"))
    return torch.where(held, inside, outside).expand(shape)


def _literal(raw: Mapping[str, Any], shape: tuple[int, ...], dtype: torch.dtype, gen: torch.Generator) -> torch.Tensor:
    flat = [number(item) for item in _flatten(raw["data"])]
    if len(flat) != math.prod(shape):
        raise ValueError(f"literal initialiser holds {len(flat)} values for shape {tuple(shape)}")
    made = torch.tensor(flat, dtype=dtype) if dtype == torch.uint64 else _exact(flat).to(dtype)
    return made.reshape(shape)


def _lines(raw: Mapping[str, Any], shape: tuple[int, ...], dtype: torch.dtype, gen: torch.Generator) -> torch.Tensor:
    places = torch.stack([_unrolled(line) for line in raw["lines"]])[_unrolled(raw["order"])]
    if places.numel() != math.prod(shape):
        raise ValueError(f"lines initialiser holds {places.numel()} values for shape {tuple(shape)}")
    return _numbers(raw["values"], places.reshape(shape), dtype)


def _unrolled(runs: list[int]) -> torch.Tensor:
    """[7, 2, 8, 1] -> 7, 7, 8"""
    return torch.tensor(runs[::2]).repeat_interleave(torch.tensor(runs[1::2]))


def _choice(raw: Mapping[str, Any], shape: tuple[int, ...], dtype: torch.dtype, gen: torch.Generator) -> torch.Tensor:
    weights = torch.tensor(raw["counts"], dtype=torch.float64)
    places = torch.multinomial(weights, math.prod(shape), replacement=True, generator=gen)
    return _numbers(raw["values"], places.reshape(shape), dtype)


def _numbers(known: list[Any], places: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The number at each place of a list."""
    return _exact([number(item) for item in known])[places].to(dtype)


def _flatten(data: Any) -> list[Any]:
    if isinstance(data, list):
        return [leaf for item in data for leaf in _flatten(item)]
    return [data]


FILLS: dict[str, tuple[Fill, bool]] = {
    "normal": (_normal, False),
    "uniform": (_uniform, False),
    "integers": (_integers, False),
    "bool": (_bool, False),
    "zeros": (_zeros, False),
    "ones": (_ones, False),
    "constant": (_constant, False),
    "scalar": (_constant, False),
    "arange": (_arange, True),
    "causal_mask": (_causal, True),
    "banded": (_banded, True),
    "literal": (_literal, True),
    "lines": (_lines, True),
    "choice": (_choice, False),
}
"""kind -> (how it is filled, whether a value depends on its logical position)."""
