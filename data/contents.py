"""What the published configs contain: rows of a run's tables joined with provenance and generated source.

Reads a run directory, streaming: only the link tables (models, links, configs, members, occurrences; no graphs, no
configurations) are joined in memory. Writes nothing: `data.publish` stores what the configs below yield.

    for rows in DATASET[0].read(Source(Path("runs/default"))): ...     # lists of at most BATCH rows
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from data.store import RunDirectory
from schemas.arrow import from_table, schema_of, to_table
from schemas.rows import (
    CanonicalGraph,
    ConfigLink,
    Environment,
    Failure,
    GraphRecord,
    Member,
    ModelConfig,
    ModelRef,
    Occurrence,
    Pick,
    Profile,
    Relation,
    Subgraph,
    Task,
    TaskCandidate,
    TaskVariant,
)  # fmt: skip
from schemas.source import source_of

BATCH = 16
"""Rows decoded at a time."""
MAX_MODELS = 32
"""Most models named in one row; `num_models` counts them all."""
TABLES: dict[str, type] = {
    "models": ModelRef, "configs": ModelConfig, "links": ConfigLink, "graphs": GraphRecord, "classes": CanonicalGraph,
    "members": Member, "relations": Relation, "occurrences": Occurrence, "subgraphs": Subgraph, "picks": Pick,
    "profiles": Profile, "environments": Environment, "candidates": TaskCandidate, "tasks": Task,
    "variants": TaskVariant,
}  # fmt: skip
"""Tables of a run in funnel order, with their row types."""
MODEL_TYPE = pa.struct(
    [("name", pa.string()), ("revision", pa.string()), ("license", pa.string()), ("library", pa.string()),
     ("library_version", pa.string()), ("architecture", pa.string())]
)  # fmt: skip
MACHINE_TYPE = pa.struct(list(schema_of(Environment)))
ADDED: dict[str, tuple[pa.DataType, str]] = {
    "source": (pa.large_string(), "Readable Python generated from the graph: a torch.nn.Module that computes it."),
    "models": (pa.list_(MODEL_TYPE), f"Models it comes from, sorted by name, at most {MAX_MODELS}."),
    "num_models": (pa.int64(), "Number of models it comes from."),
    "licenses": (schema_of(Subgraph).field("licenses").type, "Licences its models come under, as declared, sorted."),
    "architecture": (pa.string(), "Architecture key (ModelConfig.architecture); null if it got none."),
    "classes": (pa.list_(pa.string()), "Keys of the graph classes it gave, sorted."),
    "machine": (MACHINE_TYPE, "The environment spelt out."),
    "family_rank": (pa.int64(), "Relation.rank: place in the family of classes with this `structure`, 0 first."),
    "cluster": (
        pa.string(),
        "Relation.cluster: smallest key of its cluster of near-duplicates; keep clusters together.",
    ),
    "cluster_size": (pa.int64(), "Relation.cluster_size: number of classes in the cluster."),
}
"""Columns added to, or filled in place of, those of the row type: name -> (type, doc)."""
Extras = dict[str, list[Any]]


# --- reading a run --------------------------------------------------------------------------------------------------
def _decode(path: Path, row: type, only: Mapping[str, str]) -> Iterator[Any]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=BATCH):
            table = pa.Table.from_batches([batch])
            for column, value in only.items():
                table = table.filter(pc.equal(table[column], value))
            yield from from_table(table, row)


class Source:
    """The tables of a run and the small link tables joined: which models a class or a piece comes from."""

    def __init__(self, path: Path) -> None:
        self.store = RunDirectory(path)

    def rows(self, table: str, row: type, only: Mapping[str, str] | None = None) -> Iterator[list[Any]]:
        """Stream rows in lists of at most BATCH, whatever the shards; `only` keeps rows with these values."""
        stream = (item for path in self.store.parts(table) for item in _decode(path, row, only or {}))
        while batch := list(islice(stream, BATCH)):
            yield batch

    def columns(self, table: str, *names: str) -> Iterator[tuple[Any, ...]]:
        """Stream some columns of a table as tuples."""
        for path in self.store.parts(table):
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(columns=list(names)):
                    yield from zip(*(batch.column(name).to_pylist() for name in names), strict=True)

    @cached_property
    def architecture_of(self) -> dict[str, str]:
        """model -> architecture key."""
        return dict(self.columns("links", "model", "architecture"))

    @cached_property
    def models_of(self) -> dict[str, list[dict[str, str]]]:
        """architecture key -> its models, as MODEL_TYPE."""
        versions = dict(self.columns("configs", "architecture", "library_version"))
        found: dict[str, list[dict[str, str]]] = defaultdict(list)
        for model, *rest in self.columns("models", "model", "name", "revision", "license", "library"):
            key = self.architecture_of.get(model)
            if key is not None:
                values = (*rest, versions.get(key, ""), key)
                found[key].append({field.name: value for field, value in zip(MODEL_TYPE, values, strict=True)})
        return found

    @cached_property
    def architectures_of(self) -> dict[str, list[str]]:
        """class key -> its architecture keys, sorted."""
        found: dict[str, set[str]] = defaultdict(set)
        for key, architecture in self.columns("members", "key", "architecture"):
            found[key].add(architecture)
        return {key: sorted(value) for key, value in found.items()}

    @cached_property
    def classes_of(self) -> dict[str, list[str]]:
        """architecture key -> its class keys, sorted."""
        found: dict[str, list[str]] = defaultdict(list)
        for key, architectures in self.architectures_of.items():
            for architecture in architectures:
                found[architecture].append(key)
        return {architecture: sorted(keys) for architecture, keys in found.items()}

    @cached_property
    def parents_of(self) -> dict[str, list[str]]:
        """piece -> keys of the classes it was found in, sorted."""
        found: dict[str, set[str]] = defaultdict(set)
        for piece, parent in self.columns("occurrences", "subgraph", "parent"):
            found[piece].add(parent)
        return {piece: sorted(parents) for piece, parents in found.items()}

    @cached_property
    def relation_of(self) -> dict[str, tuple[int, str, int, bool]]:
        """class key -> place in its family, cluster and its size, whether it contributes to the split train."""
        columns = self.columns("relations", "key", "rank", "cluster", "cluster_size", "contributes")
        return {key: (rank, cluster, size, contributes) for key, rank, cluster, size, contributes in columns}

    @cached_property
    def split_of(self) -> dict[str, str]:
        """task -> split."""
        return dict(self.columns("tasks", "task_id", "split"))

    @cached_property
    def origins_of(self) -> dict[str, list[str]]:
        """task -> the mined pieces its variants are made from, sorted."""
        found: dict[str, set[str]] = defaultdict(set)
        for task, origin in self.columns("variants", "task_id", "origin"):
            found[task].add(origin)
        return {task: sorted(origins) for task, origins in found.items()}

    @cached_property
    def machine_of(self) -> dict[str, dict[str, Any]]:
        """environment -> the environment spelt out."""
        table = self.store.read_arrow("environments")
        return {} if table is None else {row["environment"]: row for row in table.to_pylist()}

    @cached_property
    def test_topologies(self) -> set[str]:
        """Topologies of the pieces that test tasks are made from."""
        test = {piece for task, side in self.split_of.items() if side == "test" for piece in self.origins_of[task]}
        return {topology for piece, topology in self.columns("subgraphs", "key", "topology") if piece in test}

    @cached_property
    def test_pieces(self) -> set[str]:
        """Pieces whose topology belongs to a test task."""
        found = self.columns("subgraphs", "key", "topology")
        return {piece for piece, topology in found if topology in self.test_topologies}

    def models(self, classes: Sequence[str]) -> list[dict[str, str]]:
        """All models behind some classes, sorted by name."""
        keys = sorted({key for item in classes for key in self.architectures_of.get(item, ())})
        return sorted(
            (m for key in keys for m in self.models_of.get(key, ())), key=lambda m: (m["name"], m["revision"])
        )

    def models_of_pieces(self, pieces: Sequence[str]) -> list[dict[str, str]]:
        """All models behind some pieces, sorted by name."""
        return self.models(sorted({parent for piece in pieces for parent in self.parents_of.get(piece, ())}))


# --- the configs ----------------------------------------------------------------------------------------------------
def _provenance(models: Sequence[Sequence[dict[str, str]]]) -> Extras:
    return {
        "models": [found[:MAX_MODELS] for found in models],
        "num_models": [len(found) for found in models],
        "licenses": [sorted({model["license"] for model in found}) for found in models],
    }


def _code(graphs: Sequence[Any]) -> Extras:
    return {"source": [source_of(graph) for graph in graphs]}


def _class_extras(source: Source, rows: Sequence[Any]) -> Extras:
    models = [source.models([row.key]) for row in rows]
    relations = [source.relation_of[row.key] for row in rows]
    columns = dict(zip(_RELATION, map(list, zip(*relations, strict=True)), strict=False))
    return {**_code([row.graph for row in rows]), **_provenance(models), **columns}


def _member_extras(source: Source, rows: Sequence[Any]) -> Extras:
    return _provenance([source.models_of.get(row.architecture, []) for row in rows])


def _piece_extras(source: Source, rows: Sequence[Any]) -> Extras:
    models = [source.models_of_pieces([row.key]) for row in rows]
    return {**_code([row.graph for row in rows]), **_provenance(models)}


def _model_extras(source: Source, rows: Sequence[Any]) -> Extras:
    keys = [source.architecture_of.get(row.model) for row in rows]
    return {"architecture": keys, "classes": [source.classes_of.get(key or "", []) for key in keys]}


def _variant_extras(source: Source, rows: Sequence[Any]) -> Extras:
    models = [source.models_of_pieces([row.origin]) for row in rows]
    return {**_code([row.graph for row in rows]), **_provenance(models)}


def _task_extras(source: Source, rows: Sequence[Any]) -> Extras:
    return _provenance([source.models_of_pieces(source.origins_of.get(row.task_id, [])) for row in rows])


def _profile_extras(source: Source, rows: Sequence[Any]) -> Extras:
    return {"machine": [source.machine_of.get(row.environment) for row in rows]}


def _table(name: str) -> Callable[[Source], Iterator[list[Any]]]:
    return lambda source: source.rows(name, TABLES[name])


def _pieces(kind: str) -> Callable[[Source], Iterator[list[Any]]]:
    return lambda source: source.rows("subgraphs", Subgraph, {"kind": kind})


def _failures(source: Source) -> Iterator[list[Any]]:
    for table in TABLES:
        yield from source.rows(f"{table}.failures", Failure)


def _train(source: Source, row: Any) -> str:
    return "train"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One config of a dataset: where its rows come from and what is added to them."""

    name: str
    row: type
    read: Callable[[Source], Iterator[list[Any]]]
    added: tuple[str, ...] = ()
    extras: Callable[[Source, Sequence[Any]], Extras] = lambda source, rows: {}
    splits: tuple[str, ...] = ("train",)
    split: Callable[[Source, Any], str] = _train

    @property
    def schema(self) -> pa.Schema:
        """Columns as published: those of the row type, then the added ones; so a row type's reader reads them too."""
        base = schema_of(self.row)
        return pa.schema([*base, *(pa.field(name, ADDED[name][0]) for name in self.added if name not in base.names)])


