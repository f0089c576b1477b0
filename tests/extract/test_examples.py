"""Example inputs: every tensor an input of its own, in whatever it came, and nothing that a graph does not hold."""

import json
from collections import OrderedDict, UserDict, defaultdict, deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from extract.arguments import Called
from extract.examples import with_examples
from schemas.fx import NotRepresentable

pytestmark = pytest.mark.torch
G = torch.Generator().manual_seed(0)


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True, slots=True)
class Data:
    pos: Any
    rest: Any = None


class Checked:
    """An object whose constructor changes what it is given."""

    def __init__(self, kept: Any) -> None:
        self.kept = kept * 2
        self.name = "kept"


class Attributes(UserDict):
    def __getattr__(self, name: str) -> Any:
        if name == "data":
            raise AttributeError(name)
        return self.data[name]


def t(*shape: int) -> torch.Tensor:
    return torch.randn(shape or (3,), generator=G)


def read(given: Any, forward: Any) -> tuple[nn.Module, list[str]]:
    """The wrapped module, and the names of its inputs."""
    module = nn.Module()
    module.forward = forward
    found = with_examples(module, lambda: given, name="it")
    return found, [item.name for item in found.wanted_inputs]


def called(found: nn.Module) -> Any:
    return found(**{item.name: item.value(0) for item in found.wanted_inputs})


CONTAINERS = {
    "tuple of list": (lambda v: v[0][0] - v[1], (([t()], t()),)),
    "named tuple": (lambda v: v.left - v.right * v[0], Pair(t(), t())),
    "named tuple in a list": (lambda v: v[0].left - v[0].right["k"], ([Pair(t(), {"k": t()})],)),
    "frozen dataclass with slots": (lambda v: v.pos - v.rest[0], Data(t(), (t(),))),
    "dataclass without a tensor in a field": (lambda v: v.pos * v.rest, Data(t(), 2.5)),
    "object with a constructor of its own": (lambda v: v.kept if v.name == "kept" else 0, Checked(t())),
    "ordered dictionary": (lambda v: v["a"] - next(iter(v.values())), (OrderedDict(b=t(), a=t()),)),
    "dictionary with a default": (lambda v: v["a"][0] - (1 if v["none"] == [] else 0),
                                  (defaultdict(list, {"a": [t()]}),)),
    "deque": (lambda v: v[0] - v[-1] if v.maxlen == 4 else 0, (deque([t(), t()], maxlen=4),)),
    "user dictionary with attributes": (lambda v: v.a - v["b"], (Attributes(a=t(), b=t()),)),
    "keys that are no text": (lambda v: v[3] - v[(1, "x")] * v[None] + v[True], ({3: t(), (1, "x"): t(), None: t(),
                                                                               True: t()},)),
    "padded sequence": (lambda v: v.data + v.batch_sizes.sum(),
                        nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_module_gets_the_container_that_was_given(name):
    forward, given = CONTAINERS[name]
    found, names = read(given, lambda v: forward(v))
    assert len(set(names)) == len(names) and all(item.isidentifier() for item in names)
    direct = forward(given[0] if type(given) is tuple else given)
    assert torch.equal(called(found), direct)


def test_what_is_no_tensor_reaches_the_module_as_it_is():
    marker = object()
    found, names = read(
        ([t(), None, 3], None, 2.5, "sum", True, marker, {"a": range(2)}), lambda *given: given[0][0] * 0 + len(given)
    )
    assert names == ["input_0_0"] and called(found).tolist() == [7.0] * 3
    kept: list[Any] = []
    found, _ = read((t(), marker, [1, None]), lambda x, m, n: kept.append((m, n)) or x)
    called(found)
    assert kept[0][0] is marker and kept[0][1] == [1, None]


NAMES = {
    "a list beside a name": (([t(), t()], t()), ["x", "x_0"], lambda x, x_0: x[0] * 2 + x[1] - x_0),
    "a name beside a list": ((t(), [t(), t()]), ["x_0", "x"], lambda x_0, x: x[0] * 2 + x[1] - x_0),
    "a name that counting would give": (([t()], t(), t()), ["x", "x_0", "x_0_2"],
                                        lambda x, x_0, x_0_2: x[0] - x_0 * x_0_2),
    "two dictionaries": (({"a_b": t(), "a": {"b": t()}},), ["x"], lambda x: x["a_b"] - x["a"]["b"]),
    "keys with other letters": (({"a-b": t(), "a.b": t(), "a b": t(), "a_b": t()},), ["x"],
                                lambda x: x["a-b"] - x["a.b"] * x["a b"] / x["a_b"]),
    "a number and its text": (({1: t(), "1": t()},), ["x"], lambda x: x[1] - x["1"]),
    "letters of no alphabet": (({"é": t(), "": t(), "+": t()},), ["x"], lambda x: x["é"] - x[""] * x["+"]),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_inputs_whose_paths_join_to_one_name_stay_apart(name):
    given, _, forward = NAMES[name]
    found, names = read(given, forward)
    assert len(set(names)) == len(names) == len(json.dumps(str(given)).split("tensor(")) - 1
    assert torch.equal(called(found), forward(*given))


def test_plain_tensors_keep_the_names_of_their_arguments_and_need_no_wrapper():
    found, names = read((t(), t()), lambda x, y: x - y)
    assert not isinstance(found, Called) and names == ["x", "y"]
    found, names = read({"y": t(), "x": t()}, lambda x, y: x - y)
    assert not isinstance(found, Called) and names == ["y", "x"]


def test_positional_only_and_further_arguments_are_given_by_position():
    def only(x, /, y):
        return x - y

    given = (t(), t())
    assert torch.equal(called(read(given, only)[0]), given[0] - given[1])
    assert torch.equal(called(read(given, lambda *xs: xs[0] - xs[1])[0]), given[0] - given[1])
    assert torch.equal(called(read({"a": given[0]}, lambda **kw: kw["a"])[0]), given[0])


# --- memory ---------------------------------------------------------------------------------------------------------
def test_a_tensor_given_twice_is_one_input():
    x = t()

    def forward(x, y):
        y.add_(1)
        return x * 2

    found, names = read((x, x), forward)
    assert names == ["x"]
    assert torch.equal(called(found), (x + 1) * 2)


@pytest.mark.parametrize(
    "inner", [lambda x: x[:, 1:3], lambda x: x[1], lambda x: x.t(), lambda x: x[::2, 3], lambda x: x.view(-1)[5:9]]
)
def test_a_view_of_another_input_is_one_of_that_input(inner):
    x = t(4, 4)

    def forward(y, x):
        y.mul_(3)
        return x + 1

    found, names = read((inner(x), x), forward)
    assert names == (["y"] if inner(x).numel() == 16 else ["x"])
    wanted = x.clone()
    inner(wanted).mul_(3)
    assert torch.equal(called(found).reshape(4, 4), wanted + 1)


def test_halves_of_one_storage_are_inputs_of_their_own():
    left, right = t(4, 4).chunk(2, 1)
    found, names = read((left, right), lambda x, y: x - y)
    assert names == ["x", "y"] and not isinstance(found, Called)
    assert found.wanted_inputs[1].spec.stride == (4, 1)


def test_tensors_that_overlap_in_part_are_refused_by_name():
    x = t(8)
    with pytest.raises(NotRepresentable, match=r"inputs x and y share a part of their memory: give clones"):
        read((x[:5], x[3:]), lambda x, y: x.sum() + y.sum())
    with pytest.raises(NotRepresentable, match=r"share a part of their memory"):
        read((x, x.view(torch.int32)), lambda x, y: x + y)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.eye(3).to_sparse(), "x is a tensor of layout sparse_coo"),
        (torch.eye(3).to_sparse_csr(), "x is a tensor of layout sparse_csr"),
        (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "x is a nested tensor"),
        (torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "x is a quantized tensor"),
        (torch.ones(3, device="meta"), "x is a tensor on the device meta"),
        (torch.ones(3).as_subclass(type("Sub", (torch.Tensor,), {})), "x is a Sub, a sub-class of Tensor"),
        ([torch.ones(3), torch.eye(3).to_sparse()], r"x\[1\] is a tensor of layout sparse_coo"),
        ({torch.ones(3)}, "x is a set of tensors"),
        ({"a": iter([torch.ones(3)])}, r"x\[a\] is a list_iterator, read once"),
    ],
)
def test_what_no_graph_holds_is_refused_with_the_name_of_the_input(value, words):
    with pytest.raises(NotRepresentable, match=f"the example input {words}"):
        read((value, torch.ones(3)), lambda x, y: y)


