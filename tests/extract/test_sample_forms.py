"""What the code of a sample may say: read, rebuilt and run, it gives what Python itself makes of the same file."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from extract.admission import check_rebuilt
from extract.failures import SampleError, failure_kind
from extract.samples import read_sample
from extract.trace import SAMPLE_MODE, TraceConfig, trace
from passbench.inputs import materialize
from schemas.fx import lower
from schemas.graph import Graph, TensorSpec
from schemas.rows import FailureKind, GraphRecord, ModelConfig, Text, content_id

pytestmark = pytest.mark.torch


def written(folder: Path, body: str, described: dict[str, dict[str, object]] | None = None) -> Path:
    """A sample of a body and its tensors: name -> fields of its class, `L_x_` of shape [2, 8] always among them."""
    every: dict[str, dict[str, object]] = {"L_x_": {}, **(described or {})}
    arguments = ", ".join(f"{name}: torch.Tensor" for name in every)
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    head = f"import torch\nclass GraphModule(torch.nn.Module):\n    def forward(self, {arguments}):\n"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(f"{head}{lines}\n", encoding="utf-8")
    metas = []
    for name, fields in every.items():
        known = {"name": name, "shape": [2, 8], "dtype": "torch.float32", "mean": 0.0, "std": 1.0, "data": None}
        rows = "\n".join(f"    {key} = {value!r}" for key, value in {**known, **fields}.items())
        metas.append(f"class Program_weight_tensor_meta_{name}:\n{rows}\n")
    (folder / "weight_meta.py").write_text("\n\n".join(metas), encoding="utf-8")
    return folder


def executed(folder: Path, inputs: list[object]) -> list[torch.Tensor]:
    """What Python itself makes of the code of a sample: the outputs of its forward, flat."""
    names: dict[str, Any] = {}
    exec(compile((folder / "model.py").read_text(encoding="utf-8"), "model.py", "exec"), names)
    copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    return pytree.tree_leaves(names["GraphModule"]().forward(*copies))


def assert_computes_what_python_computes(folder: Path) -> Graph:
    """The graph that was read, and the code run by Python, give the same bits on the inputs that the files describe."""
    graph = read_sample(folder)
    inputs = materialize(graph, seed=3)
    wanted, found = executed(folder, inputs), pytree.tree_leaves(lower(graph)(*materialize(graph, seed=3)))
    assert len(wanted) == len(found)
    for left, right in zip(wanted, found, strict=True):
        if isinstance(left, torch.Tensor):
            assert (left.dtype, left.shape) == (right.dtype, right.shape)
            assert torch.equal(left.nan_to_num(), right.nan_to_num())
        else:
            assert left == right
    return graph


SCALE = {"L_s_": {"shape": [], "dtype": "torch.float64", "mean": 0.125, "std": 0.0}}
UNKNOWN_SCALE = {"L_s_": {"shape": [], "dtype": "torch.float64", "mean": 0.125, "std": 0.5}}


@pytest.mark.parametrize("described", [SCALE, UNKNOWN_SCALE], ids=["known", "unknown"])
@pytest.mark.parametrize(
    "body",
    [
        "n = L_s_.item()\nreturn torch.full((2, 8), n) + L_x_",
        "n = L_s_.item()\nreturn torch.full((), n, dtype=torch.float32) * L_x_",
        "n = L_x_.max()\nreturn torch.full((2, 8), n.item()) + L_x_ * L_s_.item()",
        "return torch.linspace(0.0, L_s_.item(), 8) + L_x_",
        "return torch.scalar_tensor(L_s_.item()) + L_x_",
        "return torch.tensor(L_s_.item()) + L_x_",
        "return torch.tensor([L_s_.item(), 2.0])[0] + L_x_",
        "return torch.full_like(L_x_, L_s_.item()) + L_x_.new_full((8,), L_s_.item())",
        "k = torch.tensor([1.0, 2.0])\nk.fill_(L_s_.item())\nreturn k.sum() + L_x_",
        "k = torch.tensor([1.0, 2.0])\nreturn torch.where(k > 1.5, L_s_.item(), 0.0).sum() + L_x_",
        "return L_x_ * L_s_.item() + -L_s_.item() ** 2",
        "return L_x_.clamp(-L_s_.item(), L_s_.item())",
        "return torch.full((2, 8), L_x_.to(torch.int64).max().item()) + L_x_",
    ],
)  # fmt: skip
def test_a_constant_of_a_number_is_read_whether_the_number_is_known_or_not(body, described, tmp_path: Path):
    assert_computes_what_python_computes(written(tmp_path / "s", body, described))


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"mean": 0.125, "std": 0.0}, 0.125),
        ({"mean": 0.125, "std": None}, 0.125),
        ({"mean": -2.0, "std": float("nan")}, -2.0),
        ({"mean": 0.0, "std": 0.0}, 0.0),
        ({"mean": None, "std": None, "min_val": 0.5, "max_val": 0.5}, 0.5),
        ({"mean": None, "std": None, "data": [0.1]}, 0.1),
        ({"mean": -3.4028234663852886e38, "std": 0.0, "dtype": "torch.float32"}, torch.finfo(torch.float32).min),
        ({"mean": -3.4028234663852886e38, "std": None}, -3.4028234663852886e38),
        ({"mean": 3.0, "std": 0.0, "dtype": "torch.int64"}, 3),
        ({"mean": 7, "std": None, "dtype": "torch.int32"}, 7),
        ({"mean": None, "std": None, "min_val": 5, "max_val": 5, "dtype": "torch.int64"}, 5),
        ({"mean": None, "std": None, "data": [9], "dtype": "torch.int64"}, 9),
        ({"mean": 1.0, "std": 0.0, "dtype": "torch.bool"}, True),
        ({"mean": None, "std": None, "data": [False], "dtype": "torch.bool"}, False),
        ({"mean": 0.5, "std": 0.0, "shape": [1], "dtype": "torch.float16"}, 0.5),
    ],
)
def test_the_value_of_a_single_number_is_its_mean(fields, wanted, tmp_path: Path):
    fields = {"shape": [], "dtype": "torch.float64", **fields}
    graph = read_sample(written(tmp_path / "s", "n = L_n_.item()\nreturn L_x_, n", {"L_n_": fields}))
    given = materialize(graph, seed=11)[1]
    assert isinstance(given, torch.Tensor)
    assert given.item() == wanted
    item = next(node for node in graph.nodes if node.target == "item")
    assert item.outputs == (), "known while shapes are propagated, so that code may use it where a number must be known"


def test_a_parameter_of_one_zero_stays_no_zero(tmp_path: Path):
    folder = written(tmp_path / "s", "return L_x_ * L_w_", {"L_w_": {"shape": [1], "std": 0.0}})
    path = folder / "model.py"
    path.write_text(path.read_text().replace("L_w_: torch.Tensor", "L_w_: torch.nn.parameter.Parameter"))
    given = materialize(read_sample(folder), seed=0)[1]
    assert isinstance(given, torch.Tensor)
    assert given.item() != 0


@pytest.mark.parametrize(
    "body",
    [
        "p = L_s_.item()\nreturn torch.nn.functional.dropout(L_x_, p, training=False)",
        "y = torch.nn.functional.dropout(L_x_, p=L_s_.item(), training=False)\nreturn y * L_s_.item()",
        "n = [None] * 4\nreturn L_x_[n[0]]",
        "n = [None] * 3\nn = n + [slice(None)]\nreturn L_x_[(n[0], n[3], *n[1:2])]",
        "return L_x_[(None,) * 2 + (Ellipsis, slice(0, 2))]",
        "return torch.cat([L_x_] * 3)",
        "return torch.cat((L_x_,) * 2 + (L_x_ + 1,))",
        "return torch.cat([L_x_, *[L_x_ * 2, L_x_]])",
        "a, b = L_x_\nreturn a - b",
        "(a, b), c = (L_x_[0], L_x_[1]), L_x_\nreturn a - b + c",
        "x, y = L_x_, 3\nreturn x * y",
        "return torch.stack([*L_x_])",
        "return torch.stack(tuple(L_x_))",
        "n = L_x_.shape\nreturn L_x_.view(*n[::-1])",
        "n = [*L_x_.shape]\nreturn L_x_.reshape(n[1:] + n[:1])",
        "n = list(range(2, 5))[1:]\nreturn L_x_ * n[0] + len(n) + len([1, 2]) + len(L_x_.shape)",
        "n = {'a': L_x_, 'b': 2}\nreturn n['a'] * n['b']",
        "n = {'a': 1, **{'b': 2.5}}\nreturn L_x_ * n['b'] + n['a']",
        "return torch.sum(L_x_, **{'dim': 1, 'keepdim': True})",
        "return L_x_ * (2 ** 3) + 7 // 2 - 7 % 4 + 1 / 8 - (-3) + (+2) + (~1) + (1 << 3)",
        "return L_x_ * -0.0, torch.copysign(torch.ones(2, 8), -0.0 * torch.ones(2, 8))",
        "return torch.view_as_real(L_x_ * (1 - 0j)), torch.view_as_real(L_x_ * (-0.0 - 2.5j))",
        "n = 9223372036854775807\nreturn torch.full((2,), n), torch.full((2,), -9223372036854775808)",
        "n = L_x_.shape[0]\nn += 1\nm = n\nn *= 2\nreturn L_x_ * m + n",
        "t = (1,)\nt += (2,)\nreturn L_x_.sum(t[0]) * t[1]",
        "y = L_x_.clone()\ny += 1\nz = y\ny *= 2\nreturn y + z",
        "y = L_x_.clone()\ny[..., 0] = 1\nsetitem = y\nsetitem = None\ny[(slice(None), 1)] = y[:, 0]\nreturn y",
        "y = z = L_x_ + 1\ny = None\nreturn z",
        "(y) = z = (None)\nreturn L_x_",
        "a = (b := L_x_ + 1) * 2\nreturn a + b",
        "ok = 0 < L_x_.shape[0] <= 2 < L_x_.shape[1]\nassert ok, f'{ok} and {L_x_.shape}'\nreturn L_x_",
        "ok = L_x_.shape[0] > 0 and L_x_.shape[1] == 8 or False\nassert ok\nreturn L_x_",
        "ok = L_x_.dim() in (1, 2) and 3 not in [1, 2]\ntorch._check(ok, lambda: f'{ok}')\nreturn L_x_",
        "return L_x_.T, L_x_.unsqueeze(0).T, L_x_.sum().T, L_x_.mT, L_x_.real",
        "m = L_x_.max(1)\nreturn m.values + m.indices, m[0]",
        "v = torch.var_mean(L_x_, 0)\nreturn v[0] + v[1]",
        "c = torch.autograd.function.FunctionCtx()\nc = None\nreturn L_x_ + 1",
        "c = torch.autograd.function.FunctionCtx()\nc.save_for_backward(L_x_, L_x_ + 1)\nc.dim = 1\n"
        "c.saved = L_x_ + c.dim\ny = c.saved.sum(c.dim)\nc.set_materialize_grads(False)\nreturn y",
        "n = [None] * 3\nm = n\nn[0] = L_x_\nn[1:] = [2, 3]\nm += [4]\nn.append(5)\nreturn m[0] * m[1] + n[3] + m[4]",
        "d = {'a': 1}\ne = d\nd['b'] = L_x_\nd['a'] = 3\nreturn e['a'] * e['b']",
        "n = torch.no_grad()\nn = None\nreturn L_x_",
        "g = torch.Generator()\ng = None\nreturn L_x_",
        "n = L_x_.shape[0]\ny = [None] * n\ny[0] = L_x_\nz = (0,) * n + (1,)\nreturn y[0] + z[2]",
        "y = torch.tensor([[1, 2], [3, 4]]).tolist()\nreturn L_x_[y[0][0] - 1]",
        "m = torch.arange(8) > 3\nreturn L_x_[:, m]",
        "f = L_x_.is_cuda\ng = L_x_.requires_grad\nreturn L_x_ * f + g",
        "y = L_x_.sum()\ndel y\nreturn L_x_",
        "y: torch.Tensor = L_x_ + 1\ny: 'f32[2, 8]' = y * 2\nreturn y",
        "i = torch.iinfo(torch.int8).max\nf = torch.finfo(L_x_.dtype)\nreturn L_x_ * i + f.eps",
        "a = torch.arange(8)\na += 0\nb = a\nreturn (a[None, :] <= b[:, None]).__and__(a > 2)",
        "i = torch.ops.aten.index(L_x_, [torch.tensor([1, 0]), torch.tensor([2, 3])])\nreturn i",
        "return torch.sym_float(L_x_.shape[0]) * L_x_ + torch.sym_max(L_x_.shape[0], 3) + torch._refs.tensor(2)",
    ],
)  # fmt: skip
def test_code_means_what_python_makes_of_it(body: str, tmp_path: Path):
    assert_computes_what_python_computes(written(tmp_path / "s", body, SCALE))


@pytest.mark.parametrize(
    ("arguments", "body", "wanted"),
    [
        ("s77: torch.SymInt, s27: torch.SymInt, L_x_: torch.Tensor", "torch.zeros(s77, s27) + L_x_", [2, 8]),
        ("s0: torch.SymInt, L_x_: torch.Tensor", "L_x_[:, :s0] + torch.zeros(1, s0)", [2]),
        ("s0: torch.SymInt, L_x_: torch.Tensor", "L_x_ + torch.zeros(2, s0)", [8]),
        ("L_a: torch.SymInt, L_x_: torch.Tensor, L_b: torch.SymInt", "torch.zeros(L_a, L_b) + L_x_", [2, 8]),
        ("L_x_: torch.Tensor, L_a: torch.SymInt", "L_x_ * L_a", [4]),
    ],
)
def test_symbols_stand_for_the_sizes_of_the_tensor_that_follows(arguments, body, wanted, tmp_path: Path):
    folder = written(tmp_path / "s", f"return {body}")
    path = folder / "model.py"
    path.write_text(path.read_text().replace("L_x_: torch.Tensor", arguments, 1))
    graph = assert_computes_what_python_computes(folder)
    found = [json.loads(init)["value"] for init in graph.inits if json.loads(init)["kind"] == "scalar"]
    assert found == wanted


def test_imports_by_other_names_are_followed(tmp_path: Path):
    folder = written(
        tmp_path / "s",
        "return F.relu(L_x_.view(prod(L_x_.shape)).view(2, 8)) * pi + nn.functional.silu(t.abs(L_x_)) + half",
    )
    path = folder / "model.py"
    heads = "import torch as t\nimport torch.nn as nn\nimport torch.nn.functional as F\nfrom math import pi, prod\n"
    path.write_text(heads + "from torch import inf as half\n" + path.read_text())
    assert_computes_what_python_computes(folder)


def test_names_that_torch_fx_makes_of_globals_are_understood(tmp_path: Path):
    body = "y = _operator_abs(L_x_)\nz = math_sqrt(L_x_.shape[0])\nreturn _operator.mul(y, z)"
    graph = read_sample(written(tmp_path / "s", body))
    assert [node.target for _, node in graph.calls()] == [
        "operator.abs",
        "size",
        "operator.getitem",
        "math.sqrt",
        "operator.mul",
    ]


def test_a_sample_that_is_refused_says_what_to_do_about_it(tmp_path: Path):
    kinds = {
        FailureKind.SAMPLE_VALUES: "return L_x_[L_x_ > 0]",
        FailureKind.NOT_REPRESENTABLE: "return torch.ops.nobody.knows(L_x_)",
        FailureKind.MALFORMED_SAMPLE: "return L_x_.view(3)",
    }
    for place, (kind, body) in enumerate(kinds.items()):
        folder = written(tmp_path / str(place), body)
        with pytest.raises(SampleError, match=rf"{place}/model\.py:4: .+") as caught:
            read_sample(folder)
        assert failure_kind(caught.value) is kind
    (tmp_path / "0" / "weight_meta.py").unlink()
    with pytest.raises(SampleError, match=r"0/weight_meta\.py:1: cannot be read .*put the file back") as caught:
        read_sample(tmp_path / "0")
    assert failure_kind(caught.value) is FailureKind.MALFORMED_SAMPLE


def row_of(root: Path, name: str) -> ModelConfig:
    """The row of one sample below a root."""
    return ModelConfig(
        architecture=content_id(name), name=name, library=SAMPLE_MODE, library_version="", class_name="",
        config=Text(json.dumps({"sample": name})), family=name, modality="other", license="",
    )  # fmt: skip


def test_a_sample_is_rebuilt_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calls = []

    def counted(graph: Graph) -> list[tuple[TensorSpec, ...]]:
        calls.append(graph)
        return check_rebuilt(graph)

    written(tmp_path / "s", "return torch.relu(L_x_)")
    for module in ("extract.samples", "extract.trace"):
        monkeypatch.setattr(f"{module}.check_rebuilt", counted)
    (found,) = trace(row_of(tmp_path, "s"), TraceConfig(samples=str(tmp_path)))
    assert isinstance(found, GraphRecord)
    assert found.graph == calls[0]
    assert len(calls) == 1
