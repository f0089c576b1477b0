"""Statements of wrappers and of the modules they stand in: checked, and rewritten with run-time checks.

    program = program_of(files, [("p", "fused_norm")])       # Program; raises Rejected
    program.parts                                # [("p.py", ast.Module)] to be executed in one namespace, in order
    program.kernels                              # name in the namespace -> Kernel source

Only statements that the wrappers need are there (`passbench.program.closure`). A function under triton.jit becomes the
making of a kernel; a class of fields becomes a record. Reads syntax trees and executes nothing.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from passbench.program.closure import Closure, Name, closure_of, decorator_name, is_kernel
from passbench.program.expressions import Expressions, Scope, call, local_scope
from passbench.program.kernels import KernelSource, kernel_source
from passbench.program.names import Files
from passbench.program.scopes import chain_of
from passbench.program.tables import ATTRIBUTES, CONTEXTS, EXCEPTIONS, KERNEL_DECORATORS, PLAIN_DECORATORS
from passbench.sources import LIBRARIES, path_of
from passbench.submission import Rejected

_LEAVING = (ast.Return, ast.Break, ast.Continue)
"""What would swallow a refusal at the end of a `try`."""
_RECORDS = frozenset({"typing.NamedTuple", "enum.IntEnum", "enum.StrEnum"})
"""Bases of classes of fields; members of these enumerations are their values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is compiled of a submission."""

    parts: tuple[tuple[str, ast.Module], ...]
    """(file, statements to execute) in order."""
    kernels: Mapping[str, KernelSource]
    """Name in the namespace -> a kernel's source."""
    wrappers: Mapping[Name, str]
    """Wrapper -> its name in the namespace."""
    libraries: frozenset[str]
    """Names of libraries that the namespace must hold."""


def program_of(files: Files, roots: Sequence[Name]) -> Program:
    """Check and rewrite what the wrappers `roots` need; raises Rejected at the first thing that is not allowed."""
    needed = closure_of(files, roots)
    fields = _fields(needed)
    rewriters = {key: Statements(files, key, fields) for key, _ in needed.statements}
    parts: dict[str, list[ast.stmt]] = {}
    for key, statement in needed.statements:
        parts.setdefault(key, []).extend(rewriters[key].statement(statement, Scope()))
    kernels = {name: source for item in rewriters.values() for name, source in item.kernels.items()}
    for key, name in roots:
        _check_root(files, key, name)
    return Program(
        parts=tuple((path_of(key), _module(body)) for key, body in parts.items()), kernels=kernels,
        wrappers={(key, name): rewriters[key].global_name(key, name) for key, name in roots},
        libraries=frozenset(name for item in rewriters.values() for name in item.libraries),
    )  # fmt: skip


def _check_root(files: Files, key: str, name: str) -> None:
    nodes = files.binders[key][name]
    if len(nodes) != 1 or not isinstance(nodes[0], ast.FunctionDef) or is_kernel(files, key, nodes[0]):
        text = f"{path_of(key)}:{nodes[0].lineno}: {name}: a replacement function is one plain function"
        raise Rejected("wrapper-syntax", text)


def _module(body: list[ast.stmt]) -> ast.Module:
    return ast.fix_missing_locations(ast.Module(body=body, type_ignores=[]))


def _fields(needed: Closure) -> frozenset[str]:
    """The fields of all records."""
    classes = [node for _, node in needed.statements if isinstance(node, ast.ClassDef)]
    return frozenset(name for node in classes for name, _ in _class_body(node))


def _class_body(node: ast.ClassDef) -> list[tuple[str, ast.expr | None]]:
    """(field, default) of a class that has nothing but fields."""
    found: list[tuple[str, ast.expr | None]] = []
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            found.append((statement.target.id, statement.value))
        elif isinstance(statement, ast.Assign):
            found += [(item.id, statement.value) for item in statement.targets if isinstance(item, ast.Name)]
    return found


