"""Published sample folders: every form that is read, every malformed one refused in one line, and back again."""

import ast
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from benchmarks.golden import stored_graphs
from extract.failures import RoundtripError
from extract.samples import find_samples, read_sample, write_sample
from passbench.inputs import materialize
from schemas import values
from schemas.canonical import canonicalize
from schemas.fx import lower
from schemas.graph import Graph

pytestmark = pytest.mark.torch
SAMPLES = Path(__file__).parent / "samples"


def targets_of(graph: Graph) -> list[str]:
    return [node.target for _, node in graph.calls()]


@pytest.mark.parametrize("folder", list(find_samples(SAMPLES)), ids=lambda path: path.name)
def test_every_form_is_read_runs_and_is_written_back(folder: Path, tmp_path: Path):
    graph = read_sample(folder)
    with torch.enable_grad():  # puts back what a graph leaves behind
        lower(graph)(*materialize(graph, seed=0))
    write_sample(graph, tmp_path / "again")
    assert canonicalize(read_sample(tmp_path / "again")).key == canonicalize(graph).key


def test_names_become_those_of_the_allow_list_and_weights_lie_on_the_cpu():
    graph = read_sample(SAMPLES / "linear_gelu")
    assert targets_of(graph) == [f"torch.nn.functional.{name}" for name in ("linear", "gelu", "dropout")]
    assert [graph.nodes[i].target for i in graph.placeholders] == ["input", "parameter", "parameter"]
    assert {spec.device for node in graph.nodes for spec in node.outputs} == {"cpu"}
    assert values.loads(graph.inits[2]) != {"kind": "constant", "value": 0}, "a bias of zeros would hide an addition"
    assert values.loads(graph.inits[2])["std"] != {"float": "0.0"}


def test_a_name_written_in_place_stands_for_what_torch_fx_meant():
    graph = read_sample(SAMPLES / "in_place")
    assert targets_of(graph) == [
        "clone", "operator.iadd", "operator.imul", "operator.setitem", "operator.getitem", "operator.setitem",
        "torch.nn.functional.relu", "neg_",
    ]  # fmt: skip
    by_target = {node.target: k for k, node in enumerate(graph.nodes)}
    assert graph.nodes[by_target["operator.imul"]].inputs == (by_target["operator.iadd"],)
    assert graph.nodes[-1].inputs == (by_target["torch.nn.functional.relu"],)


def test_symbolic_sizes_get_values_with_which_the_graph_runs():
    graph = read_sample(SAMPLES / "symbolic")
    scalars = [values.loads(init)["value"] for init in graph.inits if values.loads(init)["kind"] == "scalar"]
    assert scalars[0] == 6, "the published stand-in is 4"


def test_constants_are_folded_into_attributes():
    text = read_sample(SAMPLES / "constants").to_json()
    assert "cuda" not in text
    assert "-3.4028234663852886e+38" in text
    assert "65504.0" in text


@pytest.mark.parametrize("label", ["timm/resnet18", "gpt2/GPT2Model", "t5/T5Model"])
def test_a_golden_graph_keeps_its_key_through_a_sample(label: str, tmp_path: Path):
    graph = dict(stored_graphs())[label]
    write_sample(graph, tmp_path / "sample")
    again = read_sample(tmp_path / "sample")
    assert canonicalize(again).key == canonicalize(graph).key
    assert again.inits == graph.inits


