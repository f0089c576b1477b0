"""Other forms of an admitted graph: its ATen ops, and the two graphs of a training step.

    module, graph = aten_form(record.graph)                # the same call in ATen ops, without writes
    forward, backward = training_forms(train_graph)        # pairs of module and graph, by AOT autograd

Reads and writes nothing. Nothing is computed: inputs are fake. `aten_form` keeps placeholders, their order, roles,
initialisers and the structure of the outputs, so that both forms give equal values on equal inputs; composite ops are
replaced by what they consist of, writes by new values (`torch.func.functionalize`).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch._functorch.aot_autograd import aot_module_simplified
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from extract.points import NORMAL
from schemas import values
from schemas.fx import dtype_of, example_input, lift, lower
from schemas.graph import Graph, check

Form = tuple[torch.fx.GraphModule, Graph]
ATEN, AOT_FORWARD, AOT_BACKWARD = "aten-eval", "aot-forward", "aot-backward"
"""Capture modes of the forms."""


def aten_form(graph: Graph) -> Form:
    """The same call in ATen ops; raises what an op raises that has no functional form."""
    module = lower(graph)
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True) as mode:
        inputs = _examples(graph)
        found = make_fx(torch.func.functionalize(module), _allow_non_fake_inputs=True)(*inputs)
    del mode
    return found, _lifted(found, _by_position(found, graph))


def _examples(graph: Graph) -> list[Any]:
    specs = [graph.nodes[index].outputs[0] for index in graph.placeholders]
    return [example_input(spec, init) for spec, init in zip(specs, graph.inits, strict=True)]


def _placeholders(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def _by_position(module: torch.fx.GraphModule, graph: Graph) -> dict[str, tuple[str, str]]:
    """Placeholder name -> (role, initialiser), taken over from the graph that a form was made of."""
    names = [node.name for node in _placeholders(module)]
    roles = [graph.nodes[index].target for index in graph.placeholders]
    return dict(zip(names, zip(roles, graph.inits, strict=True), strict=False))


def _lifted(module: torch.fx.GraphModule, known: dict[str, tuple[str, str]]) -> Graph:
    graph = lift(module, roles={name: role for name, (role, _) in known.items()},
                 inits={name: init for name, (_, init) in known.items()})  # fmt: skip
    check(graph)
    return graph


# --- training -------------------------------------------------------------------------------------------------------
def training_forms(graph: Graph) -> tuple[Form, Form]:
    """Forward and backward of one step, gradients for every float parameter, by AOT autograd's default partition.

    `graph` is a call captured in training mode. The backward graph's inputs are what the forward saves and the
    gradients of its outputs: normal numbers, but zeros for integers, which may be positions. Raises ValueError if
    nothing needs a gradient.
    """
    kept: list[torch.fx.GraphModule] = []

    def keep(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        kept.append(module)
        return module.forward

    with torch.enable_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        inputs = [_trainable(graph, *pair) for pair in zip(graph.placeholders, _examples(graph), strict=True)]
        compiler: Any = keep
        compiled = aot_module_simplified(lower(graph), inputs, fw_compiler=compiler, bw_compiler=compiler)
        outputs = [leaf for leaf in compiled(*inputs) if isinstance(leaf, FakeTensor) and leaf.requires_grad]
        if not outputs:
            raise ValueError("no output needs a gradient: there is no training step")
        torch.autograd.backward(outputs, [torch.ones_like(leaf) for leaf in outputs])
    if len(kept) != 2:
        raise ValueError(f"AOT autograd gave {len(kept)} graphs instead of a forward and a backward one")
    forward, backward = kept
    known = _by_position(forward, graph)
    saved = {node.name: known.get(node.name) or ("input", _saved(node.meta["val"])) for node in _placeholders(backward)}
    return (forward, _lifted(forward, known)), (backward, _lifted(backward, saved))


def _saved(value: Any) -> str:
    """The initialiser of a value that the forward saves: positions and masks must be valid ones."""
    if not isinstance(value, torch.Tensor):
        return values.dumps({"kind": "scalar", "value": int(value)})
    if value.dtype == torch.bool:
        return '{"kind":"ones"}'
    return NORMAL if value.dtype.is_floating_point else '{"kind":"zeros"}'


def _trainable(graph: Graph, index: int, value: Any) -> Any:
    node = graph.nodes[index]
    if node.target == "parameter" and dtype_of(node.outputs[0].dtype).is_floating_point:
        value.requires_grad_(True)
    return value
