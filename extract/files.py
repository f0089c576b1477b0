"""Source `files`: the architectures of a person's own Python files, listed and built in limited child processes alone.

    rows = list(list_files(config))                    # ModelRef rows; one Failure for a file that cannot be listed
    model = build_file(row, settings)                  # in the child that traces

A file says what it has in one of two ways. `passnet_models()` returns (name, module factory, inputs factory) triples:

    def passnet_models():
        yield "small", lambda: Net(width=64), lambda: torch.randn(1, 64)

Without it, every torch.nn.Module class that the file defines is taken whose constructor needs no argument and that has
`example_inputs`, a value or a function without arguments. Inputs are a tensor, a tuple (by position) or a dictionary
(by name) of tensors, and of whatever else the call needs. `__license__` is the licence of the rows, empty without it.

Reads the files; writes nothing. The revision of a model is the digest of its file and of what that imports beside it,
found by reading, not by running: a change gives new architecture keys.
"""

import ast
import importlib
import importlib.util
import inspect
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from data.calls import Call, Item, Limits
from data.pool import ChildPool
from extract.catalog import OTHER
from extract.failures import BUILD, LIBRARY_ERRORS, failure_kind, first_line, step
from extract.interpreter_state import PACKAGES
from schemas.arrow import from_table, to_table
from schemas.rows import Failure, ModelConfig, ModelRef, Text, content_id, row_key

__all__ = ["failure_kind", "left_behind", "list_file", "list_files", "warm_up"]

FILES = "files"
"""Name of the source, and ModelRef.library of its models."""
LIMITS = Limits(timeout_s=120.0, memory_gib=4.0)
"""What listing one file may use."""
HOW = "define passnet_models(), or give a torch.nn.Module class without constructor arguments example_inputs()"
"""What to do about a file that has no models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a module's code is."""

    text: str
    """What the person gave: a path or an import path."""
    module: str
    """Its name in tables: the import path; of a file, its name without ".py", after the names of folders where two
    files of a build are called alike."""
    imported: str
    """Name under which it is imported."""
    path: Path
    """Its file."""
    root: Path
    """Folder from which it and what it imports are imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """One architecture of a file."""

    name: str
    """Its name in the file."""
    make: Callable[[], Any]
    """Makes the module."""
    inputs: Callable[[], Any]
    """Makes example inputs."""


# --- where the code is ----------------------------------------------------------------------------------------------
def origin_of(text: str) -> Origin:
    """The origin that a path ("my_models.py") or an import path ("package.module") names, without running anything.

    Raises ValueError if there is no such file.
    """
    path = Path(text)
    if path.suffix == ".py":
        if not path.is_file():
            raise ValueError(f"there is no file {text}: --files takes a Python file or an import path")
        return Origin(
            text=text, module=path.stem, imported=import_name(path.stem), path=path.resolve(),
            root=path.resolve().parent,
        )  # fmt: skip
    parts = text.split(".")
    if not all(part.isidentifier() for part in parts):
        raise ValueError(f"{text!r} is no Python file and no import path: --files takes my_models.py or package.module")
    for root in (Path.cwd(), *map(Path, sys.path)):
        found = _module_file(root, parts)
        if found is not None:
            return Origin(text=text, module=text, imported=text, path=found.resolve(), root=root.resolve())
    raise ValueError(f"no module is called {text!r} in this folder or on Python's path: --files takes its file as well")


def import_name(stem: str) -> str:
    """The name under which a file is imported: its own, but one that no import statement means where that has a dot,
    which would name a package, or is that of a module of Python."""
    return f"{stem}-file" if stem in sys.stdlib_module_names else stem.replace(".", "-")


def origins_of(texts: Sequence[str]) -> list[Origin]:
    """The origins of a build, each file once, no two with one name in tables; raises ValueError as `origin_of` does.

    Files that are called alike are told apart by as many names of folders above them as it takes.
    """
    origins = list({origin.path: origin for origin in reversed([origin_of(text) for text in texts])}.values())[::-1]
    depths = [0] * len(origins)
    while True:
        names = [_with_folders(origin, depth) for origin, depth in zip(origins, depths, strict=True)]
        alike = [index for index, name in enumerate(names) if names.count(name) > 1]
        if not alike:
            return [replace(origin, module=name) for origin, name in zip(origins, names, strict=True)]
        for index in alike:
            depths[index] += 1


def _with_folders(origin: Origin, depth: int) -> str:
    folders = origin.path.parent.parts[-depth:] if depth and origin.text.endswith(".py") else ()
    return ".".join([*(part.strip("/") for part in folders), origin.module])


def _module_file(root: Path, parts: Sequence[str]) -> Path | None:
    base = root.joinpath(*parts)
    candidates = (base.with_suffix(".py"), base / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


def sources_of(origin: Origin) -> list[Path]:
    """The file of a module and every file below its root that it imports, directly or not, sorted."""
    found = {origin.path}
    waiting = [(origin.imported, origin.path)]
    while waiting:
        module, path = waiting.pop()
        for name in _imported(module, path):
            parts = name.split(".")
            for size in range(1, len(parts) + 1):
                file = _module_file(origin.root, parts[:size])
                if file is not None and file.resolve() not in found:
                    found.add(file.resolve())
                    waiting.append((".".join(parts[:size]), file.resolve()))
    return sorted(found)


def _imported(module: str, path: Path) -> list[str]:
    """Absolute names of what a file imports; nothing for a file that is no Python."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return []
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names += [f"{base}.{alias.name}".lstrip(".") for alias in node.names if alias.name != "*"] or [base]
    return [name for name in names if name]


