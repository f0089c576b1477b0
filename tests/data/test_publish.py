"""Publishing: versions, pointers, kills, schemas and joins, on a hand-made run of two models."""

import hashlib
import json
import multiprocessing
import os
import resource
import signal
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from data import publish as publish_module
from data.contents import BENCH, DATASET, MAX_MODELS
from data.publish import publish
from data.store import StoreError
from schemas.arrow import from_table, schema_of
from schemas.graph import Graph
from schemas.rows import Task, TaskVariant
from tests.data.tiny_run import CLASS, MODELS, PIECE, RELATION, RUN_TABLES, TASK, VARIANTS, with_rows, write_run

pytestmark = pytest.mark.plain


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", RUN_TABLES)


def read(folder: Path, config: str, split: str = "train") -> list[dict]:
    files = sorted((folder / "data" / config).glob(f"{split}-*.parquet"))
    assert files, f"no file of {config}/{split}"
    return [row for path in files for row in pq.read_table(path).to_pylist()]


def test_every_config_and_split_has_a_file_with_the_declared_schema(run):
    done = publish(run)
    for folder, configs in ((done.dataset, DATASET), (done.bench, BENCH)):
        for config in configs:
            for split in config.splits:
                names = sorted(p.name for p in (folder / "data" / config.name).glob(f"{split}-*"))
                assert names == [f"{split}-00000-of-00001.parquet"]
                assert pq.read_schema(folder / "data" / config.name / names[0]).equals(config.schema)


def test_graph_rows_carry_exact_graph_source_and_provenance(run):
    (row,) = read(publish(run).dataset, "graphs")
    assert Graph.from_json(json.dumps(row["graph"])) == CLASS.graph
    assert "class GraphModule" in row["source"]
    assert [m["name"] for m in row["models"]] == ["alpha", "beta"]
    assert {m["library_version"] for m in row["models"]} == {"5.0"}
    assert (row["num_models"], row["licenses"]) == (2, ["apache-2.0", "mit"])


def test_pieces_are_filed_by_kind_and_keep_their_models(run):
    done = publish(run)
    assert [row["key"] for row in read(done.dataset, "fusible")] == [PIECE.key]
    assert read(done.dataset, "fusible")[0]["num_models"] == 2
    assert read(done.dataset, "sole_op") == read(done.dataset, "typical") == []


def test_failures_of_all_stages_are_published_and_a_model_without_config_has_no_architecture(run):
    done = publish(run)
    assert [row["item"] for row in read(done.dataset, "failures")] == ["gamma"]
    models = {row["name"]: row for row in read(done.dataset, "models")}
    assert models["gamma"]["architecture"] is None and models["gamma"]["classes"] == []
    assert models["alpha"]["classes"] == [CLASS.key]


def test_bench_rows_follow_their_task_into_its_split(run):
    done = publish(run)
    assert [row["task_id"] for row in read(done.bench, "tasks", "test")] == [TASK.task_id]
    assert read(done.bench, "tasks", "train") == read(done.bench, "subgraphs", "train") == []
    assert [row["index"] for row in read(done.bench, "subgraphs", "test")] == [0, 1, 2]
    (profile,) = read(done.bench, "profiles", "test")
    assert profile["machine"]["device"] == "cpu"


def test_the_number_of_models_named_is_bounded_but_all_are_counted(tmp_path):
    many = [replace(MODELS[0], model=f"m{i:03}", name=f"name{i:03}") for i in range(MAX_MODELS + 5)]
    links = [replace(RUN_TABLES["links"][0], model=row.model) for row in many]
    done = publish(write_run(tmp_path, with_rows(models=many, links=links)))
    (row,) = read(done.dataset, "graphs")
    assert len(row["models"]) == MAX_MODELS and row["num_models"] == MAX_MODELS + 5


def test_classes_beyond_the_cap_of_their_family_stand_in_a_split_of_their_own(tmp_path):
    rows = [replace(CLASS, key=f"class{i}", name=f"name{i}") for i in range(3)]
    relations = [replace(RELATION, key=row.key, rank=i, contributes=i < 2) for i, row in enumerate(rows)]
    done = publish(write_run(tmp_path, with_rows(classes=rows, relations=relations)))
    assert [(row["key"], row["family_rank"]) for row in read(done.dataset, "graphs")] == [("class0", 0), ("class1", 1)]
    assert [(row["key"], row["family_rank"]) for row in read(done.dataset, "graphs", "surplus")] == [("class2", 2)]


