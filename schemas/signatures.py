"""Parameters of ops: bind a call to its signature, so that one call has one spelling.

    bind("torch.flatten", [{"in": 0}], {"start_dim": 1})    # -> ([{"in": 0}, 1], {}), as flatten(x, 1, -1) gives

Is: the table `SIGNATURES` over canonical targets and `bind`. Reads and writes nothing; no torch; a test compares the
table with torch's own schemas. An op that is not in the table and a call that does not fit its signature stay verbatim.

A signature lists parameters as Python does, `*` before those given by name only. `name:2` is a size of two numbers
that may be given as one number or a sequence of one; `name:1` a sequence that may be given as one number; `name:s` a
sequence, list or tuple; `name:f` a float that may be given as an integer. `=@name` takes its default from another.
"""

from dataclasses import dataclass
from functools import cache

from schemas import values
from schemas.values import Value

_MADE = "*, out=None, dtype=None, layout=strided, device=None, pin_memory=False, requires_grad=False"
_LIKE = "*, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, memory_format=preserve_format"
_NEW = "*, dtype=None, layout=strided, device=None, pin_memory=False, requires_grad=False"
_POOL = "input, kernel_size:{k}, stride:{k}=@kernel_size, padding:{k}=0"


def _conv(k: int) -> str:
    return f"input, weight, bias=None, stride:{k}=1, padding:{k}=0, dilation:{k}=1, groups=1"


def _transposed(k: int) -> str:
    return f"input, weight, bias=None, stride:{k}=1, padding:{k}=0, output_padding:{k}=0, groups=1, dilation:{k}=1"


def _rows(text: str, *, prefix: str) -> dict[str, str]:
    rows = (line.strip().split("(", 1) for line in text.strip().splitlines())
    return {f"{prefix}.{name}": rest.rpartition(")")[0] for name, rest in rows}


_TORCH = """
    add(input, other, *, alpha=1)
    sub(input, other, *, alpha=1)
    div(input, other, *, rounding_mode=None)
    pow(input, exponent)
    bmm(input, mat2)
    addmm(input, mat1, mat2, *, beta=1, alpha=1)
    baddbmm(input, batch1, batch2, *, beta=1, alpha=1)
    sum(input, dim:1=None, keepdim=False, *, dtype=None)
    mean(input, dim:1=None, keepdim=False, *, dtype=None)
    amax(input, dim:1=(), keepdim=False)
    amin(input, dim:1=(), keepdim=False)
    argmax(input, dim=None, keepdim=False)
    argmin(input, dim=None, keepdim=False)
    softmax(input, dim, dtype=None)
    log_softmax(input, dim, dtype=None)
    cumsum(input, dim, *, dtype=None)
    topk(input, k, dim=-1, largest=True, sorted=True)
    transpose(input, dim0, dim1)
    permute(input, dims:s)
    reshape(input, shape:s)
    flatten(input, start_dim=0, end_dim=-1)
    unsqueeze(input, dim)
    unbind(input, dim=0)
    chunk(input, chunks, dim=0)
    split(tensor, split_size_or_sections:s, dim=0)
    narrow(input, dim, start, length)
    select(input, dim, index)
    gather(input, dim, index, *, sparse_grad=False)
    index_select(input, dim, index)
    masked_fill(input, mask, value)
    clamp(input, min=None, max=None)
    where(condition, input, other)
    tril(input, diagonal=0)
    triu(input, diagonal=0)
    roll(input, shifts:1, dims:1=())
    flip(input, dims:s)
    cat(tensors:s, dim=0)
    stack(tensors:s, dim=0)
    zeros_like(input, {like})
    ones_like(input, {like})
    empty_like(input, {like})
    full_like(input, fill_value, {like})
    zeros(size:s, {made})
    ones(size:s, {made})
    rand(size:s, *, generator=None, {made_rest})
    randn(size:s, *, generator=None, {made_rest})
    full(size:s, fill_value, {made})
    arange(start, end, step=1, {made})
    conv1d({conv1})
    conv2d({conv2})
    conv3d({conv3})
    conv_transpose1d({transposed1})
    conv_transpose2d({transposed2})
    adaptive_avg_pool1d(input, output_size:1)
    max_pool2d({pool2}, dilation:2=1, ceil_mode=False)
    """.format(
    like=_LIKE, made=_MADE, made_rest=_MADE.removeprefix("*, "), pool2=_POOL.format(k=2), conv1=_conv(1),
    conv2=_conv(2), conv3=_conv(3), transposed1=_transposed(1), transposed2=_transposed(2),
)  # fmt: skip
_SAME_TWO = (
    "mul matmul eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor maximum "
)
_TWO = f"{_SAME_TWO} minimum floor_divide remainder"

