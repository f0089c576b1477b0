"""Which statements of which modules a set of wrappers needs, and in what order; no more than these are ever executed.

    needed = closure_of(files, [("p", "fused_norm")])
    needed.statements                            # [("shared", statement), ("p", statement), ...]
    needed.kernels                               # {("shared", "kernel")}: functions under @triton.jit

Raises Rejected("wrapper-name") on a name that nothing defines. Reads syntax trees alone.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from passbench.program.names import Files, Meaning, executed
from passbench.program.scopes import chain_of, free_chains
from passbench.program.tables import BUILTINS, EXCEPTIONS, KERNEL_BUILTINS
from passbench.sources import path_of
from passbench.submission import Rejected

Name = tuple[str, str]
"""(module, top-level name)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """What wrappers need."""

    statements: tuple[tuple[str, ast.stmt], ...]
    """(module, top-level statement) in the order of execution."""
    kernels: frozenset[Name]
    """Functions under triton.jit."""
    names: frozenset[Name]
    """All top-level names that are used."""


def closure_of(files: Files, roots: Sequence[Name]) -> Closure:
    """What the wrappers `roots` need, themselves included."""
    waiting, names, kernels = list(roots), set(roots), set()
    wanted: dict[str, set[int]] = {key: set() for key in files.modules.trees}
    while waiting:
        key, name = waiting.pop()
        statements = files.binders.get(key, {}).get(name)
        if statements is None:
            raise Rejected("wrapper-name", f"{path_of(key)}:1: {name}: nothing at the top of this file has that name")
        for statement in statements:
            kernels |= {(key, item.name) for item in definitions(statement) if is_kernel(files, key, item)}
            if id(statement) in wanted[key]:
                continue
            wanted[key].add(id(statement))
            found = [item for chain, node in free_chains(statement) for item in _means(files, key, chain, node)]
            bound = [(key, item) for item, nodes in files.binders[key].items() if statement in nodes]
            for item in [*found, *bound]:
                if item not in names:
                    names.add(item)
                    waiting.append(item)
    ordered = _ordered(files, [key for key, some in wanted.items() if some])
    chosen = [(key, node) for key in ordered for node in executed(files.modules.trees[key]) if id(node) in wanted[key]]
    return Closure(statements=tuple(chosen), kernels=frozenset(kernels), names=frozenset(names))


def definitions(statement: ast.stmt) -> list[ast.FunctionDef]:
    """Functions that a top-level statement defines, inside branches too."""
    if isinstance(statement, ast.FunctionDef):
        return [statement]
    found: list[ast.FunctionDef] = []
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt | ast.ExceptHandler):
            found += definitions(child)  # type: ignore[arg-type]
    return found


def is_kernel(files: Files, key: str, function: ast.FunctionDef) -> bool:
    """Whether a function stands under triton.jit."""
    return any(decorator_name(files, key, item) == "triton.jit" for item in function.decorator_list)


def decorator_name(files: Files, key: str, node: ast.expr) -> str:
    """The library's name of a decorator; empty for any other."""
    chain = chain_of(node.func if isinstance(node, ast.Call) else node)
    found = files.meaning(key, chain) if chain else Meaning(kind="builtin")
    return found.dotted


def _means(files: Files, key: str, chain: Sequence[str], node: ast.expr) -> list[Name]:
    """The top-level name that a dotted name means, if it is one of the submission's."""
    found = files.meaning(key, chain)
    if found.kind == "program":
        return [(found.key, found.name)]
    if found.kind == "builtin" and found.name not in BUILTINS | EXCEPTIONS | KERNEL_BUILTINS:
        text = f"{path_of(key)}:{node.lineno}: {found.name}: a wrapper or kernel uses only names that are defined"
        raise Rejected("wrapper-name", f"{text} beside it and functions that the grader knows")
    return []


def _ordered(files: Files, keys: Sequence[str]) -> list[str]:
    """Modules after those that they import."""
    found: list[str] = []

    def visit(key: str, above: tuple[str, ...]) -> None:
        if key in found or key in above:
            return
        for alias in files.aliases[key].values():
            parts = alias.dotted.split(".")
            for count in range(len(parts), 0, -1):
                module = files.modules.sibling(key, ".".join(parts[:count]), alias.level)
                if module is not None and module in files.modules.trees:
                    visit(module, (*above, key))
                    break
        found.append(key)

    for key in keys:
        visit(key, ())
    return [key for key in found if key in keys]
