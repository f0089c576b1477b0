"""The rules of the layout: where packages resolve, what importing them drags in, budgets of size, true docs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.plain
ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("schemas", "data", "passbench", "extract", "dedup", "fusion_mining", "curate", "flows")
SOURCES = sorted(path for package in (*PACKAGES, "benchmarks") for path in (ROOT / package).rglob("*.py"))
MAX_FILE_LINES, MAX_FUNCTION_LINES = 400, 60


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd="/", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_packages_resolve_inside_the_checkout():
    code = f"import importlib; print(*[importlib.import_module(p).__file__ for p in {PACKAGES!r}])"
    for found in python(code).split():
        assert Path(found).resolve().is_relative_to(ROOT), found


@pytest.mark.parametrize(
    ("module", "banned"),
    [
        ("schemas.rows", ("torch", "prefect", "networkx", "transformers", "datasets")),
        ("schemas.canonical", ("torch", "prefect", "networkx", "transformers", "datasets")),
        ("passbench", ("torch", "prefect", "networkx", "transformers", "datasets", "huggingface_hub")),
        ("passbench.cli", ("prefect", "networkx", "transformers", "datasets", "huggingface_hub")),
        ("passbench.score", ("torch", "prefect", "networkx", "transformers")),
        ("flows.stages", ("torch", "prefect", "transformers", "datasets")),
        ("flows.cli", ("torch", "prefect", "transformers", "datasets")),
    ],
)
def test_imports_stay_light(module: str, banned: tuple[str, ...]):
    loaded = python(f"import sys, {module}; print(*[m for m in {banned!r} if m in sys.modules])")
    assert loaded == "", f"importing {module} loads {loaded}"


def documentation_lines(tree: ast.AST) -> int:
    """Lines of docstrings and of the literals under fields, which do not count against the size of a file."""
    texts = [n for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)]
    return sum((n.end_lineno or 0) - n.lineno + 1 for n in texts)


def reraises(handler: ast.ExceptHandler) -> bool:
    """Whether a handler only adds to an error and raises it again."""
    return isinstance(handler.body[-1], ast.Raise)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_open_with_a_docstring_and_keep_to_their_size(path: Path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "no module docstring"
    assert text.count("\n") - documentation_lines(tree) <= MAX_FILE_LINES
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or 0) - node.lineno + 1
            assert size <= MAX_FUNCTION_LINES, f"{node.name} has {size} lines"
            if not node.name.startswith("_") and node.col_offset == 0:
                assert ast.get_docstring(node), f"{node.name} has no docstring"


@pytest.mark.parametrize("package", PACKAGES)
def test_package_docstrings_say_four_things(package: str):
    text = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))) or ""
    for word in ("Is:", "Reads:", "Writes:", "Never:"):
        assert word in text, f"{package}/__init__.py does not say {word}"
    assert "print(" not in text


def test_nothing_prints_outside_the_command_lines():
    allowed = {"cli.py", "report.py", "child.py"}
    for path in SOURCES:
        if path.name in allowed or path.parent.name == "benchmarks":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_print = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
            assert not is_print, f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)} prints"


def test_broad_excepts_stand_only_at_the_seams():
    """A stage's child process, the grader's worker with what runs a submission's functions, and the lane.

    The lane makes a row of whatever a grading raises.
    """
    seams = {"data/child.py", "passbench/worker.py", "passbench/program/build.py", "passbench/lanes.py"}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            broad = isinstance(node, ast.ExceptHandler) and (
                node.type is None
                or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException"))
            )
            name = str(path.relative_to(ROOT))
            broad = broad and not reraises(node)
            assert not broad or name in seams, f"{name}:{getattr(node, 'lineno', 0)} catches everything"
