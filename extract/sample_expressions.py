"""Expressions of a published sample as values of the attribute grammar: literals are computed, the rest are calls.

    value = Expressions(where="resnet18/model.py", imports={"F": "torch.nn.functional"}).value(node)

Reads syntax trees; writes nothing. Arithmetic of literals, and lists and tuples put together, taken apart or repeated,
are computed here; what has a value of the graph in it becomes a node of `extract.sample_nodes`. Whatever the form does
not have raises a SampleError of one line: file, line, what, and what to do about it.
"""

import ast
from collections.abc import Callable, Mapping, Sequence

import torch

from extract.failures import LIBRARY_ERRORS, SampleError, SampleTargetError, first_line
from extract.sample_meta import MAX_DEPTH
from extract.sample_nodes import Call, Nodes
from extract.sample_values import (
    ASSERTIONS,
    ATTRIBUTES,
    BARE,
    BINARY,
    COMPARE,
    DUNDERS,
    FLAGS,
    INERT,
    MAKERS,
    MANGLED,
    MAX_ELEMENTS,
    ROOTS,
    SPELLINGS,
    UNARY,
    computed,
    elements,
    is_literal,
    is_text,
    joined,
    on_cpu,
    torch_constant,
)  # fmt: skip
from schemas import fx, targets, values
from schemas.graph import FUNCTION, METHOD
from schemas.values import Value

OBJECT = "object"
"""Tag of a value that is an object without effect: the graph has no place for it, but code may hold it."""


