"""Kernels as data: texts, what their names stand for, and what has to be compiled of them.

    described(built)                             # {"kernels": {name: {...}}, "wanted": [...]}: JSON

What `passbench.offline` needs to compile in another process what was interpreted here. Reads and writes nothing.
"""

from typing import Any

import triton.language as tl

from passbench.program.build import Built
from passbench.program.interpreted import Interpreted, constant_text


def described(built: Built) -> dict[str, Any]:
    """All kernels of a submission, and the specialisations that were launched so far."""
    kernels = {name: _kernel(built, name) for name in built.program.kernels}
    wanted = [
        [name, types, [[key, encoded(value)] for key, value in constants], options]
        for name, types, constants, options in sorted(built.record.wanted, key=repr)
        if name in kernels
    ]
    return {"kernels": kernels, "wanted": wanted}


def _kernel(built: Built, name: str) -> dict[str, Any]:
    source, values = built.program.kernels[name], built.functions[name]
    names: dict[str, Any] = {}
    for alias, (kind, target) in source.globals.items():
        value = values.get(alias)
        if kind == "library":
            names[alias] = ["library", target]
        elif isinstance(value, Interpreted):
            names[alias] = ["kernel", value.name]
        else:
            names[alias] = ["constexpr" if isinstance(value, tl.constexpr) else "value", encoded(constant_text(value))]
    return {"function": source.name, "path": source.path, "line": source.line, "text": source.text, "names": names}


def encoded(value: Any) -> Any:
    """A constant as JSON: floats by their bits, dtypes, kernels and tuples by their kind."""
    if type(value) is float:
        return {"float": value.hex()}
    if type(value) is tuple and len(value) == 2 and value[0] in ("dtype", "kernel"):
        return {value[0]: value[1]}
    if type(value) is tuple and len(value) == 2 and value[0] == "tuple":
        return {"tuple": [encoded(item) for item in value[1]]}
    if type(value) is tuple:
        return {"tuple": [encoded(item) for item in value]}
    return value if value is None or type(value) in (int, bool, str) else {"other": type(value).__name__}
