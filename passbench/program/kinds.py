"""What can be said of a value without running anything: a number, a value without tensors, or nothing.

    kinds = local_kinds(function, resolve, outer)          # local name -> NUMBER, PLAIN or ANY
    kind_of(expression, kinds, resolve)

Where a value is known to be free of tensors, no check is made at run time. What is said holds because every operation
that could break it is checked: an attribute in SURE_ATTRIBUTES is read of tensors only, and so on. Containers that
can be changed are ANY. Reads syntax trees alone.
"""

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence

from passbench.program.names import Meaning
from passbench.program.scopes import bound_in, chain_of, parameters
from passbench.program.tables import ASKING, MATH_FUNCTIONS, SURE_ATTRIBUTES

ANY, PLAIN, NUMBER = 0, 1, 2
"""Nothing is known; no tensor in it; a number or truth value. A greater one says more."""
Kinds = Mapping[str, int]
Resolve = Callable[[Sequence[str]], Meaning]
_NUMBER_CALLS = frozenset({"len", "int", "float", "bool", "abs", "round", "isinstance", "any", "all", "pow", "sum"})
_NUMBER_LIBRARY = MATH_FUNCTIONS | {"triton.cdiv", "triton.next_power_of_2", "torch.numel", "operator.mul"}
_NUMBER_ATTRIBUTES = frozenset({"ndim", "is_cuda", "is_cpu", "itemsize", "nbytes", "requires_grad"})
_SIZES = frozenset({"size", "stride"})


def kind_of(node: ast.expr, kinds: Kinds, resolve: Resolve) -> int:
    """The least that holds of an expression's value."""
    if isinstance(node, ast.Constant):
        return NUMBER if isinstance(node.value, bool | int | float | complex) else PLAIN
    if isinstance(node, ast.Name | ast.Attribute):
        return _named(node, kinds, resolve)
    if isinstance(node, ast.BinOp):
        return of_operator(node.op, [kind_of(node.left, kinds, resolve), kind_of(node.right, kinds, resolve)])
    if isinstance(node, ast.UnaryOp | ast.Compare):
        return NUMBER
    if isinstance(node, ast.BoolOp):
        return _least(node.values, kinds, resolve)
    if isinstance(node, ast.IfExp):
        return _least([node.body, node.orelse], kinds, resolve)
    if isinstance(node, ast.Tuple):
        return min(PLAIN, _least(node.elts, kinds, resolve))
    if isinstance(node, ast.NamedExpr | ast.Starred):
        return kind_of(node.value, kinds, resolve)
    if isinstance(node, ast.JoinedStr):
        return PLAIN
    if isinstance(node, ast.Subscript):
        inside = kind_of(node.value, kinds, resolve)
        return NUMBER if _is_sizes(node.value) and not isinstance(node.slice, ast.Slice) else min(PLAIN, inside)
    return _of_call(node, kinds, resolve) if isinstance(node, ast.Call) else ANY


def of_operator(operator: ast.operator, operands: Sequence[int]) -> int:
    """What holds of the result of an operator: numbers are what is computed with, `+` and `*` also join containers."""
    if isinstance(operator, ast.Add | ast.Mult):
        return min(operands)
    return NUMBER if all(kind != PLAIN for kind in operands) else PLAIN


def _least(nodes: Iterable[ast.expr], kinds: Kinds, resolve: Resolve) -> int:
    return min((kind_of(node, kinds, resolve) for node in nodes), default=NUMBER)


def _named(node: ast.Name | ast.Attribute, kinds: Kinds, resolve: Resolve) -> int:
    chain = chain_of(node)
    if chain is not None and chain[0] in kinds:
        if len(chain) == 1:
            return kinds[chain[0]]
    elif chain is not None:
        found = resolve(chain)
        if found.kind == "library":
            return PLAIN
    if isinstance(node, ast.Attribute) and node.attr in SURE_ATTRIBUTES:
        return NUMBER if node.attr in _NUMBER_ATTRIBUTES else PLAIN
    return ANY


