"""Kernel maps for a GPU that is not there: which node stands in which kernel, what the stage yields and refuses."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.mining_checked import CHECKED, graph_of
from fusion_mining.device import stand_in
from fusion_mining.estimate import BANDWIDTH, COMPUTE, OVERHEAD, contraction_operations, estimate
from fusion_mining.kernel_map import on_device
from fusion_mining.kernels import KernelsConfig, kernels
from fusion_mining.targets import TARGETS, target_named
from schemas.fx import lift
from schemas.graph import Graph
from schemas.kernel_rows import Launch
from schemas.rows import Estimate, Failure, FailureKind, Kernel, KernelMap, Pick, Skipped

pytestmark = [pytest.mark.torch, pytest.mark.skipif(torch.cuda.is_available(), reason="stands in for a GPU")]
ROOT = Path(__file__).resolve().parent.parent.parent
CASES = {case.program.__name__: case for case in CHECKED}


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def picked(graph: Graph, rank: int = 0) -> Pick:
    return Pick(subgraph="k" * 32, rank=rank, pattern="a > b", graph=graph)


def test_every_launch_of_fifteen_programs_holds_the_calls_it_computes():
    assert python("from benchmarks.mining_checked import measure; print(measure()['provenance_wrong'])") == "{}"


def test_a_process_stands_in_for_one_gpu():
    code = (
        "from fusion_mining.device import stand_in; from fusion_mining.targets import TARGETS\n"
        "stand_in(TARGETS['A100']); stand_in(TARGETS['A100'])\n"
        "import torch; print(torch.cuda.get_device_properties(0).multi_processor_count)\n"
        "try: stand_in(TARGETS['H200'])\nexcept ValueError as error: print(error)"
    )
    assert python(code).splitlines() == ["108", "this process stands in for A100: compile for H200 in another process"]
    assert not torch.cuda.is_available()


def test_a_torch_without_cuda_says_so_before_anything_is_compiled():
    code = (
        "import torch; torch.version.cuda = None\n"
        "from fusion_mining.device import stand_in; from fusion_mining.targets import TARGETS\n"
        "try: stand_in(TARGETS['A100'])\nexcept ValueError as error: print(error)"
    )
    assert python(code).endswith("is built without CUDA: install the CUDA build, or choose target cpu")


def test_the_stage_yields_map_kernels_and_estimate_for_every_target():
    rows = list(kernels(picked(graph_of(CASES["rms_norm"])), KernelsConfig(targets=("A100", "cpu"))))
    maps = {row.target: row for row in rows if isinstance(row, KernelMap)}
    assert {name: (row.generated, row.library_calls) for name, row in maps.items()} == {"A100": (1, 0), "cpu": (1, 0)}
    (launch,) = maps["A100"].launches
    assert launch.ops == ("pow", "mean", "add", "rsqrt", "mul", "mul")
    assert (launch.bytes_read, launch.bytes_written) == (4 * (8 * 128 * 768 + 768), 4 * 8 * 128 * 768)
    (kernel,) = [row for row in rows if isinstance(row, Kernel)]
    assert kernel.registers and kernel.spilled_bytes == 0 and not kernel.problem
    assert f"def {kernel.name}(" in kernel.source
    assert [row.target for row in rows if isinstance(row, Estimate)] == ["A100"]
    assert not torch.cuda.is_available(), "the process that asked stands in for nothing"


def test_what_does_not_compile_is_a_failure_and_what_is_over_the_budget_is_skipped():
    def wrong(x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, x)

    gm = torch.fx.symbolic_trace(wrong)
    for node in gm.graph.nodes:
        node.meta["val"] = torch.empty(2, 3)
    row = picked(lift(gm))
    (failure,) = kernels(row, KernelsConfig(targets=("H200",)))
    assert isinstance(failure, Failure) and failure.kind is FailureKind.COMPILE_ERROR and failure.item == row.subgraph
    (skipped,) = kernels(picked(row.graph, rank=8), KernelsConfig(limit=8))
    assert isinstance(skipped, Skipped)


def test_a_wrong_target_is_refused_with_the_names_that_are_right():
    with pytest.raises(ValueError, match="no target is called 'V100'; the targets are A100, H100, H200, cpu"):
        KernelsConfig(targets=("V100",))


def test_constants_and_scalars_leave_the_graph():
    def program(x: torch.Tensor) -> torch.Tensor:
        return x * torch.tensor([1.0, 2.0]) + torch.ones(2)

    gm = torch.fx.symbolic_trace(program)
    for node in gm.graph.nodes:
        node.meta["val"] = torch.empty(2)
    lowered, inputs = on_device(lift(gm), "cpu")
    assert [tuple(value.shape) for value in inputs] == [(2,), (2,), (2,)]
    assert not [node for node in lowered.graph.nodes if node.target is torch.tensor or node.op == "get_attr"]


def launch(moved: int, nodes: tuple[int, ...], library: bool = False) -> Launch:
    return Launch(
        kernel="k", library=library, nodes=nodes, ops=(), bytes_read=moved, bytes_written=0, numel=1, reduction=1
    )


def test_the_estimate_tells_overhead_bandwidth_and_compute_apart():
    target = target_named("H200")
    graph = graph_of(CASES["matmul_relu"])
    product = next(i for i, node in enumerate(graph.nodes) if node.name == "matmul")
    assert contraction_operations(graph, product) == 2 * 256 * 512 * 384
    small = estimate("k", graph, [launch(10_000, (product,), library=True)], target)
    assert small.bound == OVERHEAD and small.inductor_us == 12.0 + 4.5
    large = estimate("k", graph, [launch(10**9, ())], target)
    assert large.bound == BANDWIDTH and large.inductor_us == pytest.approx(1e9 / (0.8 * 4800e3), rel=1e-3)

    def wide(x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, x)

    gm = torch.fx.symbolic_trace(wide)
    for node in gm.graph.nodes:
        node.meta["val"] = torch.empty(4096, 4096, device="meta")
    heavy = estimate("k", lift(gm), [launch(3 * 4096**2 * 4, (1,), library=True)], target)
    assert heavy.bound == COMPUTE and heavy.inductor_us == pytest.approx(2 * 4096**3 / (0.8 * 67e6), rel=1e-3)


def test_a_machine_with_a_gpu_is_not_stood_in_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(ValueError, match="has a GPU"):
        stand_in(TARGETS["H200"])
