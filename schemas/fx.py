"""torch.fx <-> IR, both directions side by side: `lower(lift(gm))` computes what gm computes, `lift(lower(g)) == g`.

Reads: a `torch.fx.GraphModule` (Dynamo, make_fx or hand made) or a `Graph`. Writes: nothing.

    graph = lift(gm, roles={"w": "parameter"})       # roles and initialisers by placeholder name
    again = lower(graph)                             # a GraphModule; again(*placeholder_values)

A value, dtype, layout or target that the IR does not hold raises NotRepresentable, never a silent approximation.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from schemas import targets, values
from schemas.graph import (
    CONSTANT,
    DTYPE_BYTES,
    FUNCTION,
    METHOD,
    OUTPUT,
    PLACEHOLDER,
    SUBGRAPH,
    Graph,
    Node,
    TensorSpec,
    is_safe_name,
)  # fmt: skip
from schemas.known import exact_numbers
from schemas.values import Value

MAX_CONSTANT_ELEMENTS = 65_536
"""Largest tensor that is kept inside a graph by value."""
META_SPECS, META_ROLE, META_INIT, META_NAME = "passnet_specs", "passnet_role", "passnet_init", "passnet_name"
"""Keys of `torch.fx.Node.meta` under which `lower` keeps what FX itself has no place for."""
_DEFAULT_INIT = values.dumps({"kind": "normal", "mean": 0.0, "std": 1.0})
_EXACT_TYPES = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "memory_format"}


class NotRepresentable(ValueError):
    """A graph holds a value, dtype, layout or target that the IR does not hold."""


class DependsOnData(NotRepresentable):
    """A size follows from numbers that tensors hold."""


# --- specs ----------------------------------------------------------------------------------------------------------
def dtype_name(dtype: torch.dtype) -> str:
    """Name of a dtype without the prefix; raises NotRepresentable for one the IR does not hold."""
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPE_BYTES:
        raise NotRepresentable(f"dtype {name} is not held by the IR")
    return name


def dtype_of(name: str) -> torch.dtype:
    """Inverse of `dtype_name`; raises ValueError for an unknown name."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"unknown dtype {name!r} in torch {torch.__version__}")
    return found


def _size(dim: Any) -> int:
    """A concrete size: the hint of a symbolic one."""
    if isinstance(dim, torch.SymInt):
        hint = dim.node.hint
        if hint is None:
            raise DependsOnData(f"a size depends on data ({dim})")
        return int(hint)
    return int(dim)


def spec_of(value: torch.Tensor) -> TensorSpec:
    """Spec of one tensor, real or fake; raises NotRepresentable for sparse and other unusual layouts."""
    if value.layout is not torch.strided:
        raise NotRepresentable(f"layout {value.layout} is not held by the IR")
    return TensorSpec(
        dtype=dtype_name(value.dtype), shape=tuple(map(_size, value.shape)),
        stride=tuple(map(_size, value.stride())), device=value.device.type,
    )  # fmt: skip


_SCALAR_SPECS: tuple[tuple[type, str], ...] = (
    (torch.SymBool, "SymBool"), (torch.SymInt, "SymInt"), (torch.SymFloat, "SymFloat"),
)  # fmt: skip


def _scalar_spec(value: Any) -> TensorSpec | None:
    for kind, name in _SCALAR_SPECS:
        if isinstance(value, kind):
            return TensorSpec(dtype=name, shape=(), stride=(), device="cpu")
    return None


def specs_of(value: Any) -> tuple[TensorSpec, ...]:
    """Specs of every tensor and symbolic scalar inside a value (nested tuples and dicts flattened in order)."""
    found = []
    for leaf in pytree.tree_leaves(value):
        spec = spec_of(leaf) if isinstance(leaf, torch.Tensor) else _scalar_spec(leaf)
        if spec is not None:
            found.append(spec)
    return tuple(found)


def node_specs(node: torch.fx.Node) -> tuple[TensorSpec, ...]:
    """Specs of an FX node's value, from its `meta`."""
    if META_SPECS in node.meta:
        specs: tuple[TensorSpec, ...] = node.meta[META_SPECS]
        return specs
    return specs_of(node.meta.get("val", node.meta.get("example_value")))


def fake_input(spec: TensorSpec) -> torch.Tensor:
    """An empty tensor of a spec; call it under a FakeTensorMode to make a fake one."""
    return torch.empty_strided(spec.shape, spec.stride, dtype=dtype_of(spec.dtype), device=spec.device)


def _scalar_value(init: str) -> Any:
    return values.loads(init).get("value", 1)


