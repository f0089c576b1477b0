"""Capture one call of a model with Dynamo: all graphs it gives, and why it broke if it did.

    pieces, reasons = capture(built, wanted)

Nothing is computed on the fake rung. Reads and writes nothing; raises whatever Dynamo or the model raises.
"""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo

from extract.build import Built, fake_scope
from extract.failures import CAPTURE, clean, step
from extract.inputs import WantedInput
from passbench.inputs import value_of
from schemas.fx import fake_input


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One graph that Dynamo gave to its backend."""

    gm: torch.fx.GraphModule
    """The graph; its placeholders carry `meta["example_value"]`."""
    examples: tuple[Any, ...]
    """The very objects passed for the placeholders: the model's own tensors and the call's inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """What one call gave."""

    pieces: tuple[Piece, ...]
    """Graphs in calling order."""
    reasons: tuple[str, ...]
    """Reasons of the breaks, one line each; empty if the call is one graph."""
    inputs: dict[int, str]
    """id of an input tensor -> argument name; the tensors live in the pieces."""

    @property
    def is_whole(self) -> bool:
        """Whether the call gave exactly one graph and nothing ran outside of it."""
        return len(self.pieces) == 1 and not self.reasons

    @property
    def reason(self) -> str:
        """The first break reason, empty if there was none."""
        return self.reasons[0] if self.reasons else ""

    def reason_after(self, index: int) -> str:
        """The reason of the break after one piece; empty after the last piece."""
        if index == len(self.pieces) - 1 or not self.reasons:
            return ""
        return self.reasons[min(index, len(self.reasons) - 1)]


def capture(built: Built, wanted: Sequence[WantedInput], *, seed: int = 0) -> Capture:
    """Call the model once under `torch.compile` in inference mode and record what reaches the backend."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    pieces: list[Piece] = []

    def record(gm: torch.fx.GraphModule, examples: list[Any]) -> Any:
        pieces.append(Piece(gm=gm, examples=tuple(examples)))
        return gm.forward

    with fake_scope(built):
        arguments = {item.name: _argument(item, built, seed) for item in wanted}
    with step(CAPTURE), torch.no_grad(), fake_scope(built), no_collection():
        torch.compile(built.model, backend=record, dynamic=False)(**arguments)
    reasons = tuple(_one_line(text) for text in torch._dynamo.utils.counters["graph_break"])
    return Capture(pieces=tuple(pieces), reasons=reasons, inputs={id(v): name for name, v in arguments.items()})


@contextmanager
def no_collection() -> Iterator[None]:
    """Leave cyclic garbage for later: tracing makes much that lives on, which the collector would walk again and
    again (a tenth to a quarter of the time of a capture)."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _argument(item: WantedInput, built: Built, seed: int) -> torch.Tensor:
    if built.mode is not None:
        return fake_input(item.spec)
    value = value_of(item.init, item.spec, seed=seed)
    assert isinstance(value, torch.Tensor)
    return value


def _one_line(reason: str) -> str:
    """A break reason as one line: Dynamo's title and explanation, without hints, paths and addresses."""
    lines = [line.strip() for line in clean(reason).splitlines() if line.strip()]
    return " | ".join(lines[:3])[:300]
