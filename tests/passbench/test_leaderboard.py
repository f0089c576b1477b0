"""The leaderboard: ranks, separate tables for what may not be compared, ranks that noise decided; acceptance rules."""

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from passbench.acceptance import Sample, _inspect, _speed_finding, accepted, agreement, chosen, refuted
from passbench.cli import app
from passbench.leaderboard import leaderboard, read_boards
from passbench.results import read_results
from passbench.score import PRESETS
from schemas import values
from schemas.rows import Verdict, content_id
from tests.passbench.stored_results import ENVIRONMENT, rows_of, task_named, write

pytestmark = pytest.mark.plain


def made(folder, factor, submission, tasks=9, **more):
    for k in range(tasks):
        rows = rows_of(f"t{k}", [factor * (1 + k / 20), factor * 1.1], submission, more.get("isolation", "namespaces"))
        rest = {name: value for name, value in more.items() if name != "isolation"}
        named = {"name": submission, "passes": []}
        write(folder / submission / f"t{k}", task_named(f"t{k}", 2), rows, submission=named, **rest)


def test_submissions_are_ranked_and_a_clear_rank_is_told_from_noise(tmp_path):
    made(tmp_path, 1.3, "fast"), made(tmp_path, 1.0, "slow"), made(tmp_path, 1.3, "twin")
    (board,) = read_boards([tmp_path], PRESETS["passnet"])
    assert [line.entries[0].details.name for line in board.lines] == ["fast", "twin", "slow"]
    page = leaderboard([board])
    assert page.count("may be noise") == 1 and page.count(">clear<") == 1
    assert board.lines[1].above.ratio == 1.0 and 0.7 < board.lines[2].above.ratio < 0.85


@pytest.mark.parametrize(
    "more, words",
    [
        ({"isolation": "limits"}, "isolation: limits against namespaces"),
        ({"environment": replace(ENVIRONMENT, processor="Abacus 4")}, "device: cpu, Abacus 4"),
        ({"tasks": 4}, "other tasks"),
    ],
)
def test_what_may_not_be_compared_stands_in_a_table_of_its_own(tmp_path, more, words):
    made(tmp_path, 1.3, "fast"), made(tmp_path, 1.1, "good"), made(tmp_path, 2.0, "elsewhere", **more)
    boards = read_boards([tmp_path], PRESETS["passnet"])
    assert [len(board.lines) for board in boards] == [2, 1]
    assert f"Not comparable with the first table: {words}" in leaderboard(boards)


def test_the_command_writes_a_page_without_a_link_to_anything(tmp_path):
    made(tmp_path, 1.3, "<b>fast</b>".replace("/", ""))
    out = tmp_path / "index.html"
    done = CliRunner().invoke(app, ["leaderboard", str(tmp_path), "-o", str(out)])
    assert done.exit_code == 0 and "1 submissions in 1 tables" in done.output
    assert "<b>fast<b>" not in out.read_text() and "src=" not in out.read_text() and "href=" not in out.read_text()


def test_a_void_submission_stands_last_and_has_no_rank(tmp_path):
    made(tmp_path, 1.3, "fast"), made(tmp_path, 1.0, "slow"), made(tmp_path, 9.0, "broken")
    write(tmp_path / "more", task_named("t0", 2), rows_of("t0", [9.0, "HARNESS_ERROR"], "broken"),
          submission={"name": "broken", "passes": []})  # fmt: skip
    (board,) = read_boards([tmp_path / "broken", tmp_path / "fast", tmp_path / "slow", tmp_path / "more"],
                           PRESETS["passnet"])  # fmt: skip
    assert [line.entries[0].details.name for line in board.lines] == ["fast", "slow", "broken"]
    text = leaderboard([board])
    assert "<td>–</td><td><b>broken</b>" in text and "1 of 9 tasks void: the harness failed" in text


def test_a_sample_is_fixed_by_its_seed_and_differs_between_seeds_and_tasks():
    task = task_named("t", 40)
    picks = chosen(task, Sample(count=5, seed=1))
    assert picks == chosen(task, Sample(count=5, seed=1)) and len(set(picks)) == 5
    assert picks != chosen(task, Sample(count=5, seed=2)) and picks != chosen(
        task_named("u", 40), Sample(count=5, seed=1)
    )
    assert chosen(task_named("t", 2), Sample(count=5)) == [0, 1]


def timed(speed, low, high):
    (row,) = rows_of("t", [speed])
    return replace(row, ci_low=low, ci_high=high)