class Expressions(Nodes):
    """Reads expressions in an environment of names; adds the nodes that they need."""

    def __init__(self, where: str, imports: Mapping[str, str] | None = None) -> None:
        super().__init__(where)
        self.env: dict[str, Value] = {}
        self.imports = imports or {}
        self.objects: list[dict[str, Value]] = []

    def value(self, node: ast.expr, *, depth: int = 0, name: str = "") -> Value:
        """An expression as a value of the attribute grammar; {"in": k} is node k. Adds the nodes it needs."""
        if depth > MAX_DEPTH:
            self.refuse(node, "an expression nested too deeply: assign its parts to names")
        read = _READERS.get(type(node))
        if read is None:
            self.refuse(node, f"a {type(node).__name__} expression is not part of the form: write it as calls")
        return read(self, node, depth + 1, name)

    def call_of(self, at: ast.AST, op: str, target: str, call: Call, name: str = "") -> Value:
        """A node, unless an operand is an object that no graph holds."""
        if any(isinstance(item, dict) and OBJECT in item for arg in (*call[0], *call[1].values())
               for item in values.walk(arg)):  # fmt: skip
            self.refuse(at, "an object that only holds attributes is used as a value: drop it", kind=SampleTargetError)
        return self.add(at, op, target, call, name)

    def operator(self, at: ast.AST, name: str, args: list[Value], wanted: str = "") -> Value:
        """A call of a function of `operator`; computed at once where all operands are literals."""
        if all(map(is_literal, args)):
            try:
                found = computed(name, args)
            except LIBRARY_ERRORS as error:
                self.refuse(at, f"operator.{name} of these constants ({first_line(error)}): write the result")
            if found is not None:
                return found[0]
        put_together = joined(name, args)
        if put_together is not None:
            return put_together[0]
        return self.call_of(at, FUNCTION, f"operator.{name}", (args, {}), wanted)

    # --- literals ---------------------------------------------------------------------------------------------------
    def constant(self, node: ast.Constant, depth: int, name: str) -> Value:
        """A literal."""
        if isinstance(node.value, str) and not is_text(node.value):
            self.refuse(node, "a text with half a character in it: write it as UTF-8 has it")
        try:
            return fx.constant(node.value)
        except fx.NotRepresentable:
            self.refuse(node, f"a literal of type {type(node.value).__name__}: a graph has no place for it")

    def text(self, node: ast.JoinedStr, depth: int, name: str) -> Value:
        """A text with literals in it."""
        parts = []
        for part in node.values:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            found = self.value(inner, depth=depth)
            if not isinstance(found, str | int) or (isinstance(part, ast.FormattedValue) and part.format_spec):
                self.refuse(node, "a text made from a value of the graph: only messages of assertions may hold one")
            parts.append(str(found))
        return "".join(parts)

    def message(self, node: ast.expr | None) -> Value:
        """The message of an assertion, which nothing computes with: what stands in braces stays as it is written."""
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else ast.unparse(part) for part in node.values]
            node = ast.copy_location(ast.Constant("".join(map(str, parts))), node)
        found = "" if node is None else self.value(node)
        return found if isinstance(found, str) else ""

    def named(self, node: ast.Name, depth: int, name: str) -> Value:
        """A local value, or one of the few names that mean something."""
        if node.id in self.env:
            return self.env[node.id]
        dotted = self.qualified(node)
        if dotted is not None and "." in dotted:
            found = torch_constant(dotted)
            return {"target": self.target(node, dotted)} if found is None else found
        if node.id in ("inf", "nan"):
            return {"float": node.id}
        if node.id == "Ellipsis":
            return {"ellipsis": True}
        if node.id in BARE:
            return {"target": f"builtins.{node.id}"}
        what = f"the name {node.id[:80]!r} is not defined: import it or make it an argument"
        if node.id == "self":
            what = "a part of the module that the file does not hold: write its calls out, or leave the sample out"
        return self.refuse(node, what, kind=SampleTargetError if node.id == "self" else SampleError)

    def walrus(self, node: ast.NamedExpr, depth: int, name: str) -> Value:
        """`(name := expression)`."""
        self.env[node.target.id] = self.value(node.value, depth=depth, name=node.target.id)
        return self.env[node.target.id]

    def sequence(self, node: ast.Tuple | ast.List, depth: int, name: str) -> Value:
        """A tuple or list."""
        items = self.items(node.elts, depth)
        return {"tuple": items} if isinstance(node, ast.Tuple) else items

    def items(self, nodes: Sequence[ast.expr], depth: int) -> list[Value]:
        """Expressions between commas, what is starred among them spread out."""
        found: list[Value] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                found += self.spread(node, self.value(node.value, depth=depth))
            else:
                found.append(self.value(node, depth=depth))
        return found

    def spread(self, at: ast.AST, value: Value) -> list[Value]:
        """The elements of a sequence: of a literal one itself, of another one by calls of getitem."""
        found = elements(value)
        if found is not None:
            return found
        live = self.live(value) if values.tag_of(value) == "in" else None
        if not isinstance(live, tuple | list | torch.Tensor) or (isinstance(live, torch.Tensor) and not live.dim()):
            self.refuse(at, f"a {type(live).__name__} has no elements to take apart: name what is meant")
        if len(live) > MAX_ELEMENTS:
            self.refuse(at, f"a sequence of more than {MAX_ELEMENTS} elements is taken apart: index it instead")
        return [self.operator(at, "getitem", [value, index]) for index in range(len(live))]

    def dictionary(self, node: ast.Dict, depth: int, name: str) -> Value:
        """A dictionary with texts or whole numbers as keys."""
        pairs: dict[str | int, Value] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.value(item, depth=depth)
            if key is None and values.tag_of(value) == "dict":
                pairs |= dict(value["dict"])
                continue
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str | int):
                self.refuse(node, "a dictionary key that is neither a text nor a whole number: use one of these")
            pairs[key.value] = value
        return {"dict": [[key, item] for key, item in pairs.items()]}

    def slice(self, node: ast.Slice, depth: int, name: str) -> Value:
        """a:b:c between brackets."""
        parts = (node.lower, node.upper, node.step)
        return {"slice": [None if part is None else self.value(part, depth=depth) for part in parts]}

    # --- operators --------------------------------------------------------------------------------------------------
    def unary(self, node: ast.UnaryOp, depth: int, name: str) -> Value:
        """A signed literal or a call of the operator."""
        return self.operator(node, UNARY[type(node.op)], [self.value(node.operand, depth=depth)], name)

    def binary(self, node: ast.BinOp, depth: int, name: str) -> Value:
        """A call of the operator, or what it makes of literals."""
        args = [self.value(node.left, depth=depth), self.value(node.right, depth=depth)]
        return self.operator(node, BINARY[type(node.op)], args, name)

    def compare(self, node: ast.Compare, depth: int, name: str) -> Value:
        """A comparison; a chain of them is their conjunction."""
        left, found = self.value(node.left, depth=depth), []
        for kind, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node, depth=depth)
            target, turned, negated = COMPARE[type(kind)]
            verdict = self.operator(node, target, [right, left] if turned else [left, right], name)
            found.append(self.operator(node, "not_", [verdict]) if negated else verdict)
            left = right
        return found[0] if len(found) == 1 else self._all_of(node, found, "and_")

    def boolean(self, node: ast.BoolOp, depth: int, name: str) -> Value:
        """`and` and `or` of truth values."""
        found = [self.value(part, depth=depth) for part in node.values]
        return self._all_of(node, found, "and_" if isinstance(node.op, ast.And) else "or_")

    def _all_of(self, node: ast.expr, parts: list[Value], target: str) -> Value:
        for part in parts:
            if not isinstance(self.live(part), bool | torch.SymBool):
                self.refuse(node, "`and`, `or` and chains need truth values, not tensors: use & and |")
        found = parts[0]
        for part in parts[1:]:
            found = self.operator(node, target, [found, part])
        return found

    def subscript(self, node: ast.Subscript, depth: int, name: str) -> Value:
        """An element of a literal, or a call of getitem."""
        args = [self.value(node.value, depth=depth), self.value(node.slice, depth=depth)]
        return self.operator(node, "getitem", args, name)

    # --- names and calls --------------------------------------------------------------------------------------------
    def qualified(self, node: ast.expr) -> str | None:
        """The dotted name of an expression that starts at a library; None for an attribute of a value."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute) and len(parts) < MAX_DEPTH:
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id in self.env:
            return None
        first = self.imports.get(node.id, node.id)
        if first == node.id and node.id not in ROOTS:
            return _unmangled(node.id) if not parts else None
        return ".".join([first, *reversed(parts)])

    def target(self, node: ast.AST, name: str) -> str:
        """The allow-list's name of a printed function name; raises SampleTargetError if a graph may not call it."""
        for beginning, ours in SPELLINGS:
            if name.startswith(beginning):
                name = ours + name.removeprefix(beginning)
        try:
            return targets.name_of(targets.resolve(name))
        except (ValueError, AttributeError, RuntimeError) as error:
            advice = "install what registers it" if name.startswith("torch.ops.") else "schemas/targets.py lists all"
            self.refuse(node, f"{first_line(error)}: {advice}", kind=SampleTargetError)

    def attribute(self, node: ast.Attribute, depth: int, name: str) -> Value:
        """A constant of torch, a function as an argument, or an attribute of a value."""
        dotted = self.qualified(node)
        if dotted is not None:
            found = torch_constant(dotted)
            return {"target": self.target(node, dotted)} if found is None else found
        if isinstance(node.value, ast.Call) and self.qualified(node.value.func) in ("torch.finfo", "torch.iinfo"):
            return self._limit(node, depth)
        return self._attribute_of(node, self.value(node.value, depth=depth), name)

    def _attribute_of(self, node: ast.Attribute, inner: Value, name: str) -> Value:
        if isinstance(inner, dict) and OBJECT in inner:
            if node.attr not in self.objects[inner[OBJECT]]:
                self.refuse(node, f"nothing was stored as the attribute {node.attr[:80]!r}: write what it stands for")
            return self.objects[inner[OBJECT]][node.attr]
        if node.attr == "device":
            return {"device": "cpu"}
        live = self.live(inner) if values.tag_of(inner) == "in" else None
        if node.attr == "dtype" and isinstance(live, torch.Tensor):
            return {"dtype": fx.dtype_name(live.dtype)}
        if isinstance(live, torch.finfo | torch.iinfo) and not node.attr.startswith("_"):
            return fx.constant(getattr(live, node.attr, None))
        if node.attr in FLAGS and isinstance(live, torch.Tensor):
            return FLAGS[node.attr]
        if node.attr == "T" and isinstance(live, torch.Tensor) and live.dim() != 2:
            return self.call_of(node, FUNCTION, "torch.ops.aten.numpy_T", ([inner], {}), name)
        place = _field(live, node.attr)
        if place is not None:
            return self.operator(node, "getitem", [inner, place], name)
        if node.attr not in ATTRIBUTES or live is None:
            self.refuse(node, f"the attribute {node.attr[:80]!r} is not part of the form: write the call that gives it")
        op, target, args = ATTRIBUTES[node.attr]
        return self.call_of(node, op, target, ([inner, *args], {}), name)

    def _limit(self, node: ast.Attribute, depth: int) -> Value:
        """torch.finfo(dtype).min and its like."""
        call = node.value
        assert isinstance(call, ast.Call)
        dtype: Value = self.value(call.args[0], depth=depth) if call.args else None
        if values.tag_of(dtype) != "dtype" or node.attr not in ("min", "max", "eps", "tiny", "smallest_normal", "bits"):
            self.refuse(node, "a limit of something else than a dtype: write the number")
        kind = torch.finfo if self.qualified(call.func) == "torch.finfo" else torch.iinfo
        try:
            return fx.constant(getattr(kind(fx.dtype_of(dtype["dtype"])), node.attr))
        except (TypeError, AttributeError) as error:
            self.refuse(node, f"{first_line(error)}: write the number")

    def call(self, node: ast.Call, depth: int, name: str) -> Value:
        """A constructor of a constant, a function of the allow-list, or a method of a value."""
        dotted = self.qualified(node.func)
        if isinstance(node.func, ast.Name) and node.func.id not in self.env and dotted is None:
            dotted = node.func.id
        if dotted is None and not isinstance(node.func, ast.Attribute):
            self.refuse(node, f"a call of a {type(node.func).__name__}: only what has a name is called")
        if dotted in INERT:
            self.objects.append({})
            return {OBJECT: len(self.objects) - 1}
        receiver = None
        if isinstance(node.func, ast.Attribute) and dotted is None:
            receiver = self.value(node.func.value, depth=depth)
        if dotted in ASSERTIONS and node.args:
            message = [self.message(part) for part in node.args[1:2]] if ASSERTIONS[dotted] else []
            return self._function(node, dotted, ([self.value(node.args[0], depth=depth), *message], {}), name)
        args = [on_cpu(arg) for arg in self.items(node.args, depth)]
        kwargs = self._keywords(node, depth)
        if dotted is None:
            assert isinstance(node.func, ast.Attribute)
            return self._method(node, node.func.attr, ([receiver, *args], kwargs), name)
        return self._function(node, dotted, (args, kwargs), name)

    def _function(self, node: ast.Call, dotted: str, call: Call, name: str) -> Value:
        args, kwargs = call
        short = dotted.removeprefix("builtins.").removeprefix("torch.")
        if short in MAKERS and dotted != "torch.complex":
            try:
                made = MAKERS[short](args, kwargs)
            except (ValueError, TypeError, OverflowError) as error:
                self.refuse(node, f"{dotted} of these constants ({first_line(error)}): write the result")
            if made is not None:
                return made
        if dotted in ("getattr", "builtins.getattr") and len(args) == 2 and isinstance(args[1], str):
            return self._attribute_of(ast.copy_location(ast.Attribute(node.args[0], args[1]), node), args[0], name)
        if dotted in ("list", "tuple") and len(args) == 1:
            items = self.spread(node, args[0])
            return items if dotted == "list" else {"tuple": items}
        if "." not in dotted and dotted not in BARE:
            what = f"the function {dotted[:80]!r} is not defined: import it from torch, or write what it computes"
            self.refuse(node, what, kind=SampleTargetError)
        target = self.target(node, f"builtins.{dotted}" if dotted in BARE else dotted)
        return self.call_of(node, FUNCTION, target, (args, kwargs), name)

    def _keywords(self, node: ast.Call, depth: int) -> dict[str, Value]:
        kwargs: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, depth=depth)
            if keyword.arg is not None:
                kwargs[keyword.arg] = on_cpu(value)
            elif values.tag_of(value) == "dict":
                kwargs.update({str(key): on_cpu(item) for key, item in value["dict"]})
            else:
                self.refuse(node, "keywords from something else than a dictionary: write them out")
        return kwargs

    def _method(self, node: ast.Call, method: str, call: Call, name: str) -> Value:
        args, kwargs = call
        if isinstance(args[0], dict) and OBJECT in args[0]:
            return None  # it keeps something for a backward pass, which a graph has not
        if isinstance(args[0], list) and method in ("append", "extend") and len(args) == 2:
            args[0].extend(self.spread(node, args[1]) if method == "extend" else [args[1]])
            return None
        if values.tag_of(args[0]) != "in":
            self.refuse(node, f"the method {method[:80]!r} of something else than a value: write the result")
        if method.startswith("_") and method not in DUNDERS:
            self.refuse(node, f"the method {method[:80]!r} is private: call a public one", kind=SampleTargetError)
        live = self.live(args[0])
        if not isinstance(live, torch.Tensor) and method not in (*DUNDERS, "numel"):
            self.refuse(node, f"the method {method[:80]!r} of a {type(live).__name__}: only tensors have methods here")
        if method in ("cuda", "xpu"):
            method, args, kwargs = "cpu", args[:1], {}
        return self.call_of(node, METHOD, method, (args, kwargs), name or method)


