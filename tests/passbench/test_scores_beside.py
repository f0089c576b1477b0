"""What stands beside ES_t: the interval over tasks, capped speeds, Inductor as a baseline; the benchmark of scores."""

import math
from dataclasses import replace

import pytest

from benchmarks.scores import coverage, largest_difference, measure, population
from passbench.bootstrap import MIN_CLUSTERS, mean_interval
from passbench.score import PRESETS, score_task, summarise
from tests.passbench.test_score import row, task

pytestmark = pytest.mark.plain


def test_both_forms_of_es_agree_to_rounding():
    assert largest_difference(600) < 1e-12


def test_the_interval_over_tasks_covers_what_it_promises():
    logs = population(1500)
    assert 0.92 <= coverage(logs, 20, trials=400) <= 0.98  # 400 trials are good to two points
    assert logs.std() > 0.1


def test_an_interval_needs_tasks_and_ends_where_all_are_equal():
    assert mean_interval([0.1] * (MIN_CLUSTERS - 1)) is None
    found = mean_interval([0.25] * 9)
    assert found is not None and found.low == found.high == 0.25
    mixed = mean_interval([k / 10 for k in range(10)])
    assert (
        mixed is not None
        and mixed.low < 0.45 < mixed.high < 0.9
        and mean_interval([k / 10 for k in range(10)]) == mixed
    )
    one = score_task([row(0)], task(1), PRESETS["passnet"])
    assert summarise([one] * 2).ci_low is None and summarise([one] * 8).ci_low == summarise([one] * 8).ci_high


def test_an_impossible_speed_is_cut_to_its_roofline_ratio_and_counted():
    rows = [row(0, speedup=50.0, correct_from=-10), row(1, speedup=2.0, correct_from=-10), row(2, "NO_MATCH")]
    plain = score_task(rows, task(3), PRESETS["passnet"])
    found = score_task(rows, task(3), PRESETS["passnet"], caps={0: 4.0, 1: 8.0, 2: 0.5})
    assert plain.winsorised is None and plain.capped == 0 and found.capped == 1
    honest = [row(0, speedup=4.0, correct_from=-10), *rows[1:]]
    assert found.winsorised == score_task(honest, task(3), PRESETS["passnet"]).task_score < found.task_score
    below = score_task([row(0, speedup=1.0)], task(1), PRESETS["passnet"], caps={0: 0.3})
    assert below.winsorised == below.task_score  # a cap below 1 is a fault of the cap


def test_inductor_is_scored_as_a_baseline_where_it_was_timed():
    rows = [
        replace(row(k, speedup=s, correct_from=-10), inductor_speedup=i) for k, (s, i) in enumerate([(2, 4), (3, 1)])
    ]
    found = score_task(rows, task(2), PRESETS["passnet"])
    assert math.isclose(found.inductor_speedup, 2.0) and math.isclose(found.inductor_score, 2.0)
    assert math.isclose(found.over_inductor, math.sqrt(0.5 * 3.0))
    partly = score_task([rows[0], row(1)], task(2), PRESETS["passnet"])
    assert partly.inductor_score is None and partly.inductor_speedup == 4.0


def test_the_benchmark_prints_its_keys():
    found = measure(30, 20, sizes=(8,))
    assert {"sets", "max_difference", "coverage", "presets"} <= set(found)