def example_input(spec: TensorSpec, init: str) -> Any:
    """The value of a placeholder under a FakeTensorMode: a scalar's own, a fake tensor that knows its numbers (so that
    `item` yields them) where the initialiser gives whole numbers or truth values exactly, else an empty fake tensor."""
    if spec.dtype.startswith("Sym"):
        return _scalar_value(init)
    known = exact_numbers(spec, values.loads(init))
    if known is not None:
        made = torch.tensor(known, dtype=dtype_of(spec.dtype)).reshape(spec.shape)
        if made.stride() == spec.stride:
            return made
    return fake_input(spec)


# --- torch.fx -> IR -------------------------------------------------------------------------------------------------
def _encode(value: Any, operand: Callable[[torch.fx.Node], int]) -> Value:
    """One argument as a value of the attribute grammar; `operand` numbers the nodes met on the way."""
    if isinstance(value, torch.fx.Node):
        return {"in": operand(value)}
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return {"float": repr(float(value))}
    if isinstance(value, complex):
        return {"complex": [repr(value.real), repr(value.imag)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, slice | range):
        parts = [_encode(part, operand) for part in (value.start, value.stop, value.step)]
        return {type(value).__name__: parts}
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        items = [_encode(item, operand) for item in value]
        return items if isinstance(value, list) else {"tuple": items}
    if isinstance(value, dict):
        return {"dict": [[_plain_key(key), _encode(item, operand)] for key, item in value.items()]}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    for kind, tag in _EXACT_TYPES.items():
        if isinstance(value, kind):
            return {tag: str(value).removeprefix("torch.")}
    return _encode_other(value)


def constant(value: Any) -> Value:
    """A Python value without tensors as a value of the attribute grammar; raises NotRepresentable."""
    return _encode(value, _no_operand)


def _no_operand(node: torch.fx.Node) -> int:
    raise NotRepresentable(f"a constant that holds the value {node.name!r} of a graph")


def _plain_key(key: Any) -> str | int:
    if isinstance(key, str | int):
        return key
    raise NotRepresentable(f"a dictionary key of type {type(key).__name__} is not held by the IR")


def encoded(value: Any, operand: Callable[[torch.fx.Node], int]) -> Value:
    """One value as the IR writes it, nodes by the numbers that `operand` gives them; raises NotRepresentable."""
    return _encode(value, operand)


def decoded(value: Value, operands: Sequence[Any]) -> Any:
    """Inverse of `encoded`; raises ValueError on what is no such value."""
    return _decode(value, operands)


def _encode_other(value: Any) -> Value:
    if isinstance(value, torch.SymInt):
        return _size(value)
    if callable(value):
        try:
            return {"target": targets.name_of(value)}
        except ValueError as error:
            raise NotRepresentable(str(error)) from error
    raise NotRepresentable(f"an argument of type {_public_name(type(value))} is not held by the IR")


def _public_name(kind: type) -> str:
    """The name of a type as a person writes it: torch's own without the module that defines it."""
    module = "torch" if getattr(torch, kind.__qualname__, None) is kind else kind.__module__
    return f"{module}.{kind.__qualname__}"


class _Operands:
    """Numbers operands 0, 1, 2 ... in order of appearance and remembers the producing node of each."""

    def __init__(self, index: Mapping[torch.fx.Node, int]) -> None:
        self._index = index
        self.inputs: list[int] = []

    def __call__(self, node: torch.fx.Node) -> int:
        self.inputs.append(self._index[node])
        return len(self.inputs) - 1


def _constant_attrs(name: str, value: torch.Tensor) -> str:
    if isinstance(value, FakeTensor):
        raise NotRepresentable(f"the constant {name!r} has no data (it is a fake tensor)")
    if value.numel() > MAX_CONSTANT_ELEMENTS:
        raise NotRepresentable(f"the constant {name!r} has {value.numel()} elements, more than {MAX_CONSTANT_ELEMENTS}")
    raw = value.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
    spec = spec_of(value)
    return values.dumps({"dtype": spec.dtype, "shape": list(spec.shape), "data": base64.b64encode(raw).decode()})


_PROPERTIES = {"T": torch.ops.aten.numpy_T, "mT": torch.ops.aten.mT}
"""Tensor properties that torch before 2.14 spells as getattr -> the op that it spells since."""


Foreign = Callable[[Any], str]
"""The name under which a graph calls a function that is none of torch's; empty for one that it may not call."""


def nothing_foreign(function: Any) -> str:
    """The rule of graphs that call torch's functions alone."""
    return ""


def encoded_call(
    node: torch.fx.Node, operand: Callable[[torch.fx.Node], int], foreign: Foreign = nothing_foreign
) -> tuple[str, Value]:
    """(target, arguments) of a call or output node in the IR's terms, the target of a method or output bare; `operand`
    numbers the nodes met on the way. Raises NotRepresentable."""
    function, given = node.target, node.args
    name = str(given[1]) if function is getattr else ""
    if name in _PROPERTIES and isinstance(node.meta.get("example_value"), torch.Tensor):
        function, given = _PROPERTIES[name], given[:1]
    args = [_encode(arg, operand) for arg in given]
    kwargs = {key: _encode(arg, operand) for key, arg in node.kwargs.items()}
    target = str(node.target) if node.op == METHOD else ""
    if node.op == FUNCTION:
        target = foreign(function) or _encode_other(function)["target"]
    return target, {"args": args, "kwargs": kwargs}


class _Lifter:
    """One lifting: walks the FX nodes in order and collects IR nodes, initialisers and nested graphs."""

    def __init__(
        self, gm: torch.fx.GraphModule, roles: Mapping[str, str], inits: Mapping[str, str], foreign: Foreign
    ) -> None:
        self.gm, self.roles, self.init_of, self.foreign = gm, roles, inits, foreign
        self.index: dict[torch.fx.Node, int] = {}
        self.nodes: list[Node] = []
        self.inits: list[str] = []
        self.subgraphs: list[str] = []
        self.names: set[str] = set()

    def name(self, node: torch.fx.Node) -> str:
        """A safe, unique name, equal to the FX name wherever that is one."""
        wanted = str(node.meta.get(META_NAME, node.name))
        base = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in wanted)
        base = base if is_safe_name(base) else f"v_{base}"
        name, count = base, 0
        while name in self.names:
            count += 1
            name = f"{base}_v{count}"
        self.names.add(name)
        return name

    def placeholder(self, node: torch.fx.Node) -> Node:
        specs = node_specs(node)
        if len(specs) != 1:
            raise NotRepresentable(f"the placeholder {node.name!r} carries {len(specs)} tensors or an unknown value")
        is_scalar = specs[0].dtype.startswith("Sym")
        role = self.roles.get(node.name) or node.meta.get(META_ROLE) or ("scalar" if is_scalar else "input")
        self.inits.append(self.init_of.get(node.name) or node.meta.get(META_INIT) or _DEFAULT_INIT)
        return Node(op=PLACEHOLDER, name=self.name(node), target=role, inputs=(), attrs="{}", outputs=specs)

    def attribute(self, node: torch.fx.Node) -> Node:
        value = self.gm
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if isinstance(value, torch.fx.GraphModule):
            self.subgraphs.append(lift(value).to_json())
            attrs = values.dumps({"graph": len(self.subgraphs) - 1})
            return Node(op=SUBGRAPH, name=self.name(node), target="", inputs=(), attrs=attrs, outputs=())
        if isinstance(value, torch.Tensor):
            attrs = _constant_attrs(str(node.target), value)
            return Node(op=CONSTANT, name=self.name(node), target="", inputs=(), attrs=attrs, outputs=specs_of(value))
        raise NotRepresentable(f"the attribute {node.target!r} of type {type(value).__name__} is not held by the IR")

    def call(self, node: torch.fx.Node) -> Node:
        operands = _Operands(self.index)
        target, attrs = encoded_call(node, operands, self.foreign)
        return Node(
            op=node.op, name=self.name(node), target=target, inputs=tuple(operands.inputs), attrs=values.dumps(attrs),
            outputs=() if node.op == OUTPUT else node_specs(node),
        )  # fmt: skip

    def run(self) -> Graph:
        kinds = {PLACEHOLDER: self.placeholder, "get_attr": self.attribute,
                 FUNCTION: self.call, METHOD: self.call, OUTPUT: self.call}  # fmt: skip
        for node in self.gm.graph.nodes:
            if node.op not in kinds:
                raise NotRepresentable(
                    f"a node of kind {node.op} ({node.name!r}) is not held by the IR: inline modules first"
                )
            self.nodes.append(kinds[node.op](node))
            self.index[node] = len(self.nodes) - 1
        return Graph(nodes=tuple(self.nodes), inits=tuple(self.inits), subgraphs=tuple(self.subgraphs))


