"""Why items failed: counts, explanations of every kind, bars in text and as a picture."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console
from typer.testing import CliRunner

from flows.build import Plan, build
from flows.cli import app
from flows.config import BuildConfig
from flows.failures import Failures, KindCount, bar, chart, print_failures
from schemas.failures import EXPLANATIONS, FailureKind
from schemas.rows import Failure, Text
from tests.flows.toy import TOY

pytestmark = pytest.mark.slow


def failure(stage: str, name: str, message: str = "no") -> Failure:
    return Failure(
        stage=stage, item=name, name=name, kind=FailureKind.OOM, exception="", message=message, detail=Text("")
    )


FOUND = Failures(
    title="run", reads={"models": 90, "graphs": 40},
    kinds=(
        KindCount(kind=FailureKind.GRAPH_BREAK, count=6, stages={"graphs": 6}, examples=(failure("graphs", "a <b>"),)),
        KindCount(kind=FailureKind.OOM, count=2, stages={"models": 1, "graphs": 1}, examples=(failure("graphs", "c"),)),
    ),
)  # fmt: skip


def test_every_kind_is_explained_in_one_line():
    assert set(EXPLANATIONS) == set(FailureKind)
    for kind, explained in EXPLANATIONS.items():
        assert explained.cause and explained.advice and "\n" not in explained.cause + explained.advice, kind


def test_bars_are_proportional_and_never_empty():
    assert len(bar(100, 100)) == 28 and len(bar(50, 100)) == 14
    assert bar(1, 100_000)


def test_the_text_says_how_many_why_and_what_to_do(capsys):
    print_failures(Console(width=150), FOUND)
    text = capsys.readouterr().out
    assert "8 failed; models: 1 of 90 (1.1%); graphs: 7 of 40 (17.5%)" in text
    assert "75.0%" in text and "25.0%" in text
    assert EXPLANATIONS[FailureKind.OOM].advice in text and "a <b>: no" in text
    assert "passnet show graphs.failures" in text


def test_the_chart_is_svg_with_bars_in_proportion():
    root = ElementTree.fromstring(chart(FOUND))
    space = "{http://www.w3.org/2000/svg}"
    bars = [[float(rect.get("width", 0)) for rect in group.iter(f"{space}rect")] for group in root.iter(f"{space}g")]
    assert [len(widths) for widths in bars] == [1, 2]
    assert sum(bars[0]) == pytest.approx(3 * sum(bars[1]), abs=0.5)
    words = " ".join(text.text or "" for text in root.iter(f"{space}text"))
    assert "8 items failed" in words and "graph_break" in words and "graphs: 7 of 40 (17.5%)" in words
    assert "nothing failed" in chart(Failures(title="run", reads={}, kinds=()))


def test_the_verb_counts_the_failures_of_a_run(tmp_path):
    run = tmp_path / "run"
    config = BuildConfig(settings={"models": {"names": ["a", "b", "key-error", "os-exit"]}})
    build(run, config, Plan(stages=TOY, publish=""))
    picture = tmp_path / "failures.svg"
    done = CliRunner().invoke(app, ["failures", "--out", str(run), "--json", "--chart", str(picture)])
    found = json.loads(done.stdout)
    assert done.exit_code == 0 and found["failed"] == sum(kind["count"] for kind in found["kinds"].values()) > 0
    assert found["kinds"]["crash"]["retry"] == "again" and found["kinds"]["crash"]["examples"][0]["name"] == "os-exit"
    assert Path(picture).read_text().startswith("<svg")
    done = CliRunner().invoke(app, ["failures", "nope", "--out", str(run)])
    assert done.exit_code == 2 and "no stage is called 'nope'" in done.stderr
