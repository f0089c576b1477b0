"""Calls of torch as graphs of the IR, lifted from FX with the values of a real run as specs."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from schemas.fx import lift, lower
from schemas.graph import Graph


class Tracer:
    """A graph in the making: every call runs at once, on values of its own, and is recorded with what it yielded.

    t = Tracer(); x = t.input(torch.randn(3)); y = t.method("add_", t.method("clone", x), 1); t.graph(y)
    """

    def __init__(self) -> None:
        self.fx = torch.fx.Graph()
        self.values: dict[torch.fx.Node, Any] = {}
        self.inputs: list[torch.Tensor] = []

    def input(self, value: torch.Tensor) -> torch.fx.Node:
        """A placeholder that holds a copy of the value, of the same strides."""
        node = self.fx.placeholder(f"x{len(self.inputs)}")
        self.inputs.append(value)
        return self._kept(node, copy_of(value))

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> torch.fx.Node:
        """A call of a function; raises what it raises, and then records nothing."""
        if isinstance(function, partial):
            return self.call(function.func, *args, **function.keywords, **kwargs)
        given, named = self._given(args, kwargs)
        made = function(*given, **named)
        return self._kept(self.fx.call_function(function, args, kwargs), made)

    def method(self, name: str, *args: Any, **kwargs: Any) -> torch.fx.Node:
        """A call of a method."""
        given, named = self._given(args, kwargs)
        made = getattr(given[0], name)(*given[1:], **named)
        return self._kept(self.fx.call_method(name, args, kwargs), made)

    def graph(self, *outputs: torch.fx.Node) -> Graph:
        """The finished graph, its outputs one flat tuple."""
        return self.lifted(self.module(*outputs))

    def module(self, *outputs: torch.fx.Node) -> torch.fx.GraphModule:
        """The recorded calls as a module that yields a flat tuple."""
        self.fx.output(tuple(outputs))
        return torch.fx.GraphModule(torch.nn.Module(), self.fx)

    def lifted(self, module: torch.fx.GraphModule) -> Graph:
        """The graph of a module made of the recorded calls."""
        return lift(module)

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return pytree.tree_map(lambda a: self.values.get(a, a) if isinstance(a, torch.fx.Node) else a, (args, kwargs))  # type: ignore[no-any-return]

    def _kept(self, node: torch.fx.Node, value: Any) -> torch.fx.Node:
        self.values[node] = value
        tensors = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        if tensors or isinstance(value, torch.Tensor):
            # the metadata as it is now: a later call may change it in place
            node.meta["val"] = pytree.tree_map(lambda v: v.detach() if isinstance(v, torch.Tensor) else v, value)
        return node


def copy_of(value: torch.Tensor) -> torch.Tensor:
    """A tensor of the same numbers and strides in memory of its own."""
    last = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True)) + 1
    room = torch.empty(last if value.numel() else 0, dtype=value.dtype)
    made = room.as_strided(value.shape, value.stride())
    flat = value.as_strided((room.numel(),), (1,)) if room.numel() else value
    room.copy_(flat.reshape(room.shape))
    return made


def bits(value: torch.Tensor) -> bytes:
    """The numbers of a tensor byte by byte, every NaN the same."""
    value = value.detach().resolve_conj().resolve_neg()
    value = torch.view_as_real(value) if value.is_complex() else value
    if value.dtype.is_floating_point:
        value = torch.where(value.isnan(), torch.tensor(torch.nan, dtype=value.dtype), value)
    return value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""


def looks(value: Any) -> Any:
    """Everything that two results are compared by: dtype, shape, strides and bits of every tensor in them."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.stride(), bits(value)
    if isinstance(value, list | tuple):
        return [looks(item) for item in value]
    return repr(value)


def run(graph: Graph, inputs: Sequence[torch.Tensor], seed: int = 0) -> Any:
    """What a graph yields and what it leaves in its inputs, on copies of them, from a seed; "raises" if it raises."""
    given = [copy_of(value) for value in inputs]
    torch.default_generator.manual_seed(seed)
    try:
        made = lower(graph)(*given)
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
        return "raises"
    return looks(made), looks(given)
