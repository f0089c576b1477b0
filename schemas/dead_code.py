"""Dead calls of an FX graph: what may go because nothing reads it and it does nothing else.

    count = remove_dead_calls(gm)       # the calls that were removed; the graph computes and writes what it did
    effect_of_node(node, tensor=True).written

Reads and changes a `torch.fx.GraphModule`; writes nothing. The one predicate is that of identity
(`schemas.effects.effect_of` over canonical spellings): torch.fx's own dead-code elimination takes an in-place method,
`out=`, `inplace=True` and a setitem for pure, and would drop writes. A call that the IR does not hold is kept, so that
lifting says what it is.
"""

from collections.abc import Container
from dataclasses import dataclass

import torch

from schemas import roles
from schemas.effects import Effect, effect_of
from schemas.fx import NotRepresentable, encoded_call, node_specs
from schemas.graph import SCALAR_DTYPES


def remove_dead_calls(gm: torch.fx.GraphModule, *, keep: Container[torch.fx.Node] = ()) -> int:
    """Remove calls and constants that nothing reads, but those in `keep` and those with an effect; -> how many."""
    removed = 0
    for node in reversed(gm.graph.nodes):
        if not node.users and node not in keep and _is_pure(gm, node):
            gm.graph.erase_node(node)
            removed += 1
    if removed:
        gm.recompile()
    return removed


def _is_pure(gm: torch.fx.GraphModule, node: torch.fx.Node) -> bool:
    """Whether a node does nothing but make its value."""
    if node.op not in ("call_function", "call_method"):
        return node.op == "get_attr"
    try:
        specs = node_specs(node)
        is_tensor = len(specs) == 1 and specs[0].dtype not in SCALAR_DTYPES
        nested = any(_has_effects(_nested(gm, operand)) for operand in node.all_input_nodes)
        return effect_of_node(node, tensor=is_tensor, nested_effects=nested).effect is None
    except NotRepresentable:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEffect:
    """What a node does besides making its value."""

    target: str
    """The canonical target of its call."""
    effect: Effect | None
    written: tuple[torch.fx.Node, ...]
    """Operands whose storage it may write."""


def effect_of_node(node: torch.fx.Node, *, tensor: bool, nested_effects: bool = False) -> NodeEffect:
    """What identity says of a call of an FX graph; `tensor` as in `roles.spell`. Raises NotRepresentable."""
    operands: list[torch.fx.Node] = []

    def number(operand: torch.fx.Node) -> int:
        operands.append(operand)
        return len(operands) - 1

    target, attrs = encoded_call(node, number)
    spelled, attrs = roles.spell(node.op, target, attrs, tensor=tensor)
    effect = effect_of(spelled, attrs, nested_effects=nested_effects)
    written = tuple(operands[k] for k in effect.writes) if effect is not None else ()
    return NodeEffect(target=spelled, effect=effect, written=written)


def _nested(gm: torch.fx.GraphModule, node: torch.fx.Node) -> torch.fx.GraphModule | None:
    """The graph that a node brings to a call, None for a tensor."""
    if node.op != "get_attr":
        return None
    found = gm
    for part in str(node.target).split("."):
        found = getattr(found, part)
    return found if isinstance(found, torch.fx.GraphModule) else None


def _has_effects(gm: torch.fx.GraphModule | None) -> bool:
    calls = [] if gm is None else [node for node in gm.graph.nodes if node.op.startswith("call_")]
    return gm is not None and not all(_is_pure(gm, node) for node in calls)