def test_members_count_the_models_behind_each_graph(run):
    (row,) = read(publish(run).dataset, "members")
    assert (row["graph_id"], row["key"], row["num_models"]) == ("graph", "class", 2)
    assert row["licenses"] == ["apache-2.0", "mit"]


def test_equal_content_reuses_the_version_and_changed_content_gets_the_next(run):
    first, again = publish(run), publish(run)
    assert first == again and first.dataset_version == "0.1.0"
    write_run(run, with_rows(models=[replace(MODELS[0], downloads=7), *MODELS[1:]]))
    changed = publish(run)
    assert (changed.dataset_version, changed.bench_version) == ("0.1.1", "0.1.0")
    assert os.readlink(changed.dataset.parent / "latest") == "0.1.1"
    assert json.loads((changed.dataset.parent / "latest.json").read_text())["version"] == "0.1.1"
    assert first.dataset.exists(), "an older version stays"


def test_two_runs_of_equal_tables_publish_equal_bytes(tmp_path):
    one, two = (publish(write_run(tmp_path / name, RUN_TABLES)) for name in ("one", "two"))
    for a, b in ((one.dataset, two.dataset), (one.bench, two.bench)):
        files = sorted(p.relative_to(a) for p in a.rglob("*") if p.is_file())
        assert files == sorted(p.relative_to(b) for p in b.rglob("*") if p.is_file())
        assert all((a / f).read_bytes() == (b / f).read_bytes() for f in files)
        assert not any(str(tmp_path).encode() in (a / f).read_bytes() for f in files)


@pytest.mark.parametrize("step", ["_finish", "_point"])
def test_a_kill_before_the_pointers_move_leaves_the_former_latest_and_the_next_call_repairs(run, monkeypatch, step):
    publish(run)
    write_run(run, with_rows(models=MODELS[:2]))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(publish_module, step, _killed)
        publish(run)
    home = run / "datasets" / "PassNet-Dataset"
    assert os.readlink(home / "latest") == "0.1.0" and len(read(home / "latest", "models")) == 3
    (home / ".building" / "data" / "models").mkdir(parents=True)  # what a kill -9 leaves
    (home / ".building" / "data" / "models" / "train-00000.parquet").write_bytes(b"half")
    done = publish(run)
    assert done.dataset_version == "0.1.1" and os.readlink(home / "latest") == "0.1.1"
    assert len(read(home / "latest", "models")) == 2 and not (home / ".building").exists()


def _killed(*args: object) -> None:
    raise KeyboardInterrupt


def test_shards_split_at_the_size_limit_and_are_numbered(run, monkeypatch):
    monkeypatch.setattr(publish_module, "ROW_GROUP_BYTES", 1)
    monkeypatch.setattr(publish_module, "SHARD_BYTES", 1)
    many = [replace(MODELS[0], model=f"m{i:03}", name=f"name{i:03}") for i in range(40)]
    write_run(run, with_rows(models=many, links=[]))
    folder = publish(run).dataset
    names = sorted(p.name for p in (folder / "data" / "models").iterdir())
    assert names == [f"train-{i:05}-of-00003.parquet" for i in range(3)]
    assert [row["model"] for row in read(folder, "models")] == [row.model for row in many]


