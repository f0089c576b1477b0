"""How many classes a run has at each level, and what its largest families are made of, for people.

    for line in lines_of(survey(RunDirectory("runs/default"))): print(line)

Reads the tables `classes` and `members`, streaming: keys and names are held, and the graphs of the families that are
explained; writes nothing. A family is the set of classes with one `structure` key: equal but for sizes, dtypes and
numbers.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from data.store import RunDirectory
from dedup.twins import compare
from schemas.graph import Graph
from schemas.rows import CanonicalGraph

LEVELS = (
    ("exact", "key"), ("shape_free", "shape_free"), ("dtype_free", "dtype_free"), ("structure", "structure"),
    ("topology", "topology"), ("inference", "inference"), ("body", "body"),
)  # fmt: skip
"""(level, column of CanonicalGraph): the five levels, finest first, then the two keys that stand beside them."""
SHOWN = 6
"""Most names shown of one family."""
REASONS = {
    "exact": "the same graph",
    "shape_free": "sizes differ",
    "dtype_free": "sizes and dtypes differ",
    "structure": "numbers written into the calls differ",
}
"""The finest level at which two classes of one family meet -> what tells them apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The classes at one level."""

    name: str
    """Level of identity."""
    classes: int
    """Distinct keys."""
    largest: int
    """Graphs of the largest class."""
    shared: int
    """Graphs whose class has other graphs as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Classes with one structure."""

    structure: str
    """Their key at the level structure."""
    classes: int
    """Exact classes."""
    graphs: int
    """Graphs of all of them."""
    names: tuple[str, ...]
    """Names of all graphs, sorted."""
    num_ops: int
    """Call nodes of each."""
    contrasts: tuple[str, ...]
    """What tells each further class from the first, most frequent first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Classes of a run at each level, and its largest families."""

    architectures: int
    """Architectures that gave a graph."""
    graphs: int
    """Graphs."""
    levels: tuple[Level, ...]
    """One a level."""
    families: tuple[Family, ...]
    """The largest ones: most classes first, then most graphs, then by key."""


def survey(store: RunDirectory, limit: int = 10) -> Survey:
    """Count the classes of a run at each level and explain its `limit` largest families; ValueError without classes."""
    names, architectures = _names(store)
    counts: dict[str, Counter[str]] = {level: Counter() for level, _ in LEVELS}
    sizes: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in store.iter_rows("classes"):
        for level, column in LEVELS:
            counts[level][getattr(row, column)] += row.members
        sizes[row.structure][0] += 1
        sizes[row.structure][1] += row.members
    if not sizes:
        raise ValueError(f"{store.path} holds no classes: run `passnet build --out {store.path}` first")
    largest = sorted(sizes, key=lambda key: (-sizes[key][0], -sizes[key][1], key))[:limit]
    held: dict[str, list[CanonicalGraph]] = {key: [] for key in largest}
    for row in store.iter_rows("classes"):
        if row.structure in held:
            held[row.structure].append(row)
    return Survey(
        architectures=architectures, graphs=sum(counts["exact"].values()),
        levels=tuple(_level(level, counts[level]) for level, _ in LEVELS),
        families=tuple(_family(held[key], names) for key in largest),
    )  # fmt: skip


def _names(store: RunDirectory) -> tuple[dict[str, list[str]], int]:
    """class key -> names of its graphs; and the number of architectures."""
    name_of = {row.graph_id: row.name for row in store.iter_rows("graphs")}
    found: dict[str, list[str]] = defaultdict(list)
    architectures = set()
    for row in store.iter_rows("members"):
        found[row.key].append(name_of.get(row.graph_id, row.graph_id[:8]))
        architectures.add(row.architecture)
    return found, len(architectures)


def _level(name: str, counts: Counter[str]) -> Level:
    shared = sum(count for count in counts.values() if count > 1)
    return Level(name=name, classes=len(counts), largest=max(counts.values()), shared=shared)


def _family(rows: Iterable[CanonicalGraph], names: dict[str, list[str]]) -> Family:
    first, *others = sorted(rows, key=lambda row: (row.name, row.key))
    contrasts = Counter(_contrast(first.graph, row.graph) for row in others)
    return Family(
        structure=first.structure, classes=1 + len(others), graphs=sum(row.members for row in (first, *others)),
        names=tuple(sorted(name for row in (first, *others) for name in names.get(row.key, [row.name]))),
        num_ops=first.num_ops,
        contrasts=tuple(f"{count} x {text}" for text, count in sorted(contrasts.items(), key=lambda x: (-x[1], x[0]))),
    )  # fmt: skip


def _contrast(a: Graph, b: Graph) -> str:
    found = compare(a, b)
    reason = REASONS.get(found.level, "other ops or wiring")
    return f"{reason}, first: {found.left[-1].strip()} | {found.right[-1].strip()}" if found.left else reason


def lines_of(found: Survey) -> Iterator[str]:
    """The survey as a Markdown table and one paragraph a family."""
    yield f"{found.graphs:,} graphs of {found.architectures:,} architectures"
    yield ""
    yield from _table(found.levels)
    for place, family in enumerate(found.families, 1):
        more = f" and {len(family.names) - SHOWN} more" if len(family.names) > SHOWN else ""
        yield ""
        yield (
            f"{place}. {family.structure[:12]}: {_counted(family.classes, 'class')}, {_counted(family.graphs, 'graph')}"
            f" of {family.num_ops:,} ops: {', '.join(family.names[:SHOWN])}{more}"
        )
        if family.classes == 1 and family.graphs > 1:
            yield "   one class: equal bytes in every respect"
        yield from (f"   {text}" for text in family.contrasts)


def _counted(count: int, noun: str) -> str:
    plural = {"class": "classes"}.get(noun, f"{noun}s")
    return f"{count:,} {noun if count == 1 else plural}"


def _table(levels: Iterable[Any]) -> Iterator[str]:
    yield "| level | classes | graphs of the largest class | graphs that share a class |"
    yield "|---|---:|---:|---:|"
    for level in levels:
        yield f"| {level.name} | {level.classes:,} | {level.largest:,} | {level.shared:,} |"
