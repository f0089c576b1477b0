"""How fast a graph could possibly be: what it must move and compute, over what the machine can; pure, no torch.

    cost = cost_of(graph)                        # Cost(flops, moved, eager_moved)
    floor_us(cost, machine_of(environment))      # no correct implementation is faster
    caps_of(variants, eager_us, environment)     # variant -> eager time / floor: the roofline ratio

Lower bounds on purpose, so that a speed-up above its cap is a fault of the measurement and never an achievement:
  - moved: every input that is read counts once, its broadcast dimensions not, inputs read in part (slices, gathers)
    count what is taken, inputs of which only the size is read count nothing; every output counts once, unless it is an
    input or a view of one;
  - flops: contractions alone (2 for each multiply-add); everything else hides behind them;
  - machines: data-sheet peaks of dense half precision; data that fits the last cache moves CACHE_FACTOR times as fast;
    a processor core is taken to reach its first-level cache and its matrix unit all the time.
`eager_moved` is the other end: what a run that stores every intermediate value moves; eager_moved / moved is what
fusion alone can save where memory decides. Reads and writes nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from schemas import values
from schemas.graph import SCALAR_DTYPES, Graph, Node, TensorSpec
from schemas.rows import Environment, TaskVariant

CACHE_FACTOR = 3.0
_VIEWS = frozenset(
    "view reshape flatten unflatten permute transpose t swapaxes swapdims movedim squeeze unsqueeze expand expand_as "
    "broadcast_to view_as reshape_as detach contiguous unbind chunk split narrow select diagonal dropout real "
    "imag".split()
)
"""Ops that may return a view; calls that would in fact copy make the bound lower, which is its safe side."""
_PARTIAL = frozenset(
    "getitem narrow select slice chunk split unbind embedding index_select gather take take_along_dim diagonal".split()
)
"""Ops that read a part of their operands."""
_SIZE_ONLY = frozenset(
    "size dim numel stride shape zeros_like ones_like empty_like full_like rand_like randn_like new_zeros new_ones "
    "new_empty new_full expand_as view_as reshape_as".split()
)
"""Ops that read nothing but a size of (some of) their operands."""
_CONTRACTIONS = frozenset("linear matmul mm bmm addmm baddbmm mv dot".split())
_CONVOLUTIONS = frozenset("conv1d conv2d conv3d".split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a graph must do."""

    flops: float
    """Floating-point operations of its contractions."""
    moved: int
    """Bytes that any implementation reads and writes."""
    eager_moved: int
    """Bytes that an implementation moves which stores every intermediate value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a machine can do at most."""

    gbytes: float
    """Memory bandwidth, GB/s."""
    tflops: float
    """Floating-point operations, 10^12/s."""
    cache_mib: float
    """Size of the last cache; 0 where the bandwidth is the cache's already."""
    launch_us: float
    """Least time of any call."""


_GPUS: tuple[tuple[str, Machine], ...] = tuple(
    (name, Machine(gbytes=gbytes, tflops=tflops, cache_mib=cache, launch_us=1.0))
    for name, gbytes, tflops, cache in (
        ("H200", 4800.0, 989.0, 50.0), ("H100 PCIe", 2039.0, 756.0, 50.0), ("H100", 3350.0, 989.0, 50.0),
        ("H20", 4000.0, 148.0, 60.0), ("A100", 2039.0, 312.0, 40.0), ("L40S", 864.0, 362.0, 96.0),
        ("L4", 300.0, 121.0, 48.0), ("A10", 600.0, 125.0, 6.0), ("T4", 320.0, 65.0, 4.0), ("V100", 1134.0, 125.0, 6.0),
    )
)  # fmt: skip
"""(part of the device's name, its peaks), more special names first."""


def machine_of(environment: Environment) -> Machine | None:
    """The peaks of the machine a result was made on; None for a GPU that is not listed."""
    if environment.device == "cuda":
        return next((machine for name, machine in _GPUS if name in environment.processor), None)
    threads = max(1, environment.threads)
    return Machine(gbytes=512.0 * threads, tflops=4.0 * threads, cache_mib=0.0, launch_us=0.0)


