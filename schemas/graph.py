"""The graph IR: plain frozen data for one FX graph, and its legality as a table.

Is: `Graph`, `Node`, `TensorSpec`, the rule table `RULES`, `check(graph)`, and the JSON form used for nested graphs.
Reads and writes nothing; holds no weights, no Python objects, no pickle.

    graph = lift(gm)                 # schemas.fx
    graph.nodes[7].target            # "torch.nn.functional.linear"
    graph.nodes[7].inputs            # (5, 0, 1): indices of the producing nodes, in operand order
    graph.nodes[7].attrs             # '{"args":[{"in":0},{"in":1},{"in":2}],"kwargs":{}}'
"""

import builtins
import json
import keyword
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache

from schemas import values
from schemas.values import Value

PLACEHOLDER, CONSTANT, SUBGRAPH = "placeholder", "constant", "subgraph"
FUNCTION, METHOD, OUTPUT = "call_function", "call_method", "output"
OPS = (PLACEHOLDER, CONSTANT, SUBGRAPH, FUNCTION, METHOD, OUTPUT)
ROLES = ("input", "parameter", "buffer", "constant", "scalar")
SCALAR_DTYPES = ("SymInt", "SymFloat", "SymBool")
RESERVED_NAMES = frozenset(
    {"self", "torch", "operator", "math", "base64", "torchvision", "nan", "inf", "device"}
) | frozenset(dir(builtins))
"""Names a node may not have: they mean something else in generated source."""
DTYPE_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex32": 4, "complex64": 8, "complex128": 16,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
}  # fmt: skip
"""Bytes of one element, by dtype name; the dtypes the IR can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """What is known of one tensor value without its data."""

    dtype: str
    """Name of the torch dtype without the prefix ("float32"), or SymInt, SymFloat, SymBool for a scalar value."""
    shape: tuple[int, ...]
    """Sizes in elements; empty for a 0-d tensor and for a scalar value."""
    stride: tuple[int, ...]
    """Strides in elements, one a dimension."""
    device: str
    """Device kind without index: "cpu", "cuda", "meta"."""

    @staticmethod
    @lru_cache(maxsize=1 << 16)
    def shared(dtype: str, shape: tuple[int, ...], stride: tuple[int, ...], device: str) -> "TensorSpec":
        """The spec of these parts, one object for all nodes that have it: graphs repeat few specs many times."""
        return TensorSpec(dtype=dtype, shape=shape, stride=stride, device=device)

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of a dense copy of the tensor."""
        return self.numel * DTYPE_BYTES.get(self.dtype, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One value or effect of a graph."""

    op: str
    """placeholder, constant, subgraph, call_function, call_method or output."""
    name: str
    """A readable, unique, safe Python name; never part of identity."""
    target: str
    """Placeholder: its role. call_function: qualified name ("torch.add"). call_method: method name. Else empty."""
    inputs: tuple[int, ...]
    """Indices of the producing nodes in operand order; a producer used twice stands twice."""
    attrs: str
    """Canonical JSON (grammar in `schemas.values`): {"args": [...], "kwargs": {...}} for calls and output,
    {"dtype", "shape", "data"} for a constant, {"graph": k} for a nested graph, {} for a placeholder."""
    outputs: tuple[TensorSpec, ...]
    """Specs of the tensors this node yields, flattened in order; empty if it yields none or is unknown."""

    @property
    def is_call(self) -> bool:
        """Whether the node computes something."""
        return self.op in (FUNCTION, METHOD)


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A self-contained graph: nodes in topological order, the output node last."""

    nodes: tuple[Node, ...]
    """All nodes; producers stand before consumers, placeholders in calling order, exactly one output node, last."""
    inits: tuple[str, ...]
    """One initialiser (canonical JSON, `passbench.inputs`) a placeholder, in calling order; never part of identity."""
    subgraphs: tuple[str, ...]
    """Nested graphs by value, each the text of `Graph.to_json`; referred to by {"graph": k}."""

    @cached_property
    def placeholders(self) -> tuple[int, ...]:
        """Indices of the placeholders in calling order."""
        return tuple(i for i, node in enumerate(self.nodes) if node.op == PLACEHOLDER)

    @cached_property
    def users(self) -> tuple[tuple[int, ...], ...]:
        """For every node the indices of the nodes that read it, ascending, each once."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for index, node in enumerate(self.nodes):
            for source in dict.fromkeys(node.inputs):
                found[source].append(index)
        return tuple(map(tuple, found))

    @property
    def num_ops(self) -> int:
        """Number of call nodes."""
        return sum(node.is_call for node in self.nodes)

    def calls(self) -> Iterator[tuple[int, Node]]:
        """Yield (index, node) of every call node, in order."""
        return ((i, node) for i, node in enumerate(self.nodes) if node.is_call)

    def to_json(self) -> str:
        """Canonical JSON text of the whole graph."""
        return values.dumps(
            {"nodes": [asdict(n) for n in self.nodes], "inits": self.inits, "subgraphs": self.subgraphs}
        )

    @staticmethod
    def from_json(text: str) -> "Graph":
        """Inverse of `to_json`; raises ValueError on a text that is not one."""
        try:
            raw = json.loads(text)
            nodes = tuple(_node_from_json(item) for item in raw["nodes"])
            return Graph(nodes=nodes, inits=tuple(raw["inits"]), subgraphs=tuple(raw["subgraphs"]))
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"not a graph in JSON form: {error!r}") from error


def _node_from_json(raw: dict[str, Value]) -> Node:
    specs = tuple(
        TensorSpec.shared(s["dtype"], tuple(s["shape"]), tuple(s["stride"]), s["device"]) for s in raw["outputs"]
    )
    return Node(
        op=raw["op"], name=raw["name"], target=raw["target"], inputs=tuple(raw["inputs"]), attrs=raw["attrs"],
        outputs=specs,
    )  # fmt: skip


def operand_refs(attrs: Value) -> list[int]:
    """Operand numbers k of every {"in": k} in decoded attributes, in order of appearance."""
    if not isinstance(attrs, dict) or "args" not in attrs:
        return []
    parts = [attrs["args"], list(attrs["kwargs"].values())]
    return [item["in"] for item in values.walk(parts) if values.tag_of(item) == "in"]


# --- legality -------------------------------------------------------------------------------------------------------
NodeRule = tuple[str, Callable[[Graph, int, Node], bool], str]


def is_safe_name(name: str) -> bool:
    """Whether a name can stand for a value in generated source without shadowing anything."""
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name) and name not in RESERVED_NAMES


def _refs_match(graph: Graph, index: int, node: Node) -> bool:
    return operand_refs(values.loads(node.attrs)) == list(range(len(node.inputs)))


RULES: tuple[NodeRule, ...] = (
    ("op", lambda g, i, n: n.op in OPS, "op is one of " + ", ".join(OPS)),
    ("name", lambda g, i, n: n.op == OUTPUT or is_safe_name(n.name), "name is a plain identifier that shadows nothing"),
    ("order", lambda g, i, n: all(0 <= k < i for k in n.inputs), "operands are earlier nodes"),
    (
        "output-last",
        lambda g, i, n: (n.op == OUTPUT) == (i == len(g.nodes) - 1),
        "the output node, and only it, is last",
    ),
    ("output-unused", lambda g, i, n: all(g.nodes[k].op != OUTPUT for k in n.inputs), "nothing reads the output node"),
    ("role", lambda g, i, n: n.op != PLACEHOLDER or n.target in ROLES, "a placeholder's target is its role"),
    ("placeholder-spec", lambda g, i, n: n.op != PLACEHOLDER or len(n.outputs) == 1, "a placeholder has one spec"),
    ("leaf", lambda g, i, n: n.is_call or n.op == OUTPUT or not n.inputs, "only calls and the output have operands"),
    ("call-target", lambda g, i, n: not n.is_call or bool(n.target), "a call names its target"),
    ("operands", _refs_match, "attributes refer to operand 0, 1, 2 ... once each, in order"),
    (
        "dtype",
        lambda g, i, n: all(s.dtype in DTYPE_BYTES or s.dtype in SCALAR_DTYPES for s in n.outputs),
        "known dtypes",
    ),
    ("rank", lambda g, i, n: all(len(s.shape) == len(s.stride) for s in n.outputs), "one stride a dimension"),
    (
        "nested",
        lambda g, i, n: n.op != SUBGRAPH or 0 <= values.loads(n.attrs)["graph"] < len(g.subgraphs),
        "nested graph exists",
    ),
)
"""(rule, predicate over (graph, index, node), the sentence that is true of a legal node)."""


def check(graph: Graph) -> None:
    """Raise ValueError naming the first node and rule that make a graph illegal."""
    if not graph.nodes:
        raise ValueError("illegal graph: it has no nodes")
    for index, node in enumerate(graph.nodes):
        for rule, holds, sentence in RULES:
            if not holds(graph, index, node):
                raise ValueError(f"illegal graph: node {index} ({node.op} {node.name!r}) breaks {rule!r}: {sentence}")
    names = [node.name for node in graph.nodes]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"illegal graph: the name {twice!r} stands twice")
    if len(graph.inits) != len(graph.placeholders):
        raise ValueError(f"illegal graph: {len(graph.placeholders)} placeholders but {len(graph.inits)} initialisers")
