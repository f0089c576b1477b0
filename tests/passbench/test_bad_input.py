"""Submissions that overwhelm the parser, and wrong arguments of the command line: one line each."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from passbench.cli import app
from passbench.policy import inspect_sources
from passbench.submission import Rejected, freeze
from passbench.tasks import Shelf
from tests.data.tiny_run import RUN_TABLES, TASK, VARIANTS, with_rows, write_run

pytestmark = pytest.mark.plain

DEEP = {
    "sum": "x = " + "+".join(["1"] * 20_000),
    "signs": "x = " + "-" * 20_000 + "1",
    "brackets": "x = " + "(" * 3000 + ")" * 3000,
    **{f"dots {count}": "x = a" + ".b" * count for count in (300, 500, 700, 900, 960, 5000)},
    "nul": "x = 1\0",
    "encoding": "# coding: no-such\n",
}


def submission(folder: Path, source: str, order: str = '["p"]') -> Path:
    folder.mkdir()
    (folder / "p.py").write_text(source)
    (folder / "sorted_output_pass_rule_names.json").write_text(order)
    return folder


@pytest.mark.parametrize("name", list(DEEP))
def test_source_that_overwhelms_the_parser_is_rejected_in_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(Rejected) as caught:
        inspect_sources(freeze(submission(tmp_path / "s", DEEP[name])), max_patterns=100)
    assert caught.value.rule in ("syntax", "contract")
    assert str(caught.value).startswith("p.py") and "\n" not in str(caught.value)


def test_json_that_overwhelms_the_parser_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"not JSON") as caught:
        freeze(submission(tmp_path / "s", "", order="[" * 100_000))
    assert caught.value.rule == "order-file"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", with_rows(tasks=[replace(TASK, num_variants=len(VARIANTS))]))


def test_a_split_that_does_not_exist_lists_those_that_do(run: Path) -> None:
    assert RUN_TABLES["tasks"]
    done = CliRunner().invoke(app, ["list", "--tasks", str(run), "--split", "tset"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"passbench: no task is in split 'tset'; there are {TASK.split}\n"


@pytest.mark.parametrize("latest", [None, "0.1.9"])
def test_a_run_whose_datasets_are_not_published_or_lost_lends_its_own_tables(run: Path, latest: str | None) -> None:
    if latest:
        home = run / "datasets" / "PassBench"
        home.mkdir(parents=True)
        (home / "latest").symlink_to(latest)
    assert Shelf(run).variants(TASK.task_id) == sorted(VARIANTS, key=lambda row: row.index)
