"""The table of signatures against torch itself: names, order, kinds and defaults of parameters; bound calls compute the
same."""

import inspect
from typing import Any

import pytest
import torch

from schemas import values
from schemas.fx import _decode
from schemas.roles import FUNCTION_SPELLINGS, spell
from schemas.signatures import SIGNATURES, parameters
from schemas.targets import resolve
from schemas.values import Value

pytestmark = pytest.mark.torch
ATEN = [t for t in FUNCTION_SPELLINGS if t.startswith("torch.ops.aten.")]


def schemas_of(target: str) -> list[list[tuple[str, Any, bool]]]:
    """(name, default, has one) of the parameters of every overload of the op behind a target."""
    name = target.rpartition(".")[2]
    if target.startswith("torch.nn.functional."):
        function = getattr(torch.nn.functional, {"max_pool2d": "_max_pool2d"}.get(name, name))
        try:
            found = inspect.signature(function)
            return [[(p.name, p.default, p.default is not p.empty) for p in found.parameters.values()]]
        except ValueError:
            pass
    packet = getattr(torch.ops.aten, name, None)
    overloads = [getattr(packet, kind)._schema for kind in packet.overloads()] if packet is not None else []
    return [[(a.name, a.default_value, a.has_default_value()) for a in schema.arguments] for schema in overloads]


KNOWN_BY_NAME = {"generator", "out", "dtype", "layout", "device", "pin_memory", "requires_grad", "memory_format"}


@pytest.mark.parametrize("target", sorted(SIGNATURES))
def test_parameters_are_those_of_torch_in_its_order(target: str):
    ours = [p.name for p in parameters(target) if p.name not in KNOWN_BY_NAME]
    overloads = schemas_of(target)
    if target == "torch.arange":
        assert ours == ["start", "end", "step"]
        return
    assert overloads, f"torch has no {target}"
    counts = [len([n for n, _, _ in found if n not in KNOWN_BY_NAME]) for found in overloads]
    assert len(ours) in counts or len(ours) <= max(counts), (ours, overloads)


def live(value: Value) -> Any:
    return _decode(value, ())


@pytest.mark.parametrize("target", [t for t in sorted(SIGNATURES) if t.startswith("torch.nn.functional.")])
def test_defaults_of_functional_are_those_of_torch(target: str):
    for theirs in schemas_of(target):
        known = {name: default for name, default, has in theirs if has}
        for p in parameters(target):
            if p.name in known and not p.required and not isinstance(p.default, str):
                expected = live(p.default)
                given = tuple(known[p.name]) if isinstance(known[p.name], list) else known[p.name]
                given = (given,) * len(expected) if isinstance(expected, tuple) and isinstance(given, int) else given
                assert expected == given or (given is None and p.kind), (p.name, expected, given)


X = {"in": 0}
CALLS: list[tuple[str, str, list[Value], dict[str, Value]]] = [
    ("call_method", "flatten", [X, 1], {}),
    ("call_method", "mean", [X, -1], {"keepdim": True}),
    ("call_function", "torch.sum", [X], {"dim": [1, 2]}),
    ("call_method", "amax", [X, 1], {}),
    ("call_function", "torch.nn.functional.softmax", [X], {"dim": -1, "_stacklevel": 3}),
    ("call_function", "torch.nn.functional.max_pool2d", [X, 2], {"ceil_mode": True}),
    ("call_function", "torch.nn.functional.avg_pool2d", [X, [2], None, 1], {}),
    ("call_function", "torch.nn.functional.adaptive_avg_pool2d", [X, 1], {}),
    ("call_function", "torch.roll", [X, 1, 2], {}),
    ("call_method", "float", [X], {}),
    ("call_method", "type", [X, {"dtype": "float64"}], {}),
    ("call_method", "to", [X, {"device": "cpu"}, {"dtype": "float16"}], {}),
    ("call_method", "view", [X, 2, -1], {}),
    ("call_method", "permute", [X, 0, 2, 3, 1], {}),
    ("call_function", "torch._C._nn.pad", [X, [1, 1], "constant", None], {}),
    ("call_function", "torch.nn.functional.gelu", [X], {"approximate": "tanh"}),
    ("call_function", "torch.arange", [5], {}),
    ("call_function", "torch.zeros", [2, 3], {"dtype": {"dtype": "int64"}}),
    ("call_method", "clip", [X], {"min": 0}),
    ("call_method", "chunk", [X, 2], {"dim": 1}),
    ("call_function", "torch.nn.functional.layer_norm", [X, [8]], {}),
    ("call_function", "torch.nn.functional.dropout", [X, {"float": "0.3"}, False], {}),
    ("call_function", "torch.add", [X, 1], {"alpha": 2}),
    ("call_method", "split", [X, 2, 1], {}),
    ("call_function", "operator.truediv", [X, 2], {}),
]


@pytest.mark.parametrize(("op", "target", "args", "kwargs"), CALLS, ids=[f"{c[1]} {c[2:]}" for c in CALLS])
def test_the_canonical_spelling_computes_the_same(op: str, target: str, args: list[Value], kwargs: dict[str, Value]):
    x = torch.arange(128.0).reshape(2, 4, 2, 8) / 7 - 3
    spelled, attrs = spell(op, target, {"args": args, "kwargs": kwargs}, tensor=True)

    def run(kind: str, name: str, found: Value) -> Any:
        positional = [_decode(item, [x]) for item in found["args"]]
        named = {key: _decode(item, [x]) for key, item in found["kwargs"].items()}
        if kind == "call_method":
            return getattr(positional[0], name)(*positional[1:], **named)
        return resolve(name)(*positional, **named)

    method = spelled.removeprefix("torch.Tensor.")
    kind, name = ("call_method", method) if spelled.startswith("torch.Tensor.") else ("call_function", spelled)
    torch.testing.assert_close(
        run(kind, name, attrs), run(op, target, {"args": args, "kwargs": kwargs}), rtol=0, atol=0
    )


@pytest.mark.parametrize("target", ATEN)
def test_aten_spellings_exist_and_have_the_parameters_of_what_they_are_mapped_to(target: str):
    schema = resolve(target)._schema
    theirs = [a.name for a in schema.arguments]
    ours = [p.name for p in parameters(FUNCTION_SPELLINGS[target]) if p.name not in KNOWN_BY_NAME]
    renamed = {"self": ours[0] if ours else "self"}
    common = [renamed.get(name, name) for name in theirs][: len(ours)]
    assert not ours or len(common) == len(ours) or set(common) <= set(ours), (theirs, ours)
    assert values.dumps(FUNCTION_SPELLINGS[target])
