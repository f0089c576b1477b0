"""Modules whose own call raises, or reads numbers that come of weights."""

import torch
from torch import nn


class WritesInference(nn.Module):
    """Writes into a tensor of inference mode outside of it, which torch refuses."""

    @staticmethod
    def example_inputs():
        """The input."""
        return (torch.ones(3),)

    def forward(self, x):
        """Raises."""
        with torch.inference_mode():
            x = x * 2
        return x.add_(1)


class Selects(nn.Module):
    """Takes the elements that its weights let be positive."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    @staticmethod
    def example_inputs():
        """The input."""
        return (torch.tensor([[1.0, -2.0, 0.5, 3.0]]),)

    def forward(self, x):
        """As many numbers as are positive."""
        y = self.linear(x)
        return y[y > 0].tolist()[0] + x
