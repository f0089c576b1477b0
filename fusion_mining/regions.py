"""The largest pieces: disjoint convex regions that take in all around them that fits.

Is: `regions(graph, config)`. Reads a graph, writes nothing; no torch.
"""

from collections.abc import Callable

from fusion_mining.grow import GrowConfig, wiring_of
from fusion_mining.wiring import Wiring, bits
from schemas.graph import Graph


def regions(graph: Graph, config: GrowConfig, wiring: Wiring | None = None) -> list[tuple[int, ...]]:
    """Node indices of disjoint large pieces: from the first fusible node on, everything around it that can be added."""
    wires = wiring or wiring_of(graph, config)
    free = wires.fusible & ~wires.heavy
    pieces = []
    while free:
        region = _region(wires, free & -free, free, config.region_ops)
        free &= ~region
        trimmed = _trim(wires, region)
        if wires.admits(trimmed, config.min_ops, config.region_inputs, config.region_outputs):
            pieces.append(tuple(bits(trimmed)))
    return sorted(pieces, key=lambda nodes: (len(nodes), nodes))


def _region(wires: Wiring, start: int, free: int, max_ops: int) -> int:
    """A convex connected set of free nodes around a first one, grown by closures until nothing fits."""
    piece = start
    while True:
        larger = _step(wires, piece, lambda wider: _fits(wires, wider, free, max_ops))
        if larger == piece:
            return piece
        piece = larger


def _fits(wires: Wiring, piece: int, free: int, max_ops: int) -> bool:
    if piece & ~free or (piece & wires.compute).bit_count() > max_ops:
        return False
    return not wires.holds_hub(piece)


def _step(wires: Wiring, piece: int, fits: Callable[[int], bool]) -> int:
    above = below = near = 0
    for index in bits(piece):
        above, below = above | wires.above[index], below | wires.below[index]
        near |= wires.sources(index) | wires.readers(index)
    for index in bits(near & ~piece):
        wider = wires.closure(piece, above, below, index)
        if fits(wider):
            return wider
    return piece


def _trim(wires: Wiring, piece: int) -> int:
    """A piece without the views that dangle from it (removing sources and sinks keeps it convex)."""
    while dangling := wires.dangling(piece):
        piece &= ~dangling
    return piece
