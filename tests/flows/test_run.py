"""The runner on toy stages: resume, damage, conservation, planning; the kill matrix is in test_kill.py."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.store import RunDirectory, StoreError
from flows.build import Outcome, Plan, build
from flows.config import BuildConfig, of_run, preset, with_settings
from flows.run import Observer, Slice, _cut
from flows.stages import STAGES, TABLES, Account, Stage, producer_of, stage_named
from schemas.rows import FailureKind
from tests.flows.drive import TOY_NAMES
from tests.flows.toy import TOY

pytestmark = pytest.mark.plain


class Notes(Observer):
    """Keep what is said and what runs."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.started: list[tuple[str, int]] = []

    def on_note(self, text: str) -> None:
        self.notes.append(text)

    def on_event(self, event: str, stage: str, shard: int) -> None:
        if event == "start":
            self.started.append((stage, shard))


def run_toy(path: Path, *names: str, observer: Observer | None = None, stages: tuple[Stage, ...] = TOY) -> Outcome:
    config = BuildConfig(settings={"models": {"names": list(names or TOY_NAMES)}})
    return build(path, config, Plan(stages=stages, publish="", observer=observer or Observer()))


def table_bytes(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.glob("*/part-?????.parquet"))}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Outcome]]:
    path = tmp_path_factory.mktemp("toy") / "run"
    yield path, run_toy(path)


def test_the_funnel_adds_up(built: tuple[Path, Outcome]) -> None:
    path, outcome = built
    models, configs, members = outcome.funnel
    assert models.out == {"models": 9}
    assert configs.read == 9
    assert configs.out["configs"] + sum(configs.failures.values()) + sum(configs.skipped.values()) == 9
    assert configs.failures == {"build_error": 1, "crash": 1, "input_mismatch": 1, "unknown": 1}
    assert configs.skipped == {"asked for": 1}
    assert (members.read, members.out, members.skipped) == (4, {"members": 3}, {"f is skipped": 1})
    record = json.loads((path / "run.json").read_text())
    assert record["stages"]["models"]["names"] == list(TOY_NAMES)
    assert record["peak_rss_gib"] > 0.05


def test_rows_are_sorted_and_cut_into_shards(built: tuple[Path, Outcome]) -> None:
    path, _ = built
    store = RunDirectory(path)
    models = store.read_table("models")
    assert [row.model for row in models] == sorted(row.model for row in models)
    assert [len(store.parts(name)) for name in ("models", "configs", "links", "members")] == [3, 3, 3, 1]
    kinds = {row.name: row.kind for row in store.read_table("configs.failures")}
    assert kinds["key-error"] is FailureKind.BUILD_ERROR


def test_a_second_build_computes_nothing(built: tuple[Path, Outcome]) -> None:
    path, _ = built
    before = table_bytes(path)
    assert run_toy(path).computed == 0
    assert table_bytes(path) == before


def test_bad_input_is_the_stage_s_own_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no model is called"):
        run_toy(tmp_path / "run", "?")


def test_a_stage_that_does_not_exist_in_the_settings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="settings for modles: no such stage"):
        build(tmp_path / "run", BuildConfig(settings={"modles": {}}), Plan(stages=TOY, publish=""))


def test_one_stage_alone_needs_its_input(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no table 'models' yet: run the stage 'models' first"):
        build(tmp_path / "run", BuildConfig(), Plan(stages=TOY, only="configs"))


def test_a_locked_directory_is_refused_and_left_alone(built: tuple[Path, Outcome]) -> None:
    path, _ = built
    with RunDirectory(path).lock(), pytest.raises(StoreError, match="another build"):
        run_toy(path)


# --- planning -------------------------------------------------------------------------------------------------------
@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 7))
def test_shards_are_all_rows_once_in_order(sizes: list[int], size: int) -> None:
    whole = [Slice(file=str(i), digest="", start=0, stop=n) for i, n in enumerate(sizes)]
    shards = _cut(whole, size)
    rows = [(piece.file, row) for shard in shards for piece in shard for row in range(piece.start, piece.stop)]
    assert rows == [(str(i), row) for i, n in enumerate(sizes) for row in range(n)]
    counts = [sum(piece.stop - piece.start for piece in shard) for shard in shards]
    assert all(count == size for count in counts[:-1])
    assert all(0 < count <= size for count in counts)


def test_the_stage_table_is_sound() -> None:
    written: set[str] = set()
    for stage in STAGES:
        assert stage.writes[0] == stage.name
        assert set(stage.reads) <= written, f"{stage.name} reads what an earlier stage writes"
        assert stage.scope in ("table", "item")
        assert stage.scope == "table" or len(stage.reads) == 1
        assert len({TABLES[table] for table in stage.writes}) == len(stage.writes)
        assert stage.doc.endswith(".")
        for account in stage.accounts:
            assert isinstance(account, Account)
            assert account.table in stage.reads
            assert account.written in stage.writes
        written |= set(stage.writes)
    assert written == set(TABLES)


def test_every_function_of_the_stage_table_exists_as_a_file() -> None:
    root = Path(__file__).resolve().parent.parent.parent
    for stage in STAGES:
        for reference in (stage.function, stage.config):
            module, _, name = reference.partition(":")
            text = (root / (module.replace(".", "/") + ".py")).read_text()
            assert f"def {name}(" in text or f"class {name}:" in text, reference


def test_names_that_do_not_exist_list_those_that_do() -> None:
    with pytest.raises(ValueError, match="no stage is called 'graph'; the stages are models, "):
        stage_named("graph")
    with pytest.raises(ValueError, match="no table is called 'graph'; the tables are models, "):
        producer_of("graph")
    assert producer_of("links").name == "configs"


# --- configuration --------------------------------------------------------------------------------------------------
def test_a_configuration_goes_to_json_and_back() -> None:
    config = with_settings(preset("small", seed=3, select=("bert*",)), ["graphs.seed=4", "models.x=plain text"])
    assert BuildConfig.from_json(config.to_json()) == config
    assert config.settings["graphs"] == {**preset("small").settings.get("graphs", {}), "seed": 4}
    assert config.settings["models"]["x"] == "plain text"


@pytest.mark.parametrize("text", ["graphs.seed", "seed=1", ".=1", ""])
def test_a_wrong_setting_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"STAGE\.FIELD=VALUE"):
        with_settings(BuildConfig(), [text])


def test_impossible_numbers_and_presets_are_refused() -> None:
    with pytest.raises(ValueError, match="limit is the number of models"):
        BuildConfig(limit=0)
    with pytest.raises(ValueError, match="workers is the number of child processes"):
        BuildConfig(workers=0)
    with pytest.raises(ValueError, match="no preset is called 'big'; the presets are default, small"):
        preset("big")


def test_the_run_remembers_its_configuration(built: tuple[Path, Outcome], tmp_path: Path) -> None:
    assert of_run(RunDirectory(built[0])).settings["models"]["names"] == list(TOY_NAMES)
    with pytest.raises(ValueError, match="is no run directory"):
        of_run(RunDirectory(tmp_path))


def test_the_runner_never_imports_torch_or_prefect() -> None:
    code = "import sys, flows.cli, flows.build; sys.exit(bool({'torch', 'prefect', 'transformers'} & set(sys.modules)))"
    root = Path(__file__).resolve().parent.parent.parent
    env = {**os.environ, "PYTHONPATH": str(root)}
    assert subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode == 0
