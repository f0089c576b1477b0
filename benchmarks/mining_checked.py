"""Fifteen small programs whose kernels on an H200 are known by hand, and whether a kernel map says the same.

    python -m benchmarks.mining_checked --json

Reads nothing, prints. Every program stands with the launches that it must become, in any order: "=" marks a library
call, the rest are generated kernels; names are those of the calls in the program (mul, mul_1, ...). Only calls that
compute are listed: views stand in no kernel. The assignment was written from the rules of the compiler (what it
decomposes, stores, unfuses, calls a library for) and checked against the body of every generated kernel.

| key                | meaning                                                                    |
|--------------------|----------------------------------------------------------------------------|
| provenance_checked | programs                                                                   |
| provenance_correct | programs whose every launch holds exactly the calls that it must hold      |
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.nn import functional as F

from fusion_mining.device import stand_in
from fusion_mining.kernel_map import compile_graph
from fusion_mining.op_classes import classes_of, is_compute
from fusion_mining.targets import TARGETS
from schemas.fx import lift
from schemas.graph import Graph

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One program and its launches."""

    program: Callable[..., Any]
    """What is compiled; its name is the program's."""
    shapes: tuple[Shape | tuple[Shape, torch.dtype], ...]
    """Shapes of its inputs, float32 unless a dtype is given."""
    launches: tuple[str, ...]
    """Calls of every launch, separated by blanks, "=" before a library call."""


def add_layer_norm(x: Any, y: Any, w: Any, b: Any) -> Any:
    """A sum is computed where it is normalised."""
    return F.layer_norm(x + y, (768,), w, b)


def scaled_softmax(x: Any) -> Any:
    """Scaling and softmax are one pass."""
    return torch.softmax(x * 0.125, -1)


