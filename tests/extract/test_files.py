"""A person's own files: what is read without running them, and what one costs that raises, hangs or dies."""

import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

from data.store import RunDirectory
from extract import files
from extract.configs import ConfigsConfig, resolve_configs
from extract.files import digest, list_files, origin_of, revision_of, sources_of
from extract.models import ModelsConfig, list_models
from extract.trace import TraceConfig, trace
from flows.build import Plan, build
from flows.config import BuildConfig
from schemas.fx import lower
from schemas.rows import Failure, FailureKind, GraphRecord, ModelConfig, ModelRef, Skipped

pytestmark = pytest.mark.build
OWN = Path(__file__).parent / "own" / "my_models.py"


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_build_traces_the_models_of_a_file_and_a_death_costs_one_failure(tmp_path):
    found = [str(OWN)]
    settings = {
        "models": {"sources": ["files"], "files": found, "files_digest": digest(found)}, "graphs": {"files": found},
    }  # fmt: skip
    for stage in ("models", "configs", "graphs"):
        build(tmp_path / "run", BuildConfig(settings=settings), Plan(engine="local", only=stage))
    store = RunDirectory(tmp_path / "run")
    refs: list[ModelRef] = list(store.iter_rows("models"))
    assert sorted(row.name for row in refs) == [
        f"my_models/{name}" for name in ("dies", "listed", "masked", "misfit", "plain")
    ]
    assert {row.revision for row in refs} == {revision_of(origin_of(str(OWN)))} and refs[0].license == "mit"
    graphs: dict[str, GraphRecord] = {row.name: row for row in store.iter_rows("graphs")}
    assert set(graphs) == {"my_models/plain", "my_models/masked", "my_models/listed"}
    assert all(row.numeric == "equal" for row in graphs.values())
    failures: dict[str, Failure] = {row.name: row for row in store.iter_rows("graphs.failures")}
    assert failures["my_models/dies"].kind is FailureKind.CRASH and "status 7" in failures["my_models/dies"].message
    assert failures["my_models/misfit"].kind is FailureKind.INPUT_MISMATCH
    assert not any(str(OWN.parent) in row.config for row in store.iter_rows("configs")), "rows name no folder"


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("import os\nos._exit(3)", FailureKind.CRASH, "exit status 3"),
        ("while True: pass", FailureKind.TIMEOUT, "no result within"),
        ("raise SystemExit(1)", FailureKind.BUILD_ERROR, "1"),
        ("x = ", FailureKind.BUILD_ERROR, "bad.py cannot be run: SyntaxError"),
        ("import no_such_library", FailureKind.BUILD_ERROR, "bad.py cannot be run: ModuleNotFoundError"),
        ("y = 1", FailureKind.BUILD_ERROR, "bad.py has no models: define passnet_models"),
        ("def passnet_models(): return [1]", FailureKind.BUILD_ERROR, "name, module factory, inputs factory"),
    ],
)
def test_a_bad_file_is_one_failure_that_names_it(tmp_path, monkeypatch, text, kind, words):
    monkeypatch.setattr(files, "LIMITS", files.Limits(timeout_s=15.0, memory_gib=2.0))
    (row,) = list_files([written(tmp_path, "bad.py", text)])
    assert isinstance(row, Failure) and row.stage == "models" and row.name == "bad.py"
    assert row.kind is kind and words in row.message, row


def test_classes_with_example_inputs_need_no_list(tmp_path):
    text = (
        "import torch\nclass A(torch.nn.Module):\n    example_inputs = torch.ones(2)\n"
        "class B(A):\n    def example_inputs(self): return torch.ones(3)\n"
        "class C(A):\n    def __init__(self, n): super().__init__()\n"
    )
    assert [row.name for row in list_files([written(tmp_path, "some.py", text)])] == ["some/A", "some/B"]


def test_the_revision_follows_what_a_file_imports_beside_it_and_nothing_else(tmp_path):
    main = written(tmp_path, "main.py", "from parts import inner\nimport json\n")
    (tmp_path / "parts").mkdir()
    written(tmp_path / "parts", "__init__.py", "")
    written(tmp_path / "parts", "inner.py", "from . import deeper\n")
    written(tmp_path / "parts", "deeper.py", "n = 1\n")
    names = [path.relative_to(tmp_path).as_posix() for path in sources_of(origin_of(main))]
    assert names == ["main.py", "parts/__init__.py", "parts/deeper.py", "parts/inner.py"]
    before = digest([main])
    written(tmp_path, "other.py", "n = 1\n")
    assert digest([main]) == before
    written(tmp_path / "parts", "deeper.py", "n = 2\n")
    assert digest([main]) != before


def test_import_paths_are_found_without_running_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pack").mkdir()
    written(tmp_path / "pack", "__init__.py", "raise SystemExit('it was run')")
    written(tmp_path / "pack", "nets.py", "")
    origin = origin_of("pack.nets")
    assert origin.path == tmp_path / "pack" / "nets.py" and origin.root == tmp_path


@pytest.mark.parametrize("text", ["no_such.py", "no.such.module", "not a name"])
def test_what_is_no_file_is_refused_in_one_line(text):
    with pytest.raises(ValueError, match="--files takes"):
        origin_of(text)


