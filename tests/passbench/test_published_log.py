"""Published evaluation logs, written here line by line: levels, classes, traps, and the score of what is read."""

import math

import pytest
from typer.testing import CliRunner

from passbench.cli import app
from passbench.published_log import SLOPES, parse_log, rescore, rows_of
from passbench.score import PRESETS, score_task
from schemas.rows import Verdict

pytestmark = pytest.mark.plain
TAG = "graph-net-test-compiler-log"


def block(graph, *, dtypes=("float32",), compiled=None, levels=None, speed=1.2, equal="0", more=()):
    """One graph; `levels`: for every output the level from which it agrees (99: never); None: no all_close line."""
    lines = [f"{TAG} [Processing] {graph}", f"{TAG} [Config] hardware: Abacus 3"]
    if dtypes:
        lines.append(f"{TAG} [Datatype][eager]: {' '.join(dtypes)}")
        lines.append(f"{TAG} [Datatype][compiled]: {' '.join(compiled or dtypes)}")
    if levels is not None:
        lines.append(f"{TAG} [Correctness][equal]: {' '.join([equal] * len(dtypes))}")
        for level in range(-10, 6):
            flags = " ".join(str(int(level >= start)) for start in levels)
            for a, r in SLOPES.values():
                name = f"all_close_atol_{10 ** (a * level):.2E}_rtol_{10 ** (r * level):.2E}"
                lines.append(f"{TAG} [Correctness][{name}]: {flags}")
        lines.append(f"{TAG} [Speedup][e2e]: {speed}")
    return "\n".join([*lines, *more, ""])


def only(text):
    (found,) = parse_log(text)
    return found


@pytest.mark.parametrize("dtype", sorted(SLOPES))
def test_the_level_is_read_from_the_lines_of_the_outputs_dtype(dtype):
    found = only(block("a", dtypes=(dtype,), levels=[-6]))
    assert (found.verdict, found.correct_from, found.speedup) == (Verdict.PASSED, -6, 1.2)


def test_lines_are_named_with_three_digits_as_published():
    text = block("a", levels=[-10])
    assert "all_close_atol_1.00E-10_rtol_1.69E-12]" in text and "all_close_atol_1.00E-05_rtol_1.00E-03]" in text


def test_the_worst_output_decides_and_whole_numbers_must_be_equal():
    assert only(block("a", dtypes=("float32", "float16"), levels=[-9, -2])).correct_from == -2
    assert only(block("a", dtypes=("int64",), levels=[-9], equal="1")).correct_from == -10
    assert only(block("a", dtypes=("int64",), levels=[-9], equal="0")).correct_from is None


@pytest.mark.parametrize(
    "text, verdict",
    [
        (block("a", levels=[2]), "WRONG_VALUE"),
        (block("a", levels=[99], more=[f"{TAG} [Correctness][max_diff]: nan"]), "NON_FINITE"),
        (block("a", compiled=("float16",)), "WRONG_DTYPE"),
        (block("a"), "WRONG_SHAPE"),
        (block("a", dtypes=(), more=["RuntimeError: the compiled model failed to compile"]), "COMPILE_ERROR"),
        (block("a", dtypes=(), more=["RuntimeError: No passes modified: pattern not matched"]), "COMPILE_ERROR"),
        (block("a", dtypes=(), more=["KeyError: nothing", f"{TAG} [Result] status: failed"]), "RUNTIME_ERROR"),
        (block("a", dtypes=()), "RUNTIME_ERROR"),
        (block("a", dtypes=(), more=["Error: running the eager model failed"]), "HARNESS_ERROR"),
        (block("a", levels=[-9], more=[f"{TAG} [Speedup][e2e]: 999"]), "INTEGRITY"),
        (block("a", levels=[-1], more=[f"{TAG} [Correctness][all_close_atol_1.00E-05_rtol_1.30E-06]: 1"]), "INTEGRITY"),
    ],
)
def test_every_failure_has_its_verdict(text, verdict):
    found = only(text)
    assert found.verdict.value == verdict and found.detail and "\n" not in found.detail


def test_a_log_is_scored_by_the_published_definition():
    text = block("a", levels=[-10], speed=2.0) + block("b", levels=[-2], speed=0.5) + block("c", dtypes=())
    found = rescore(parse_log(text), PRESETS["passnet"])
    assert math.isclose(found.es[-5], (2.0 * 0.001 * 0.001) ** (1 / 3)) and found.total == 3
    assert math.isclose(found.es[-2], (2.0 * 0.5 * 0.001) ** (1 / 3))
    assert math.isclose(found.es[3], 1.0)  # the runtime failure is tolerated from t = 3 on
    assert found.verdicts == {"PASSED": 1, "RUNTIME_ERROR": 1, "WRONG_VALUE": 1}


def test_missing_and_repeated_graphs_fail_and_n_stays():
    text = block("a", levels=[-10], speed=2.0) + block("b", levels=[-10]) + block("b", levels=[-10], speed=9.0)
    found = rescore(parse_log(text), PRESETS["passnet"], total=4)
    assert found.verdicts == {"PASSED": 1, "missing": 3} and math.isclose(found.es[4], (2.0 * 0.001**3) ** 0.25)
    with pytest.raises(ValueError, match="cannot have 1"):
        rescore(parse_log(text), PRESETS["passnet"], total=1)


def test_rows_of_a_log_are_rows_like_any_other():
    text = block("a", levels=[-10], speed=2.0) + block("b", compiled=("int8",)) + block("c", levels=[-10], speed=1.5)
    records = parse_log(text)
    task, env, rows = rows_of(records, "old")
    assert env.processor == "Abacus 3" and [row.isolation for row in rows] == ["none"] * 3
    assert math.isclose(
        score_task(rows, task, PRESETS["passnet"]).task_score, rescore(records, PRESETS["passnet"]).task_score
    )


def test_the_command_scores_a_log_and_keeps_rows(tmp_path):
    log = tmp_path / "validation.log"
    log.write_text(block("a", levels=[-10], speed=2.0))
    done = CliRunner().invoke(app, ["rescore", str(log), "--out", str(tmp_path / "rows")])
    assert done.exit_code == 0 and "score 2.000" in done.output, done.output
    again = CliRunner().invoke(app, ["score", str(tmp_path / "rows")])
    assert again.exit_code == 0 and "score 2.000" in again.output, again.output
    log.write_text("nothing\n")
    done = CliRunner().invoke(app, ["rescore", str(log)])
    assert done.exit_code == 2 and "not an evaluation log" in done.output
