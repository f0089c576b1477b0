"""Which calls do more than return a value, and where reads stand between the writes.

Is: `effect_of(target, attrs)` over canonical spellings (`schemas.roles.spell`), and `versions(...)`.
Reads and writes nothing; no torch.

| effect  | example                                  | what must not move                                   |
|---------|------------------------------------------|------------------------------------------------------|
| mutate  | add_, operator.iadd, setitem, out=       | other effects; reads of storage that it may write    |
| random  | dropout(training), rand, bernoulli       | other effects                                        |
| check   | _assert_async, _check                    | other effects                                        |
| scope   | _set_grad_enabled, _enter_autocast, vmap | other effects; every call                            |

Effects form one chain in the order of the graph. Soundness of reads: values are grouped into *alias classes* by
union over every call that is not known to return fresh memory (views, unknown calls, in-place results), so two
values of different classes never share storage. A read's *version* is the number of writes to its class before it:
moving a read across a write that it could see changes its version, hence the form. The rule is conservative: forms
of graphs that mutate can differ although their meaning is equal, never the other way round.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas import values
from schemas.roles import short_name
from schemas.values import Value

MUTATE, RANDOM, CHECK, SCOPE = "mutate", "random", "check", "scope"


@dataclass(frozen=True, slots=True)
class Effect:
    """What a call does besides returning a value."""

    kind: str
    """mutate, random, check or scope."""
    writes: tuple[int, ...] = ()
    """Operand numbers whose storage it may write."""


_INPLACE_OPERATORS = frozenset(
    f"operator.{name}"
    for name in "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift imatmul iconcat setitem "
    "delitem".split()
)
_PURE_DESPITE_UNDERSCORE = frozenset({"and_", "or_", "not_", "is_"})
_SCOPES = frozenset(
    "_set_grad_enabled set_grad_enabled _enter_autocast _exit_autocast _vmap_increment_nesting _vmap_decrement_nesting "
    "lazy_load_decompositions _enter_inference_mode _exit_inference_mode _set_autograd_fallback_mode _autograd_init "
    "_saved_tensors_hooks_enable _saved_tensors_hooks_disable _jvp_increment_nesting _jvp_decrement_nesting "
    "_grad_increment_nesting _grad_decrement_nesting".split()
)
_CHECKS = frozenset(
    "_assert _assert_async _assert_scalar _assert_tensor_metadata _check _check_is_size sym_constrain_range "
    "sym_constrain_range_for_size _log_api_usage_once".split()
)
_RANDOM = frozenset(
    "rand randn randint randperm rand_like randn_like randint_like bernoulli multinomial normal poisson binomial "
    "native_dropout gumbel_softmax".split()
)
_TRAINING: dict[str, tuple[int, bool]] = {
    **dict.fromkeys(
        "dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout".split(), (2, True)
    ),
    "rrelu": (3, False),
}
"""Random only in training: op -> (position of `training`, its default)."""
INPLACE_PARAMETER = {
    "relu": 1, "relu6": 1, "silu": 1, "mish": 1, "selu": 1, "hardswish": 1, "hardsigmoid": 1, "leaky_relu": 2, "elu": 2,
    "celu": 2, "hardtanh": 3, "threshold": 3, "dropout": 3, "dropout1d": 3, "dropout2d": 3, "dropout3d": 3,
    "alpha_dropout": 3, "feature_alpha_dropout": 3, "rrelu": 4,
}  # fmt: skip
"""Functions with a positional `inplace` parameter."""
_KNOWN_OPERATOR_SPACES = ("torch.ops.aten.", "torch.ops.prims.", "torch.ops.higher_order.")


def _parameter(attrs: Value, position: int, name: str, default: Value) -> Value:
    args = attrs["args"]
    return args[position] if position < len(args) else attrs["kwargs"].get(name, default)


def _operands(value: Value) -> tuple[int, ...]:
    return tuple(item["in"] for item in values.walk(value) if values.tag_of(item) == "in")


def _all_operands(attrs: Value) -> tuple[int, ...]:
    return _operands([attrs["args"], list(attrs["kwargs"].values())])


def _is_random(name: str, attrs: Value) -> bool:
    if name in _RANDOM:
        return True
    if name in _TRAINING:
        position, default = _TRAINING[name]
        return _parameter(attrs, position, "training", default) is not False
    if name == "scaled_dot_product_attention":
        return _parameter(attrs, 4, "dropout_p", {"float": "0.0"}) not in ({"float": "0.0"}, 0)
    return False


def _written(target: str, name: str, attrs: Value) -> tuple[int, ...]:
    """Operand numbers that a call may write."""
    first = attrs["args"][0] if attrs["args"] else next(iter(attrs["kwargs"].values()), None)
    in_place_name = name.endswith("_") and not name.endswith("__") and name not in _PURE_DESPITE_UNDERSCORE
    position = INPLACE_PARAMETER.get(name)
    flag = attrs["kwargs"].get("inplace") if position is None else _parameter(attrs, position, "inplace", False)
    if target in _INPLACE_OPERATORS or in_place_name or flag not in (None, False):
        return _operands(first)
    if "out" in attrs["kwargs"]:
        return _operands(attrs["kwargs"]["out"])
    if name in ("batch_norm", "instance_norm") and _parameter(attrs, 5, "training", False) is not False:
        statistics = [_parameter(attrs, k, key, None) for k, key in ((1, "running_mean"), (2, "running_var"))]
        return _operands(statistics)
    return ()


def effect_of(target: str, attrs: Value, *, nested_effects: bool = False) -> Effect | None:
    """The effect of a call in canonical spelling, or None for a pure one.

    `nested_effects` says that a nested graph among the operands has effects. A custom op is assumed to write all its
    operands, since its schema is not known here.
    """
    name = short_name(target)
    custom = target.startswith("torch.ops.") and not target.startswith(_KNOWN_OPERATOR_SPACES)
    if custom or nested_effects:
        return Effect(MUTATE, _all_operands(attrs))
    if name in _SCOPES:
        return Effect(SCOPE)
    if name in _CHECKS:
        return Effect(CHECK)
    written = _written(target, name, attrs)
    if written:
        return Effect(MUTATE, written)
    return Effect(RANDOM) if _is_random(name, attrs) else None


_FRESH = frozenset(
    f"torch.{name}"
    for name in "add sub mul div matmul bmm pow neg abs exp log sqrt rsqrt sin cos tanh sigmoid relu erf reciprocal "
    "square clamp softmax log_softmax sum mean amax amin eq ne lt le gt ge masked_fill cumsum argmax argmin floor ceil "
    "round sign bitwise_and bitwise_or bitwise_xor bitwise_not logical_and logical_or logical_xor logical_not "
    "index_select gather tril triu flip roll var std maximum minimum isnan isinf floor_divide remainder conv1d conv2d "
    "conv3d conv_transpose1d conv_transpose2d addmm baddbmm cat stack where zeros ones empty full arange zeros_like "
    "ones_like full_like empty_like linspace eye layer_norm group_norm outer min max rand randn".split()
) | frozenset(
    f"torch.nn.functional.{name}"
    for name in "linear embedding layer_norm rms_norm group_norm batch_norm gelu silu softmax log_softmax softplus elu "
    "leaky_relu hardtanh hardswish hardsigmoid relu6 mish glu scaled_dot_product_attention max_pool2d avg_pool2d "
    "adaptive_avg_pool2d interpolate pad one_hot normalize conv1d conv2d".split()
)
"""Calls known to return memory of their own (when not in place)."""


def shared_operands(target: str, effect: Effect | None, *, tensor: bool) -> tuple[int, ...] | None:
    """Operand numbers whose storage the result of a call in canonical spelling may share; None for all.

    An in-place call that yields one tensor yields the one it wrote.
    """
    if effect is None:
        return () if target in _FRESH else None
    if effect.kind in (CHECK, SCOPE):
        return ()
    return effect.writes if effect.kind == MUTATE and tensor else None


def alias_classes(shared: Sequence[Sequence[int]]) -> list[int]:
    """A class number for every value: values that may share storage have the same one.

    `shared[i]` are the earlier values whose storage value i may share.
    """
    parent = list(range(len(shared)))
    for index, sources in enumerate(shared):
        if not sources:
            continue
        own = index
        for source in sources:
            root = parent[source]
            while parent[root] != root:
                root = parent[root]
            if root < own:
                own, root = root, own
            parent[root] = own
        parent[index] = own
    for index, above in enumerate(parent):
        parent[index] = parent[above]
    return parent
