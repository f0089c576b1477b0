"""Honest passes as many authors write them: the policy takes them, and they are graded as right.

Triton decides at its import whether kernels are interpreted, so what they compute is found by processes of the grader.
"""

import json
from dataclasses import replace

import pytest
import torch

from passbench.policy import inspect_sources
from passbench.program.names import Files
from passbench.program.wrappers import program_of
from passbench.sources import read_modules
from passbench.submission import Rejected, freeze
from tests.passbench.passes import all_passes

pytestmark = pytest.mark.torch
PASSES = all_passes()
HONEST = [name for name, item in PASSES.items() if not item.refused]


def rule(name, folder):
    """The rule that refuses a pass; empty if it may be graded."""
    submission = freeze(PASSES[name].write(folder))
    try:
        facts = inspect_sources(submission, max_patterns=100)
        program_of(Files(read_modules(submission)), facts.wrapped[:1])
    except Rejected as error:
        return error.rule
    return ""


def test_at_least_19_of_20_are_taken(tmp_path):
    found = {name: rule(name, tmp_path / name) for name in PASSES}
    assert found == {name: item.refused for name, item in PASSES.items()}
    assert len(PASSES) >= 60
    assert len(HONEST) / len(PASSES) >= 0.95


class Eager(torch.nn.Module):
    """The task of a pass."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def task_for(name):
    """The task of a pass: whole numbers and positive inputs are drawn like those of its example."""
    from benchmarks.grader_tasks import task_of

    item = PASSES[name]
    inputs = item.inputs()
    task, (variant,) = task_of(name, Eager(item.eager), [inputs])
    inits = [initialiser(value) or init for value, init in zip(inputs, variant.graph.inits, strict=True)]
    return task, [replace(variant, graph=replace(variant.graph, inits=tuple(inits)))]


def initialiser(value):
    """How an input is drawn that is not just any number; empty for all others."""
    if value.dtype == torch.int64:
        return json.dumps({"high": int(value.max()) + 1, "kind": "integers", "low": 0})
    if value.is_floating_point() and value.min() > 0:
        return json.dumps({"high": float(value.max()), "kind": "uniform", "low": float(value.min())})
    return ""


@pytest.fixture(scope="module")
def harness():
    from passbench.run import Harness, Settings

    with Harness(Settings(inductor=False, draws=1, workers=2, contract="published")) as made:
        yield made


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_pass_is_graded_as_right(name, harness, tmp_path):
    torch.manual_seed(0)
    graded = harness.grade(freeze(PASSES[name].write(tmp_path)), *task_for(name))
    assert [row.verdict.value for row in graded.results] == ["PASSED"], graded.results[0].detail
