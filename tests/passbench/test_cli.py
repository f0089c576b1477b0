"""The command line: some variants alone, JSON with diagnoses, other spellings and sizes of a task, contracts."""

import json

import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

from passbench.call_forms import call_forms, form_lines
from passbench.cli import app
from schemas.arrow import to_table
from schemas.rows import Task, TaskVariant
from tests.passbench.cases import submission_at, task_of, variants_of

pytestmark = pytest.mark.torch


class Either(torch.nn.Module):
    """relu(x + y) in one of three spellings."""

    def __init__(self, spelling):
        super().__init__()
        self.spelling = spelling

    def forward(self, x, y):
        if self.spelling == "method":
            return (x + y).relu()
        return torch.relu(torch.add(x, y)) if self.spelling == "add" else torch.relu(x + y)


@pytest.fixture(scope="module")
def variants():
    found = []
    for index, spelling in enumerate(["function", "method", "function", "add"]):
        (row,) = variants_of(Either(spelling), [[torch.randn(4, 6 + index), torch.randn(4, 6 + index)]])
        found.append(TaskVariant(**{**{n: getattr(row, n) for n in row.__slots__}, "index": index}))
    return found


@pytest.fixture
def shelf(variants, tmp_path):
    for name, rows, cls in (("tasks", [task_of(variants)], Task), ("variants", variants, TaskVariant)):
        (tmp_path / "run" / name).mkdir(parents=True)
        pq.write_table(to_table(rows, cls), tmp_path / "run" / name / "part-0.parquet")
    return tmp_path / "run"


def invoke(*words):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, list(map(str, words)))


def test_variants_that_differ_in_names_and_sizes_share_a_form(variants):
    forms = call_forms(variants)
    assert [form.indices for form in forms] == [(0, 2), (1,), (3,)]
    assert forms[0].differing == () and [len(form.differing) for form in forms[1:]] == [1, 1]
    assert ".relu()" in forms[1].differing[0] and form_lines(variants[:1], 0) == []


def test_show_prints_every_spelling_and_the_sizes_that_are_drawn(shelf, variants):
    done = invoke("show", variants[0].task_id, "--tasks", shelf, "--variant", 1)
    assert done.exit_code == 0 and "3 spellings among the variants" in done.output
    assert "variants 1: as printed" in done.output and "torch.relu(" in done.output
    assert "size 7 may become one of" in done.output and "--contract published" in done.output


def test_some_variants_can_be_graded_alone(shelf, variants, tmp_path):
    pass_folder = submission_at(tmp_path / "pass")
    options = ("--tasks", shelf, "--task", variants[0].task_id, "--no-inductor", "--draws", 1)
    done = invoke("run", pass_folder, *options, "--out", tmp_path / "r", "--variants", "0,1", "--json")
    found = json.loads(done.stdout)
    assert done.exit_code == 0 and found["task_score"] is None and not list((tmp_path / "r").iterdir())
    verdicts = [(row["index"], row["verdict"]) for row in found["results"]]
    assert verdicts == [(0, "PASSED"), (1, "PARTIAL_MATCH")] and found["results"][1]["detail"]
    bad = invoke("run", pass_folder, *options, "--variants", "0,9")
    assert bad.exit_code == 2 and "there is no variant '9'" in bad.output
    odd = invoke("run", pass_folder, *options, "--out", tmp_path / "r", "--contract", "other")
    assert odd.exit_code == 2 and "no contract 'other'" in odd.output


def test_json_of_a_run_and_of_its_score_hold_the_diagnoses(shelf, variants, tmp_path):
    pass_folder = submission_at(tmp_path / "pass")
    options = ("--tasks", shelf, "--task", variants[0].task_id, "--no-inductor", "--draws", 1)
    done = invoke("run", pass_folder, *options, "--out", tmp_path / "r", "--json", "--contract", "published")
    assert done.exit_code == 0, done.output
    ran = json.loads(done.stdout)
    assert [row["verdict"] for row in ran["results"]] == ["PASSED", "PARTIAL_MATCH", "PASSED", "PARTIAL_MATCH"]
    scored = json.loads(invoke("score", tmp_path / "r", "--unit-speed", "--json").stdout)
    assert scored["results"] == ran["results"] and scored["task_score"] == ran["task_score"]
    changed = json.loads(invoke("score", tmp_path / "r", "--unit-speed", "--json", "--b", "0.5").stdout)
    assert changed["task_score"] > scored["task_score"] and changed["preset"]["name"] == "published, changed"
    refused = invoke("score", tmp_path / "r", "--unit-speed", "--classes", "colour=1")
    assert refused.exit_code == 2 and "is no class map" in refused.output
