"""Grading end to end in real processes: every verdict at its source, by submissions that go wrong in one known way."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from passbench.clock import Plan
from passbench.grader import Grader, ReferenceFailed
from passbench.isolate import Limits
from passbench.policy import Facts
from passbench.run import Harness, Settings
from passbench.submission import freeze
from schemas.rows import Verdict
from tests.passbench.cases import KERNEL, AddRelu, LayerNorm, submission_at, task_of, variants_of

pytestmark = pytest.mark.torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "submissions"
SETTINGS = Settings(inductor=False, draws=2, plan=Plan(pairs=5, inner_us=500.0, max_seconds=1.0), timeout_s=60.0)


GRAPH_PASS = (
    "import torch\n\n\ndef graph_pass(gm, example_inputs):\n    for node in gm.graph.nodes:\n"
    "        if node.target is torch.relu:\n            node.target = torch.nn.functional.relu\n"
    "    return gm\n"
)


@pytest.fixture(scope="module")
def harness():
    with Harness(SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def variants():
    return variants_of(
        AddRelu(), [[torch.randn(4, 60, dtype=t), torch.randn(4, 60, dtype=t)] for t in (torch.float32, torch.bfloat16)]
    )


def graded(harness, folder, variants):
    return harness.grade(freeze(folder), task_of(variants), variants).results


def replaced(old, new):
    assert old in KERNEL
    return KERNEL.replace(old, new)


def test_a_correct_pass_passes_on_every_variant_and_its_speed_is_not_claimed(harness, variants, tmp_path):
    rows = graded(harness, submission_at(tmp_path), variants)
    assert [row.verdict for row in rows] == [Verdict.PASSED, Verdict.PASSED], [row.detail for row in rows]
    assert all(row.matches == 1 and row.correct_from <= -5 for row in rows)
    assert all(not row.speed_measured and row.speedup is None for row in rows)
    assert {row.isolation for row in rows} == {"namespaces"}


def out_with(expression):
    return replaced("    return out\n", f"    return {expression}\n")


CASES = {
    "wrong scale": (replaced("x.numel(), 1.0, 256)", "x.numel(), 1.5, 256)"), "WRONG_VALUE"),
    "shape": (out_with("out.view(1, 4, 60)"), "WRONG_SHAPE"),
    "strides": (out_with("torch.empty_strided((4, 60), (1, 4))"), "WRONG_SHAPE"),
    "dtype": (replaced("torch.empty_like(x)", "torch.empty_like(x, dtype=torch.float64)"), "WRONG_DTYPE"),
    "infinite": (replaced("* scale", "/ (scale - scale) + 1.0"), "NON_FINITE"),
    "raises": (replaced("    return out\n", "    raise KeyError('nothing here')\n"), "RUNTIME_ERROR"),
    "exits": (replaced("    return out\n", "    raise SystemExit(0)\n"), "REJECTED"),
    "allocates": (replaced("torch.empty_like(x)", "torch.empty(2**40)"), "OOM"),
    "import fails": (KERNEL + "\nraise ValueError('at import')\n", "COMPILE_ERROR"),
    "arguments fail": (replaced("    return (x, y)\n", "    return x + y\n"), "COMPILE_ERROR"),
    "arguments raise": (replaced("    return (x, y)\n", "    raise RuntimeError('no such shape')\n"), "COMPILE_ERROR"),
    "graph pass raises": (
        "def graph_pass(gm, example_inputs):\n    raise RuntimeError('of its own')\n",
        "COMPILE_ERROR",
    ),
    "ignored argument": (replaced("def pattern(x, y):", "def pattern(x, y, z):"), "COMPILE_ERROR"),
    "no match": (replaced("torch.relu(x + y)", "torch.relu(x * y)"), "NO_MATCH"),
    "changes its mind": (
        replaced("x.numel(), 1.0, 256)", "x.numel(), 1.0 + (out.data_ptr() // 64 % 65521) * 0.01, 256)"),
        "NONDETERMINISTIC",
    ),
    "counts its calls": (
        replaced("1.0, 256)", "1.0 if len(CALLS) < 2 else 1.5, 256)\n    CALLS.append(1)") + "\n\nCALLS = []\n",
        "REJECTED",
    ),
    "not wrapped": (replaced("@torch.fx.wrap\n", ""), "REJECTED"),
    "unstable": (replaced("return add_relu\n", "return lambda x, y: add_relu(x, y)\n"), "REJECTED"),
    "syntax": (KERNEL + "\ndef (:\n", "REJECTED"),
    "torch in disguise": (out_with("torch.relu(x)"), "REJECTED"),
    "no graph": ("def graph_pass(gm, example_inputs):\n    return None\n", "GRAPH_INVALID"),
    "graph unchanged": ("def graph_pass(gm, example_inputs):\n    return gm\n", "NO_MATCH"),
}
WORDS = {
    "raises": "nothing here",
    "no match": "the pattern has operator.mul where the graph has operator.add",
    "shape": "(4, 60) expected, (1, 4, 60) found",
    "import fails": "at import",
    "arguments raise": "RuntimeError: no such shape",
    "graph pass raises": "RuntimeError: of its own",
    "syntax": "add_relu.py:",
    "ignored argument": "'z' is never used",
}


@pytest.mark.parametrize("name", list(CASES))
def test_a_fault_gets_its_verdict_and_one_line(harness, variants, tmp_path, name):
    source, verdict = CASES[name]
    (row,) = graded(harness, submission_at(tmp_path, source), variants[:1])
    assert row.verdict == Verdict(verdict), row.detail
    assert "\n" not in row.detail and WORDS.get(name, "") in row.detail
    assert row.speedup is None


def test_an_infinite_loop_is_a_timeout(harness, variants, tmp_path, monkeypatch):
    source = replaced("    return out\n", "    while True:\n        pass\n")
    monkeypatch.setattr(harness, "settings", replace(SETTINGS, timeout_s=5.0))
    (row,) = graded(harness, submission_at(tmp_path, source), variants[:1])
    assert row.verdict is Verdict.TIMEOUT and "5 s" in row.detail


def test_passes_with_a_second_replacement_function_are_left_out(harness, variants, tmp_path):
    submission_at(tmp_path, KERNEL.replace("add_relu", "other"), name="second")
    submission_at(tmp_path)
    (tmp_path / "sorted_output_pass_rule_names.json").write_text('["add_relu", "second"]')
    (row,) = graded(harness, tmp_path, variants[:1])
    assert (row.verdict, row.matches) == (Verdict.PASSED, 1), row.detail
    (tmp_path / "add_relu.py").write_text(KERNEL.replace("torch.relu(x + y)", "torch.relu(x * y)"))
    (row,) = graded(harness, tmp_path, variants[:1])  # the second function would match, and does not count
    assert row.verdict is Verdict.NO_MATCH, row.detail


def test_a_graph_pass_without_triton_is_timed(harness, variants, tmp_path):
    (row,) = graded(harness, submission_at(tmp_path, GRAPH_PASS), variants[:1])
    assert row.verdict in (Verdict.PASSED, Verdict.AMBIGUOUS_TIMING), row.detail
    assert row.speed_measured and row.ci_low <= row.speedup <= row.ci_high


def unpoliced(harness, folder, variant, off=("D4b.source",)):
    """One case without the static policy and with functions as they are, so that the layers below have to hold."""
    facts = Facts(uses_triton=True, wrapped=(("add_relu", "add_relu"),))
    grader = Grader(harness.template, freeze(folder), facts, task_of([variant]),
                     replace(harness.settings, layers_off=off))  # fmt: skip
    try:
        return grader.grade(variant, speed_measured=False)
    finally:
        grader.close()


@pytest.mark.parametrize("code, verdict", [("os._exit(0)", "RUNTIME_ERROR"), ("os.abort()", "RUNTIME_ERROR")])
def test_dying_without_the_final_record_is_a_failure_whatever_the_exit_code(harness, variants, tmp_path, code, verdict):
    source = "import os\n" + replaced("    return out\n", f"    {code}\n")
    case = unpoliced(harness, submission_at(tmp_path, source), variants[0])
    assert case.verdict == Verdict(verdict) and "before its final record" in case.detail


def test_a_process_that_escapes_from_the_group_is_killed_too(variants, tmp_path):
    beat = tmp_path / "beat"
    daemon = (
        "import os, time\n"
        + KERNEL
        + "\nif not os.fork():\n    os.setsid()\n    if not os.fork():\n        while True:\n"
        f"            open({str(beat)!r}, 'a').write('.')\n            time.sleep(0.02)\n    os._exit(0)\n"
    )
    with Harness(replace(SETTINGS, isolation="limits")) as harness:  # the sandbox would refuse the daemon its file
        case = unpoliced(harness, submission_at(tmp_path / "pass", daemon), variants[0], ("D3.audit", "D3.native"))
    assert case.verdict is Verdict.PASSED, case.detail
    before = beat.stat().st_size
    assert before > 0
    time.sleep(0.3)
    assert beat.stat().st_size == before


def test_printing_and_reading_the_reference_process_do_nothing(harness, variants, tmp_path):
    noisy = KERNEL + "\nimport sys\nprint('PASSED ' * 100000)\nsys.stderr.write('x' * 100000)\n"
    case = unpoliced(harness, submission_at(tmp_path, noisy), variants[0])
    assert case.verdict is Verdict.PASSED, case.detail


def test_processor_time_used_up_is_a_timeout(variants, tmp_path):
    source = replaced("    return out\n", "    while True:\n        pass\n")
    with Harness(replace(SETTINGS, limits=Limits(cpu_s=12), timeout_s=240.0)) as harness:  # a busy machine is slow
        (row,) = graded(harness, submission_at(tmp_path, source), variants[:1])
    assert row.verdict is Verdict.TIMEOUT and "processor time" in row.detail


def test_a_reference_that_fails_while_it_is_timed_leaves_no_verdict(harness, variants, tmp_path, monkeypatch):
    original = Grader.ask_reference

    def broken(self, request):
        if request["do"] == "floor":
            raise ReferenceFailed("gone")
        return original(self, request)

    monkeypatch.setattr(Grader, "ask_reference", broken)
    (row,) = graded(harness, submission_at(tmp_path, GRAPH_PASS), variants[:1])
    assert row.verdict is Verdict.HARNESS_ERROR and row.correct_from is row.speedup is None


def test_a_kernel_that_is_slow_to_interpret_is_checked_less_and_the_row_says_how(variants, tmp_path):
    with Harness(replace(SETTINGS, budget_s=1e-3)) as harness:
        (row,) = graded(harness, submission_at(tmp_path), variants[:1])
    assert row.verdict is Verdict.PASSED, row.detail
    assert "1 draw of 2, and its repeat" in row.detail and "without far striped" in row.detail
    with Harness(replace(SETTINGS, budget_s=1e-3)) as harness:
        wrong = submission_at(tmp_path, replaced("tl.maximum(x + y, 0.0)", "tl.maximum(x + y, 0.1)"))
        (row,) = graded(harness, wrong, variants[:1])
    assert row.verdict is Verdict.WRONG_VALUE


def test_a_process_that_stops_itself_is_a_timeout(tmp_path, variants):
    stop = "import os\n" + replaced("    return out\n", "    os.kill(os.getpid(), 19)\n    return out\n")
    with Harness(replace(SETTINGS, timeout_s=10.0, isolation="limits")) as harness:
        case = unpoliced(harness, submission_at(tmp_path, stop), variants[0], ("D3.audit", "D3.seccomp", "D4b.source"))
    assert case.verdict is Verdict.TIMEOUT and "did nothing" in case.detail


class InPlace(torch.nn.Module):
    def forward(self, x, y):
        x.add_(y)
        return torch.relu(x)


def test_every_timed_call_of_a_graph_that_writes_into_its_inputs_begins_as_it_should(harness, tmp_path):
    variants = variants_of(InPlace(), [[torch.randn(4, 60), torch.randn(4, 60)]])
    (row,) = graded(harness, submission_at(tmp_path, GRAPH_PASS), variants)
    assert row.verdict in (Verdict.PASSED, Verdict.AMBIGUOUS_TIMING) and row.speedup is not None, row.detail


class WithoutGrad(torch.nn.Module):
    def forward(self, x, y):
        with torch.no_grad():
            return torch.relu(x + y)


class UnderAutocast(torch.nn.Module):
    def forward(self, x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.relu(x + y)


class Nested(torch.nn.Module):
    def forward(self, x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = torch.mm(x, y.t())
            with torch.autocast("cpu", enabled=False):
                b = torch.mm(x, x.t())
        return torch.relu(x + y), a, b


@pytest.mark.parametrize("module", [WithoutGrad, UnderAutocast, Nested])
def test_a_graph_that_changes_a_mode_itself_can_be_graded(harness, tmp_path, module):
    variants = variants_of(module(), [[torch.randn(4, 60), torch.randn(4, 60)]])
    targets = {node.target for node in variants[0].graph.nodes}
    assert any("grad" in target or "autocast" in target for target in targets), targets
    (row,) = graded(harness, submission_at(tmp_path), variants)
    assert row.verdict is Verdict.PASSED, row.detail


def test_the_published_contract_grades_the_listed_sizes_and_ours_says_which_others(variants, tmp_path):
    source = replaced("    out = torch.empty_like(x)\n", "    assert x.numel() == 240\n    out = torch.empty_like(x)\n")
    folder = submission_at(tmp_path, source)
    with Harness(replace(SETTINGS, contract="published")) as harness:
        rows = graded(harness, folder, variants)
    assert [row.verdict for row in rows] == [Verdict.PASSED] * 2 and {row.detail for row in rows} == {""}
    with Harness(SETTINGS) as harness:
        (row,) = graded(harness, folder, variants[:1])
        assert row.verdict is not Verdict.PASSED and "with size" in row.detail
        (row,) = graded(harness, submission_at(tmp_path), variants[:1])
        assert row.verdict is Verdict.PASSED and "also with size" in row.detail
    with pytest.raises(ValueError, match="no contract 'ours'; there are passbench, published"):
        replace(SETTINGS, contract="ours")


def test_a_failing_reference_is_never_the_submissions_fault(harness, variants, tmp_path):
    broken = replace(variants[0], graph=replace(variants[0].graph, inits=('{"kind":"noise"}',) * 2))
    (row,) = graded(harness, submission_at(tmp_path), [broken])
    assert row.verdict is Verdict.HARNESS_ERROR and "noise" in row.detail


def test_variants_that_are_not_the_tasks_n_are_refused(harness, variants, tmp_path):
    with pytest.raises(ValueError, match="has 2 variants, 1 were given"):
        harness.grade(freeze(submission_at(tmp_path)), task_of(variants), variants[:1])


def test_the_examples_do_what_they_are_for(harness):
    shapes = {torch.float32: (2, 16, 768), torch.float16: (5, 768), torch.bfloat16: (1, 9, 768)}
    inputs = [[torch.randn(s, dtype=t) for s in (shape, shape, (768,), (768,))] for t, shape in shapes.items()]
    variants = variants_of(LayerNorm(), inputs)
    right = graded(harness, EXAMPLES / "fused_add_layer_norm", variants)
    assert [row.verdict.value for row in right] == ["PASSED"] * 3, [row.detail for row in right]
    wrong = graded(harness, EXAMPLES / "wrong_add_layer_norm", variants)
    assert [row.verdict.value for row in wrong] == ["WRONG_VALUE"] * 3, [row.detail for row in wrong]


def test_default_inductor_is_timed_beside_eager(variants, tmp_path):
    with Harness(replace(SETTINGS, inductor=True)) as harness:
        done = harness.grade(freeze(submission_at(tmp_path)), task_of(variants[:1]), variants[:1])
    assert done.results[0].inductor_speedup > 0
    (timing,) = done.timings
    assert timing.side == "inductor" and len(timing.eager_us) in (5, 10) and timing.blocks


def test_a_required_isolation_that_is_not_reached_refuses_before_anything_runs(variants, tmp_path):
    wanted = replace(SETTINGS, isolation="limits", require_isolation="landlock")
    with Harness(wanted) as harness, pytest.raises(ValueError, match="isolation landlock is required"):
        harness.grade(freeze(submission_at(tmp_path)), task_of(variants), variants)
    with pytest.raises(ValueError, match="no isolation level 'vm'"):
        replace(SETTINGS, require_isolation="vm")