def lift(
    gm: torch.fx.GraphModule, *, roles: Mapping[str, str] | None = None, inits: Mapping[str, str] | None = None,
    foreign: Foreign = nothing_foreign,
) -> Graph:  # fmt: skip
    """A GraphModule as a Graph; roles and initialisers are given by FX placeholder name.

    Specs come from `node.meta["val"]` or `["example_value"]`. Raises NotRepresentable.
    """
    return _Lifter(gm, roles or {}, inits or {}, foreign).run()


# --- IR -> torch.fx -------------------------------------------------------------------------------------------------

_DECODERS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "complex": lambda parts: complex(float(parts[0]), float(parts[1])),
    "ellipsis": lambda _: Ellipsis,
    "dtype": dtype_of,
    "layout": lambda name: getattr(torch, name),
    "memory_format": lambda name: getattr(torch, name),
    "device": torch.device,
    "target": targets.resolve,
}
_SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple, "slice": lambda parts: slice(*parts), "range": lambda parts: range(*parts),
}  # fmt: skip


def _decode(value: Value, operands: Sequence[Any]) -> Any:
    """Inverse of `_encode`."""
    if isinstance(value, list):
        return [_decode(item, operands) for item in value]
    if not isinstance(value, dict):
        return value
    tag = values.tag_of(value)
    if tag == "in":
        return operands[value["in"]]
    if tag in _SEQUENCES:
        return _SEQUENCES[tag]([_decode(item, operands) for item in value[tag]])
    if tag == "dict":
        return {key: _decode(item, operands) for key, item in value["dict"]}
    if tag in _DECODERS:
        return _DECODERS[tag](value[tag])
    raise ValueError(f"not a value of the attribute grammar: {value!r}")


