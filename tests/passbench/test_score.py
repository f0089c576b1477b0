"""ES_t against values computed here from its definition, both forms against each other, and what never counts."""

import math
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passbench.score import (
    CLASS_MAPS,
    PRESETS,
    VERDICT_CLASS,
    WEIGHTS,
    Outcome,
    Preset,
    es_formula,
    es_mean,
    outcome_of,
    require_comparable,
    require_scored,
    score_task,
    summarise,
)
from schemas.rows import RAN_VERDICTS, EvalResult, Task, Verdict

pytestmark = pytest.mark.plain

EXTENDED = Preset(name="extended", p=0.0, b=0.001, class_map="extended", last_level=5)


def task(total=10):
    return Task(
        task_id="t", version=1, title="add", split="test", structure="s", num_variants=total, max_patterns=100,
        max_functions=1, document_frequency=1, families=(), modalities=(), licenses=(), rejected_solvers=(),
    )  # fmt: skip


def row(index, verdict="PASSED", speedup=1.2, correct_from=-5, measured=True, submission="sub"):
    verdict = Verdict(verdict)
    ran = verdict in RAN_VERDICTS
    correct = verdict in (Verdict.PASSED, Verdict.AMBIGUOUS_TIMING)
    number = 0.0 if ran else None
    speed = speedup if correct and measured else None
    return EvalResult(
        task_id="t", index=index, submission=submission, environment="e", verdict=verdict, rule="", detail="",
        matches=int(verdict is not Verdict.NO_MATCH), correct_from=correct_from if ran else None,
        max_abs_error=number, max_rel_error=number, speed_measured=measured, speedup=speed, ci_low=speed,
        ci_high=speed, inductor_speedup=None, isolation="process",
    )  # fmt: skip


def by_definition(contributions):
    """AS from what every one of N subgraphs counts at each level: contributions(t) -> list of N numbers."""
    weights = {-10: 0.001, -9: 0.001, -8: 0.001, -7: 0.001, -6: 0.001, -5: 1, -4: 1, -3: 1,
               -2: 0.8, -1: 0.64, 0: 0.512, 1: 0.4096, 2: 0.32768, 3: 0.262144, 4: 0.001}  # fmt: skip
    logs = sum(w * sum(map(math.log10, contributions(t))) / len(contributions(t)) for t, w in weights.items())
    return 10 ** (logs / sum(weights.values()))


def test_weights_are_the_published_ones():
    assert math.isclose(sum(WEIGHTS.values()), 1.0)
    assert math.isclose(1 / WEIGHTS[-5], 5.957424)
    assert math.isclose(WEIGHTS[3] / WEIGHTS[-3], 0.262144)


@pytest.mark.parametrize("failing, published", [(None, 1.193), ("WRONG_VALUE", 0.660), ("RUNTIME_ERROR", 0.606)])
def test_published_check_values(failing, published):
    rows = [row(i) for i in range(9 if failing else 10)]
    if failing:
        rows.append(row(9, failing, correct_from=None))
    tolerated = {"WRONG_VALUE": 1, "RUNTIME_ERROR": 3}.get(failing)

    def contributions(t):
        good = [1.2 if t >= -5 else 0.001] * len([r for r in rows if r.verdict is Verdict.PASSED])
        return good if tolerated is None else [*good, 1.0 if t >= tolerated else 0.001]

    found = score_task(rows, task(), PRESETS["passnet"]).task_score
    assert math.isclose(found, by_definition(contributions), rel_tol=1e-12)
    assert round(found, 3) == published


def test_slow_downs_are_penalised_by_the_paper_preset():
    rows = [row(0, speedup=0.5, correct_from=-10), row(1, speedup=2.0, correct_from=-10)]
    assert math.isclose(score_task(rows, task(2), PRESETS["passnet"]).es[0], 1.0)
    assert math.isclose(score_task(rows, task(2), PRESETS["paper"]).es[0], math.sqrt(2 * 0.5**1.1))


OUTCOMES = st.lists(
    st.builds(
        Outcome,
        correct_from=st.one_of(st.none(), st.integers(-10, 5)),
        speedup=st.floats(0.01, 100),
        error_class=st.sampled_from(sorted(CLASS_MAPS["default"])),
    ),
    min_size=1,
    max_size=12,
)


@given(OUTCOMES, st.sampled_from([*PRESETS.values(), EXTENDED]), st.integers(-10, 5))
def test_both_forms_agree(outcomes, preset, level):
    assert math.isclose(es_formula(outcomes, level, preset), es_mean(outcomes, level, preset), rel_tol=1e-12)


@given(OUTCOMES, st.sampled_from([*PRESETS.values(), EXTENDED]))
def test_from_level_1_on_the_curve_never_falls(outcomes, preset):
    curve = [es_mean(outcomes, t, preset) for t in range(1, preset.last_level + 1)]
    assert all(later >= earlier * (1 - 1e-12) for earlier, later in pairwise(curve))


def test_correctness_is_frozen_at_level_1():
    late = [Outcome(correct_from=3, speedup=5.0, error_class="runtime")]
    assert [round(es_mean(late, t, PRESETS["passnet"]), 9) for t in (1, 2, 3, 4)] == [0.001, 0.001, 1.0, 1.0]


@pytest.mark.parametrize("class_map, levels", [("default", (1, 3, 3)), ("paper", (1, 2, 3)), ("extended", (1, 3, 4))])
def test_classes_are_tolerated_from_their_level(class_map, levels):
    preset = Preset(name="x", p=0.0, b=0.1, class_map=class_map, last_level=5)
    for name, first in zip(("accuracy", "runtime", "compile"), levels, strict=True):
        failed = [Outcome(correct_from=None, speedup=1.0, error_class=name)]
        assert [t for t in range(-10, 6) if math.isclose(es_formula(failed, t, preset), 1.0)] == list(range(first, 6))


