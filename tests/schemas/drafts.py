"""Graphs written by hand, at random and shuffled, for tests of identity and mining; no torch."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from schemas import values
from schemas.graph import FUNCTION, METHOD, OUTPUT, PLACEHOLDER, Graph, Node, TensorSpec
from schemas.values import Value


class Ref(int):
    """The value of a node, as an argument of another."""


def spec(*shape: int, dtype: str = "float32") -> TensorSpec:
    """A dense tensor."""
    stride, step = [], 1
    for size in reversed(shape):
        stride.append(step)
        step *= size
    return TensorSpec(dtype=dtype, shape=shape, stride=tuple(reversed(stride)), device="cpu")


SPEC = spec(4, 8)


@dataclass
class Draft:
    """A graph in the making: `x = d.input(); y = d.call("torch.relu", x); d.graph(y)`."""

    nodes: list[Node] = field(default_factory=list)

    def _add(self, **fields: object) -> Ref:
        self.nodes.append(Node(name=f"n{len(self.nodes)}", **fields))
        return Ref(len(self.nodes) - 1)

    def input(self, of: TensorSpec = SPEC, role: str = "input") -> Ref:
        """A placeholder."""
        return self._add(op=PLACEHOLDER, target=role, inputs=(), attrs="{}", outputs=(of,))

    def call(self, target: str, *args: Value, of: TensorSpec | None = SPEC, op: str = FUNCTION, **kwargs: Value) -> Ref:
        """A call; Refs among the arguments are operands."""
        inputs: list[int] = []

        def operand(value: Value) -> Value:
            if isinstance(value, Ref):
                inputs.append(int(value))
                return {"in": len(inputs) - 1}
            if isinstance(value, dict) and "tuple" in value:
                return {"tuple": operand(value["tuple"])}
            return [operand(item) for item in value] if isinstance(value, list) else value

        attrs = {"args": [operand(a) for a in args], "kwargs": {key: operand(a) for key, a in kwargs.items()}}
        outputs = (of,) if of is not None else ()
        return self._add(op=op, target=target, inputs=tuple(inputs), attrs=values.dumps(attrs), outputs=outputs)

    def method(self, target: str, *args: Value, of: TensorSpec | None = SPEC, **kwargs: Value) -> Ref:
        """A method call."""
        return self.call(target, *args, of=of, op=METHOD, **kwargs)

    def graph(self, *outputs: Ref) -> Graph:
        """The finished graph, its outputs one flat tuple."""
        attrs = values.dumps({"args": [{"tuple": [{"in": k} for k in range(len(outputs))]}], "kwargs": {}})
        end = Node(op=OUTPUT, name="output", target="", inputs=tuple(map(int, outputs)), attrs=attrs, outputs=())
        inits = tuple(f'{{"kind":"constant","value":{i}}}' for i, n in enumerate(self.nodes) if n.op == PLACEHOLDER)
        return Graph(nodes=(*self.nodes, end), inits=inits, subgraphs=())


def shuffled(graph: Graph, seed: int) -> Graph:
    """The same pure graph in another topological order, other placeholder order and other names."""
    rng = random.Random(seed)
    order: list[int] = []
    waiting = list(range(len(graph.nodes) - 1))
    while waiting:
        ready = [k for k in waiting if all(source in order for source in graph.nodes[k].inputs)]
        order.append(rng.choice(ready))
        waiting.remove(order[-1])
    order.append(len(graph.nodes) - 1)
    return reordered(graph, order, prefix=f"s{seed % 97}_")


def reordered(graph: Graph, order: Sequence[int], prefix: str = "r") -> Graph:
    """The graph with its nodes in the given order (old indices) and new names."""
    place = {old: new for new, old in enumerate(order)}
    init_of = dict(zip(graph.placeholders, graph.inits, strict=True))
    nodes = [
        replace(graph.nodes[old], name=f"{prefix}{new}", inputs=tuple(place[k] for k in graph.nodes[old].inputs))
        for new, old in enumerate(order)
    ]
    return Graph(nodes=tuple(nodes), inits=tuple(init_of[k] for k in order if k in init_of), subgraphs=graph.subgraphs)


UNARY = ("torch.relu", "torch.exp", "torch.nn.functional.gelu")
BINARY = ("torch.add", "torch.mul", "torch.sub", "torch.div", "torch.maximum")
SCALARS = ({"float": "2.0"}, {"float": "0.5"}, 2)


@st.composite
def graphs(draw: st.DrawFn, max_ops: int = 8, max_inputs: int = 3) -> Graph:
    """A random pure graph over a few ops, placeholders of one spec, one or two outputs."""
    d = Draft()
    known = [
        d.input(role=draw(st.sampled_from(("input", "parameter")))) for _ in range(draw(st.integers(1, max_inputs)))
    ]
    for _ in range(draw(st.integers(1, max_ops))):
        kind = draw(st.sampled_from(("unary", "binary", "binary", "scalar")))
        a, b = draw(st.sampled_from(known)), draw(st.sampled_from(known))
        if kind == "unary":
            known.append(d.call(draw(st.sampled_from(UNARY)), a))
        elif kind == "binary":
            known.append(d.call(draw(st.sampled_from(BINARY)), a, b))
        else:
            known.append(d.call("operator.mul", a, draw(st.sampled_from(SCALARS))))
    outputs = draw(st.lists(st.sampled_from(known), min_size=1, max_size=2))
    return d.graph(*outputs)
