"""How many classes a run has at each level, and what its largest families are made of, for people.

    for line in lines_of(survey(RunDirectory("runs/default"))): print(line)

Reads keys and names of the tables `classes`, `graphs` and `members`, and a few graphs of the families that are
explained; writes nothing. A family is the set of classes with one `structure` key: equal but for sizes, dtypes and
numbers.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from data.columns import Columns
from data.store import RunDirectory
from dedup.twins import contrast
from schemas.canonical import canonicalize
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
    """What tells further classes from the first: each reason, of how many it holds, an example; most frequent first."""


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
    """The largest of those with several classes: most classes first, then most graphs, then by key."""


def survey(store: RunDirectory, limit: int = 10) -> Survey:
    """Count the classes of a run at each level and explain its `limit` largest families; ValueError without classes.

    Graphs are read of the first class of a family and of one class for each reason alone.
    """
    classes = Columns(store, "classes", (*(column for _, column in LEVELS), "members", "name", "num_ops"))
    if not len(classes):
        raise ValueError(f"{store.path} holds no classes: run `passnet build --out {store.path}` first")
    counts: dict[str, Counter[str]] = {level: Counter() for level, _ in LEVELS}
    for level, column in LEVELS:
        for key, members in zip(classes[column], classes["members"], strict=True):
            counts[level][key] += members
    places: dict[str, list[int]] = defaultdict(list)
    for place, structure in enumerate(classes["structure"]):
        places[structure].append(place)
    joined = [structure for structure in places if len(places[structure]) > 1]
    largest = sorted(joined, key=lambda key: (-len(places[key]), -counts["structure"][key], key))[:limit]
    drafts = [_draft(classes, sorted(places[key], key=lambda k: (classes["name"][k], classes["key"][k])))
              for key in largest]  # fmt: skip
    rows = classes.rows([place for draft in drafts for place in (draft.places[0], *draft.examples.values())])
    names, architectures = _names(store, [classes["key"][place] for draft in drafts for place in draft.places])
    return Survey(
        architectures=architectures, graphs=sum(counts["exact"].values()),
        levels=tuple(_level(level, counts[level]) for level, _ in LEVELS),
        families=tuple(_family(classes, draft, rows, names) for draft in drafts),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A family before its graphs are read."""

    places: list[int]
    """Its classes, by name and key."""
    reasons: Counter[str]
    """What tells classes from the first one -> how many."""
    examples: dict[str, int]
    """Reason -> the first class of which it holds."""


def _draft(classes: Columns, places: list[int]) -> _Draft:
    reasons: Counter[str] = Counter()
    examples: dict[str, int] = {}
    for place in places[1:]:
        reason = _reason(classes, places[0], place)
        reasons[reason] += 1
        examples.setdefault(reason, place)
    return _Draft(places=places, reasons=reasons, examples=examples)


def _reason(classes: Columns, first: int, place: int) -> str:
    """What tells two classes apart: the finest level at which their keys are equal says so."""
    columns = ((column, REASONS[level]) for level, column in LEVELS if level in REASONS)
    return next(reason for column, reason in columns if classes[column][first] == classes[column][place])


def _names(store: RunDirectory, keys: Iterable[str]) -> tuple[dict[str, list[str]], int]:
    """class key -> names of its graphs; and the number of architectures of all classes."""
    found: dict[str, list[str]] = {key: [] for key in keys}
    name_of: dict[str, str] = dict(Columns(store, "graphs", ("graph_id", "name")))
    members = Columns(store, "members", ("key", "graph_id", "architecture"))
    for key, graph_id, _ in members:
        if key in found:
            found[key].append(name_of.get(graph_id, graph_id[:8]))
    return found, len(set(members["architecture"]))


def _level(name: str, counts: Counter[str]) -> Level:
    shared = sum(count for count in counts.values() if count > 1)
    return Level(name=name, classes=len(counts), largest=max(counts.values()), shared=shared)


def _family(classes: Columns, draft: _Draft, rows: dict[int, CanonicalGraph], names: dict[str, list[str]]) -> Family:
    first = rows[draft.places[0]]
    form = canonicalize(first.graph)
    contrasts = []
    for reason, count in sorted(draft.reasons.items(), key=lambda item: (-item[1], item[0])):
        found = contrast(form, canonicalize(rows[draft.examples[reason]].graph))
        said = f", first: {found.left[-1].strip()} | {found.right[-1].strip()}" if found.left else ""
        contrasts.append(f"{count} x {reason}{said}")
    return Family(
        structure=first.structure, classes=len(draft.places), num_ops=first.num_ops,
        graphs=sum(classes["members"][place] for place in draft.places),
        names=tuple(sorted(name for place in draft.places
                           for name in names[classes["key"][place]] or [classes["name"][place]])),
        contrasts=tuple(contrasts),
    )  # fmt: skip


def lines_of(found: Survey) -> Iterator[str]:
    """The survey as a Markdown table and one paragraph a family."""
    yield f"{found.graphs:,} graphs of {found.architectures:,} architectures"
    yield ""
    yield from _table(found.levels)
    if not found.families:
        yield ""
        yield "no family of several classes: no two classes are equal but for sizes, dtypes and numbers"
    for place, family in enumerate(found.families, 1):
        more = f" and {len(family.names) - SHOWN} more" if len(family.names) > SHOWN else ""
        yield ""
        yield (
            f"{place}. {family.structure[:12]}: {_counted(family.classes, 'class')}, {_counted(family.graphs, 'graph')}"
            f" of {family.num_ops:,} ops: {', '.join(family.names[:SHOWN])}{more}"
        )
        yield from (f"   {text}" for text in family.contrasts)


def _counted(count: int, noun: str) -> str:
    plural = {"class": "classes"}.get(noun, f"{noun}s")
    return f"{count:,} {noun if count == 1 else plural}"


def _table(levels: Iterable[Any]) -> Iterator[str]:
    yield "| level | classes | graphs of the largest class | graphs that share a class |"
    yield "|---|---:|---:|---:|"
    for level in levels:
        yield f"| {level.name} | {level.classes:,} | {level.largest:,} | {level.shared:,} |"