def arguments(attrs: Value, operands: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(args, kwargs) of a call from its decoded attributes and the values of its operands."""
    args = tuple(_decode(arg, operands) for arg in attrs["args"])
    return args, {key: _decode(arg, operands) for key, arg in attrs["kwargs"].items()}


def _constant(attrs: Value) -> torch.Tensor:
    dtype, raw = dtype_of(attrs["dtype"]), base64.b64decode(attrs["data"])
    if not raw:
        return torch.empty(attrs["shape"], dtype=dtype)
    return torch.from_numpy(np.frombuffer(raw, dtype=np.uint8).copy()).view(dtype).reshape(attrs["shape"])


class _Lowerer:
    """One lowering: rebuilds the FX nodes in order under a fresh root module."""

    def __init__(self, graph: Graph, foreign: Mapping[str, Callable[..., Any]]) -> None:
        self.graph, self.root, self.fx, self.foreign = graph, torch.nn.Module(), torch.fx.Graph(), foreign
        self.built: list[torch.fx.Node] = []
        self.inits = iter(graph.inits)

    def attribute(self, name: str, value: Any) -> tuple[str, str]:
        """Keep a constant or nested module on the root; -> (FX op, FX target)."""
        attribute = f"_{name}"
        if isinstance(value, torch.Tensor):
            self.root.register_buffer(attribute, value, persistent=False)
        else:
            setattr(self.root, attribute, value)
        return "get_attr", attribute

    def function(self, name: str) -> Any:
        return self.foreign[name] if name in self.foreign else targets.resolve(name)

    def node(self, node: Node) -> torch.fx.Node:
        attrs = values.loads(node.attrs)
        args: tuple[Any, ...] = ()
        kwargs: dict[str, Any] = {}
        op, target = node.op, node.name
        if op == CONSTANT:
            op, target = self.attribute(node.name, _constant(attrs))
        elif op == SUBGRAPH:
            op, target = self.attribute(node.name, lower(Graph.from_json(self.graph.subgraphs[attrs["graph"]])))
        elif op != PLACEHOLDER:
            operands = [self.built[k] for k in node.inputs]
            args, kwargs = arguments(attrs, operands)
            target = {METHOD: node.target, OUTPUT: "output"}.get(op) or self.function(node.target)
        built = self.fx.create_node(op, target, args, kwargs, name=node.name)
        built.meta.update({META_SPECS: node.outputs, META_NAME: node.name})
        if node.op == PLACEHOLDER:
            built.meta.update({META_ROLE: node.target, META_INIT: next(self.inits)})
        return built

    def run(self) -> torch.fx.GraphModule:
        for node in self.graph.nodes:
            self.built.append(self.node(node))
        return torch.fx.GraphModule(self.root, self.fx)


def lower(graph: Graph, *, foreign: Mapping[str, Callable[..., Any]] | None = None) -> torch.fx.GraphModule:
    """A Graph as a GraphModule whose forward takes the placeholders in calling order.

    `foreign` holds functions that are none of torch's, by the name under which the graph calls them. Raises ValueError
    if a target is unknown to this torch or not allowed in a graph.
    """
    return _Lowerer(graph, foreign or {}).run()
