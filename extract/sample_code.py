"""The code of a published sample as IR nodes: an `ast` reader of the straight-line programs that torch.fx prints.

    reader = CodeReader(where="resnet18/model.py")
    name = reader.placeholder("L_x_", role="input", init=..., spec=...)
    reader.body(forward.body)

Reads a syntax tree, writes nothing. Nothing of the sample is imported or run: calls are looked up in the allow-list
of `schemas.targets`, and each node is propagated on fake tensors as it is read, which gives its specs at once.
Whatever the form does not have raises ValueError of one line: file, line, what.
"""

import ast
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from extract.failures import LIBRARY_ERRORS, first_line
from extract.sample_meta import MAX_DEPTH
from extract.sample_values import (
    ATTRIBUTES,
    BARE,
    BINARY,
    COMPARE,
    DUNDERS,
    MAKERS,
    ROOTS,
    SPELLINGS,
    UNARY,
    is_bounded,
    is_text,
    number_value,
    on_cpu,
    target_name,
    torch_constant,
)  # fmt: skip
from schemas import fx, targets, values
from schemas.graph import FUNCTION, METHOD, OUTPUT, PLACEHOLDER, Node, TensorSpec, is_safe_name
from schemas.values import Value


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
        result: Any = None
        specs: tuple[TensorSpec, ...] = ()
        if op != OUTPUT:
            result, specs = self._run(at, op, target, (attrs, [self._live[k] for k in inputs]))
        self.nodes.append(Node(
            op=op, name=self._name(name or target.rpartition(".")[2]), target=target, inputs=tuple(inputs),
            attrs=values.dumps(attrs), outputs=specs,
        ))  # fmt: skip
        self._live.append(result)
        return {"in": len(self.nodes) - 1}

    def _run(
        self, at: ast.AST, op: str, target: str, call: tuple[Value, list[Any]]
    ) -> tuple[Any, tuple[TensorSpec, ...]]:
        attrs, operands = call
        try:
            args, kwargs = fx.arguments(attrs, operands)
            if not is_bounded(target, args):
                raise ValueError("a number or sequence without bound")
            if op == METHOD:
                result = getattr(args[0], target)(*args[1:], **kwargs)
            else:
                result = fx.called(targets.resolve(target), args, kwargs)
            return result, fx.specs_of(result)
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
            self._bind(node.target, self.value(node.value, name=target_name(node.target)))
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
        value = self.value(node.value, name=target_name(node.targets[0]))
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
                got = self.add(target, FUNCTION, "operator.getitem", [value, index], {}, target_name(item))
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
        if isinstance(found, str) and not is_text(found):
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
            return torch_constant(dotted) or {"target": self.target(node, dotted)}
        if isinstance(node.value, ast.Call) and self.qualified(node.value.func) in ("torch.finfo", "torch.iinfo"):
            return self._limit(node, depth)
        inner = self.value(node.value, depth=depth)
        if node.attr == "device":
            return {"device": "cpu"}
        live = self._live[inner["in"]] if values.tag_of(inner) == "in" else None
        if node.attr == "dtype" and isinstance(live, torch.Tensor):
            return {"dtype": fx.dtype_name(live.dtype)}
        if isinstance(live, torch.finfo | torch.iinfo) and not node.attr.startswith("_"):
            return number_value(getattr(live, node.attr, None))
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
        dtype: Value = self.value(call.args[0], depth=depth) if call.args else None
        if values.tag_of(dtype) != "dtype" or node.attr not in ("min", "max", "eps", "tiny", "smallest_normal", "bits"):
            self.refuse(node, "a limit of something else than a dtype")
        kind = torch.finfo if self.qualified(call.func) == "torch.finfo" else torch.iinfo
        try:
            return number_value(getattr(kind(fx.dtype_of(dtype["dtype"])), node.attr))
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
        args = [on_cpu(self.value(arg, depth=depth)) for arg in node.args]
        kwargs = self._keywords(node, depth)
        if dotted is None:
            assert isinstance(node.func, ast.Attribute)
            return self._method(node, node.func.attr, ([receiver, *args], kwargs), name)
        short = dotted.removeprefix("builtins.").removeprefix("torch.")
        if short in MAKERS and dotted != "torch.complex":
            made = MAKERS[short](args, kwargs)
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
                kwargs[keyword.arg] = on_cpu(value)
            elif values.tag_of(value) == "dict":
                kwargs.update({str(key): on_cpu(item) for key, item in value["dict"]})
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


_READERS: dict[type, Callable[..., Value]] = {
    ast.Constant: CodeReader.constant, ast.Name: CodeReader.named, ast.Tuple: CodeReader.sequence,
    ast.List: CodeReader.sequence, ast.Dict: CodeReader.dictionary, ast.Slice: CodeReader.slice,
    ast.UnaryOp: CodeReader.unary, ast.BinOp: CodeReader.binary, ast.Compare: CodeReader.compare,
    ast.Subscript: CodeReader.subscript, ast.Attribute: CodeReader.attribute, ast.Call: CodeReader.call,
}  # fmt: skip
"""Kind of expression -> how it is read; any other kind is refused."""
