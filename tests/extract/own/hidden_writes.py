"""Modules that write known numbers in ways that names hide, or draw them, and then decide by what they read."""

import torch
import torch.nn.functional as F
from torch import nn


class _Base(nn.Module):
    """Decides by whether a sum of numbers that a call may have changed is what it was."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(4))

    @staticmethod
    def example_inputs() -> tuple[torch.Tensor, ...]:
        """One input."""
        return (torch.ones(4, 3, 4),)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One of two functions."""
        return x + 1 if bool(self.changed(x).abs().sum() > 0) else x * 2

    def changed(self, x: torch.Tensor) -> torch.Tensor:
        """Zeros, unless the call that was made wrote them."""
        raise NotImplementedError


class BatchStatistics(_Base):
    """batch_norm in training writes the mean."""

    def changed(self, x):
        """The mean."""
        mean = torch.zeros(3)
        F.batch_norm(x, mean, torch.ones(3), training=True)
        return mean


class InstanceStatistics(_Base):
    """instance_norm writes the mean."""

    def changed(self, x):
        """The mean."""
        mean = torch.zeros(3)
        F.instance_norm(x, mean, torch.ones(3), use_input_stats=True)
        return mean


class MaxNorm(_Base):
    """embedding with max_norm writes its table."""

    def changed(self, x):
        """How far the table is from what it was."""
        table = torch.ones(4, 3)
        F.embedding((x[:, 0, 0] * 0).long(), table, max_norm=0.5)
        return table - 1


class View(_Base):
    """A view is written."""

    def changed(self, x):
        """What the view is a part of."""
        table = torch.zeros(4)
        table[1:3].copy_(x[0, 0, :2])
        return table


class ViewOfBuffer(_Base):
    """A view of a buffer is written."""

    def changed(self, x):
        """The buffer."""
        self.state[1:3].copy_(x[0, 0, :2])
        return self.state


class Out(_Base):
    """What is given as `out` is written."""

    def changed(self, x):
        """What was given."""
        table = torch.zeros(4)
        torch.sub(x[0, 0], 0.5, out=table)
        return table


class DrawnFunction(_Base):
    """Numbers are drawn."""

    def changed(self, x):
        """Something else each time."""
        return torch.bernoulli(torch.full((), 0.5))


class DrawnInPlace(_Base):
    """Numbers are drawn in place."""

    def changed(self, x):
        """Something else each time."""
        return torch.arange(4).random_(0, 4)[0]


class Dropped(_Base):
    """Numbers are left out by chance."""

    def changed(self, x):
        """Something else each time."""
        return F.dropout(torch.ones(1), 0.5, True)