def _unmangled(name: str) -> str | None:
    """The dotted name for which torch.fx prints a global name: `_operator_abs` for `_operator.abs`."""
    module = next((module for module in MANGLED if name.startswith(f"{module}_")), None)
    return None if module is None else f"{module}.{name.removeprefix(f'{module}_')}"


def _field(live: object, name: str) -> int | None:
    """The place of a named element of a tuple, such as `values` of what `max` returns; None if it has no such name."""
    if not isinstance(live, tuple) or name.startswith("_") or not hasattr(live, name):
        return None
    wanted = getattr(live, name)
    return next((place for place, item in enumerate(live) if item is wanted), None)


_READERS: dict[type, Callable[..., Value]] = {
    ast.Constant: Expressions.constant, ast.Name: Expressions.named, ast.Tuple: Expressions.sequence,
    ast.List: Expressions.sequence, ast.Dict: Expressions.dictionary, ast.Slice: Expressions.slice,
    ast.UnaryOp: Expressions.unary, ast.BinOp: Expressions.binary, ast.Compare: Expressions.compare,
    ast.Subscript: Expressions.subscript, ast.Attribute: Expressions.attribute, ast.Call: Expressions.call,
    ast.JoinedStr: Expressions.text, ast.NamedExpr: Expressions.walrus, ast.BoolOp: Expressions.boolean,
}  # fmt: skip
"""Kind of expression -> how it is read; any other kind is refused."""
