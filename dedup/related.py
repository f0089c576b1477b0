"""Near-duplicates and families among classes: for splits and diversity, never for deletion.

    rows = list(relate([sketch_of(row) for row in classes], RelatedConfig()))

Reads CanonicalGraph rows; yields one Relation a class, by key. A class is seen as the set of its op sequences: paths of
up to WIDTH ops along data flow, each with the place at which it enters the next op, so no order of statements matters.
MinHash of that set (PERMUTATIONS smallest hashes under as many permutations; Broder 1997) estimates the share of common
sequences; banding finds the pairs worth comparing, pairs at or above the threshold join one cluster, transitively.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import xxhash

from schemas.graph import Graph
from schemas.roles import short_name
from schemas.rows import CanonicalGraph, Relation

PERMUTATIONS, BANDS = 128, 32
WIDTH = 3
_RANDOM = np.random.Generator(np.random.PCG64(20_240_229))
_MASKS = _RANDOM.integers(0, 1 << 63, PERMUTATIONS, dtype=np.uint64)
_FACTORS = _RANDOM.integers(0, 1 << 63, PERMUTATIONS, dtype=np.uint64) | np.uint64(1)
_FINAL, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedConfig:
    """What counts as near, and how much one family gives."""

    family_cap: int = 8
    """Most classes that one structure family gives to published splits."""
    near: float = 0.8
    """Least estimated Jaccard similarity of near-duplicates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """What is kept of a class."""

    key: str
    """CanonicalGraph.key."""
    structure: str
    """CanonicalGraph.structure."""
    members: int
    """CanonicalGraph.members."""
    signature: "np.ndarray[tuple[int], np.dtype[np.uint64]]"
    """Smallest hash of its op sequences under every permutation."""


def sequences_of(graph: Graph) -> set[int]:
    """Hashes of the paths of up to WIDTH ops; a graph without ops has one that stands for nothing."""
    found: set[int] = set()
    paths: list[list[bytes]] = []
    for node in graph.nodes:
        if not node.is_call:
            paths.append([])
            continue
        own = short_name(node.target).encode()
        ended = [own]
        for place, source in enumerate(node.inputs):
            ended += [b"%s>%d%s" % (path, place, own) for path in paths[source] if path.count(b">") < WIDTH - 1]
        paths.append(list(dict.fromkeys(ended)))
        found.update(xxhash.xxh3_64_intdigest(path) for path in paths[-1])
    return found or {0}


def sketch_of(row: CanonicalGraph) -> Sketch:
    """The sketch of a class."""
    values = np.fromiter(sorted(sequences_of(row.graph)), dtype=np.uint64)
    hashes = (values[:, None] ^ _MASKS[None, :]) * _FACTORS[None, :]
    hashes = (hashes ^ (hashes >> _SHIFT)) * _FINAL
    return Sketch(key=row.key, structure=row.structure, members=row.members, signature=hashes.min(axis=0))


def relate(sketches: Sequence[Sketch], config: RelatedConfig) -> Iterator[Relation]:
    """One Relation a class, by key."""
    known = sorted(sketches, key=lambda sketch: sketch.key)
    rank = _ranks(known)
    pairs = _near_pairs(known, config.near)
    cluster = _clusters(known, pairs)
    size: dict[int, int] = {}
    for root in cluster:
        size[root] = size.get(root, 0) + 1
    nearest = _nearest(known, pairs)
    for index, sketch in enumerate(known):
        similarity, other = nearest.get(index, (0.0, ""))
        yield Relation(
            key=sketch.key, structure=sketch.structure, rank=rank[index], contributes=rank[index] < config.family_cap,
            cluster=known[cluster[index]].key, cluster_size=size[cluster[index]], nearest=other, similarity=similarity,
        )  # fmt: skip


def _ranks(known: Sequence[Sketch]) -> list[int]:
    """Place of every class in its structure family: most members first, then by key."""
    families: dict[str, list[int]] = {}
    for index, sketch in enumerate(known):
        families.setdefault(sketch.structure, []).append(index)
    rank = [0] * len(known)
    for family in families.values():
        for place, index in enumerate(sorted(family, key=lambda k: (-known[k].members, known[k].key))):
            rank[index] = place
    return rank


def _near_pairs(known: Sequence[Sketch], near: float) -> list[tuple[int, int, float]]:
    """(a, b, similarity) of near pairs that a band or a family brings together, each with the first of its bucket."""
    found: dict[tuple[int, int], float] = {}
    rows = PERMUTATIONS // BANDS
    for band in [*range(BANDS), -1]:
        buckets: dict[object, list[int]] = {}
        for index, sketch in enumerate(known):
            part = sketch.structure if band < 0 else sketch.signature[band * rows : (band + 1) * rows].tobytes()
            heads = buckets.setdefault(part, [])
            fresh = True
            for head in heads:
                pair = (head, index)
                if pair not in found:
                    alike = float(np.mean(known[head].signature == sketch.signature))
                    found[pair] = 1.0 if band < 0 else alike
                fresh = fresh and found[pair] < near
            if fresh:
                heads.append(index)
    return [(a, b, alike) for (a, b), alike in sorted(found.items()) if alike >= near]


def _clusters(known: Sequence[Sketch], pairs: Sequence[tuple[int, int, float]]) -> list[int]:
    """For every class the smallest index of its cluster."""
    parent = list(range(len(known)))

    def find(item: int) -> int:
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    for a, b, _ in pairs:
        first, second = sorted((find(a), find(b)))
        parent[second] = first
    return [find(item) for item in range(len(known))]


def _nearest(known: Sequence[Sketch], pairs: Sequence[tuple[int, int, float]]) -> dict[int, tuple[float, str]]:
    """The most similar class of another family; of equally similar ones the smallest key."""
    found: dict[int, tuple[float, str]] = {}
    for a, b, alike in pairs:
        if known[a].structure == known[b].structure:
            continue
        for one, other in ((a, b), (b, a)):
            best = found.get(one)
            if best is None or (-alike, known[other].key) < (-best[0], best[1]):
                found[one] = (round(alike, 4), known[other].key)
    return found
