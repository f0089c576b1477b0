"""Find graphs by what a person calls them: a file, a key, a graph id or a model's name; and what a run holds of them.

    graph = graph_of("bert/BertModel", store)
    for hit in find(graph, store): print(hit.level, hit.key, hit.name)

Reads a run directory or published dataset (tables `classes`, `graphs`, `members`, Parquet files) and JSON files of
graphs; writes nothing. Raises ValueError, one line, for what names no graph or more than one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from data.columns import Columns
from data.store import RunDirectory
from schemas.canonical import canonicalize
from schemas.forms import LEVELS
from schemas.graph import Graph, check
from schemas.normal import normalised

LEAST_DIGITS = 4
"""Fewest digits of a key or id that name a graph."""
SUGGESTED = 3
"""Most names that are suggested."""
KINDS = (*LEVELS, "body", "inference")
"""Ways in which a class can be the graph that was looked for, closest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A class that is the graph, at some level."""

    level: str
    """The closest of KINDS that agrees."""
    key: str
    """CanonicalGraph.key."""
    name: str
    """Name of the class's representative."""
    members: int
    """Number of graphs in the class."""


def graph_of(text: str, store: RunDirectory | None) -> Graph:
    """The graph that a text names: a file of `Graph.to_json`, or in a run the name, key or id of one graph."""
    path = Path(text)
    if path.suffix == ".json" or path.is_file():
        return _from_file(path)
    if store is None:
        raise ValueError(f"{text} is no file, and there is no run directory to look it up in: give --out")
    graphs = Columns(store, "graphs", ("name", "graph_id"))
    found = _named(text, graphs)
    holder = graphs
    if not found:
        holder = Columns(store, "classes", ("name", "key"))
        found = {f"{name} {key[:8]}": place for place, (name, key) in enumerate(holder)
                 if len(text) >= LEAST_DIGITS and key.startswith(text)}  # fmt: skip
    if not found:
        raise ValueError(
            f"{store.path} holds no graph that is called {text!r} (a name, or the beginning of a key or graph id)"
            f"{did_you_mean(text, graphs['name'])}; `passnet show graphs` lists them"
        )
    if len(found) > 1:
        some = ", ".join(sorted(found)[:4])
        raise ValueError(f"{text!r} names {len(found)} graphs ({some}): give a whole name or more of the key")
    (place,) = found.values()
    graph: Graph = holder.rows([place])[place].graph
    return graph


def _from_file(path: Path) -> Graph:
    try:
        graph = Graph.from_json(path.read_text(encoding="utf-8"))
        check(graph)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path} holds no legal graph ({error}): it must be what Graph.to_json wrote") from error
    return graph


def _named(text: str, graphs: Columns) -> dict[str, int]:
    """Graphs called so, and their places; a whole name or id wins over beginnings, equal rows count once."""
    exact: dict[str, int] = {}
    beginning: dict[str, int] = {}
    for place, (name, graph_id) in enumerate(graphs):
        if text in (name, graph_id):
            exact.setdefault(f"{name} {graph_id[:8]}", place)
        elif name.startswith(text) or (len(text) >= LEAST_DIGITS and graph_id.startswith(text)):
            beginning.setdefault(f"{name} {graph_id[:8]}", place)
    return exact or beginning


def did_you_mean(text: str, names: Iterable[str]) -> str:
    """ ", did you mean ...?" with the names that are meant most likely: those with another folder, then those alike."""
    short = text.lower().rsplit("/", 1)[-1]
    known = sorted(set(names))
    same = [name for name in known if name.lower() == text.lower() or name.lower().rsplit("/", 1)[-1] == short]
    alike = get_close_matches(text, known, n=SUGGESTED, cutoff=0.75) if not same else []
    inside = [name for name in known if short and short in name.lower()] if not (same or alike) else []
    shown = (same or alike or inside)[:SUGGESTED]
    return f", did you mean {' or '.join(map(repr, shown))}?" if shown else ""


def keys_of(graph: Graph) -> dict[str, str]:
    """The key of a graph for each of KINDS."""
    form = canonicalize(graph)
    found = {level: str(getattr(form.keys, level)) for level in LEVELS}
    return found | {"body": form.body, "inference": canonicalize(normalised(graph, "inference")).key}


def find(graph: Graph, store: RunDirectory) -> Iterator[Hit]:
    """The classes of a run that are the graph at some level, closest first; two classes of one kind by name and key."""
    wanted = keys_of(graph)
    columns = [{"exact": "key"}.get(kind, kind) for kind in KINDS]
    classes = Columns(store, "classes", (*columns, "name", "members"))
    found = []
    for *keys, name, members in classes:
        agrees = (kind for kind, key in zip(KINDS, keys, strict=True) if key == wanted[kind])
        if (level := next(agrees, None)) is not None:
            found.append(Hit(level=level, key=keys[0], name=name, members=members))
    yield from sorted(found, key=lambda hit: (KINDS.index(hit.level), hit.name, hit.key))


def names_of(keys: Iterable[str], store: RunDirectory) -> dict[str, list[str]]:
    """For each class the names of the models whose graphs are in it, sorted."""
    found: dict[str, set[str]] = {key: set() for key in keys}
    named: dict[str, str] = dict(Columns(store, "configs", ("architecture", "name")))
    for key, architecture in Columns(store, "members", ("key", "architecture")):
        if key in found:
            found[key].add(named.get(architecture, architecture))
    return {key: sorted(names) for key, names in found.items()}
