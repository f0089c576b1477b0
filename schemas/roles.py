"""What the parts of a call mean: equivalent spellings, commutative ops, and which integers are shapes.

Is: versioned tables over op names and the small functions that read them; `schemas.canonical` builds identity on them.
Reads and writes nothing; no torch. Every entry is an *exact* equivalent; an op that is not in a table is kept verbatim.

    spell("call_method", "float", {"args": [{"in": 0}], "kwargs": {}}, tensor=True)
    # -> ("torch.Tensor.to", {"args": [{"in": 0}, {"dtype": "float32"}], "kwargs": {}})
"""

from schemas import values
from schemas.graph import METHOD
from schemas.signatures import bind
from schemas.values import Value

TABLE_VERSION = "3"
"""Version of the tables of this module and of `schemas.signatures`; it is part of every canonical form."""

_BINARY = "add sub mul matmul pow eq ne lt le gt ge"
OPERATOR_SPELLINGS = {
    **{f"operator.{name}": f"torch.{name}" for name in _BINARY.split()},
    "operator.truediv": "torch.div", "operator.floordiv": "torch.floor_divide", "operator.mod": "torch.remainder",
    "operator.and_": "torch.bitwise_and", "operator.or_": "torch.bitwise_or", "operator.xor": "torch.bitwise_xor",
    "operator.neg": "torch.neg", "operator.invert": "torch.bitwise_not", "operator.abs": "torch.abs",
}  # fmt: skip
"""Python operators on tensors; applied only where the result is one tensor (sizes and tuples add differently)."""
DIVISION = "operator.truediv"
"""The operator that computes something else where its first operand is a number: the reciprocal, times the number."""

_FUNCTIONAL = "torch.nn.functional."
_NATIVE = (
    "linear gelu scaled_dot_product_attention pad avg_pool2d adaptive_avg_pool2d softplus leaky_relu hardtanh glu silu "
    "mish hardswish hardsigmoid relu6 elu one_hot"
)
_ATEN_ELEMENTWISE = "add sub mul div eq ne lt le gt ge remainder bitwise_and bitwise_or bitwise_xor"
_ATEN_DEFAULT = (
    "relu tanh sigmoid exp log sqrt rsqrt sin cos neg abs erf reciprocal floor ceil round sign square bmm addmm "
    "baddbmm matmul maximum minimum permute reshape unsqueeze cumsum amax amin where.self masked_fill.Scalar clamp "
    "topk gather index_select tril triu cat stack logical_and logical_or logical_xor logical_not "
    "bitwise_not flip isnan isinf floor_divide"
)
_ATEN_FUNCTIONAL = "linear gelu silu mish hardswish scaled_dot_product_attention"

FUNCTION_SPELLINGS = {
    "torch.multiply": "torch.mul", "torch.divide": "torch.div", "torch.true_divide": "torch.div",
    "torch.subtract": "torch.sub", "torch.negative": "torch.neg", "torch.absolute": "torch.abs",
    "torch.greater": "torch.gt", "torch.less": "torch.lt", "torch.not_equal": "torch.ne",
    "torch.greater_equal": "torch.ge", "torch.less_equal": "torch.le", "torch.clip": "torch.clamp",
    "torch.concat": "torch.cat", "torch.concatenate": "torch.cat", "torch.swapaxes": "torch.transpose",
    "torch.swapdims": "torch.transpose", _FUNCTIONAL + "tanh": "torch.tanh",
    _FUNCTIONAL + "sigmoid": "torch.sigmoid",
    **{f"{_FUNCTIONAL}conv{k}d": f"torch.conv{k}d" for k in (1, 2, 3)},
    **{f"torch._C._nn.{name}": _FUNCTIONAL + name for name in _NATIVE.split()},
    **{f"torch.ops.aten.{name}.{kind}": f"torch.{name}" for name in _ATEN_ELEMENTWISE.split()
       for kind in ("Tensor", "Scalar")},
    **{f"torch.ops.aten.{name}{'' if '.' in name else '.default'}": f"torch.{name.partition('.')[0]}"
       for name in _ATEN_DEFAULT.split()},
    **{f"torch.ops.aten.{name}.default": _FUNCTIONAL + name for name in _ATEN_FUNCTIONAL.split()},
    **{f"torch.ops.aten.{name}.default": f"torch.Tensor.{name}" for name in ("view", "expand", "repeat")},
    "torch.ops.aten.sum.dim_IntList": "torch.sum", "torch.ops.aten.mean.dim": "torch.mean",
    "torch.ops.aten.transpose.int": "torch.transpose", "torch.ops.aten.pow.Tensor_Scalar": "torch.pow",
    "torch.ops.aten.pow.Tensor_Tensor": "torch.pow", "torch.ops.aten.softmax.int": "torch.softmax",
    "torch.ops.aten.log_softmax.int": "torch.log_softmax", "torch.ops.aten.flatten.using_ints": "torch.flatten",
    "torch.ops.aten.unbind.int": "torch.unbind", "torch.ops.aten.select.int": "torch.select",
    "torch.ops.aten.split.Tensor": "torch.split", "torch.ops.aten.max_pool2d.default": "torch.max_pool2d",
    "torch.ops.aten.conv1d.default": "torch.conv1d", "torch.ops.aten.conv2d.default": "torch.conv2d",
    "torch.ops.aten.conv3d.default": "torch.conv3d",
}  # fmt: skip
"""Functions with the same parameters, in the same places."""
MOST_ARGUMENTS = {"torch._C._nn.elu": 2}
"""Of these only the first parameters are the same."""

