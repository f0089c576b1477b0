"""What an op is to a fusing compiler: one table from op name to class, and which classes a piece may hold.

Is: `CLASSES` (the table), `LEGALITY`, and `classes_of(graph)`. Reads and writes nothing; no torch.
Names are those of the canonical spelling (`schemas.roles`), without their namespace. What is not listed is opaque.
"""

from collections.abc import Sequence

from schemas import values
from schemas.canonical import nested_form
from schemas.effects import MUTATE, UNKNOWN, decided_by
from schemas.forms import Token, in_open_scopes, storage_classes, tokens_of
from schemas.graph import SCALAR_DTYPES, Graph, Node
from schemas.roles import spell

CLASSES: dict[str, str] = {
    "pointwise": "add sub mul div pow neg abs exp exp2 expm1 log log1p log2 sqrt rsqrt reciprocal square sin cos tan "
    "atan atan2 sinh cosh tanh sigmoid logsigmoid erf erfc relu relu6 gelu silu mish elu celu selu leaky_relu prelu "
    "hardtanh hardswish hardsigmoid softplus softsign tanhshrink clamp clamp_min clamp_max clip where maximum minimum "
    "fmod remainder floor_divide floor ceil round trunc sign eq ne lt le gt ge isnan isinf isfinite logical_and "
    "logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not masked_fill lerp addcmul "
    "addcdiv to type_as type nan_to_num tril triu polar rsub threshold glu rad2deg deg2rad logaddexp clone",
    "broadcast": "expand expand_as broadcast_to",
    "reduction": "sum mean amax amin max min prod var std var_mean norm vector_norm argmax argmin all any logsumexp "
    "softmax log_softmax layer_norm rms_norm batch_norm group_norm instance_norm normalize softmin count_nonzero "
    "cosine_similarity",
    "scan": "cumsum cumprod cummax cummin logcumsumexp",
    "view": "view reshape flatten unflatten permute transpose t swapaxes movedim squeeze unsqueeze chunk split unbind "
    "narrow select view_as reshape_as mT T tensor_split detach contiguous real imag view_as_real view_as_complex "
    "diagonal unfold",
    "shuffle": "cat stack roll flip repeat tile pixel_shuffle pixel_unshuffle channel_shuffle concat pad",
    "gather": "gather index_select take take_along_dim embedding index repeat_interleave grid_sample interpolate "
    "masked_select",
    "scatter": "scatter scatter_add scatter_reduce index_add index_copy index_put index_fill one_hot masked_scatter",
    "contraction": "linear matmul bmm mm mv dot addmm baddbmm einsum conv1d conv2d conv3d conv_transpose1d "
    "conv_transpose2d conv_transpose3d scaled_dot_product_attention bilinear outer tensordot cdist "
    "multi_head_attention_forward",
    "pool": "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
    "adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d lp_pool2d im2col",
    "factory": "zeros ones empty full arange zeros_like ones_like full_like empty_like new_zeros new_ones new_full "
    "new_empty linspace eye tensor scalar_tensor",
    "sync": "item tolist nonzero unique equal is_nonzero numpy cpu cuda",
    "free": "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout",
}  # fmt: skip
"""Class -> op names. `free` ops compute nothing here: dropout outside training is the identity. `random` and `effect`
come from `schemas.effects`, `getitem` from its operands, everything else is opaque."""

LEGALITY: dict[str, tuple[bool, bool, str]] = {
    "pointwise": (True, True, "each element from the same place of the operands"),
    "reduction": (True, True, "one pass over a dimension"),
    "shuffle": (True, True, "each element copied from one known place"),
    "broadcast": (True, False, "no memory of its own"),
    "view": (True, False, "no memory of its own, or one copy"),
    "free": (True, False, "computes nothing"),
    "factory": (True, False, "known without input"),
    "scan": (False, True, "carries a value along a dimension"),
    "gather": (False, True, "reads at places that are data"),
    "scatter": (False, True, "writes at places that are data"),
    "contraction": (False, True, "a library kernel is hard to beat"),
    "pool": (False, True, "overlapping windows"),
    "random": (False, True, "its result may not be repeated"),
    "sync": (False, True, "waits for the device"),
    "effect": (False, True, "does more than return a value"),
    "opaque": (False, True, "nothing is known of it"),
}
"""Class -> (a piece may hold it, it counts as a compute op, why)."""

