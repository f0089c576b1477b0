"""The code of a published sample as IR nodes: an `ast` reader of the straight-line programs that torch.fx prints.

    reader = CodeReader(where="resnet18/model.py")
    reader.env["L_x_"] = reader.placeholder(arg, "L_x_", role="input", init=..., spec=...)
    reader.body(forward.body)

Reads a syntax tree, writes nothing. Nothing of the sample is imported or run: calls are looked up in the allow-list
of `schemas.targets`, and each node is propagated on fake tensors as it is read, which gives its specs at once.
Whatever the form does not have raises a SampleError of one line: file, line, what, and what to do about it.
"""

import ast
from collections.abc import Mapping, Sequence

import torch

from extract.failures import SampleTargetError
from extract.sample_expressions import OBJECT, Expressions
from extract.sample_values import BINARY, LEVELS, is_literal, target_name
from schemas import values
from schemas.graph import FUNCTION, OUTPUT
from schemas.values import Value

IMMUTABLE = (bool, int, float, complex, str, tuple, torch.SymInt, torch.SymFloat, torch.SymBool)
"""Values of which `x += y` makes new ones: read as `x = x + y`, for generated code would change the name for all."""


class CodeReader(Expressions):
    """Reads the statements of one forward."""

    def __init__(self, where: str, imports: Mapping[str, str] | None = None) -> None:
        super().__init__(where, imports)
        self._written: tuple[str, Value] | None = None

    def body(self, statements: Sequence[ast.stmt]) -> None:
        """Read the statements of forward; raises SampleError unless its one return is its last statement."""
        for index, statement in enumerate(statements):
            if isinstance(statement, ast.Return):
                if index != len(statements) - 1:
                    self.refuse(statement, "statements after return: remove them")
                value = self.value(statement.value) if statement.value is not None else None
                self._leave_levels(statement)
                self.call_of(statement, OUTPUT, "", ([value], {}), "output")
                return
            self._statement(statement)
        self.refuse(statements[-1], "forward has no return: the file is cut off, get it again")

    def _leave_levels(self, at: ast.AST) -> None:
        """Add the exit of each level that the code entered and did not leave, so that a run ends as it began."""
        open_levels: list[tuple[str, Value]] = []
        for index, node in enumerate(self.nodes):
            if node.target in LEVELS:
                open_levels.append((LEVELS[node.target], {"in": index}))
            elif open_levels and node.target == open_levels[-1][0]:
                open_levels.pop()
        for leave, entered in reversed(open_levels):
            if not leave.endswith("_exit_autocast"):
                what = f"a level of function transforms is entered and not left: {leave} is missing, get the file again"
                self.refuse(at, what)
            self.call_of(at, FUNCTION, leave, ([entered], {}))

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
            args = [self.value(node.test), self.message(node.msg)]
            self.call_of(node, FUNCTION, "torch._assert", (args, {}))
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                self.env.pop(target_name(target), None)
        elif not isinstance(node, ast.Pass):
            what = f"a {type(node).__name__} statement: only straight-line code is read, write out what it does"
            self.refuse(node, what, kind=SampleTargetError)

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
            holder, place = self.value(target.value), self.value(target.slice)
            if not self._set_element(target, holder, place, value):
                self.call_of(target, FUNCTION, "operator.setitem", ([holder, place, value], {}), "setitem")
        elif isinstance(target, ast.Tuple | ast.List):
            items = self.spread(target, value)
            if len(items) != len(target.elts) or any(isinstance(item, ast.Starred) for item in target.elts):
                self.refuse(target, f"{len(items)} elements are taken apart into {len(target.elts)} names: index them")
            for item, got in zip(target.elts, items, strict=True):
                self._bind(item, got)
        elif isinstance(target, ast.Attribute):
            self._set_attribute(target, value)
        else:
            self.refuse(target, f"assignment to a {type(target).__name__}: assign to names and elements alone")

    def _set_element(self, at: ast.AST, holder: Value, place: Value, value: Value) -> bool:
        """Change a list or dictionary that was read; all names of it mean the same one. -> whether it was one."""
        if values.tag_of(holder) == "dict" and isinstance(place, str | int):
            holder["dict"][:] = [[key, item] for key, item in {**dict(holder["dict"]), place: value}.items()]
            return True
        if not isinstance(holder, list):
            return False
        if values.tag_of(place) == "slice" and is_literal(place):
            holder[slice(*place["slice"])] = self.spread(at, value)
        elif type(place) is int and -len(holder) <= place < len(holder):
            holder[place] = value
        else:
            self.refuse(at, f"a list of {len(holder)} elements has no such place to write to: use a number")
        return True

    def _set_attribute(self, target: ast.Attribute, value: Value) -> None:
        holder = self.value(target.value)
        if not isinstance(holder, dict) or OBJECT not in holder:
            self.refuse(target, "assignment to an attribute of a tensor: write the call that does it")
        self.objects[holder[OBJECT]][target.attr] = value

    def _augment(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name):
            self.refuse(node, "augmented assignment to something else than a name: assign the result to a name first")
        name = BINARY[type(node.op)]
        old = self.value(ast.copy_location(ast.Name(id=node.target.id), node))
        more = self.value(node.value)
        if isinstance(old, list):
            if name != "add":
                self.refuse(node, "a list is changed in place: make a new one")
            old.extend(self.spread(node, more))
        elif isinstance(self.live(old), IMMUTABLE):
            self.env[node.target.id] = self.operator(node, name, [old, more], name)
        else:
            in_place = f"i{name.rstrip('_')}"
            self.env[node.target.id] = self.operator(node, in_place, [old, more], in_place)
            self._written = (node.target.id, old)
