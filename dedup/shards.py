"""Canonical forms on disk: what lets classes be found among more graphs than memory holds.

    write_shard(rows, folder / "shard-00003")          # skipped by the caller if it is there
    for group in groups(sorted(folder.glob("shard-*.json"))): group.key, group.entries

Reads GraphRecord rows; writes `NAME.forms` (compressed canonical bytes, one after another) and, last and atomically,
`NAME.json` (what each of them is), so a shard with an index is whole and an interrupted run continues after it. In
memory stays only the index, about a quarter of a kilobyte a graph. Raises IdentityError if two forms of one key differ.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from dedup.audit import IdentityError
from schemas.canonical import canonicalize
from schemas.rows import GraphRecord

_CODEC = "zstd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One graph: who it is and where its canonical bytes stand."""

    key: str
    """Its exact key."""
    name: str
    """GraphRecord.name."""
    graph_id: str
    """GraphRecord.graph_id."""
    architecture: str
    """GraphRecord.architecture."""
    size: int
    """Bytes of its canonical form."""
    offset: int
    """Place of the compressed form in its file."""
    length: int
    """Bytes of the compressed form."""
    file: str
    """The file."""
    capped: bool
    """Whether the search for its canonical form was cut short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Graphs whose canonical bytes are equal."""

    key: str
    """Their exact key."""
    entries: tuple[Entry, ...]
    """By name, then id; the first is the representative."""


def write_shard(rows: Iterable[GraphRecord], path: Path) -> Path:
    """Write the canonical forms of some graphs; returns the path of the index."""
    entries = []
    forms = path.with_suffix(".forms")
    with forms.open("wb") as file:
        for row in rows:
            form = canonicalize(row.graph)
            packed = pa.compress(form.blob, codec=_CODEC, asbytes=True)
            entries.append(
                [
                    form.key,
                    row.name,
                    row.graph_id,
                    row.architecture,
                    len(form.blob),
                    file.tell(),
                    len(packed),
                    form.capped,
                ]
            )
            file.write(packed)
        file.flush()
        os.fsync(file.fileno())
    index = path.with_suffix(".json")
    temporary = index.with_name(f".{index.name}.tmp")
    temporary.write_text(json.dumps(entries), encoding="utf-8")
    os.replace(temporary, index)
    return index


def read_index(index: Path) -> list[Entry]:
    """The entries of one shard."""
    file = sys.intern(str(index.with_suffix(".forms")))
    return [
        Entry(
            key=key, name=name, graph_id=graph_id, architecture=architecture, size=size, offset=offset, length=length,
            capped=capped, file=file,
        )
        for key, name, graph_id, architecture, size, offset, length, capped in json.loads(index.read_bytes())
    ]  # fmt: skip


def form_of(entry: Entry) -> bytes:
    """The canonical bytes of a graph."""
    with open(entry.file, "rb") as file:
        file.seek(entry.offset)
        packed = file.read(entry.length)
    found: bytes = pa.decompress(packed, decompressed_size=entry.size, codec=_CODEC, asbytes=True)
    return found


def groups(indices: Sequence[Path]) -> Iterator[Group]:
    """All classes by key, the bytes of every member compared; the order of the shards does not matter."""
    members: dict[str, list[Entry]] = {}
    for index in indices:
        for entry in read_index(index):
            members.setdefault(entry.key, []).append(entry)
    for key in sorted(members):
        found = sorted(members.pop(key), key=lambda entry: (entry.name, entry.graph_id))
        _compare(found)
        yield Group(key=key, entries=tuple(found))


def _compare(entries: Sequence[Entry]) -> None:
    if len(entries) < 2:
        return
    first = form_of(entries[0])
    for entry in entries[1:]:
        if form_of(entry) != first:
            raise IdentityError(
                f"graphs {entries[0].graph_id} ({entries[0].name}) and {entry.graph_id} ({entry.name}) "
                f"differ but share the key {entry.key}",
                pair=(entries[0].graph_id, entry.graph_id),
            )