# --- malformed ------------------------------------------------------------------------------------------------------
HEAD = "import torch\nclass GraphModule(torch.nn.Module):\n    def forward(self, L_x_: torch.Tensor):\n"
META = 'class Program_weight_tensor_meta_L_x_:\n    name = "L_x_"\n    shape = [2, 8]\n    dtype = "torch.float32"\n'


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("return missing", "'missing' is not defined"),
        ("return L_x_.nothing()", "nothing does not run"),
        ("y = open('/etc/passwd')\n        return y", "open"),
        ("y = torch.load('x')\n        return y", "torch.load"),
        ("y = torch.hub.load('x')\n        return y", "torch.hub.load"),
        ("y = L_x_.__class__\n        return y", "__class__"),
        ("y = L_x_.__reduce__()\n        return y", "__reduce__"),
        ("y = os.system('true')\n        return y", "'os' is not defined"),
        ("y = torch.ops.nobody.knows(L_x_)\n        return y", "torch.ops.nobody.knows"),
        ("y = einops.einops.rearrange(L_x_, 'a b -> b a')\n        return y", "einops.einops.rearrange"),
        ("y = 2 ** 99999999999\n        return y", "without bound"),
        ("y = 'a' * 99999999999\n        return y", "without bound"),
        ("y = f'{L_x_}'\n        return y", "a text made from a value"),
        ("y = (lambda: 1)()\n        return y", "call of a Lambda"),
        ("y = [a for a in L_x_]\n        return y", "ListComp"),
        ("for a in L_x_:\n            pass\n        return a", "For statement"),
        ("with torch.no_grad():\n            pass\n        return L_x_", "With statement"),
        ("import os\n        return L_x_", "Import statement"),
        ("y = L_x_.view(3)\n        return y", "view does not run"),
        ("y = 0 < L_x_ < 1\n        return y", "chains need truth values"),
        ("y = b'x'\n        return y", "literal of type bytes"),
        ("y = torch.add(*L_x_.sum())\n        return y", "no elements"),
        ("a, b, c = L_x_\n        return a", "2 elements are taken apart into 3 names"),
        ("a, *b = L_x_\n        return a", "2 names"),
        ("y = torch.autograd.function.FunctionCtx()\n        return y", "only holds attributes"),
        ("y = torch.autograd.function.FunctionCtx()\n        return torch.relu([y])", "only holds attributes"),
        ("y = [None] * 99999999\n        return y", "without bound"),
        ("y = 3\n        y = y ** 60\n        y = y ** 60\n        return y ** 60", "without bound"),
        ("y = list(range(10 ** 9))\n        return y", "range"),
        ("y = L_x_\n        del y\n        return y", "'y' is not defined"),
        ("y = self.wrap_body_0\n        return y", "a part of the module"),
        ("y = torch__dynamo_utils_wrapped_sqrt(L_x_)\n        return y", "wrapped_sqrt' is not defined"),
        ("y = L_x_[L_x_ > 0]\n        return y", "needs numbers that the files do not hold"),
        ("y = torch.ops.nobody.knows(L_x_)\n        return y", "install what registers it"),
        ("L_x_.grad = None\n        return L_x_", "assignment to an attribute"),
        ("return L_x_\n        y = 1", "after return"),
        ("y = 1", "no return"),
        ("return " + "-" * 500 + "L_x_", "nested too deeply"),
        ("return " + "(" * 5000 + "L_x_" + ")" * 5000, "model.py"),
        ("return " + "L_x_" + ".abs()" * 3000, "nested too deeply"),
        ("return " + "9" * 5000, "model.py"),
        ("return L_x_ + (", "not Python"),
        ("y = '\\ud800'\n        return y", "half a character"),
    ],
)  # fmt: skip
def test_malformed_code_is_one_clear_line(body: str, wanted: str, tmp_path: Path):
    (tmp_path / "model.py").write_text(HEAD + "        " + body + "\n", encoding="utf-8")
    (tmp_path / "weight_meta.py").write_text(META, encoding="utf-8")
    with pytest.raises((ValueError, RoundtripError)) as caught:
        read_sample(tmp_path)
    assert wanted in str(caught.value)
    assert "model.py" in str(caught.value)
    assert "\n" not in str(caught.value)


def replaced(old: str, new: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "damage", "wanted"),
    [
        ("model.py", Path.unlink, "cannot be read"),
        ("weight_meta.py", Path.unlink, "cannot be read"),
        ("weight_meta.py", lambda path: path.write_text("", encoding="utf-8"), "no file describes"),
        ("weight_meta.py", lambda path: path.write_bytes(b"\xff\xfe"), "not UTF-8"),
        ("weight_meta.py", lambda path: path.write_bytes(b"a = 1\0"), "weight_meta.py"),
        ("weight_meta.py", replaced("torch.float32", "torch.float3"), "unknown dtype"),
        ("weight_meta.py", replaced("[2, 8]", "[2, -8]"), "sizes"),
        ("weight_meta.py", replaced("[2, 8]", "[2, 10 ** 9]"), "only literals"),
        ("weight_meta.py", replaced("[2, 8]", "[99999999, 99999999]"), "sizes"),
        ("weight_meta.py", replaced("data = None", "data = [1.0]"), "1 numbers for shape"),
        ("weight_meta.py", replaced("data = None", "data = print(1)"), "only literals"),
        ("weight_meta.py", replaced("'L_x_'", "7"), "no name"),
        ("model.py", replaced("class GraphModule", "class A:\n    pass\nclass GraphModule"), "2 classes"),
        ("model.py", replaced("def forward", "def backward"), "one forward"),
        ("model.py", replaced("self,", "self, *args,"), "variable number"),
    ],
)
def test_damaged_files_are_one_clear_line(file: str, damage: Callable[[Path], object], wanted: str, tmp_path: Path):
    folder = tmp_path / "sample"
    shutil.copytree(SAMPLES / "subscripts", folder)
    damage(folder / file)
    with pytest.raises(ValueError, match=r"sample/") as caught:
        read_sample(folder)
    assert wanted in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_of_a_sample_is_run(tmp_path: Path):
    folder = tmp_path / "sample"
    shutil.copytree(SAMPLES / "subscripts", folder)
    trap = f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    for path in folder.glob("*.py"):
        path.write_text(trap + path.read_text(encoding="utf-8"), encoding="utf-8")
        ast.parse(path.read_text(encoding="utf-8"))
    read_sample(folder)
    assert not (tmp_path / "ran").exists()


def test_samples_are_found_in_order_and_a_missing_root_is_named(tmp_path: Path):
    for name in ("b/subgraph_1", "a", "b/subgraph_0"):
        shutil.copytree(SAMPLES / "in_place", tmp_path / name)
    found = [str(path.relative_to(tmp_path)) for path in find_samples(tmp_path)]
    assert found == ["a", "b/subgraph_0", "b/subgraph_1"]
    with pytest.raises(ValueError, match="no folder of samples"):
        list(find_samples(tmp_path / "nowhere"))
