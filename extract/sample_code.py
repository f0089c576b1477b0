"""The code of a published sample as IR nodes: an `ast` reader of the straight-line programs that torch.fx prints.

    reader = CodeReader(where="resnet18/model.py")
    name = reader.placeholder("L_x_", role="input", init=..., spec=...)
    reader.body(forward.body)

Reads a syntax tree, writes nothing. Nothing of the sample is imported or run: calls are looked up in the allow-list
of `schemas.targets`, and each node is propagated on fake tensors as it is read, which gives its specs at once.
Whatever the form does not have raises ValueError of one line: file, line, what.
"""

import ast
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from extract.failures import LIBRARY_ERRORS, first_line
from extract.sample_meta import MAX_DEPTH
from schemas import fx, targets, values
from schemas.graph import FUNCTION, METHOD, OUTPUT, PLACEHOLDER, Node, TensorSpec, is_safe_name
from schemas.values import Value

BINARY: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor",
    ast.LShift: "lshift", ast.RShift: "rshift",
}  # fmt: skip
COMPARE: dict[type, str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne", ast.Is: "is_",
    ast.IsNot: "is_not",
}  # fmt: skip
UNARY: dict[type, str] = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert", ast.Not: "not_"}
ROOTS = frozenset({"torch", "operator", "_operator", "math", "torchvision", "einops", "builtins"})
"""First words of qualified names; a local value of the same name wins."""
BARE = frozenset({"int", "float", "bool", "complex", "max", "min", "abs", "sum", "len", "round", "pow"})
"""Builtins that a graph may call by their bare name."""
SPELLINGS: tuple[tuple[str, str], ...] = (
    ("_operator.", "operator."), ("torch.functional.", "torch."), ("torch._C._VariableFunctions.", "torch."),
    ("torch._VF.", "torch."), ("torch._C._linalg.linalg_", "torch.linalg."), ("torch._C._fft.fft_", "torch.fft."),
    ("torch._C._special.special_", "torch.special."), ("torch._tensor.Tensor.", "torch.Tensor."),
    ("torch.autograd.grad_mode.", "torch."), ("torch.amp._enter", "torch.amp.autocast_mode._enter"),
    ("torch.amp._exit", "torch.amp.autocast_mode._exit"), ("torch._higher_order_ops.", "torch.ops.higher_order."),
)  # fmt: skip
"""(beginning of a printed name, what the allow-list calls it)."""
ATTRIBUTES: dict[str, tuple[str, str, tuple[Value, ...]]] = {
    "shape": (METHOD, "size", ()), "ndim": (METHOD, "dim", ()), "data": (METHOD, "detach", ()),
    "T": (METHOD, "t", ()), "mT": (METHOD, "transpose", (-2, -1)), "H": (METHOD, "adjoint", ()),
    "mH": (METHOD, "adjoint", ()), "real": (FUNCTION, "torch.real", ()), "imag": (FUNCTION, "torch.imag", ()),
}  # fmt: skip
"""Attributes of tensors that are calls in the IR."""
DUNDERS = frozenset(
    f"__{name}__"
    for name in "add radd sub rsub mul rmul truediv rtruediv floordiv mod pow rpow matmul and or xor invert neg eq ne "
    "lt le gt ge getitem iadd isub imul itruediv rand ror lshift rshift".split()
)
_GPU = re.compile(r"(cuda|xpu|hpu|mps)(:\d+)?")