def test_a_second_grading_confirms_or_refutes_the_first():
    task = task_named("t", 1)
    fast, again, slow = timed(2.0, 1.9, 2.1), timed(1.8, 1.75, 1.85), timed(1.2, 1.15, 1.25)
    other = "processor Abacus there, Babbage here"
    assert agreement(task, fast, again, elsewhere="").status == "ok"
    assert agreement(task, fast, slow, elsewhere="").status == "FAIL"
    found = agreement(task, fast, slow, elsewhere=other)
    assert found.status == "unconfirmed" and other in found.unconfirmed
    (wrong,), (missed,), (partly,) = (rows_of("t", [v]) for v in ("WRONG_VALUE", "NO_MATCH", "PARTIAL_MATCH"))
    assert agreement(task, partly, missed, elsewhere="").status == "ok"
    found = agreement(task, fast, replace(wrong, detail="output 0: off"), elsewhere=other)
    assert not found.holds and found.detail == "PASSED claimed, WRONG_VALUE found: output 0: off"
    late = replace(wrong, verdict=Verdict.WRONG_VALUE, correct_from=1)
    assert not agreement(task, replace(late, correct_from=-4), late, elsewhere="").holds
    assert not accepted([]) and refuted([])


def test_a_claimed_speed_that_was_not_or_cannot_be_measured_is_never_ok():
    task, fast = task_named("t", 1), timed(2.0, 1.9, 2.1)
    (plain,) = rows_of("t", ["PASSED"])
    unmeasured = replace(plain, speed_measured=False, speedup=None, ci_low=None, ci_high=None)
    bare = replace(fast, ci_low=None, ci_high=None)
    assert "without an interval" in agreement(task, bare, fast, elsewhere="").detail
    for claimed, again, elsewhere, status in (
        (bare, fast, "", "FAIL"), (bare, fast, "another processor", "FAIL"), (fast, unmeasured, "", "FAIL"),
        (fast, unmeasured, "device cuda there, cpu here", "unconfirmed"),
        (fast, replace(fast, verdict=Verdict.AMBIGUOUS_TIMING), "", "ok"), (unmeasured, fast, "", "ok"),
    ):  # fmt: skip
        found = agreement(task, claimed, again, elsewhere=elsewhere)
        assert found.status == status, (claimed, again, found)
        assert accepted([found]) == (status == "ok") and refuted([found]) == (status == "FAIL")


TIMES = {"index": 0, "side": "candidate", "eager_us": [20.0, 21.0, 19.0, 20.0, 20.5], "side_us": [10.0] * 5}
FORGED = {
    "honest": ({}, [TIMES], True), "no interval": ({"ci_low": None, "ci_high": None}, [TIMES], False),
    "half an interval": ({"ci_high": None}, [TIMES], False), "beside its interval": ({"ci_high": 1.95}, [TIMES], False),
    "no times": ({}, [], False), "two lists of times": ({}, [TIMES, TIMES], False),
    "times of another side": ({}, [{**TIMES, "side": "inductor"}], False),
    "other times": ({}, [{**TIMES, "side_us": [11.0] * 5}], False),
    "no numbers": ({}, [{**TIMES, "side_us": []}], False),
    "negative times": ({}, [{**TIMES, "side_us": [-10.0] * 5}], False),
    "measured and missing": ({"speedup": None, "ci_low": None, "ci_high": None}, [TIMES], False),
}  # fmt: skip


@pytest.mark.parametrize("name", list(FORGED))
def test_a_speed_up_must_follow_from_the_raw_times_beside_it(tmp_path, name):
    changes, times, holds = FORGED[name]
    row = replace(timed(2.0, 1.9, 2.1), **changes)
    folder = write(tmp_path / "t", task_named("t", 1), [row], timings=times)
    (stored,) = read_results(folder)
    assert _speed_finding(stored, row).holds is holds


def test_the_id_of_an_environment_is_that_of_its_contents(tmp_path):
    parts = {f: getattr(ENVIRONMENT, f) for f in ENVIRONMENT.__slots__ if f != "environment"}
    real = replace(ENVIRONMENT, environment=content_id(values.dumps(parts)))
    for place, holds in ((real, True), (replace(real, processor="Abacus 99"), False)):
        rows = [replace(row, environment=place.environment) for row in rows_of("t", [2.0])]
        folder = write(tmp_path / place.processor, task_named("t", 1), rows, environment=place)
        (stored,) = read_results(folder)
        found = [item for item in _inspect(stored, Shelves(), Frozen()) if item.what == "environment"]
        assert [item.holds for item in found] == [holds]


class Frozen:
    """A submission of which only the hash is asked."""

    digest = "sub"


class Shelves:
    """Published tasks: none."""

    def tasks(self):
        return []
