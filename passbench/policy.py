"""The static policy on a submission's source: a tripwire (layer D4), never the only defence.

    facts = inspect_sources(submission, max_patterns=100)    # raises Rejected(rule) with file:line

Reads the syntax trees alone; imports and executes nothing. The bodies of top-level functions named in EXEMPT describe
graphs instead of computing, so rules marked "outside patterns" leave them out, and all leave out what stands below
`if __name__ == "__main__"`. What this cannot see: arithmetic operators on tensors other than `@`, what `graph_pass`
puts into a graph, and anything decided by values at run time.

RULES is the whole policy: (rule, checked inside patterns too, predicate, sentence). A predicate gets a node and its
file's scope and returns the offending text or None.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from passbench.sources import LIBRARIES, Modules, idle_imports, imported_names, is_library, path_of, read_modules
from passbench.submission import CONTRACT, GRAPH_PASS, Rejected, Submission

EXEMPT = frozenset({"pattern", "replacement_args", GRAPH_PASS})
LIBRARY_NAMES: Mapping[str, frozenset[str]] = {
    module: frozenset(names.split())
    for module, names in {
        "functools": "lru_cache cache partial reduce wraps cached_property",
        "itertools": "chain product repeat count islice accumulate zip_longest combinations permutations starmap",
        "typing": """
            Any Callable ClassVar Dict Final FrozenSet Generic Iterable Iterator List Literal Mapping NamedTuple
            NoReturn Optional Protocol Sequence Set Tuple Type TypeAlias TypeVar Union cast TYPE_CHECKING
        """,
        "dataclasses": "dataclass field replace asdict astuple fields",
        "enum": "Enum IntEnum StrEnum Flag IntFlag auto unique",
        "collections": "OrderedDict defaultdict namedtuple Counter deque abc",
        "collections.abc": "Callable Iterable Iterator Mapping Sequence Set MutableMapping Hashable",
        "contextlib": "contextmanager nullcontext suppress ExitStack",
        "numbers": "Number Integral Real Complex",
        "abc": "ABC abstractmethod ABCMeta",
        "triton": "jit autotune heuristics Config cdiv next_power_of_2 __version__",
    }.items()
}
"""Names that may be used of a library; of others, and of the operator module inside patterns, all public ones."""
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
OPERATOR_METHODS = frozenset(
    f"__{name}__" for name in """
    eq ne lt le gt ge add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul
    and rand or ror xor rxor lshift rlshift rshift rrshift neg pos abs invert getitem len contains
    """.split()
)  # fmt: skip
"""Special methods that stand for an operator; a pattern may call them, as graphs do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What is known of one file while its nodes are looked at."""

    path: str
    """The file."""
    key: str
    """Its module."""
    names: dict[str, str]
    """Local name -> dotted name it was imported as."""
    modules: Modules
    """All modules of the submission."""
    rebound: frozenset[str]
    """Names that the file gives a value otherwise than by an import."""
    idle: frozenset[int]
    """Identities of imports that nothing uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the source says about a submission that keeps the rules."""

    uses_triton: bool
    """Whether any kernel is a Triton kernel."""
    whole_graphs: bool = False
    """Whether any pass is of the whole-graph form."""
    wrapped: tuple[tuple[str, str], ...]
    """(module stem, function) of every function marked with torch.fx.wrap."""
    numbers: tuple[float, ...] = ()
    """Numbers that are written in it: a kernel may compute otherwise there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A node with where it stands."""

    node: ast.AST
    in_pattern: bool
    in_kernel: bool
    called: bool
    inner: bool
    """Whether it is the left part of a longer dotted name."""
    local: frozenset[str] = frozenset()
    """Names that the functions around it bind."""


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
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return None
    if id(node) in scope.idle:
        return None
    names = imported_names(scope.modules.keys, scope.key, node)
    return next(("." * level + name for name, level in names if not _imported_module(name, level, scope)), None)


def _imported_module(name: str, level: int, scope: Scope) -> bool:
    """Whether an import is of a library that is allowed or of the submission itself."""
    if not level and name.split(".")[0] in LIBRARIES:
        return True
    return scope.modules.sibling(scope.key, name, level) is not None


def _library_name(place: _Place, scope: Scope) -> str | None:
    """A name of a library that is not among those that may be used."""
    node = place.node
    if isinstance(node, ast.ImportFrom) and not node.level:
        names = [f"{node.module}.{alias.name}" for alias in node.names if alias.name != "*"]
        return next((name for name in names if not _may_be_used(name)), None)
    name = None if place.inner else _imported_name(node, scope)
    return name if name and not _may_be_used(name) else None


def _may_be_used(name: str) -> bool:
    parts = name.split(".")
    if parts[0] not in LIBRARIES or parts[0] == "torch" or parts[:2] == ["triton", "language"]:
        return True
    module = "collections.abc" if parts[:2] == ["collections", "abc"] else parts[0]
    rest = parts[module.count(".") + 1 :]
    if not rest:
        return True
    if module in LIBRARY_NAMES:
        return rest[0] in LIBRARY_NAMES[module]
    return len(rest) == 1 and not rest[0].startswith("_")


def _imported_name(node: ast.AST, scope: Scope) -> str | None:
    """The dotted name of an expression that begins with an imported name."""
    root = node
    while isinstance(root, ast.Attribute):
        root = root.value
    return dotted(node, scope) if isinstance(root, ast.Name) and root.id in scope.names else None


def _module_name(place: _Place, scope: Scope) -> str | None:
    """The name in a plain import that means a library, and could be taken to mean a file of the submission."""
    node = place.node
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
    roots = (name.split(".")[0] for name in names)
    return next((root for root in roots if is_library(root) and root in scope.modules.keys), None)


def _star_import(place: _Place, scope: Scope) -> str | None:
    node = place.node
    return f"from {node.module}" if isinstance(node, ast.ImportFrom) and node.names[0].name == "*" else None


def _dynamic(place: _Place, scope: Scope) -> str | None:
    node = place.node
    is_builtin = isinstance(node, ast.Name) and node.id not in scope.names and node.id not in place.local
    return node.id if isinstance(node, ast.Name) and is_builtin and node.id in DYNAMIC else None


def _dunder(place: _Place, scope: Scope) -> str | None:
    node = place.node
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    if place.in_pattern and place.called and name in OPERATOR_METHODS:
        return None
    return name if name.startswith("__") and name.endswith("__") and name not in DUNDER_ALLOWED else None


def _patched(place: _Place, scope: Scope) -> str | None:
    node = place.node
    if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load):
        return None
    name = dotted(node, scope)
    return name if name and _is_module(name, scope) else None


def _is_module(name: str, scope: Scope) -> bool:
    """Whether a dotted name begins with a library or a module of the submission."""
    root = name.split(".")[0]
    return root in LIBRARIES or scope.modules.sibling(scope.key, root, 0) is not None


def _torch_use(place: _Place, scope: Scope) -> str | None:
    name = None if place.inner else dotted(place.node, scope)
    if name is None or not (name == "torch" or name.startswith("torch.")):
        return None
    return name if name == "torch" or name not in TORCH_ALLOWED else None


def _module_value(place: _Place, scope: Scope) -> str | None:
    node = place.node
    if place.inner or not isinstance(node, ast.Name) or node.id not in scope.names:
        return None
    return node.id if scope.names[node.id] in LIBRARIES else None


def _operator_use(place: _Place, scope: Scope) -> str | None:
    name = dotted(place.node, scope)
    return name if name and name.startswith("operator.") and name != "operator.index" else None


def _tensor_method(place: _Place, scope: Scope) -> str | None:
    node = place.node
    if place.in_kernel or not isinstance(node, ast.Attribute) or node.attr in METHODS:
        return None
    limits = isinstance(node.value, ast.Call) and dotted(node.value.func, scope) in ("torch.finfo", "torch.iinfo")
    passed = node.attr in COMPUTING and not place.inner and not limits and isinstance(node.ctx, ast.Load)
    if not place.called and not passed:
        return None
    root = dotted(node, scope)
    return None if root is not None and _is_module(root, scope) else f".{node.attr}"


def _matmul(place: _Place, scope: Scope) -> str | None:
    node = place.node
    used = isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult)
    return "@" if used else None


def _calls_pattern(place: _Place, scope: Scope) -> str | None:
    name = dotted(place.node, scope) if isinstance(place.node, ast.Name | ast.Attribute) else None
    return name if name and name.split(".")[-1] in EXEMPT else None


Predicate = Callable[[_Place, Scope], str | None]
RULES: tuple[tuple[str, bool, Predicate, str], ...] = (
    ("import", True, _foreign_import, "imports only " + ", ".join(sorted(LIBRARIES)) + " and its own modules"),
    ("star-import", True, _star_import, "imports names one by one"),
    ("module-name", True, _module_name, "gives no file the name of a library that it imports"),
    ("library-name", True, _library_name, "uses of a library only the names that passbench.policy lists"),
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
    modules = read_modules(submission)
    idle = idle_imports(modules)
    scopes = {key: _scope(key, tree, modules, idle) for key, tree in modules.trees.items()}
    for key, tree in modules.trees.items():
        if key in modules.passes:
            _check_contract(key, tree)
    kernels = [name for key, tree in modules.trees.items() for name in _kernels(tree, scopes[key])]
    patterns = [key for key in modules.passes if GRAPH_PASS not in _top_names(modules.trees[key])]
    if rules and patterns and not kernels:
        raise Rejected("no-kernel", f"{path_of(patterns[0])}:1: a replacement launches at least one Triton kernel")
    wrapped = [(key, name) for key, tree in modules.trees.items() for name in _wrapped(tree, scopes[key])]
    for key, tree in modules.trees.items() if rules else ():
        try:
            _check_file(tree, scopes[key])
        except RecursionError as error:
            text = f"{path_of(key)}:1: an expression is nested too deeply; split it"
            raise Rejected("syntax", text) from error
    whole = len(patterns) < len(modules.passes)
    return Facts(uses_triton=bool(kernels), whole_graphs=whole, wrapped=tuple(sorted(wrapped)),
                 numbers=modules.numbers)  # fmt: skip


def _executed(tree: ast.Module) -> list[ast.stmt]:
    """The statements of a module that an import executes."""
    return [node for node in tree.body if not (isinstance(node, ast.If) and _asks_for_main(node.test))]


def _asks_for_main(test: ast.expr) -> bool:
    text = ast.unparse(test)
    return text in ("__name__ == '__main__'", "'__main__' == __name__")


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
    body = _executed(tree)
    stack = [_Place(node=node, in_pattern=False, in_kernel=False, called=False, inner=False) for node in reversed(body)]
    top = set(map(id, body))
    while stack:
        place = stack.pop()
        yield place
        node = place.node
        exempt = isinstance(node, ast.FunctionDef) and id(node) in top and node.name in EXEMPT
        kernel = isinstance(node, ast.FunctionDef) and _is_kernel(node, scope)
        inside = set(map(id, _body(node)))
        local = place.local | _bound(node) if isinstance(node, ast.FunctionDef | ast.Lambda) else place.local
        stack.extend(
            _Place(
                node=child,
                in_pattern=place.in_pattern or (exempt and id(child) in inside),
                in_kernel=place.in_kernel or (kernel and id(child) in inside),
                called=isinstance(node, ast.Call) and child is node.func,
                inner=isinstance(node, ast.Attribute),
                local=local if id(child) in inside else place.local,
            )
            for child in reversed(list(ast.iter_child_nodes(node)))
        )


def _body(node: ast.AST) -> list[ast.AST]:
    """What a function executes when it is called; its defaults and decorators belong to the scope around it."""
    return [*node.body] if isinstance(node, ast.FunctionDef) else [node.body] if isinstance(node, ast.Lambda) else []


def _bound(function: ast.FunctionDef | ast.Lambda) -> frozenset[str]:
    """Names that a function binds: its parameters, and what it assigns and does not declare to be another scope's."""
    arguments = function.args
    found = {item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    found |= {item.arg for item in (arguments.vararg, arguments.kwarg) if item}
    if isinstance(function, ast.FunctionDef):
        inside = [node for statement in function.body for node in ast.walk(statement)]
        found |= {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        if any(isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Lambda) for node in inside):
            found = {item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
        found -= {name for node in inside if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    return frozenset(found)


def _scope(key: str, tree: ast.Module, modules: Modules, idle: frozenset[int]) -> Scope:
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.split(".")[0]
                names[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom):
            names.update({alias.asname or alias.name: f"{node.module or ''}.{alias.name}" for alias in node.names})
    defined = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    assigned = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    rebound = frozenset(defined | assigned)
    return Scope(path=path_of(key), key=key, names=names, modules=modules, rebound=rebound, idle=idle)


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
