"""Stage `kernel_maps`: a picked piece -> what Inductor makes of it for a GPU that is not there, and its estimated time.

Reads a Pick row (or any row with a key and a graph: `map_kernels`); writes KernelMap, Kernel and Estimate rows, or a
Failure. Runs the compiler, not the piece; it patches torch, so it belongs into a child process of its own.
Run: `passnet run kernel_maps`; other targets: `--set kernel_maps.targets='["A100"]'`.

A process that has stood in for a GPU is good for nothing else: every target has a child of this child, started once.
"""

import importlib.metadata
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import torch

from data.calls import Call, Item, Limits
from data.pool import ChildPool
from fusion_mining.device import stand_in
from fusion_mining.estimate import estimate
from fusion_mining.kernel_map import Compiled, compile_graph
from fusion_mining.resources import Resources, resources_of
from fusion_mining.targets import CPU, TARGETS, target_named
from schemas import rows
from schemas.arrow import from_table, to_table
from schemas.graph import Graph
from schemas.rows import Estimate, Failure, FailureKind, Kernel, KernelMap, Pick, Skipped, Text

Rows = Iterator[KernelMap | Kernel | Estimate | Failure | Skipped]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelsConfig:
    """For what, and how thoroughly."""

    targets: tuple[str, ...] = ("H200",)
    """Names of targets (`fusion_mining.targets`); "cpu" is Inductor's C++ backend."""
    limit: int = 8
    """Pieces of the smallest rank that are compiled; 0 means all."""
    resources: bool = True
    """Whether kernels are compiled offline for their registers and spills, about a second each."""
    timeout_s: float = 240.0
    """Wall seconds a piece and target."""

    def __post_init__(self) -> None:
        for name in self.targets:
            if name != CPU:
                target_named(name)


def kernels(row: Pick, config: KernelsConfig) -> Rows:
    """What Inductor makes of one picked piece for every target of the configuration."""
    if config.limit and row.rank >= config.limit:
        yield Skipped(item=row.subgraph, reason=f"over the budget of {config.limit}")
        return
    for target in config.targets:
        one = replace(config, targets=(target,))
        call = Call(
            stage="kernel_maps", function="fusion_mining.kernels:map_pick",
            config_class="fusion_mining.kernels:KernelsConfig", config=asdict(one),
            limits=Limits(timeout_s=config.timeout_s, memory_gib=6.0),
        )  # fmt: skip
        with _pool(target).borrow() as child:
            found = child.run_item(call, to_table([row], Pick), Item(key=row.subgraph, name=row.pattern))
        for name in sorted(found):
            yield from from_table(found[name], getattr(rows, name))


@cache
def _pool(target: str) -> ChildPool:
    """The one child that stands in for a target, kept for the pieces to come; it dies with this process."""
    work = Path(tempfile.mkdtemp(prefix=f"passnet-{target}-"))
    return ChildPool(workers=1, work=work, env={"CUDA_VISIBLE_DEVICES": ""}).__enter__()


def map_pick(row: Pick, config: KernelsConfig) -> Rows:
    """The rows of one piece and one target, in a process of its own: it is made to stand in for the target."""
    (target,) = config.targets
    if target != CPU:
        stand_in(target_named(target))
    compiled = compile_graph(row.graph, device="cpu" if target == CPU else "cuda")
    yield map_row(row.subgraph, row.pattern, row.graph, (target, compiled))
    yield from kernel_rows(row.subgraph, target, compiled, resources=config.resources)
    if target != CPU:
        yield estimate(row.subgraph, row.graph, compiled.launches, TARGETS[target])


def failure_kind(error: BaseException) -> FailureKind:
    """What the compiler raises is a compile error."""
    return FailureKind.COMPILE_ERROR


def map_row(key: str, name: str, graph: Graph, made: tuple[str, Compiled]) -> KernelMap:
    """The kernel map of one compilation; made: (target, what was compiled for it)."""
    target, compiled = made
    launches = compiled.launches
    return KernelMap(
        graph=key, name=name, target=target, torch=torch.__version__,
        triton="" if target == CPU else importlib.metadata.version("triton"), calls=graph.num_ops,
        kernels=len({launch.kernel for launch in launches if not launch.library}) if target != CPU
        else sum(not launch.library for launch in launches),
        generated=sum(not launch.library for launch in launches),
        library_calls=sum(launch.library for launch in launches),
        bytes_read=sum(launch.bytes_read for launch in launches),
        bytes_written=sum(launch.bytes_written for launch in launches), launches=launches, unfused=compiled.unfused,
    )  # fmt: skip


def kernel_rows(key: str, target: str, compiled: Compiled, *, resources: bool) -> Iterator[Kernel]:
    """One row a distinct generated kernel, with what it uses on the target if wanted."""
    for name, source in sorted(compiled.sources.items()):
        found = resources_of(source, target_named(target)) if resources else Resources()
        yield Kernel(
            graph=key, target=target, name=name, launches=sum(item.kernel == name for item in compiled.launches),
            source=Text(source), registers=found.registers, spilled_bytes=found.spilled_bytes,
            shared_bytes=found.shared_bytes, problem=found.problem,
        )  # fmt: skip