def floor_us(cost: Cost, machine: Machine) -> float:
    """The least time of a call in microseconds: the larger of moving and computing, launch included."""
    cached = cost.moved <= machine.cache_mib * 2**20
    bandwidth = machine.gbytes * (CACHE_FACTOR if cached and machine.cache_mib else 1.0)
    return max(cost.moved / (bandwidth * 1e3), cost.flops / (machine.tflops * 1e6), machine.launch_us)


def caps_of(
    variants: Iterable[TaskVariant], eager_us: Mapping[int, float], environment: Environment
) -> dict[int, float]:
    """Roofline ratio, eager time over least time, of every variant that was timed; empty on an unknown machine."""
    machine = machine_of(environment)
    if machine is None:
        return {}
    floors = {row.index: floor_us(cost_of(row.graph), machine) for row in variants if row.index in eager_us}
    return {index: eager_us[index] / floor for index, floor in floors.items() if floor > 0}


def cost_of(graph: Graph) -> Cost:
    """Bytes and operations of a graph."""
    output = graph.nodes[-1]
    read = sum(_read_bytes(graph, index) for index in graph.placeholders)
    written = sum(_nbytes(graph.nodes[k]) for k in dict.fromkeys(output.inputs) if not _is_input(graph, k))
    eager = 0
    for _, node in graph.calls():
        if _short(node) not in _VIEWS and _short(node) not in _SIZE_ONLY and not _is_free_read(graph, node):
            eager += sum(_nbytes(graph.nodes[k]) for k in dict.fromkeys(node.inputs)) + _nbytes(node)
    moved = read + written
    return Cost(flops=sum(_flops(graph, node) for _, node in graph.calls()), moved=moved, eager_moved=max(moved, eager))


def _short(node: Node) -> str:
    return node.target.rpartition(".")[2]


def _is_free_read(graph: Graph, node: Node) -> bool:
    """Whether a call takes one of several results of another, which moves nothing."""
    return _short(node) == "getitem" and len(graph.nodes[node.inputs[0]].outputs) > 1 if node.inputs else False


def _spec_bytes(spec: TensorSpec) -> int:
    if spec.dtype in SCALAR_DTYPES or not spec.numel:
        return 0
    broadcast = 1
    for size, stride in zip(spec.shape, spec.stride, strict=True):
        broadcast *= size if stride == 0 and size > 1 else 1
    return spec.nbytes // broadcast


def _nbytes(node: Node) -> int:
    return sum(map(_spec_bytes, node.outputs))


def _read_bytes(graph: Graph, index: int) -> int:
    """Bytes of a placeholder that its readers need, at least."""
    whole, taken = _nbytes(graph.nodes[index]), 0
    for user in graph.users[index]:
        node = graph.nodes[user]
        name = _short(node)
        if name in _SIZE_ONLY or not node.is_call:
            continue
        if name not in _PARTIAL:
            return whole
        taken += _nbytes(node)
    return min(whole, taken)


def _is_input(graph: Graph, index: int) -> bool:
    """Whether a value is a placeholder or made of one by views alone."""
    node = graph.nodes[index]
    while node.is_call and _short(node) in _VIEWS | {"getitem"} and node.inputs:
        node = graph.nodes[node.inputs[0]]
    return not node.is_call


def _flops(graph: Graph, node: Node) -> float:
    name, operands = _short(node), [graph.nodes[k].outputs for k in node.inputs]
    if not node.outputs or not operands or not operands[0]:
        return 0.0
    out, first = node.outputs[0].numel, operands[0][0]
    if name in _CONTRACTIONS:
        wide = operands[1][0] if name in ("addmm", "baddbmm") and len(operands) > 1 and operands[1] else first
        return 2.0 * out * (wide.shape[-1] if wide.shape else 1)
    if name in _CONVOLUTIONS and len(operands) > 1 and operands[1] and operands[1][0].shape:
        weight = operands[1][0]
        return 2.0 * out * weight.numel / weight.shape[0]
    if name == "scaled_dot_product_attention" and len(operands) > 1 and first.shape and operands[1]:
        keys = operands[1][0].shape[-2]
        causal = "is_causal" in values.loads(node.attrs)["kwargs"]
        return 4.0 * first.numel * keys / (2 if causal else 1)
    return 0.0
