"""What the printed code of a published sample may hold beside calls: names, operators and constants.

Is: the tables `BINARY`, `COMPARE`, `UNARY`, `ROOTS`, `BARE`, `MANGLED`, `SPELLINGS`, `ATTRIBUTES`, `FLAGS`, `DUNDERS`,
`LEVELS`, `INERT` and `MAKERS`, and small functions on values of the attribute grammar, for
`extract.sample_expressions`. Reads and writes nothing.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from schemas import fx, values
from schemas.graph import FUNCTION, METHOD
from schemas.values import Value

BINARY: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor",
    ast.LShift: "lshift", ast.RShift: "rshift",
}  # fmt: skip
COMPARE: dict[type, tuple[str, bool, bool]] = {
    ast.Lt: ("lt", False, False), ast.LtE: ("le", False, False), ast.Gt: ("gt", False, False),
    ast.GtE: ("ge", False, False), ast.Eq: ("eq", False, False), ast.NotEq: ("ne", False, False),
    ast.Is: ("is_", False, False), ast.IsNot: ("is_not", False, False), ast.In: ("contains", True, False),
    ast.NotIn: ("contains", True, True),
}  # fmt: skip
"""Comparison -> (function of `operator`, whether its operands change places, whether its result is negated)."""
UNARY: dict[type, str] = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert", ast.Not: "not_"}
ROOTS = frozenset({"torch", "operator", "_operator", "math", "torchvision", "einops", "builtins"})
"""First words of qualified names; a local value of the same name wins."""
BARE = frozenset({"int", "float", "bool", "complex", "max", "min", "abs", "sum", "len", "round", "pow"})
"""Builtins that a graph may call by their bare name."""
MANGLED = ("_operator", "math")
"""Modules whose functions torch.fx prints as one name, `_operator_abs`, for it keeps them as globals of the code."""
ASSERTIONS = {"torch._assert": True, "torch._check": False, "torch._check_is_size": False}
"""Calls that stop unless something holds -> whether they take their message as a text and not as a function."""
LEVELS = {
    "torch.amp.autocast_mode._enter_autocast": "torch.amp.autocast_mode._exit_autocast",
    **{f"{module}._{kind}_increment_nesting": f"{module}._{kind}_decrement_nesting"
       for module in ("torch._C._functorch", "torch._functorch.predispatch")
       for kind in ("vmap", "grad", "jvp", "func")},
}  # fmt: skip
"""Calls that enter a level at which torch works otherwise -> the calls that leave it."""
INERT = frozenset({
    "torch.autograd.function.FunctionCtx", "torch.autograd.function.BackwardCFunction",
    "torch.autograd.function.NestedIOFunction", "torch.autograd.profiler.record_function",
    "torch.profiler.record_function", "torch.autograd.grad_mode.no_grad", "torch.autograd.grad_mode.enable_grad",
    "torch.no_grad", "torch.enable_grad", "builtins.object", "object", "types.SimpleNamespace",
    "torch.Generator",
})  # fmt: skip
"""Constructors without effect on what a graph computes: their objects hold attributes, and methods of theirs keep
tensors for a backward pass or do nothing."""
SPELLINGS: tuple[tuple[str, str], ...] = (
    ("_operator.", "operator."), ("torch.functional.", "torch."), ("torch._C._VariableFunctions.", "torch."),
    ("torch._VF.", "torch."), ("torch._C._linalg.linalg_", "torch.linalg."), ("torch._C._fft.fft_", "torch.fft."),
    ("torch._C._special.special_", "torch.special."), ("torch._tensor.Tensor.", "torch.Tensor."),
    ("torch.autograd.grad_mode.", "torch."), ("torch._refs.tensor", "torch.tensor"), ("torch._sym_", "torch.sym_"),
     ("torch.amp._enter", "torch.amp.autocast_mode._enter"),
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
FLAGS: dict[str, Value] = {
    "is_cuda": False, "is_cpu": True, "is_meta": False, "is_sparse": False, "is_quantized": False, "is_nested": False,
    "is_mkldnn": False, "is_xpu": False, "is_mps": False, "requires_grad": False, "layout": {"layout": "strided"},
}  # fmt: skip
"""Attributes that are the same for every tensor of a sample."""
MAX_BITS = 4096
"""Longest whole number that arithmetic of constants may make."""
MAX_ELEMENTS = 1 << 16
"""Longest sequence, counted with all that is inside, that arithmetic of constants may make."""
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
    if name in ("factorial", "comb", "perm", "expt", "dexp"):
        return False
    if name == "prod" and args and isinstance(args[0], list | tuple):
        return sum(abs(item).bit_length() for item in args[0] if isinstance(item, int)) <= MAX_BITS
    if len(args) < 2 or name not in ("pow", "lshift", "shift", "mul", "concat", "add"):
        return True
    if any(isinstance(arg, str | bytes | list | tuple) for arg in args):
        times = next((arg for arg in args if isinstance(arg, int)), 1) if name == "mul" else 1
        return sum(map(size_of, args)) * max(times, 1) <= MAX_ELEMENTS
    bits = [abs(arg).bit_length() if isinstance(arg, int) else 0 for arg in args]
    if name in ("pow", "lshift", "shift"):
        grown = abs(args[1]) if isinstance(args[1], int) else 0
        return grown * (bits[0] if name == "pow" else 1) <= MAX_BITS
    return sum(bits) <= MAX_BITS


def size_of(value: Any) -> int:
    """Elements of a Python value, those inside its elements counted too; counting stops beyond MAX_ELEMENTS."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        return 1
    total = 1
    for item in value:
        total += size_of(item)
        if total > MAX_ELEMENTS:
            break
    return total


