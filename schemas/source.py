"""Readable, deterministic Python source of a graph, without torch.

Is: `source_of(graph)`, a text that defines `class GraphModule(torch.nn.Module)` whose `forward` takes the placeholders
in calling order and computes what the graph computes. The IR is exact; the source is for people and language models.
Reads and writes nothing.

    print(source_of(graph))
"""

import keyword
import math
from collections.abc import Callable, Sequence

from schemas import values
from schemas.graph import (
    CONSTANT,
    METHOD,
    OUTPUT,
    PLACEHOLDER,
    SCALAR_DTYPES,
    SUBGRAPH,
    Graph,
    Node,
    TensorSpec,
)  # fmt: skip
from schemas.values import Value

INFIX = {
    "operator.add": "+", "operator.sub": "-", "operator.mul": "*", "operator.truediv": "/", "operator.floordiv": "//",
    "operator.mod": "%", "operator.pow": "**", "operator.matmul": "@", "operator.and_": "&", "operator.or_": "|",
    "operator.xor": "^", "operator.lt": "<", "operator.le": "<=", "operator.gt": ">", "operator.ge": ">=",
    "operator.eq": "==", "operator.ne": "!=", "operator.lshift": "<<", "operator.rshift": ">>",
}  # fmt: skip
"""Pure two-operand operators, written between their operands. In-place ones stay calls: `operator.iadd(x, y)`."""
UNARY = {"operator.neg": "-", "operator.invert": "~"}
MAX_COMMENT = 100


def _float(text: str) -> str:
    return text if math.isfinite(float(text)) else f'float("{text}")'


def _sequence(tag: str, items: Sequence[str]) -> str:
    inner = ", ".join(items)
    if tag == "tuple":
        return f"({inner},)" if len(items) == 1 else f"({inner})"
    return f"{tag}({inner})"


def expression(value: Value, operands: Sequence[str]) -> str:
    """One argument as Python text; `operands` are the names of the node's operands."""
    if isinstance(value, list):
        return "[" + ", ".join(expression(item, operands) for item in value) + "]"
    tag = values.tag_of(value)
    if tag is None:
        return repr(value)
    inner = value[tag]
    if tag in values.SEQUENCE_TAGS:
        return _sequence(tag, [expression(item, operands) for item in inner])
    if tag == "dict":
        return "{" + ", ".join(f"{key!r}: {expression(item, operands)}" for key, item in inner) + "}"
    texts: dict[str, Callable[[], str]] = {
        "in": lambda: operands[inner], "float": lambda: _float(inner), "ellipsis": lambda: "...",
        "complex": lambda: f"complex({_float(inner[0])}, {_float(inner[1])})",
        "dtype": lambda: f"torch.{inner}", "layout": lambda: f"torch.{inner}",
        "memory_format": lambda: f"torch.{inner}", "device": lambda: f'torch.device("{inner}")',
        "target": lambda: inner.removeprefix("builtins."), "graph": lambda: f"self.graph_{inner}",
    }  # fmt: skip
    return texts[tag]()


def _subscript(value: Value, operands: Sequence[str]) -> str:
    """Text between the brackets of an index."""
    if values.tag_of(value) == "slice":
        start, stop, step = ["" if part is None else expression(part, operands) for part in value["slice"]]
        return f"{start}:{stop}" + (f":{step}" if step else "")
    if values.tag_of(value) == "tuple" and value["tuple"]:
        items = [_subscript(item, operands) for item in value["tuple"]]
        return ", ".join(items) + ("," if len(items) == 1 else "")
    return expression(value, operands)


def _keywords(kwargs: dict[str, Value], operands: Sequence[str]) -> list[str]:
    """Keyword arguments; names that are no identifiers or are keywords go through a dictionary."""
    plain = [f"{k}={expression(v, operands)}" for k, v in kwargs.items() if _is_keyword_name(k)]
    rest = [f"{k!r}: {expression(v, operands)}" for k, v in kwargs.items() if not _is_keyword_name(k)]
    return plain + (["**{" + ", ".join(rest) + "}"] if rest else [])


