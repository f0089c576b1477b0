"""Expressions of wrappers: each is checked, and rewritten so that what it meets at run time is checked too.

    rewriter = Expressions(files, "p", numbering)
    checked = rewriter.expression(node, Scope(kinds={"x": ANY}))

Names become those of one namespace: top-level names of module number i begin with `g<i>_`, names of libraries and of
run-time checks (`passbench.program.guards`) with two underscores, which no wrapper may write itself. Where `kinds`
knows that a value holds no tensor there is no check. Raises Rejected(rule) with file, line and what wrappers do.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from passbench.program.kinds import ANY, NUMBER, PLAIN, kind_of, local_kinds
from passbench.program.names import Files, Meaning, is_language
from passbench.program.scopes import bound_in, chain_of, stored
from passbench.program.tables import ATTRIBUTES, BUILTINS, CALLABLE, EXCEPTIONS, LANGUAGE_MODULES, LIBRARY, METHODS
from passbench.sources import path_of
from passbench.submission import Rejected

SENTENCES: Mapping[str, str] = {
    "wrapper-syntax": "consists of assignments, branches, loops, calls and returns",
    "wrapper-name": "uses only names that are defined beside it and functions that the grader knows",
    "torch-call": "uses torch outside patterns only to allocate, for dtypes and for fx.wrap",
    "tensor-method": "computes in kernels, not through tensor methods",
    "matmul": "multiplies matrices in kernels",
    "dunder": "reads no special attributes",
    "dynamic": "uses no reflection, evaluation or files",
    "wrapper-attribute": "reads only sizes, layouts and the like of tensors, and fields of its own records",
    "patching": "writes no attributes",
    "state": "keeps nothing between calls but settings that are looked up by a key",
    "operator-call": "computes in kernels, not through the operator module",
    "library-name": "uses of a library only the names that passbench.program.tables lists",
    "pattern-call": "never calls the pattern, which is the reference",
}
"""Rule -> what a wrapper does."""
_ADDING = (ast.Add, ast.Mult)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where an expression stands."""

    kinds: Mapping[str, int] = field(default_factory=dict)
    """Local names, with what is known of their values."""


def call(name: str, *arguments: ast.expr) -> ast.Call:
    """A call of a run-time check."""
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(arguments), keywords=[])


