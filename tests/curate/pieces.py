"""Small real pieces for curation tests: traced functions as Subgraph rows with their canonical keys."""

from collections.abc import Callable, Sequence

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from schemas.canonical import canonicalize
from schemas.fx import lift
from schemas.graph import Graph
from schemas.rows import Subgraph


def graph_of(function: Callable[..., object], *inputs: torch.Tensor, inits: Sequence[str] = ()) -> Graph:
    """A traced function of one output, as a piece that returns it in a tuple, with the specs of example inputs."""
    gm = torch.fx.symbolic_trace(function)
    end = next(iter(reversed(gm.graph.nodes)))
    end.args = ((end.args[0],),)
    gm.recompile()
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        _Recorder(gm).run(*[mode.from_tensor(value) for value in inputs])
    names = [node.name for node in gm.graph.nodes if node.op == "placeholder"]
    return lift(gm, inits=dict(zip(names, inits, strict=False)))


class _Recorder(torch.fx.Interpreter):
    def run_node(self, n: torch.fx.Node) -> object:
        value = super().run_node(n)
        n.meta["val"] = value
        return value


def piece(graph: Graph, *, rule: str = "maximal", documents: int = 1, family: str = "bert") -> Subgraph:
    """A Subgraph row of a graph."""
    keys = canonicalize(graph, free_outputs=True).keys
    names = [node.target.rsplit(".", 1)[-1] for _, node in graph.calls()]
    return Subgraph(
        key=keys.exact,
        shape_free=keys.shape_free,
        dtype_free=keys.dtype_free,
        structure=keys.structure,
        topology=keys.topology,
        kind="fusible",
        rule=rule,
        pattern=" > ".join(names),
        num_ops=len(names),
        num_compute_ops=len(names),
        document_frequency=documents,
        occurrences=documents,
        families=(family,),
        modalities=("text-encoder",),
        licenses=("apache-2.0",),
        graph=graph,
    )


def add_gelu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x + y)


def mul_add_relu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * y + y)


def scaled_softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * 0.125, dim=-1)


def pair(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(shape), torch.zeros(shape)