def _is_sizes(node: ast.expr) -> bool:
    """Whether a value is a tensor's shape or strides: whole numbers."""
    if isinstance(node, ast.Attribute):
        return node.attr == "shape"
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SIZES


def _of_call(node: ast.Call, kinds: Kinds, resolve: Resolve) -> int:
    chain = chain_of(node.func)
    if chain is not None and chain[0] not in kinds:
        found = resolve(chain)
        if found.kind == "library" and not found.dotted.startswith("torch."):
            return NUMBER if found.dotted in _NUMBER_LIBRARY else ANY
        if found.kind == "builtin" and not found.rest:
            return _of_builtin(node, found.name, kinds, resolve)
    if isinstance(node.func, ast.Attribute) and node.func.attr in ASKING:
        return PLAIN if node.func.attr in _SIZES and not node.args else NUMBER
    return ANY


def _of_builtin(node: ast.Call, name: str, kinds: Kinds, resolve: Resolve) -> int:
    if name in _NUMBER_CALLS:
        return NUMBER
    if name in ("min", "max"):
        return _least(node.args, kinds, resolve) if len(node.args) > 1 else PLAIN
    return PLAIN if name in ("range", "str", "repr", "divmod", "type") else ANY


# --- local names ----------------------------------------------------------------------------------------------------
def local_kinds(function: ast.FunctionDef | ast.Lambda, resolve: Resolve, outer: Kinds) -> dict[str, int]:
    """What holds of every local name wherever it is read, and of those of the functions around."""
    given = {item.arg for item in parameters(function)}
    local = bound_in(function)
    found = {**outer, **dict.fromkeys(local, NUMBER), **dict.fromkeys(given, ANY)}
    sources = _sources(function) if isinstance(function, ast.FunctionDef) else []
    for name in local - given - {name for name, _ in sources}:
        found[name] = ANY
    while True:
        before = dict(found)
        for name, source in sources:
            if name in local and name not in given:
                found[name] = min(found[name], source(found, resolve))
        if found == before:
            return found


Source = Callable[[Kinds, Resolve], int]


def _sources(function: ast.FunctionDef) -> list[tuple[str, Source]]:
    """(name, what is assigned to it) for every assignment in a function."""
    found: list[tuple[str, Source]] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                found += _of_target(target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            found += _of_target(node.target, node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found.append((node.target.id, _augmented(node.target.id, node)))
        elif isinstance(node, ast.For):
            found += [(name, _element(node.iter)) for name in _names(node.target)]
        elif isinstance(node, ast.ExceptHandler | ast.FunctionDef | ast.ClassDef) and node.name:
            found.append((node.name, lambda kinds, resolve: ANY))
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            found += [(name, lambda kinds, resolve: ANY) for name in _names(node.optional_vars)]
    return found


def _names(target: ast.expr) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def _of_target(target: ast.expr, value: ast.expr) -> list[tuple[str, Source]]:
    if isinstance(target, ast.Name):
        return [(target.id, lambda kinds, resolve: kind_of(value, kinds, resolve))]
    if not isinstance(target, ast.Tuple | ast.List):
        return []
    items = value.elts if isinstance(value, ast.Tuple | ast.List) else []
    if len(items) == len(target.elts) and not any(isinstance(item, ast.Starred) for item in (*target.elts, *items)):
        return [found for part, item in zip(target.elts, items, strict=True) for found in _of_target(part, item)]
    lists = {name for item in target.elts if isinstance(item, ast.Starred) for name in _names(item)}
    return [(name, (lambda kinds, resolve: ANY) if name in lists else _element(value)) for name in _names(target)]


def _element(container: ast.expr) -> Source:
    """What holds of an element of a container."""

    def source(kinds: Kinds, resolve: Resolve) -> int:
        counts = isinstance(container, ast.Call) and chain_of(container.func) == ["range"] and "range" not in kinds
        return NUMBER if counts or _is_sizes(container) else min(PLAIN, kind_of(container, kinds, resolve))

    return source


def _augmented(name: str, node: ast.AugAssign) -> Source:
    return lambda kinds, resolve: of_operator(node.op, [kinds[name], kind_of(node.value, kinds, resolve)])
