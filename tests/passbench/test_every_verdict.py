"""Every verdict of the enum comes out of a real grading in some test; what no other test brings about stands here."""

import ast
import itertools
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import passbench.grader
from passbench.clock import Plan, time_sessions
from passbench.grader import ReferenceFailed
from passbench.isolate import Template, TemplateDied
from passbench.lanes import Lane, Quiet
from passbench.run import Harness, Settings
from passbench.submission import freeze
from schemas.rows import Verdict
from tests.passbench.cases import KERNEL, AddRelu, submission_at, task_of, variants_of

pytestmark = pytest.mark.torch
HERE = Path(__file__).parent
SETTINGS = Settings(inductor=False, draws=1, plan=Plan(pairs=5, inner_us=500.0, max_seconds=5.0), timeout_s=60.0)
GRAPH_PASS = (
    "import torch\n\n\ndef graph_pass(gm, example_inputs):\n    for node in gm.graph.nodes:\n"
    "        if node.target is torch.relu:\n            node.target = torch.nn.functional.relu\n    return gm\n"
)
BROUGHT_ABOUT = {
    "PASSED": "test_run.py::test_a_correct_pass_passes_on_every_variant_and_its_speed_is_not_claimed",
    "NO_MATCH": "test_run.py::CASES", "GRAPH_INVALID": "test_run.py::CASES", "REJECTED": "test_run.py::CASES",
    "COMPILE_ERROR": "test_run.py::CASES", "RUNTIME_ERROR": "test_run.py::CASES", "OOM": "test_run.py::CASES",
    "WRONG_SHAPE": "test_run.py::CASES", "WRONG_DTYPE": "test_run.py::CASES", "NON_FINITE": "test_run.py::CASES",
    "WRONG_VALUE": "test_run.py::CASES", "NONDETERMINISTIC": "test_run.py::CASES",
    "TIMEOUT": "test_run.py::test_an_infinite_loop_is_a_timeout",
    "HARNESS_ERROR": "test_run.py::test_a_failing_reference_is_never_the_submissions_fault",
    "PARTIAL_MATCH": "test_evidence.py::test_a_pass_that_fires_on_one_variant_only_is_a_partial_match_on_the_other",
    "INTEGRITY": "test_every_verdict.py::test_outputs_without_a_launch_are_an_integrity_fault",
    "AMBIGUOUS_TIMING": "test_every_verdict.py::test_noise_larger_than_the_band_is_ambiguous_and_no_failure",
}  # fmt: skip
"""Verdict -> the test, or the table of a parametrised test, that grades a submission to it."""


@pytest.fixture(scope="module")
def variants():
    kinds = ((4, 60), (4, 7))
    return variants_of(AddRelu(), [[torch.randn(shape), torch.randn(shape)] for shape in kinds])


def graded(folder, variants, settings=SETTINGS):
    with Harness(settings) as harness:
        return harness.grade(freeze(folder), task_of(variants), variants).results


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_is_named_by_the_test_that_brings_it_about(verdict):
    file, _, name = BROUGHT_ABOUT[verdict.value].partition("::")
    tree = ast.parse((HERE / file).read_text())
    named = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    tables = [node for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)]
    named |= {node.targets[0].id: node for node in tables}
    text = ast.unparse(named[name])
    assert verdict.value in text, f"{name} does not name {verdict}"


def test_outputs_without_a_launch_are_an_integrity_fault(variants, tmp_path):
    source = KERNEL.replace("    kernel[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), 1.0, 256)\n", "")
    (row,) = graded(submission_at(tmp_path, source), variants[:1])
    assert row.verdict is Verdict.INTEGRITY and row.rule, row.detail


def shaken(sessions, plan):
    """The clock on windows that sleep by turns on either side, far longer than they work."""

    def sleepy(side, first):
        turns = itertools.count(first)

        def window(count):
            side(count)
            time.sleep(0.03 if next(turns) % 2 else 0.001)

        return window

    return time_sessions(((sleepy(one, 0), sleepy(two, 1)) for one, two in sessions), plan)


def test_noise_larger_than_the_band_is_ambiguous_and_no_failure(variants, tmp_path, monkeypatch):
    monkeypatch.setattr(passbench.grader, "time_sessions", shaken)
    plan = Plan(pairs=9, warmup=0, inner_us=1.0)
    (row,) = graded(submission_at(tmp_path, GRAPH_PASS), variants[:1], replace(SETTINGS, plan=plan))
    assert row.verdict is Verdict.AMBIGUOUS_TIMING and "speed-up between" in row.detail, row.detail
    assert row.speedup is not None and row.ci_low < 0.9 and row.ci_high > 1.1