def absolute(text: str) -> str:
    """A path in full, an import path as it is; raises ValueError if there is no such file."""
    origin = origin_of(text)
    return str(origin.path) if text.endswith(".py") else text


def digest(origins: Sequence[str]) -> str:
    """Content id of the code of all named files and import paths."""
    return content_id(*(revision_of(origin) for origin in origins_of(origins)))


def revision_of(origin: Origin) -> str:
    """Content id of a module's code, and of what it imports beside it."""
    return content_id(*(f"{path.name}\n{path.read_bytes().hex()}" for path in sources_of(origin)))


# --- listing --------------------------------------------------------------------------------------------------------
def warm_up() -> None:
    """Load what every file imports; each file is then listed in a process of its own, which is forked."""
    importlib.import_module("torch")


def left_behind() -> tuple[str, ...]:
    """Why a process that listed a file lists no other: its code may have changed anything."""
    return ("the code of a file ran",)


def list_files(texts: Sequence[str]) -> Iterator[ModelRef | Failure]:
    """The architectures of all files, by name; a file that raises, hangs or dies gives one Failure."""
    call = Call(stage="models", function="extract.files:list_file", limits=LIMITS)
    with tempfile.TemporaryDirectory() as work, ChildPool(workers=1, work=Path(work) / "files") as pool:
        for origin in origins_of(texts):
            row = _ref(origin, name="", license="")
            with pool.borrow() as child:
                request = to_table([replace(row, tags=(origin.text, origin.module))], ModelRef)
                tables = child.run_item(call, request, Item(key=row_key(row), name=row.name))
            if "ModelRef" in tables:
                yield from sorted(from_table(tables["ModelRef"], ModelRef), key=lambda found: found.name)
            if "Failure" in tables:
                yield from from_table(tables["Failure"], Failure)


def list_file(row: ModelRef, config: None) -> Iterator[ModelRef]:
    """The architectures of one file, run here: call it in a limited child alone."""
    text, name = row.tags
    origin = replace(origin_of(text), module=name)
    module = load(origin)
    for own in models_of(module, origin):
        yield _ref(origin, name=own.name, license=str(getattr(module, "__license__", "")))


def _ref(origin: Origin, *, name: str, license: str) -> ModelRef:
    is_file = origin.text.endswith(".py")
    whole = f"{origin.module}/{name}" if name else f"{origin.module}.py" if is_file else origin.module
    revision = revision_of(origin)
    return ModelRef(
        model=content_id(FILES, whole, revision), source=FILES, name=whole, revision=revision, library=FILES,
        family=origin.module, modality=OTHER, pipeline_tag="", license=license, gated=False, downloads=0, tags=(),
    )  # fmt: skip


def file_config(row: ModelRef) -> str:
    """Configuration of an architecture of a file: its module and its name there; the code is in the revision."""
    module, _, name = row.name.partition("/")
    return json.dumps({"model": name, "module": module}, sort_keys=True, separators=(",", ":"))