def test_the_source_needs_a_file():
    with pytest.raises(ValueError, match=r"--files my_models\.py"):
        ModelsConfig(sources=("files",))


SCALE = (
    "import torch\nclass {0}(torch.nn.Module):\n    example_inputs = torch.ones(3)\n"
    "    def forward(self, x): return x * {1}\n"
)
"""A class that multiplies."""


def traced(texts: list[str], names: list[str] | None = None) -> dict[str, float]:
    """What each model of some files multiplies by, as its graph says; traced in one process, in the order of names."""
    refs = [row for row in list_files(texts) if isinstance(row, ModelRef)]
    rows = {
        row.name: row for row in resolve_configs(models=refs, config=ConfigsConfig()) if isinstance(row, ModelConfig)
    }
    assert len(rows) == len(refs)
    found = {}
    for name in names or sorted(rows):
        (graph,) = trace(rows[name], TraceConfig(files=tuple(texts)))
        assert isinstance(graph, GraphRecord), graph
        (out,) = torch.utils._pytree.tree_leaves(lower(graph.graph)(torch.ones(3)))
        found[name] = out.tolist()[0]
    return found


def helped(folder: Path, name: str, helper: str, factor: int, how: str = "from {0} import K") -> str:
    """A file that multiplies by a number of a helper beside it."""
    path = folder.joinpath(*helper.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"K = {factor}\n", encoding="utf-8")
    return written(folder, name, how.format(helper) + "\n" + SCALE.format("Net", "K"))


@pytest.mark.parametrize("helper", ["layers", "data", "schemas", "extract", "transformers", "timm", "data.layers"])
def test_files_get_the_helpers_beside_them_and_libraries_stay(tmp_path, helper):
    files = [helped(tmp_path / name, f"{name}.py", helper, factor) for name, factor in (("one", 2), ("two", 3))]
    before = dict(sys.modules)
    for order in (["one/Net", "two/Net"], ["two/Net", "one/Net"]):
        assert traced(files, order) == {"one/Net": 2.0, "two/Net": 3.0}
    assert all(sys.modules.get(name) is module for name, module in before.items())
    assert not any(str(tmp_path) in str(getattr(item, "__file__", "")) for item in list(sys.modules.values()))
    assert not any("__pycache__" in str(path) for path in tmp_path.rglob("*")), "nothing is left beside the files"


def test_names_with_dots_dashes_and_of_python_and_of_another_file(tmp_path):
    names = ["07_net.v2", "my-net", "json", "net", "net_v2", "class", "a b"]
    files = [written(tmp_path, f"{name}.py", SCALE.format("Net", k)) for k, name in enumerate(names, 2)]
    (tmp_path / "sub").mkdir()
    files.append(written(tmp_path / "sub", "net.v2.py", "import net_v2\n" + SCALE.format("Net", 99)))
    written(tmp_path / "sub", "net_v2.py", "")
    expected = {f"{name}/Net": float(k) for k, name in enumerate(names, 2)} | {"net.v2/Net": 99.0}
    assert traced(files) == expected


def test_files_called_alike_have_names_that_do_not_depend_on_their_order(tmp_path):
    folders = [tmp_path / "one" / "x", tmp_path / "two" / "x", tmp_path / "three"]
    for folder in folders:
        folder.mkdir(parents=True)
    files = [written(folder, "model.py", SCALE.format("Net", k)) for k, folder in enumerate(folders, 2)]
    files += [written(tmp_path, "other.py", SCALE.format("Net", 9))]
    expected = {"one.x.model/Net": 2.0, "two.x.model/Net": 3.0, "three.model/Net": 4.0, "other/Net": 9.0}
    assert traced(files) == traced([*files[::-1], files[0]]) == expected


def test_equal_files_in_two_folders_are_two_models(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    files = [written(tmp_path / name, "model.py", SCALE.format("Net", 2)) for name in ("one", "two")]
    assert traced(files) == {"one.model/Net": 2.0, "two.model/Net": 2.0}


def test_more_models_than_the_limit_and_what_is_not_selected_are_counted(tmp_path):
    text = (
        "import torch\ndef passnet_models():\n"
        "    for k in range(45): yield f's{k:02}', torch.nn.ReLU, lambda: torch.ones(3)\n"
    )
    file = written(tmp_path, "many.py", text)

    def listed(**settings):
        rows = list(list_models(config=ModelsConfig(sources=("files",), files=(file,), **settings)))
        skipped = Counter(row.reason for row in rows if isinstance(row, Skipped))
        return [row.name for row in rows if isinstance(row, ModelRef)], dict(skipped)

    assert listed(limit=40) == (
        [f"many/s{k:02}" for k in range(40)],
        {"over the limit of 40 models (--limit takes more)": 5},
    )
    names, skipped = listed(select=("*/s1*", "s44"))
    assert names == [f"many/s{k}" for k in (*range(10, 20), 44)] and skipped == {"not selected (--select)": 34}
    with pytest.raises(ValueError, match="no model is named 'nothing'"):
        listed(select=("nothing",))
