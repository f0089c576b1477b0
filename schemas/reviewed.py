"""What the schemas of torch hide, reviewed by hand: effects of Python functions and of composite ops.

    reviewed("torch.nn.functional.embedding").writes     # the table, where max_norm is given
    reviewed("torch.add")                                # None: its schemas tell

Is: the table `REVIEWED` over canonical targets, which goes before the op table (`schemas.ops`). Reads and writes
nothing; no torch. `tests/schemas/test_effects.py` runs what samples exist for and compares what a function wrote, drew
and shared with what stands here.
"""

from collections.abc import Callable
from dataclasses import dataclass

from schemas.ops import Place
from schemas.values import Value

_F = "torch.nn.functional."


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """A condition on one parameter."""

    place: Place
    default: Value
    holds: Callable[[Value], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A parameter that is written where a condition holds; None for always."""

    place: Place
    where: Where | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """What one function does besides returning a value."""

    writes: tuple[Write, ...] = ()
    """What it writes."""
    random: tuple[Where, ...] | None = None
    """It draws from the generator where all of these hold; None for never."""
    is_fresh: bool = False
    """Whether its result is memory of its own, or what it wrote; else it may be that of any operand."""


# --- conditions -----------------------------------------------------------------------------------------------------
def _is_not_false(value: Value) -> bool:
    return value is not False


def _is_given(value: Value) -> bool:
    return value is not None


def _is_none(value: Value) -> bool:
    return value is None


def _is_not_zero(value: Value) -> bool:
    return value not in ({"float": "0.0"}, {"float": "-0.0"}) and (value is False or value != 0)


def _is_not_false_or_zero(value: Value) -> bool:
    return value is not False and _is_not_zero(value)


def _where(name: str, index: int | None, default: Value, holds: Callable[[Value], bool]) -> Where:
    return Where(place=Place(name=name, index=index), default=default, holds=holds)


def _write(name: str, index: int, where: Where | None = None) -> Write:
    return Write(place=Place(name=name, index=index), where=where)


def _statistics(first: int, where: Where | None = None) -> Reviewed:
    """Running statistics, from a place on; the result is memory of its own."""
    writes = (_write("running_mean", first, where), _write("running_var", first + 1, where))
    return Reviewed(writes=writes, is_fresh=True)


def _dropout(default: bool) -> Reviewed:
    where = _where("inplace", 3, False, _is_not_false)
    return Reviewed(
        writes=(_write("input", 0, where),), random=(_where("training", 2, default, _is_not_false),)
    )  # fmt: skip


def _named(prefix: str, names: str, row: Reviewed) -> dict[str, Reviewed]:
    return {prefix + name: row for name in names.split()}


_PURE, _FRESH = Reviewed(), Reviewed(is_fresh=True)
_TRAINING = _where("training", 5, False, _is_not_false)
_MAX_NORM = _where("max_norm", 3, None, _is_given)

# --- functions with effects -----------------------------------------------------------------------------------------
_DRAWING: dict[str, Reviewed] = {
    **_named(_F, "dropout dropout1d dropout2d dropout3d", _dropout(True)),
    **_named(_F, "alpha_dropout feature_alpha_dropout", _dropout(False)),
    **_named("torch.", "dropout alpha_dropout feature_dropout feature_alpha_dropout native_dropout",
             Reviewed(random=(_where("train", 2, None, _is_not_false),))),
    "torch.rrelu": Reviewed(random=(_where("training", 3, False, _is_not_false),)),
    _F + "rrelu": Reviewed(writes=(_write("input", 0, _where("inplace", 4, False, _is_not_false)),),
                           random=(_where("training", 3, False, _is_not_false),)),
    _F + "scaled_dot_product_attention": Reviewed(
        random=(_where("dropout_p", 4, {"float": "0.0"}, _is_not_zero),), is_fresh=True),
    _F + "multi_head_attention_forward": Reviewed(
        random=(_where("dropout_p", 10, None, _is_not_zero), _where("training", 13, True, _is_not_false))),
    _F + "gumbel_softmax": Reviewed(random=()),
    **_named(_F, "fractional_max_pool2d fractional_max_pool3d _fractional_max_pool2d _fractional_max_pool3d "
             "fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices",
             Reviewed(random=(_where("_random_samples", 5, None, _is_none),))),
    # (input, hx, params, has_biases, num_layers, dropout, train, ...) or one place later, with batch_sizes before hx
    **_named("torch.", "lstm gru rnn_tanh rnn_relu",
             Reviewed(random=(_where("dropout", 5, None, _is_not_zero),
                              _where("train", 6, None, _is_not_false_or_zero)))),
}  # fmt: skip
"""Functions that draw from the generator under a condition, or without a schema that says so."""

_HIDDEN_WRITES: dict[str, Reviewed] = {
    _F + "embedding": Reviewed(writes=(_write("weight", 1, _MAX_NORM),), is_fresh=True),
    # a call with the places of the first two exchanged, as it once was, is still accepted
    _F + "embedding_bag": Reviewed(writes=(_write("input", 0, _MAX_NORM), _write("weight", 1, _MAX_NORM))),
    _F + "_no_grad_embedding_renorm_": Reviewed(writes=(_write("weight", 0),)),
    _F + "batch_norm": _statistics(1, _TRAINING),
    **_named("torch.", "batch_norm native_batch_norm cudnn_batch_norm miopen_batch_norm _batch_norm_impl_index",
             _statistics(3, _TRAINING)),
    # copies the mean over its repeats back into the statistics, also where it does not use the input's
    _F + "instance_norm": _statistics(1), "torch.instance_norm": _statistics(3),
    **_named("torch.", "batch_norm_gather_stats batch_norm_gather_stats_with_counts", _statistics(3)),
    "torch.batch_norm_update_stats": _statistics(1),
    # returns its input where fake quantization is off
    **_named("torch.", "fused_moving_avg_obs_fake_quant _fused_moving_avg_obs_fq_helper",
             Reviewed(writes=tuple(_write(name, place) for place, name in enumerate(
                 ("running_min", "running_max", "scale", "zero_point"), start=3)))),
    # a place for the result that may be given by position
    **{target: Reviewed(writes=(_write("out", place, _where("out", place, None, _is_given)),), is_fresh=True)
       for target, place in ((_F + "normalize", 4), ("torch.norm", 4), ("torch.tensordot", 3))},
    # takes the memory of its source
    "torch.Tensor.set_": Reviewed(writes=(_write("self", 0), _write("source", 1))),
    "operator.setitem": Reviewed(writes=(_write("a", 0),)), "operator.delitem": Reviewed(writes=(_write("a", 0),)),
    **_named("operator.", "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift imatmul",
             Reviewed(writes=(_write("a", 0),), is_fresh=True)),
    "operator.iconcat": Reviewed(writes=(_write("a", 0),)),
    **_named("torch.Tensor.", "apply_ map_ map2_ share_memory_", Reviewed(writes=(_write("self", 0),))),
}  # fmt: skip
"""Functions that write an operand without a schema that says so."""

_IN_PLACE = {
    "relu": 1, "relu6": 1, "silu": 1, "mish": 1, "selu": 1, "hardswish": 1, "hardsigmoid": 1, "leaky_relu": 2, "elu": 2,
    "celu": 2, "hardtanh": 3, "threshold": 3, "_threshold": 3,
}  # fmt: skip
_OWN_MEMORY = frozenset({"relu6", "silu", "mish", "hardswish", "hardsigmoid", "leaky_relu", "elu", "hardtanh"})
INPLACE_PARAMETER: dict[str, int] = {
    **_IN_PLACE, "dropout": 3, "dropout1d": 3, "dropout2d": 3, "dropout3d": 3, "alpha_dropout": 3,
    "feature_alpha_dropout": 3, "rrelu": 4,
}  # fmt: skip
"""Functions of torch.nn.functional with a parameter `inplace` -> its position."""

# --- functions without effects --------------------------------------------------------------------------------------
_FRESH_FUNCTIONS = (
    "linear gelu glu softmax log_softmax softplus layer_norm rms_norm group_norm max_pool2d avg_pool2d "
    "adaptive_avg_pool2d interpolate pad one_hot"
)
_PURE_FUNCTIONS = (
    "adaptive_avg_pool1d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d "
    "adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices "
    "_adaptive_max_pool1d _adaptive_max_pool2d _adaptive_max_pool3d affine_grid avg_pool1d avg_pool3d bilinear "
    "binary_cross_entropy binary_cross_entropy_with_logits channel_shuffle native_channel_shuffle conv_tbc conv1d "
    "conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss cosine_similarity "
    "cross_entropy ctc_loss fold gaussian_nll_loss grid_sample grouped_mm hardshrink hinge_embedding_loss huber_loss "
    "kl_div l1_loss linear_cross_entropy local_response_norm logsigmoid lp_pool1d lp_pool2d lp_pool3d "
    "margin_ranking_loss max_pool1d max_pool3d max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices "
    "_max_pool1d _max_pool2d _max_pool3d max_unpool1d max_unpool2d max_unpool3d mse_loss multi_margin_loss "
    "multilabel_margin_loss multilabel_soft_margin_loss nll_loss pairwise_distance pdist pixel_shuffle pixel_unshuffle "
    "poisson_nll_loss prelu scaled_grouped_mm scaled_mm sigmoid smooth_l1_loss soft_margin_loss softmin softshrink "
    "softsign tanh tanhshrink triplet_margin_loss triplet_margin_with_distance_loss unfold upsample upsample_bilinear "
    "upsample_nearest _canonical_mask _in_projection _in_projection_packed _mha_shape_check _none_or_dtype "
    "_check_key_padding_mask _get_softmax_dim _verify_batch_size _verify_spatial_size _unpool_output_size "
    "_check_unpool_output_size _expand_single_value _list_or_empty _is_integer _list_with_default assert_int_or_pair"
)
_FRESH_COMPOSITES = (
    "matmul conv1d conv2d conv3d conv_transpose1d conv_transpose2d softmax log_softmax layer_norm group_norm outer max "
    "min std var square where"
)
_PURE_OF_TORCH = (
    "asarray as_tensor from_numpy frombuffer finfo iinfo is_tensor is_inference_mode_enabled compiled_with_cxx11_abi "
    "tensor lu unique unravel_index dsmm hsmm saddmm spmm Size sym_float sym_int sym_ite sym_max sym_min sym_not "
    "sym_sqrt sym_sum is_grad_enabled is_autocast_enabled broadcast_shapes "
    # their schemas promise memory of their own, and they yield views
    "unsafe_split unsafe_split_with_sizes"
)
_PURE_METHODS = (
    "element_size nelement ndimension dim_order tolist type float double half bfloat16 bool byte char short int long "
    "cfloat cdouble cpu cuda new new_tensor as_subclass unique lu to_sparse_coo is_shared has_names"
)
_PURE_OPERATORS = (
    "abs add and_ concat contains countOf eq floordiv ge getitem gt index indexOf inv invert is_ is_not le length_hint "
    "lshift lt matmul mod mul ne neg not_ or_ pos pow rshift sub truediv truth xor"
)
_PURE_BUILTINS = "abs bool complex float int len max min pow round sum"
_PURE_OF_FUNCTORCH = "_add_batch_dim _remove_batch_dim _wrap_for_grad _unwrap_for_grad _unwrap_batched"
_FUNCTORCH = ("torch._C._functorch.", "torch._functorch.predispatch.", "torch._functorch.vmap.")
_PURE_NESTED = (
    "cond while_loop scan map map_impl associative_scan wrap hints_wrapper invoke_subgraph flex_attention "
    "tag_activation_checkpoint wrap_activation_checkpoint autograd_function_apply"
)

REVIEWED: dict[str, Reviewed] = {
    **_named("torch.", _FRESH_COMPOSITES, _FRESH),
    **_named("torch.", _PURE_OF_TORCH, _PURE),
    **_named("torch.Tensor.", _PURE_METHODS, _PURE),
    **_named("operator.", _PURE_OPERATORS, _PURE),
    **_named("builtins.", _PURE_BUILTINS, _PURE),
    **_named("torch.ops.higher_order.", _PURE_NESTED, _PURE),
    **{prefix + name: _PURE for prefix in _FUNCTORCH for name in _PURE_OF_FUNCTORCH.split()},
    **_named(_F, _FRESH_FUNCTIONS, _FRESH),
    **_named(_F, _PURE_FUNCTIONS, _PURE),
    **{_F + name: Reviewed(writes=(_write("input", 0, _where("inplace", place, False, _is_not_false)),),
                           is_fresh=name in _OWN_MEMORY) for name, place in _IN_PLACE.items()},
    **_HIDDEN_WRITES, **_DRAWING,
}  # fmt: skip
"""Canonical target -> what it does."""


def reviewed(target: str) -> Reviewed | None:
    """The reviewed row of a canonical target; a function of `math` is pure; None if there is none."""
    if target.startswith("math."):
        return _PURE
    return REVIEWED.get(target)
