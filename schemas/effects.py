"""Which calls do more than return a value, and where reads stand between the writes.

Is: `effect_of(target, attrs)` over canonical spellings (`schemas.roles.spell`), `decided_by(target)`, and
`alias_classes(...)`. What a call does comes from the reviewed functions (`schemas.reviewed`), then from the op table,
which is made from torch's schemas (`schemas.ops`). Reads and writes nothing else; no torch.

| effect  | example                                  | what must not move                                   |
|---------|------------------------------------------|------------------------------------------------------|
| mutate  | add_, operator.iadd, setitem, out=       | other effects; reads of storage that it may write    |
| random  | dropout(training), rand, bernoulli       | other effects                                        |
| check   | _assert_async, _check                    | other effects                                        |
| scope   | _set_grad_enabled, _enter_autocast, vmap | other effects; every call                            |

Effects form one chain in the order of the graph. What neither table knows (a custom op, a method of no tensor) is taken
to draw from the generator and to write all its operands, and to open a scope if it is one of functorch's or torch._C's.

Soundness of reads: values are grouped into *alias classes* by union over every call that is not known to return fresh
memory (views, unknown calls, in-place results), so two values of different classes never share storage. A read's
*version* is the number of writes to its class before it: moving a read across a write that it could see changes its
version, hence the form. The rule is conservative: forms of graphs that mutate can differ although their meaning is
equal, never the other way round.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from schemas import values
from schemas.ops import Op, Place, op_named
from schemas.reviewed import INPLACE_PARAMETER, Reviewed, Where, reviewed
from schemas.roles import short_name
from schemas.values import Value

__all__ = ["CHECK", "INPLACE_PARAMETER", "MUTATE", "RANDOM", "SCOPE", "Effect", "alias_classes", "decided_by",
           "effect_of", "row_of", "shared_operands"]  # fmt: skip
MUTATE, RANDOM, CHECK, SCOPE = "mutate", "random", "check", "scope"


@dataclass(frozen=True, slots=True)
class Effect:
    """What a call does besides returning a value."""

    kind: str
    """mutate, random, check or scope."""
    writes: tuple[int, ...] = ()
    """Operand numbers whose storage it may write."""
    is_random: bool = False
    """Whether it draws from the generator, whatever else it does."""


HARMLESS_SCOPES = frozenset(
    "_set_grad_enabled set_grad_enabled lazy_load_decompositions _enter_inference_mode _exit_inference_mode "
    "_set_autograd_fallback_mode _autograd_init _saved_tensors_hooks_enable _saved_tensors_hooks_disable".split()
)
"""Scopes that change what is recorded for gradients, not what is computed."""
_CHECKS = frozenset(
    "_assert _assert_async _assert_scalar _assert_tensor_metadata _check _check_is_size sym_constrain_range "
    "sym_constrain_range_for_size _functional_assert_async _functional_assert_scalar _functional_sym_constrain_range "
    "_functional_sym_constrain_range_for_size _log_api_usage_once".split()
)
_SCOPES = HARMLESS_SCOPES | frozenset(
    "_enter_autocast _exit_autocast _vmap_increment_nesting _vmap_decrement_nesting _jvp_increment_nesting "
    "_jvp_decrement_nesting _grad_increment_nesting _grad_decrement_nesting".split()
)
_PREFIXES = {"torch": "", "torch.special": "special_", "torch.linalg": "linalg_", "torch.fft": "fft_"}
"""Namespace -> prefix of its functions in the op table."""
_MACHINERY = ("torch._C", "torch._functorch", "torch.amp")
SCHEMA, REVIEWED, UNKNOWN = "schema", "reviewed", "unknown"


# --- the row of a target --------------------------------------------------------------------------------------------
@cache
def row_of(target: str) -> Reviewed | Op | None:
    """What the tables say of a canonical target; None for nothing."""
    space, _, name = target.rpartition(".")
    if target.startswith("torch.ops."):
        space, name = (*target.removeprefix("torch.ops.").split(".", 2), "")[:2]
        if space == "aten":
            return reviewed(f"torch.{name}") or reviewed(f"torch.Tensor.{name}") or op_named(name)
        return reviewed(target) or op_named(f"{space}.{name}")
    found = reviewed(target)
    if found is not None:
        return found
    if space == "torch.nn.functional":
        return op_named(name) if name.endswith("_") else None
    if space in ("torch.Tensor", "torch._C._nn"):
        return reviewed(f"torch.{name}") or op_named(name)
    return op_named(_PREFIXES[space] + name) if space in _PREFIXES else None


def decided_by(target: str) -> str:
    """How the effects of a canonical target were decided: by its schema, by review, or not at all."""
    if short_name(target) in _SCOPES | _CHECKS:
        return REVIEWED
    row = row_of(target)
    return UNKNOWN if row is None else SCHEMA if isinstance(row, Op) else REVIEWED


# --- effects --------------------------------------------------------------------------------------------------------
def _parameter(attrs: Value, place: Place, default: Value) -> Value:
    args = attrs["args"]
    if place.index is not None and place.index < len(args):
        return args[place.index]
    return attrs["kwargs"].get(place.name, default)


def _operands(value: Value) -> tuple[int, ...]:
    return tuple(item["in"] for item in values.walk(value) if values.tag_of(item) == "in")


def _all_operands(attrs: Value) -> tuple[int, ...]:
    return _operands([attrs["args"], list(attrs["kwargs"].values())])


def _of_places(attrs: Value, places: Iterable[Place]) -> tuple[int, ...]:
    """The operands given for some parameters; `self` is what is given first, under whatever name."""
    found = [_parameter(attrs, place, None) for place in places]
    if not attrs["args"] and any(place.index == 0 for place in places):
        found += list(attrs["kwargs"].values())[:1]
    return _operands(found)


def _holds(attrs: Value, where: Where | None) -> bool:
    return where is None or where.holds(_parameter(attrs, where.place, where.default))


def _written(row: Reviewed | Op, attrs: Value) -> tuple[int, ...]:
    """Operand numbers that a call may write."""
    out = _operands(attrs["kwargs"].get("out"))
    if isinstance(row, Op):
        return tuple(dict.fromkeys((*_of_places(attrs, row.writes), *out)))
    return tuple(dict.fromkeys((*_of_places(attrs, [w.place for w in row.writes if _holds(attrs, w.where)]), *out)))


def _is_random(row: Reviewed | Op, attrs: Value) -> bool:
    if isinstance(row, Op):
        return row.is_random
    return row.random is not None and all(_holds(attrs, where) for where in row.random)


def effect_of(target: str, attrs: Value, *, nested_effects: bool = False) -> Effect | None:
    """The effect of a call in canonical spelling, or None for a pure one.

    `nested_effects` says that a nested graph among the operands has effects.
    """
    if nested_effects:
        return Effect(MUTATE, _all_operands(attrs), is_random=True)
    name = short_name(target)
    if name in _SCOPES:
        return Effect(SCOPE)
    if name in _CHECKS:
        return Effect(CHECK)
    row = row_of(target)
    if row is None:
        return Effect(SCOPE if target.startswith(_MACHINERY) else MUTATE, _all_operands(attrs), is_random=True)
    written, is_random = _written(row, attrs), _is_random(row, attrs)
    if written:
        return Effect(MUTATE, written, is_random=is_random)
    return Effect(RANDOM, is_random=True) if is_random else None


# --- sharing --------------------------------------------------------------------------------------------------------
def shared_operands(target: str, attrs: Value, effect: Effect | None, *, tensor: bool) -> tuple[int, ...] | None:
    """Operand numbers whose storage the result of a call in canonical spelling may share; None for all.

    What a call writes counts as shared, so that an in-place call and the tensor that it wrote are of one class.
    """
    if effect is not None and effect.kind in (CHECK, SCOPE):
        return () if not effect.writes else None
    row = row_of(target)
    written = effect.writes if effect is not None else ()
    if isinstance(row, Op) and row.shares is not None:
        return tuple(dict.fromkeys((*_of_places(attrs, row.shares), *written)))
    return written if isinstance(row, Reviewed) and row.is_fresh and tensor else None


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