# --- running a file -------------------------------------------------------------------------------------------------
def load(origin: Origin) -> Any:
    """Run a file and return its module; raises ValueError that names the file if it raises.

    It imports what is beside it first, as if it were started alone: call this in a process, or within
    `extract.isolation.isolated`, that puts back what is imported.
    """
    sys.dont_write_bytecode = True  # nothing is left beside a person's files, and no stale code is found there
    importlib.invalidate_caches()
    if sys.path[:1] != [str(origin.root)]:
        sys.path.insert(0, str(origin.root))
    _make_room(origin.root)
    with step(BUILD):
        try:
            if origin.text == origin.imported:
                return importlib.import_module(origin.imported)
            spec = importlib.util.spec_from_file_location(origin.imported, origin.path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[origin.imported] = module
            spec.loader.exec_module(module)
            return module
        except (*LIBRARY_ERRORS, SyntaxError) as error:
            problem = f"{type(error).__name__}: {first_line(error)}"
            raise ValueError(f"{origin.path.name} cannot be run: {problem}") from error


def _make_room(root: Path) -> None:
    """Forget modules from elsewhere that have the name of one beside a file, which is the one that its code means.

    Modules of Python and torch stay, as they do where they were loaded first. A folder of code without `__init__.py`
    stands behind installed packages of its name, but before PassNet's own.
    """
    beside = {path.name.partition(".")[0] for path in root.iterdir()} - sys.stdlib_module_names - {"torch", "numpy"}
    for name, module in list(sys.modules.items()):
        own = _module_file(root, name.split(".")) if name.partition(".")[0] in beside else None
        if own is not None and Path(getattr(module, "__file__", None) or "").resolve() != own.resolve():
            del sys.modules[name]
    for name in beside.intersection(PACKAGES):
        if _module_file(root, [name]) is None and any(root.joinpath(name).glob("*.py")):
            package = ModuleType(name)
            package.__path__ = [str(root / name)]
            sys.modules[name] = package


def models_of(module: Any, origin: Origin) -> list[Own]:
    """The architectures of a loaded file; raises ValueError that names the file and says what to do if it has none."""
    with step(BUILD):
        listed = getattr(module, "passnet_models", None)
        found = _declared(listed, origin) if listed is not None else _classes(module)
        if not found:
            raise ValueError(f"{origin.path.name} has no models: {HOW}")
        names = [own.name for own in found]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"{origin.path.name} has two models named {twice!r}: give each a name of its own")
        return found


def _declared(listed: Callable[[], Any], origin: Origin) -> list[Own]:
    found = []
    for item in listed():
        valid = isinstance(item, tuple | list) and len(item) == 3 and isinstance(item[0], str)
        if not valid or not callable(item[1]) or not callable(item[2]):
            raise ValueError(
                f"passnet_models() of {origin.path.name} gave {type(item).__name__} {str(item)[:80]!r}: "
                "it gives (name, module factory, inputs factory)"
            )
        found.append(Own(name=item[0], make=item[1], inputs=item[2]))
    return found


def _classes(module: Any) -> list[Own]:
    import torch

    found = []
    for name, value in vars(module).items():
        is_own = isinstance(value, type) and issubclass(value, torch.nn.Module) and value.__module__ == module.__name__
        if is_own and hasattr(value, "example_inputs") and _needs_nothing(value):
            found.append(Own(name=name, make=value, inputs=_example(value)))
    return found


def _needs_nothing(cls: type) -> bool:
    parameters = list(inspect.signature(cls).parameters.values())
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(item.default is not item.empty or item.kind in variable for item in parameters)


def _example(cls: Any) -> Callable[[], Any]:
    """The inputs of a class: a value, or a static, class or plain function without further arguments."""
    raw = inspect.getattr_static(cls, "example_inputs")
    if isinstance(raw, staticmethod | classmethod) or not callable(raw):
        return lambda: cls.example_inputs() if callable(cls.example_inputs) else cls.example_inputs
    return lambda: raw(*[None] * len(inspect.signature(raw).parameters))


# --- building -------------------------------------------------------------------------------------------------------
def located(row: ModelConfig, texts: Sequence[str]) -> ModelConfig:
    """A row of a file that knows where the file is; rows name no folder of a machine.

    Raises ValueError if none of the files is the row's, or if it changed since it was listed.
    """
    settings = json.loads(row.config)
    origin = next((origin for origin in origins_of(texts) if origin.module == settings["module"]), None)
    if origin is None:
        raise ValueError(f"{row.name} comes from a file that this build does not have: give it with --files")
    if revision_of(origin) != row.library_version:
        raise ValueError(f"{origin.text} was changed while the build ran: run the same command again")
    return replace(row, config=Text(json.dumps({**settings, "from": origin.text})))


def build_file(row: ModelConfig, settings: Mapping[str, Any]) -> Any:
    """The module of an architecture of a file, ready to be called with its example inputs."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    origin = origin_of(settings["from"])
    with unset_fake_temporarily():
        own = next((own for own in models_of(load(origin), origin) if own.name == settings["model"]), None)
    if own is None:
        raise ValueError(f"{origin.path.name} no longer has a model {settings['model']!r}: list it with --fresh")
    from extract.examples import with_examples

    return with_examples(own.make(), own.inputs, name=f"{own.name} of {origin.path.name}")
