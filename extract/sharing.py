"""Placeholders whose tensors share memory: one of them stays, the others become views of it.

    piece = with_shared(piece, name_of)         # the same graph; writing through one shows in the other

A buffer that is a slice of another one, a parameter made of another's data: as placeholders of their own they would be
independent, and a write through one would not show in the other. The tensor whose memory holds that of the others stays
a placeholder; a view of it takes the place of every other one, and what lies in exactly the same place is the same
tensor. Reads and changes a captured graph; raises NotRepresentable, naming both, where neither of two holds the other.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from extract.capture import Piece
from schemas.fx import META_SPECS, NotRepresentable, specs_of


def with_shared(piece: Piece, name_of: Callable[[Any], str]) -> Piece:
    """The graph with one placeholder for tensors that share memory; `name_of` names a tensor in an error."""
    nodes = piece.gm.graph.find_nodes(op="placeholder")
    dropped: set[int] = set()
    for positions in _overlapping(piece.examples):
        examples = {position: piece.examples[position] for position in positions}
        base = max(positions, key=lambda position: (extent(examples[position]), -position))
        for position in positions:
            if position != base:
                _replace(nodes, examples, (base, position), name_of)
                dropped.add(position)
    if not dropped:
        return piece
    for position in dropped:
        piece.gm.graph.erase_node(nodes[position])
    piece.gm.graph.lint()
    piece.gm.recompile()
    return replace(piece, examples=tuple(item for k, item in enumerate(piece.examples) if k not in dropped))


def extent(value: torch.Tensor) -> int:
    """Elements of memory from a tensor's first one to its last."""
    return 1 + sum((int(size) - 1) * int(stride) for size, stride in zip(value.shape, value.stride(), strict=True))


def _span(value: torch.Tensor) -> tuple[int, int]:
    """First and last byte of a tensor in its storage, the latter excluded."""
    start = int(value.storage_offset()) * value.element_size()
    return start, start + extent(value) * value.element_size()


def _overlapping(examples: Sequence[Any]) -> Iterator[list[int]]:
    """Positions of tensors that overlap in memory, group by group, each of two or more."""
    storages: dict[int, list[int]] = {}
    for position, value in enumerate(examples):
        if isinstance(value, torch.Tensor) and value.layout is torch.strided and value.numel():
            storages.setdefault(int(value.untyped_storage()._cdata), []).append(position)
    for positions in storages.values():
        group: list[int] = []
        end = 0
        for position in sorted(positions, key=lambda position: _span(examples[position])):
            start, stop = _span(examples[position])
            if group and start >= end:
                yield from [group] if len(group) > 1 else []
                group, end = [], 0
            group.append(position)
            end = max(end, stop)
        yield from [group] if len(group) > 1 else []


def _replace(
    nodes: Sequence[torch.fx.Node], examples: dict[int, torch.Tensor], pair: tuple[int, int],
    name_of: Callable[[Any], str],
) -> None:  # fmt: skip
    """Replace a placeholder by a view of another one."""
    base, view = examples[pair[0]], examples[pair[1]]
    inside = _span(base)[0] <= _span(view)[0] and _span(view)[1] <= _span(base)[1]
    if not inside or base.dtype != view.dtype:
        raise NotRepresentable(
            f"{name_of(base)} and {name_of(view)} share memory, and neither is a view of the other: keep one tensor in "
            "the module and take views of it in forward"
        )
    place = (tuple(view.shape), tuple(view.stride()), view.storage_offset() - base.storage_offset())
    if place == (tuple(base.shape), tuple(base.stride()), 0):
        nodes[pair[1]].replace_all_uses_with(nodes[pair[0]])
        return
    with nodes[0].graph.inserting_after(nodes[-1]):
        node = nodes[0].graph.call_function(torch.as_strided, (nodes[pair[0]], *place))
    node.meta[META_SPECS] = specs_of(view)
    nodes[pair[1]].replace_all_uses_with(node)