OPAQUE, CONTRACTION = "opaque", "contraction"
_CLASS_OF = {name: cls for cls, names in CLASSES.items() for name in names.split()}


def is_fusible(cls: str) -> bool:
    """Whether a piece may hold ops of a class."""
    return LEGALITY[cls][0]


def is_compute(cls: str) -> bool:
    """Whether ops of a class count as computing; views and the like are free."""
    return LEGALITY[cls][1]


def stands_alone(cls: str) -> bool:
    """Whether an op of a class, cut out, computes what it computes in its graph."""
    return cls not in ("", "random", "sync", "effect", "opaque")


def class_of(node: Node, token: Token, operands: Sequence[Node]) -> str:
    """The class of one call."""
    spelled, _ = spell(node.op, node.target, values.loads(node.attrs), tensor=len(node.outputs) == 1)
    custom = spelled.startswith("torch.ops.")
    if token.effect is not None:
        if decided_by(spelled) == UNKNOWN and not custom:
            return "opaque"  # its effect is assumed, because nothing is known of it
        return "random" if token.effect.kind == "random" else "effect"
    if not node.outputs or any(spec.dtype in SCALAR_DTYPES for spec in node.outputs):
        return "sync" if token.short in ("item", "tolist") else "opaque"
    if token.short == "getitem":
        return _class_of_getitem(node, operands)
    return _CLASS_OF.get(token.short if custom else spelled.rpartition(".")[2], "opaque")


def _class_among(known: dict[object, str], node: Node, token: Token, graph: Graph) -> str:
    """The class of a call; those alike share one look-up."""
    operands = [graph.nodes[k] for k in node.inputs]
    many = bool(operands) and len(operands[0].outputs) > 1
    look = (node.op, node.target, node.attrs, token.records[0], len(operands), many)
    if look not in known:
        known[look] = class_of(node, token, operands)
    return known[look]


def _class_of_getitem(node: Node, operands: Sequence[Node]) -> str:
    if len(operands) > 1:
        return "gather"
    index = values.loads(node.attrs)["args"][1]
    if isinstance(index, int) and len(operands[0].outputs) > 1:
        return "free"
    has_list = any(isinstance(item, list) for item in values.walk(index))
    return "gather" if has_list else "view"


def classes_of(graph: Graph, tokens: Sequence[Token] | None = None) -> list[str]:
    """The class of every node; "" for what is not a call.

    Calls inside a vmap or an enabled autocast are opaque: cut out, they would compute something else. Calls that touch
    storage which something writes are effects: cut out, they could read it at another time. `tokens` are the graph's,
    if known.
    """
    tokens = tokens_of(graph, tuple(nested_form(text) for text in graph.subgraphs)) if tokens is None else tokens
    known: dict[object, str] = {}
    found: list[str] = []
    for node, token, scoped in zip(graph.nodes, tokens, in_open_scopes(graph, tokens), strict=True):
        cls = _class_among(known, node, token, graph) if node.is_call else ""
        found.append("opaque" if stands_alone(cls) and scoped else cls)
    for index in _touches_written(graph, tokens):
        found[index] = "effect" if stands_alone(found[index]) else found[index]
    return found


def _touches_written(graph: Graph, tokens: Sequence[Token]) -> list[int]:
    effects = [(i, token.effect) for i, token in enumerate(tokens) if token.effect is not None]
    writes = [graph.nodes[i].inputs[k] for i, effect in effects if effect.kind == MUTATE for k in effect.writes]
    if not writes:
        return []
    classes = storage_classes(graph, tokens, range(len(graph.nodes)))
    written = {classes[k] for k in writes}
    return [i for i, node in enumerate(graph.nodes) if any(classes[k] in written for k in (i, *node.inputs))]
