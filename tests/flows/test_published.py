"""Task folders of the published layout: there and back without loss, and every way in which one can be wrong."""

import hashlib
import shutil

import pytest
import torch
from typer.testing import CliRunner

from extract.samples import write_sample
from flows.cli import app
from flows.published import export_task, graph_folders, import_tasks
from passbench.tasks import Shelf
from schemas.canonical import canonicalize
from tests.passbench.cases import AddRelu, variants_of

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def variants():
    kinds = [(size, dtype) for dtype in (torch.float32, torch.bfloat16) for size in (6, 9)]
    return variants_of(AddRelu(), [[torch.randn(4, size, dtype=t), torch.randn(4, size, dtype=t)] for size, t in kinds])


@pytest.fixture
def folder(variants, tmp_path):
    task = tmp_path / "published"
    for row in variants:
        write_sample(row.graph, task / "graphs" / row.dtype / str(row.index))
    (task / "graph_list.txt").write_text("".join(f"{row.dtype}/{row.index}\n" for row in variants))
    return task


def test_a_task_folder_becomes_a_task_with_all_its_graphs(folder, variants, tmp_path):
    (task,) = import_tasks([folder], tmp_path / "tables").tasks
    shelf = Shelf(tmp_path / "tables")
    read = shelf.variants(task.task_id)
    assert task.num_variants == len(read) == 4 and task.title.startswith("add > relu")
    for one, two in zip(variants, read, strict=True):
        assert canonicalize(one.graph).keys == canonicalize(two.graph).keys
    assert [row.dtype for row in read] == ["float32", "float32", "bfloat16", "bfloat16"]


def test_a_task_written_in_the_layout_is_the_same_task_when_read(folder, tmp_path):
    (task,) = import_tasks([folder], tmp_path / "one").tasks
    written = export_task(Shelf(tmp_path / "one"), task.task_id, tmp_path / "out")
    uids = (written / "sample_uids.txt").read_text().split(",")
    assert written.name == hashlib.sha256("\n".join(sorted(uids)).encode()).hexdigest()
    assert len(uids) == 4 and all(len(uid) == 32 for uid in uids) and (written / "pass_dir").is_dir()
    (again,) = import_tasks([written], tmp_path / "two").tasks
    assert again.task_id == task.task_id and again.structure == task.structure
    with pytest.raises(ValueError, match="exists"):
        export_task(Shelf(tmp_path / "one"), task.task_id, tmp_path / "out")


@pytest.mark.parametrize(
    "text, words", [("", "names no graph"), ("../x\n", "not below"), ("/etc\n", "not below"), ("nope\n", "no model.py")]
)
def test_a_wrong_list_is_refused(folder, text, words):
    (folder / "graph_list.txt").write_text(text)
    with pytest.raises(ValueError, match=words):
        graph_folders(folder)


def test_a_graph_that_cannot_be_read_refuses_the_task_and_nothing_is_written(folder, tmp_path):
    (folder / "graphs" / "float32" / "0" / "model.py").write_text("import os\nos.system('true')\n")
    done = CliRunner().invoke(app, ["import-task", str(folder), "--out", str(tmp_path / "tables")])
    assert done.exit_code == 2 and "0 classes instead of one" in done.output.replace("\n", " ")
    assert not (tmp_path / "tables").exists()


def test_the_same_task_twice_is_told(folder, tmp_path):
    found = import_tasks([folder, folder], tmp_path / "tables")
    assert len(found.tasks) == 1 and [item.why for item in found.refused] == [f"the same task as {folder}"]


def test_a_batch_is_imported_in_one_go_with_a_table_of_what_was_not(folder, variants, tmp_path):
    batch = tmp_path / "samples"
    for name in ("aa/good", "aa/broken", "bb/listless", "bb/narrow"):
        shutil.copytree(folder, batch / name)
    (batch / "aa/broken/graphs/float32/0/model.py").write_text("import os\n")
    (batch / "bb/listless/graph_list.txt").write_text("")
    (batch / "bb/narrow/graph_list.txt").write_text("float32/0\n")
    done = CliRunner().invoke(app, ["import-task", str(batch), str(tmp_path / "nowhere"), "--out", str(tmp_path / "t")])
    text = " ".join(done.output.split())
    assert done.exit_code == 1 and "2 of 5 tasks in" in text and "3 folders not imported" in text
    assert "aa/broken" in text and "names no graph" in text and "nowhere" in text
    assert sorted(task.num_variants for task in Shelf(tmp_path / "t").tasks()) == [1, 4]
    again = CliRunner().invoke(app, ["import-task", str(batch), "--out", str(tmp_path / "t")])
    assert again.exit_code == 2 and "holds tasks already" in again.output
    whole = CliRunner().invoke(app, ["import-task", str(batch / "aa/good"), "--out", str(tmp_path / "u")])
    assert whole.exit_code == 0 and "1 of 1 tasks" in " ".join(whole.output.split())
