"""Paired comparison of two submissions: the difference, its interval, and every reason to refuse."""

import math
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from passbench.cli import app
from passbench.compare import compare, lines_of
from passbench.entries import read_entries
from passbench.score import PRESETS
from tests.passbench.stored_results import ENVIRONMENT, SETTINGS, rows_of, task_named, write

pytestmark = pytest.mark.plain

FAST = [[1.5, 1.2], [2.0, 1.0], [1.1, "NO_MATCH"], [0.9, 1.3], [1.4, 1.4], [3.0, 2.0], [1.0, 1.6], [0.8, 1.1]]


def made(folder, factor=1.0, submission="sub", speeds=FAST, **more):
    for k, row in enumerate(speeds):
        scaled = [speed if isinstance(speed, str) else speed * factor for speed in row]
        rows = rows_of(f"t{k}", scaled, submission, more.get("isolation", "namespaces"))
        rest = {name: value for name, value in more.items() if name != "isolation"}
        write(folder / f"t{k}", task_named(f"t{k}", len(row)), rows, **rest)
    return read_entries(folder, PRESETS["passnet"])


def test_a_constant_factor_is_found_exactly_and_with_certainty(tmp_path):
    a, b = made(tmp_path / "a", 1.25, "new"), made(tmp_path / "b")
    found = compare(a, b)
    # the factor counts where a subgraph is correct, that is in 15 of 16, at the levels from -5 on
    logs = [math.log(one.score.task_score / two.score.task_score) for one, two in zip(a, b, strict=True)]
    assert math.isclose(found.ratio, math.exp(sum(logs) / 8)) and 1.15 < found.ratio < 1.25
    assert found.interval.low > 1 and found.verdict == "A is better" and compare(b, a).verdict == "B is better"
    assert math.isclose(compare(b, a).ratio * found.ratio, 1.0)
    speed = next(item for item in found.beside if "speed" in item.name)
    assert math.isclose(speed.value, math.log(1.25)) and speed.interval.low <= speed.value <= speed.interval.high
    assert {item.name: item.value for item in found.beside}["coverage"] == 0.0
    assert any("A is better" in line for line in lines_of(found))


def test_equal_submissions_show_no_difference_and_few_tasks_no_interval(tmp_path):
    a = made(tmp_path / "a")
    assert compare(a, a).verdict == "no difference is shown" and compare(a, a).ratio == 1.0
    assert compare(a[:3], a[:3]).interval is None and compare(a[:3], a[:3]).verdict == "too few tasks to say"


@pytest.mark.parametrize(
    "more, words",
    [
        ({"isolation": "limits"}, "isolation: namespaces against limits"),
        ({"environment": replace(ENVIRONMENT, processor="Abacus 4")}, "device: cpu, Abacus 3, 1 threads against"),
        ({"environment": replace(ENVIRONMENT, torch="2.15")}, "software: torch 2.14, triton 3.8 against torch 2.15"),
        ({"settings": {**SETTINGS, "draws": 1}}, "grading: draws 3"),
        ({"speeds": FAST[:4]}, "task set: only A has title of t4, title of t5, title of t6 and 1 more"),
    ],
)
def test_unequal_settings_are_refused_by_name(tmp_path, more, words):
    a, b = made(tmp_path / "a"), made(tmp_path / "b", **more)
    with pytest.raises(ValueError, match=words):
        compare(a, b)


@pytest.mark.parametrize(
    "preset, words",
    [("graphnet", "b: 0.001 against 0.1"), ("paper", "map: default v2, current weights against paper v2")],
)
def test_scores_of_other_presets_are_refused_by_name(tmp_path, preset, words):
    a = made(tmp_path / "a")
    with pytest.raises(ValueError, match=words):
        compare(a, read_entries(tmp_path / "a", PRESETS[preset]))


def test_two_submissions_or_a_task_twice_on_one_side_are_refused(tmp_path):
    a = made(tmp_path / "a")
    with pytest.raises(ValueError, match="B holds a task twice"):
        compare(a, [*a, *a])
    with pytest.raises(ValueError, match="A holds 2 submissions"):
        compare([*a, *made(tmp_path / "b", submission="other")], a)
    with pytest.raises(ValueError, match="A: scores of unequal settings"):
        compare([*a[:3], *made(tmp_path / "c", isolation="limits")[3:]], a)


def test_a_submission_that_is_nowhere_correct_is_comparable_with_any_speed(tmp_path):
    failed = made(tmp_path / "a", speeds=[["COMPILE_ERROR", "NO_MATCH"]] * 8)
    assert compare(failed, made(tmp_path / "b")).ratio < 0.01


def test_the_command_prints_the_ratio_and_refuses_in_one_line(tmp_path):
    made(tmp_path / "a", 1.25, "new"), made(tmp_path / "b"), made(tmp_path / "c", isolation="limits")
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "a"), str(tmp_path / "b")])
    assert done.exit_code == 0 and "A is better" in done.output
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "a"), str(tmp_path / "c")])
    assert done.exit_code == 2 and "isolation: namespaces against limits" in done.output


def test_a_void_task_is_refused_by_name_and_the_command_that_scores_it_fails(tmp_path):
    a = made(tmp_path / "a")
    b = made(tmp_path / "b", speeds=[*FAST[:-1], [1.0, "HARNESS_ERROR"]])
    with pytest.raises(ValueError, match="B has no score on title of t7: the harness failed on 1 of 2 subgraphs"):
        compare(a, b)
    for folder, code, words in ((tmp_path / "b", 3, "1 task of 8 void"), (tmp_path / "a", 0, "")):
        for more in ([], ["--json"]):
            done = CliRunner().invoke(app, ["score", str(folder), *more])
            assert done.exit_code == code and words in done.stderr, done.output
    done = CliRunner().invoke(app, ["score", str(tmp_path / "b")])
    assert "no score: the harness failed on 1 of 2" in done.stdout and "8 tasks:" not in done.stdout