METHODS_LIKE_FUNCTIONS = frozenset(
    "add sub mul div matmul bmm pow neg abs exp log sqrt rsqrt sin cos tanh sigmoid relu erf reciprocal square clamp "
    "softmax log_softmax sum mean amax amin transpose permute reshape unsqueeze squeeze flatten eq ne lt le gt ge "
    "masked_fill cumsum argmax argmin floor ceil round sign bitwise_and bitwise_or bitwise_xor bitwise_not logical_and "
    "logical_or logical_xor logical_not chunk split gather index_select unbind select narrow tril triu flip roll var "
    "std maximum minimum isnan isinf floor_divide remainder movedim swapaxes swapdims clip topk".split()
)
"""`x.name(args)` is `torch.name(x, args)`."""

CAST_METHODS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "bool": "bool",
    "byte": "uint8", "char": "int8", "short": "int16", "int": "int32", "long": "int64",
}  # fmt: skip
"""`x.name()` is `x.to(dtype)`."""

FACTORIES = frozenset(f"torch.{name}" for name in "zeros ones rand randn empty".split())
"""Functions whose sizes may be given as one sequence or as separate arguments."""

VARIADIC = frozenset("view reshape permute expand repeat tile flip new_zeros new_ones new_empty".split())
"""Ops whose last positional parameter may be given as one sequence or as separate arguments."""

LISTS_LIKE_TUPLES = frozenset("cat stack concat sum mean amax amin var std layer_norm rms_norm pad roll".split())
"""Ops that take a list and a tuple alike in every parameter."""

COMMUTATIVE = frozenset(
    f"torch.{name}"
    for name in "add mul bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor eq ne maximum "
    "minimum".split()
)
"""Commutative on two tensor operands and nothing else (no alpha, no out); floating-point sums do not associate."""

_SIZES_1 = ((1,), ("size", "shape", "sizes"))
SHAPE_PARAMETERS: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    **dict.fromkeys(
        "view reshape expand repeat tile broadcast_to new_zeros new_ones new_empty new_full".split(), _SIZES_1
    ),
    **dict.fromkeys("zeros ones empty full rand randn".split(), ((0,), ("size",))),
    "arange": ((0, 1), ("start", "end")),
    "linspace": ((2,), ("steps",)),
    "eye": ((0, 1), ("n", "m")),
    "narrow": ((2, 3), ("start", "length")),
    "split": ((1,), ("split_size", "split_size_or_sections")),
    "unflatten": ((2,), ("sizes",)),
    "as_strided": ((1, 2, 3), ("size", "stride", "storage_offset")),
    "layer_norm": ((1,), ("normalized_shape",)),
    "rms_norm": ((1,), ("normalized_shape",)),
    "interpolate": ((1,), ("size",)),
    "one_hot": ((1,), ("num_classes",)),
    "randint": ((2,), ("size",)),
}
"""Op -> positional and keyword parameters that hold sizes. Bounds of slices are sizes wherever they stand.
Everything else (`dim`, `groups`, kernel sizes, steps, a selected index) is meaning, not shape."""

