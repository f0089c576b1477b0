"""Which modules of a submission count, and which of them an import means; plain syntax trees, nothing is executed.

    modules = read_modules(submission)           # the listed passes and what they import, directly or not
    modules.sibling("p", "pass_dir.shared", 0)   # "shared": the module that such an import in "p" means, or None
    placed(submission, modules)                  # (path, bytes) of all that a guest's process is given

A module's key is its path in the folder without ".py". Siblings are imported by their plain name, with a dot, or as
parts of the package PACKAGE, which is what the published harness calls the folder; in Python's table of modules they
stand below PACKAGE only, so none of them can stand in for a library. A name of LIBRARIES or of Python's own library
always means the library. Files that no listed pass imports are neither read nor placed. Reads and writes nothing.
"""

import ast
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from passbench.submission import ORDER_FILE, Rejected, Submission, parse

PACKAGE = "pass_dir"
LIBRARIES = frozenset({"torch", "triton", "math", "functools", "itertools", "operator", "typing", "dataclasses", "enum",
                       "collections", "contextlib", "numbers", "abc", "__future__"})  # fmt: skip
"""Libraries that a submission may import."""
IDLE = frozenset("copy gc inspect json logging numpy os pathlib random re sys textwrap time traceback warnings".split())
"""Libraries that a file may import if nothing in the submission uses them."""

LARGEST_NUMBER = 2.0**15
"""Numbers beyond are none that inputs are tried at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Modules:
    """The modules of a submission that count."""

    trees: Mapping[str, ast.Module]
    """Key -> syntax tree, in the order in which they are met from the listed passes on."""
    keys: frozenset[str]
    """Keys of all Python files of the folder."""
    passes: tuple[str, ...]
    """Keys of the listed passes, in order."""

    @property
    def numbers(self) -> tuple[float, ...]:
        """Sizes of the numbers that are written in them, each once, without 0 and whole powers of two."""
        nodes = [node for tree in self.trees.values() for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        numbers = [abs(node.value) for node in nodes if isinstance(node.value, int | float)]
        found = [value for value in numbers if 0 < value < LARGEST_NUMBER]
        return tuple(dict.fromkeys(float(value) for value in found if math.frexp(value)[0] != 0.5))

    def sibling(self, importer: str, name: str, level: int) -> str | None:
        """The key of the module that a dotted name, with `level` dots before it, means in `importer`; else None."""
        return sibling_of(self.keys, importer, name, level)


def is_library(name: str) -> bool:
    """Whether a dotted name begins with that of a library."""
    root = name.split(".")[0]
    return root in LIBRARIES or root in sys.stdlib_module_names


def path_of(key: str) -> str:
    """The file of a module."""
    return f"{key}.py"


def read_modules(submission: Submission) -> Modules:
    """Parse what counts; raises Rejected("syntax"), and Rejected("import") on a sibling that is missing."""
    sources = {path.removesuffix(".py"): blob for path, blob in submission.sources.items()}
    keys = frozenset(sources)
    trees: dict[str, ast.Module] = {}
    waiting = list(reversed(submission.passes))
    while waiting:
        key = waiting.pop()
        if key not in trees:
            trees[key] = parse(path_of(key), sources[key])
            waiting.extend(reversed([found for node in imports(trees[key]) for found in _wanted(keys, key, node)]))
    return Modules(trees=trees, keys=keys, passes=submission.passes)


def placed(submission: Submission, modules: Modules) -> tuple[tuple[str, bytes], ...]:
    """The files that a guest's process is given: modules that count and the order file."""
    wanted = {ORDER_FILE, *map(path_of, modules.trees)}
    return tuple((path, blob) for path, blob in submission.files if path in wanted)


def imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import statement, wherever it stands."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))


def idle_imports(modules: Modules) -> frozenset[int]:
    """Identities of import statements of libraries in IDLE whose names stand nowhere in the submission."""
    nodes = [node for tree in modules.trees.values() for node in ast.walk(tree)]
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    used |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    from_siblings = [node for node in nodes if isinstance(node, ast.ImportFrom) and (node.level or not _of_idle(node))]
    used |= {alias.name for node in from_siblings for alias in node.names}
    found = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) and _of_idle(node)]
    return frozenset(id(node) for node in found if not _bound(node) & (used | {"*"}))


def _of_idle(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.ImportFrom):
        return not node.level and (node.module or "").split(".")[0] in IDLE
    return {alias.name.split(".")[0] for alias in node.names} <= IDLE


def _bound(node: ast.Import | ast.ImportFrom) -> set[str]:
    """Names that an import binds; "*" for all."""
    return {alias.asname or alias.name.split(".")[0] for alias in node.names}


def imported_names(keys: frozenset[str], importer: str, node: ast.Import | ast.ImportFrom) -> list[tuple[str, int]]:
    """(dotted name, dots before it) of the modules that one import statement names; of `from package import module`
    those of the package's modules."""
    if isinstance(node, ast.Import):
        return [(alias.name, 0) for alias in node.names]
    module, level = node.module or "", node.level
    if module and module != PACKAGE and sibling_of(keys, importer, module, level) is not None:
        return [(module, level)]
    inside = [(f"{module}.{alias.name}".strip("."), level) for alias in node.names]
    is_package = module in ("", PACKAGE) or any(sibling_of(keys, importer, *item) for item in inside)
    return inside if is_package else [(module, level)]


def sibling_of(keys: frozenset[str], importer: str, name: str, level: int) -> str | None:
    """The key of the module that a dotted name, with `level` dots before it, means in `importer`; else None."""
    parts = name.split(".") if name else []
    base: list[str] = []
    if level:
        base = importer.split("/")[:-1]
        base = base[: len(base) - (level - 1)]
    elif parts and parts[0] == PACKAGE:
        parts = parts[1:]
    elif is_library(name):
        return None
    whole = [*base, *parts]
    return next((key for key in ("/".join(whole), "/".join([*whole, "__init__"])) if whole and key in keys), None)


def _wanted(keys: frozenset[str], importer: str, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The siblings that one import statement needs."""
    for name, level in imported_names(keys, importer, node):
        found = sibling_of(keys, importer, name, level)
        if found is not None:
            yield found
        elif level or name.startswith(f"{PACKAGE}."):
            where = f"{path_of(importer)}:{node.lineno}"
            raise Rejected("import", f"{where}: {'.' * level}{name}: the submission has no such module")
