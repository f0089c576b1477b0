"""Numbers for the placeholders of a graph that is compared: as `passbench.inputs` gives them, large weights cheaply.

    draws = Draws(graph, seed=0)
    draws.one(3)            # the value of the fourth placeholder
    draws.all()             # one value a placeholder

Large normal parameters are stretches of one line of `PERIOD` normal numbers that repeats, each from a place of its own
on: drawing every number anew cost as much as running the graph. The period is a prime above any row's length, so that
no two rows of a parameter and no two parameters are equal, and a graph that mixes them up is found. Reads its arguments
and writes nothing.
"""

from functools import cached_property
from typing import Any

import torch

from extract.inputs import dense_stride
from passbench.inputs import derive, number, value_of
from schemas.graph import Graph, TensorSpec
from schemas.values import loads

PERIOD = 1_048_583
"""Numbers drawn for all large parameters together; a prime."""


class Draws:
    """The values of one seed."""

    def __init__(self, graph: Graph, seed: int) -> None:
        self.graph, self.seed = graph, seed

    @cached_property
    def line(self) -> torch.Tensor:
        """`PERIOD` normal numbers."""
        return torch.randn(PERIOD, generator=torch.Generator().manual_seed(derive(self.seed)))

    def one(self, position: int) -> Any:
        """The value of one placeholder."""
        node, init = self.graph.nodes[self.graph.placeholders[position]], self.graph.inits[position]
        spec, raw = node.outputs[0], loads(init)
        place = derive(self.seed, position)
        is_large = node.target == "parameter" and spec.dtype == "float32" and spec.numel > PERIOD // 16
        if is_large and raw["kind"] == "normal" and spec.stride == dense_stride(spec.shape):
            return stretch(self.line, spec, place % PERIOD).mul_(number(raw["std"])).add_(number(raw["mean"]))
        return value_of(init, spec, seed=place)

    def all(self) -> list[Any]:
        """One value a placeholder, in calling order."""
        return [self.one(position) for position in range(len(self.graph.placeholders))]


def stretch(line: torch.Tensor, spec: TensorSpec, start: int) -> torch.Tensor:
    """Numbers of a line that repeats, as many as a tensor has, from a position on."""
    flat = torch.empty(spec.numel)
    first = min(PERIOD - start, spec.numel)
    flat[:first] = line[start : start + first]
    whole, rest = divmod(spec.numel - first, PERIOD)
    flat[first : first + whole * PERIOD].view(whole, PERIOD).copy_(line.expand(whole, PERIOD))
    flat[spec.numel - rest :] = line[:rest]
    return flat.view(spec.shape)