def _is_keyword_name(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def _call(node: Node, operands: Sequence[str]) -> str:
    """The right-hand side of one call node."""
    attrs = values.loads(node.attrs)
    args, kwargs = attrs["args"], attrs["kwargs"]
    if not kwargs and len(args) == 2 and node.target in INFIX:
        return f"{expression(args[0], operands)} {INFIX[node.target]} {expression(args[1], operands)}"
    if not kwargs and len(args) == 1 and node.target in UNARY:
        return f"{UNARY[node.target]}{expression(args[0], operands)}"
    if not kwargs and len(args) == 2 and node.target == "operator.getitem":
        return f"{expression(args[0], operands)}[{_subscript(args[1], operands)}]"
    texts = [expression(arg, operands) for arg in args]
    if node.op == METHOD:
        receiver, *texts = texts
        return f"{receiver}.{node.target}({', '.join(texts + _keywords(kwargs, operands))})"
    return f"{node.target.removeprefix('builtins.')}({', '.join(texts + _keywords(kwargs, operands))})"


def describe(specs: Sequence[TensorSpec]) -> str:
    """Specs for people: "float32[1, 128, 768]"."""
    texts = [s.dtype if s.dtype in SCALAR_DTYPES else f"{s.dtype}{list(s.shape)}" for s in specs]
    text = ", ".join(texts)
    return text if len(text) <= MAX_COMMENT else text[: MAX_COMMENT - 3] + "..."


def statement_of(node: Node, operands: Sequence[str]) -> str:
    """One node as a line of source, its spec as a comment; `operands` are the names of its operands."""
    comment = f"  # {describe(node.outputs)}" if node.outputs else ""
    if node.op == CONSTANT:
        attrs = values.loads(node.attrs)
        data = f'bytearray(base64.b64decode("{attrs["data"]}"))'
        if attrs["data"]:
            made = f"torch.frombuffer({data}, dtype=torch.{attrs['dtype']}).reshape({attrs['shape']})"
        else:
            made = f"torch.empty({attrs['shape']}, dtype=torch.{attrs['dtype']})"
        return f"{node.name} = {made}{comment}"
    if node.op == SUBGRAPH:
        return f"{node.name} = self.graph_{values.loads(node.attrs)['graph']}"
    if node.op == OUTPUT:
        return f"return {expression(values.loads(node.attrs)['args'][0], operands)}"
    return f"{node.name} = {_call(node, operands)}{comment}"


def _parameter(node: Node) -> str:
    kind = {"parameter": "torch.nn.Parameter", "scalar": "int"}.get(node.target, "torch.Tensor")
    return f"        {node.name}: {kind},  # {describe(node.outputs)}"


def _class(graph: Graph, name: str) -> list[str]:
    """Source lines of one class and, before it, of the classes of its nested graphs."""
    lines: list[str] = []
    nested = [f"{name}_{k}" for k in range(len(graph.subgraphs))]
    for text, inner in zip(graph.subgraphs, nested, strict=True):
        lines += [*_class(Graph.from_json(text), inner), "", ""]
    lines.append(f"class {name}(torch.nn.Module):")
    if nested:
        lines += ["    def __init__(self):", "        super().__init__()"]
        lines += [f"        self.graph_{k} = {inner}()" for k, inner in enumerate(nested)] + [""]
    placeholders = [graph.nodes[i] for i in graph.placeholders]
    if placeholders:
        lines += ["    def forward(", "        self,", *map(_parameter, placeholders), "    ):"]
    else:
        lines.append("    def forward(self):")
    for node in graph.nodes:
        if node.op != PLACEHOLDER:
            lines.append("        " + statement_of(node, [graph.nodes[k].name for k in node.inputs]))
    return lines


def source_of(graph: Graph) -> str:
    """Python source that defines GraphModule, with shapes and dtypes as comments; equal graphs give equal text."""
    body = _class(graph, "GraphModule")
    text = "\n".join(body)
    imports = [name for name in ("base64", "math", "operator") if f"{name}." in text]
    if "torchvision." in text:
        imports.append("torchvision")
    return "\n".join([*(f"import {name}" for name in imports), "import torch", "", "", *body, ""])
