"""Input synthesis: reproducible from (seed, position), strides honoured, every kind and dtype."""

import json

import pytest
import torch

import passbench.inputs as inputs_module
from passbench.inputs import FILLS, extent, materialize, value_of
from schemas.graph import DTYPE_BYTES, Graph, Node, TensorSpec

pytestmark = pytest.mark.torch

NORMAL = '{"kind":"normal","mean":0.0,"std":1.0}'


def spec(shape, dtype="float32", stride=None):
    if stride is None:
        stride, step = [], 1
        for size in reversed(shape):
            stride.insert(0, step)
            step *= size
    return TensorSpec(dtype=dtype, shape=tuple(shape), stride=tuple(stride), device="cpu")


def graph(*items):
    nodes = [
        Node(op="placeholder", name=f"p{i}", target="input", inputs=(), attrs="{}", outputs=(s,))
        for i, (_, s) in enumerate(items)
    ]
    attrs = '{"args":[{"tuple":[]}],"kwargs":{}}'
    nodes.append(Node(op="output", name="output", target="", inputs=(), attrs=attrs, outputs=()))
    return Graph(nodes=tuple(nodes), inits=tuple(init for init, _ in items), subgraphs=())


def test_same_seed_same_values_other_seed_other_values_and_positions_are_independent():
    one, two = graph((NORMAL, spec([4, 5]))), graph((NORMAL, spec([4, 5])), (NORMAL, spec([4, 5])))
    state = torch.random.get_rng_state()
    a, b = materialize(two, seed=3)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(a, materialize(one, seed=3)[0])
    assert not torch.equal(a, b)
    assert not torch.equal(a, materialize(two, seed=4)[0])


@pytest.mark.parametrize("dtype", sorted(DTYPE_BYTES))
def test_every_dtype(dtype):
    init = NORMAL if "float" in dtype or "complex" in dtype else '{"kind":"integers","low":0,"high":2}'
    value = value_of(init, spec([2, 3], dtype), seed=1)
    assert value.dtype == getattr(torch, dtype) and value.shape == (2, 3)


@pytest.mark.parametrize(
    "shape, stride",
    [
        ((3, 4), (1, 3)), ((3, 4), (4, 0)), ((3, 4), (0, 0)), ((3, 4), (1, 1)), ((2, 3, 4), (24, 8, 2)),
        ((), ()), ((0, 4), (4, 1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["normal", "arange"])
def test_strides(shape, stride, kind):
    value = value_of(json.dumps({"kind": kind}), spec(shape, stride=stride), seed=0)
    assert value.shape == shape and value.stride() == stride
    if kind == "arange" and stride == (1, 3):
        assert value.tolist() == [[0, 1, 2, 3]] * 3


def test_extent_counts_the_last_element():
    assert extent(spec((3, 4), stride=(8, 2))) == 2 * 8 + 3 * 2 + 1


@pytest.mark.parametrize(
    "init, shape, dtype, expected",
    [
        ({"kind": "zeros"}, [2], "float16", [0, 0]),
        ({"kind": "ones"}, [2], "int32", [1, 1]),
        ({"kind": "constant", "value": {"float": "-inf"}}, [2], "float32", [float("-inf")] * 2),
        ({"kind": "arange", "start": 2, "step": 3}, [2, 2], "int64", [[2, 5], [2, 5]]),
        ({"kind": "causal_mask"}, [2, 3], "bool", [[True, True, False], [True, True, True]]),
        ({"kind": "literal", "data": [[1, 2], [3, 4]]}, [2, 2], "int64", [[1, 2], [3, 4]]),
        ({"kind": "bool", "p": 1.0}, [2], "bool", [True, True]),
    ],
)
def test_exact_kinds(init, shape, dtype, expected):
    assert value_of(json.dumps(init), spec(shape, dtype), seed=0).tolist() == expected


def test_float_causal_mask_is_zero_or_lowest():
    mask = value_of('{"kind":"causal_mask"}', spec([1, 1, 2, 2], "bfloat16"), seed=0)
    assert mask[0, 0].tolist() == [[0, torch.finfo(torch.bfloat16).min], [0, 0]]


def test_ranges():
    whole = value_of('{"kind":"integers","low":3,"high":5}', spec([1000], "int64"), seed=0)
    assert set(whole.tolist()) == {3, 4}
    real = value_of('{"kind":"uniform","low":-1.0,"high":2.0}', spec([1000]), seed=0)
    assert -1 <= real.min() < -0.9 and 1.9 < real.max() < 2
    normal = value_of('{"kind":"normal","mean":5.0,"std":0.1}', spec([1000]), seed=0)
    assert abs(normal.mean() - 5) < 0.02 and abs(normal.std() - 0.1) < 0.02


@pytest.mark.parametrize("dtype, kind", [("SymInt", int), ("SymFloat", float), ("SymBool", bool)])
def test_scalars(dtype, kind):
    value = value_of('{"kind":"scalar","value":1}', spec([], dtype), seed=0)
    assert type(value) is kind and value == 1


def test_unknown_kind_and_bad_literal_are_one_clear_line():
    with pytest.raises(ValueError, match="unknown initialiser kind 'noise'"):
        materialize(graph(('{"kind":"noise"}', spec([2]))), seed=0)
    with pytest.raises(ValueError, match="holds 1 values"):
        materialize(graph(('{"kind":"literal","data":[1]}', spec([2]))), seed=0)
    with pytest.raises(ValueError, match=r"placeholder 0 \('p0'\)"):
        materialize(graph(('{"kind":"uniform"}', spec([2]))), seed=0)


def test_every_kind_is_documented():
    assert all(f'"{kind}"' in inputs_module.__doc__ for kind in FILLS)


@pytest.mark.parametrize("mood", ["mixed", "far mixed", "striped", "small", ""])
def test_numbers_that_are_given_stand_among_inputs_that_mix_all_kinds(mood):
    numbers = [1.2345678, 0.7071, 77.25, 30000.0]
    (value,) = materialize(graph((NORMAL, spec([4, 60]))), seed=3, mood=mood, numbers=numbers)
    expected = [n for n in numbers if mood == "far mixed" or (mood == "mixed" and n < 128)]
    assert [n for n in numbers if (value == n).any() and (value == -n).any()] == expected
    (again,) = materialize(graph((NORMAL, spec([4, 60]))), seed=3, mood=mood, numbers=numbers)
    assert torch.equal(value, again)


def test_of_many_numbers_only_as_many_stand_there_as_there_is_room_for():
    numbers = [1.0 + k / 1000 for k in range(500)]
    one, two = (materialize(graph((NORMAL, spec([40]))), seed=3, mood="mixed", numbers=n)[0] for n in ([], numbers))
    assert 0 < int((one != two).sum()) <= 10