class Expressions:
    """Rewrites the expressions of one module."""

    def __init__(self, files: Files, key: str, fields: frozenset[str]) -> None:
        self.files, self.key, self.fields = files, key, fields
        """`fields` are those of all records that the submission defines."""
        self.numbers = {name: index for index, name in enumerate(files.modules.trees)}
        self.libraries: set[str] = set()
        """Names of libraries that were met."""

    def refusal(self, rule: str, node: ast.AST, text: str) -> Rejected:
        """What is raised where something is not allowed."""
        line = getattr(node, "lineno", 1)
        return Rejected(rule, f"{path_of(self.key)}:{line}: {text}: a wrapper {SENTENCES[rule]}")

    def resolve(self, chain: Sequence[str]) -> Meaning:
        """What a dotted name means in this module."""
        return self.files.meaning(self.key, chain)

    def global_name(self, key: str, name: str) -> str:
        """The name of a top-level value in the namespace."""
        return f"g{self.numbers[key]}_{name}"

    def kind(self, node: ast.expr, scope: Scope) -> int:
        """What is known of a value."""
        return kind_of(node, scope.kinds, self.resolve)

    # --- by kind of node --------------------------------------------------------------------------------------------
    def expression(self, node: ast.expr, scope: Scope) -> ast.expr:
        """The checked form of an expression."""
        rewrite = _EXPRESSIONS.get(type(node))
        if rewrite is None:
            raise self.refusal("wrapper-syntax", node, ast.unparse(node)[:60])
        return ast.copy_location(rewrite(self, node, scope), node)

    def every(self, nodes: Sequence[ast.expr], scope: Scope) -> list[ast.expr]:
        """The checked forms of several."""
        return [self.expression(node, scope) for node in nodes]

    def guarded(self, node: ast.expr, scope: Scope, guard: str, least: int = PLAIN) -> ast.expr:
        """An expression, through a check unless at least `least` is known of it."""
        found = self.expression(node, scope)
        return found if self.kind(node, scope) >= least else ast.copy_location(call(guard, found), node)

    def truth(self, node: ast.expr, scope: Scope) -> ast.expr:
        """An expression whose truth is asked for."""
        return self.guarded(node, scope, "__truth")

    def constant(self, node: ast.Constant, scope: Scope) -> ast.expr:
        return ast.Constant(value=node.value)

    def name(self, node: ast.Name, scope: Scope) -> ast.expr:
        if node.id.startswith("__"):
            raise self.refusal("dunder", node, node.id)
        if node.id in scope.kinds:
            return ast.Name(id=node.id, ctx=ast.Load())
        return self.outer([node.id], node)[0]

    def outer(self, chain: Sequence[str], node: ast.expr) -> tuple[ast.expr, Sequence[str]]:
        """What a dotted name from outside of all functions becomes, and the attributes that are left to be read."""
        found = self.resolve(chain)
        if found.kind == "program":
            self.check_program(found, node)
            return ast.Name(id=self.global_name(found.key, found.name), ctx=ast.Load()), found.rest
        if found.kind == "builtin":
            if found.name not in BUILTINS | EXCEPTIONS:
                raise self.refusal("wrapper-name", node, found.name)
            return ast.Name(id=f"__py_{found.name}", ctx=ast.Load()), found.rest
        if found.kind == "module":
            raise self.refusal("wrapper-name", node, ".".join(chain))
        return self.library(found.dotted, node)

    def check_program(self, found: Meaning, node: ast.expr) -> None:
        """Refuse what describes the reference."""
        if found.name in ("pattern", "replacement_args", "graph_pass"):
            raise self.refusal("pattern-call", node, found.name)

    def library(self, dotted: str, node: ast.expr) -> tuple[ast.expr, Sequence[str]]:
        """The longest part of a library's name that may be used, and the attributes after it."""
        parts = dotted.split(".")
        for count in range(len(parts), 0, -1):
            name = ".".join(parts[:count])
            if name in LIBRARY or (name not in LANGUAGE_MODULES and is_language(name)):
                self.libraries.add(name)
                return ast.Name(id=f"__lib_{name.replace('.', '_')}", ctx=ast.Load()), parts[count:]
        rule = {"torch": "torch-call", "operator": "operator-call"}.get(parts[0], "library-name")
        raise self.refusal(rule, node, dotted)

    def attribute(self, node: ast.Attribute, scope: Scope) -> ast.expr:
        chain = chain_of(node)
        if chain is not None and chain[0] not in scope.kinds and not chain[0].startswith("__"):
            found, rest = self.outer(chain, node)
            for name in rest:
                found = self.read(found, name, node)
            return found
        return self.read(self.expression(node.value, scope), node.attr, node)

    def read(self, value: ast.expr, name: str, node: ast.expr) -> ast.expr:
        """The checked read of an attribute."""
        if name.startswith("__"):
            raise self.refusal("dunder", node, name)
        if name in ATTRIBUTES:
            return ast.copy_location(call(f"__attr_{name}", value), node)
        if name not in self.fields:
            raise self.refusal("wrapper-attribute", node, f".{name}")
        return ast.copy_location(call("__field", value, ast.Constant(value=name)), node)

    def operator(self, node: ast.BinOp, scope: Scope) -> ast.expr:
        if isinstance(node.op, ast.MatMult):
            raise self.refusal("matmul", node, "@")
        guard = "__addable" if isinstance(node.op, _ADDING) else "__number"
        left, right = (self.guarded(item, scope, guard) for item in (node.left, node.right))
        return ast.BinOp(left=left, op=node.op, right=right)

    def unary(self, node: ast.UnaryOp, scope: Scope) -> ast.expr:
        negated = isinstance(node.op, ast.Not)
        operand = self.truth(node.operand, scope) if negated else self.guarded(node.operand, scope, "__number", NUMBER)
        return ast.UnaryOp(op=node.op, operand=operand)

    def boolean(self, node: ast.BoolOp, scope: Scope) -> ast.expr:
        values = [self.truth(item, scope) for item in node.values[:-1]]
        return ast.BoolOp(op=node.op, values=[*values, self.expression(node.values[-1], scope)])

    def compare(self, node: ast.Compare, scope: Scope) -> ast.expr:
        items, ops = [node.left, *node.comparators], node.ops
        guards = [self.compared(ops[place - 1 : place], ops[place : place + 1]) for place in range(1, len(ops))]
        guards = [self.compared([], ops[:1]), *guards, self.compared(ops[-1:], [])]
        pairs = zip(items, guards, strict=True)
        found = [self.guarded(item, scope, guard) if guard else self.expression(item, scope) for item, guard in pairs]
        return ast.Compare(left=found[0], ops=ops, comparators=found[1:])

    def compared(self, before: Sequence[ast.cmpop], after: Sequence[ast.cmpop]) -> str:
        """The check of a value between two comparisons; none where only its identity is asked for."""
        if all(isinstance(op, ast.Is | ast.IsNot) for op in (*before, *after)):
            return ""
        return "__searched" if before and not after and isinstance(before[0], ast.In | ast.NotIn) else "__plain"

    def conditional(self, node: ast.IfExp, scope: Scope) -> ast.expr:
        body, orelse = self.every([node.body, node.orelse], scope)
        return ast.IfExp(test=self.truth(node.test, scope), body=body, orelse=orelse)

    def sequence(self, node: ast.Tuple | ast.List, scope: Scope) -> ast.expr:
        return type(node)(elts=self.every(node.elts, scope), ctx=ast.Load())

    def set(self, node: ast.Set, scope: Scope) -> ast.expr:
        return ast.Set(elts=[self.guarded(item, scope, "__plain") for item in node.elts])

    def dictionary(self, node: ast.Dict, scope: Scope) -> ast.expr:
        keys = [None if item is None else self.guarded(item, scope, "__plain") for item in node.keys]
        pairs = zip(keys, node.values, strict=True)
        values = [
            call("__mapping", self.expression(value, scope)) if key is None else self.expression(value, scope)
            for key, value in pairs
        ]
        return ast.Dict(keys=keys, values=values)

    def starred(self, node: ast.Starred, scope: Scope) -> ast.expr:
        return ast.Starred(value=call("__iterable", self.expression(node.value, scope)), ctx=ast.Load())

    def subscript(self, node: ast.Subscript, scope: Scope) -> ast.expr:
        value, index = self.expression(node.value, scope), self.index(node.slice, scope)
        if self.kind(node.value, scope) and self.kind(node.slice, scope):
            return ast.Subscript(value=value, slice=index, ctx=ast.Load())
        return call("__item", value, index)

    def index(self, node: ast.expr, scope: Scope) -> ast.expr:
        """What stands between brackets."""
        if isinstance(node, ast.Slice):
            parts = [item or ast.Constant(value=None) for item in (node.lower, node.upper, node.step)]
            return ast.copy_location(call("__py_slice", *self.every(parts, scope)), node)
        if isinstance(node, ast.Tuple):
            return ast.copy_location(ast.Tuple([self.index(item, scope) for item in node.elts], ast.Load()), node)
        return self.expression(node, scope)

    def text(self, node: ast.JoinedStr, scope: Scope) -> ast.expr:
        return ast.JoinedStr(values=self.every(node.values, scope))

    def formatted(self, node: ast.FormattedValue, scope: Scope) -> ast.expr:
        value = self.guarded(node.value, scope, "__text")
        specification = self.expression(node.format_spec, scope) if node.format_spec else None
        return ast.FormattedValue(value=value, conversion=node.conversion, format_spec=specification)

    def walrus(self, node: ast.NamedExpr, scope: Scope) -> ast.expr:
        target = ast.Name(id=node.target.id, ctx=ast.Store())
        return ast.NamedExpr(target=target, value=self.expression(node.value, scope))

    def function(self, node: ast.Lambda, scope: Scope) -> ast.expr:
        inner = replace(scope, kinds=local_kinds(node, self.resolve, scope.kinds))
        return ast.Lambda(args=self.arguments(node.args, scope), body=self.expression(node.body, inner))

    def arguments(self, given: ast.arguments, scope: Scope) -> ast.arguments:
        """Parameters without annotations; defaults are values that nobody can change."""
        for item in (*given.defaults, *(item for item in given.kw_defaults if item)):
            if isinstance(item, ast.List | ast.Dict | ast.Set | ast.Call | ast.ListComp | ast.DictComp | ast.SetComp):
                raise self.refusal("state", item, ast.unparse(item)[:60])
        plain = [
            [ast.arg(arg=item.arg) for item in items] for items in (given.posonlyargs, given.args, given.kwonlyargs)
        ]
        defaults = [item and self.guarded(item, scope, "__fixed") for item in given.kw_defaults]
        return ast.arguments(
            posonlyargs=plain[0], args=plain[1], kwonlyargs=plain[2], kw_defaults=defaults,
            vararg=ast.arg(arg=given.vararg.arg) if given.vararg else None,
            kwarg=ast.arg(arg=given.kwarg.arg) if given.kwarg else None,
            defaults=[self.guarded(item, scope, "__fixed") for item in given.defaults],
        )  # fmt: skip

    def comprehension(self, node: ast.expr, scope: Scope) -> ast.expr:
        assert isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp)
        names = {name for generator in node.generators for name in stored(generator.target)}
        inner = replace(scope, kinds={**scope.kinds, **dict.fromkeys(names, ANY)})
        generators = []
        for place, generator in enumerate(node.generators):
            over = scope if place == 0 else inner
            if generator.is_async:
                raise self.refusal("wrapper-syntax", node, "async")
            generators.append(
                ast.comprehension(
                    target=self.target(generator.target), iter=self.iterated(generator.target, generator.iter, over),
                    ifs=[self.truth(item, inner) for item in generator.ifs], is_async=0,
                )
            )  # fmt: skip
        if isinstance(node, ast.DictComp):
            key = self.guarded(node.key, inner, "__plain")
            return ast.DictComp(key=key, value=self.expression(node.value, inner), generators=generators)
        kind = ast.SetComp if isinstance(node, ast.SetComp) else ast.ListComp
        guard = self.guarded(node.elt, inner, "__plain") if kind is ast.SetComp else self.expression(node.elt, inner)
        return kind(elt=guard, generators=generators)

    def iterated(self, target: ast.expr, node: ast.expr, scope: Scope) -> ast.expr:
        """What is looped over, no tensor, and with nothing in it that would be unpacked and is one."""
        if self.kind(node, scope):
            return self.expression(node, scope)
        shape = _shape(target)
        found = self.expression(node, scope)
        return call("__iterable", found) if shape is None else call("__rows", found, shape)

    def unpacked(self, target: ast.expr, value: ast.expr) -> ast.expr:
        """A value that is taken apart into names, no tensor, and no tensor where it is taken apart further."""
        shape = _shape(target)
        return value if shape is None else call("__unpacked", value, shape)

    def target(self, node: ast.expr) -> ast.expr:
        """Names that a loop binds."""
        if isinstance(node, ast.Name):
            if node.id.startswith("__"):
                raise self.refusal("dunder", node, node.id)
            return ast.copy_location(ast.Name(id=node.id, ctx=ast.Store()), node)
        if isinstance(node, ast.Tuple | ast.List):
            return ast.copy_location(ast.Tuple([self.target(item) for item in node.elts], ast.Store()), node)
        raise self.refusal("wrapper-syntax", node, ast.unparse(node)[:60])

    # --- calls ------------------------------------------------------------------------------------------------------
    def called(self, node: ast.Call, scope: Scope) -> ast.expr:
        args = self.every(node.args, scope)
        keywords = [self.keyword(item, scope) for item in node.keywords]
        function, first = self.callee(node.func, scope)
        return ast.Call(func=function, args=[*first, *args], keywords=keywords)

    def keyword(self, node: ast.keyword, scope: Scope) -> ast.keyword:
        value = self.expression(node.value, scope)
        return ast.keyword(arg=node.arg, value=call("__mapping", value) if node.arg is None else value)

    def callee(self, node: ast.expr, scope: Scope) -> tuple[ast.expr, list[ast.expr]]:
        """What is called, and arguments that come before those given."""
        chain = chain_of(node)
        if chain is not None and chain[0] not in scope.kinds:
            found, rest = self.outer(chain, node)
            if not rest:
                return self.direct(ast.copy_location(found, node), chain)
            for name in rest[:-1]:
                found = self.read(found, name, node)
            return self.method(rest[-1], node), [found]
        if isinstance(node, ast.Attribute):
            return self.method(node.attr, node), [self.expression(node.value, scope)]
        if isinstance(node, ast.Subscript):
            inside = [self.expression(node.value, scope), self.index(node.slice, scope)]
            return ast.Name(id="__launch", ctx=ast.Load()), inside
        return ast.Name(id="__call", ctx=ast.Load()), [self.expression(node, scope)]

    def direct(self, found: ast.expr, chain: Sequence[str]) -> tuple[ast.expr, list[ast.expr]]:
        """A call of a known function; of a value of the submission through a check of what it is."""
        meaning = self.resolve(chain)
        if meaning.kind == "library" and meaning.dotted not in CALLABLE:
            raise self.refusal(
                "torch-call" if meaning.dotted.startswith("torch") else "library-name", found, meaning.dotted
            )
        if meaning.kind == "program":
            nodes = self.files.binders[meaning.key][meaning.name]
            if len(nodes) > 1 or not isinstance(nodes[0], ast.FunctionDef):
                return ast.Name(id="__call", ctx=ast.Load()), [found]
        return found, []

    def method(self, name: str, node: ast.expr) -> ast.expr:
        if name.startswith("__"):
            raise self.refusal("dunder", node, name)
        if name not in METHODS:
            if name in self.fields:
                raise self.refusal("wrapper-attribute", node, f".{name}()")
            raise self.refusal("tensor-method", node, f".{name}")
        return ast.Name(id=f"__call_{name}", ctx=ast.Load())


