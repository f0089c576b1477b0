"""A submission's wrappers as callables of this process, compiled from its checked source.

    built = Built(program, Record(), rest)
    wrapper = built.wrapper(("p", "fused_norm"))             # raises Rejected where it does what it may not
    wrapper.plain(*args), wrapper.watched(*args)             # without and with a look at what is kept between calls

The namespace holds what `program` defines, the checks of `guards` and the functions of `library`, and nothing else; no
module of the submission is imported. Kernels are made from their own texts, each with the names it uses and no others.

A plain call depends on its arguments alone: what modules keep is as they made it. Watched calls leave it as it becomes,
and are made again without kernels, once from the beginning and some times over: all must launch the same.
Writes texts of kernels into Python's table of source lines, where Triton reads them.
"""

import ast
import builtins
import linecache
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import CodeType
from typing import Any

import torch.utils._pytree as pytree
from triton.runtime.jit import JITFunction

from passbench.autotuned import Decorator, runnable
from passbench.interpreter import KERNEL_BUILTINS as MEANINGS
from passbench.program.closure import Name
from passbench.program.guards import Guards
from passbench.program.interpreted import Interpreted
from passbench.program.kernels import KernelSource
from passbench.program.launcher import Kernel, Record
from passbench.program.library import library, resolved
from passbench.program.refusal import Refused, rejected
from passbench.program.store import Store
from passbench.program.tables import KERNEL_BUILTINS
from passbench.program.values import ATOMS, TENSORS
from passbench.program.wrappers import Program
from passbench.submission import Rejected

REPEATS = 40
"""Calls without kernels that must launch what the first launched, where settings are kept between calls."""
Rest = Callable[[], AbstractContextManager[Any]]


class Built:
    """The namespace of one submission."""

    def __init__(self, program: Program, record: Record, rest: Rest, *, interpreted: bool) -> None:
        self.program, self.record, self.rest, self.interpreted = program, record, rest, interpreted
        self.store = Store()
        self.namespace: dict[str, Any] = {"__builtins__": {}, "__name__": "pass_dir"}
        self.guards = Guards(self.store, self.namespace)
        self.files = {f"<{path}>" for path, _ in program.parts}
        self.functions: dict[str, dict[str, Any]] = {}
        """Kernel -> the names that its text sees."""
        try:
            self.namespace.update(self.guards.names())
            self.namespace.update(library(self.guards, program.libraries))
            self.namespace["__kernel"] = self.kernel
            for path, tree in program.parts:
                exec(code_of(tree, path), self.namespace)
            for name, source in program.kernels.items():
                self.fill(name, source)
        except Refused as error:
            raise rejected(error, self.files) from None
        own = [value for name, value in self.namespace.items() if not name.startswith("__")]
        self.store.seal(own)

    @property
    def keeps(self) -> bool:
        """Whether there is anything that a call could change for the next."""
        return bool(self.store.shared)

    def wrapper(self, name: Name) -> "Wrapper":
        """A wrapper; raises Rejected if it is none of those that the program was made for."""
        if name not in self.program.wrappers:
            raise Rejected("unwrapped-function", f"{name[0]}.py: {name[1]} is not a replacement function")
        return Wrapper(self, self.namespace[self.program.wrappers[name]], name[1])

    # --- kernels ----------------------------------------------------------------------------------------------------
    def kernel(self, name: str, decorators: tuple[tuple[str, tuple[Any, ...], Mapping[str, Any]], ...]) -> Kernel:
        """Make a kernel; its names from outside are filled in when everything is defined."""
        source = self.program.kernels[name]
        functions = {item: getattr(builtins, item) for item in KERNEL_BUILTINS}
        self.functions[name] = {"__builtins__": {**functions, **MEANINGS}, "__name__": "pass_dir"}
        self.fill(name, source)
        function = function_of(source, self.functions[name])
        options = {key: ast.literal_eval(value) for key, value in source.kernel_options.items()}
        inner = (Interpreted if self.interpreted else JITFunction)(function, **options)
        if isinstance(inner, Interpreted):
            inner.name, inner.record = name, self.record
        outer = [
            Decorator(name=kind, args=args, kwargs=self.callables(kwargs)) for kind, args, kwargs in decorators
            if kind != "triton.jit"
        ]  # fmt: skip
        return Kernel(name, runnable(inner, outer), inner, self.record, self.guards.call, self.rest)

    def callables(self, value: Any) -> Any:
        """Settings of a tuned kernel, in which functions of the wrapper are called as such."""
        if isinstance(value, dict):
            return {key: self.callables(item) for key, item in value.items()}
        if callable(value) and getattr(value, "__globals__", None) is self.namespace:
            return lambda *args, **kwargs: self.guards.call(value, *map(plain_mapping, args), **kwargs)
        return value

    def fill(self, name: str, source: KernelSource) -> None:
        """Give a kernel the names that its text takes from outside, as far as they are defined by now."""
        for alias, (kind, target) in source.globals.items():
            if kind == "library":
                self.functions[name][alias] = resolved(target)
            elif target in self.namespace:
                self.functions[name][alias] = self.constant(self.namespace[target], source, alias)

    def constant(self, value: Any, source: KernelSource, alias: str) -> Any:
        """What a kernel may see of a module: another kernel, or a value that cannot be changed."""
        if type(value) is Kernel:
            return value.inner
        if type(value) in ATOMS or (type(value) is tuple and all(type(item) in ATOMS for item in value)):
            return value
        text = f"{source.path}:{source.line}: {alias}: a kernel sees of a module only other kernels and constants"
        raise Rejected("kernel-python", text)


