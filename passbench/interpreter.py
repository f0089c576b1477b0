"""Triton's interpreter as a GPU computes, without what it repeats, for processes that do nothing but interpret.

    streamline()                                 # once, before the first launch and before a kernel's module is loaded

What a kernel means is what it means compiled:

- Arithmetic on bfloat16 and float8 (`passbench.arithmetic`), reductions and scans (`passbench.reductions`), the device
  library (`passbench.device_library`) and autotuned kernels (`passbench.autotuned`) are done here.
- `and`, `or` and `not` on blocks work element by element, `min` and `max` on blocks are Triton's, as in compiled code;
  plain Python would take a block for true. A block that is asked whether it is true is an error, as in compiled code.

And a launch takes half the time or less:

- Before each launch, and at each call of another kernel's function, the interpreter looks through Triton's language and
  puts its own functions in the place of the builtin ones; after the launch it takes them off. Here they stay on.
- Sums and products of whole numbers are computed a second time with 64 bits, to see an overflow; what is found goes to
  an assertion that is left out unless debugging is on. Here both are left out.
- NumPy's name of a type is looked up in a table that is made anew at each look, and the type and the shape of a block
  are made anew for each value. Here they are remembered.

Changes Triton's modules in this process.
"""

import ast
import builtins
import inspect
from collections.abc import Callable
from dataclasses import replace
from types import FunctionType
from typing import Any

import triton.language as tl
from triton.runtime import interpreter, jit

from passbench import arithmetic, autotuned, device_library, reductions


class _Stays:
    """What is put on and not taken off."""

    def restore(self) -> None:
        """Leave everything as it is."""


def _patch_nothing(kernel: object) -> _Stays:
    return _Stays()


# --- the meaning of Python in a kernel -------------------------------------------------------------------------------
def _is_block(value: object) -> bool:
    return isinstance(value, tl.tensor) and value.type.is_block()


def decided(value: Any) -> Any:
    """A condition of `if`, `while` or `assert`; raises AmbiguousTruth if it is a block of several values."""
    if _is_block(value) and value.handle.data.size != 1:
        size = value.handle.data.size
        raise reductions.AmbiguousTruth(f"a block of {size} values is neither true nor false; use tl.where, & or |")
    return value


def either(*operands: Callable[[], Any]) -> Any:
    """`a or b or ...`, element by element as soon as one operand is a block."""
    return _joined(operands, stop=True)


def both(*operands: Callable[[], Any]) -> Any:
    """`a and b and ...`, element by element as soon as one operand is a block."""
    return _joined(operands, stop=False)


def _joined(operands: tuple[Callable[[], Any], ...], *, stop: bool) -> Any:
    """Operands from left to right; one that is no block and decides alone ends it."""
    found: Any = None
    for operand in operands:
        value = operand()
        if found is None:
            found = value
        elif _is_block(found) or _is_block(value):
            found = found.logical_or(value) if stop else found.logical_and(value)
        else:
            found = value
        if not _is_block(found) and bool(found) is stop:
            return found
    return found


def negated(value: Any) -> Any:
    """`not value`, element by element of a block."""
    return value.__not__() if _is_block(value) else not value


def _least(*args: Any, **options: Any) -> Any:
    """Python's `min`; of values of a kernel Triton's."""
    if any(isinstance(arg, tl.tensor) for arg in args):
        return tl.core.builtin_min(*args)
    return builtins.min(*args, **options)


def _greatest(*args: Any, **options: Any) -> Any:
    """Python's `max`; of values of a kernel Triton's."""
    if any(isinstance(arg, tl.tensor) for arg in args):
        return tl.core.builtin_max(*args)
    return builtins.max(*args, **options)


KERNEL_BUILTINS: dict[str, Any] = {"min": _least, "max": _greatest}
"""Names that mean something else in a kernel than in Python."""
_NAMES: dict[str, Any] = {"interpreter_semantic": interpreter.interpreter_semantic, "_triton_both": both,
                          "_triton_either": either, "_triton_negated": negated, "_triton_decided": decided,
                          **KERNEL_BUILTINS}  # fmt: skip
"""What a rewritten kernel calls."""


class Transformer(interpreter.ASTTransformer):  # type: ignore[misc]
    """The interpreter's rewriting of a kernel, and that of `and`, `or`, `not` and of conditions."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Assigned values become Triton's."""
        node.value = self.visit(node.value)
        found: ast.AST = super().visit_Assign(node)
        return found

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Operands are evaluated one after the other, as far as they must be."""
        self.generic_visit(node)
        name = "_triton_both" if isinstance(node.op, ast.And) else "_triton_either"
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        operands: list[ast.expr] = [ast.Lambda(args=nothing, body=value) for value in node.values]
        return _call(name, node, operands)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Only `not` means something else in Python."""
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return _call("_triton_negated", node, [node.operand])

    def _decided(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        node.test = _call("_triton_decided", node.test, [node.test])
        found: ast.AST = node
        return found

    visit_If = visit_While = visit_IfExp = visit_Assert = _decided


def _call(name: str, place: ast.AST, args: list[ast.expr]) -> ast.expr:
    return ast.copy_location(ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=args, keywords=[]), place)


