"""Inputs and order of the timed calls: every call has contents of its own, and what is kept is told only after it.

    supply = Supply(graph, request, device)      # in both workers; `supply.fill(count, seed)` before each window
    given_inputs(graph, request, device)         # in the reference: the same inputs again, to know what is right
    order = Order.drawn(count=90, sets=90, chunk=8, keep=True)   # in the orchestrator
    order.message()                              # follows the request of a window on the same link, call by call

A window of n calls has n sets of inputs, as long as they fit into LARGEST bytes: tensors of their own, filled before
the window with contents that no call had before (the drawn values, moved on by a secret number of places and scaled a
little within what they are drawn from). An answer that is kept by object, address or content therefore never serves a
second call, and inputs that are written in place begin every call as they should. Which set a call takes stands in
bytes that the worker reads between the calls; whether the outputs of a call are kept and checked stands behind those of
the next ones, so that nothing in the process knows it while the call runs. Both sides do exactly the same.

| bytes of one step                                      | meaning                                               |
|--------------------------------------------------------|-------------------------------------------------------|
| 1                                                      | which call of the step before is kept, NONE for none  |
| 2 * chunk                                              | the sets of the next calls                            |

Reads and writes nothing.
"""

import random
import secrets
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from passbench.inputs import derive, materialize, number
from passbench.moods import storage_of
from schemas import values
from schemas.graph import Graph

LARGEST = 192 * 2**20
"""Bytes of all sets of inputs of a window."""
MOST_SETS, LEAST_SETS = 512, 2
NONE = 255
CHUNK_BYTES, MOST_CHUNK = 2**16, 8
"""Outputs of several calls are held until it is known which is kept, as long as they are smaller than this together."""


# --- inputs ---------------------------------------------------------------------------------------------------------
def given_inputs(graph: Graph, request: Mapping[str, Any], device: str) -> list[Any]:
    """Inputs that a request wants: of a seed and a mood, or with "set": [seed of a window, number] of a timed call."""
    given = {name: request[name] for name in ("mood", "guarded", "numbers") if name in request}
    if "set" not in request:
        return list(materialize(graph, seed=request["seed"], device=device, **given))
    base = materialize(graph, seed=request["seed"], device=device)
    made = [_like(value) for value in base]
    _renew(graph, base, made, derive(*request["set"]))
    return made


class Supply:
    """The sets of inputs of one side; made once, filled anew for every window."""

    def __init__(self, graph: Graph, request: Mapping[str, Any], device: str) -> None:
        self.graph = graph
        self.base = materialize(graph, seed=request["seed"], device=device)
        size = sum(value.untyped_storage().nbytes() for value in self.base if isinstance(value, torch.Tensor))
        self.most = min(max(LARGEST // max(size, 1), LEAST_SETS), MOST_SETS)
        self.sets: list[list[Any]] = []

    def fill(self, count: int, seed: int) -> int:
        """Give new contents to as many sets as `count` calls need; how many there are."""
        wanted = min(count, self.most)
        self.sets += [[_like(value) for value in self.base] for _ in range(wanted - len(self.sets))]
        for index in range(wanted):
            _renew(self.graph, self.base, self.sets[index], derive(seed, index))
        return wanted


def _like(value: Any) -> Any:
    """A tensor of the same form in a storage of its own; anything else itself."""
    if not isinstance(value, torch.Tensor):
        return value
    flat = torch.empty_like(storage_of(value))
    return flat.as_strided(value.shape, value.stride())


def _renew(graph: Graph, base: Sequence[Any], made: Sequence[Any], seed: int) -> None:
    """Fill one set with contents made from the base's."""
    for position, (old, new) in enumerate(zip(base, made, strict=True)):
        if isinstance(old, torch.Tensor) and old.numel():
            _move(storage_of(old), storage_of(new), values.loads(graph.inits[position]), derive(seed, position))


def _move(old: torch.Tensor, new: torch.Tensor, init: Mapping[str, Any], seed: int) -> None:
    """The old values moved on by a number of places, and scaled about their centre where they are real numbers."""
    kind = init.get("kind")
    if kind not in ("normal", "uniform", "integers", "bool"):
        new.copy_(old)
        return
    places = seed % len(old)
    scale, centre = 1.0, 0.0
    if old.dtype.is_floating_point and kind in ("normal", "uniform"):
        share = (seed >> 24) % 4096 / 4096
        scale = 0.9 + 0.2 * share if kind == "normal" else 0.8 + 0.2 * share
        ends = [init.get("mean", 0)] if kind == "normal" else [init["low"], init["high"]]
        known = [number(end) for end in ends]
        centre = sum(float(end) for end in known if not isinstance(end, complex)) / len(known)
    for target, source in ((new[places:], old[: len(old) - places]), (new[:places], old[len(old) - places :])):
        if scale == 1.0:
            target.copy_(source)
            continue
        torch.mul(source, scale, out=target)
        if centre:
            target.add_((1.0 - scale) * centre)


# --- order ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Which set every call of a window takes, and which call is kept."""

    sets: tuple[int, ...]
    """By call."""
    chunk: int
    """Calls that are made before it is told whether one of them is kept."""
    keep: int
    """Number of the call whose outputs are kept; -1 for none."""

    @classmethod
    def drawn(cls, *, count: int, sets: int, chunk: int, keep: bool) -> "Order":
        """A secret order; only calls that meet their set for the first time are kept."""
        rng = random.Random(secrets.randbits(62))
        taken: list[int] = []
        while len(taken) < count:
            taken += rng.sample(range(sets), min(sets, count - len(taken)))
        return cls(sets=tuple(taken), chunk=chunk, keep=rng.randrange(min(count, sets)) if keep else -1)

    def message(self) -> bytes:
        """What the worker reads while the window runs."""
        steps = [self.sets[at : at + self.chunk] for at in range(0, len(self.sets), self.chunk)]
        raw, before = bytearray(), NONE
        for number_, step in enumerate(steps):
            padded = [*step, *[0] * (self.chunk - len(step))]
            raw += struct.pack(f"<B{self.chunk}H", before, *padded)
            before = self.keep % self.chunk if self.keep // self.chunk == number_ and self.keep >= 0 else NONE
        return bytes(raw + struct.pack("<B", before))


def chunk_of(nbytes: int) -> int:
    """How many calls whose outputs have so many bytes make one step."""
    return min(max(CHUNK_BYTES // max(nbytes, 1), 1), MOST_CHUNK)
