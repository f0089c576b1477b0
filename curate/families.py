"""Group mined pieces into task candidates: one family, several shapes and dtypes, one split.

Reads `Subgraph` rows, uses those of kind fusible; writes `TaskCandidate` rows in order of preference, `Skipped` for
every other piece.

A family is the set of pieces with one `structure` key. Families are picked greedily by a documented objective, in this
order: (1) largest gain, sqrt(op transitions (producer, consumer) that no earlier pick has) * (1 + log2(architecture
families that contain it)), so that what is widespread weighs as much as what is long, (2) least overlap with any
earlier pick, (3) rule "maximal", (4) compute ops, (5) document frequency, (6) a seeded hash; a family at least
`max_likeness` alike to an earlier pick (Jaccard index of the two sets of transitions) is passed over. Members at
distinct shapes times `dtypes` give the variants; where they are too few, the members at other sizes (`curate.resize`).

Split: picks that share a topology, or at least `same_side` of the transitions of the smaller one, form a cluster, and
whole clusters are dealt out: to test in a seeded order while they fit, the rest to train. So no structure, no topology
and no piece of another task's piece crosses. Architecture families do cross: an addition before a layer norm stands in
nearly all of them. Until a task is published, other models in the build may move it to the other side.

    rows = list(propose(subgraphs=subgraphs, config=FamiliesConfig(task_limit=40)))
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from curate.resize import points, resize
from schemas.canonical import canonicalize
from schemas.graph import Graph, TensorSpec
from schemas.roles import short_name
from schemas.rows import Skipped, Subgraph, TaskCandidate, TaskVariant, content_id, row_key

FLOATS = ("float32", "float16", "bfloat16")
"""Dtypes that a variant may change; float64 is asked for on purpose wherever it stands, so it stays."""
MIB = 2**20
Transitions = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FamiliesConfig:
    """What to propose."""

    task_limit: int = 40
    """Most candidates."""
    variants: int = 10
    """Most variants a candidate."""
    min_variants: int = 3
    """Fewest variants a candidate: one shape in three dtypes."""
    dtypes: tuple[str, ...] = FLOATS
    """Floating dtypes that every shape is offered in."""
    other_sizes: bool = True
    """Whether pieces are offered at other sizes too, where they fill up the variants."""
    min_compute_ops: int = 2
    """Fewest compute ops of a piece."""
    max_mib: int = 64
    """Most MiB of all values of one piece together."""
    max_likeness: float = 0.8
    """Jaccard index of op transitions from which on a family is too like an earlier pick."""
    same_side: float = 0.75
    """Share of the smaller set of op transitions from which on two tasks are on one side of the split."""
    test_percent: int = 20
    """Most tasks of the test split, in percent; it is filled with whole clusters in a seeded order."""
    seed: int = 0
    """Seed of the split and of ties in the order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """The usable pieces of one structure, the most widespread first."""

    structure: str
    members: tuple[Subgraph, ...]
    transitions: Transitions
    reach: int
    rank: tuple[bool, int, int, str]


def propose(*, subgraphs: Collection[Subgraph], config: FamiliesConfig) -> Iterator[TaskCandidate | Skipped]:
    """Yield task candidates, the most wanted first, and a Skipped for every piece that none of them is made from."""
    usable: dict[str, list[Subgraph]] = defaultdict(list)
    for piece in subgraphs:
        reason = _unusable(piece, config)
        if reason:
            yield Skipped(item=row_key(piece), reason=reason)
        else:
            usable[piece.structure].append(piece)
    waiting = _Waiting([_family(structure, members, config.seed) for structure, members in sorted(usable.items())])
    picks: list[tuple[_Family, list[TaskVariant]]] = []
    while waiting.families and len(picks) < config.task_limit:
        family = waiting.pop()
        variants = _variants(family.members, config)
        if len(variants) < config.min_variants:
            yield from _skip(family.members, f"fewer than {config.min_variants} variants")
            continue
        picks.append((family, variants))
        used = {variant.origin for variant in variants}
        rest = [piece for piece in family.members if piece.key not in used]
        yield from _skip(rest, f"beyond the {config.variants} variants of its family")
        for alike in waiting.cover(family, config.max_likeness):
            yield from _skip(alike.members, "like an earlier task")
    for family in waiting.families:
        yield from _skip(family.members, f"over the budget of {config.task_limit} tasks")
    sides = _sides([family for family, _ in picks], config)
    for (family, variants), side in zip(picks, sides, strict=True):
        yield _candidate(family, variants, side)


