"""Which tensors of a forward have known values although the weights are fake, and how a call runs on them.

    known = Known(built)
    known.value(mask)                                # its real values, or None
    done = done_by(torch.any, (mask,), {})           # what it writes, and whether it draws
    known.run(torch.any, (mask,), {}, done)          # for real where all operands are known, else on fake tensors

Known are: results of factory calls of moderate size, integer and boolean inputs, buffers that a constructor computed,
and whatever is computed from these alone; never parameters, running statistics or what was drawn. A known tensor that
something unknown is written into is known no longer, nor are its views. What a call writes and draws is what identity
says (`schemas.effects`), so that hidden writes count too. Reads and writes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils import _pytree as pytree

from extract.build import FACTORIES, Built, is_moderate
from extract.initialisers import STATISTICS
from extract.spelled_call import spelled_call
from schemas.dead_code import effect_of_node
from schemas.effects import UNKNOWN, decided_by
from schemas.fx import NotRepresentable

ALIKE = frozenset("zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty new_tensor".split())
"""Calls that need the dtype and shape of their operand, not its values."""
FITTED = frozenset({"expand_as", "view_as", "reshape_as", "type_as"})
"""Methods that need the dtype and shape of their argument, not its values."""


class Known:
    """The values known in one call of a model."""

    def __init__(self, built: Built) -> None:
        self.built = built
        self._lost: dict[int, torch.UntypedStorage] = {}
        """Storages that something unknown was written into, kept alive so that no other gets their number."""

    def value(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The real values of a tensor, or None."""
        if self._is_lost(tensor):
            return None
        if not isinstance(tensor, FakeTensor):
            return tensor
        name = self.built.name_of(tensor) or ""
        if isinstance(tensor, torch.nn.Parameter) or name.rpartition(".")[2] in STATISTICS:
            return None
        data = self.built.data_of(tensor)
        return None if data is None or self._is_lost(data) else data

    def _is_lost(self, tensor: torch.Tensor) -> bool:
        return int(tensor.untyped_storage()._cdata) in self._lost

    def _lose(self, tensor: torch.Tensor) -> None:
        """Something unknown is written into a tensor: its storage, and the one of its values, are known no longer."""
        for item in (tensor, self.built.data_of(tensor)):
            if item is not None:
                self._lost[int(item.untyped_storage()._cdata)] = item.untyped_storage()

    def run(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], done: "Done") -> Any:
        """The result of a call that does this and that besides: real if it can be, else fake."""
        if self.built.mode is None:
            return func(*args, **kwargs)
        operands = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if not operands and not (func in (*FACTORIES, torch.empty) and is_moderate(func, args, kwargs)):
            return func(*args, **kwargs)
        if func.__name__ in ALIKE and _is_moderate_like(func.__name__, args, kwargs):
            args = (_blank(args[0]), *args[1:])
            operands = operands[1:]
        if func.__name__ in FITTED and len(args) == 2:
            args = (args[0], _blank(args[1]))
            operands = operands[:1]
        values = {id(operand): self.value(operand) for operand in operands}
        unknown = done.is_random or any(value is None for value in values.values())
        if unknown or any(isinstance(item, FakeTensor) for item in done.written):
            for item in done.written:
                self._lose(item)
            return func(*args, **kwargs)
        with unset_fake_temporarily():
            given, spec = pytree.tree_flatten((args, kwargs))
            real = [values.get(id(leaf), leaf) for leaf in given]
            real_args, real_kwargs = pytree.tree_unflatten(real, spec)
            return func(*real_args, **real_kwargs)


def _is_moderate_like(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    sizes = tuple(args[0].shape) if name.endswith("_like") else args[1:]
    return name == "new_tensor" or is_moderate(torch.zeros, sizes, kwargs)


def _blank(tensor: torch.Tensor) -> torch.Tensor:
    """A real tensor of the same dtype and shape."""
    with unset_fake_temporarily():
        return torch.empty(tuple(tensor.shape), dtype=tensor.dtype)


# --- what a call does -----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a call does besides returning a value."""

    written: tuple[torch.Tensor, ...] = ()
    """Tensors that it may write."""
    is_random: bool = False
    """Whether it draws from the generator."""


def done_by(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Done:
    """What a call does by the tables of identity; by its name where they do not know it."""
    graph, tensors = torch.fx.Graph(), dict[torch.fx.Node, torch.Tensor]()

    def stand_in(tensor: torch.Tensor) -> torch.fx.Node:
        node = graph.placeholder("operand")
        tensors[node] = tensor
        return node

    try:
        op, target, given = spelled_call(func, args)
        given, named = pytree.tree_map_only(torch.Tensor, stand_in, (tuple(given), dict(kwargs)))
        found = effect_of_node(graph.create_node(op, target, given, named), tensor=True)
    except (NotRepresentable, AttributeError):
        return _done_by_name(func.__name__, args, kwargs)
    if decided_by(found.target) == UNKNOWN:
        return _done_by_name(func.__name__, args, kwargs)
    if found.effect is None:
        return Done()
    return Done(written=tuple(tensors[node] for node in found.written), is_random=found.effect.is_random)


def _done_by_name(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Done:
    if kwargs.get("out") is not None:
        return Done(written=tuple(pytree.tree_leaves(kwargs["out"])))
    if (name.endswith("_") and not name.endswith("__")) or bool(kwargs.get("inplace")):
        return Done(written=tuple(leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor))[:1])
    return Done()
