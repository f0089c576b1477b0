"""What a call's account is made of and what it means, and the graders' use of it where a reference writes in place."""

import threading
from dataclasses import replace

import pytest
import torch

from passbench.candidate import refill
from passbench.clock import Plan
from passbench.evidence import doubt_of, partial_matches
from passbench.guard import changes, snapshot
from passbench.launches import Launches
from passbench.ownership import Watch, difference
from passbench.run import Harness, Settings
from passbench.submission import freeze
from schemas.rows import Verdict
from tests.passbench.cases import KERNEL, AddRelu, submission_at, task_of, variants_of

pytestmark = pytest.mark.torch

SETTINGS = Settings(inductor=False, draws=2, plan=Plan(pairs=5, inner_us=500.0, max_seconds=1.0), timeout_s=60.0)
P, N, W, R = Verdict.PASSED, Verdict.NO_MATCH, Verdict.WRONG_VALUE, Verdict.REJECTED


class MulRelu(torch.nn.Module):
    def forward(self, x, y):
        return torch.relu(x * y)


class InPlace(torch.nn.Module):
    def forward(self, x, y):
        x.mul_(2)
        return torch.relu(x + y)


def facts_of(call, *inputs, earlier=()):
    watch = Watch(inputs)
    return watch.facts(call(*inputs), earlier)


def test_facts_say_what_a_call_did_to_memory():
    x, y, kept = torch.ones(4), torch.ones(4), torch.ones(2)
    found = facts_of(lambda a, b: [a[1:], kept, kept[:1], a.add(b), 3], x, y, earlier=[kept])
    assert found["aliases"] == [[0, 0]] and found["twins"] == [[2, 1]] and found["reused"] == [1, 2]
    assert found["changed"] == found["odd"] == [] and found["device"] == ["cpu"] * 4 + [""]


def test_a_write_beside_the_view_is_a_change_and_nan_is_no_change():
    base = torch.full((8,), float("nan"))
    assert facts_of(lambda a: [a + 1], base[::2])["changed"] == []
    assert facts_of(lambda a: [base.select(0, 1).fill_(2.0) * 1], base[::2])["changed"] == [0]


@pytest.mark.parametrize(
    "call, code",
    [
        (lambda a: [a + 1], None),
        (lambda a: [a], "output-alias"),
        (lambda a: [a.add_(1) + 0], "input-changed"),
        (lambda a: [torch.nn.Parameter(a + 1)], "output-type"),
        (lambda a: [torch.empty(2, device="meta")], "output-device"),
    ],
)
def test_a_candidate_may_do_what_its_reference_does_and_no_more(call, code):
    reference, candidate = facts_of(lambda a: [a + 1], torch.ones(2)), facts_of(call, torch.ones(2))
    found = difference(reference, candidate)
    assert (found and found[0]) == code
    assert difference(candidate, candidate) is None or code == "output-type"


@pytest.mark.parametrize("name, value", [("aliases", [[0]]), ("changed", ["0"]), ("device", [1]), ("twins", None)])
def test_malformed_facts_are_a_broken_protocol(name, value):
    good = facts_of(lambda a: [a + 1], torch.ones(2))
    assert difference(good, {**good, name: value})[0] == "protocol"


@pytest.mark.parametrize(
    "more, rule",
    [
        ({}, None),
        ({"launches": 0}, "no-launch"),
        ({"launches": 0, "replaced": 0}, None),
        ({"state": ["default dtype"]}, "state"),
        ({"library": ["relu"]}, "library-call"),
        ({"refused": ["gc.get_objects"]}, "refused"),
        ({"launches": None}, "protocol"),
        ({"facts": []}, "protocol"),
    ],
)
def test_an_account_is_doubted_for_what_it_says_or_leaves_out(more, rule):
    facts = facts_of(lambda a: [a + 1], torch.ones(2))
    good = {"facts": facts, "state": [], "library": [], "refused": [], "launches": 1, "replaced": 1}
    doubt = doubt_of({**good, **more}, facts)
    assert (doubt and doubt.rule) == rule


@pytest.mark.parametrize(
    "verdicts, partial", [([N, N], []), ([P, N], [1]), ([N, W, N], [0, 2]), ([R, R], []), ([P, P], [])]
)
def test_a_miss_is_partial_only_beside_a_hit(verdicts, partial):
    assert partial_matches(verdicts) == partial


def test_the_guard_sees_patches_environment_and_threads_and_nothing_else(monkeypatch):
    before = snapshot()
    assert changes(before, snapshot()) == []
    monkeypatch.setattr(torch, "allclose", max)
    monkeypatch.setenv("PASSBENCH_TEST", "1")
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    found = changes(before, snapshot())
    stop.set()
    thread.join()
    assert found == ["environment PASSBENCH_TEST", "live threads", "torch.allclose"]


def test_launches_are_counted_and_a_ghost_runs_nothing():
    import triton.runtime.interpreter as interpreter

    ran = []
    kernel = interpreter.InterpretedFunction.__new__(interpreter.InterpretedFunction)
    original = interpreter.InterpretedFunction.run
    with Launches(ghost=True) as launches:
        kernel[(1,)](ran.append)
        kernel[(1,)](ran.append)
    assert launches.count == 2 and interpreter.InterpretedFunction.run is original


def test_refilled_inputs_are_the_same_tensors_with_other_contents():
    x = torch.zeros(6)[::2]
    content = torch.arange(6.0)[::2]
    (first, number) = refill([x, 3], [content, 4])
    assert first is x and number == 4 and torch.equal(x, content)


@pytest.fixture(scope="module")
def harness():
    with Harness(SETTINGS) as running:
        yield running


def graded(harness, module_list, folder):
    rows = [variants_of(module, [[torch.randn(4, 60), torch.randn(4, 60)]])[0] for module in module_list]
    rows = [replace(row, index=index) for index, row in enumerate(rows)]
    return harness.grade(freeze(folder), task_of(rows), rows).results


def test_a_pass_that_fires_on_one_variant_only_is_a_partial_match_on_the_other(harness, tmp_path):
    rows = graded(harness, [AddRelu(), MulRelu()], submission_at(tmp_path))
    assert [row.verdict for row in rows] == [Verdict.PASSED, Verdict.PARTIAL_MATCH], [row.detail for row in rows]


def test_a_reference_that_writes_in_place_allows_the_same_write(harness, tmp_path):
    (row,) = graded(harness, [InPlace()], submission_at(tmp_path, KERNEL))
    assert row.verdict is Verdict.PASSED, row.detail


def test_a_write_in_place_that_differs_is_a_wrong_value(harness, tmp_path):
    source = (
        "import torch\n\n\ndef graph_pass(gm, example_inputs):\n    for node in gm.graph.nodes:\n"
        "        if node.target == 'mul_':\n            node.args = (node.args[0], 3)\n    return gm\n"
    )
    (row,) = graded(harness, [InPlace()], submission_at(tmp_path, source))
    assert row.verdict is Verdict.WRONG_VALUE, row.detail