def test_a_structure_that_holds_itself_is_refused():
    given: dict[str, Any] = {"x": t()}
    given["me"] = given
    with pytest.raises(NotRepresentable, match="of type dict holds itself"):
        read((given,), lambda v: v["x"] * 2)


def test_a_call_without_a_tensor_or_with_keys_that_name_no_argument_is_refused():
    with pytest.raises(ValueError, match="example inputs of it hold no tensor"):
        read((1, [None]), lambda x, y: x)
    with pytest.raises(ValueError, match="a key is no text"):
        read({1: t()}, lambda x: x)


# --- numbers --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (torch.randn(40, generator=G) - 3, "normal"),
        (torch.rand(40, generator=G), "uniform"),
        (torch.tensor(1.5), "constant"),
        (torch.ones(4), "constant"),
        (torch.full((9, 9), float("-inf")).triu(1), "literal"),
        (torch.full((90, 90), float("-inf")).triu(1), "banded"),
        ((torch.randn(60, generator=G) > 0).float(), "literal"),
        (torch.tensor([1, 4, 0]), "literal"),
        (torch.tensor([True, False]), "literal"),
        (torch.randn(4, dtype=torch.complex64, generator=G), "normal"),
        (torch.randn(4, generator=G).to(torch.float8_e4m3fn), "normal"),
        (torch.tensor([7, 60000], dtype=torch.uint16), "literal"),
        (torch.empty(0, 3), "zeros"),
    ],
)
def test_numbers_are_kept_as_their_nature_asks(value, kind):
    found, _ = read((value,), lambda x: x)
    (item,) = found.wanted_inputs
    assert json.loads(item.init)["kind"] == kind
    assert item.value(0).dtype == value.dtype and item.value(0).tolist() == value.tolist()


@pytest.mark.parametrize(
    "value",
    [
        torch.ones(1, 4).expand(3, 4),
        t(4, 3).t(),
        t(3, 8)[:, ::2],
        t(4, 4)[1:, 1:],
        t(2, 3).conj(),
        t(3).requires_grad_(),
    ],
)
def test_strides_are_kept(value):
    (item,) = read((value,), lambda x: x)[0].wanted_inputs
    assert item.spec.shape == tuple(value.shape) and item.spec.stride == tuple(value.stride())
    made = item.value(0)
    assert made.stride() == value.stride() and torch.equal(made, value) and not made.requires_grad
    assert made.untyped_storage().data_ptr() != value.untyped_storage().data_ptr()