class Wrapper:
    """One replacement function."""

    def __init__(self, built: Built, function: Callable[..., Any], name: str) -> None:
        self.built, self.function, self.name = built, function, name
        self.proven = False
        self.plain = self.as_function(self.call)
        """A call that depends on its arguments alone."""
        self.watched = self.as_function(self.checked)
        """A call that is checked: its outputs are tensors of its own, and it launches what a first call launches."""

    def as_function(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """A plain function of the wrapper's name; refusals are rejections, with their line."""
        files = self.built.files

        def called(*args: Any, **kwargs: Any) -> Any:
            try:
                return method(args, kwargs)
            except Refused as error:
                raise rejected(error, files) from None

        called.__name__ = called.__qualname__ = self.name
        return called

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function, with what modules keep as they made it."""
        store = self.built.store
        if store.shared:
            store.begin(spoiled=False)
        return self.function(*args, **kwargs)

    def checked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function, with a look at what is kept and at what it returns."""
        store = self.built.store
        store.begin(spoiled=True)
        self.compare(args, kwargs)
        found = self.function(*args, **kwargs)
        outputs = pytree.tree_leaves(found)
        store.check_outputs(outputs)
        odd = next((value for value in outputs if type(value) not in TENSORS and not _is_number(value)), None)
        if odd is not None:
            raise TypeError(f"{self.name} returns a {type(odd).__name__}")
        return found

    def compare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Without running kernels: what is kept from earlier calls makes no difference to what is launched."""
        store, record = self.built.store, self.built.record
        if not self.built.keeps or record.ghost:
            return
        warm = self.launches(args, kwargs)
        repeats = 0 if self.proven else REPEATS
        again = [self.launches(args, kwargs) for _ in range(repeats)]
        with store.cold():
            cold = self.launches(args, kwargs)
        self.proven = True
        if any(item != cold for item in (warm, *again)):
            raise Refused("state", "what is launched depends on earlier calls")

    def launches(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call would launch, and the form of what it returns."""
        record = self.built.record
        before, record.noted = record.count, []
        try:
            found = self.function(*args, **kwargs)
            return record.noted, [_form(value) for value in pytree.tree_leaves(found)]
        except Exception as error:
            return record.noted, type(error).__name__
        finally:
            record.count, record.noted = before, None
            self.built.store.fresh.clear()


def _is_number(value: Any) -> bool:
    return value is None or type(value) in (int, float, bool)


def _form(value: Any) -> Any:
    return (value.dtype, value.shape, value.stride()) if type(value) in TENSORS else type(value)


def plain_mapping(value: Any) -> Any:
    """A mapping that Triton hands to a function of the wrapper, as a dictionary."""
    return dict(value) if isinstance(value, Mapping) else value


def code_of(tree: ast.Module, path: str) -> CodeType:
    """The code of a part of a program."""
    return compile(tree, f"<{path}>", "exec", dont_inherit=True)


def function_of(source: KernelSource, names: dict[str, Any]) -> Callable[..., Any]:
    """A kernel's function, whose text Triton finds under a name of its own."""
    lines = source.text.splitlines(keepends=True)
    name = f"<{source.path}:{source.name}>"
    linecache.cache[name] = (len(source.text), None, lines, name)
    exec(compile(source.text, name, "exec", dont_inherit=True), names)
    function: Callable[..., Any] = names.pop(source.name)
    return function
