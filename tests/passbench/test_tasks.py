"""Loading tasks, the command line and the results folder, on tables written here."""

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

from passbench import oracle
from passbench.check import stride_order
from passbench.cli import app
from passbench.inputs import materialize
from passbench.results import read_results
from passbench.tasks import Shelf, find_task
from passbench.wire import WireError, decode, encode
from schemas.arrow import to_table
from schemas.rows import Task, TaskVariant
from tests.passbench.cases import KERNEL, TASK_ID, AddRelu, LayerNorm, captured, submission_at, task_of, variants_of

pytestmark = pytest.mark.torch
runner = CliRunner()


@pytest.fixture(scope="module")
def variants():
    return variants_of(AddRelu(), [[torch.randn(4, 60), torch.randn(4, 60)], [torch.randn(7), torch.randn(7)]])


def with_source(table):
    return table.append_column("source", pa.array(["code"] * table.num_rows))


@pytest.fixture
def bench(tmp_path, variants):
    home = tmp_path / "run" / "datasets" / "PassBench"
    data = home / "0.1.0" / "data"
    for name in ("tasks", "subgraphs"):
        (data / name).mkdir(parents=True)
    pq.write_table(with_source(to_table([task_of(variants)], Task)), data / "tasks" / "test-00000-of-00001.parquet")
    pq.write_table(to_table([], Task), data / "tasks" / "train-00000-of-00001.parquet")
    pq.write_table(with_source(to_table(variants, TaskVariant)), data / "subgraphs" / "test-00000-of-00001.parquet")
    os.symlink("0.1.0", home / "latest")
    return tmp_path / "run"


@pytest.mark.parametrize(
    "part", ["", "datasets/PassBench", "datasets/PassBench/latest", "datasets/PassBench/0.1.0", "datasets"]
)
def test_a_run_a_dataset_and_a_version_are_all_found(bench, variants, part):
    shelf = Shelf(bench / part)
    assert [task.task_id for task in shelf.tasks()] == [TASK_ID]
    assert shelf.variants(TASK_ID) == variants


def test_a_runs_own_tables_are_read_where_nothing_is_published(tmp_path, variants):
    for name, rows, cls in (("tasks", [task_of(variants)], Task), ("variants", variants, TaskVariant)):
        (tmp_path / name).mkdir()
        pq.write_table(to_table(rows, cls), tmp_path / name / "part-00000.parquet")
    assert Shelf(tmp_path).variants(TASK_ID) == variants


def test_nothing_there_and_broken_tables_are_one_clear_line(tmp_path, bench):
    with pytest.raises(ValueError, match=r"no tasks at .*passnet build"):
        Shelf(tmp_path / "nowhere")
    path = next((bench / "datasets/PassBench/0.1.0/data/tasks").glob("test*"))
    path.write_bytes(b"not parquet")
    with pytest.raises(ValueError, match=r"test-00000-of-00001.parquet: not a table of Task"):
        Shelf(bench).tasks()


def test_tasks_are_found_by_id_beginning_title_and_structure(variants):
    task = task_of(variants)
    assert all(find_task([task], text) is task for text in (TASK_ID, TASK_ID[:6], "add > relu", "relu", "structure-1"))
    with pytest.raises(ValueError, match="no task is named 'gelu'; there are 1"):
        find_task([task], "gelu")
    with pytest.raises(ValueError, match="titles of 2 tasks"):
        find_task([task, task_of(variants, title="add > relu > add")], "rel")


