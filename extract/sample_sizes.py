"""Which numbers the symbolic sizes of a published sample stand for: the file gives 4 for each, whatever the true one.

    sizes = sizes_of(arguments, examples)           # what is known before the code is read
    best = found(read, sizes)                       # a reading that comes to the end, or the one that came furthest

Dynamo puts the symbols of a tensor's sizes right before the tensor, in the order of its dimensions: that is tried
first, then what the file gives, then one symbol after another, and two at a time. Reads and writes nothing.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from extract.sample_code import CodeReader
from extract.sample_meta import TensorMeta

MAX_TRIES = 64
"""Most readings of one sample in search of its symbolic sizes."""
MAX_WAYS = 12
"""Most ways in which the symbols before one tensor are laid over its sizes."""
STAND_IN = 4
"""What files give for a symbol."""
_SIZE_NAME = re.compile(r"s\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The code read once: the reader, as far as it came, and what stopped it."""

    reader: CodeReader
    error: ValueError | None

    @property
    def reach(self) -> float:
        """How far the reading came."""
        return len(self.reader.nodes) if self.error is not None else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of the forward."""

    name: str
    kind: str
    """SymInt, SymFloat, SymBool, or empty for a tensor."""
    meta: TensorMeta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What the symbols of a sample may stand for."""

    told: Mapping[str, int]
    """The values of the file."""
    ways: Sequence[Sequence[Mapping[str, int]]] = field(default=())
    """For each tensor with symbols before it: how they may be laid over its sizes, likeliest first."""
    candidates: Sequence[int] = field(default=())
    """Sizes that any symbol may have: examples of the constraints file, sizes of inputs, sizes of all tensors."""

    @property
    def guess(self) -> dict[str, int]:
        """The likeliest values."""
        guessed = dict(self.told)
        for ways in self.ways:
            guessed.update(ways[0])
        return guessed


def sizes_of(arguments: Sequence[Argument], examples: Sequence[int]) -> Sizes:
    """What is known of the symbols among the arguments; `examples` are numbers of the constraints file."""
    tensors = [item.meta for item in arguments if not item.kind and item.meta is not None]
    inputs = [meta for meta in tensors if "_self_" not in meta.name and "_modules_" not in meta.name]
    everything = [*examples[:16], *(size for meta in (*inputs, *tensors) for size in meta.shape), 1, 2, 0]
    return Sizes(
        told={item.name: told(item.meta) for item in arguments if item.kind in ("SymInt", "SymBool")},
        ways=tuple(_ways(arguments)), candidates=tuple(dict.fromkeys(everything)),
    )  # fmt: skip


def told(meta: TensorMeta | None) -> int:
    """The number that a file gives for a symbol."""
    data = meta.data if meta is not None else None
    return data[0] if data and isinstance(data[0], int) else STAND_IN


def _ways(arguments: Sequence[Argument]) -> Iterator[list[dict[str, int]]]:
    """The symbols right before each tensor, laid over its sizes in order; sizes below 2 are never symbols."""
    waiting: list[str] = []
    for item in arguments:
        if item.kind:
            waiting += [item.name] if item.kind == "SymInt" and _SIZE_NAME.fullmatch(item.name) else []
            continue
        sizes = list(dict.fromkeys(size for size in (item.meta.shape if item.meta else ()) if size > 1))
        if waiting and len(waiting) <= len(sizes):
            laid = itertools.islice(itertools.combinations(sizes, len(waiting)), MAX_WAYS)
            yield [dict(zip(waiting, chosen, strict=True)) for chosen in laid]
            waiting = []


def found(read: Callable[[Mapping[str, int]], Reading], sizes: Sizes) -> Reading:
    """Read with the likeliest values, and change them as long as the code is read further; the best reading."""
    values = sizes.guess
    best, tried = read(values), [values]
    for change in _changes(sizes):
        if best.error is None or len(tried) >= MAX_TRIES:
            break
        changed = {**values, **change}
        if changed in tried:
            continue
        tried.append(changed)
        reading = read(changed)
        if reading.reach > best.reach:
            best, values = reading, changed
    return best


def _changes(sizes: Sizes) -> Iterator[Mapping[str, int]]:
    """Values to change at a time: all back to the file's, one tensor's symbols, one symbol, one again, two symbols."""
    yield sizes.told
    for ways in sizes.ways:
        yield from ways
    single = [[{name: size} for size in sizes.candidates] for name in sizes.told]
    for _ in range(2):
        for changes in single:
            yield from changes
    for one, other in itertools.combinations(single, 2):
        yield from (left | right for left, right in itertools.product(one[:8], other[:8]))
