"""What the files beside the code of a published sample say: specs, roles and initialisers of its arguments.

    metas = read_metas(folder)            # name -> TensorMeta, from weight_meta.py and input_meta.py

Reads `weight_meta.py`, `input_meta.py` and `input_tensor_constraints.py` through `ast` alone: nothing is run, only
literals are understood. Writes nothing. Whatever is malformed raises ValueError of one line.
"""

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extract.described import normal
from extract.failures import SampleError, first_line
from extract.initialisers import STATISTICS
from passbench.inputs import value_of
from schemas import values
from schemas.graph import DTYPE_BYTES, TensorSpec

META_FILES = ("weight_meta.py", "input_meta.py")
CONSTRAINTS_FILE = "input_tensor_constraints.py"
FIELDS = frozenset("name original_name shape dtype device mean std min_val max_val data stride role init".split())
"""Attributes that are read; stride, role and init are our own, others are left alone."""
MAX_FILE_BYTES = 64 << 20
MAX_DEPTH = 60
"""Deepest nesting of an expression; printed graphs stay far below."""
MAX_TENSOR = 1 << 40
"""Largest tensor, in elements: more is a misprint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMeta:
    """One argument as its file describes it."""

    name: str
    """Name of the argument."""
    dtype: str
    """Name of the dtype without the prefix."""
    shape: tuple[int, ...]
    """Sizes."""
    fields: dict[str, Any]
    """All attributes as read."""

    @property
    def spec(self) -> TensorSpec:
        """Spec of the tensor, on the CPU, dense unless the file gives its strides."""
        dense = tuple(math.prod(max(size, 1) for size in self.shape[k + 1 :]) for k in range(len(self.shape)))
        stride = self.fields.get("stride")
        return TensorSpec.shared(self.dtype, self.shape, dense if stride is None else tuple(stride), "cpu")

    @property
    def data(self) -> list[bool | int | float] | None:
        """The literal data, flat, if the file holds it."""
        found: list[bool | int | float] | None = self.fields.get("data")
        return found


def read_tree(path: Path) -> ast.Module:
    """The syntax tree of a file; raises ValueError of one line if it is missing, too large or no Python."""
    where = f"{path.parent.name}/{path.name}"
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise SampleError(f"{where}:1: more than {MAX_FILE_BYTES >> 20} MiB: leave the sample out")
        return ast.parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SampleError(
            f"{where}:1: cannot be read ({error.strerror}): put the file back or leave the sample out"
        ) from error
    except UnicodeDecodeError as error:
        raise SampleError(f"{where}:1: not UTF-8 at byte {error.start}: write the file in UTF-8") from error
    except SyntaxError as error:
        raise SampleError(f"{where}:{error.lineno or 1}: not Python ({error.msg}): correct the line") from error
    except ValueError as error:
        raise SampleError(f"{where}:1: not Python ({first_line(error)}): remove what is no text") from error
    except (RecursionError, MemoryError) as error:
        raise SampleError(f"{where}:1: nested too deeply: assign parts of the expression to names") from error


def literal(node: ast.expr, where: str, depth: int = 0) -> Any:
    """The value of a literal: constants, signs, lists, tuples and float("inf"); raises ValueError for others."""
    if depth > MAX_DEPTH:
        raise SampleError(f"{where}:{node.lineno}: nested too deeply: write a flat list")
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = literal(node.operand, where, depth + 1)
        if isinstance(inner, int | float):
            return -inner
    if isinstance(node, ast.List | ast.Tuple):
        return [literal(item, where, depth + 1) for item in node.elts]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "float" and node.args:
        text = literal(node.args[0], where, depth + 1)
        if str(text).lstrip("+-").lower() in {"inf", "infinity", "nan"}:
            return float(text)
    if isinstance(node, ast.Name) and node.id in {"inf", "nan"}:
        return float(node.id)
    raise SampleError(f"{where}:{node.lineno}: only literals are read here, not {type(node).__name__}: write the value")


def read_metas(folder: Path) -> dict[str, TensorMeta]:
    """Argument name -> what the meta files of a sample say; original names stand beside the new ones.

    Raises ValueError of one line. `input_meta.py` may be missing.
    """
    found: dict[str, TensorMeta] = {}
    for name in META_FILES:
        path = folder / name
        if name == META_FILES[0] or path.exists():
            for meta in _metas(read_tree(path), f"{folder.name}/{name}"):
                found.setdefault(str(meta.fields.get("original_name") or meta.name), meta)
                found[meta.name] = meta
    return found


def _metas(tree: ast.Module, where: str) -> Iterator[TensorMeta]:
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            yield _meta(statement, where)


def _meta(cls: ast.ClassDef, where: str) -> TensorMeta:
    fields: dict[str, Any] = {}
    for item in cls.body:
        names = item.targets if isinstance(item, ast.Assign) else []
        if isinstance(item, ast.Assign) and isinstance(names[0], ast.Name) and names[0].id in FIELDS:
            fields[names[0].id] = literal(item.value, where)
    line = f"{where}:{cls.lineno}: {cls.name[:80]}"
    name, dtype = fields.get("name"), str(fields.get("dtype")).removeprefix("torch.")
    shape: Any = fields.get("shape")
    if not isinstance(name, str):
        raise SampleError(f'{line}: no name: add `name = "..."`')
    if dtype not in DTYPE_BYTES:
        raise SampleError(f"{line}: unknown dtype {dtype[:40]!r}: one of {', '.join(sorted(DTYPE_BYTES))}")
    if not _sizes(shape) or (
        "stride" in fields and (not _sizes(fields["stride"]) or len(fields["stride"]) != len(shape))
    ):
        raise SampleError(f"{line}: shape and stride are lists of sizes, together of at most {MAX_TENSOR} elements")
    found = TensorMeta(name=name, dtype=dtype, shape=tuple(shape), fields=fields)
    _check_numbers(found, line)
    return found


def _check_numbers(meta: TensorMeta, line: str) -> None:
    """Raise SampleError unless the data, and the initialiser where the file gives one, fit dtype and shape."""
    data = meta.data
    if data is not None and (not isinstance(data, list) or not all(isinstance(x, bool | int | float) for x in data)):
        raise SampleError(f"{line}: data is no flat list of numbers: write it as one, or None")
    if data is not None and len(data) != math.prod(meta.shape):
        raise SampleError(f"{line}: {len(data)} numbers for shape {list(meta.shape)}: correct the shape or the data")
    if data is not None and not all(_fits(item, meta.dtype) for item in data):
        raise SampleError(f"{line}: data holds a number that is no {meta.dtype}: correct the dtype or the data")
    told = meta.fields.get("init")
    if told is None:
        return
    try:
        raw = values.loads(told)
        if raw["kind"] == "literal":
            made = math.prod(meta.shape) == len(raw["data"]) or any(isinstance(item, list) for item in raw["data"])
        else:
            spec = TensorSpec.shared(meta.dtype, (1,) * len(meta.shape), (1,) * len(meta.shape), "cpu")
            made = value_of(told, spec, seed=0) is not None
    except (KeyError, TypeError, AttributeError, RuntimeError, OverflowError, ValueError) as error:
        raise SampleError(f"{line}: init cannot be followed ({first_line(error)}): remove it") from error
    if not made:
        raise SampleError(f"{line}: init has other numbers than the shape {list(meta.shape)} wants: remove it")


def _fits(item: bool | int | float, dtype: str) -> bool:
    """Whether a dtype holds a number."""
    if dtype.startswith(("float", "bfloat", "complex")):
        return abs(item) < (1 << 1023) if isinstance(item, int) else True
    if item != item or item in (math.inf, -math.inf) or item != int(item):
        return False
    if dtype == "bool":
        return item in (0, 1)
    bits = 8 * DTYPE_BYTES[dtype]
    low, high = (0, 1 << bits) if dtype.startswith("u") else (-(1 << bits - 1), 1 << bits - 1)
    return low <= item < high


def _sizes(raw: Any) -> bool:
    whole = isinstance(raw, list) and all(type(size) is int and 0 <= size <= MAX_TENSOR for size in raw)
    return whole and len(raw) <= 64 and math.prod(max(size, 1) for size in raw) <= MAX_TENSOR


def example_sizes(folder: Path) -> list[int]:
    """Whole numbers of the constraints file, each once, in order: example values of its symbols; empty if none."""
    path = folder / CONSTRAINTS_FILE
    if not path.exists():
        return []
    numbers = (n.value for n in ast.walk(read_tree(path)) if isinstance(n, ast.Constant))
    return list(dict.fromkeys(n for n in numbers if type(n) is int and 0 < n <= MAX_TENSOR))


# --- roles and initialisers -----------------------------------------------------------------------------------------
def role_of(name: str, annotation: str, meta: TensorMeta | None) -> str:
    """Role of a tensor argument by its annotation and the words in its name."""
    told = meta.fields.get("role") if meta is not None else None
    if told in ("input", "parameter", "buffer", "constant"):
        return str(told)
    if annotation.endswith("Parameter") or "_parameters_" in name:
        return "parameter"
    return "buffer" if "_buffers_" in name else "input"


def init_of(name: str, role: str, meta: TensorMeta) -> str:
    """Initialiser of an argument: its data, or its one value, or its range, or its mean and deviation.

    A single number whose deviation is none is its mean. A parameter is never all zeros, for that would hide operations.
    """
    told = meta.fields.get("init")
    if isinstance(told, str):
        return told
    if meta.data is not None:
        return values.dumps({"kind": "literal", "data": [_number(item) for item in meta.data]})
    value = _one_value(meta)
    floating = meta.dtype.startswith(("float", "bfloat", "complex"))
    if floating and any(leaf in name for leaf in STATISTICS):
        return next(init for leaf, init in STATISTICS.items() if leaf in name)
    if value is not None and (role != "parameter" or value != 0):
        return values.dumps({"kind": "constant", "value": _number(value)})
    if meta.dtype == "bool":
        return values.dumps({"kind": "bool", "p": {"float": repr(_share(meta.fields.get("mean")))}})
    if floating:
        return _normal(role, meta.fields.get("mean"), meta.fields.get("std"))
    low, high = meta.fields.get("min_val"), meta.fields.get("max_val")
    if type(low) is int and type(high) is int and low <= high and _fits(low, meta.dtype) and _fits(high, meta.dtype):
        return values.dumps({"kind": "integers", "low": low, "high": min(high, (1 << 63) - 2) + 1})
    return values.dumps({"kind": "zeros"})


def _one_value(meta: TensorMeta) -> bool | int | float | None:
    """The value of all elements: of equal bounds, or the mean of a single number without deviation; None if unknown."""
    low, high, mean, deviation = (meta.fields.get(key) for key in ("min_val", "max_val", "mean", "std"))
    value: Any = None
    if low is not None and low == high:
        value = low
    elif math.prod(meta.shape) == 1 and (deviation is None or not _finite(deviation) or deviation <= 0):
        value = mean
    if not isinstance(value, bool | int | float) or value != value or not _fits(value, meta.dtype):
        return None
    if meta.dtype.startswith(("float", "bfloat", "complex")):
        return float(value)
    return bool(value) if meta.dtype == "bool" else int(value)


def _normal(role: str, mean: Any, std: Any) -> str:
    if not _finite(mean) or not _finite(std):
        return normal(0.0, 1.0)
    if std <= 0 and role == "parameter":
        return normal(mean, 0.1 * abs(mean) or 0.02)
    return normal(mean, max(std, 0.0))


def _share(mean: Any) -> float:
    """Share of true values that a mean tells; one half if it tells none."""
    return float(mean) if _finite(mean) and 0 < mean < 1 else 0.5


def _finite(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e30


def _number(value: bool | int | float) -> Any:
    return {"float": repr(value)} if isinstance(value, float) else value