class Chain(torch.nn.Module):
    """More calls in a row than Python has frames."""

    def forward(self, x):
        for _ in range(1100):
            x = torch.neg(x)
        return torch.relu(x)


def test_a_pattern_deeper_than_the_matchers_recursion_is_the_submissions_failure_and_no_invalid_graph(tmp_path):
    source = KERNEL.replace("pattern(x, y):\n", "pattern(x):\n    for _ in range(1050):\n        x = torch.neg(x)\n")
    source = source.replace("relu(x + y)", "relu(x)").replace(
        "_args(x, y):\n    return (x, y)", "_args(x):\n    return (x, x)"
    )
    (row,) = graded(submission_at(tmp_path, source), variants_of(Chain(), [[torch.randn(3)]]))
    assert row.verdict is Verdict.COMPILE_ERROR and "the matcher failed: RecursionError" in row.detail


def test_what_a_pass_puts_into_the_graph_and_then_raises_is_its_own_failure(variants, tmp_path):
    class_text = "\n\nclass Loud:\n    def __repr__(self):\n        raise RuntimeError('loud')\n"
    source = KERNEL.replace("    return (x, y)\n", "    return (x, Loud())\n") + class_text
    (row,) = graded(submission_at(tmp_path, source), variants[:1])
    assert row.verdict is Verdict.COMPILE_ERROR and "Loud is not held" in row.detail, row.detail


def test_a_submission_cannot_claim_that_the_harness_failed(variants, tmp_path):
    claim = "\n\nClaim = type('Claim', (Exception,), {'pattern': '{}'})\n"
    source = KERNEL.replace("    return out\n", "    raise Claim('the matcher failed')\n") + claim
    (row,) = graded(submission_at(tmp_path, source), variants[:1])
    assert row.verdict is Verdict.REJECTED and row.rule == "wrapper-call", row.detail
    source = KERNEL.replace("    return out\n", "    raise ValueError('the matcher failed')\n")
    (row,) = graded(submission_at(tmp_path / "plain", source), variants[:1])
    assert row.verdict is Verdict.RUNTIME_ERROR and "the matcher failed" in row.detail, row.detail


# --- faults of the harness ------------------------------------------------------------------------------------------
class Stumbling:
    """A grader that fails whenever it grades, and alone only if it is told to."""

    template = None

    def __init__(self, error, alone):
        self.error, self.alone, self.asked = error, alone, []

    def grade(self, variant, *, speed_measured):
        self.asked.append("grade")
        raise self.error

    def control(self, variant, *, speed_measured):
        self.asked.append("control")
        if self.alone is not None:
            raise self.alone

    def close(self):
        pass


class Processes:
    """What a lane needs of a harness."""

    template = None

    def __init__(self):
        self.quiet, self.dropped = Quiet(), 0

    def drop(self, template):
        self.dropped += 1


@pytest.mark.parametrize(
    "error", [KeyError("dtype"), OSError(36, "File name too long"), TemplateDied("gone"), ReferenceFailed("gone")]
)
def test_the_harness_is_at_fault_only_where_it_fails_without_the_submission_too(variants, error):
    with_it = Stumbling(error, None)
    case = Lane(Processes(), lambda template: with_it, False).do(variants[0])
    assert case.verdict is Verdict.RUNTIME_ERROR and "without it there is no such error" in case.detail
    assert with_it.asked == ["grade", "grade", "control"]
    alone = Lane(Processes(), lambda template: Stumbling(error, OSError(28, "No space left")), False)
    case = alone.do(variants[0])
    assert case.verdict is Verdict.HARNESS_ERROR and "No space left" in case.detail


def test_a_submission_that_makes_the_orchestrator_stumble_gets_a_row_that_counts_against_it(
    variants, tmp_path, monkeypatch
):
    original = Template.fork

    def stumbles(self, role, files=(), off=()):
        if role != "reference":
            raise OSError(36, "File name too long")
        return original(self, role, files, off)

    monkeypatch.setattr(Template, "fork", stumbles)
    with Harness(SETTINGS) as harness:
        frozen = freeze(submission_at(tmp_path))
        (row,) = harness.grade(frozen, task_of(variants[:1]), variants[:1]).results
    assert row.verdict is Verdict.RUNTIME_ERROR and "File name too long" in row.detail, row.detail
