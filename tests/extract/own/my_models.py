"""A person's own file: architectures by name, with what each is called with."""

import os

import torch
from layers import Block

__license__ = "mit"


class Net(torch.nn.Module):
    """Two blocks and a mask."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(Block(width), Block(width))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Blocks, then the mask if there is one."""
        y = self.body(x)
        return y if mask is None else y.masked_fill(mask[..., None], 0.0)


class Sum(torch.nn.Module):
    """Takes a list and a number beside tensors."""

    def forward(self, items: list[torch.Tensor], times: int) -> torch.Tensor:
        """Add the items up, so many times."""
        return torch.stack(items).sum(0) * times


class Dies(torch.nn.Module):
    """Ends the process that builds it."""

    def __init__(self) -> None:
        os._exit(7)


def passnet_models():
    """The architectures of this file."""
    yield "plain", lambda: Net(32), lambda: torch.randn(2, 16, 32)
    yield "masked", lambda: Net(32), lambda: (torch.randn(2, 16, 32), torch.zeros(2, 16, dtype=torch.bool))
    yield "listed", Sum, lambda: {"items": [torch.randn(3), torch.randn(3)], "times": 2}
    yield "misfit", lambda: Net(32), lambda: torch.randn(2, 16, 33)
    yield "dies", Dies, lambda: torch.ones(1)
