"""What the printed code of a published sample may hold beside calls: names, operators and constants.

Is: the tables `BINARY`, `COMPARE`, `UNARY`, `ROOTS`, `BARE`, `SPELLINGS`, `ATTRIBUTES`, `DUNDERS` and `MAKERS`, and
small functions on values of the attribute grammar, for `extract.sample_code`. Reads and writes nothing.
"""

import ast
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from schemas import values
from schemas.graph import FUNCTION, METHOD
from schemas.values import Value

BINARY: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor",
    ast.LShift: "lshift", ast.RShift: "rshift",
}  # fmt: skip
COMPARE: dict[type, str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne", ast.Is: "is_",
    ast.IsNot: "is_not",
}  # fmt: skip
UNARY: dict[type, str] = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert", ast.Not: "not_"}
ROOTS = frozenset({"torch", "operator", "_operator", "math", "torchvision", "einops", "builtins"})
"""First words of qualified names; a local value of the same name wins."""
BARE = frozenset({"int", "float", "bool", "complex", "max", "min", "abs", "sum", "len", "round", "pow"})
"""Builtins that a graph may call by their bare name."""
SPELLINGS: tuple[tuple[str, str], ...] = (
    ("_operator.", "operator."), ("torch.functional.", "torch."), ("torch._C._VariableFunctions.", "torch."),
    ("torch._VF.", "torch."), ("torch._C._linalg.linalg_", "torch.linalg."), ("torch._C._fft.fft_", "torch.fft."),
    ("torch._C._special.special_", "torch.special."), ("torch._tensor.Tensor.", "torch.Tensor."),
    ("torch.autograd.grad_mode.", "torch."), ("torch.amp._enter", "torch.amp.autocast_mode._enter"),
    ("torch.amp._exit", "torch.amp.autocast_mode._exit"), ("torch._higher_order_ops.", "torch.ops.higher_order."),
)  # fmt: skip
"""(beginning of a printed name, what the allow-list calls it)."""
ATTRIBUTES: dict[str, tuple[str, str, tuple[Value, ...]]] = {
    "shape": (METHOD, "size", ()), "ndim": (METHOD, "dim", ()), "data": (METHOD, "detach", ()),
    "T": (METHOD, "t", ()), "mT": (METHOD, "transpose", (-2, -1)), "H": (METHOD, "adjoint", ()),
    "mH": (METHOD, "adjoint", ()), "real": (FUNCTION, "torch.real", ()), "imag": (FUNCTION, "torch.imag", ()),
}  # fmt: skip
"""Attributes of tensors that are calls in the IR."""
DUNDERS = frozenset(
    f"__{name}__"
    for name in "add radd sub rsub mul rmul truediv rtruediv floordiv mod pow rpow matmul and or xor invert neg eq ne "
    "lt le gt ge getitem iadd isub imul itruediv rand ror lshift rshift".split()
)
_GPU = re.compile(r"(cuda|xpu|hpu|mps)(:\d+)?")


def target_name(target: ast.expr) -> str:
    """The name that an assignment target binds; empty if it is no plain name."""
    return target.id if isinstance(target, ast.Name) else ""


def is_text(text: str) -> bool:
    """Whether a text can be written as UTF-8."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def is_bounded(target: str, args: Sequence[Any]) -> bool:
    """Whether Python arithmetic without a tensor stays small: nothing read may grow numbers or sequences at will."""
    if any(isinstance(arg, torch.Tensor) for arg in args):
        return True
    name = target.rpartition(".")[2].strip("_").removeprefix("i").removeprefix("r")
    if name in ("factorial", "comb", "perm", "prod", "expt", "dexp"):
        return False
    if name in ("pow", "lshift", "shift", "mul", "concat", "add"):
        limit = 1 << 40 if name in ("mul", "add", "concat") else 64
        numbers = [arg for arg in args if isinstance(arg, int | float)]
        scalar = all(isinstance(arg, int | float | torch.SymInt | torch.SymFloat) for arg in args)
        return (scalar or name in ("add", "concat")) and all(abs(arg) <= limit for arg in numbers[1:])
    return True


def number_value(value: Any) -> Value:
    """A Python number as a value of the attribute grammar."""
    return {"float": repr(value)} if isinstance(value, float) else value


def on_cpu(value: Value) -> Value:
    """A name of a GPU as that of the CPU: all of a sample lies on one device."""
    return "cpu" if isinstance(value, str) and _GPU.fullmatch(value) else value


def torch_constant(dotted: str) -> Value | None:
    """A dtype, layout, memory format or number of torch or math; None if the name is none."""
    root, _, name = dotted.partition(".")
    if root in ("torch", "math") and name in ("inf", "nan", "pi", "e", "tau"):
        return {"float": repr(getattr(math, name))}
    found = getattr(torch, name, None) if root == "torch" and "." not in name else None
    for kind, tag in ((torch.dtype, "dtype"), (torch.layout, "layout"), (torch.memory_format, "memory_format")):
        if isinstance(found, kind):
            return {tag: str(found).removeprefix("torch.")}
    return None


def _float(args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    text = args[0] if len(args) == 1 and isinstance(args[0], str) else ""
    return {"float": repr(float(text))} if text.lstrip("+-").lower() in ("inf", "nan", "infinity") else None


def _complex(args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    parts = [float(a["float"]) if values.tag_of(a) == "float" else a for a in args]
    if len(parts) == 2 and all(isinstance(part, int | float) for part in parts):
        return {"complex": [repr(float(part)) for part in parts]}
    return None


def _slice(args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    return {"slice": [None, args[0], None] if len(args) == 1 else [*args, None][:3]} if 0 < len(args) < 4 else None


def _range(args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    if not 0 < len(args) < 4 or not all(type(arg) is int for arg in args):
        return None
    return {"range": [0, args[0], 1] if len(args) == 1 else [*args, 1][:3]}


def _size(args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    if len(args) == 1 and isinstance(args[0], list):
        return {"tuple": args[0]}
    return args[0] if len(args) == 1 and values.tag_of(args[0]) == "tuple" else None


MAKERS: dict[str, Callable[[list[Value], dict[str, Value]], Value | None]] = {
    "device": lambda args, kwargs: {"device": "cpu"}, "float": _float, "complex": _complex, "slice": _slice,
    "range": _range, "Size": _size,
}  # fmt: skip
"""Constructors of constants; None where the arguments are values, then it is a call."""