_MODELS = ("models", "num_models", "licenses")
_RELATION = ("family_rank", "cluster", "cluster_size")
_CODE = ("source", *_MODELS)
DATASET = (
    Config(
        name="graphs",
        row=CanonicalGraph,
        read=_table("classes"),
        added=(*_CODE, *_RELATION),
        extras=_class_extras,
        splits=("train", "surplus"),
        split=lambda source, row: "train" if source.relation_of[row.key][3] else "surplus",
    ),
    Config(name="members", row=Member, read=_table("members"), added=_MODELS, extras=_member_extras),
    *(
        Config(name=kind, row=Subgraph, read=_pieces(kind), added=_CODE, extras=_piece_extras)
        for kind in ("sole_op", "typical", "fusible")
    ),
    Config(name="models", row=ModelRef, read=_table("models"), added=("architecture", "classes"), extras=_model_extras),
    Config(name="failures", row=Failure, read=_failures),
)
"""Configs of PassNet-Dataset; the first is the default. Relation.contributes decides what of `graphs` is in train."""
_SPLITS = ("train", "test")
BENCH = (
    Config(
        name="tasks", row=Task, read=_table("tasks"), added=_MODELS, extras=_task_extras,
        splits=_SPLITS, split=lambda source, row: row.split,
    ),
    Config(
        name="subgraphs", row=TaskVariant, read=_table("variants"), added=_CODE, extras=_variant_extras,
        splits=_SPLITS, split=lambda source, row: source.split_of[row.task_id],
    ),
    Config(
        name="profiles", row=Profile, read=_table("profiles"), added=("machine",), extras=_profile_extras,
        splits=_SPLITS, split=lambda source, row: "test" if row.subgraph in source.test_pieces else "train",
    ),
)  # fmt: skip
"""Configs of PassBench; the first is the default. A profile of a piece with a test task's topology is a test row."""


def published_table(source: Source, config: Config, rows: Sequence[Any]) -> pa.Table:
    """Rows of a config as published: with the added columns filled in."""
    columns = to_table(rows, config.row)
    extras = config.extras(source, rows)
    arrays = [
        pa.array(extras[field.name], field.type) if field.name in extras else columns[field.name].combine_chunks()
        for field in config.schema
    ]
    return pa.Table.from_arrays(arrays, schema=config.schema)