def _compiled(self: Any, tree: Any) -> Any:
    """The rewritten kernel, which sees what its module sees and nothing of the interpreter's."""
    scope, local = self.fn.__globals__, dict(self.kwargs)
    for name, value in _NAMES.items():
        scope.setdefault(name, value)
    exec(compile(tree, filename=self.filename, mode="exec"), scope, local)
    return local[self.fn.__name__]


def _called(self: Any, *args: Any, **kwargs: Any) -> Any:
    """A kernel's function called by another: what it raises is raised."""
    return self.rewrite()(*args, **kwargs)


def bind(place: Any, name: str, member: Any, *rest: object) -> None:
    """Put a builtin function of the language in its place, told the interpreter's semantic."""
    inner, semantic = getattr(member, "__wrapped__", member), interpreter.interpreter_semantic

    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = semantic
        return inner(*args, **kwargs)

    setattr(place, name, call)


# --- what is remembered ----------------------------------------------------------------------------------------------
def _remembered(look_up: Callable[[Any], Any]) -> Callable[[Any], Any]:
    known: dict[str, Any] = {}

    def found(kind: Any) -> Any:
        name = kind.scalar.name
        if name not in known:
            known[name] = look_up(kind.scalar)
        return known[name]

    return found


def _interned(make: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    known: dict[tuple[str, str], Any] = {}

    def with_element(block: Any, element: Any) -> Any:
        if element.is_ptr():
            return make(block, element)
        key = (block.name, element.name)
        if key not in known:
            known[key] = make(block, element)
        return known[key]

    return with_element


def _block_type(make: Callable[[Any, Any, Any], None]) -> Callable[[Any, Any, Any], None]:
    """The constructor of a block's type; its shape is checked once."""
    known: dict[Any, dict[str, Any]] = {}

    def init(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = tuple(getattr(size, "value", size) for size in getattr(shape, "values", shape))
        key = (sizes, str(element_ty))
        if key not in known:
            make(self, element_ty, shape)
            known[key] = {name: value for name, value in vars(self).items() if name != "element_ty"}
        else:
            vars(self).update(known[key])
            self.element_ty = element_ty

    return init


def _tensor_init() -> Callable[[Any, Any, Any], None]:
    """The constructor of a value in a kernel; its sizes are made once a shape."""
    known: dict[Any, tuple[Any, Any]] = {}

    def init(self: Any, handle: Any, type: Any) -> None:
        block = type.is_block()
        sizes = builtins.tuple(type.shape) if block else ()
        if sizes not in known:
            shape = tl.core.tuple([tl.constexpr(size) for size in sizes])
            numel = 1
            for size in sizes:
                numel *= size
            known[sizes] = shape, tl.constexpr(numel)
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = known[sizes]

    return init


def streamline() -> None:
    """Change the interpreter of this process for good; a second call changes nothing."""
    if interpreter._patch_lang is _patch_nothing:
        return
    arithmetic.install()
    reductions.install()
    autotuned.install()
    interpreter._patch_attr = bind
    sees_all = FunctionType((lambda: None).__code__, {"tl": tl, "core": tl.core})
    interpreter._patch_lang(sees_all)
    interpreter._patch_lang = _patch_nothing
    for name, member in list(vars(tl.tensor).items()):  # methods such as x.exp(), which the interpreter forgets
        if isinstance(member, FunctionType) and "_semantic" in inspect.signature(member).parameters:
            bind(tl.tensor, name, member)
    tl.static_assert = tl.core.static_assert = autotuned.static_assert
    device_library.install(bind)
    interpreter.FunctionRewriter.ast_transformer = Transformer()
    interpreter.FunctionRewriter._compile_and_exec = _compiled
    interpreter.InterpretedFunction.__call__ = _called
    builder = interpreter.interpreter_builder
    builder.options = replace(builder.options, sanitize_overflow=builder.options.debug)
    interpreter._get_np_dtype = _remembered(interpreter._get_np_dtype)
    tl.core.block_type.with_element_ty = _interned(tl.core.block_type.with_element_ty)
    tl.core.block_type.__init__ = _block_type(tl.core.block_type.__init__)
    tl.tensor.__init__ = _tensor_init()
    jit.mangle_type(0)  # imports what the first launch would
