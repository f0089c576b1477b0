"""Stored tables read lazily: the rows of the whole table in its order, never all of them decoded at once."""

import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from data import child, stored
from data.child import tables_of
from data.store import Part, RunDirectory, StoreError
from data.stored import StoredRows
from schemas.arrow import from_table, to_table
from schemas.rows import ConfigLink, Failure, FailureKind, Text

pytestmark = pytest.mark.plain


def links(*names: str) -> pa.Table:
    return to_table([ConfigLink(model=name, architecture=name.upper()) for name in names], ConfigLink)


def failures(count: int, size: int = 1000) -> list[Failure]:
    return [
        Failure(
            stage="s", item=f"{i:06d}", name="n", kind=FailureKind.CRASH, exception="", message="",
            detail=Text(f"{i:d}" * (size // len(f"{i:d}"))),
        )
        for i in range(count)
    ]  # fmt: skip


def stored_table(folder: Path, table: str, *parts: pa.Table) -> RunDirectory:
    run = RunDirectory(folder)
    for index, data in enumerate(parts):
        run.write_parts([Part(table=table, index=index, data=data)])
    return run


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of every batch that is decoded, in order."""
    sizes: list[int] = []

    def count(table: pa.Table, cls: type) -> list[Any]:
        sizes.append(table.num_rows)
        return from_table(table, cls)

    monkeypatch.setattr(stored, "from_table", count)
    return sizes


@pytest.mark.parametrize(
    "parts",
    [(), (("a", "b", "a"),), (("a", "b"), ("b", "c", "a"), ("d", "d")), ((), ("a",)), (("a",), ("a",))],
)
def test_they_are_the_rows_of_the_whole_table(tmp_path: Path, parts: tuple[tuple[str, ...], ...]) -> None:
    run = stored_table(tmp_path, "links", *(links(*names) for names in parts))
    rows, whole = StoredRows(run.parts("links")), run.read_table("links")
    assert list(rows) == whole
    assert list(rows) == whole, "a second reading"
    assert len(rows) == len(whole)
    assert all(row in rows for row in whole)
    assert ConfigLink(model="z", architecture="Z") not in rows


def test_only_a_batch_is_decoded_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: list[int]) -> None:
    monkeypatch.setattr(stored, "BATCH_BYTES", 20_000)
    rows = failures(400)
    run = stored_table(tmp_path, "f", to_table(rows[:300], Failure), to_table(rows[300:], Failure))
    held = StoredRows(run.parts("f"))
    assert (len(held), counted) == (400, []), "nothing is decoded to know how many there are"
    reading = iter(held)
    assert next(reading) == rows[0]
    assert len(counted) == 1
    assert list(reading) == rows[1:]
    assert sum(counted) == 400
    assert max(counted) <= 100


def test_what_is_no_parquet_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "part-00000.parquet"
    path.write_bytes(b"no parquet")
    with pytest.raises(StoreError, match="is not readable Parquet"):
        StoredRows([path])


def test_a_part_of_another_version_is_refused(tmp_path: Path) -> None:
    old = links("a").append_column("more", pa.array(["x"]))
    run = stored_table(tmp_path, "links", old)
    with pytest.raises(ValueError, match="not a table of ConfigLink"):
        list(StoredRows(run.parts("links")))


class Seen(str):
    """A text that can be watched."""


def test_rows_of_a_table_stage_go_out_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_CHUNK_BYTES", 10_000)
    alive: list[weakref.ref[Seen]] = []
    most = 0

    def rows() -> Iterator[Failure]:
        nonlocal most
        for row in failures(500):
            text = Seen(row.detail)
            alive.append(weakref.ref(text))
            yield replace(row, detail=Text(text))
            most = max(most, sum(known() is not None for known in alive))

    sent: list[dict[str, bytes]] = []
    last = child._collect(rows(), sent.append)
    assert 2 <= most <= 20
    assert len(sent) > 20
    assert all(len(blob) < 40_000 for streams in sent for blob in streams.values())
    got = [
        tables_of({"types": list(streams)}, list(streams.values()))["Failure"] for streams in [*sent, last] if streams
    ]
    assert from_table(pa.concat_tables(got), Failure) == failures(500)