def test_a_damaged_version_is_replaced_under_its_own_name(run):
    first = publish(run).dataset
    before = {path: path.read_bytes() for path in first.rglob("*") if path.is_file()}
    assert publish_module.damage(first) == []
    (first / "README.md").write_text("changed")
    next((first / "data" / "models").iterdir()).unlink()
    assert publish_module.damage(first) == ["README.md", "data/models/train-00000-of-00001.parquet"]
    assert publish(run).dataset == first
    assert {path: path.read_bytes() for path in first.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("text", ["garbage", "[]", "{}", '{"digest": "x", "files": 3}'])
def test_a_version_whose_manifest_is_damaged_stays_and_gets_a_successor(run, text):
    first = publish(run).dataset
    (first / "manifest.json").write_text(text)
    assert publish_module.damage(first) == ["manifest.json"]
    done = publish(run)
    assert (first.name, done.dataset_version) == ("0.1.0", "0.1.1")
    assert (first / "README.md").exists()


def test_a_folder_that_is_no_run_is_refused_in_one_line(tmp_path):
    with pytest.raises(ValueError, match="holds no models") as caught:
        publish(tmp_path)
    assert "\n" not in str(caught.value)


def test_bytes_of_a_new_version_differ_from_the_old_only_where_rows_or_version_do(run):
    first = publish(run)
    write_run(run, with_rows(models=[replace(MODELS[0], downloads=7), *MODELS[1:]]))
    second = publish(run)
    changed = sorted(
        str(p.relative_to(first.dataset))
        for p in first.dataset.rglob("*")
        if p.is_file() and p.read_bytes() != (second.dataset / p.relative_to(first.dataset)).read_bytes()
    )
    assert changed == ["README.md", "croissant.json", "data/models/train-00000-of-00001.parquet", "manifest.json"]


def test_splits_without_rows_are_not_declared_but_keep_a_file_with_their_columns(run):
    done = publish(run)
    head = (done.bench / "README.md").read_text().split("---")[1]
    assert "data/tasks/test-*.parquet" in head and "data/tasks/train-*.parquet" not in head
    assert "sole_op" not in (done.dataset / "README.md").read_text().split("---")[1]


def test_the_card_tells_the_funnel_the_fields_and_the_version(run):
    text = (publish(run).dataset / "README.md").read_text()
    assert text.count("version: 0.1.0") == 5  # one each config with rows: graphs, members, fusible, models, failures
    assert "| configs | 1 | 1 config_unsupported | 0 |" in text
    assert "| subgraphs | 1 | 0 | 2 over the budget of 40 |" in text
    assert "| `rule` | string | The rule that admitted it: fusible pieces are maximal, grown or" in text
    assert "- none declared" in text and "- mit" in text


def test_references_between_field_docs_are_resolved(run):
    text = (publish(run).dataset / "README.md").read_text()
    assert "As in" not in text
    assert "| `topology` | string | Ops and wiring only. |" in text


def test_the_croissant_file_names_every_file_with_rows_its_digest_and_columns(run):
    folder = publish(run).dataset
    found = json.loads((folder / "croissant.json").read_text())
    files = {item["@id"]: item["sha256"] for item in found["distribution"]}
    assert sorted(files) == [
        f"data/{c}/train-00000-of-00001.parquet" for c in ("failures", "fusible", "graphs", "members", "models")
    ]
    assert all(hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest for name, digest in files.items())
    columns = {s["name"].partition("-")[0]: {f["name"] for f in s["field"]} for s in found["recordSet"]}
    assert {"key", "source", "licenses"} <= columns["graphs"] and "models" not in columns["graphs"]


def test_readers_of_the_row_types_read_the_published_tables(run):
    done = publish(run)
    task = replace(TASK, licenses=("apache-2.0", "mit"))  # of both its models, now that they are known
    for cls, name, rows in ((Task, "tasks", [task]), (TaskVariant, "subgraphs", VARIANTS)):
        table = pq.read_table(done.bench / "data" / name / "test-00000-of-00001.parquet")
        wanted = schema_of(cls)
        assert from_table(table.select(wanted.names).cast(wanted), cls) == rows


def _publish_with_little_room(path: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
    try:
        publish(path)
    except StoreError as error:
        os.write(2, str(error).encode())
        os._exit(42)
    os._exit(0)


def test_a_full_disk_is_explained_and_leaves_the_former_version(run, capfd):
    first = publish(run)
    before = {p: p.read_bytes() for p in first.dataset.rglob("*") if p.is_file()}
    write_run(run, with_rows(models=MODELS[:2]))
    child = multiprocessing.get_context("fork").Process(target=_publish_with_little_room, args=(run,))
    child.start()
    child.join(30)
    assert child.exitcode == 42
    text = capfd.readouterr().err
    assert "nothing already built is lost" in text and len(text.splitlines()) == 1
    home = first.dataset.parent
    assert sorted(os.listdir(home)) == ["0.1.0", "latest", "latest.json"] and os.readlink(home / "latest") == "0.1.0"
    assert all(path.read_bytes() == content for path, content in before.items())
