"""Tasks and submissions made for the tests: small graphs, and passes that go right and wrong in one known way."""

import json

import torch
from torch.nn import functional as F

from schemas.fx import lift
from schemas.rows import Task, TaskVariant

TASK_ID = "0123456789abcdef" * 2
KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, count, scale, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < count
    x = tl.load(x_ptr + offset, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + offset, mask=inside, other=0.0).to(tl.float32)
    out = tl.maximum(x + y, 0.0) * scale
    tl.store(out_ptr + offset, out.to(out_ptr.dtype.element_ty), mask=inside)


@torch.fx.wrap
def add_relu(x, y):
    out = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), 1.0, 256)
    return out


def pattern(x, y):
    return torch.relu(x + y)


def replacement_args(x, y):
    return (x, y)


def replacement_func():
    return add_relu
"""


class AddRelu(torch.nn.Module):
    def forward(self, x, y):
        return torch.relu(x + y)


class LayerNorm(torch.nn.Module):
    def forward(self, x, y, weight, bias):
        return F.layer_norm(x + y, (768,), weight, bias, 1e-12)


def captured(module, *inputs):
    found = []
    torch._dynamo.reset()

    def backend(gm, example_inputs):
        found.append(gm)
        return gm.forward

    torch.compile(module, backend=backend, fullgraph=True, dynamic=False)(*inputs)
    return lift(found[0])


def variants_of(module, input_lists):
    return [
        TaskVariant(
            task_id=TASK_ID, index=index, subgraph=f"s{index}", origin=f"s{index}",
            dtype=str(inputs[0].dtype).removeprefix("torch."), shapes=str(tuple(inputs[0].shape)),
            graph=captured(module, *inputs),
        )
        for index, inputs in enumerate(input_lists)
    ]  # fmt: skip


def task_of(variants, title="add > relu"):
    return Task(
        task_id=TASK_ID, version=1, title=title, split="test", structure="structure-1", num_variants=len(variants),
        max_patterns=100, max_functions=1, document_frequency=3, families=("bert",), modalities=("text-encoder",),
        licenses=("Apache-2.0",), rejected_solvers=("zeros",),
    )  # fmt: skip


def submission_at(folder, source=KERNEL, name="add_relu", **more):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(source)
    (folder / "sorted_output_pass_rule_names.json").write_text(json.dumps([name]))
    for path, text in more.items():
        (folder / path).write_text(text)
    return folder
