"""What Inductor makes of a graph, from one compilation that stops when the code is written: nothing is run.

    stand_in(TARGETS["H200"])                       # or a real GPU, or device "cpu"
    compiled = compile_graph(graph, device="cuda")  # -> launches with node indices, kernel sources, unfused pairs

Reads a graph, writes nothing. The whole of Inductor runs as in `torch.compile` (functionalisation, decompositions,
passes, scheduling, code generation), on fake tensors; no kernel is compiled. Raises what the compiler raises.

Everything of the graph moves to the device: inputs, devices in arguments, tensors made without naming a device.
Constants and literal tensors become inputs, since making one would ask the driver. Scalars keep their number.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from fusion_mining.device import attention, stands_in
from fusion_mining.op_classes import CLASSES
from fusion_mining.provenance import Assignment, followed, mark, marks_of_all
from schemas.fx import example_input, fake_input, lower
from schemas.graph import SCALAR_DTYPES, Graph
from schemas.kernel_rows import Launch, Unfused
from schemas.roles import short_name

MAX_UNFUSED = 2000
"""Most unfused pairs kept of a graph."""
_FACTORIES = frozenset(CLASSES["factory"].split()) | {"rand", "randn", "randint", "randperm", "as_tensor", "full"}
_NAMED = re.compile(r"Placeholder\.(?:KERNEL|DESCRIPTIVE)_NAME")
"""What stands for a kernel's name until it has one."""
_LITERALS = (torch.tensor, torch.as_tensor, torch.scalar_tensor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """The code Inductor wrote for one graph."""

    launches: tuple[Launch, ...]
    """Everything that is launched, in order."""
    sources: dict[str, str]
    """Generated kernels by name; empty for the CPU."""
    unfused: tuple[Unfused, ...]
    """Pairs of launches that share data, with the compiler's reason."""
    module: str
    """The whole generated module."""


class _Written(BaseException):
    """The code stands; not an Exception, so that no handler of the compiler takes it for a failure."""


@dataclass(slots=True)
class _Record:
    """What is seen while Inductor works."""

    generated: list[tuple[str, str, frozenset[str]]] = field(default_factory=list)
    """(kernel name, source, names of the scheduler nodes in it), one a launch."""
    refusals: list[tuple[str, str, str, tuple[Any, ...]]] = field(default_factory=list)
    """(node, node, reason, its arguments)."""
    lowering: Any = None
    module: str = ""


# --- to the device ---------------------------------------------------------------------------------------------------
def on_device(graph: Graph, device: str) -> tuple[torch.fx.GraphModule, list[Any]]:
    """The lowered graph with everything on a device, marked, and one fake input a placeholder (constants included)."""
    gm = lower(graph)
    mark(gm)
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    _bake_scalars(gm, graph)
    _lift_constants(gm)
    inputs: list[Any] = []
    with mode:
        for node in gm.graph.find_nodes(op="placeholder"):
            value = node.meta.pop("passnet_value", None)
            made = value if value is not None else fake_input(node.meta["passnet_specs"][0])
            like = torch.empty_strided(made.shape, made.stride(), dtype=made.dtype, device=device)
            inputs.append(like)
    for node in gm.graph.nodes:
        _move(node, device)
    gm.recompile()
    return gm, inputs


def lifted_values(graph: Graph) -> list[torch.Tensor]:
    """The values of the constants that `on_device` makes inputs, in that order."""
    gm = lower(graph)
    _lift_constants(gm)
    found = (node.meta.get("passnet_value") for node in gm.graph.find_nodes(op="placeholder"))
    return [value for value in found if value is not None]


def _bake_scalars(gm: torch.fx.GraphModule, graph: Graph) -> None:
    """Scalar placeholders replaced by their number."""
    for node, init in zip(gm.graph.find_nodes(op="placeholder"), graph.inits, strict=True):
        spec = node.meta["passnet_specs"][0]
        if spec.dtype in SCALAR_DTYPES:
            _replace_by_value(node, example_input(spec, init))
            gm.graph.erase_node(node)


def _replace_by_value(node: torch.fx.Node, value: Any) -> None:
    for user in list(node.users):
        swap: Callable[[Any], Any] = lambda arg: value if arg is node else arg  # noqa: E731
        user.args = torch.fx.node.map_aggregate(user.args, swap)
        user.kwargs = torch.fx.node.map_aggregate(user.kwargs, swap)


def _lift_constants(gm: torch.fx.GraphModule) -> None:
    """Tensors held by the module and literal tensors become placeholders, after the others."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    first = next(iter(gm.graph.nodes))
    place = placeholders[-1] if placeholders else None
    for node in list(gm.graph.nodes):
        value = _constant_value(gm, node)
        if value is None:
            continue
        with gm.graph.inserting_after(place) if place else gm.graph.inserting_before(first):
            place = gm.graph.placeholder(f"lifted_{node.name}")
        place.meta["passnet_value"] = value
        node.replace_all_uses_with(place)
        gm.graph.erase_node(node)


def _constant_value(gm: torch.fx.GraphModule, node: torch.fx.Node) -> torch.Tensor | None:
    if node.op == "get_attr":
        value = getattr(gm, str(node.target), None)
        return value if isinstance(value, torch.Tensor) else None
    if node.op != "call_function" or node.target not in _LITERALS or node.all_input_nodes:
        return None
    options = {k: v for k, v in node.kwargs.items() if k != "device"}
    made: torch.Tensor = node.target(*node.args, **options)
    return made


def _move(node: torch.fx.Node, device: str) -> None:
    """Every device among a call's arguments is the device; a tensor made without one is made there."""
    place = torch.device(device, 0) if device != "cpu" else torch.device("cpu")

    def moved(arg: Any) -> Any:
        if isinstance(arg, torch.device):
            return place
        return device if isinstance(arg, str) and arg == "cpu" else arg

    node.args = torch.fx.node.map_aggregate(node.args, moved)
    node.kwargs = torch.fx.node.map_aggregate(node.kwargs, moved)
    if device != "cpu" and stands_in() and node.target is torch.nn.functional.scaled_dot_product_attention:
        node.target = attention
    name = getattr(node.target, "__name__", "").partition(".")[0]
    if node.op == "call_function" and name in _FACTORIES and not node.kwargs.get("device") and device != "cpu":
        node.kwargs = {**node.kwargs, "device": place}


# --- compilation -----------------------------------------------------------------------------------------------------
def compile_graph(graph: Graph, *, device: str) -> Compiled:
    """Let Inductor write the code of a graph for "cuda" (real or stood in for) or "cpu"."""
    from torch._inductor.compile_fx import compile_fx

    gm, inputs = on_device(graph, device)
    record = _Record()
    try:
        with torch.no_grad(), _settings(), _recorded(record), followed():
            compile_fx(gm, inputs)
    except _Written:
        pass
    if record.lowering is None:
        return Compiled(launches=(), sources={}, unfused=(), module="")
    return _compiled(graph, record)


@contextmanager
def _settings() -> Iterator[None]:
    import torch._functorch.config as functorch
    import torch._inductor.config as inductor

    chosen = {"fx_graph_cache": False, "compile_threads": 1, "force_disable_caches": True}
    with inductor.patch(chosen), functorch.patch({"enable_autograd_cache": False}):
        yield


@contextmanager
def _recorded(record: _Record) -> Iterator[None]:
    """While open, kernels and refusals are noted, and compilation ends when the module's text stands."""
    from torch._inductor.codegen.triton import TritonScheduling
    from torch._inductor.graph import GraphLowering
    from torch._inductor.scheduler import WhyNoFuse

    define = TritonScheduling.define_kernel

    def note_kernel(self: Any, source: str, schedule: Any, *args: Any, **kwargs: Any) -> Any:
        name = define(self, source, schedule, *args, **kwargs)  # type: ignore[no-untyped-call]
        nodes = frozenset(item.get_name() for item in schedule if hasattr(item, "get_name"))
        record.generated.append((str(name), source, nodes))
        return name

    def note_refusal(self: Any, reason: str, *args: Any) -> None:
        record.refusals.append((self.name1, self.name2, reason, args))

    def stop(self: Any) -> None:
        code, _ = self.codegen()
        record.lowering, record.module = self, str(getattr(code, "value", code))
        raise _Written

    with ExitStack() as stack:
        stack.enter_context(patch.object(TritonScheduling, "define_kernel", note_kernel))
        stack.enter_context(patch.object(WhyNoFuse, "__call__", note_refusal))
        stack.enter_context(patch.object(GraphLowering, "compile_to_module", stop))
        yield


# --- what was written ------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """One launch and the scheduler nodes in it."""

    launch: Launch
    names: frozenset[str]
    buffers: frozenset[str]
    """Buffers it reads or writes."""


def _compiled(graph: Graph, record: _Record) -> Compiled:
    from torch._inductor.virtualized import V

    with V.set_graph_handler(record.lowering):
        items = list(_items(graph, record))
    return Compiled(
        launches=tuple(item.launch for item in items),
        sources={name: _NAMED.sub(name, source).strip() for name, source, _ in record.generated},
        unfused=tuple(_unfused(items, record.refusals)), module=record.module,
    )  # fmt: skip


def _items(graph: Graph, record: _Record) -> Iterator[_Item]:
    """Launches in order: of each scheduled group the kernels generated for its nodes, or its library call."""
    assigned = Assignment(record.lowering)
    holder = {name: index for index, (_, _, names) in enumerate(record.generated) for name in names}
    for group in record.lowering.scheduler.nodes:
        parts = list(group.get_nodes())
        if all(_is_nop(part) for part in parts):
            continue
        kernels = sorted({holder[part.get_name()] for part in parts if part.get_name() in holder})
        if not kernels:
            yield _item(graph, assigned, parts, ("", _called(parts[0])))
        for index in kernels:
            name, _, names = record.generated[index]
            own = [part for part in parts if part.get_name() in names] if len(kernels) > 1 else parts
            yield _item(graph, assigned, own, (name, ""))


def _is_nop(part: Any) -> bool:
    """Whether a scheduled node launches nothing: no work, or one result of a call that yields several."""
    return type(part).__name__ == "NopKernelSchedulerNode" or type(part.node).__name__ == "MultiOutput"


def _called(part: Any) -> str:
    """What a library call calls; empty for a generated group."""
    if not part.is_extern():
        return ""
    node = part.node
    name = getattr(node, "python_kernel_name", None) or getattr(node, "op_overload", None) or type(node).__name__
    return str(name)


def _item(graph: Graph, assigned: Assignment, parts: Sequence[Any], called: tuple[str, str]) -> _Item:
    kernel, library = called
    computed = [node for part in parts if part.node is not None for node in assigned.nodes_of(part)]
    marks = [k for k in marks_of_all(computed) if graph.nodes[k].is_call]
    numel, reduction = _range(parts) if not library else (0, 0)
    reads, writes = _bytes(parts, numel * reduction)
    launch = Launch(
        kernel=kernel or library or "cpp_fused", library=bool(library), nodes=tuple(marks),
        ops=tuple(short_name(graph.nodes[k].target) for k in marks), bytes_read=reads, bytes_written=writes,
        numel=numel, reduction=reduction,
    )  # fmt: skip
    buffers = {dep.name for part in parts for dep in part.read_writes.reads_and_writes()}
    return _Item(launch=launch, names=frozenset(part.get_name() for part in parts), buffers=frozenset(buffers))


def _bytes(parts: Sequence[Any], steps: int) -> tuple[int, int]:
    """Bytes that a launch reads and writes: each outside buffer once.

    A generated kernel of `steps` iterations reads no more elements of a buffer than it has iterations and reads of it:
    a lookup reads a few rows of its table.
    """
    written: set[str] = set().union(*(part.get_buffer_names() for part in parts))
    reads: dict[str, int] = {}
    for part in parts:
        sizes = part.get_read_write_buffer_accesses(include_reads=True, include_writes=False)
        for name, size in sizes.items():
            uses = sum(dep.name == name for dep in part.read_writes.reads)
            limit = steps * uses * _itemsize(name) if steps else size
            if name not in written:
                reads[name] = max(reads.get(name, 0), min(int(size), limit))
    inner = {name for name in written if name in _freed()}
    stored = 0
    for part in parts:
        sizes = part.get_read_write_buffer_accesses(include_reads=False, include_writes=True)
        stored += sum(int(size) for name, size in sizes.items() if name not in inner)
    return sum(reads.values()), stored


def _freed() -> Any:
    """Buffers that stay inside a kernel and are never stored."""
    from torch._inductor.virtualized import V

    return V.graph.removed_buffers


def _itemsize(name: str) -> int:
    from torch._inductor.virtualized import V

    return int(V.graph.get_dtype(name).itemsize)


def _range(parts: Sequence[Any]) -> tuple[int, int]:
    """(elements, reduced elements) of the largest loop nest of a group."""
    best = (0, 1)
    for part in parts:
        sizes = getattr(part, "_sizes", None)
        if sizes:
            found = tuple(_product(size) for size in sizes)
            best = max(best, (found[0], found[1] if len(found) > 1 else 1))
    return best


def _product(sizes: Sequence[Any]) -> int:
    total = 1
    for size in sizes:
        total *= int(size)
    return total


def _unfused(items: Sequence[_Item], refusals: Sequence[tuple[str, str, str, tuple[Any, ...]]]) -> Iterator[Unfused]:
    """The last reason given for every pair of launches that shares a buffer."""
    where = {name: index for index, item in enumerate(items) for name in item.names}
    found: dict[tuple[int, int], str] = {}
    for first, second, reason, args in refusals:
        pair = sorted({where[name] for text in (first, second) for name in text.split("_") if name in where})
        if len(pair) == 2 and items[pair[0]].buffers & items[pair[1]].buffers:
            found[pair[0], pair[1]] = _sentence(reason, args)
    for (one, other), sentence in sorted(found.items())[:MAX_UNFUSED]:
        yield Unfused(first=one, second=other, reason=sentence)


def _sentence(reason: str, args: tuple[Any, ...]) -> str:
    """A reason with its template's holes masked, so that equal reasons read alike."""
    text = re.sub(r"%[a-z]|\{[^}]*\}", "...", reason) if args else reason
    return re.sub(r"\b(?:op|buf)\d+\b|\b\d+\b", "...", text).strip()
