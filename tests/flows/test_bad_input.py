"""Damaged run directories and wrong inputs through the command line: one line, and the same command mends them."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from data.pool import ChildPool
from data.store import RunDirectory
from flows.build import DATASETS, PUBLISH_VERSION, Plan, _publish, build
from flows.cli import app
from flows.config import BuildConfig, with_settings
from flows.run import Runner
from tests.data.tiny_run import RUN_TABLES, write_run
from tests.flows.test_run import Notes, run_toy, table_bytes
from tests.flows.toy import TOY

pytestmark = pytest.mark.slow


def passnet(*words: str) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, list(words), prog_name="passnet")
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bad") / "run"
    run_toy(path)
    return path


@pytest.fixture
def toy_run(tmp_path: Path, built: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "run"))


@pytest.mark.parametrize("text", ["[1]", "3", "{", '{"config": 3}', '{"config": {"limit": "x"}}', "{}"])
def test_a_damaged_run_json_is_one_line_and_a_build_writes_it_anew(toy_run: Path, text: str) -> None:
    (toy_run / "run.json").write_text(text)
    code, _, err = passnet("run", "picks", "--out", str(toy_run))
    assert code == 2
    assert err.startswith("error: ") and "run.json" in err.replace("is no run directory", "run.json")
    assert len(err.strip().splitlines()) == 1
    assert run_toy(toy_run).computed == 0
    assert json.loads((toy_run / "run.json").read_text())["config"]["limit"] == 40


@pytest.mark.parametrize(
    ("old", "new"), [('"rows": 4', '"rows": 2'), ('"in"', '"im"'), ('"counts"', '"countz"'), ('"digest"', '"dig"')]
)
def test_a_changed_letter_in_a_manifest_rebuilds_its_shard_alone(toy_run: Path, old: str, new: str) -> None:
    before = table_bytes(toy_run)
    path = toy_run / "models/part-00000.json"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert passnet("status", "--out", str(toy_run))[0] == 0
    observer = Notes()
    run_toy(toy_run, observer=observer)
    assert observer.started == [("models", 0)]
    assert len(observer.notes) == 1 and "models/part-00000.json is" in observer.notes[0]
    assert table_bytes(toy_run) == before


def test_a_folder_in_the_place_of_a_part_is_moved_aside(toy_run: Path) -> None:
    before = table_bytes(toy_run)
    part = toy_run / "configs/part-00000.parquet"
    part.unlink()
    part.mkdir()
    observer = Notes()
    run_toy(toy_run, observer=observer)
    assert observer.started == [("configs", 0)]
    assert "is no file" in observer.notes[0]
    assert table_bytes(toy_run) == before


def test_rows_of_a_damaged_part_are_one_line(toy_run: Path) -> None:
    part = toy_run / "configs/part-00000.parquet"
    whole = part.read_bytes()
    flipped = bytes(
        byte ^ 0x55 if 4 < at < len(whole) - 1500 and at % 7 == 0 else byte for at, byte in enumerate(whole)
    )
    for blob in (flipped, whole[: len(whole) // 2], b"", b"PAR1"):
        part.write_bytes(blob)
        code, out, err = passnet("show", "configs", "--out", str(toy_run))
        assert (code, out) == (2, "")
        assert "part-00000.parquet is not readable Parquet" in err and "run the build again" in err
        assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("models.limit=abc", 'ListConfig.limit is of type int, not "abc"'),
        ("models.limit=null", "ListConfig.limit is of type int, not null"),
        ("models.limit=true", "ListConfig.limit is of type int, not true"),
        ("models.names=3", "ListConfig.names is of type tuple[str, ...], not 3"),
        ('models.names="ab"', 'not "ab"'),
        ("models.names=[1]", r"not [1]"),
    ],
)
def test_a_setting_of_the_wrong_type_is_refused_before_anything_runs(toy_run: Path, setting: str, words: str) -> None:
    before = table_bytes(toy_run), (toy_run / "run.json").read_bytes()
    with pytest.raises(ValueError) as caught:
        build(toy_run, with_settings(BuildConfig(), [setting]), Plan(stages=TOY, publish=""))
    assert words in str(caught.value)
    assert (table_bytes(toy_run), (toy_run / "run.json").read_bytes()) == before


@pytest.mark.parametrize("limit", ["0", "-5"])
def test_a_listing_of_no_rows_is_refused(toy_run: Path, limit: str) -> None:
    code, _, err = passnet("show", "configs", "--limit", limit, "--out", str(toy_run))
    assert code == 2
    assert "greater than or equal to 1" in err


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.tmp").write_text("mine")
    code, _, err = passnet("build", "--engine", "local", "--out", str(tmp_path))
    assert code == 2
    assert f"{tmp_path} is no run directory but holds notes.tmp: choose an empty or a new folder" in err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.tmp"]


# --- published datasets ---------------------------------------------------------------------------------------------
def publish_again(path: Path) -> tuple[dict[str, str], Notes]:
    store, observer = RunDirectory(path), Notes()
    with ChildPool(workers=1, work=path / ".work") as pool:
        runner = Runner(store=store, config=BuildConfig(), pool=pool, stages=TOY, observer=observer)
        return _publish(runner, Plan(stages=(), observer=observer)), observer


def test_damage_to_published_datasets_is_mended_by_the_same_command(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", RUN_TABLES)
    folders, observer = publish_again(run)
    assert observer.started == [] and set(folders) == set(DATASETS)
    assert json.loads((run / "publish.json").read_text())["tables"] == {"publish version": str(PUBLISH_VERSION)}
    bench = run / folders["PassBench"]
    victim = next((bench / "data/tasks").iterdir())
    whole = victim.read_bytes()
    victim.unlink()
    (bench.parent / "latest").unlink()
    again, observer = publish_again(run)
    assert again == folders
    assert victim.read_bytes() == whole
    assert (bench.parent / "latest").resolve() == bench.resolve()
    assert len(observer.notes) == 1 and victim.name in observer.notes[0]
    for text in ("[]", '{"tables": 3}', "garbage"):
        (run / "publish.json").write_text(text)
        assert publish_again(run)[0] == folders