class CodeReader:
    """Reads one forward: an environment of names, the nodes so far and their values on fake tensors."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.nodes: list[Node] = []
        self.inits: list[str] = []
        self.env: dict[str, Value] = {}
        self._live: list[Any] = []
        self._names: set[str] = set()
        self._written: tuple[str, Value] | None = None

    def refuse(self, node: ast.AST, what: str) -> NoReturn:
        """Raise the one line about a place in the code."""
        raise ValueError(f"{self.where}:{getattr(node, 'lineno', 0)}: {what}")

    # --- nodes ------------------------------------------------------------------------------------------------------
    def _name(self, wanted: str) -> str:
        base = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in wanted)[:200]
        base = base if is_safe_name(base) else f"v_{base}"
        name, count = base, 0
        while name in self._names:
            count += 1
            name = f"{base}_v{count}"
        self._names.add(name)
        return name

    def placeholder(self, name: str, *, role: str, init: str, spec: TensorSpec) -> None:
        """Add an argument with its value on fake tensors."""
        self.env[name] = {"in": len(self.nodes)}
        self.inits.append(init)
        self._live.append(fx.example_input(spec, init))
        node = Node(op=PLACEHOLDER, name=self._name(name), target=role, inputs=(), attrs="{}", outputs=(spec,))
        self.nodes.append(node)

    def add(self, at: ast.AST, op: str, target: str, args: list[Value], kwargs: dict[str, Value], name: str) -> Value:
        """Add a call (or the output), run it on fake tensors; -> the reference to its value."""
        inputs: list[int] = []

        def number(value: Value) -> Value | None:
            if values.tag_of(value) != "in":
                return None
            inputs.append(value["in"])
            return {"in": len(inputs) - 1}

        attrs = {
            "args": [values.rewrite(arg, number) for arg in args],
            "kwargs": {key: values.rewrite(arg, number) for key, arg in kwargs.items()},
        }
        result = self._run(at, op, target, (attrs, [self._live[k] for k in inputs])) if op != OUTPUT else None
        self.nodes.append(Node(
            op=op, name=self._name(name or target.rpartition(".")[2]), target=target, inputs=tuple(inputs),
            attrs=values.dumps(attrs), outputs=fx.specs_of(result),
        ))  # fmt: skip
        self._live.append(result)
        return {"in": len(self.nodes) - 1}

    def _run(self, at: ast.AST, op: str, target: str, call: tuple[Value, list[Any]]) -> Any:
        attrs, operands = call
        try:
            args, kwargs = fx.arguments(attrs, operands)
            if not _is_bounded(target, args):
                raise ValueError("a number or sequence without bound")
            if op == METHOD:
                return getattr(args[0], target)(*args[1:], **kwargs)
            return targets.resolve(target)(*args, **kwargs)
        except LIBRARY_ERRORS as error:
            self.refuse(at, f"{target} does not run on these shapes: {first_line(error)}")

    # --- statements -------------------------------------------------------------------------------------------------
    def body(self, statements: Sequence[ast.stmt]) -> None:
        """Read the statements of forward; raises ValueError unless its one return is its last statement."""
        for index, statement in enumerate(statements):
            if isinstance(statement, ast.Return):
                if index != len(statements) - 1:
                    self.refuse(statement, "statements after return")
                value = self.value(statement.value) if statement.value is not None else None
                self.add(statement, OUTPUT, "", [value], {}, "output")
                return
            self._statement(statement)
        raise ValueError(f"{self.where}: forward has no return")

    def _statement(self, node: ast.stmt) -> None:
        written, self._written = self._written, None
        if isinstance(node, ast.Assign):
            self._assign(node, written)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._bind(node.target, self.value(node.value, name=_target_name(node.target)))
        elif isinstance(node, ast.AugAssign):
            self._augment(node)
        elif isinstance(node, ast.Expr):
            if not isinstance(node.value, ast.Constant):
                self.value(node.value)
        elif isinstance(node, ast.Assert):
            message = self.value(node.msg) if node.msg is not None else ""
            self.add(node, FUNCTION, "torch._assert", [self.value(node.test), message], {}, "_assert")
        elif not isinstance(node, ast.Pass | ast.Delete):
            self.refuse(node, f"a {type(node).__name__} statement: only straight-line code is read")

    def _assign(self, node: ast.Assign, written: tuple[str, Value] | None) -> None:
        value = self.value(node.value, name=_target_name(node.targets[0]))
        for target in node.targets:
            self._bind(target, value)
        if written is not None and isinstance(node.value, ast.Name) and node.value.id == written[0]:
            self.env[written[0]] = written[1]  # torch.fx prints `x += y; z = x`: z is the call, x stays what it was

    def _bind(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.env[target.id] = value
        elif isinstance(target, ast.Subscript):
            args = [self.value(target.value), self.value(target.slice), value]
            self.add(target, FUNCTION, "operator.setitem", args, {}, "setitem")
        elif isinstance(target, ast.Tuple | ast.List):
            for index, item in enumerate(target.elts):
                got = self.add(target, FUNCTION, "operator.getitem", [value, index], {}, _target_name(item))
                self._bind(item, got)
        else:
            self.refuse(target, f"assignment to a {type(target).__name__}")

    def _augment(self, node: ast.AugAssign) -> None:
        name = "i" + BINARY[type(node.op)].rstrip("_")
        if not isinstance(node.target, ast.Name):
            self.refuse(node, "augmented assignment to something else than a name")
        old = self.value(ast.copy_location(ast.Name(id=node.target.id), node))
        args = [old, self.value(node.value)]
        self.env[node.target.id] = self.add(node, FUNCTION, f"operator.{name}", args, {}, name)
        self._written = (node.target.id, old)

    # --- expressions ------------------------------------------------------------------------------------------------
    def value(self, node: ast.expr, *, depth: int = 0, name: str = "") -> Value:
        """An expression as a value of the attribute grammar; {"in": k} is node k. Adds the nodes it needs."""
        if depth > MAX_DEPTH:
            self.refuse(node, "an expression nested too deeply")
        read = _READERS.get(type(node))
        if read is None:
            self.refuse(node, f"a {type(node).__name__} expression is not part of the form")
        return read(self, node, depth + 1, name)

    def constant(self, node: ast.Constant, depth: int, name: str) -> Value:
        """A literal."""
        found = node.value
        if found is Ellipsis:
            return {"ellipsis": True}
        if isinstance(found, str) and not _is_text(found):
            self.refuse(node, "a text with half a character in it")
        if isinstance(found, bool | int | str) or found is None:
            return found
        if isinstance(found, float):
            return {"float": repr(found)}
        if not isinstance(found, complex):
            self.refuse(node, f"a literal of type {type(found).__name__}")
        return {"complex": [repr(found.real), repr(found.imag)]}

    def named(self, node: ast.Name, depth: int, name: str) -> Value:
        """A local value, or one of the few names that mean something."""
        if node.id in self.env:
            return self.env[node.id]
        if node.id in ("inf", "nan"):
            return {"float": node.id}
        if node.id == "Ellipsis":
            return {"ellipsis": True}
        if node.id not in BARE:
            self.refuse(node, f"the name {node.id[:80]!r} is not defined")
        return {"target": f"builtins.{node.id}"}

    def sequence(self, node: ast.Tuple | ast.List, depth: int, name: str) -> Value:
        """A tuple or list."""
        items = [self.value(item, depth=depth) for item in node.elts]
        return {"tuple": items} if isinstance(node, ast.Tuple) else items

    def dictionary(self, node: ast.Dict, depth: int, name: str) -> Value:
        """A dictionary with texts or whole numbers as keys."""
        pairs = []
        for key, item in zip(node.keys, node.values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str | int):
                self.refuse(node, "a dictionary key that is neither a text nor a whole number")
            pairs.append([key.value, self.value(item, depth=depth)])
        return {"dict": pairs}

    def slice(self, node: ast.Slice, depth: int, name: str) -> Value:
        """a:b:c between brackets."""
        parts = (node.lower, node.upper, node.step)
        return {"slice": [None if part is None else self.value(part, depth=depth) for part in parts]}

    def unary(self, node: ast.UnaryOp, depth: int, name: str) -> Value:
        """A signed literal or a call of the operator."""
        inner = self.value(node.operand, depth=depth)
        if isinstance(node.op, ast.USub):
            if type(inner) is int:
                return -inner
            if values.tag_of(inner) == "float":
                return {"float": repr(-float(inner["float"]))}
        return self.add(node, FUNCTION, f"operator.{UNARY[type(node.op)]}", [inner], {}, name)

    def binary(self, node: ast.BinOp, depth: int, name: str) -> Value:
        """A call of the operator; a complex literal stays one."""
        left, right = self.value(node.left, depth=depth), self.value(node.right, depth=depth)
        if values.tag_of(right) == "complex" and isinstance(node.op, ast.Add | ast.Sub):
            real = float(left["float"]) if values.tag_of(left) == "float" else left
            sign = 1 if isinstance(node.op, ast.Add) else -1
            if isinstance(real, int | float):
                return {"complex": [repr(float(real)), repr(sign * float(right["complex"][1]))]}
        return self.add(node, FUNCTION, f"operator.{BINARY[type(node.op)]}", [left, right], {}, name)

    def compare(self, node: ast.Compare, depth: int, name: str) -> Value:
        """One comparison."""
        target = COMPARE.get(type(node.ops[0]))
        if len(node.ops) > 1 or target is None:
            self.refuse(node, "a chained comparison or a test of membership")
        args = [self.value(node.left, depth=depth), self.value(node.comparators[0], depth=depth)]
        return self.add(node, FUNCTION, f"operator.{target}", args, {}, name)

    def subscript(self, node: ast.Subscript, depth: int, name: str) -> Value:
        """A call of getitem."""
        args = [self.value(node.value, depth=depth), self.value(node.slice, depth=depth)]
        return self.add(node, FUNCTION, "operator.getitem", args, {}, name)

    # --- names and calls --------------------------------------------------------------------------------------------
    def qualified(self, node: ast.expr) -> str | None:
        """The dotted name of an expression that starts at a library; None for an attribute of a value."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute) and len(parts) < MAX_DEPTH:
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id in self.env or node.id not in ROOTS:
            return None
        return ".".join([node.id, *reversed(parts)])

    def target(self, node: ast.AST, name: str) -> str:
        """The allow-list's name of a printed function name; raises ValueError if a graph may not call it."""
        for beginning, ours in SPELLINGS:
            if name.startswith(beginning):
                name = ours + name.removeprefix(beginning)
        try:
            return targets.name_of(targets.resolve(name))
        except (ValueError, AttributeError, RuntimeError) as error:
            self.refuse(node, first_line(error))

    def attribute(self, node: ast.Attribute, depth: int, name: str) -> Value:
        """A constant of torch, a function as an argument, or an attribute of a tensor."""
        dotted = self.qualified(node)
        if dotted is not None:
            return _torch_constant(dotted) or {"target": self.target(node, dotted)}
        if isinstance(node.value, ast.Call) and self.qualified(node.value.func) in ("torch.finfo", "torch.iinfo"):
            return self._limit(node, depth)
        inner = self.value(node.value, depth=depth)
        if node.attr == "device":
            return {"device": "cpu"}
        live = self._live[inner["in"]] if values.tag_of(inner) == "in" else None
        if node.attr == "dtype" and isinstance(live, torch.Tensor):
            return {"dtype": fx.dtype_name(live.dtype)}
        if isinstance(live, torch.finfo | torch.iinfo) and not node.attr.startswith("_"):
            return _number(getattr(live, node.attr, None))
        if node.attr == "is_cuda":
            return False
        if node.attr not in ATTRIBUTES or live is None:
            self.refuse(node, f"the attribute {node.attr[:80]!r} is not part of the form")
        op, target, args = ATTRIBUTES[node.attr]
        return self.add(node, op, target, [inner, *args], {}, name)

    def _limit(self, node: ast.Attribute, depth: int) -> Value:
        """torch.finfo(dtype).min and its like."""
        call = node.value
        assert isinstance(call, ast.Call)
        dtype = self.value(call.args[0], depth=depth) if call.args else None
        if values.tag_of(dtype) != "dtype" or node.attr not in ("min", "max", "eps", "tiny", "smallest_normal", "bits"):
            self.refuse(node, "a limit of something else than a dtype")
        kind = torch.finfo if self.qualified(call.func) == "torch.finfo" else torch.iinfo
        try:
            return _number(getattr(kind(fx.dtype_of(dtype["dtype"])), node.attr))
        except (TypeError, AttributeError) as error:
            self.refuse(node, first_line(error))

    def call(self, node: ast.Call, depth: int, name: str) -> Value:
        """A constructor of a constant, a function of the allow-list, or a method of a value."""
        dotted = self.qualified(node.func)
        if isinstance(node.func, ast.Name) and node.func.id not in self.env:
            dotted = node.func.id
        receiver = None
        if dotted is None:
            if not isinstance(node.func, ast.Attribute):
                self.refuse(node, f"a call of a {type(node.func).__name__}")
            receiver = self.value(node.func.value, depth=depth)
        args = [_on_cpu(self.value(arg, depth=depth)) for arg in node.args]
        kwargs = self._keywords(node, depth)
        if dotted is None:
            assert isinstance(node.func, ast.Attribute)
            return self._method(node, node.func.attr, ([receiver, *args], kwargs), name)
        short = dotted.removeprefix("builtins.").removeprefix("torch.")
        if short in _MAKERS and dotted != "torch.complex":
            made = _MAKERS[short](args, kwargs)
            if made is not None:
                return made
        if dotted in ("getattr", "builtins.getattr") and len(node.args) == 2 and isinstance(args[1], str):
            return self.attribute(ast.copy_location(ast.Attribute(node.args[0], args[1]), node), depth, name)
        target = self.target(node, f"builtins.{dotted}" if dotted in BARE else dotted)
        return self.add(node, FUNCTION, target, args, kwargs, name)

    def _keywords(self, node: ast.Call, depth: int) -> dict[str, Value]:
        kwargs: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, depth=depth)
            if keyword.arg is not None:
                kwargs[keyword.arg] = _on_cpu(value)
            elif values.tag_of(value) == "dict":
                kwargs.update({str(key): _on_cpu(item) for key, item in value["dict"]})
            else:
                self.refuse(node, "keywords from something else than a dictionary")
        return kwargs

    def _method(self, node: ast.Call, method: str, call: tuple[list[Value], dict[str, Value]], name: str) -> Value:
        args, kwargs = call
        if values.tag_of(args[0]) != "in":
            self.refuse(node, f"the method {method[:80]!r} of something else than a value")
        if method.startswith("_") and method not in DUNDERS:
            self.refuse(node, f"the method {method[:80]!r} is private")
        live = self._live[args[0]["in"]]
        if not isinstance(live, torch.Tensor) and method not in (*DUNDERS, "numel"):
            self.refuse(node, f"the method {method[:80]!r} of a {type(live).__name__}")
        if method in ("cuda", "xpu"):
            method, args, kwargs = "cpu", args[:1], {}
        return self.add(node, METHOD, method, args, kwargs, name or method)


