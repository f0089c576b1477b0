"""The small tasks that the attacks of `tests/adversarial` are made on; each is captured from eager code.

    variants = variants_of("add_softmax")        # TaskVariant rows
    task_of(variants)

Reads and writes nothing.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from schemas import values
from schemas.fx import lift
from schemas.graph import Graph
from schemas.rows import Task, TaskVariant

TASK_ID = "a77ac0" * 5 + "a7"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """Eager code and the shapes and dtype of its two inputs."""

    call: Callable[[torch.Tensor, torch.Tensor], Any]
    shape: tuple[int, ...] = (4, 60)
    dtype: torch.dtype = torch.float32
    transposed: bool = False
    masked: bool = False


def _two_outputs(x: torch.Tensor, y: torch.Tensor) -> Any:
    total = x + y
    return torch.relu(total), total


ADD_RELU = _Source(call=lambda x, y: torch.relu(x + y))
POINTWISE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "silu": lambda x, y: torch.nn.functional.silu(x) * y,
    "decay": lambda x, y: torch.sqrt(1 - torch.exp(x)) * y,
    "ratio": lambda x, y: x / y,
    "exponential": lambda x, y: torch.exp(x) + y,
    "logarithm": lambda x, y: torch.log(x * x) + y,
    "threshold": lambda x, y: torch.where(x > 2.75, x, y),
}
"""Functions of one element each, in every dtype of DTYPES; half of what "decay" gives is NaN."""
DTYPES = {"single": torch.float32, "half": torch.float16, "bfloat16": torch.bfloat16}
TASKS: dict[str, tuple[_Source, ...]] = {
    **{
        f"{name}_{kind}": (_Source(call=call, dtype=dtype),)
        for name, call in POINTWISE.items()
        for kind, dtype in DTYPES.items()
    },
    "add_relu": (ADD_RELU,),
    "scaled": (_Source(call=lambda x, y: torch.relu(x + y) * 0.5),),
    "one_row": (_Source(call=lambda x, y: torch.relu(x + y), shape=(1, 60)),),
    "like_rows": (_Source(call=lambda x, y: torch.relu(x + y), masked=True),),
    "times_one": (_Source(call=lambda x, y: (x * 1.0, y)[0]),),
    "two_outputs": (_Source(call=_two_outputs),),
    "add_softmax": (_Source(call=lambda x, y: torch.softmax(x + y, -1), shape=(6, 50)),),
    "masked_softmax": (_Source(call=lambda x, y: torch.softmax(x + y, -1), shape=(6, 50), masked=True),),
    "transposed": (_Source(call=lambda x, y: torch.relu(x + y), transposed=True),),
    "half_chain": (_Source(call=lambda x, y: torch.relu(x + y) * 0.3 + x, dtype=torch.float16),),
    "sin_relu": (_Source(call=lambda x, y: torch.relu(torch.sin(x) + torch.cos(y)), shape=(64, 64)),),
    "two_families": (ADD_RELU, _Source(call=lambda x, y: torch.relu(x * y))),
}
"""Name -> the variants of a task."""


@functools.cache
def variants_of(name: str) -> list[TaskVariant]:
    """All variants of a task by name."""
    rows = []
    for index, source in enumerate(TASKS[name]):
        inputs = [torch.randn(source.shape).to(source.dtype) for _ in range(2)]
        inputs = [value.t().contiguous().t() if source.transposed else value for value in inputs]
        graph = _with_inits(_captured(source.call, inputs), _inits(name, source))
        dtype, shapes = str(source.dtype).removeprefix("torch."), "x".join(map(str, source.shape))
        rows.append(TaskVariant(task_id=TASK_ID, index=index, subgraph=f"{name}-{index}", origin=f"{name}-{index}",
                                dtype=dtype, shapes=shapes, graph=graph))  # fmt: skip
    return rows


def task_of(variants: Sequence[TaskVariant]) -> Task:
    """The task of such variants."""
    return Task(
        task_id=TASK_ID, version=1, title="attack", split="test", structure="attack", num_variants=len(variants),
        max_patterns=100, max_functions=1, document_frequency=1, families=(), modalities=(), licenses=(),
        rejected_solvers=(),
    )  # fmt: skip


def _captured(call: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> Graph:
    found: list[torch.fx.GraphModule] = []

    def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
        found.append(gm)
        return gm.forward

    torch._dynamo.reset()
    torch.compile(call, backend=backend, fullgraph=True, dynamic=False)(*inputs)
    return lift(found[0])


def _inits(name: str, source: _Source) -> dict[int, str]:
    """Initialisers that differ from normal ones: rows that are alike, or a mask whose first row is all -inf."""
    if not source.masked:
        return {}
    if name == "like_rows":
        alike = values.dumps({"kind": "constant", "value": 0.5})
        return {0: alike, 1: alike}
    rows, columns = source.shape
    data: list[Any] = [{"float": "-inf"}] * columns
    for row in range(1, rows):
        data += [0.0 if column <= row * 8 else {"float": "-inf"} for column in range(columns)]
    return {1: values.dumps({"kind": "literal", "data": data})}


def _with_inits(graph: Graph, inits: dict[int, str]) -> Graph:
    return replace(graph, inits=tuple(inits.get(position, init) for position, init in enumerate(graph.inits)))
