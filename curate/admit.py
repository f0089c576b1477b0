"""Admit task candidates: keep the variants that run and that no trivial solver passes.

Reads one `TaskCandidate`; writes one `Task` and its `TaskVariant` rows, or a `Failure` of kind not_admitted.

Every variant runs in eager on two draws of inputs. It is dropped if it raises, if an output is not finite (infinities
are let through where the graph or its inputs name one, as masks do, but not everywhere), if an output has one value
only, if a trivial solver agrees with it at tolerance level `level` on both draws, or if an op that computes is idle:
left out (its first operand of the same form, or zeros, in place of what it gives), all outputs still pass, on both
draws and on the first one scaled by each of `scales`, where small constants show.

| solver   | returns                                                                                  |
|----------|------------------------------------------------------------------------------------------|
| zeros    | zeros                                                                                    |
| constant | what the other draw's inputs gave; and, tried apart, the expected output's mean everywhere|
| identity | for every output an input of its shape and dtype                                         |

    rows = list(admit(candidate, AdmitConfig()))
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from schemas import values
from schemas.graph import Graph, Node
from schemas.roles import short_name
from schemas.rows import Failure, FailureKind, Task, TaskCandidate, TaskVariant, Text, content_id, row_key

if TYPE_CHECKING:
    import torch

    from passbench.inputs import Input

    Outputs = list[torch.Tensor | int | float | bool | None]

PASS = -5
"""`passbench.check.PASS_LEVEL`, known without loading torch."""
IDLE_BY_NATURE = frozenset(
    "to type type_as float half bfloat16 double clone contiguous detach view reshape flatten unflatten permute t mT T "
    "transpose movedim swapaxes squeeze unsqueeze expand expand_as broadcast_to view_as reshape_as getitem chunk split "
    "unbind narrow select repeat".split()
)
"""Ops that may well return what they were given: they are not asked whether they show."""
SOLVERS = ("zeros", "constant", "identity")
"""Trivial solvers that every variant of an admitted task rejects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmitConfig:
    """What a task must stand."""

    min_variants: int = 3
    """Fewest variants left."""
    level: int = -2
    """Tolerance level (`passbench.check`) at which trivial solvers must fail."""
    seeds: tuple[int, int] = (11, 12)
    """Seeds of the two draws of inputs."""
    scales: tuple[float, ...] = (1e-3, 1e2)
    """Factors of floating inputs at which an op must show, if it does not at 1."""
    max_patterns: int = 100
    """Task.max_patterns."""
    max_functions: int = 1
    """Task.max_functions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draw:
    """One draw: the inputs as they were before the call, and what the graph made of them."""

    inputs: "list[Input]"
    outputs: "Outputs"


def admit(row: TaskCandidate, config: AdmitConfig) -> Iterator[Task | TaskVariant | Failure]:
    """Yield the task and its variants, numbered anew, or one Failure that counts the reasons."""
    reasons = {variant.index: why_not(variant.graph, config) for variant in row.variants}
    kept = [variant for variant in row.variants if not reasons[variant.index]]
    if len(kept) < config.min_variants:
        yield _refusal(row, kept, [reason for reason in reasons.values() if reason], config)
        return
    task_id = content_id(*(variant.subgraph for variant in kept))
    yield Task(
        task_id=task_id,
        version=1,
        title=row.title,
        split=row.split,
        structure=row.structure,
        num_variants=len(kept),
        max_patterns=config.max_patterns,
        max_functions=config.max_functions,
        document_frequency=row.document_frequency,
        families=row.families,
        modalities=row.modalities,
        licenses=row.licenses,
        rejected_solvers=SOLVERS,
    )
    for index, variant in enumerate(kept):
        yield replace(variant, task_id=task_id, index=index)


def _refusal(row: TaskCandidate, kept: Sequence[TaskVariant], reasons: Sequence[str], config: AdmitConfig) -> Failure:
    short = Counter(reason.split(":")[0] for reason in reasons)
    listed = ", ".join(f"{count} x {reason}" for reason, count in sorted(short.items()))
    return Failure(
        stage="tasks",
        item=row_key(row),
        name=row.title,
        kind=FailureKind.NOT_ADMITTED,
        exception="",
        message=f"{len(kept)} of {len(row.variants)} variants left, {config.min_variants} needed: {listed}",
        detail=Text("\n".join(reasons)[:4000]),
    )


def why_not(graph: Graph, config: AdmitConfig) -> str:
    """Why a graph makes no variant; empty if it does."""
    try:
        first, second = (_draw(graph, seed) for seed in config.seeds)
    except (RuntimeError, TypeError, ValueError, IndexError, AssertionError) as error:
        text = str(error).strip().splitlines()
        return f"does not run: {type(error).__name__}: {text[0] if text else ''}"
    return (
        _degenerate(graph, first)
        or _degenerate(graph, second)
        or _solved(first, second, config.level)
        or _idle(graph, (first, second), config.scales)
    )


def _draw(graph: Graph, seed: int) -> _Draw:
    from passbench.inputs import materialize

    outputs = _run(graph, materialize(graph, seed=seed))
    return _Draw(inputs=materialize(graph, seed=seed), outputs=outputs)


def _run(graph: Graph, inputs: "Sequence[Input]") -> "Outputs":
    import torch
    from torch.utils import _pytree as pytree

    from schemas.fx import lower

    with torch.no_grad():
        return pytree.tree_leaves(lower(graph)(*inputs))


def _degenerate(graph: Graph, draw: _Draw) -> str:
    import torch

    tensors = [item for item in draw.outputs if isinstance(item, torch.Tensor)]
    if not any(item.numel() for item in tensors):
        return "has no output with data"
    for item in tensors:
        if item.numel() and not torch.isfinite(item).any():
            return "an output is non-finite everywhere"
        if torch.isnan(item).any() or (torch.isinf(item).any() and not _names_infinity(graph, draw.inputs)):
            return "an output is not finite"
        if item.numel() > 1 and bool((item == item.reshape(-1)[0]).all()):
            return "an output has one value only"
    return ""


def _names_infinity(graph: Graph, inputs: "Sequence[Input]") -> bool:
    """Whether a literal of a graph or a value of its inputs is infinite."""
    import torch

    literals = [values.loads(node.attrs) for node in graph.nodes]
    parts = [part for raw in literals for part in (raw.get("args", []), list(raw.get("kwargs", {}).values()))]
    floats = [item["float"] for item in values.walk(parts) if values.tag_of(item) == "float"]
    return any("inf" in text for text in floats) or any(
        bool(torch.isinf(value).any()) for value in inputs if isinstance(value, torch.Tensor)
    )


def _idle(graph: Graph, draws: Sequence[_Draw], scales: Sequence[float]) -> str:
    """The first op that could be left out of a graph wherever it is tried, as a reason."""
    waiting = [index for index, node in graph.calls() if len(node.outputs) == 1 and _may_not_idle(graph, node)]
    for inputs, expected in _tried(graph, draws, scales):
        waiting = [index for index in waiting if _agrees(expected, _without(graph, index, inputs), PASS)]
    return f"an op may be left out: {short_name(graph.nodes[waiting[0]].target)}" if waiting else ""


def _may_not_idle(graph: Graph, node: Node) -> bool:
    """Whether an op makes values of its own: no cast, copy or view, nothing that is known without input."""
    return bool(node.inputs) and short_name(node.target) not in IDLE_BY_NATURE and "dropout" not in node.target


def _tried(graph: Graph, draws: Sequence[_Draw], scales: Sequence[float]) -> "Iterator[tuple[list[Input], Outputs]]":
    """(inputs, expected outputs) of the draws, then of the first one scaled."""
    for draw in draws:
        yield draw.inputs, draw.outputs
    for scale in scales:
        inputs = [_scaled(value, scale) for value in draws[0].inputs]
        yield inputs, _run(graph, inputs)


def _scaled(value: "Input", scale: float) -> "Input":
    import torch

    return value * scale if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _without(graph: Graph, index: int, inputs: "Sequence[Input]") -> "Outputs":
    """What a graph gives without one of its ops."""
    import torch
    from torch.utils import _pytree as pytree

    from schemas.fx import lower

    class Without(torch.fx.Interpreter):
        """Runs a module and leaves one call out."""

        def run_node(self, n: torch.fx.Node) -> object:
            result = super().run_node(n)
            if n is not left_out or not isinstance(result, torch.Tensor):
                return result
            operands = [self.env[k] for k in n.all_input_nodes]
            forms = [
                k
                for k in operands
                if isinstance(k, torch.Tensor) and (k.shape, k.dtype) == (result.shape, result.dtype)
            ]
            return forms[0].clone() if forms else torch.zeros_like(result)

    module = lower(graph)
    left_out = list(module.graph.nodes)[index]
    with torch.no_grad():
        return pytree.tree_leaves(Without(module).run(*inputs))


def _solved(first: _Draw, second: _Draw, level: int) -> str:
    """The first trivial solver that agrees on both draws, as a reason."""
    for name, answers in (
        ("zeros", (_filled(first, 0.0), _filled(second, 0.0))),
        ("constant", (second.outputs, first.outputs)),
        ("constant", (_filled(first, None), _filled(second, None))),
        ("identity", (_identity(first), _identity(second))),
    ):
        if all(_agrees(draw.outputs, answer, level) for draw, answer in zip((first, second), answers, strict=True)):
            return f"the solver {name} passes"
    return ""


def _agrees(expected: "Outputs", actual: "Outputs", level: int) -> bool:
    """Whether all outputs agree at a level; the first values of each are asked first, since most answers are no."""
    from passbench.check import compare

    for want, got in ((_heads(expected), _heads(actual)), (expected, actual)):
        found = compare(want, got).correct_from
        if found is None or found > level:
            return False
    return True


def _heads(outputs: "Outputs") -> "Outputs":
    """The first values of every output; a tensor whose form differs keeps a form that differs."""
    import torch

    return [item[(slice(4),) * item.dim()] if isinstance(item, torch.Tensor) else item for item in outputs]


def _filled(draw: _Draw, value: float | None) -> "Outputs":
    """Every output tensor filled with a value, or with its own mean (None)."""
    import torch

    def fill(item: torch.Tensor) -> torch.Tensor:
        if value is not None or not item.numel():
            return torch.zeros_like(item)
        if item.is_complex():
            return torch.full_like(item, item.mean().item())
        mean = item[torch.isfinite(item)].double().mean().item()
        return torch.full_like(item, mean if item.is_floating_point() else round(mean))

    return [fill(item) if isinstance(item, torch.Tensor) else item for item in draw.outputs]


def _identity(draw: _Draw) -> "Outputs":
    """For every output the first input of its form, zeros where there is none."""
    import torch

    def like(item: torch.Tensor) -> torch.Tensor:
        for value in draw.inputs:
            if isinstance(value, torch.Tensor) and (value.shape, value.dtype) == (item.shape, item.dtype):
                return torch.empty_like(item).copy_(value)
        return torch.zeros_like(item)

    return [like(item) if isinstance(item, torch.Tensor) else item for item in draw.outputs]