def _skip(pieces: Sequence[Subgraph], reason: str) -> Iterator[Skipped]:
    return (Skipped(item=row_key(piece), reason=reason) for piece in pieces)


def _unusable(piece: Subgraph, config: FamiliesConfig) -> str:
    if piece.kind != "fusible":
        return "not a fusible piece"
    if piece.num_compute_ops < config.min_compute_ops:
        return f"fewer than {config.min_compute_ops} compute ops"
    if not _is_small(piece.graph, config):
        return f"larger than {config.max_mib} MiB"
    return ""


def _is_small(graph: Graph, config: FamiliesConfig) -> bool:
    return sum(spec.nbytes for node in graph.nodes for spec in node.outputs) <= config.max_mib * MIB


def transitions(piece: Subgraph) -> Transitions:
    """All (producer, consumer) pairs of compute ops along data edges; views and the like are seen through."""
    computing = frozenset(piece.pattern.split(" > "))
    makers: list[frozenset[str]] = []
    found: set[tuple[str, str]] = set()
    for node in piece.graph.nodes:
        behind = frozenset[str]().union(*(makers[source] for source in node.inputs))
        name = short_name(node.target) if node.is_call else ""
        if name in computing:
            found.update((maker, name) for maker in behind)
        makers.append(frozenset({name}) if name in computing else behind)
    return frozenset(found)


def _family(structure: str, members: Sequence[Subgraph], seed: int) -> _Family:
    ordered = sorted(members, key=lambda piece: (-piece.document_frequency, piece.key))
    head = ordered[0]
    return _Family(
        structure=structure,
        members=tuple(ordered),
        transitions=transitions(head),
        reach=len({name for piece in ordered for name in piece.families}),
        rank=(
            any(piece.rule == "maximal" for piece in ordered),
            head.num_compute_ops,
            head.document_frequency,
            content_id(str(seed), structure),
        ),
    )


def likeness(left: Transitions, right: Transitions) -> float:
    """Jaccard index: shared transitions over all; 1 for two empty sets."""
    return len(left & right) / len(left | right) if left or right else 1.0


def overlap(left: Transitions, right: Transitions) -> float:
    """Shared transitions over those of the smaller set; 1 if one of them is empty."""
    smaller = min(len(left), len(right))
    return len(left & right) / smaller if smaller else 1.0


class _Waiting:
    """Families not yet picked, with what the objective needs to know of the picks so far."""

    def __init__(self, families: Sequence[_Family]) -> None:
        self.families = list(families)
        self.covered: Transitions = frozenset()
        self.overlaps = {family.structure: 0.0 for family in families}

    def pop(self) -> _Family:
        """Take the most wanted family."""
        return self.families.pop(max(range(len(self.families)), key=lambda i: self._wanted(self.families[i])))

    def _wanted(self, family: _Family) -> tuple[float, float, tuple[bool, int, int, str]]:
        gain = math.sqrt(len(family.transitions - self.covered)) * (1 + math.log2(max(family.reach, 1)))
        return gain, -self.overlaps[family.structure], family.rank

    def cover(self, pick: _Family, max_likeness: float) -> list[_Family]:
        """Note a pick; take out and return the families too like it."""
        self.covered |= pick.transitions
        alike = [item for item in self.families if likeness(item.transitions, pick.transitions) >= max_likeness]
        gone = {item.structure for item in alike}
        self.families = [item for item in self.families if item.structure not in gone]
        for item in self.families:
            found = overlap(item.transitions, pick.transitions)
            self.overlaps[item.structure] = max(self.overlaps[item.structure], found)
        return alike


# --- split ----------------------------------------------------------------------------------------------------------
def _sides(picks: Sequence[_Family], config: FamiliesConfig) -> list[str]:
    """train or test for every pick, one side a cluster."""
    label = list(range(len(picks)))
    for i, family in enumerate(picks):
        for j in range(i):
            if label[i] != label[j] and _together(family, picks[j], config):
                low, high = sorted((label[i], label[j]))
                label = [low if item == high else item for item in label]
    clusters: dict[int, list[str]] = defaultdict(list)
    for item, family in zip(label, picks, strict=True):
        clusters[item].append(family.structure)
    room = len(picks) * config.test_percent // 100
    side_of = dict.fromkeys(clusters, "train")
    for item in sorted(clusters, key=lambda item: content_id(str(config.seed), min(clusters[item]))):
        if len(clusters[item]) <= room:
            side_of[item] = "test"
            room -= len(clusters[item])
    return [side_of[item] for item in label]


