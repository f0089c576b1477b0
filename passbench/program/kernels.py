"""Kernels as source: what may stand in one, and its text for Triton's compiler and interpreter.

    source = kernel_source(files, "p", function, global_name)
    source.text                                  # the function alone, as Triton gets it
    source.globals                               # name in the text -> what it stands for

A kernel's body holds what Triton's front end accepts, and names of Triton's language, of other kernels, and of numbers
and dtypes at the top of a module. Nothing of it is looked up anywhere else. Texts are written anew from the syntax
tree, so that no comment, string or decorator can be taken for code. Reads syntax trees alone.
"""

import ast
import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from passbench.program.names import Files, is_language
from passbench.program.scopes import bound_in, chain_of, free_chains, parameters
from passbench.program.tables import KERNEL_ATTRIBUTES, KERNEL_BUILTINS, MATH_CONSTANTS
from passbench.sources import path_of
from passbench.submission import Rejected

_NODES = (
    ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.While,
    ast.If, ast.Assert, ast.Expr, ast.Pass, ast.BoolOp, ast.NamedExpr, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare,
    ast.Call, ast.keyword, ast.FormattedValue, ast.JoinedStr, ast.Constant, ast.Attribute, ast.Subscript, ast.Starred,
    ast.Name, ast.List, ast.Tuple, ast.Slice, ast.ListComp, ast.comprehension, ast.expr_context, ast.boolop,
    ast.operator, ast.unaryop, ast.cmpop,
)  # fmt: skip
"""What Triton's front end accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSource:
    """One kernel."""

    name: str
    """Its own name."""
    path: str
    """Its file."""
    line: int
    """Where it begins there."""
    text: str
    """Its function, without decorators."""
    globals: Mapping[str, tuple[str, str]]
    """Name in the text -> ("library", dotted name) or ("program", name in the namespace)."""
    kernel_options: Mapping[str, ast.expr]
    """What triton.jit was given."""


def kernel_source(
    files: Files, key: str, function: ast.FunctionDef, global_name: Callable[[str, str], str]
) -> KernelSource:
    """Check a kernel; raises Rejected("kernel-python") on what Triton does not compile."""
    checker = _Checker(files, key, function)
    text = ast.unparse(ast.fix_missing_locations(checker.cleaned()))
    return KernelSource(
        name=function.name, path=path_of(key), line=function.lineno, text=text,
        globals=checker.used(global_name), kernel_options=checker.options(),
    )  # fmt: skip


class _Checker:
    def __init__(self, files: Files, key: str, function: ast.FunctionDef) -> None:
        self.files, self.key, self.function = files, key, function
        self.local = bound_in(function)

    def refusal(self, node: ast.AST, text: str) -> Rejected:
        line = getattr(node, "lineno", self.function.lineno)
        what = "a kernel holds only what Triton compiles"
        return Rejected("kernel-python", f"{path_of(self.key)}:{line}: {text}: {what}")

    def library(self, node: ast.expr) -> str:
        """The library's name of an expression; empty for any other."""
        chain = chain_of(node)
        return self.files.meaning(self.key, chain).dotted if chain and chain[0] not in self.local else ""

    # --- the text ---------------------------------------------------------------------------------------------------
    def cleaned(self) -> ast.Module:
        """The function without decorators, texts that do nothing, and annotations that Triton does not read."""
        found = copy.deepcopy(self.function)
        found.decorator_list, found.returns = [], None
        if found.type_comment or getattr(found, "type_params", None):
            raise self.refusal(found, "type parameters")
        for item in parameters(found):
            item.annotation = self.annotation(item.annotation)
        for node in ast.walk(found):
            if isinstance(node, ast.FunctionDef | ast.If | ast.For | ast.While):
                node.body = self.without_texts(node.body)
            if isinstance(node, ast.AnnAssign):
                node.annotation = self.annotation(node.annotation) or ast.Name(id="int", ctx=ast.Load())
        for node in ast.walk(found):
            self.check(node, found)
        return ast.Module(body=[found], type_ignores=[])

    def without_texts(self, body: list[ast.stmt]) -> list[ast.stmt]:
        kept = [node for node in body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
        return kept or [ast.Pass()]

    def annotation(self, node: ast.expr | None) -> ast.expr | None:
        """An annotation that says "constexpr" or a type of Triton; None for all others."""
        if node is None:
            return None
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node if node.value.strip().removeprefix("tl.") == "constexpr" else None
        name = self.library(node)
        return node if is_language(name) else None

    # --- what may stand in it ---------------------------------------------------------------------------------------
    def check(self, node: ast.AST, top: ast.FunctionDef) -> None:
        if not isinstance(node, _NODES) or (isinstance(node, ast.FunctionDef) and node is not top):
            first = ast.unparse(node).splitlines()[0][:60] if isinstance(node, ast.stmt | ast.expr) else ""
            raise self.refusal(node, first or type(node).__name__)
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and not _is_one_line(node.value):
            raise self.refusal(node, "a text of several lines")
        if isinstance(node, ast.Constant) and isinstance(node.value, bytes | complex):
            raise self.refusal(node, repr(node.value)[:60])
        if isinstance(node, ast.Name) and node.id.startswith("__"):
            raise self.refusal(node, node.id)
        if isinstance(node, ast.Attribute):
            self.check_attribute(node)
        if isinstance(node, ast.Assign) and len(node.targets) > 1:
            raise self.refusal(node, ast.unparse(node)[:60])

    def check_attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            raise self.refusal(node, f"{ast.unparse(node)[:60]} = ...")
        chain = chain_of(node)
        if chain and chain[0] not in self.local:
            found = self.files.meaning(self.key, chain)
            if found.kind == "library":
                self.check_library(found.dotted, node)
                return
            if found.kind == "module":
                raise self.refusal(node, ".".join(chain))
            if found.kind == "program" and not found.rest:
                return
        if node.attr not in KERNEL_ATTRIBUTES:
            raise self.refusal(node, f".{node.attr}")

    def check_library(self, dotted: str, node: ast.expr) -> None:
        others = {"triton", "math", "triton.cdiv", "triton.next_power_of_2"} | MATH_CONSTANTS
        if dotted not in others and not is_language(dotted):
            raise self.refusal(node, dotted)

    # --- names from outside -----------------------------------------------------------------------------------------
    def used(self, global_name: Callable[[str, str], str]) -> dict[str, tuple[str, str]]:
        """What the names of the text that it does not bind stand for."""
        found: dict[str, tuple[str, str]] = {}
        for statement in self.cleaned().body:
            for chain, node in self.chains(statement):
                meaning = self.files.meaning(self.key, chain)
                if meaning.kind == "program" and chain[0] != meaning.name and len(chain) - len(meaning.rest) > 1:
                    raise self.refusal(node, ".".join(chain))
                if meaning.kind == "program":
                    found[chain[0]] = ("program", global_name(meaning.key, meaning.name))
                elif meaning.kind == "library":
                    alias = self.files.meaning(self.key, chain[:1])
                    self.check_library(meaning.dotted, node)
                    found[chain[0]] = ("library", alias.dotted)
                elif meaning.kind == "module" or meaning.name not in KERNEL_BUILTINS:
                    raise self.refusal(node, ".".join(chain))
        return found

    def chains(self, statement: ast.stmt) -> list[tuple[list[str], ast.expr]]:
        """Dotted names from outside, those of annotations too."""
        annotated = [node for node in ast.walk(statement) if isinstance(node, ast.arg | ast.AnnAssign)]
        notes = [node.annotation for node in annotated if node.annotation is not None]
        return [*free_chains(statement), *(item for node in notes for item in free_chains(node, self.local))]

    def options(self) -> dict[str, ast.expr]:
        """What triton.jit was given: values that are written out."""
        found: dict[str, ast.expr] = {}
        for item in self.function.decorator_list:
            if isinstance(item, ast.Call) and self.library_at_top(item.func) == "triton.jit":
                found.update({keyword.arg: keyword.value for keyword in item.keywords if keyword.arg})
        return found

    def library_at_top(self, node: ast.expr) -> str:
        chain = chain_of(node)
        return self.files.meaning(self.key, chain).dotted if chain else ""


def _is_one_line(text: str | bytes) -> bool:
    return isinstance(text, bytes) or len(text.splitlines()) <= 1