class Statements(Expressions):
    """Rewrites the statements of one module."""

    def __init__(self, files: Files, key: str, fields: frozenset[str]) -> None:
        super().__init__(files, key, fields)
        self.kernels: dict[str, KernelSource] = {}
        self.depth = 0
        """How many functions stand around the statement."""

    def statement(self, node: ast.stmt, scope: Scope) -> list[ast.stmt]:
        """The checked form of a statement."""
        rewrite = _STATEMENTS.get(type(node))
        if rewrite is None:
            raise self.refusal("wrapper-syntax", node, ast.unparse(node).splitlines()[0][:60])
        return [ast.copy_location(item, node) for item in rewrite(self, node, scope)]

    def block(self, nodes: Sequence[ast.stmt], scope: Scope) -> list[ast.stmt]:
        """The checked forms of several, at least one."""
        return [item for node in nodes for item in self.statement(node, scope)] or [ast.Pass()]

    def simple(self, node: ast.stmt, scope: Scope) -> list[ast.stmt]:
        return [node]

    def expression_statement(self, node: ast.Expr, scope: Scope) -> list[ast.stmt]:
        if isinstance(node.value, ast.Constant):
            return []
        if isinstance(node.value, ast.Call) and not self.depth and self.is_marking(node.value):
            return []
        return [ast.Expr(value=self.expression(node.value, scope))]

    def is_marking(self, node: ast.Call) -> bool:
        """Whether a statement at the top marks a function with torch.fx.wrap."""
        return decorator_name(self.files, self.key, node) == "torch.fx.wrap"

    def result(self, node: ast.Return, scope: Scope) -> list[ast.stmt]:
        return [ast.Return(value=self.expression(node.value, scope) if node.value else None)]

    # --- assignments ------------------------------------------------------------------------------------------------
    def assign(self, node: ast.Assign, scope: Scope) -> list[ast.stmt]:
        value = self.expression(node.value, scope)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
            return [self.store(node.targets[0], value, scope)]
        if not self.kind(node.value, scope):
            for item in node.targets:
                value = ast.copy_location(self.unpacked(item, value), node)
        return [ast.Assign(targets=[self.bound(item) for item in node.targets], value=value)]

    def annotated(self, node: ast.AnnAssign, scope: Scope) -> list[ast.stmt]:
        if node.value is None:
            return []
        return self.assign(ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node), scope)

    def bound(self, node: ast.expr) -> ast.expr:
        """A target; at the top of a module its names are those of the namespace."""
        if isinstance(node, ast.Attribute):
            raise self.refusal("patching", node, ast.unparse(node)[:60])
        if isinstance(node, ast.Starred):
            return ast.copy_location(ast.Starred(value=self.bound(node.value), ctx=ast.Store()), node)
        if isinstance(node, ast.Tuple | ast.List):
            return ast.copy_location(ast.Tuple([self.bound(item) for item in node.elts], ast.Store()), node)
        found = self.target(node)
        assert isinstance(found, ast.Name)
        return found if self.depth else ast.Name(id=self.global_name(self.key, found.id), ctx=ast.Store())

    def target(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Attribute):
            raise self.refusal("patching", node, ast.unparse(node)[:60])
        return super().target(node)

    def store(self, target: ast.Subscript, value: ast.expr, scope: Scope) -> ast.stmt:
        """`container[index] = value`."""
        container, index = self.expression(target.value, scope), self.index(target.slice, scope)
        return ast.Expr(value=call("__store", container, index, value))

    def augmented(self, node: ast.AugAssign, scope: Scope) -> list[ast.stmt]:
        if isinstance(node.op, ast.MatMult):
            raise self.refusal("matmul", node, "@")
        operator = ast.Constant(value=type(node.op).__name__)
        value = self.expression(node.value, scope)
        if isinstance(node.target, ast.Subscript):
            container = self.expression(node.target.value, scope)
            index = self.index(node.target.slice, scope)
            return [ast.Expr(value=call("__store_changed", container, index, operator, value))]
        target = self.bound(node.target)
        if not isinstance(node.target, ast.Name) or not isinstance(target, ast.Name):
            raise self.refusal("wrapper-syntax", node, ast.unparse(node)[:60])
        before = ast.copy_location(ast.Name(id=node.target.id, ctx=ast.Load()), node.target)
        if self.kind(before, scope) and self.kind(node.value, scope):
            return [ast.AugAssign(target=target, op=node.op, value=value)]
        return [ast.Assign(targets=[target], value=call("__changed", self.expression(before, scope), operator, value))]

    def delete(self, node: ast.Delete, scope: Scope) -> list[ast.stmt]:
        if not self.depth or not all(isinstance(item, ast.Name) for item in node.targets):
            raise self.refusal("state", node, ast.unparse(node)[:60])
        return [node]

    # --- branches and loops -----------------------------------------------------------------------------------------
    def branch(self, node: ast.If, scope: Scope) -> list[ast.stmt]:
        orelse = self.block(node.orelse, scope) if node.orelse else []
        return [ast.If(test=self.truth(node.test, scope), body=self.block(node.body, scope), orelse=orelse)]

    def loop(self, node: ast.For, scope: Scope) -> list[ast.stmt]:
        orelse = self.block(node.orelse, scope) if node.orelse else []
        over = self.iterated(node.target, node.iter, scope)
        return [ast.For(target=self.bound(node.target), iter=over, body=self.block(node.body, scope), orelse=orelse)]

    def while_loop(self, node: ast.While, scope: Scope) -> list[ast.stmt]:
        orelse = self.block(node.orelse, scope) if node.orelse else []
        return [ast.While(test=self.truth(node.test, scope), body=self.block(node.body, scope), orelse=orelse)]

    def attempt(self, node: ast.Try, scope: Scope) -> list[ast.stmt]:
        """A `try`, whose `finally` runs unless a refusal leaves it."""
        leaving = [item for part in node.finalbody for item in ast.walk(part) if isinstance(item, _LEAVING)]
        if leaving:
            raise self.refusal("wrapper-syntax", leaving[0], f"{ast.unparse(leaving[0])[:40]} in a finally")
        handlers = [self.handler(item, scope) for item in node.handlers]
        orelse = self.block(node.orelse, scope) if node.orelse else []
        final = self.block(node.finalbody, scope) if node.finalbody else []
        if final:  # what is raised while a refusal leaves would take its place
            final = [ast.If(test=call("__runs_on"), body=final, orelse=[])]
        return [ast.Try(body=self.block(node.body, scope), handlers=handlers, orelse=orelse, finalbody=final)]

    def match(self, node: ast.Match, scope: Scope) -> list[ast.stmt]:
        """A choice among constants, as the branches that it stands for."""
        if not isinstance(node.subject, ast.Name | ast.Attribute):
            raise self.refusal("wrapper-syntax", node, f"match {ast.unparse(node.subject)[:40]}")
        rest: list[ast.stmt] = []
        for case in reversed(node.cases):
            tests = [item for item in (self.chosen(node.subject, case.pattern), case.guard) if item is not None]
            whole = tests[0] if len(tests) == 1 else ast.BoolOp(op=ast.And(), values=tests)
            test = whole if tests else ast.Constant(value=True)
            rest = [ast.copy_location(ast.If(test=test, body=case.body, orelse=rest), case.body[0])]
        return [found for item in rest for found in self.statement(ast.fix_missing_locations(item), scope)]

    def chosen(self, subject: ast.expr, pattern: ast.pattern) -> ast.expr | None:
        """Whether a value is one of a case's constants; None if the case takes every value."""
        if isinstance(pattern, ast.MatchAs) and pattern.pattern is None and pattern.name is None:
            return None
        if isinstance(pattern, ast.MatchOr):
            parts = [self.chosen(subject, item) for item in pattern.patterns]
            known = [item for item in parts if item is not None]
            return ast.BoolOp(op=ast.Or(), values=known) if len(known) == len(parts) else None
        if isinstance(pattern, ast.MatchValue):
            return ast.Compare(left=subject, ops=[ast.Eq()], comparators=[pattern.value])
        if isinstance(pattern, ast.MatchSingleton):
            constant = ast.Constant(value=pattern.value)
            return ast.Compare(left=subject, ops=[ast.Is()], comparators=[constant])
        raise self.refusal("wrapper-syntax", pattern, f"case {ast.unparse(pattern)[:40]}")

    def handler(self, node: ast.ExceptHandler, scope: Scope) -> ast.ExceptHandler:
        """A handler; without a type it takes all that is an Exception, which a refusal is not."""
        kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type] if node.type else []
        names = [item.id if isinstance(item, ast.Name) else "" for item in kinds]
        if not set(names) <= EXCEPTIONS:
            raise self.refusal("wrapper-name", node, ast.unparse(node.type)[:60] if node.type else "except")
        types: list[ast.expr] = [ast.Name(id=f"__py_{name}", ctx=ast.Load()) for name in names or ["Exception"]]
        kind = types[0] if len(types) == 1 else ast.Tuple(elts=types, ctx=ast.Load())
        body = self.block(node.body, scope)
        return ast.copy_location(ast.ExceptHandler(type=kind, name=node.name if self.depth else None, body=body), node)

    def raised(self, node: ast.Raise, scope: Scope) -> list[ast.stmt]:
        return [ast.Raise(exc=self.expression(node.exc, scope) if node.exc else None, cause=None)]

    def asserted(self, node: ast.Assert, scope: Scope) -> list[ast.stmt]:
        message = self.guarded(node.msg, scope, "__text") if node.msg else None
        return [ast.Assert(test=self.truth(node.test, scope), msg=message)]

    def context(self, node: ast.With, scope: Scope) -> list[ast.stmt]:
        """A block under a device or without gradients."""
        items = []
        for item in node.items:
            name = decorator_name(self.files, self.key, item.context_expr)
            if name not in CONTEXTS or item.optional_vars or not isinstance(item.context_expr, ast.Call):
                raise self.refusal("torch-call", item.context_expr, ast.unparse(item.context_expr)[:60])
            arguments = self.every(item.context_expr.args, scope)
            items.append(ast.withitem(context_expr=call("__context", ast.Constant(value=name), *arguments)))
        return [ast.With(items=items, body=self.block(node.body, scope))]

    def imported(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> list[ast.stmt]:
        """An import has no effect beyond the meaning of names; one of what is not here fails."""
        for alias in node.names:
            found = self.resolve((alias.asname or alias.name).split("."))
            root = found.dotted.split(".")[0]
            if (found.kind == "module" and found.key not in self.numbers) or (root and root not in LIBRARIES):
                text = ast.Constant(value=f"{found.dotted or found.key} is not here")
                return [ast.Raise(exc=call("__py_ImportError", text), cause=None)]
        return [ast.Pass()]

    # --- definitions ------------------------------------------------------------------------------------------------
    def definition(self, node: ast.FunctionDef, scope: Scope) -> list[ast.stmt]:
        if is_kernel(self.files, self.key, node):
            return self.kernel(node, scope)
        for item in node.decorator_list:
            if decorator_name(self.files, self.key, item) not in PLAIN_DECORATORS:
                raise self.refusal("wrapper-name", item, f"@{ast.unparse(item)[:60]}")
        arguments, inner = self.arguments(node.args, scope), local_scope(self, node, scope)
        name = node.name if self.depth else self.global_name(self.key, node.name)
        self.depth += 1
        body = self.block(node.body, inner)
        self.depth -= 1
        return [ast.FunctionDef(name=name, args=arguments, body=body, decorator_list=[])]

    def kernel(self, node: ast.FunctionDef, scope: Scope) -> list[ast.stmt]:
        """The making of a kernel, with what its decorators are given."""
        if self.depth:
            raise self.refusal("wrapper-syntax", node, f"kernel {node.name} inside a function")
        decorators: list[ast.expr] = []
        for item in node.decorator_list:
            name = decorator_name(self.files, self.key, item)
            if name not in {"triton.jit", *KERNEL_DECORATORS}:
                raise self.refusal("wrapper-name", item, f"@{ast.unparse(item)[:60]}")
            args = self.every(item.args, scope) if isinstance(item, ast.Call) else []
            given = [self.keyword(k, scope) for k in item.keywords] if isinstance(item, ast.Call) else []
            keys: list[ast.expr | None] = [ast.Constant(value=k.arg) if k.arg else None for k in given]
            keywords = ast.Dict(keys=keys, values=[k.value for k in given])
            whole = [ast.Constant(value=name), ast.Tuple(elts=args, ctx=ast.Load()), keywords]
            decorators.append(ast.Tuple(elts=whole, ctx=ast.Load()))
        name = self.global_name(self.key, node.name)
        self.kernels[name] = kernel_source(self.files, self.key, node, self.global_name)
        made = call("__kernel", ast.Constant(value=name), ast.Tuple(elts=decorators, ctx=ast.Load()))
        return [ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=made)]

    def record(self, node: ast.ClassDef, scope: Scope) -> list[ast.stmt]:
        """A class that has fields and nothing else."""
        fields = _class_body(node)
        plain = [item for item in node.body if isinstance(item, ast.Pass | ast.Expr)]
        only_texts = all(isinstance(item, ast.Pass) or isinstance(item.value, ast.Constant) for item in plain)
        marks = [decorator_name(self.files, self.key, item) for item in node.decorator_list]
        bases = [".".join(chain_of(item) or ["?"]) for item in node.bases]
        kinds = [self.resolve(item.split(".")).dotted for item in bases]
        if self.depth or len(fields) + len(plain) < len(node.body) or not only_texts or node.keywords:
            raise self.refusal("wrapper-syntax", node, f"class {node.name} with more than fields")
        if not set(marks) <= {"dataclasses.dataclass"} or not set(kinds) <= _RECORDS:
            raise self.refusal("wrapper-syntax", node, f"class {node.name} of its own kind")
        taken = next((name for name, _ in fields if name in ATTRIBUTES or name.startswith("__")), None)
        if taken is not None:
            raise self.refusal("wrapper-attribute", node, f"a field named {taken}")
        items: list[ast.expr] = []
        for name, default in fields:
            given = [] if default is None else [self.guarded(default, replace(scope, kinds={}), "__fixed")]
            items.append(ast.Tuple(elts=[ast.Constant(value=name), *given], ctx=ast.Load()))
        made = call("__record", ast.Constant(value=node.name), ast.Tuple(elts=items, ctx=ast.Load()))
        return [ast.Assign(targets=[ast.Name(id=self.global_name(self.key, node.name), ctx=ast.Store())], value=made)]

    def kept(self, node: ast.Global | ast.Nonlocal, scope: Scope) -> list[ast.stmt]:
        raise self.refusal("state", node, ast.unparse(node)[:60])


_STATEMENTS: Mapping[type[ast.stmt], Callable[..., list[ast.stmt]]] = {
    ast.Pass: Statements.simple, ast.Break: Statements.simple, ast.Continue: Statements.simple,
    ast.Expr: Statements.expression_statement, ast.Return: Statements.result, ast.Assign: Statements.assign,
    ast.AnnAssign: Statements.annotated, ast.AugAssign: Statements.augmented, ast.Delete: Statements.delete,
    ast.If: Statements.branch, ast.For: Statements.loop, ast.While: Statements.while_loop,
    ast.Match: Statements.match, ast.Try: Statements.attempt,
    ast.Raise: Statements.raised, ast.Assert: Statements.asserted,
    ast.With: Statements.context, ast.Import: Statements.imported, ast.ImportFrom: Statements.imported,
    ast.FunctionDef: Statements.definition, ast.ClassDef: Statements.record, ast.Global: Statements.kept,
    ast.Nonlocal: Statements.kept,
}  # fmt: skip
