"""The runner on toy stages, whole builds: resume, damage, and stages that break their promises."""

from dataclasses import replace
from pathlib import Path

import pytest

from data.calls import StageFailed
from data.store import RunDirectory
from flows.run import ConservationError
from tests.flows.test_run import Notes, run_toy, table_bytes
from tests.flows.toy import TOY

pytestmark = pytest.mark.build


def test_two_builds_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        run_toy(tmp_path / name)
    assert table_bytes(tmp_path / "other") == table_bytes(tmp_path / "one")


def test_a_changed_setting_runs_what_depends_on_it_and_leaves_no_old_part(tmp_path: Path) -> None:
    path = tmp_path / "run"
    run_toy(path, "a", "b", "c", "d", "e")
    assert len(RunDirectory(path).parts("models")) == 2
    observer = Notes()
    run_toy(path, "a", "b", observer=observer)
    assert observer.started == [("models", 0), ("configs", 0), ("members", 0)]
    assert len(RunDirectory(path).parts("models")) == 1
    assert {row.name for row in RunDirectory(path).read_table("configs")} == {"a", "b"}


def test_damage_is_told_and_only_the_damaged_shard_runs_again(tmp_path: Path) -> None:
    path = tmp_path / "run"
    run_toy(path)
    before = table_bytes(path)
    damaged = path / "configs/part-00001.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    (path / "members/part-00000.json").write_text('{"stage": "mem')
    observer = Notes()
    run_toy(path, observer=observer)
    assert observer.started == [("configs", 1), ("members", 0)]
    assert len(observer.notes) == 2
    assert "configs/part-00001.parquet is damaged" in observer.notes[0]
    assert "shard 1 of configs is rebuilt, the rest is kept" in observer.notes[0]
    assert "members/part-00000.json is half-written or damaged" in observer.notes[1]
    assert observer.notes[1].endswith("): shard 0 of members is rebuilt")
    assert table_bytes(path) == before
    assert damaged.with_name("part-00001.parquet.damaged").exists()


def test_a_lost_item_stops_the_build_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConservationError, match=r"stage configs lost 1 of 2 input rows: [0-9a-f]{32}"):
        run_toy(tmp_path / "run", "a", "lost")


def test_a_table_stage_must_account_for_every_input(tmp_path: Path) -> None:
    with pytest.raises(ConservationError, match="stage members lost 1 of 2 input rows: arch-vanish"):
        run_toy(tmp_path / "run", "a", "vanish")


def test_a_row_of_an_undeclared_type_is_refused(tmp_path: Path) -> None:
    narrow = (TOY[0], replace(TOY[1], writes=("configs",)), TOY[2])
    with pytest.raises(AssertionError, match=r"yielded .'ConfigLink'., but it writes"):
        run_toy(tmp_path / "run", "a", stages=narrow)


def test_a_missing_module_stops_the_build_with_its_name(tmp_path: Path) -> None:
    broken = (replace(TOY[0], function="tests.flows.toy:no_such_function"), *TOY[1:])
    with pytest.raises((StageFailed, ValueError), match="no_such_function"):
        run_toy(tmp_path / "run", "a", stages=broken)