_FUNCTIONAL = """
    linear(input, weight, bias=None)
    embedding(input, weight, padding_idx=None, max_norm=None, norm_type:f=2.0, scale_grad_by_freq=False, sparse=False)
    dropout(input, p:f=0.5, training=True, inplace=False)
    relu(input, inplace=False)
    relu6(input, inplace=False)
    silu(input, inplace=False)
    mish(input, inplace=False)
    hardswish(input, inplace=False)
    hardsigmoid(input, inplace=False)
    leaky_relu(input, negative_slope:f=0.01, inplace=False)
    elu(input, alpha:f=1.0, inplace=False)
    hardtanh(input, min_val:f=-1.0, max_val:f=1.0, inplace=False)
    gelu(input, *, approximate='none')
    glu(input, dim=-1)
    softplus(input, beta:f=1.0, threshold:f=20.0)
    softmax(input, dim=None, _stacklevel=3, dtype=None)
    log_softmax(input, dim=None, _stacklevel=3, dtype=None)
    layer_norm(input, normalized_shape:s, weight=None, bias=None, eps:f=1e-05)
    rms_norm(input, normalized_shape:s, weight=None, eps=None)
    group_norm(input, num_groups, weight=None, bias=None, eps:f=1e-05)
    batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum:f=0.1, eps:f=1e-05)
    normalize(input, p:f=2.0, dim=1, eps:f=1e-12, out=None)
    scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p:f=0.0, is_causal=False, *, scale=None, \
enable_gqa=False)
    pad(input, pad:s, mode='constant', value=None)
    interpolate(input, size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None, \
antialias=False)
    one_hot(tensor, num_classes=-1)
    max_pool2d({pool2}, dilation:2=1, ceil_mode=False, return_indices=False)
    avg_pool2d({pool2}, ceil_mode=False, count_include_pad=True, divisor_override=None)
    adaptive_avg_pool2d(input, output_size:2)
    grid_sample(input, grid, mode='bilinear', padding_mode='zeros', align_corners=None)
    """.format(pool2=_POOL.format(k=2))

_METHODS = f"""
    contiguous(self, *, memory_format=contiguous_format)
    view(self, size:s)
    expand(self, size:s, *, implicit=False)
    repeat(self, repeats:s)
    new_zeros(self, size:s, {_NEW})
    new_ones(self, size:s, {_NEW})
    new_full(self, size:s, fill_value, {_NEW})
    """

SIGNATURES: dict[str, str] = {
    **_rows(_TORCH, prefix="torch"),
    **{f"torch.{name}": "input, other" for name in _TWO.split()},
    **_rows(_FUNCTIONAL, prefix="torch.nn.functional"),
    **_rows(_METHODS, prefix="torch.Tensor"),
}
"""Canonical target -> parameters, as the module docstring explains."""

ALIASES = {"axis": "dim", "keepdims": "keepdim"}
"""Names of parameters that torch accepts beside its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a signature."""

    name: str
    """Its name."""
    kind: str
    """1, 2 or 3: a size of so many numbers; s: a sequence; f: a float; empty: anything."""
    default: Value
    """Its default as a value of the attribute grammar; meaningless if `required`."""
    required: bool
    """Whether it has no default."""
    by_name: bool
    """Whether it is given by name only."""


