"""Which names a piece of code takes from outside: dotted names whose first part no function around them binds.

    for chain, node in free_chains(statement): ...       # ["tl", "load"], the node
    bound_in(function)                                   # names that a function binds itself

Annotations are left out: they have no effect. Reads syntax trees alone.
"""

import ast
from collections.abc import Iterator, Sequence

Function = ast.FunctionDef | ast.Lambda
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


def chain_of(node: ast.AST) -> list[str] | None:
    """The parts of a dotted name; None for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else None


def parameters(function: Function) -> list[ast.arg]:
    """All parameters of a function."""
    given = function.args
    more = [item for item in (given.vararg, given.kwarg) if item is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *more]


def bound_in(function: Function) -> frozenset[str]:
    """Names that are local to a function."""
    found = {item.arg for item in parameters(function)}
    for statement in function.body if isinstance(function, ast.FunctionDef) else [function.body]:
        found |= stored(statement)
    return frozenset(found)


def stored(statement: ast.AST) -> set[str]:
    """Names that a statement or expression binds in its own scope; imports bind none, they mean one thing in a file."""
    found: set[str] = set()
    stack = [statement]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
            continue
        elif isinstance(node, ast.Lambda):
            continue
        elif isinstance(node, _COMPREHENSIONS):
            stack.extend(inner for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr))
            continue
        stack.extend(ast.iter_child_nodes(node))
    return found


def free_chains(node: ast.AST, bound: frozenset[str] = frozenset()) -> Iterator[tuple[list[str], ast.expr]]:
    """Every longest dotted name in a piece of code that begins outside of it, with its node."""
    if isinstance(node, ast.Name | ast.Attribute):
        chain = chain_of(node)
        if chain is not None:
            if chain[0] not in bound and isinstance(_root(node).ctx, ast.Load):
                yield chain, node
            return
    inner = bound
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        yield from _around(node, bound)
        inner = bound | bound_in(node)
        children: Sequence[ast.AST] = node.body if isinstance(node, ast.FunctionDef) else [node.body]
    elif isinstance(node, _COMPREHENSIONS):
        inner = bound | {name for generator in node.generators for name in stored(generator.target)}
        children = list(ast.iter_child_nodes(node))
    elif isinstance(node, ast.ClassDef):
        inner = bound | {name for statement in node.body for name in stored(statement)}
        children = [*node.decorator_list, *node.bases, *node.keywords, *node.body]
    elif isinstance(node, ast.AnnAssign):
        children = [item for item in (node.target, node.value) if item is not None]
    else:
        children = list(ast.iter_child_nodes(node))
    for child in children:
        yield from free_chains(child, inner)


def _around(function: Function, bound: frozenset[str]) -> Iterator[tuple[list[str], ast.expr]]:
    """Free names of what is evaluated when a function is defined."""
    outside: list[ast.AST] = [*function.args.defaults, *(item for item in function.args.kw_defaults if item)]
    if isinstance(function, ast.FunctionDef):
        outside += function.decorator_list
    for part in outside:
        yield from free_chains(part, bound)


def _root(node: ast.expr) -> ast.Name:
    while isinstance(node, ast.Attribute):
        node = node.value
    assert isinstance(node, ast.Name)
    return node
