"""Kernels are compiled without a GPU: what Triton refuses is no kernel, and what says nothing of one is no verdict."""

import json

import pytest

from benchmarks.grader_tasks import ADD_RELU, add_relu_task, write_submission
from passbench.compiling import Compiler
from passbench.grading import Case
from passbench.isolate import Limits
from passbench.run import Harness, Settings
from passbench.sandbox import LEVELS
from passbench.submission import freeze
from schemas.rows import Verdict

pytestmark = pytest.mark.torch
LOAD = "    x = tl.load"
WRONG = {
    "Loop-carried variable acc": ADD_RELU.replace(
        LOAD, f"    acc = 0\n    for i in range(2):\n        acc = acc + tl.load(x_ptr + offset).to(tl.float32)\n{LOAD}"
    ),
    "Cannot access global variable ZERO": ADD_RELU.replace("@triton.jit", "ZERO = 0.0\n\n\n@triton.jit").replace(
        "maximum(x + y, 0.0)", "maximum(x + y, ZERO)"
    ),
}
TEXT = (
    "def kernel(x_ptr, n, BLOCK: tl.constexpr):\n    i = tl.arange(0, BLOCK)\n    tl.store(x_ptr + i, 1.0, mask=i < n)"
)
KERNEL = {
    "function": "kernel",
    "path": "p.py",
    "line": 3,
    "text": TEXT,
    "names": {"tl": ["library", "triton.language"]},
}


def wanted(block, kind="*fp32"):
    types = [["x_ptr", kind], ["n", "i32"], ["BLOCK", "constexpr"]]
    return ["k", types, [["BLOCK", block]], [["num_warps", 4]]]


def told(*specialisations, kernel=KERNEL):
    return json.dumps({"kernels": {"k": kernel}, "wanted": specialisations}).encode()


@pytest.fixture(scope="module")
def compiler():
    with Compiler(Limits(), LEVELS[-1]) as made:
        yield made


def settled(compiler, message):
    case = Case()
    case.verdict = Verdict.PASSED
    compiler.check(message, case)
    return case


@pytest.fixture(scope="module")
def harness():
    with Harness(Settings(inductor=False, draws=1)) as made:
        yield made


@pytest.mark.parametrize("says", WRONG)
def test_what_only_an_interpreter_takes_is_a_compile_error(harness, tmp_path, says):
    task, variants = add_relu_task(0, 1)
    (row,) = harness.grade(freeze(write_submission(tmp_path, WRONG[says])), task, variants).results
    assert row.verdict is Verdict.COMPILE_ERROR and says in row.detail and "add_relu.py:" in row.detail


def test_the_layer_alone_tells_them(tmp_path):
    task, variants = add_relu_task(0, 1)
    submission = freeze(write_submission(tmp_path, next(iter(WRONG.values()))))
    with Harness(Settings(inductor=False, draws=1, layers_off=("D4b.compiled",))) as harness:
        (row,) = harness.grade(submission, task, variants).results
    assert row.verdict is Verdict.PASSED


def test_a_right_kernel_is_compiled_once(compiler):
    assert settled(compiler, told(wanted(64), wanted(128))).verdict is Verdict.PASSED
    known = len(compiler.known)
    assert settled(compiler, told(wanted(128))).verdict is Verdict.PASSED
    assert len(compiler.known) == known >= 2


def test_a_block_whose_size_is_no_power_of_two_is_refused_with_its_place(compiler):
    case = settled(compiler, told(wanted(64), wanted(100)))
    assert case.verdict is Verdict.COMPILE_ERROR
    assert "p.py:3: kernel" in case.detail and "power of 2" in case.detail and "BLOCK=100" in case.detail


def test_a_failure_is_that_of_its_own_specialisation(compiler):
    assert settled(compiler, told(wanted(256), wanted(300), wanted(512))).verdict is Verdict.COMPILE_ERROR
    assert settled(compiler, told(wanted(256), wanted(512))).verdict is Verdict.PASSED


def test_a_configuration_that_breaks_a_static_assertion_is_none(compiler):
    text = TEXT.replace("    i = ", "    tl.static_assert(BLOCK > 32)\n    i = ")
    assert settled(compiler, told(wanted(16), wanted(64), kernel={**KERNEL, "text": text})).verdict is Verdict.PASSED


@pytest.mark.parametrize("message", [b"", b"[]", b'{"kernels": 3, "wanted": []}', b"[" * 100_000])
def test_an_account_without_form_is_an_integrity_failure(compiler, message):
    case = settled(compiler, message)
    assert case.verdict is Verdict.INTEGRITY and case.rule == "protocol"


def test_a_type_that_cannot_be_named_here_is_left_alone(compiler):
    assert settled(compiler, told(wanted(64, "('i32', 'i32')"))).verdict is Verdict.PASSED


def test_a_compilation_that_takes_too_long_is_left_out_and_told(compiler, monkeypatch):
    monkeypatch.setattr("passbench.compiling.SECONDS", 0.3)
    loop = TEXT.replace("    tl.store", "    for j in tl.static_range(100000):\n        i = i + j\n    tl.store")
    case = settled(compiler, told(wanted(64), kernel={**KERNEL, "text": loop}))
    assert case.verdict is Verdict.PASSED and "not compiled" in case.checked[0]