FIXED_SIZES = frozenset({-1, 0, 1})
"""Sizes that stay literal: -1 is a wildcard, 0 and 1 decide slicing and broadcasting."""

LOWEST = frozenset({"-3.4028234663852886e+38", "-65504.0", "-3.3895313892515355e+38", "-1.7976931348623157e+308"})
"""The lowest finite number of each floating dtype: the usual mask fill, a dtype in disguise."""


def dtype_kind(dtype: str) -> str:
    """The kind left of a dtype where dtypes are masked: float, int, bool, complex; scalars keep their name."""
    for kind in ("float", "bfloat", "complex", "int", "uint"):
        if dtype.startswith(kind):
            return kind.lstrip("b").lstrip("u") if kind in ("bfloat", "uint") else kind
    return dtype


def short_name(target: str) -> str:
    """The op's own name: "torch.nn.functional.gelu" -> "gelu", "torch.ops.aten.view.default" -> "view"."""
    if target.startswith("torch.ops."):
        return target.split(".")[3] if target.count(".") > 2 else target
    return target.rpartition(".")[2]


def spell(op: str, target: str, attrs: Value, *, tensor: bool) -> tuple[str, Value]:
    """The one spelling of a call: canonical target and attributes; `tensor` says that it yields one tensor, and that
    what is divided by an operator is one.

    Methods get the prefix "torch.Tensor.". Arguments are bound to the signature of the op, numeric defaults filled in,
    where it is known (`schemas.signatures`); else keyword arguments are sorted by name. Operand numbers stay.
    """
    args, kwargs = list(attrs["args"]), {key: attrs["kwargs"][key] for key in sorted(attrs["kwargs"])}
    target = target.replace("_operator.", "operator.") if target.startswith("_operator.") else target
    if op == METHOD:
        target, args = _spell_method(target, args, kwargs)
    elif tensor and (target != DIVISION or values.tag_of(args[0]) == "in"):
        target = OPERATOR_SPELLINGS.get(target, target)
    if len(args) + len(kwargs) <= MOST_ARGUMENTS.get(target, len(args) + len(kwargs)):
        target = FUNCTION_SPELLINGS.get(target, target)
    args, kwargs = _one_arrangement(target, args, kwargs)
    bound = bind(target, args, kwargs)
    if bound is not None:
        target, args, kwargs = _without_trace(target, *bound)
    elif kwargs.get("inplace") is False:
        del kwargs["inplace"]
    return target, {"args": args, "kwargs": kwargs}


def _one_arrangement(target: str, args: list[Value], kwargs: dict[str, Value]) -> tuple[list[Value], dict[str, Value]]:
    """Arguments with sizes as one sequence, `arange` with a start, `to` by name, lists that could be tuples as such."""
    name = short_name(target)
    if name in VARIADIC and args:
        args = [args[0], *_as_one_sequence(args[1:])]
    elif target in FACTORIES:
        args = _as_one_sequence(args)
    elif target == "torch.arange" and len(args) + ("start" in kwargs) + ("end" in kwargs) == 1:
        args, kwargs = [0, *args, *([kwargs["end"]] if "end" in kwargs else [])], _without(kwargs, "end")
    elif target == "torch.Tensor.to":
        args, kwargs = _named_cast(args, kwargs)
    if name in LISTS_LIKE_TUPLES:
        args, kwargs = [_as_tuple(item) for item in args], {key: _as_tuple(item) for key, item in kwargs.items()}
    return args, kwargs


def _without(kwargs: dict[str, Value], *names: str) -> dict[str, Value]:
    return {key: value for key, value in kwargs.items() if key not in names}


def _named_cast(args: list[Value], kwargs: dict[str, Value]) -> tuple[list[Value], dict[str, Value]]:
    """The device and dtype of `x.to(...)` by name, non_blocking and copy only if set; another tensor stays in place."""
    named = dict(kwargs)
    for value in args[1:]:
        tag = "device" if isinstance(value, str) else values.tag_of(value)
        if tag not in ("device", "dtype") or tag in named:
            return args, kwargs
        named[tag] = value
    if isinstance(named.get("device"), str):
        named["device"] = {"device": named["device"]}
    defaults = {"device": None, "dtype": None, "non_blocking": False, "copy": False}
    kept = {key: named[key] for key in sorted(named) if key not in defaults or named[key] is not defaults[key]}
    return args[:1], kept