def on_cpu(value: Value) -> Value:
    """A name of a GPU as that of the CPU: all of a sample lies on one device."""
    return "cpu" if isinstance(value, str) and _GPU.fullmatch(value) else value


def is_literal(value: Value) -> bool:
    """Whether a value holds nothing but constants."""
    return not any(isinstance(item, dict) and ("in" in item or "object" in item) for item in values.walk(value))


def elements(value: Value) -> list[Value] | None:
    """The elements of a literal list, tuple or range; None for anything else."""
    if isinstance(value, list):
        return list(value)
    tag = values.tag_of(value)
    if tag == "tuple":
        return list(value["tuple"])
    return list(range(*value["range"])) if tag == "range" and is_literal(value) else None


def computed(name: str, args: list[Value]) -> list[Value] | None:
    """The result of a function of `operator` on literals, alone in a list; None if the grammar does not hold it.

    Raises ValueError if the result might be without bound, and whatever the function raises.
    """
    plain = fx.arguments({"args": args, "kwargs": {}}, [])[0]
    if not is_bounded(name, plain):
        raise ValueError("a number or sequence without bound")
    try:
        return [fx.constant(getattr(operator, name)(*plain))]
    except fx.NotRepresentable:
        return None


def joined(name: str, args: list[Value]) -> list[Value] | None:
    """What becomes of literal sequences of values that are put together, repeated or taken apart, alone in a list.

    None if that is no matter of sequences, or their lengths or places are values of the graph.
    """
    if len(args) != 2:
        return None
    left, right = args
    if name == "mul" and (isinstance(left, int) or isinstance(right, int)):
        value, times = (right, left) if isinstance(left, int) else (left, right)
        parts = elements(value)
        if parts is None or size_of(parts) * max(times, 1) > MAX_ELEMENTS:
            return None
        return [_like(value, parts * times)]
    if name == "add" and type(left) is type(right) and values.tag_of(left) == values.tag_of(right):
        parts, more = elements(left), elements(right)
        return None if parts is None or more is None else [_like(left, parts + more)]
    return _picked(left, right) if name == "getitem" and is_literal(right) else None


def _picked(value: Value, place: Value) -> list[Value] | None:
    if values.tag_of(value) == "dict":
        return [item for key, item in value["dict"] if key == place and type(key) is type(place)] or None
    parts = elements(value)
    if parts is None:
        return None
    if values.tag_of(place) == "slice" and all(part is None or type(part) is int for part in place["slice"]):
        return [_like(value, parts[slice(*place["slice"])])]
    return [parts[place]] if type(place) is int and -len(parts) <= place < len(parts) else None


def _like(value: Value, parts: list[Value]) -> Value:
    return parts if isinstance(value, list) else {"tuple": parts}


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
    if not 0 < len(args) < 4 or not all(type(arg) is int for arg in args) or len(range(*args)) > MAX_ELEMENTS:
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
