"""A person's own files: what is read without running them, and what one costs that raises, hangs or dies."""

from pathlib import Path

import pytest

from data.store import RunDirectory
from extract import files
from extract.files import digest, list_files, origin_of, revision_of, sources_of
from extract.models import ModelsConfig
from flows.build import Plan, build
from flows.config import BuildConfig
from schemas.rows import Failure, FailureKind, GraphRecord, ModelRef

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