def gelu_mlp(x: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
    """The first bias goes to the activation, the second stays with its product."""
    return F.linear(F.gelu(F.linear(x, w, b)), v, c)


def conv_bn_relu(x: Any, w: Any, m: Any, v: Any, g: Any, b: Any) -> Any:
    """Input and weight are copied to channels last, the library convolves, one kernel does the rest."""
    return torch.relu(F.batch_norm(F.conv2d(x, w, None, 1, 1), m, v, g, b))


def rms_norm(x: Any, w: Any) -> Any:
    """A mean in the middle of pointwise ops."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def rotary(x: Any, cos: Any, sin: Any) -> Any:
    """Halves swapped by reading elsewhere."""
    return x * cos + torch.cat((-x[..., 32:], x[..., :32]), -1) * sin


def norm_read_twice(x: Any, w: Any, b: Any) -> Any:
    """Two readers of a normalised value stand in its kernel."""
    y = F.layer_norm(x, (768,), w, b)
    return torch.relu(y), torch.sigmoid(y)


def two_lengths(x: Any, y: Any) -> Any:
    """Independent ops of unequal length."""
    return torch.relu(x), torch.sigmoid(y)


def matmul_relu(x: Any, y: Any) -> Any:
    """A product belongs to the library, what follows to a kernel."""
    return torch.relu(torch.matmul(x, y))


def pool_after_relu(x: Any) -> Any:
    """One cheap op is computed again for each of the nine reads of a pool."""
    return F.max_pool2d(torch.relu(x), 3, 2)


def embedding_sum_norm(i: Any, t: Any, p: Any, w: Any, b: Any) -> Any:
    """A lookup, a sum and a norm."""
    return F.layer_norm(F.embedding(i, t) + p, (768,), w, b)


def swiglu(x: Any, w: Any, v: Any) -> Any:
    """Two products and the gate between them."""
    return F.silu(F.linear(x, w)) * F.linear(x, v)


def long_sum(x: Any, y: Any) -> Any:
    """A sum of millions of elements takes two passes."""
    return (x * y).sum()


def half_attention(q: Any, k: Any, v: Any) -> Any:
    """Attention in half precision is a library's."""
    return F.scaled_dot_product_attention(q, k, v)


def joined(x: Any, y: Any) -> Any:
    """What is concatenated is computed in place."""
    return torch.cat((torch.relu(x), torch.sigmoid(y)), 1)


_HALF, _INDEX = torch.float16, torch.int64
_VECTOR = (768,)
CHECKED = (
    Checked(program=add_layer_norm, shapes=((8, 128, 768),) * 2 + (_VECTOR,) * 2, launches=("add layer_norm",)),
    Checked(program=scaled_softmax, shapes=((8, 12, 128, 128),), launches=("mul softmax",)),
    Checked(program=gelu_mlp, shapes=((8, 128, 768), (3072, 768), (3072,), (768, 3072), _VECTOR),
            launches=("=linear", "linear gelu", "=linear_1")),
    Checked(program=conv_bn_relu, shapes=((4, 64, 56, 56), (64, 64, 3, 3), (64,), (64,), (64,), (64,)),
            launches=("conv2d", "conv2d", "=conv2d", "batch_norm relu")),
    Checked(program=rms_norm, shapes=((8, 128, 768), _VECTOR), launches=("pow_1 mean add rsqrt mul mul_1",)),
    Checked(program=rotary, shapes=((8, 12, 128, 64), (128, 64), (128, 64)), launches=("mul neg cat mul_1 add",)),
    Checked(program=norm_read_twice, shapes=((8, 128, 768), _VECTOR, _VECTOR), launches=("layer_norm relu sigmoid",)),
    Checked(program=two_lengths, shapes=((1024,), (2048,)), launches=("relu", "sigmoid")),
    Checked(program=matmul_relu, shapes=((256, 512), (512, 384)), launches=("=matmul", "relu")),
    Checked(program=pool_after_relu, shapes=((4, 64, 57, 57),), launches=("relu max_pool2d",)),
    Checked(program=embedding_sum_norm,
            shapes=(((8, 128), _INDEX), (30522, 768), (128, 768), _VECTOR, _VECTOR),
            launches=("embedding add layer_norm",)),
    Checked(program=swiglu, shapes=((8, 128, 768), (2048, 768), (2048, 768)),
            launches=("=linear", "=linear_1", "silu mul")),
    Checked(program=long_sum, shapes=((4096, 4096), (4096, 4096)), launches=("mul sum_1", "sum_1")),
    Checked(program=half_attention, shapes=(((2, 12, 128, 64), _HALF),) * 3,
            launches=("=scaled_dot_product_attention",)),
    Checked(program=joined, shapes=((64, 256), (64, 128)), launches=("relu sigmoid cat",)),
)  # fmt: skip


def graph_of(case: Checked) -> Graph:
    """The program as a graph of the IR, parameters as inputs."""
    gm = torch.fx.symbolic_trace(case.program)
    mode = FakeTensorMode()
    with mode:
        inputs = [
            torch.empty(shape[0], dtype=shape[1]) if isinstance(shape[-1], torch.dtype) else torch.empty(shape)
            for shape in case.shapes
        ]
    FakeTensorProp(gm, mode).propagate_dont_convert_inputs(*inputs)
    return lift(gm)


def found_in(case: Checked) -> list[str]:
    """The launches of a program as its kernel map has them, written as in `Checked.launches`."""
    graph = graph_of(case)
    classes = classes_of(graph)
    found = []
    for launch in compile_graph(graph, device="cuda").launches:
        names = [graph.nodes[k].name for k in launch.nodes if is_compute(classes[k])]
        found.append(("=" if launch.library else "") + " ".join(names))
    return found


def measure() -> dict[str, Any]:
    """The figures, and for every wrong program what was expected and found; stands in for an H200."""
    stand_in(TARGETS["H200"])
    wrong = {}
    for case in CHECKED:
        found = found_in(case)
        if sorted(found) != sorted(case.launches):
            wrong[case.program.__name__] = {"expected": sorted(case.launches), "found": sorted(found)}
    return {
        "provenance_checked": len(CHECKED), "provenance_correct": len(CHECKED) - len(wrong), "provenance_wrong": wrong,
    }  # fmt: skip


def main() -> None:
    """Entry of `python -m benchmarks.mining_checked`."""
    parser = argparse.ArgumentParser(description="Kernel maps of small programs against assignments made by hand.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    found = measure()
    print(json.dumps(found) if options.json else "\n".join(f"{key:<20} {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