def test_list_and_show(bench):
    listed = runner.invoke(app, ["list", "--tasks", str(bench)])
    assert listed.exit_code == 0 and TASK_ID[:12] in listed.stdout and "add > relu" in listed.stdout
    as_json = runner.invoke(app, ["list", "--tasks", str(bench), "--json"])
    assert json.loads(as_json.stdout)["num_variants"] == 2
    shown = runner.invoke(app, ["show", "relu", "--tasks", str(bench), "--variant", "1"])
    assert shown.exit_code == 0 and "torch.relu" in shown.stdout and "float32" in shown.stdout


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["show", "gelu"], "no task is named"),
        (["show", "relu", "--variant", "9"], "there is no variant 9"),
        (["run", "nowhere", "--task", "relu"], "no submission folder"),
        (["run", "nowhere", "--preset", "best"], "no preset 'best'"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(bench, arguments, words):
    done = runner.invoke(app, [*arguments, "--tasks", str(bench)])
    assert done.exit_code == 2 and words in done.stderr and done.stderr.count("\n") == 1


def test_run_writes_results_that_score_reads(bench, tmp_path):
    out = tmp_path / "out"
    folder = submission_at(tmp_path / "pass", **{"task.json": '{"task": "add > relu"}'})
    done = runner.invoke(app, ["run", str(folder), "--tasks", str(bench), "--out", str(out), "--no-inductor"])
    assert done.exit_code == 0, done.output
    assert "PASSED" in done.stdout and "speed not measured" in done.stdout and "2 of 2 correct" in done.stdout
    (stored,) = read_results(out)
    assert [row.verdict.value for row in stored.rows] == ["PASSED", "PASSED"]
    readable = json.loads((stored.folder / "results.json").read_text())
    assert readable["settings"]["draws"] == 3 and len(readable["results"]) == 2
    refused = runner.invoke(app, ["score", str(out)])
    assert refused.exit_code == 2 and "speed was not measured" in refused.stderr
    scored = runner.invoke(app, ["score", str(out), "--unit-speed", "--json"])
    assert json.loads(scored.stdout)["speed"] == "not measured: s = 1"


def test_a_syntax_error_is_one_line_exit_code_1_and_n_rows(bench, tmp_path):
    folder = submission_at(tmp_path / "pass", KERNEL + "def (:\n")
    arguments = ["run", str(folder), "--task", "relu", "--tasks", str(bench), "--out", str(tmp_path / "out")]
    done = runner.invoke(app, arguments)
    assert done.exit_code == 1 and "rejected (syntax): add_relu.py:" in done.stderr and done.stderr.count("\n") == 1
    assert [row.rule for row in read_results(tmp_path / "out")[0].rows] == ["syntax", "syntax"]


def test_an_unwritable_out_is_one_line(bench, tmp_path):
    (tmp_path / "out").write_text("a file")
    folder = submission_at(tmp_path / "pass", KERNEL + "def (:\n")
    arguments = ["run", str(folder), "--task", "relu", "--tasks", str(bench), "--out", str(tmp_path / "out")]
    done = runner.invoke(app, arguments)
    assert done.exit_code == 2 and "cannot write results" in done.stderr


@pytest.mark.parametrize(
    "value",
    [
        torch.randn(3, 4).t(), torch.tensor(2.5, dtype=torch.bfloat16), torch.zeros(0, 3), torch.tensor([True, False]),
        torch.randn(2, 3, dtype=torch.complex64), torch.arange(4).to(torch.uint16),
        torch.randn(4).to(torch.float8_e4m3fn), torch.randn(2, 1, 3)[:, :, ::2], torch.ones(1).expand(3, 4),
    ],
)  # fmt: skip
def test_tensors_survive_the_wire_with_their_stride_class(value):
    described, blobs = encode([value, None, 3, float("inf")])
    found = decode(json.loads(json.dumps(described)), [bytearray(blob) for blob in blobs])
    assert found[1:] == [None, 3, float("inf")]
    assert found[0].dtype == value.dtype and found[0].shape == value.shape
    assert found[0].tolist() == value.tolist() if value.dtype != torch.float8_e4m3fn else True
    assert stride_order(value.shape, found[0].stride()) == stride_order(value.shape, value.stride())


@pytest.mark.parametrize(
    "described, blobs",
    [
        ([{"dtype": "float32", "shape": [2], "stride": [1]}], [b"1234"]),
        ([{"dtype": "float32", "shape": [-1], "stride": [1]}], [b"1234"]),
        ([{"dtype": "float32", "shape": [1], "stride": [1, 1]}], [b"1234"]),
        ([{"dtype": "object", "shape": [1], "stride": [1]}], [b"1234"]),
        ([{"dtype": "float32", "shape": [1], "stride": [1]}], []),
        ([], [b"1234"]),
        ([{"scalar": "text"}], []),
        ("outputs", []),
        ([{"dtype": "float32", "shape": [True], "stride": [1]}], [b"1234"]),
        ([{"dtype": "float32", "shape": [2**47, 2**47, 0], "stride": [1, 1, 1]}], [b""]),
        ([{"dtype": "float32", "shape": [0] * 65, "stride": [1] * 65}], [b""]),
    ],
)
def test_tensors_that_lie_about_themselves_are_refused(described, blobs):
    with pytest.raises(WireError):
        decode(described, [bytearray(blob) for blob in blobs])


def test_a_subclass_of_tensor_does_not_leave_the_worker():
    with pytest.raises(TypeError, match="not a plain tensor"):
        encode([torch.Tensor._make_subclass(type("Lazy", (torch.Tensor,), {}), torch.ones(2))])


def test_the_oracle_widens_explicit_casts_too():
    class Cast(torch.nn.Module):
        def forward(self, x, y):
            return (x.to(torch.float16) + y).float().sum(-1), torch.argmax(x)

    graph = captured(Cast(), torch.randn(3, 1000), torch.randn(3, 1000))
    inputs = materialize(graph, seed=1)
    total, index = oracle.oracle_outputs(graph, inputs, 2).values
    assert total.dtype == torch.float64 and index is None
    torch.testing.assert_close(total, (inputs[0].double() + inputs[1].double()).sum(-1))
    assert oracle.oracle_outputs(graph, inputs[:1], 2).values == [None, None]


def test_the_oracle_agrees_with_a_float64_layer_norm():
    args = [torch.randn(4, 768), torch.randn(4, 768), torch.randn(768), torch.randn(768)]
    graph = captured(LayerNorm(), *args)
    inputs = materialize(graph, seed=2)
    (found,) = oracle.oracle_outputs(graph, inputs, 1).values
    torch.testing.assert_close(found, LayerNorm()(*[value.double() for value in inputs]))


@pytest.mark.parametrize(
    "words, line",
    [
        (["--draws", "0"], "draws of at least 1 and a positive timeout, not cpu, 0 and 120"),
        (["--timeout", "-1"], "a positive timeout, not cpu, 3 and -1"),
        (["--device", "tpu"], "settings need device cpu or cuda"),
        (["--device", "cuda"], "torch finds no GPU"),
    ],
)
def test_impossible_settings_are_one_line(bench, tmp_path, monkeypatch, words, line):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    arguments = ["run", str(submission_at(tmp_path / "pass")), "--task", "relu", "--tasks", str(bench)]
    done = runner.invoke(app, [*arguments, "--out", str(tmp_path / "out"), *words])
    assert done.exit_code == 2 and line in done.stderr and done.stderr.count("\n") == 1, done.output