def test_every_verdict_that_counts_has_a_class_in_every_map():
    free = {Verdict.PASSED, Verdict.AMBIGUOUS_TIMING, Verdict.HARNESS_ERROR}
    assert set(VERDICT_CLASS) == set(Verdict) - free
    assert all(set(VERDICT_CLASS.values()) <= set(table) for table in CLASS_MAPS.values())


def test_a_missing_or_duplicate_row_fails_its_subgraph_and_n_stays():
    for rows in ([row(0)], [row(0), row(1), row(1)]):
        found = score_task(rows, task(2), PRESETS["passnet"])
        assert found.total == 2 and found.verdicts == {"PASSED": 1, "missing": 1}
        assert math.isclose(found.es[4], math.sqrt(1.2 * 0.001))


def test_noise_never_counts_against_the_submission():
    rows = [row(0, correct_from=-10), row(1, "AMBIGUOUS_TIMING", 0.5, correct_from=-10)]
    assert math.isclose(score_task(rows, task(2), PRESETS["passnet"]).es[-10], 1.2 ** (1 / 2))


def test_one_harness_error_voids_the_task_and_every_number_made_of_it():
    rows = [row(0, correct_from=-10), row(1, "HARNESS_ERROR"), row(2, "NO_MATCH")]
    found = score_task(rows, task(3), PRESETS["passnet"])
    assert found.task_score is None and found.es == {} and found.winsorised is None and found.harness_errors == 1
    assert "the harness failed on 1 of 3 subgraphs, so there is no score (variant 1" in found.voided
    whole = score_task(rows[:1], task(1), PRESETS["passnet"])
    assert whole.voided == "" and require_scored(whole) == whole.task_score
    with pytest.raises(ValueError, match="has no score: the harness failed"):
        require_scored(found)
    total = summarise([whole, found, whole])
    assert total.score is total.ci_low is None and total.voided.startswith("1 of 3 tasks void: the harness failed")
    with pytest.raises(ValueError, match="the harness failed"):
        outcome_of(rows[1:2], unit_speed=True)


def test_unmeasured_speed_gives_no_score_unless_asked_for():
    rows = [row(0, measured=False), row(1, measured=False)]
    with pytest.raises(ValueError, match="speed was not measured on 2 of 2"):
        score_task(rows, task(2), PRESETS["passnet"])
    found = score_task(rows, task(2), PRESETS["passnet"], unit_speed=True)
    assert found.es[-5] == 1.0 and found.speed == "not measured: s = 1" and found.fast_p is found.speedup is None


def test_a_wrong_value_is_correct_from_its_level_on_but_earns_no_speed():
    found = score_task([row(0, "WRONG_VALUE", correct_from=-2)], task(1), PRESETS["passnet"])
    assert math.isclose(found.es[-3], 0.001) and found.es[-2] == 1.0 and found.correctness == 0.0


def test_coverage_correctness_and_fast_p_stand_apart():
    rows = [row(0, speedup=3.5), row(1, speedup=0.9), row(2, "NO_MATCH"), row(3, "WRONG_VALUE", correct_from=None)]
    found = score_task(rows, task(4), PRESETS["passnet"])
    assert (found.coverage, found.correctness) == (0.75, 0.5)
    assert (found.fast_p[0.8], found.fast_p[1.0], found.fast_p[3.0], found.fast_p[5.0]) == (0.5, 0.25, 0.25, 0.0)
    assert math.isclose(found.speedup, math.sqrt(3.5 * 0.9))


def test_unequal_settings_are_not_compared():
    one = score_task([row(0)], task(1), PRESETS["passnet"])
    two = score_task([row(0)], task(1), PRESETS["graphnet"])
    with pytest.raises(ValueError, match="not comparable"):
        require_comparable([one, two])
    assert summarise([one, one]).tasks == 2 and math.isclose(summarise([one, one]).score, one.task_score)


def test_a_task_without_a_correct_subgraph_can_be_averaged_with_any_speed():
    failed = score_task([row(0, "COMPILE_ERROR", measured=False)], task(1), PRESETS["passnet"], unit_speed=True)
    for measured in (True, False):
        good = score_task([row(0, measured=measured)], task(1), PRESETS["passnet"], unit_speed=True)
        assert summarise([failed, good]).tasks == summarise([good, failed]).tasks == 2
    both = [score_task([row(0, measured=m)], task(1), PRESETS["passnet"], unit_speed=True) for m in (True, False)]
    with pytest.raises(ValueError, match="not comparable"):
        require_comparable([failed, *both])
    with pytest.raises(ValueError, match="not comparable"):
        require_comparable([failed, score_task([row(0)], task(1), PRESETS["graphnet"])])


def test_foreign_rows_are_refused():
    with pytest.raises(ValueError, match="not of task"):
        score_task([row(5)], task(2), PRESETS["passnet"])
    with pytest.raises(ValueError, match="2 submissions"):
        score_task([row(0), row(1, submission="other")], task(2), PRESETS["passnet"])


def test_scoring_and_listing_pull_in_neither_torch_nor_the_builder():
    code = (
        "import sys, passbench, passbench.score, passbench.tasks, passbench.cli;"
        "bad = {'torch', 'prefect', 'networkx', 'transformers', 'datasets'} & set(sys.modules);"
        "sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
