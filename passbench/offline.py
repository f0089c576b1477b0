"""Compiles kernels for a GPU that is not there: what Triton does not compile is no kernel.

    compiled({"kernels": {...}, "wanted": [...]})    # {"failed": ["", "p.py: kernel: why"]}, one text a specialisation

The requests are those of `passbench.program.described`. Every specialisation goes through Triton's own front end and
its back end for TARGET down to PTX; nothing is assembled, loaded or run. In a process of its own, in which Triton does
not interpret. Writes texts of kernels into Python's table of source lines, where Triton reads them.
"""

import linecache
from collections.abc import Mapping
from typing import Any

import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend
from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure
from triton.runtime.jit import JITFunction

from passbench.failure import one_line
from passbench.program.library import resolved

TARGET = GPUTarget("cuda", 90, 32)
"""H100 and H200."""
PTX_VERSION = 86
"""Given, so that no assembler is asked for the newest it knows."""

REFUSALS = (CompilationError, RuntimeError, ValueError, TypeError, ArithmeticError, LookupError, AttributeError,
            NameError, AssertionError, SyntaxError)  # fmt: skip
"""What Triton's front end and back end raise on a kernel."""


class Unsupported(Exception):
    """A specialisation that cannot be compiled here, which says nothing of it."""


def compiled(request: Mapping[str, Any]) -> dict[str, Any]:
    """Compile what is wanted, up to the first failure: of each what is wrong with it, or "".

    A configuration that breaks a static assertion of its kernel is one that Triton's tuner leaves out.
    """
    kernels = kernels_of(request["kernels"])
    failed: list[str] = []
    for name, types, constants, options in request["wanted"]:
        about = request["kernels"][name]
        try:
            compile_one(kernels, name, dict(types), dict(constants), dict(options))
        except (Unsupported, CompileTimeAssertionFailure):
            pass
        except REFUSALS as error:
            given = ", ".join(f"{key}={value}" for key, value in constants)
            where = f"{about['path']}:{about['line']}: {about['function']} is not compiled for a GPU"
            return {"failed": [*failed, f"{where} with {given}: {_reason(error)}"]}
        failed.append("")
    return {"failed": failed}


def compile_one(
    kernels: Mapping[str, JITFunction[Any]], name: str, types: dict[str, str], constants: dict[str, Any],
    options: dict[str, int],
) -> str:  # fmt: skip
    """The PTX of one specialisation; raises what the compiler raises."""
    if any(not text.replace("*", "").isidentifier() for text in types.values()):
        raise Unsupported(name)
    values = {key: value_of(value, kernels) for key, value in constants.items()}
    source, backend = ASTSource(kernels[name], types, values), make_backend(TARGET)
    chosen = backend.parse_options({"ptx_version": PTX_VERSION, **options})
    stages: dict[str, Any] = {}
    backend.add_stages(stages, chosen, source.language)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    functions = backend.get_codegen_implementation(chosen)
    module = source.make_ir(TARGET, chosen, functions, backend.get_module_map(), context)
    metadata = {"target": TARGET, **vars(chosen)}
    for stage in ("ttir", "ttgir", "llir", "ptx"):
        module = stages[stage](module, metadata)
    return str(module)


def kernels_of(described: Mapping[str, Any]) -> dict[str, Any]:
    """Kernels made from their texts, each with the names that its text uses."""
    scopes: dict[str, dict[str, Any]] = {name: {"__name__": "pass_dir"} for name in described}
    found = {name: _jitted(about, scopes[name]) for name, about in described.items()}
    for name, about in described.items():
        for alias, (kind, value) in about["names"].items():
            if kind == "library":
                scopes[name][alias] = resolved(value)
            elif kind == "kernel":
                scopes[name][alias] = found[value]
            else:
                made = value_of(value, found)
                scopes[name][alias] = tl.constexpr(made) if kind == "constexpr" else made
    return found


def _jitted(about: Mapping[str, Any], scope: dict[str, Any]) -> Any:
    """One kernel, whose text Triton finds under a name of its own."""
    name, text = f"<{about['path']}:{about['function']}>", about["text"]
    scope.update({"tl": tl, **{alias: resolved(value) for alias, (kind, value) in about["names"].items()
                              if kind == "library"}})  # fmt: skip
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec", dont_inherit=True), scope)
    return JITFunction(scope.pop(about["function"]))


def value_of(value: Any, kernels: Mapping[str, Any]) -> Any:
    """A constant from its encoded form."""
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "float":
        return float.fromhex(inner)
    if kind == "dtype":
        return tl.dtype(inner)
    if kind == "kernel":
        return kernels[inner]
    if kind == "tuple":
        return tuple(value_of(item, kernels) for item in inner)
    raise Unsupported(inner)


def _reason(error: Exception) -> str:
    """The last line of what the compiler says, which tells what is wrong; before it stands the kernel's text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and set(line.strip()) != {"^"}]
    return lines[-1][:200] if lines else one_line(error)
