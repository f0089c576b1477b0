"""Submissions that would take the machine down, and killed processes: a clean verdict and a usable machine."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.harness_faults import measure
from passbench import folders
from passbench.clock import Plan
from passbench.grader import Grader
from passbench.grading import Settled
from passbench.isolate import Limits, Template, TemplateDied
from passbench.journal import Journal, key_of
from passbench.policy import Facts
from passbench.results import finished, write_results
from passbench.run import Harness, Settings
from passbench.submission import freeze
from schemas.rows import Verdict
from tests.passbench.cases import KERNEL, AddRelu, submission_at, task_of, variants_of

pytestmark = pytest.mark.slow

SETTINGS = Settings(inductor=False, draws=1, plan=Plan(pairs=5, inner_us=500.0, max_seconds=1.0), timeout_s=60.0)
TIGHT = replace(
    SETTINGS,
    layers_off=("D3.audit",),
    timeout_s=30.0,
    limits=Limits(memory_mib=1024, file_mib=16, processes=64, scratch_mib=32),
)


@pytest.fixture(scope="module")
def harness():
    with Harness(TIGHT) as running:
        if running.template.reachable("process") != "namespaces":
            pytest.skip("this machine does not reach the level that stops these")
        yield running


@pytest.fixture(scope="module")
def variants():
    return variants_of(AddRelu(), [[torch.randn(2, 30 + i), torch.randn(2, 30 + i)] for i in range(3)])


def unpoliced(harness, folder, variant, *, uses_triton=True):
    """One case with the static policy left out, so that the process alone has to hold."""
    facts = Facts(uses_triton=uses_triton, wrapped=(("add_relu", "add_relu"),))
    settings = replace(harness.settings, layers_off=(*harness.settings.layers_off, "D4b.source"))
    grader = Grader(harness.template, freeze(folder), facts, task_of([variant]), settings)
    try:
        return grader.grade(variant, speed_measured=False)
    finally:
        grader.close()


def at_call(code):
    return "import os, sys, time\n" + KERNEL.replace("    return out\n", f"    {code}\n    return out\n")


FILL = "[open(os.environ['TMPDIR'] + f'/{i}', 'wb').write(bytes(2**20)) for i in range(99)]"
PRINT = "[(print('x' * 2**20), sys.stderr.write('x' * 2**16)) for _ in range(1024)]"
BOMBS = {
    "full disk": (FILL, "RUNTIME_ERROR", "No space"),
    "huge file": (
        "open(os.environ['TMPDIR'] + '/f', 'wb').write(bytes(32 * 2**20))",
        "RUNTIME_ERROR",
        "too large|space",
    ),
    "fork bomb": ("[os.fork() for _ in range(99)]", "RUNTIME_ERROR|TIMEOUT", ""),
    "memory bomb": ("out = [bytearray(2**26) for _ in range(999)] and out", "OOM", ""),
    "output of 10 GB": ("out = torch.empty(1).expand(10 * 2**28)", "WRONG_SHAPE|OOM|INTEGRITY", ""),
    "endless loop": ("sum(0 for _ in iter(int, 1))", "TIMEOUT", "30 s"),
    "1 GB of printing": (PRINT, "PASSED|RUNTIME_ERROR", ""),
}


@pytest.mark.parametrize("name", list(BOMBS))
def test_a_bomb_gets_its_verdict_and_leaves_the_machine_usable(harness, variants, tmp_path, name):
    code, verdicts, words = BOMBS[name]
    case = unpoliced(harness, submission_at(tmp_path / "bomb", at_call(code)), variants[0])
    assert case.verdict.value in verdicts.split("|"), f"{case.verdict} {case.detail}"
    assert any(word in case.detail for word in words.split("|")), case.detail
    after = unpoliced(harness, submission_at(tmp_path / "right"), variants[0])
    assert after.verdict is Verdict.PASSED, after.detail
    assert not [path for path in harness.template.folder.iterdir() if path.is_dir()]


def test_a_compilation_that_hangs_is_a_timeout(harness, variants, tmp_path):
    source = KERNEL.replace("    return (x, y)\n", "    while True:\n        pass\n")
    case = unpoliced(harness, submission_at(tmp_path, source), variants[0])
    assert case.verdict is Verdict.TIMEOUT and "30 s" in case.detail


INDUCTOR = """
import torch
import triton
import triton.language as tl
from torch._inductor import compile_fx

