"""Triton's interpreter without what it repeats or throws away, for processes that do nothing but interpret.

    streamline()                                 # once, before the first launch

What a kernel computes stays the same, at about half the time of a small launch:

- Before each launch, and at each call of another kernel's function, the interpreter looks through Triton's language and
  puts its own functions in the place of the builtin ones; after the launch it takes them off. Here they stay on.
- Sums and products of whole numbers are computed a second time with 64 bits, to see an overflow; what is found goes to
  an assertion that is left out unless debugging is on. Here both are left out.
- NumPy's name of a type is looked up in a table that is made anew at each look, and the type of a block is made anew
  for each value of other elements. Here both are remembered.

Changes Triton's modules in this process.
"""

from collections.abc import Callable
from dataclasses import replace
from types import FunctionType
from typing import Any

import triton.language as tl
from triton.runtime import interpreter, jit


class _Stays:
    """What is put on and not taken off."""

    def restore(self) -> None:
        """Leave everything as it is."""


def _patch_nothing(kernel: object) -> _Stays:
    return _Stays()


def _remembered(look_up: Callable[[Any], Any]) -> Callable[[Any], Any]:
    known: dict[str, Any] = {}

    def found(kind: Any) -> Any:
        scalar = kind.scalar
        if scalar.name not in known:
            known[scalar.name] = look_up(scalar)
        return known[scalar.name]

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


def streamline() -> None:
    """Change the interpreter of this process for good; a second call changes nothing."""
    if interpreter._patch_lang is _patch_nothing:
        return
    sees_all = FunctionType((lambda: None).__code__, {"tl": tl, "core": tl.core})
    interpreter._patch_lang(sees_all)
    interpreter._patch_lang = _patch_nothing
    builder = interpreter.interpreter_builder
    builder.options = replace(builder.options, sanitize_overflow=builder.options.debug)
    interpreter._get_np_dtype = _remembered(interpreter._get_np_dtype)
    tl.core.block_type.with_element_ty = _interned(tl.core.block_type.with_element_ty)
    jit.mangle_type(0)  # imports what the first launch would
