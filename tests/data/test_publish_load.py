"""Published folders through `datasets.load_dataset`, sockets blocked: every config, streamed or not, never old rows."""

import json
import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from data.contents import BENCH, DATASET
from data.publish import publish
from schemas.graph import Graph
from schemas.rows import ModelRef
from tests.data.tiny_run import CLASS, MODELS, PIECE, RUN_TABLES, with_rows, write_run

pytestmark = pytest.mark.torch


def _refuse(*args: object) -> None:
    raise AssertionError("something tried to connect")


@pytest.fixture
def load(tmp_path, monkeypatch):
    """load_dataset with a cache of its own, offline, every connection refused."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(socket.socket, "connect", _refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", _refuse)
    monkeypatch.setattr(socket, "getaddrinfo", _refuse)
    import datasets

    datasets.disable_progress_bars()

    def load(folder: Path, config: str, **options):
        return datasets.load_dataset(str(folder), config, cache_dir=str(tmp_path / "cache"), **options)

    return load


def _counts(folder: Path, load, streaming: bool) -> dict[str, int]:
    """Rows of every split of every config that the folder declares."""
    import datasets

    found = {}
    for config in datasets.get_dataset_config_names(str(folder)):
        for split, rows in load(folder, config, streaming=streaming).items():
            found[f"{config}/{split}"] = sum(1 for _ in rows)
    return found


@pytest.mark.parametrize("streaming", [False, True])
def test_every_config_opens(tmp_path, load, streaming):
    done = publish(write_run(tmp_path / "run", RUN_TABLES))
    rows = {"graphs/train": 1, "members/train": 1, "fusible/train": 1, "models/train": 3, "failures/train": 1}
    assert _counts(done.dataset, load, streaming) == rows
    rows = {"tasks/test": 1, "subgraphs/test": 3, "profiles/test": 1}
    assert _counts(done.bench, load, streaming) == rows


@pytest.mark.parametrize("streaming", [False, True])
def test_what_has_no_rows_does_not_keep_the_rest_from_opening(tmp_path, load, streaming):
    tables = {name: [] for name in RUN_TABLES} | {"models": MODELS}
    done = publish(write_run(tmp_path / "run", tables))
    assert _counts(done.dataset, load, streaming) == {"models/train": 3}


def test_the_file_of_a_split_without_rows_has_its_columns(tmp_path, load):
    import datasets

    done = publish(write_run(tmp_path / "run", RUN_TABLES))
    for folder, configs in ((done.dataset, DATASET), (done.bench, BENCH)):
        for config in configs:
            for split in config.splits:
                files = [str(path) for path in (folder / "data" / config.name).glob(f"{split}-*")]
                rows = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)
                assert list(rows.features) == config.schema.names


def test_the_loaded_graph_is_the_exact_graph(tmp_path, load):
    done = publish(write_run(tmp_path / "run", RUN_TABLES))
    (row,) = load(done.dataset, "graphs", split="train")
    assert Graph.from_json(json.dumps(row["graph"])) == CLASS.graph
    assert row["models"][0]["name"] == "alpha"


def test_latest_opens_like_the_version_it_points_to(tmp_path, load):
    done = publish(write_run(tmp_path / "run", RUN_TABLES))
    assert len(load(done.dataset.parent / "latest", "models", split="train")) == 3


@pytest.mark.parametrize("pointer", [True, False])
def test_a_rebuild_into_the_same_place_serves_new_rows(tmp_path, load, pointer):
    run = tmp_path / "run"
    for downloads in (1, 2, 3):
        rows = [replace(row, downloads=downloads) for row in MODELS]
        folder = publish(write_run(run, with_rows(models=rows))).dataset
        loaded = load(folder.parent / "latest" if pointer else folder, "models", split="train")
        assert set(loaded["downloads"]) == {downloads}


def test_runs_of_one_version_do_not_serve_each_others_rows(tmp_path, load):
    for name, models in (("one", MODELS), ("two", MODELS[:2])):
        done = publish(write_run(tmp_path / name, with_rows(models=models)))
        assert done.dataset_version == "0.1.0"
        assert len(load(done.dataset, "models", split="train")) == len(models)


def test_a_run_deleted_and_built_again_serves_its_new_rows(tmp_path, load):
    for models in (MODELS, MODELS[:2]):
        done = publish(write_run(tmp_path / "run", with_rows(models=models)))
        assert len(load(done.dataset, "models", split="train")) == len(models)
        shutil.rmtree(tmp_path / "run")


@pytest.mark.parametrize("streaming", [False, True])
def test_a_first_shard_whose_column_is_all_null_opens(tmp_path, load, monkeypatch, streaming):
    monkeypatch.setattr("data.publish.SHARD_BYTES", 1)
    monkeypatch.setattr("data.publish.ROW_GROUP_BYTES", 1)
    models: list[ModelRef] = [replace(MODELS[0], model=f"m{i:03}", name=f"n{i:03}") for i in range(40)]
    links = [replace(RUN_TABLES["links"][0], model=models[-1].model)]
    done = publish(write_run(tmp_path / "run", with_rows(models=models, links=links)))
    assert len(list((done.dataset / "data" / "models").iterdir())) == 3
    keys = [row["architecture"] for row in load(done.dataset, "models", split="train", streaming=streaming)]
    assert keys == [None] * 39 + ["arch"]


def test_pieces_of_all_kinds_open_together(tmp_path, load):
    pieces = [replace(PIECE, key=kind, kind=kind) for kind in ("sole_op", "typical", "fusible")]
    done = publish(write_run(tmp_path / "run", with_rows(subgraphs=pieces)))
    for kind in ("sole_op", "typical", "fusible"):
        assert load(done.dataset, kind, split="train")["key"] == [kind]
