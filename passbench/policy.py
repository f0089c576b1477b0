"""The static policy on a submission's source: a tripwire (layer D4), never the only defence.

    facts = inspect_sources(submission, max_patterns=100)    # raises Rejected(rule) with file:line

Reads the syntax trees alone; imports and executes nothing. The bodies of top-level functions named in EXEMPT describe
graphs instead of computing, so rules marked "outside patterns" leave them out. What this cannot see: arithmetic
operators on tensors other than `@`, what `graph_pass` puts into a graph, and anything decided by values at run time.

RULES is the whole policy: (rule, checked inside patterns too, predicate, sentence). A predicate gets a node and its
file's scope and returns the offending text or None.
"""

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from passbench.submission import CONTRACT, GRAPH_PASS, Rejected, Submission, parse

EXEMPT = frozenset({"pattern", "replacement_args", GRAPH_PASS})
IMPORTS = frozenset({"torch", "triton", "math", "functools", "itertools", "operator", "typing", "dataclasses", "enum",
                     "collections", "contextlib", "numbers", "abc", "__future__"})  # fmt: skip
_TORCH_NAMES = """
    empty empty_like empty_strided zeros zeros_like ones ones_like full full_like as_tensor
    Tensor device dtype Size finfo iinfo strided contiguous_format channels_last preserve_format
    float16 half bfloat16 float32 float float64 double int8 int16 int32 int64 int long short uint8 uint16 uint32 uint64
    bool complex64 complex128 float8_e4m3fn float8_e5m2
    fx fx.wrap fx.GraphModule fx.Graph fx.Node cuda cuda.current_device cuda.get_device_properties cuda.is_available
    cuda.get_device_capability cuda.device version version.cuda
"""
TORCH_ALLOWED = frozenset(f"torch.{name}" for name in _TORCH_NAMES.split()) | {"torch"}
METHODS = frozenset("""
    size stride dim ndimension numel nelement element_size data_ptr is_contiguous contiguous view reshape expand permute
    transpose t unsqueeze squeeze flatten as_strided new_empty new_zeros new_ones new_full detach to get_device
    is_floating_point append extend insert pop items keys values get setdefault update copy index count join format
    split startswith endswith strip lower upper bit_length sort
""".split())  # fmt: skip
"""Methods that may be called outside patterns and kernels: sizes, layouts, copies, containers, strings."""
COMPUTING = frozenset("""
    add sub mul div matmul mm bmm addmm baddbmm dot mv sum mean var std prod cumsum max min amax amin argmax argmin norm
    softmax log_softmax sigmoid tanh relu exp log log1p expm1 sqrt rsqrt reciprocal pow square abs neg sign sin cos erf
    clamp clip where masked_fill gather scatter index_select index_add sort topk flip roll repeat fill_ zero_ copy_
    float half bfloat16 double type
""".split())  # fmt: skip
"""Tensor methods that compute: they may not be passed around outside patterns and kernels either."""
DYNAMIC = frozenset("""
    getattr setattr delattr eval exec compile __import__ globals locals vars open input breakpoint exit quit memoryview
    super object dir help
""".split())  # fmt: skip
DUNDER_ALLOWED = frozenset({"__name__", "__doc__", "__version__", "__all__", "__future__", "__annotations__"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What is known of one file while its nodes are looked at."""

    path: str
    """The file."""
    names: dict[str, str]
    """Local name -> dotted name it was imported as."""
    siblings: frozenset[str]
    """Importable modules of the submission itself."""
    rebound: frozenset[str]
    """Names that the file gives a value otherwise than by an import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the source says about a submission that keeps the rules."""

    uses_triton: bool
    """Whether any kernel is a Triton kernel."""
    whole_graphs: bool = False
    """Whether any pass is of the whole-graph form."""
    wrapped: tuple[tuple[str, str], ...]
    """(module stem, function) of every function marked with torch.fx.wrap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A node with where it stands."""

    node: ast.AST
    in_pattern: bool
    in_kernel: bool
    called: bool
    inner: bool
    """Whether it is the left part of a longer dotted name."""


def dotted(node: ast.AST, scope: Scope) -> str | None:
    """The dotted name of a Name or Attribute with imports resolved; None for other expressions."""
    if isinstance(node, ast.Name):
        return scope.names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        left = dotted(node.value, scope)
        return None if left is None else f"{left}.{node.attr}"
    return None


# --- predicates -----------------------------------------------------------------------------------------------------
def _foreign_import(place: _Place, scope: Scope) -> str | None:
    node = place.node
    if isinstance(node, ast.ImportFrom) and node.level:
        return "." * node.level + (node.module or "")
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    return next((name for name in names if name.split(".")[0] not in IMPORTS | scope.siblings), None)


def _star_import(place: _Place, scope: Scope) -> str | None:
    node = place.node
    return f"from {node.module}" if isinstance(node, ast.ImportFrom) and node.names[0].name == "*" else None


def _dynamic(place: _Place, scope: Scope) -> str | None:
    node = place.node
    return node.id if isinstance(node, ast.Name) and node.id in DYNAMIC and node.id not in scope.names else None


def _dunder(place: _Place, scope: Scope) -> str | None:
    node = place.node
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name if name.startswith("__") and name.endswith("__") and name not in DUNDER_ALLOWED else None


def _patched(place: _Place, scope: Scope) -> str | None:
    node = place.node
    if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load):
        return None
    name = dotted(node, scope)
    return name if name and (name.split(".")[0] in IMPORTS | scope.siblings) else None


def _torch_use(place: _Place, scope: Scope) -> str | None:
    name = None if place.inner else dotted(place.node, scope)
    if name is None or not (name == "torch" or name.startswith("torch.")):
        return None
    return name if name == "torch" or name not in TORCH_ALLOWED else None


def _module_value(place: _Place, scope: Scope) -> str | None:
    node = place.node
    if place.inner or not isinstance(node, ast.Name) or node.id not in scope.names:
        return None
    return node.id if scope.names[node.id] in IMPORTS else None


def _operator_use(place: _Place, scope: Scope) -> str | None:
    name = dotted(place.node, scope)
    return name if name and name.startswith("operator.") and name != "operator.index" else None


def _tensor_method(place: _Place, scope: Scope) -> str | None:
    node = place.node
    if place.in_kernel or not isinstance(node, ast.Attribute) or node.attr in METHODS:
        return None
    if not place.called and (place.inner or node.attr not in COMPUTING or not isinstance(node.ctx, ast.Load)):
        return None
    root = dotted(node, scope)
    known = root is not None and root.split(".")[0] in (IMPORTS | scope.siblings)
    return None if known else f".{node.attr}"


def _matmul(place: _Place, scope: Scope) -> str | None:
    node = place.node
    used = isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult)
    return "@" if used else None


def _calls_pattern(place: _Place, scope: Scope) -> str | None:
    name = dotted(place.node, scope) if isinstance(place.node, ast.Name | ast.Attribute) else None
    return name if name and name.split(".")[-1] in EXEMPT else None


Predicate = Callable[[_Place, Scope], str | None]
RULES: tuple[tuple[str, bool, Predicate, str], ...] = (
    ("import", True, _foreign_import, "imports only " + ", ".join(sorted(IMPORTS)) + " and its own modules"),
    ("star-import", True, _star_import, "imports names one by one"),
    ("dynamic", True, _dynamic, "uses no reflection, evaluation or files"),
    ("dunder", True, _dunder, "reads no special attributes"),
    ("patching", True, _patched, "assigns to no attribute of a module"),
    ("module-value", True, _module_value, "uses a module only to name something in it"),
    ("torch-call", False, _torch_use, "uses torch outside patterns only to allocate, for dtypes and for fx.wrap"),
    ("operator-call", False, _operator_use, "computes in kernels, not through the operator module"),
    ("tensor-method", False, _tensor_method, "computes in kernels, not through tensor methods"),
    ("matmul", False, _matmul, "multiplies matrices in kernels"),
    ("pattern-call", False, _calls_pattern, "never calls the pattern, which is the reference"),
)
"""(rule, whether it holds inside patterns too, predicate, what a submission that keeps the rule does)."""


def inspect_sources(submission: Submission, *, max_patterns: int, rules: bool = True) -> Facts:
    """Check every rule on every file; raises Rejected at the first one broken, in order of file and line.

    Without `rules` only the contract is checked: for the proof that something else stops an attack.
    """
    if len(submission.passes) > max_patterns:
        raise Rejected("patterns", f"{len(submission.passes)} passes listed, at most {max_patterns} are allowed")
    trees = parse(submission)
    siblings = frozenset(path.removesuffix(".py").split("/")[0] for path in trees)
    taken = sorted(siblings & (IMPORTS | sys.stdlib_module_names))
    if taken and rules:
        raise Rejected("module-name", f"{taken[0]}.py:1: {taken[0]} is also the name of a library; rename the file")
    for path, tree in trees.items() if rules else ():
        try:
            _check_file(tree, _scope(path, tree, siblings))
        except RecursionError as error:
            raise Rejected("syntax", f"{path}:1: an expression is nested too deeply; split it") from error
    for stem in submission.passes:
        _check_contract(stem, trees[f"{stem}.py"])
    kernels = [name for path, tree in trees.items() for name in _kernels(tree, _scope(path, tree, siblings))]
    patterns = [stem for stem in submission.passes if GRAPH_PASS not in _top_names(trees[f"{stem}.py"])]
    if rules and patterns and not kernels:
        raise Rejected("no-kernel", f"{patterns[0]}.py:1: a replacement launches at least one Triton kernel")
    wrapped = [
        (path.removesuffix(".py").replace("/", "."), name)
        for path, tree in trees.items()
        for name in _wrapped(tree, _scope(path, tree, siblings))
    ]
    whole = len(patterns) < len(submission.passes)
    return Facts(uses_triton=bool(kernels), whole_graphs=whole, wrapped=tuple(sorted(wrapped)))


def _check_file(tree: ast.Module, scope: Scope) -> None:
    for place in _places(tree, scope):
        for rule, everywhere, predicate, sentence in RULES:
            if place.in_pattern and not everywhere:
                continue
            found = predicate(place, scope)
            if found is not None:
                line = getattr(place.node, "lineno", 1)
                raise Rejected(rule, f"{scope.path}:{line}: {found}: a submission {sentence}")


def _places(tree: ast.Module, scope: Scope) -> Iterator[_Place]:
    """Every node in source order with where it stands."""
    stack: list[_Place] = [
        _Place(node=node, in_pattern=False, in_kernel=False, called=False, inner=False) for node in reversed(tree.body)
    ]
    top = {id(node) for node in tree.body}
    while stack:
        place = stack.pop()
        yield place
        node = place.node
        exempt = isinstance(node, ast.FunctionDef) and id(node) in top and node.name in EXEMPT
        kernel = isinstance(node, ast.FunctionDef) and _is_kernel(node, scope)
        body = {id(item) for item in node.body} if isinstance(node, ast.FunctionDef) else set()
        stack.extend(
            _Place(
                node=child,
                in_pattern=place.in_pattern or (exempt and id(child) in body),
                in_kernel=place.in_kernel or (kernel and id(child) in body),
                called=isinstance(node, ast.Call) and child is node.func,
                inner=isinstance(node, ast.Attribute),
            )
            for child in reversed(list(ast.iter_child_nodes(node)))
        )


def _scope(path: str, tree: ast.Module, siblings: frozenset[str]) -> Scope:
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.split(".")[0]
                names[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom):
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    defined = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    assigned = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return Scope(path=path, names=names, siblings=siblings, rebound=frozenset(defined | assigned))


def _is_kernel(node: ast.FunctionDef, scope: Scope) -> bool:
    return any(dotted(item, scope) == "triton.jit" and _imported(item, scope) for item in _decorators(node))


def _imported(node: ast.expr, scope: Scope) -> bool:
    """Whether a dotted name begins with an imported name that the file never gives another value."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in scope.names and node.id not in scope.rebound


def _decorators(node: ast.FunctionDef) -> list[ast.expr]:
    return [item.func if isinstance(item, ast.Call) else item for item in node.decorator_list]


def _kernels(tree: ast.Module, scope: Scope) -> list[str]:
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _is_kernel(node, scope)]


def _wrapped(tree: ast.Module, scope: Scope) -> list[str]:
    """Names marked with torch.fx.wrap, as a decorator or by a call with the name or the function."""
    found = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and any(dotted(d, scope) == "torch.fx.wrap" for d in _decorators(node))
    ]
    for node in tree.body:
        call = node.value if isinstance(node, ast.Expr | ast.Assign) else None
        if isinstance(call, ast.Call) and dotted(call.func, scope) == "torch.fx.wrap" and len(call.args) == 1:
            arg = call.args[0]
            found += [arg.id] if isinstance(arg, ast.Name) else []
            found += [arg.value] if isinstance(arg, ast.Constant) and isinstance(arg.value, str) else []
    return found


def _top_names(tree: ast.Module) -> set[str]:
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return names


def _check_contract(stem: str, tree: ast.Module) -> None:
    names = _top_names(tree)
    if GRAPH_PASS in names:
        return
    missing = [name for name in CONTRACT if name not in names]
    if missing:
        raise Rejected("contract", f"{stem}.py:1: lacks {', '.join(missing)} (or {GRAPH_PASS})")
