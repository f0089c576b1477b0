"""Attacks on the grader and honest submissions that look like them, each a folder with the layer that must decide it.

case.json says what a case tries, which layer decides with which verdict and rule, which layers would come first
("beside"), and without which layers it passes ("off"). Here every case is graded against the layer that it names, and
for some it is shown that they pass without it; `python -m benchmarks.adversarial` shows it for all.
"""

import pytest

from benchmarks.adversarial import DOCS, GOOD, SETTINGS, as_expected, graded
from benchmarks.adversarial_cases import cases
from passbench.layers import LAYERS
from passbench.results import write_results
from passbench.run import Harness
from schemas.rows import Verdict

pytestmark = pytest.mark.torch

CASES = [case for case in cases() if not case.gpu]
QUICK = [case for case in CASES if case.verdict == "REJECTED" and not case.beside]
SAMPLED = ("timer_at_hand", "seed_fixed", "hard_coded_shape", "output_returned_again", "counter_noticed", "zeros",
           "over_matches_number", "operators_partly", "network_asked", "broadcastable_shape")  # fmt: skip


@pytest.fixture(scope="module")
def harness():
    with Harness(SETTINGS) as running:
        yield running


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_layer_that_must_decide_a_case_does(harness, case):
    row = graded(harness, case, case.beside)
    assert as_expected(case, row), (case.reason, row.verdict, row.rule, row.detail)
    assert "\n" not in row.detail and (not case.beside or row.detail.startswith("[without "))


@pytest.mark.parametrize("case", [case for case in CASES if case.name in SAMPLED], ids=lambda case: case.name)
def test_without_its_layer_an_attack_passes(harness, case):
    row = graded(harness, case, (*case.beside, *case.off))
    assert row.verdict in GOOD, (row.verdict, row.rule, row.detail)


def test_results_without_a_layer_are_never_stored(harness, tmp_path):
    (case,) = [case for case in QUICK if case.name == "timer_at_hand"]
    graded(harness, case, ("D12.repeat",))
    with pytest.raises(ValueError, match=r"without D12.repeat"):
        from passbench.grading import Graded

        write_results(Graded(results=(), environment=None, timings=(), settings=harness.settings), None, None, tmp_path)


def test_there_are_attacks_and_controls_enough():
    controls = [case for case in CASES if not case.layer]
    assert len(controls) >= 40 and len(CASES) - len(controls) >= 75
    for case in CASES:
        assert bool(case.layer) == (case.verdict != "PASSED") and Verdict(case.verdict)
        assert set(case.beside) | set(case.off) <= set(LAYERS), case.name
        assert bool(case.off) != bool(case.why_not) or not case.layer, case.name


def test_the_docs_name_every_case():
    text = DOCS.read_text(encoding="utf-8")
    assert [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")] == [c.name for c in cases()]
