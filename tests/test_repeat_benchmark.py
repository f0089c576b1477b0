"""The comparison of two runs sees every difference but those of measurements."""

import shutil
from pathlib import Path

import pytest

from benchmarks.repeat import compare
from tests.data.tiny_run import RUN_TABLES, write_run

pytestmark = pytest.mark.plain


def test_a_copy_is_equal_and_a_changed_or_missing_part_is_named(tmp_path: Path) -> None:
    left, right = tmp_path / "a", tmp_path / "b"
    write_run(left, RUN_TABLES)
    shutil.copytree(left, right)
    same = compare(left, right)
    assert same["parts"] == same["equal"] and not same["different"]

    for path in (right / "profiles").glob("*.parquet"):
        path.write_bytes(b"another measurement")
    assert not compare(left, right)["different"]

    (part,) = (right / "tasks").glob("part-*.parquet")
    part.write_bytes(part.read_bytes() + b"x")
    next((right / "models").glob("part-*.parquet")).unlink()
    assert compare(left, right)["different"] == ["models/part-00000.parquet", f"tasks/{part.name}"]
