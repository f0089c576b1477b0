"""How fast a piece should be on a target, eager and compiled, from data sheets alone: estimated, never measured.

    found = estimate(key, graph, launches, TARGETS["H200"])

Reads a graph and its launches; writes nothing; no torch. The formula, with its assumptions, stands in docs/mining.md:

    device time of a kernel = max(least kernel time, bytes / (EFFICIENCY * bandwidth), operations / (EFFICIENCY * peak))
    time of a side          = max(host time of its launches, device time of its kernels)

Eager runs one kernel for every op that computes; views are free. Compiled code runs the launches of the kernel map. The
host works ahead of the device, so the slower of the two decides.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fusion_mining.op_classes import classes_of, is_compute
from fusion_mining.targets import Target
from schemas.graph import Graph, TensorSpec
from schemas.kernel_rows import Estimate, Launch
from schemas.roles import short_name

EFFICIENCY = 0.8
"""Share of a data sheet's peak that a good kernel reaches."""
OVERHEAD, BANDWIDTH, COMPUTE = "overhead", "bandwidth", "compute"
_HALF = ("float16", "bfloat16")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What one kernel moves and computes."""

    moved: int
    """Bytes."""
    operations: float
    """Floating-point operations."""
    peak: float
    """The rate they run at, 10^12 a second."""

    def memory_us(self, target: Target) -> float:
        """Microseconds of the memory alone."""
        return self.moved / (EFFICIENCY * target.bandwidth * 1e3)

    def compute_us(self) -> float:
        """Microseconds of the arithmetic alone."""
        return self.operations / (EFFICIENCY * self.peak * 1e6)

    def device_us(self, target: Target) -> float:
        """Microseconds of the kernel."""
        return max(target.kernel_us, self.memory_us(target), self.compute_us())


def estimate(key: str, graph: Graph, launches: Sequence[Launch], target: Target) -> Estimate:
    """Estimated times of a graph on a target; `launches` is what its kernel map says."""
    ops = [index for index, cls in enumerate(classes_of(graph)) if cls and is_compute(cls)]
    eager = [_op_work(graph, index, target) for index in ops]
    compiled = list(_launch_work(graph, launches, target))
    eager_device = sum(work.device_us(target) for work in eager)
    device = sum(work.device_us(target) for work in compiled)
    calls = sum(launch.library for launch in launches)
    host = target.compiled_call_us + calls * target.eager_launch_us
    host += (len(launches) - calls) * target.compiled_launch_us
    eager_us, inductor_us = max(len(ops) * target.eager_launch_us, eager_device), max(host, device)
    return Estimate(
        graph=key, target=target.name, eager_us=round(eager_us, 3), inductor_us=round(inductor_us, 3),
        eager_device_us=round(eager_device, 3), inductor_device_us=round(device, 3),
        speedup=round(eager_us / inductor_us, 4), bound=OVERHEAD if host >= device else _bound(compiled, target),
        headroom=round(device / _whole(graph, eager, target).device_us(target), 4),
    )  # fmt: skip


def saving_us(graph: Graph, target: Target) -> float:
    """Device microseconds that one ideal kernel would save over one kernel an op: estimated, nothing is compiled."""
    ops = [index for index, cls in enumerate(classes_of(graph)) if cls and is_compute(cls)]
    works = [_op_work(graph, index, target) for index in ops]
    return sum(work.device_us(target) for work in works) - _whole(graph, works, target).device_us(target)


def _whole(graph: Graph, works: Sequence[_Work], target: Target) -> _Work:
    """One kernel that reads every input and writes every output once, and does the operations of all ops."""
    edge = [spec for index in (*graph.placeholders, *graph.nodes[-1].inputs) for spec in graph.nodes[index].outputs]
    return _Work(moved=sum(map(_bytes, edge)), operations=sum(w.operations for w in works), peak=_best(works, target))


def _bound(works: Iterable[_Work], target: Target) -> str:
    """What decides most of the device time."""
    total = Counter[str]()
    for work in works:
        kind = COMPUTE if work.compute_us() > work.memory_us(target) else BANDWIDTH
        total[kind] += int(1e3 * work.device_us(target))
    return COMPUTE if total[COMPUTE] > total[BANDWIDTH] else BANDWIDTH


def _best(works: Sequence[_Work], target: Target) -> float:
    return max((work.peak for work in works), default=target.float32)


def _bytes(spec: TensorSpec) -> int:
    """Bytes a tensor occupies: an expanded dimension (stride 0) is stored once."""
    repeated = 1
    for size, stride in zip(spec.shape, spec.stride, strict=True):
        repeated *= size if stride == 0 and size else 1
    return spec.nbytes // repeated


def _op_work(graph: Graph, index: int, target: Target) -> _Work:
    """What one op of eager execution moves and computes."""
    node = graph.nodes[index]
    written = sum(_bytes(spec) for spec in node.outputs)
    sources = [spec for k in dict.fromkeys(node.inputs) for spec in graph.nodes[k].outputs]
    read = sum(min(_bytes(spec), written) if _is_lookup(node.target) else _bytes(spec) for spec in sources)
    operations = contraction_operations(graph, index)
    if operations:
        return _Work(moved=read + written, operations=operations, peak=_peak(node.outputs, target))
    elements = max([spec.numel for spec in (*sources, *node.outputs)], default=0)
    return _Work(moved=read + written, operations=float(elements), peak=target.float32)


def _is_lookup(name: str) -> bool:
    return short_name(name) in ("embedding", "index_select", "gather", "getitem")


def _peak(outputs: Sequence[TensorSpec], target: Target) -> float:
    dtype = outputs[0].dtype if outputs else ""
    if dtype in _HALF:
        return target.tensor_half
    return target.float64 if dtype == "float64" else target.float32


def contraction_operations(graph: Graph, index: int) -> float:
    """Multiplications and additions of a contraction, from its shapes; 0 for any other op."""
    node = graph.nodes[index]
    name, shapes = short_name(node.target), [graph.nodes[k].outputs[0].shape for k in node.inputs[:3]
                                             if graph.nodes[k].outputs]  # fmt: skip
    if not node.outputs or not shapes:
        return 0.0
    made = float(node.outputs[0].numel)
    if name in ("linear", "matmul", "bmm", "mm", "mv", "dot", "einsum", "tensordot", "bilinear"):
        return 2.0 * made * (shapes[0][-1] if shapes[0] else 1)
    if name in ("addmm", "baddbmm") and len(shapes) > 1:
        return 2.0 * made * shapes[1][-1]
    if name.startswith("conv") and len(shapes) > 1:
        weight = 1.0
        for size in shapes[1][1:]:
            weight *= size
        return 2.0 * made * weight
    if name == "scaled_dot_product_attention" and len(shapes) > 1:
        return 4.0 * made * shapes[1][-2]
    return 0.0


def _launch_work(graph: Graph, launches: Sequence[Launch], target: Target) -> Iterable[_Work]:
    """What every launch moves and computes; a contraction made by several library calls is shared among them."""
    sharing = Counter(index for launch in launches if launch.library for index in launch.nodes)
    for launch in launches:
        moved = launch.bytes_read + launch.bytes_written
        operations, peak = float(launch.numel * launch.reduction * max(1, len(launch.nodes))), target.float32
        for index in launch.nodes if launch.library else ():
            found = contraction_operations(graph, index)
            operations += found / sharing[index]
            peak = _peak(graph.nodes[index].outputs, target) if found else peak
        yield _Work(moved=moved, operations=operations, peak=peak)