COMPILED = []


def graph_pass(gm, example_inputs):
    inner = compile_fx.compile_fx(gm, example_inputs)
    COMPILED.append(inner)
    graph = torch.fx.Graph()
    inputs = [graph.placeholder(f"arg{i}") for i in range(len(example_inputs))]
    graph.output(graph.call_function(run, tuple(inputs)))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def run(*inputs):
    return COMPILED[0](*inputs)
"""


def test_the_rest_of_a_graph_can_be_compiled_by_inductor_for_the_processor(variants, tmp_path):
    # It compiles for one graph, and Inductor's own threads and hooks are no fault.
    off = ("D3.audit", "D3.native", "D4b.graph", "D5.state", "D6.hidden_shapes", "D10.negatives", "D10.library")
    with Harness(replace(SETTINGS, timeout_s=600.0, layers_off=off)) as harness:
        case = unpoliced(harness, submission_at(tmp_path, INDUCTOR), variants[0], uses_triton=False)
    assert (case.verdict, case.isolation) == (Verdict.PASSED, "namespaces"), case.detail
    assert case.matches == 1


# --- killed processes -----------------------------------------------------------------------------------------------
def test_a_template_that_dies_is_replaced_and_no_verdict_suffers(variants, tmp_path):
    with Harness(replace(SETTINGS, workers=2)) as harness:
        first = harness.template
        killer = threading.Timer(1.0, first.kill)
        killer.start()
        rows = harness.grade(freeze(submission_at(tmp_path)), task_of(variants), variants).results
        killer.join()
        assert harness.template is not first
    assert [row.verdict for row in rows] == [Verdict.PASSED] * 3, [row.detail for row in rows]


def test_a_template_that_dies_every_time_is_the_harnesss_error(variants, tmp_path, monkeypatch):
    def dies(self, *args, **more):
        self.kill()
        return Template._ask(self, {"do": "reap", "pid": 0})

    with Harness(SETTINGS) as harness:
        monkeypatch.setattr(Template, "fork", dies)
        (row,) = harness.grade(freeze(submission_at(tmp_path)), task_of(variants[:1]), variants[:1]).results
    assert row.verdict is Verdict.HARNESS_ERROR and "also without the submission" in row.detail


def test_a_candidate_that_is_killed_once_is_tried_again_and_one_that_always_dies_is_not(harness, variants, tmp_path):
    suicide = at_call("os.kill(os.getpid(), 9)")
    case = unpoliced(harness, submission_at(tmp_path / "always", suicide), variants[0])
    assert case.verdict is Verdict.OOM
    seen = []
    original = Template.fork

    def killed_once(self, role, files=(), off=()):
        child = original(self, role, files, off)
        if role == "candidate" and not seen:
            seen.append(child.pid)
            os.kill(child.pid, signal.SIGKILL)
        return child

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Template, "fork", killed_once)
        case = unpoliced(harness, submission_at(tmp_path / "right"), variants[0])
    assert seen and case.verdict is Verdict.PASSED, case.detail


def test_kills_at_random_points_lose_nothing_and_leave_nothing():
    found = measure(kills=6, seed=1)
    assert found["kills"] >= 5
    assert {name: found[name] for name in ("lost", "doubled", "orphans", "leftovers")} == dict.fromkeys(
        ("lost", "doubled", "orphans", "leftovers"), 0
    )


def test_the_folder_of_a_dead_owner_is_swept_and_that_of_a_living_one_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(folders.tempfile, "tempdir", str(tmp_path))
    mine, hold = folders.make_folder()
    code = "import os\nfrom passbench.folders import make_folder\nprint(make_folder()[0])\nos.kill(os.getpid(), 9)"
    env = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(folders.__file__).parent.parent)}
    subprocess.run([sys.executable, "-u", "-c", code], env=env, check=False, capture_output=True)
    named_alike = tmp_path / f"{folders.PREFIX}of-a-user"
    named_alike.mkdir()
    assert len(list(tmp_path.glob(f"{folders.PREFIX}*"))) == 3
    assert folders.sweep() == 1
    assert sorted(tmp_path.iterdir()) == sorted([mine, named_alike])
    os.close(hold)
    assert folders.sweep() == 1 and not mine.exists()


def test_a_template_whose_orchestrator_is_gone_leaves_with_its_children_and_its_folder(tmp_path):
    code = (
        "import time\nfrom passbench.isolate import Limits, Template\n"
        "template = Template(device='cpu', limits=Limits()).__enter__()\n"
        "print(template.process.pid, template.fork('candidate').pid, flush=True)\ntime.sleep(600)\n"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(folders.__file__).parent.parent)}
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True) as process:
        pids = list(map(int, process.stdout.readline().split()))
        process.kill()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids) or list(tmp_path.iterdir()):
        assert time.monotonic() < deadline, (pids, list(tmp_path.iterdir()))
        time.sleep(0.05)


# --- going on where a run stopped -----------------------------------------------------------------------------------
def test_settled_variants_are_not_graded_again_and_only_under_the_same_key(variants, tmp_path):
    submission, task = freeze(submission_at(tmp_path / "pass")), task_of(variants)
    key = key_of(submission, task, variants, SETTINGS)
    assert key == key_of(submission, task, variants, replace(SETTINGS, workers=7))
    assert key != key_of(submission, task, variants, replace(SETTINGS, draws=2))
    assert key != key_of(submission, task, variants[:2], SETTINGS)
    journal = Journal(tmp_path, submission, task, key)
    with Harness(SETTINGS) as harness:
        whole = harness.grade(submission, task, variants, journal=journal)
        again = Journal(tmp_path, submission, task, key)
        assert {index: item.row for index, item in again.done.items()} == {row.index: row for row in whole.results}
        kept = {
            f"{index:03}/{name}": text for index, item in again.done.items() for name, text in item.artifacts.items()
        }
        assert kept == whole.artifacts
        assert tuple((index, *again.done[index].errors) for index in sorted(again.done)) == whole.numerics
        marked = replace(whole.results[1], detail="from the journal")
        again.add(Settled(row=marked))
        del again.done[0]
        again.done[1] = Settled(row=marked)
        seen = []
        rest = harness.grade(submission, task, variants, journal=again, progress=seen.append)
    assert [row.index for row in seen] == [0] and rest.results[1] == marked
    assert Journal(tmp_path, submission, task, "another key").done == {}
    assert not list(tmp_path.glob(".*.progress"))
    write_results(replace(whole, key=key), task, submission, tmp_path, variants)
    assert finished(tmp_path, submission, task, key).rows == whole.results
    assert finished(tmp_path, submission, task, "another key") is None


def test_a_full_disk_of_the_orchestrator_is_the_harnesss_error(variants, tmp_path, monkeypatch):
    def full(*args, **more):
        raise OSError(28, "No space left on device")

    with Harness(SETTINGS) as harness:
        harness.template  # noqa: B018  # its own folder is there
        monkeypatch.setattr(Path, "write_bytes", full)
        (row,) = harness.grade(freeze(submission_at(tmp_path)), task_of(variants[:1]), variants[:1]).results
    assert row.verdict is Verdict.HARNESS_ERROR and "No space left" in row.detail


def test_a_worker_that_cannot_start_is_said_at_once(monkeypatch):
    monkeypatch.setattr(Template, "_environment", lambda self: {"PYTHONHOME": "/nonexistent"})
    with pytest.raises(TemplateDied, match=r"(?s)did not start.*encodings"):
        Template(device="cpu", limits=Limits()).__enter__()
