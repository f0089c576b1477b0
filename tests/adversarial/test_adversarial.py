"""Attacks on the grader and honest submissions that look like them, each a folder with the layer that must decide it.

case.json says why, which layer, which verdict and rule. With "without_policy" the static policy (D4) is left out, so
that the layer named has to hold alone.
"""

import json
from pathlib import Path

import pytest
import torch

from passbench.clock import Plan
from passbench.policy import Facts
from passbench.run import Harness, Settings, _Grader
from passbench.submission import freeze
from schemas.rows import Verdict
from tests.passbench.cases import AddRelu, task_of, variants_of

pytestmark = pytest.mark.torch

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/case.json"))
SETTINGS = Settings(inductor=False, draws=2, plan=Plan(pairs=5, inner_us=500.0, max_seconds=1.0), timeout_s=60.0)


@pytest.fixture(scope="module")
def harness():
    with Harness(SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def variants():
    return variants_of(AddRelu(), [[torch.randn(4, 60), torch.randn(4, 60)]])


def settled(harness, folder, variants, without_policy):
    """(verdict, rule, detail) of one case."""
    submission, task = freeze(folder), task_of(variants)
    if not without_policy:
        (row,) = harness.grade(submission, task, variants).results
        return row.verdict, row.rule, row.detail
    facts = Facts(uses_triton=True, wrapped=(("add_relu", "add_relu"),))
    grader = _Grader(harness.template, submission, facts, task, SETTINGS)
    try:
        case = grader.grade(variants[0], speed_measured=False)
    finally:
        grader.close()
    return case.verdict, case.rule, case.detail


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_layer_that_must_decide_a_case_does(harness, variants, folder):
    case = json.loads((folder / "case.json").read_text())
    verdict, rule, detail = settled(harness, folder, variants, case["without_policy"])
    assert (verdict, rule) == (Verdict(case["verdict"]), case["rule"]), (case["reason"], detail)
    assert "\n" not in detail


def test_there_are_attacks_and_controls_enough():
    cases = [json.loads((folder / "case.json").read_text()) for folder in FOLDERS]
    controls = [case for case in cases if case["verdict"] == "PASSED"]
    assert len(controls) >= 4 and len(cases) - len(controls) >= 12
    assert all(bool(case["layer"]) == (case["verdict"] != "PASSED") for case in cases)
