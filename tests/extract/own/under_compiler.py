"""Modules that compute otherwise where a compiler runs them."""

import torch
from torch import nn


class Asking(nn.Module):
    """What they have in common."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 64 * 64).reshape(64, 64))

    @staticmethod
    def example_inputs():
        """The input."""
        return (torch.linspace(-2, 2, 3 * 64).reshape(3, 64),)


class Rounds(Asking):
    """Adds up in another order."""

    def forward(self, x):
        """One product, or the sum of two."""
        if torch.compiler.is_compiling():
            return x @ self.weight
        return x[:, :32] @ self.weight[:32] + x[:, 32:] @ self.weight[32:]


class Differs(Asking):
    """Computes something else, by little."""

    def forward(self, x):
        """A product, or a tenth of a percent more."""
        found = x @ self.weight
        return found if torch.compiler.is_compiling() else found * 1.001


class Chooses(Asking):
    """Yields other whole numbers."""

    def forward(self, x):
        """The place of the largest, or of the smallest."""
        found = x @ self.weight
        return found.argmax(1) if torch.compiler.is_compiling() else found.argmin(1)
