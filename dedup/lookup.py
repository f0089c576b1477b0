"""Find graphs by what a person calls them: a file, a key, a graph id or a model's name; and what a run holds of them.

    graph = graph_of("bert/BertModel", store)
    for hit in find(graph, store): print(hit.level, hit.key, hit.name)

Reads a run directory or published dataset (tables `classes`, `graphs`, `members`, Parquet files) and JSON files of
graphs; writes nothing. Raises ValueError, one line, for what names no graph or more than one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.store import RunDirectory
from schemas.canonical import canonicalize
from schemas.forms import LEVELS
from schemas.graph import Graph, check
from schemas.normal import normalised

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
    found = _in_run(text, store)
    if not found:
        raise ValueError(
            f"{store.path} holds no graph that is called {text!r} (a name, or the beginning of a key or graph id); "
            f"`passnet show graphs` lists them"
        )
    if len(found) > 1:
        some = ", ".join(sorted(found)[:4])
        raise ValueError(f"{text!r} names {len(found)} graphs ({some}): give a whole name or more of the key")
    return next(iter(found.values()))


def _from_file(path: Path) -> Graph:
    try:
        graph = Graph.from_json(path.read_text(encoding="utf-8"))
        check(graph)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path} holds no legal graph ({error}): it must be what Graph.to_json wrote") from error
    return graph


def _in_run(text: str, store: RunDirectory) -> dict[str, Graph]:
    """Graphs called so; a whole name wins over beginnings, and one graph under several names counts once."""
    exact: dict[str, Graph] = {}
    beginning: dict[str, Graph] = {}
    for row in store.iter_rows("graphs"):
        if row.name == text or row.graph_id == text:
            exact[f"{row.name} {row.graph_id[:8]}"] = row.graph
        elif row.name.startswith(text) or (len(text) > 3 and row.graph_id.startswith(text)):
            beginning[f"{row.name} {row.graph_id[:8]}"] = row.graph
    if exact:
        return exact
    for row in store.iter_rows("classes"):
        if len(text) > 3 and row.key.startswith(text):
            beginning[f"{row.name} {row.key[:8]}"] = row.graph
    return beginning


def keys_of(graph: Graph) -> dict[str, str]:
    """The key of a graph for each of KINDS."""
    form = canonicalize(graph)
    found = {level: str(getattr(form.keys, level)) for level in LEVELS}
    return found | {"body": form.body, "inference": canonicalize(normalised(graph, "inference")).key}


def find(graph: Graph, store: RunDirectory) -> Iterator[Hit]:
    """The classes of a run that are the graph at some level, closest first; two classes of one kind by name and key."""
    wanted = keys_of(graph)
    columns = {"exact": "key"}
    found = []
    for row in store.iter_rows("classes"):
        agrees = (kind for kind in KINDS if getattr(row, columns.get(kind, kind)) == wanted[kind])
        if (level := next(agrees, None)) is not None:
            found.append(Hit(level=level, key=row.key, name=row.name, members=row.members))
    yield from sorted(found, key=lambda hit: (KINDS.index(hit.level), hit.name, hit.key))


def names_of(key: str, store: RunDirectory) -> list[str]:
    """Names of the models whose graphs are in a class, sorted."""
    architectures = {row.architecture for row in store.iter_rows("members") if row.key == key}
    named: dict[str, Any] = {row.architecture: row.name for row in store.iter_rows("configs")}
    return sorted(named.get(architecture, architecture) for architecture in architectures)
