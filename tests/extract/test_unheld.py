"""What no graph holds is told in the words of the author's code; what only looks like it is traced, equal to eager."""

from pathlib import Path

import pytest

from schemas.rows import Failure, FailureKind, GraphRecord, NumericCheck
from tests.extract.oracle import traced, unlike

pytestmark = pytest.mark.torch
OWN = Path(__file__).parent / "own" / "unheld.py"
UNHELD, BUILT, RAN = FailureKind.NOT_REPRESENTABLE, FailureKind.BUILD_ERROR, FailureKind.RUNTIME_ERROR


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("GeneratorMade", UNHELD, "an argument of type torch.Generator"),
        ("GeneratorHeld", UNHELD, "an argument of type torch.Generator"),
        ("Derivative", UNHELD, "function transform of torch.func (grad"),
        ("Tangent", UNHELD, "function transform of torch.func (grad, vjp, jvp"),
        ("BatchedAfterBreak", UNHELD, "function transform of torch.func (vmap)"),
        ("SparseHeld", UNHELD, "a tensor of layout sparse_coo"),
        ("SparseRowsInList", UNHELD, "a tensor of layout sparse_csr"),
        ("NestedMade", UNHELD, "nested_tensor"),
        ("Numpy", UNHELD, "hands a tensor to numpy"),
        ("NumpyOfWeights", UNHELD, "hands a tensor to numpy"),
        ("DeviceOfPart", BUILT, "traced on the CPU"),
        ("DeviceOfBuffer", BUILT, "traced on the CPU"),
        ("DeviceOfFactory", RAN, "traced on the CPU"),
        ("DeviceOfConversion", RAN, "traced on the CPU"),
        ("DeviceOfWeights", RAN, "traced on the CPU"),
    ],
)
def test_what_no_graph_holds_is_named(name: str, kind: FailureKind, words: str):
    found = traced(OWN, name)
    assert isinstance(found, Failure), "it was traced"
    assert (found.kind, words in found.message) == (kind, True), found.message


@pytest.mark.parametrize(
    "name",
    ["NumpyOfPositions", "Cast", "CastMethod", "CastUntilError", "CastOfOtherDevice", "Gradients"],
)
def test_scopes_and_known_numbers_are_recorded(name: str):
    found = traced(OWN, name)
    assert isinstance(found, GraphRecord), found
    assert found.numeric is NumericCheck.EQUAL and not found.numeric_detail.startswith("compared with the captured")
    assert unlike(found, OWN, name) == "" and unlike(found, OWN, name, seed=1) == ""


@pytest.mark.parametrize("name", ["Traced", "TensorOfIterator"])
def test_scripted_parts_and_strange_constants_are_those_of_the_module(name: str):
    found = traced(OWN, name)
    assert isinstance(found, GraphRecord), found
    assert (found.numeric, found.numeric_detail) == (NumericCheck.EQUAL, "")
