"""What exceptions mean, and rows about them that are the same on every machine."""

import time

import pytest

from extract.failures import (
    BUILD,
    CAPTURE,
    FORWARD,
    GraphBreakError,
    InputsError,
    NumericError,
    RoundtripError,
    clean,
    failure_kind,
    failure_row,
    first_line,
    step,
)
from schemas.rows import FailureKind, ModelConfig, Text

pytestmark = pytest.mark.plain


class DataDependentOutputException(RuntimeError):
    """Stands for the exception of this name in torch, which is recognised by name."""


def raised(error: BaseException, where: str = "") -> BaseException:
    try:
        if not where:
            raise error
        with step(where):
            raise error
    except BaseException as caught:
        return caught


@pytest.mark.parametrize(
    ("error", "where", "kind"),
    [
        (GraphBreakError("x"), CAPTURE, FailureKind.GRAPH_BREAK),
        (GraphBreakError("DynamicOutputShapeException: aten.nonzero.default"), "", FailureKind.DATA_DEPENDENT),
        (RoundtripError("x"), "", FailureKind.ROUNDTRIP),
        (NumericError("x"), "", FailureKind.NUMERIC),
        (InputsError("x"), FORWARD, FailureKind.INPUT_MISMATCH),
        (MemoryError(), BUILD, FailureKind.OOM),
        (DataDependentOutputException("aten.item"), BUILD, FailureKind.DATA_DEPENDENT),
        (ImportError("needs scipy"), BUILD, FailureKind.BUILD_ERROR),
        (TypeError("forward() missing 1 required positional argument: 'bbox'"), CAPTURE, FailureKind.INPUT_MISMATCH),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), CAPTURE, FailureKind.INPUT_MISMATCH),
        (RuntimeError("an unheard-of complaint"), CAPTURE, FailureKind.RUNTIME_ERROR),
        (KeyError("odd"), FORWARD, FailureKind.INPUT_MISMATCH),
        (KeyError("odd"), "", FailureKind.UNKNOWN),
    ],
)
def test_kinds(error, where, kind):
    assert failure_kind(raised(error, where)) is kind


def test_the_cause_counts_too():
    outer = RuntimeError("wrapped")
    outer.__cause__ = DataDependentOutputException("aten.item")
    assert failure_kind(raised(outer, CAPTURE)) is FailureKind.DATA_DEPENDENT


def test_the_innermost_step_is_kept():
    def nested():
        with step(BUILD), step(FORWARD):
            raise KeyError("x")

    with pytest.raises(KeyError) as caught:
        nested()
    assert caught.value.passnet_step == FORWARD


def test_texts_lose_machine_paths_and_addresses():
    text = (
        'File "/opt/env/lib/python3.11/site-packages/torch/nn/init.py", line 1\n<f at 0x7f001234abcd> in /home/me/x.py'
    )
    assert clean(text) == 'File "torch/nn/init.py", line 1\n<f at 0x> in x.py'


def test_a_row_tells_item_kind_and_one_line():
    row = ModelConfig(
        architecture="a1", name="bert/BertModel", library="transformers", library_version="1", class_name="BertModel",
        config=Text("{}"), family="bert", modality="text-encoder", license="",
    )  # fmt: skip
    failure = failure_row(raised(ImportError("\nneeds scipy\nmore"), BUILD), stage="graphs", row=row)
    assert (failure.item, failure.kind, failure.message) == ("a1", FailureKind.BUILD_ERROR, "needs scipy")
    assert failure.exception == "ImportError" and "Traceback" in failure.detail
    assert first_line(ValueError()) == "ValueError"


def test_a_failed_fake_call_names_what_the_op_said():
    text = (
        "RuntimeError when making fake tensor call\n  Explanation: Dynamo failed to run FX node with fake tensors: "
        "call_function linear(*(FakeTensor(...),), **{}): got RuntimeError('a and b must have same reduction dim')\n"
    )
    wanted = "RuntimeError when making fake tensor call: RuntimeError('a and b must have same reduction dim')"
    assert first_line(RuntimeError(text)) == wanted


def test_a_message_of_ten_million_characters_costs_no_time():
    error = ValueError("a/b.c" * 2_000_000 + "\nend")
    began = time.process_time()
    assert len(first_line(error)) == 300
    assert failure_kind(error) is FailureKind.UNKNOWN
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Validation error for field 'x':\n    TypeError: got str (value: '32')",
         "Validation error for field 'x': TypeError: got str (value: '32')"),
        ("one\ntwo", "one"),
        ("errors:\n\n  first:\n  second\n  third", "errors: first: second"),
        ("nothing follows:", "nothing follows:"),
    ],
)  # fmt: skip
def test_a_line_that_ends_in_a_colon_brings_what_it_announces(text, told):
    assert first_line(ValueError(text)) == told