# --- constants ------------------------------------------------------------------------------------------------------
def _target_name(target: ast.expr) -> str:
    return target.id if isinstance(target, ast.Name) else ""


def _is_text(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _is_bounded(target: str, args: Sequence[Any]) -> bool:
    """Whether Python arithmetic without a tensor stays small: nothing read may grow numbers or sequences at will."""
    if any(isinstance(arg, torch.Tensor) for arg in args):
        return True
    name = target.rpartition(".")[2].strip("_").removeprefix("i").removeprefix("r")
    if name in ("factorial", "comb", "perm", "prod", "expt", "dexp"):
        return False
    if name in ("pow", "lshift", "shift", "mul", "concat", "add"):
        limit = 1 << 40 if name in ("mul", "add", "concat") else 64
        numbers = [arg for arg in args if isinstance(arg, int | float)]
        scalar = all(isinstance(arg, int | float | torch.SymInt | torch.SymFloat) for arg in args)
        return (scalar or name in ("add", "concat")) and all(abs(arg) <= limit for arg in numbers[1:])
    return True


def _number(value: Any) -> Value:
    return {"float": repr(value)} if isinstance(value, float) else value


def _on_cpu(value: Value) -> Value:
    """A name of a GPU as that of the CPU: all of a sample lies on one device."""
    return "cpu" if isinstance(value, str) and _GPU.fullmatch(value) else value


def _torch_constant(dotted: str) -> Value | None:
    """A dtype, layout, memory format or number of torch or math; None if the name is none."""
    root, _, name = dotted.partition(".")
    if root in ("torch", "math") and name in ("inf", "nan", "pi", "e", "tau"):
        return {"float": repr(getattr(math, name))}
    found = getattr(torch, name, None) if root == "torch" and "." not in name else None
    for kind, tag in ((torch.dtype, "dtype"), (torch.layout, "layout"), (torch.memory_format, "memory_format")):
        if isinstance(found, kind):
            return {tag: str(found).removeprefix("torch.")}
    return None


def _float(args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    text = args[0] if len(args) == 1 and isinstance(args[0], str) else ""
    return {"float": repr(float(text))} if text.lstrip("+-").lower() in ("inf", "nan", "infinity") else None


def _complex(args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    parts = [float(a["float"]) if values.tag_of(a) == "float" else a for a in args]
    if len(parts) == 2 and all(isinstance(part, int | float) for part in parts):
        return {"complex": [repr(float(part)) for part in parts]}
    return None


def _slice(args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    return {"slice": [None, args[0], None] if len(args) == 1 else [*args, None][:3]} if 0 < len(args) < 4 else None


def _range(args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    if not 0 < len(args) < 4 or not all(type(arg) is int for arg in args):
        return None
    return {"range": [0, args[0], 1] if len(args) == 1 else [*args, 1][:3]}


def _size(args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    if len(args) == 1 and isinstance(args[0], list):
        return {"tuple": args[0]}
    return args[0] if len(args) == 1 and values.tag_of(args[0]) == "tuple" else None


_MAKERS: dict[str, Callable[[list[Value], dict[str, Value]], Value | None]] = {
    "device": lambda args, kwargs: {"device": "cpu"}, "float": _float, "complex": _complex, "slice": _slice,
    "range": _range, "Size": _size,
}  # fmt: skip
"""Constructors of constants; None where the arguments are values, then it is a call."""
_READERS: dict[type, Callable[..., Value]] = {
    ast.Constant: CodeReader.constant, ast.Name: CodeReader.named, ast.Tuple: CodeReader.sequence,
    ast.List: CodeReader.sequence, ast.Dict: CodeReader.dictionary, ast.Slice: CodeReader.slice,
    ast.UnaryOp: CodeReader.unary, ast.BinOp: CodeReader.binary, ast.Compare: CodeReader.compare,
    ast.Subscript: CodeReader.subscript, ast.Attribute: CodeReader.attribute, ast.Call: CodeReader.call,
}  # fmt: skip
"""Kind of expression -> how it is read; any other kind is refused."""
