"""What shapes and dtypes a graph has: it runs on fake tensors, which compute no numbers but those that are known.

    specs = propagate(graph)                         # what fake tensors say the shapes and dtypes are
    half  = respecify(graph, half_specs)             # the same ops on other input specs
    with on_fakes(): called(torch.full, (sizes, 1.5), {})     # one call, as in `propagate`

Reads graphs; writes nothing. Needs torch.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import _refs
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from schemas.fx import example_input, lower, specs_of
from schemas.graph import CONSTANT, OUTPUT, SUBGRAPH, Graph, TensorSpec
from schemas.known import UNKNOWN, computed_constants


@contextmanager
def on_fakes() -> Iterator[None]:
    """Where a graph is run for its specs alone: tensors made here are fake, what is known of their data is computed.

    A graph must be read and checked in the same such context, or one of them knows a number that the other does not.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    with torch.no_grad(), computed_constants(), mode:
        yield


def called(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of a function on fake operands, `torch.tensor` of a number that nobody knows included."""
    if function is torch.tensor and any(isinstance(leaf, UNKNOWN) for leaf in pytree.tree_leaves(args)):
        return _refs.tensor(*args, **kwargs)  # type: ignore[no-untyped-call]
    return function(*args, **kwargs)


class _SpecRecorder(torch.fx.Interpreter):
    """Runs a module on fake tensors and keeps the specs of every node's value at the time it was made."""

    def __init__(self, gm: torch.fx.GraphModule) -> None:
        super().__init__(gm)
        self.specs: list[tuple[TensorSpec, ...]] = []

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        return called(target, args, kwargs)

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        self.specs.append(() if n.op == OUTPUT else specs_of(result))
        return result


def propagate(graph: Graph, specs: Sequence[TensorSpec] | None = None) -> list[tuple[TensorSpec, ...]]:
    """Specs of every node's value when the graph runs on fake inputs of the given (default: recorded) specs.

    Nothing is computed. Raises whatever an op raises on such inputs.
    """
    wanted = [graph.nodes[i].outputs[0] for i in graph.placeholders] if specs is None else list(specs)
    gm = lower(graph)
    recorder = _SpecRecorder(gm)
    with on_fakes():
        inputs = [example_input(spec, init) for spec, init in zip(wanted, graph.inits, strict=True)]
        recorder.run(*inputs)
    return recorder.specs


def respecify(graph: Graph, specs: Sequence[TensorSpec]) -> Graph:
    """The same ops on other input specs (one a placeholder), all other specs re-propagated.

    Raises ValueError if an op refuses the new inputs.
    """
    try:
        found = propagate(graph, specs)
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
        raise ValueError(
            f"the graph does not run on these inputs: {str(error).splitlines()[0] if str(error) else error!r}"
        ) from error
    nodes = [
        node if node.op in (OUTPUT, CONSTANT, SUBGRAPH) else replace(node, outputs=new)
        for node, new in zip(graph.nodes, found, strict=True)
    ]
    for spec, index in zip(specs, graph.placeholders, strict=True):
        nodes[index] = replace(nodes[index], outputs=(spec,))
    return replace(graph, nodes=tuple(nodes))