def _without_trace(
    target: str, args: list[Value], kwargs: dict[str, Value]
) -> tuple[str, list[Value], dict[str, Value]]:
    """Functions of torch.nn.functional that are, without their extra parameters, a plain function of torch."""
    name = target.removeprefix(_FUNCTIONAL)
    if target == _FUNCTIONAL + "relu" and len(args) == 1:
        return "torch.relu", args, kwargs
    if name in ("softmax", "log_softmax") and name != target and len(args) > 1 and args[1] is not None:
        return f"torch.{name}", [*args[:2], *args[3:]], kwargs
    if target == _FUNCTIONAL + "max_pool2d" and len(args) < 7:
        return "torch.max_pool2d", args, kwargs
    return target, args, kwargs


def _as_tuple(value: Value) -> Value:
    return {"tuple": value} if isinstance(value, list) else value


def _spell_method(name: str, args: list[Value], kwargs: dict[str, Value]) -> tuple[str, list[Value]]:
    if name in CAST_METHODS and len(args) == 1 and not kwargs:
        return "torch.Tensor.to", [args[0], {"dtype": CAST_METHODS[name]}]
    if name == "type" and len(args) == 2 and values.tag_of(args[1]) == "dtype" and not kwargs:
        return "torch.Tensor.to", args
    return ("torch." if name in METHODS_LIKE_FUNCTIONS else "torch.Tensor.") + name, args


def _as_one_sequence(rest: list[Value]) -> list[Value]:
    if len(rest) == 1:
        only = rest[0]
        if isinstance(only, list):
            return [{"tuple": only}]
        if values.tag_of(only) == "size":
            return [{"tuple": only["size"]}]
        return [{"tuple": rest}] if isinstance(only, int) else rest
    return [{"tuple": rest}] if rest else rest


def is_commutative(target: str, attrs: Value) -> bool:
    """Whether a call in canonical spelling is a commutative op on exactly two operands."""
    two = attrs["args"] == [{"in": 0}, {"in": 1}]
    return two and target in COMMUTATIVE and values.dumps(attrs["kwargs"]) in ("{}", '{"alpha":1}')


def mark_sizes(target: str, attrs: Value) -> tuple[Value, tuple[int, ...]]:
    """Replace the integers in shape positions by holes; return the attributes and the integers."""
    positions, keywords = SHAPE_PARAMETERS.get(short_name(target), ((), ()))
    found: list[int] = []
    args = [_mark(item, found, everywhere=index in positions) for index, item in enumerate(attrs["args"])]
    kwargs = {key: _mark(item, found, everywhere=key in keywords) for key, item in attrs["kwargs"].items()}
    return {"args": args, "kwargs": kwargs}, tuple(found)


HOLE: Value = {"hole": None}


def _mark(value: Value, found: list[int], *, everywhere: bool) -> Value:
    def hole(item: Value) -> Value | None:
        if isinstance(item, int) and not isinstance(item, bool) and item not in FIXED_SIZES:
            found.append(item)
            return HOLE
        return None

    def change(item: Value) -> Value | None:
        if values.tag_of(item) == "slice":
            start, stop, step = item["slice"]
            return {"slice": [values.rewrite(start, hole), values.rewrite(stop, hole), step]}
        return hole(item) if everywhere else None

    return values.rewrite(value, change)


def mask_dtypes(value: Value) -> Value:
    """Replace every dtype by its kind and the lowest finite number of a dtype by one token."""

    def change(item: Value) -> Value | None:
        tag = values.tag_of(item)
        if tag == "dtype":
            return {"dtype": dtype_kind(item["dtype"])}
        return {"float": "lowest"} if tag == "float" and item["float"] in LOWEST else None

    return values.rewrite(value, change)


def mask_numbers(value: Value) -> Value:
    """Replace every number and every hole by one token; truth values, strings and operands stay."""

    def change(item: Value) -> Value | None:
        number = isinstance(item, int) and not isinstance(item, bool)
        return {"number": None} if number or values.tag_of(item) in ("float", "complex") or item == HOLE else None

    return values.rewrite(value, change)


def drop_device_index(value: Value) -> Value:
    """Keep of every device its kind only."""

    def change(item: Value) -> Value | None:
        return {"device": item["device"].partition(":")[0]} if values.tag_of(item) == "device" else None

    return values.rewrite(value, change)
