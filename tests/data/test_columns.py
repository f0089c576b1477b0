"""Columns of a stored table and rows by their place: the same as decoding everything."""

from pathlib import Path

import pytest

from data.columns import Columns, row_type
from data.store import Part, RunDirectory
from schemas.arrow import to_table
from schemas.rows import ModelConfig, Text

pytestmark = pytest.mark.plain


def rows(count: int, start: int = 0) -> list[ModelConfig]:
    return [
        ModelConfig(
            architecture=f"{number:05d}", name=f"n{number % 7}", library="timm", library_version="1", class_name="",
            config=Text("x" * 200_000), family="", modality="", license="",
        )
        for number in range(start, start + count)
    ]  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> RunDirectory:
    """Two parts, the first of several row groups (200 kB a row, 32 MiB a group)."""
    run = RunDirectory(tmp_path / "run")
    run.create()
    for index, (count, start) in enumerate(((400, 0), (3, 400))):
        run.write_parts([Part(table="configs", index=index, data=to_table(rows(count, start), ModelConfig))])
    return run


def test_columns_are_those_of_the_decoded_rows(store: RunDirectory):
    found = Columns(store, "configs", ("name", "architecture"))
    assert list(found) == [(row.name, row.architecture) for row in store.iter_rows("configs")]
    assert found["name"][3] == "n3"
    assert len(found) == 403


def test_rows_come_from_any_row_group_and_part_whole(store: RunDirectory):
    found = Columns(store, "configs", ("name",)).rows([402, 0, 399, 200, 0, 400])
    everything = list(store.iter_rows("configs"))
    assert found == {place: everything[place] for place in (0, 200, 399, 400, 402)}


def test_an_absent_table_has_no_rows(tmp_path: Path):
    found = Columns(RunDirectory(tmp_path), "configs", ("name",))
    assert (len(found), list(found), found.rows([])) == (0, [], {})
    assert row_type(RunDirectory(tmp_path), "configs") is None
