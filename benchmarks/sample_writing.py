"""Samples written from modules as published ones were: Dynamo's graph of a call, formatted, its tensors described.

    traced = publish(model, inputs, folder, Style())      # a folder a graph, and what was called with what
    traced.replace(0, rebuilt)                            # call something else in place of the first graph
    outputs = traced.call()                               # the module's own outputs, computed through it

Reads a module and its example inputs; writes sample folders. Written after the description of the layout, apart from
`extract.samples`, which it checks: it shares no code with the reader, and `write_sample` is not used. Formatting is
that of `ruff format`, which agrees with black on such code.
"""

import copy
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

FLAGS = {
    "capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True, "allow_rnn": True,
    "cache_size_limit": 64, "recompile_limit": 64,
}  # fmt: skip
"""Settings of Dynamo under which samples were published."""
LITERAL_BELOW = 64
"""Tensors of fewer elements are written number by number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """In which of the published ways a sample is written."""

    dynamic: bool = False
    """Whether sizes and numbers of the module are arguments."""
    renamed: bool = False
    """Whether arguments and values are called in_0, w_0 and tmp_0."""
    autocast: bool = False
    """Whether the call runs under autocast, whose enter and exit calls stay in the code."""
    bare_scalars: bool = False
    """Whether a float of no dimension is described by its mean and a deviation of zero, without its number."""
    device: str = "cpu"
    """The device that the files name; code that makes tensors names it too."""


@dataclass(slots=True, kw_only=True)
class Traced:
    """A compiled call, its graphs as folders, and what each graph was called with."""

    compiled: Callable[..., Any]
    inputs: tuple[tuple[Any, ...], dict[str, Any]]
    autocast: bool = False
    folders: list[Path] = field(default_factory=list)
    arguments: list[list[Any]] = field(default_factory=list)
    graphs: list[Callable[..., Any]] = field(default_factory=list)

    def call(self) -> Any:
        """The outputs of the module, from copies of its inputs."""
        torch.manual_seed(0)
        args, kwargs = copy.deepcopy(self.inputs)
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.autocast):
            return self.compiled(*args, **kwargs)

    def replace(self, index: int, graph: Callable[..., Any]) -> None:
        """Let the compiled call use another function for one of its graphs."""
        self.graphs[index] = graph


def publish(
    model: torch.nn.Module, inputs: tuple[tuple[Any, ...], dict[str, Any]], folder: Path, style: Style
) -> Traced:
    """Trace a call and write each of its graphs as a sample below `folder`; raises what Dynamo raises."""
    torch._dynamo.reset()
    traced = Traced(compiled=model, inputs=inputs, autocast=style.autocast)

    def backend(gm: torch.fx.GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        index = len(traced.graphs)
        traced.graphs.append(gm.forward)
        traced.arguments.append([])
        traced.folders.append(folder / f"subgraph_{index}")
        shown = _renamed(gm) if style.renamed else gm
        write(shown, list(examples), traced.folders[index], style)

        def forward(*given: Any) -> Any:
            if not traced.arguments[index]:
                traced.arguments[index].extend(copy.deepcopy(given))
            return traced.graphs[index](*given)

        return forward

    traced.compiled = torch.compile(model, backend=backend, dynamic=style.dynamic)
    with _flags():
        traced.call()
    return traced


@contextmanager
def _flags() -> Iterator[None]:
    known = {name: value for name, value in FLAGS.items() if hasattr(torch._dynamo.config, name)}
    with torch._dynamo.config.patch(known):
        yield


def _renamed(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The same graph with plain numbered names."""
    graph, counts = torch.fx.Graph(), {"in": 0, "w": 0, "tmp": 0}
    values: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in gm.graph.nodes:
        kind = "tmp" if node.op != "placeholder" else "w" if "_self_" in str(node.target) else "in"
        made = graph.node_copy(node, lambda old: values[old])
        if node.op not in ("output", "get_attr"):
            made.name = f"{kind}_{counts[kind]}"
            counts[kind] += 1
        if node.op == "placeholder":
            made.target = made.name
        values[node] = made
    return torch.fx.GraphModule(gm, graph)


# --- files ----------------------------------------------------------------------------------------------------------
def write(gm: torch.fx.GraphModule, examples: Sequence[Any], folder: Path, style: Style) -> None:
    """Write one graph as a sample; examples are the values of its arguments, in order."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [str(node.target) for node in gm.graph.nodes if node.op == "placeholder"]
    metas = [_class(name, value, style) for name, value in zip(names, examples, strict=True)]
    files = {
        "model.py": formatted(code_of(gm)), "weight_meta.py": "\n\n".join(metas), "input_meta.py": "",
        "input_tensor_constraints.py": "from sympy import Symbol\n\ndynamic_dim_constraint_symbols = []\n",
        "graph_net.json": json.dumps({"framework": "torch", "dynamic": style.dynamic, "num_nodes_required": 1}),
        "graph_hash.txt": "0" * 64,
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def code_of(gm: torch.fx.GraphModule) -> str:
    """What torch.fx prints of a graph, as a class of its own."""
    body = "\n    ".join(gm.code.strip().split("\n"))
    heads = ["import torch"]
    heads += ["from torch import device"] if re.search(r"(?<![.\w])device\(", body) else []
    heads += [f"from torch import {name}" for name in ("inf", "nan") if re.search(rf"(?<![.\w\"']){name}\b", body)]
    return "\n".join(heads) + f"\n\n\nclass GraphModule(torch.nn.Module):\n    {body}\n"


def formatted(code: str) -> str:
    """Code in black's style."""
    run = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length", "88", "-"], input=code,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return run.stdout


def _class(name: str, value: Any, style: Style) -> str:
    if not isinstance(value, torch.Tensor):
        fields: Mapping[str, Any] = {"shape": [], "dtype": "torch.int64", "mean": None, "std": None, "data": [4]}
    else:
        fields = {"shape": list(value.shape), "dtype": str(value.dtype), **_numbers(value.detach(), style)}
    lines = [f'    name = "{name}"', f'    device = "{style.device}"']
    lines += [f"    {key} = {_literal(item)}" for key, item in fields.items()]
    return f"class Program_weight_tensor_meta_{name}:\n" + "\n".join(lines) + "\n"


def _numbers(value: torch.Tensor, style: Style) -> dict[str, Any]:
    floating = value.is_floating_point()
    found: dict[str, Any] = {"mean": None, "std": None, "data": None}
    if floating and value.numel():
        wide = value.double()
        found |= {"mean": round(float(wide.mean()), 3), "std": round(float(wide.std(correction=0)), 3)}
    if floating and value.dim() == 0 and style.bare_scalars:
        return found | {"mean": float(value)}
    if value.numel() < LITERAL_BELOW and not value.is_complex():
        return found | {"data": value.reshape(-1).tolist()}
    if not floating and not value.is_complex() and value.dtype != torch.bool:
        return found | {"min_val": int(value.min()), "max_val": int(value.max())}
    return found


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return json.dumps(value) if isinstance(value, str) else repr(value)
