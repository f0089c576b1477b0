"""Edges between atoms without the compiled operators of torch_cluster: a module that settings of a model may name.

    AllPairs(nodes=16)(positions, batch)      # (edges, lengths)

Reads and writes nothing.
"""

import torch


class AllPairs(torch.nn.Module):
    """The edges of a graph of atoms that are all near each other: from each to each, with their lengths."""

    edges: torch.Tensor

    def __init__(self, nodes: int) -> None:
        super().__init__()
        pairs = [(left, right) for left in range(nodes) for right in range(nodes) if left != right]
        self.register_buffer("edges", torch.tensor(pairs).t().contiguous(), persistent=False)

    def forward(self, positions: torch.Tensor, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Edges (2 x pairs, whole numbers) and their lengths."""
        source, target = self.edges[0], self.edges[1]
        return self.edges, (positions[source] - positions[target]).norm(dim=-1)
