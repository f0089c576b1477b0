"""Tasks and submissions for the benchmarks of the grader: small families of real shapes, made here, no build needed.

    task, variants = make_task("add > layer_norm", index=0)
    submission = freeze(write_submission(folder, ADD_RELU))
    write_shelf(folder, [(task, variants)])      # a folder that `passbench run --tasks` reads

Writes only below the folders given.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import torch
from torch.nn import functional as F

from schemas.arrow import to_table
from schemas.fx import lift
from schemas.graph import Graph
from schemas.rows import Task, TaskVariant, content_id

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "submissions" / "fused_add_layer_norm"
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
ADD_RELU = """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < count
    x = tl.load(x_ptr + offset, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + offset, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + offset, tl.maximum(x + y, 0.0).to(out_ptr.dtype.element_ty), mask=inside)


@torch.fx.wrap
def add_relu(x, y):
    out = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), 1024)
    return out


def pattern(x, y):
    return torch.relu(x + y)


def replacement_args(x, y):
    return (x, y)


def replacement_func():
    return add_relu
"""
FAULTS = {
    "right": ADD_RELU,
    "wrong": ADD_RELU.replace("x + y, 0.0)", "x + y, 0.125)"),
    "raises": ADD_RELU.replace("    return out\n", "    raise KeyError('planted')\n"),
    "never": ADD_RELU.replace("torch.relu(x + y)", "torch.relu(x - y)"),
    "shape": ADD_RELU.replace("    return out\n", "    return out.view(-1)\n"),
}
"""Passes for add > relu: one that is right, and faults with one known verdict each."""


class AddRelu(torch.nn.Module):
    """relu(x + y)."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The sum, negative values cut off."""
        return torch.relu(x + y)


class AddLayerNorm(torch.nn.Module):
    """layer_norm(x + y) over the last dimension."""

    def forward(self, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """The normalised sum."""
        return F.layer_norm(x + y, (x.shape[-1],), weight, bias, 1e-12)


def captured(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> Graph:
    """The graph that Dynamo sees of a call."""
    found: list[torch.fx.GraphModule] = []
    torch._dynamo.reset()

    def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[torch.Tensor]) -> Callable[..., object]:
        found.append(gm)
        return gm.forward

    torch.compile(module, backend=backend, fullgraph=True, dynamic=False)(*inputs)
    return lift(found[0])


def layer_norm_task() -> tuple[Task, list[TaskVariant]]:
    """Ten variants of add > layer_norm, in three dtypes and the shapes of small language models."""
    shapes = [(1, 128, 768), (1, 128, 1024), (2, 64, 512), (1, 64, 2048)]
    points = [(shape, dtype) for shape in shapes for dtype in DTYPES][:10]
    inputs = [[torch.empty(s, dtype=dtype) for s in (shape, shape, shape[-1:], shape[-1:])] for shape, dtype in points]
    return task_of("add > layer_norm", AddLayerNorm(), inputs)


def add_relu_task(number: int, variants: int) -> tuple[Task, list[TaskVariant]]:
    """A small task of add > relu whose shapes depend on the number."""
    points = [((2 + number, 30 + 7 * i), DTYPES[i % 3]) for i in range(variants)]
    inputs = [[torch.empty(shape, dtype=dtype) for _ in range(2)] for shape, dtype in points]
    return task_of(f"add > relu {number}", AddRelu(), inputs)


def task_of(
    title: str, module: torch.nn.Module, inputs: Sequence[Sequence[torch.Tensor]]
) -> tuple[Task, list[TaskVariant]]:
    """A task whose variants are the graphs of the module's calls on the inputs."""
    task_id = content_id(title)
    variants = [
        TaskVariant(
            task_id=task_id, index=index, subgraph=f"{title} {index}", origin=f"{title} {index}",
            dtype=str(tensors[0].dtype).removeprefix("torch."), shapes=str(tuple(tensors[0].shape)),
            graph=captured(module, tensors),
        )
        for index, tensors in enumerate(inputs)
    ]  # fmt: skip
    task = Task(
        task_id=task_id, version=1, title=title, split="test", structure=title, num_variants=len(variants),
        max_patterns=100, max_functions=1, document_frequency=1, families=("made",), modalities=("made",),
        licenses=("Apache-2.0",), rejected_solvers=(),
    )  # fmt: skip
    return task, variants


def write_submission(folder: Path, source: str, name: str = "add_relu") -> Path:
    """A submission of one pass."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(source)
    (folder / "sorted_output_pass_rule_names.json").write_text(json.dumps([name]))
    return folder


def write_shelf(folder: Path, jobs: Sequence[tuple[Task, Sequence[TaskVariant]]]) -> Path:
    """A folder of tasks as a run directory holds them."""
    rows = {"tasks": [task for task, _ in jobs], "variants": [row for _, variants in jobs for row in variants]}
    for name, cls in (("tasks", Task), ("variants", TaskVariant)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(to_table(rows[name], cls), folder / name / "part-00000.parquet")
    return folder