_WORDS: dict[str, Value] = {
    "None": None, "True": True, "False": False, "()": {"tuple": []}, "strided": {"layout": "strided"},
    "preserve_format": {"memory_format": "preserve_format"},
    "contiguous_format": {"memory_format": "contiguous_format"},
}  # fmt: skip


def _literal(text: str) -> Value:
    if text in _WORDS:
        return _WORDS[text]
    if text.startswith(("'", "@")):
        return text.strip("'")
    return int(text) if text.lstrip("-").isdigit() else {"float": repr(float(text))}


@cache
def parameters(target: str) -> tuple[Parameter, ...]:
    """The parameters of a canonical target; empty if it is not in the table."""
    found, by_name = list[Parameter](), False
    for text in SIGNATURES.get(target, "").split(", "):
        head, has_default, default = text.partition("=")
        name, _, kind = head.partition(":")
        if name == "*":
            by_name = True
        elif name:
            value = _of_kind(_literal(default), kind) if has_default else None
            found.append(
                Parameter(name=name, kind=kind, default=value, required=not has_default, by_name=by_name)
            )  # fmt: skip
    return tuple(found)


def _of_kind(value: Value, kind: str) -> Value:
    """A value in the one form that its parameter's kind has."""
    if not kind:
        return value
    number = isinstance(value, int) and not isinstance(value, bool)
    if kind == "f":
        return {"float": repr(float(value))} if number else value
    if isinstance(value, list):
        value = {"tuple": value}
    if kind == "s":
        return value
    if number:
        return {"tuple": [value] * int(kind)}
    if values.tag_of(value) == "tuple" and len(value["tuple"]) == 1:
        return {"tuple": value["tuple"] * int(kind)}
    return value


def bind(target: str, args: list[Value], kwargs: dict[str, Value]) -> tuple[list[Value], dict[str, Value]] | None:
    """Arguments with numeric defaults filled in: positional ones in their places, keyword-only ones by name.

    Other defaults (None, truth values, names) are left out at the end and among those by name. None if the table
    lacks the target or the call does not fit: then nothing may be concluded from the signature.
    """
    known = parameters(target)
    by_place = [parameter for parameter in known if not parameter.by_name]
    names = {parameter.name for parameter in known}
    given = dict(zip((parameter.name for parameter in by_place), args, strict=False))
    for key, value in kwargs.items():
        name = ALIASES.get(key, key) if key not in names else key
        name = by_place[0].name if name == "self" and by_place else name
        if name in given or name not in names:
            return None
        given[name] = value
    if len(args) > len(by_place) or any(p.required and p.name not in given for p in known):
        return None
    return _arranged(known, {p.name: _of_kind(given[p.name], p.kind) for p in known if p.name in given})


def _arranged(known: tuple[Parameter, ...], given: dict[str, Value]) -> tuple[list[Value], dict[str, Value]]:
    full: dict[str, Value] = {}
    silent: dict[str, bool] = {}
    for p in known:
        takes = isinstance(p.default, str) and p.default.startswith("@")
        default = full[p.default[1:]] if takes else p.default
        value = given.get(p.name, default)
        full[p.name] = default if takes and value is None else value
        silent[p.name] = not p.required and not _is_numeric(default) and _same(full[p.name], default)
    by_place = [p.name for p in known if not p.by_name]
    while by_place and silent[by_place[-1]]:
        by_place.pop()
    by_name = sorted(p.name for p in known if p.by_name and not silent[p.name])
    return [full[name] for name in by_place], {name: full[name] for name in by_name}


def _is_numeric(value: Value) -> bool:
    """Whether a value is made of numbers: such a default is filled in, so that a masked number has its place."""
    items = value["tuple"] if values.tag_of(value) == "tuple" else [value]
    return bool(items) and all(
        values.tag_of(item) == "float" or (isinstance(item, int) and not isinstance(item, bool)) for item in items
    )


def _same(a: Value, b: Value) -> bool:
    """Equality that tells 1, True and 1.0 apart."""
    return a is b or (type(a) is type(b) and values.dumps(a) == values.dumps(b))
