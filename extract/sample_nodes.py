"""The nodes of a sample while its code is read: each call runs on fake tensors as it is added, which gives its specs.

    nodes = Nodes(where="resnet18/model.py")
    nodes.placeholder("L_x_", role="input", init=..., spec=...)
    value = nodes.add(at, "call_function", "torch.relu", ([{"in": 0}], {}), "relu")

Reads the allow-list of `schemas.targets`; writes nothing. Nothing but functions of that list is called, on tensors
without numbers. What torch refuses raises a SampleError of one line: file, line, what, and what to do about it.
"""

import ast
from typing import Any, NoReturn

from extract.failures import (
    LIBRARY_ERRORS,
    SampleError,
    SampleTargetError,
    SampleValueError,
    failure_kind,
    first_line,
)  # fmt: skip
from extract.sample_values import is_bounded
from schemas import fx, targets, values
from schemas.graph import METHOD, OUTPUT, PLACEHOLDER, Node, TensorSpec, is_safe_name
from schemas.propagation import called
from schemas.rows import FailureKind
from schemas.values import Value

Call = tuple[list[Value], dict[str, Value]]
"""Positional and keyword arguments of a call."""
UNREGISTERED = ("UnsupportedOperatorException", "NotImplementedError")
"""What torch raises where an op has no rule for shapes."""


class Nodes:
    """Nodes so far, the initialisers of the placeholders among them, and their values on fake tensors."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.nodes: list[Node] = []
        self.inits: list[str] = []
        self.lines: list[int] = []
        self._live: list[Any] = []
        self._names: set[str] = set()

    def refuse(self, at: ast.AST, what: str, *, kind: type[SampleError] = SampleError) -> NoReturn:
        """Raise the one line about a place in the code."""
        raise kind(f"{self.where}:{getattr(at, 'lineno', 0)}: {what}")

    def live(self, value: Value) -> Any:
        """The fake tensor or number that a value stands for; a constant decoded."""
        if values.tag_of(value) == "in":
            return self._live[value["in"]]
        return fx.arguments({"args": [value], "kwargs": {}}, self._live)[0][0]

    def placeholder(self, at: ast.AST, name: str, *, role: str, init: str, spec: TensorSpec) -> Value:
        """Add an argument with its value on fake tensors; -> the reference to it."""
        self.inits.append(init)
        try:
            self._live.append(fx.example_input(spec, init))
        except LIBRARY_ERRORS as error:
            self.refuse(at, f"no tensor can be made for the argument {name[:80]!r} ({first_line(error)}): correct it")
        node = Node(op=PLACEHOLDER, name=self._name(name), target=role, inputs=(), attrs="{}", outputs=(spec,))
        return self._append(at, node)

    def add(self, at: ast.AST, op: str, target: str, call: Call, name: str) -> Value:
        """Add a call (or the output), run it on fake tensors; -> the reference to its value."""
        inputs: list[int] = []

        def number(value: Value) -> Value | None:
            if values.tag_of(value) != "in":
                return None
            inputs.append(value["in"])
            return {"in": len(inputs) - 1}

        args, kwargs = call
        attrs = {
            "args": [values.rewrite(arg, number) for arg in args],
            "kwargs": {key: values.rewrite(arg, number) for key, arg in kwargs.items()},
        }
        result: Any = None
        specs: tuple[TensorSpec, ...] = ()
        if op != OUTPUT:
            result, specs = self._run(at, op, target, (attrs, [self._live[k] for k in inputs]))
        self._live.append(result)
        return self._append(at, Node(
            op=op, name=self._name(name or target.rpartition(".")[2]), target=target, inputs=tuple(inputs),
            attrs=values.dumps(attrs), outputs=specs,
        ))  # fmt: skip

    def _append(self, at: ast.AST, node: Node) -> Value:
        self.nodes.append(node)
        self.lines.append(getattr(at, "lineno", 0))
        return {"in": len(self.nodes) - 1}

    def _name(self, wanted: str) -> str:
        base = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in wanted)[:200]
        base = base if is_safe_name(base) else f"v_{base}"
        name, count = base, 0
        while name in self._names:
            count += 1
            name = f"{base}_v{count}"
        self._names.add(name)
        return name

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
                result = called(targets.resolve(target), args, kwargs)
            return result, fx.specs_of(result)
        except LIBRARY_ERRORS as error:
            self._explain(at, target, error)

    def _explain(self, at: ast.AST, target: str, error: Exception) -> NoReturn:
        """Say why a call does not run on fake tensors, and what to do about it."""
        why = first_line(error)
        if failure_kind(error) is FailureKind.DATA_DEPENDENT or isinstance(error, fx.DependsOnData):
            what = f"{target} needs numbers that the files do not hold ({why}): give them as data in weight_meta.py"
            self.refuse(at, what, kind=SampleValueError)
        if isinstance(error, fx.NotRepresentable):
            self.refuse(at, f"{target}: {why}: a graph has no place for its result", kind=SampleTargetError)
        if type(error).__name__ in UNREGISTERED:
            self.refuse(at, f"{target} has no rule for shapes in this torch: {why}", kind=SampleTargetError)
        self.refuse(at, f"{target} does not run on these shapes ({why}): compare them with weight_meta.py")