def _together(one: _Family, other: _Family, config: FamiliesConfig) -> bool:
    if {piece.topology for piece in one.members} & {piece.topology for piece in other.members}:
        return True
    return overlap(one.transitions, other.transitions) >= config.same_side


# --- variants -------------------------------------------------------------------------------------------------------
def _variants(members: Sequence[Subgraph], config: FamiliesConfig) -> list[TaskVariant]:
    """Distinct graphs, at most `config.variants`: members in every dtype, new shapes first, then at other sizes."""
    found: dict[str, TaskVariant] = {}
    for origin, shaped in _shaped(members, config):
        for dtype in config.dtypes:
            graph = retype(shaped, dtype)
            if graph is not None:
                key = canonicalize(graph, free_outputs=True).keys.exact
                found.setdefault(key, _variant(len(found), key, origin, graph))
            if len(found) == config.variants:
                return list(found.values())
    return list(found.values())


def _shaped(members: Sequence[Subgraph], config: FamiliesConfig) -> Iterator[tuple[str, Graph]]:
    """(key of the mined piece, graph) at every mined shape, then at other sizes."""
    ordered = _new_shapes_first(members)
    yield from ((piece.key, piece.graph) for piece in ordered)
    for piece in ordered if config.other_sizes else ():
        for point in points(piece.graph):
            graph = resize(piece.graph, point)
            if graph is not None and _is_small(graph, config):
                yield piece.key, graph


def _new_shapes_first(members: Sequence[Subgraph]) -> list[Subgraph]:
    seen: dict[str, int] = defaultdict(int)
    turns = []
    for piece in members:
        shapes = shapes_of(piece.graph)
        turns.append(seen[shapes])
        seen[shapes] += 1
    return [members[i] for i in sorted(range(len(members)), key=lambda i: turns[i])]


def _variant(index: int, key: str, origin: str, graph: Graph) -> TaskVariant:
    return TaskVariant(
        task_id="",
        index=index,
        subgraph=key,
        origin=origin,
        dtype=dtype_of(graph),
        shapes=shapes_of(graph),
        graph=graph,
    )


def _input_specs(graph: Graph) -> list[TensorSpec]:
    return [graph.nodes[i].outputs[0] for i in graph.placeholders]


def shapes_of(graph: Graph) -> str:
    """Shapes of the inputs, for people: "1x128x768, 768"; a 0-d tensor or scalar is "()"."""
    return ", ".join("x".join(map(str, spec.shape)) or "()" for spec in _input_specs(graph))


def dtype_of(graph: Graph) -> str:
    """The floating dtype of the inputs; "mixed" if there are several, the output's dtype if there is none."""
    floating = sorted({spec.dtype for spec in _input_specs(graph) if "float" in spec.dtype})
    if len(floating) > 1:
        return "mixed"
    if floating:
        return floating[0]
    specs = [spec for node in graph.nodes for spec in node.outputs]
    return specs[-1].dtype if specs else ""


def retype(graph: Graph, dtype: str) -> Graph | None:
    """The graph with its floating inputs in another dtype; None where it has none, mixes several, or an op refuses."""
    from schemas.propagation import respecify  # loads torch: only the stage's own process does

    current = dtype_of(graph)
    if current == dtype:
        return graph
    if current not in FLOATS:
        return None
    specs = [replace(spec, dtype=dtype) if spec.dtype in FLOATS else spec for spec in _input_specs(graph)]
    try:
        return respecify(graph, specs)
    except ValueError:
        return None


def _candidate(family: _Family, variants: Sequence[TaskVariant], side: str) -> TaskCandidate:
    pieces = family.members
    return TaskCandidate(
        structure=family.structure,
        title=pieces[0].pattern,
        split=side,
        document_frequency=max(piece.document_frequency for piece in pieces),
        families=tuple(sorted({name for piece in pieces for name in piece.families})),
        modalities=tuple(sorted({name for piece in pieces for name in piece.modalities})),
        licenses=tuple(sorted({name for piece in pieces for name in piece.licenses})),
        variants=tuple(variants),
    )
