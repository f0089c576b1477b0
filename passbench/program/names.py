"""What a name in a source file of a submission means: a library, another module's function, a value of its own.

    files = Files(modules)                       # passbench.sources.Modules
    files.meaning("p", ["tl", "load"])           # Meaning(kind="library", dotted="triton.language.load")
    files.meaning("p", ["shared", "run"])        # Meaning(kind="program", key="shared", name="run")

Imports count wherever they stand in a file, so that a name has one meaning in it. Reads syntax trees alone.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from passbench.program.tables import (
    CONTEXTS,
    KERNEL_ATTRIBUTES,
    KERNEL_DECORATORS,
    LANGUAGE,
    LANGUAGE_DENIED,
    LANGUAGE_MODULES,
    LIBRARY,
    PLAIN_DECORATORS,
)
from passbench.sources import LIBRARIES, Modules, is_library
from passbench.submission import Rejected

Chain = Sequence[str]
"""A dotted name in its parts."""
_DECORATING = frozenset({"triton.jit", "dataclasses.dataclass", "typing.NamedTuple", "enum.IntEnum",
                         "enum.StrEnum"})  # fmt: skip
KNOWN = LIBRARY | CONTEXTS | KERNEL_DECORATORS | PLAIN_DECORATORS | _DECORATING


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a dotted name stands for."""

    kind: Literal["library", "program", "module", "builtin"]
    """A library's name, a top-level name of a module of the submission, such a module itself, or no global name."""
    dotted: str = ""
    """Of a library: the full name."""
    key: str = ""
    """Of the submission: the module."""
    name: str = ""
    """Of the submission: the top-level name."""
    rest: tuple[str, ...] = ()
    """Attributes after that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Alias:
    """What an import binds a name to."""

    dotted: str
    level: int
    fallback: bool
    """Whether it stands in the handler of a `try`."""


class Files:
    """The modules of a submission, with what their names mean."""

    def __init__(self, modules: Modules) -> None:
        self.modules = modules
        self.aliases = {key: _aliases(tree) for key, tree in modules.trees.items()}
        self.binders = {key: _binders(tree) for key, tree in modules.trees.items()}

    def meaning(self, key: str, chain: Chain) -> Meaning:
        """What a dotted name means in a module; raises Rejected where imports lead in a circle."""
        for _ in range(64):
            name = chain[0]
            if name in self.binders[key] and not self.is_optional_import(key, name):
                return Meaning(kind="program", key=key, name=name, rest=tuple(chain[1:]))
            alias = self.aliases[key].get(name)
            if alias is None:
                return Meaning(kind="builtin", name=name, rest=tuple(chain[1:]))
            found = self.imported(key, alias, tuple(chain[1:]))
            if isinstance(found, Meaning):
                return found
            key, chain = found
        raise Rejected("import", f"{key}.py:1: {chain[0]}: an import that leads back to itself")

    def imported(self, key: str, alias: _Alias, rest: tuple[str, ...]) -> "Meaning | tuple[str, Chain]":
        """What an imported name with further parts means, or in which module to look on."""
        parts = [*alias.dotted.split("."), *rest] if alias.dotted else list(rest)
        for count in range(len(parts), -1, -1):
            module = self.modules.sibling(key, ".".join(parts[:count]), alias.level)
            if module is not None and module in self.modules.trees:
                return (module, parts[count:]) if count < len(parts) else Meaning(kind="module", key=module)
        if not alias.level and is_library(alias.dotted):
            return Meaning(kind="library", dotted=".".join(parts))
        return Meaning(kind="module", key=".".join(parts))

    def is_optional_import(self, key: str, name: str) -> bool:
        """Whether a name is bound by an import that works, with something else for the case that it does not."""
        alias = self.aliases[key].get(name)
        if alias is None or alias.fallback:
            return False
        together = all(isinstance(node, ast.Try) for node in self.binders[key][name])
        return together and self.works(key, alias)

    def works(self, key: str, alias: _Alias) -> bool:
        """Whether an import gives something that a wrapper or kernel may use."""
        found = self.imported(key, alias, ())
        return not isinstance(found, Meaning) or found.kind != "library" or may_be_used(found.dotted)


def may_be_used(dotted: str) -> bool:
    """Whether a name of a library, or the way to one, stands in the tables."""
    if dotted == LANGUAGE or dotted.startswith(f"{LANGUAGE}."):
        return is_language(dotted)
    return dotted in LIBRARIES or any(name == dotted or name.startswith(f"{dotted}.") for name in KNOWN)


def is_language(dotted: str) -> bool:
    """Whether a dotted name is of Triton's language: one of its modules, a name in one, or a property of that."""
    parts = dotted.split(".")
    count = next((k for k in range(len(parts), 1, -1) if ".".join(parts[:k]) in LANGUAGE_MODULES), 0)
    if not count or any(part.startswith("_") for part in parts):
        return False
    name, rest = parts[count : count + 1], parts[count + 1 :]
    return not set(name) & LANGUAGE_DENIED and set(rest) <= KERNEL_ATTRIBUTES


# --- what a file binds ----------------------------------------------------------------------------------------------
def executed(tree: ast.Module) -> list[ast.stmt]:
    """The statements of a module that an import executes: all but those below `if __name__ == "__main__"`."""
    return [node for node in tree.body if not (isinstance(node, ast.If) and _asks_for_main(node.test))]


def _asks_for_main(test: ast.expr) -> bool:
    return ast.unparse(test) in ("__name__ == '__main__'", "'__main__' == __name__")


def _aliases(tree: ast.Module) -> dict[str, _Alias]:
    found: dict[str, _Alias] = {}
    fallbacks = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        for inner in ast.walk(node)
    }  # fmt: skip
    for node in (inner for statement in executed(tree) for inner in ast.walk(statement)):
        for name, dotted, level in _bound_by_import(node):
            fallback = id(node) in fallbacks
            if not fallback or name not in found:
                found[name] = _Alias(dotted=dotted, level=level, fallback=fallback)
    return found


def _bound_by_import(node: ast.AST) -> Iterator[tuple[str, str, int]]:
    """(local name, dotted name, level) of one import statement."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            root = alias.name.split(".")[0]
            yield (alias.asname, alias.name, 0) if alias.asname else (root, root, 0)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module or ''}.{alias.name}".strip("."), node.level


def _binders(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """Top-level name -> the top-level statements that bind it or change what it holds, in order."""
    found: dict[str, list[ast.stmt]] = {}
    for statement in executed(tree):
        for name in dict.fromkeys(_bound_at_top(statement)):
            found.setdefault(name, []).append(statement)
    bound = {name for name, nodes in found.items() for node in nodes if name in _named(node)}
    return {name: nodes for name, nodes in found.items() if name in bound}


def _named(statement: ast.stmt) -> set[str]:
    """Names that a statement binds, not those whose contents it changes."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    inside = _outside_functions(statement)
    return {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)} | {
        node.name for node in inside if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


def _bound_at_top(statement: ast.stmt) -> Iterator[str]:
    yield from sorted(_named(statement))
    for node in _outside_functions(statement):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            yield from _root(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function = node.value.func
            yield from _root(function.value) if isinstance(function, ast.Attribute) else ()


def _root(node: ast.expr) -> Iterator[str]:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id


def _outside_functions(statement: ast.stmt) -> list[ast.AST]:
    """The nodes of a statement that are executed with it, without the bodies of functions and classes."""
    found: list[ast.AST] = []
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            stack.extend(ast.iter_child_nodes(node))
    return found