def _shape(target: ast.expr) -> ast.expr | None:
    """How a target takes a value apart, as a value: a tuple where it does, None where it does not."""
    if not isinstance(target, ast.Tuple | ast.List):
        return None
    parts = [_shape(item) or ast.Constant(value=None) for item in target.elts]
    return ast.Tuple(elts=parts, ctx=ast.Load())


def local_scope(rewriter: Expressions, function: ast.FunctionDef, scope: Scope) -> Scope:
    """The scope inside a function."""
    kinds = local_kinds(function, rewriter.resolve, scope.kinds)
    return replace(scope, kinds=kinds) if bound_in(function) else scope


_EXPRESSIONS: Mapping[type[ast.expr], Callable[..., ast.expr]] = {
    ast.Constant: Expressions.constant, ast.Name: Expressions.name, ast.Attribute: Expressions.attribute,
    ast.BinOp: Expressions.operator, ast.UnaryOp: Expressions.unary, ast.BoolOp: Expressions.boolean,
    ast.Compare: Expressions.compare, ast.IfExp: Expressions.conditional, ast.Tuple: Expressions.sequence,
    ast.List: Expressions.sequence, ast.Set: Expressions.set, ast.Dict: Expressions.dictionary,
    ast.Starred: Expressions.starred, ast.Subscript: Expressions.subscript, ast.JoinedStr: Expressions.text,
    ast.FormattedValue: Expressions.formatted, ast.NamedExpr: Expressions.walrus, ast.Lambda: Expressions.function,
    ast.ListComp: Expressions.comprehension, ast.SetComp: Expressions.comprehension,
    ast.GeneratorExp: Expressions.comprehension, ast.DictComp: Expressions.comprehension,
    ast.Call: Expressions.called,
}  # fmt: skip
