"""Stage `graphs`: build one architecture without weights, capture its call, and admit the graph that survives.

    rows = list(trace(row, TraceConfig()))      # one GraphRecord, or one Failure of a specific kind

On request more: further entry points (`extract.points`), the ATen form of each graph and the graphs of a training step
(`extract.aten`); each is a row of its own, or a Failure whose item names the point and the form.
Reads a ModelConfig row and the installed libraries; writes GraphRecord and Failure rows. Meant for a child process
with limits on time and memory: constructors and forwards of foreign code run here. Whatever is not expected of such
code is raised; `failure_kind` tells what it means.
"""

import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from extract.admission import GIB, check_rebuilt, estimate_bytes, settled
from extract.aten import AOT_BACKWARD, AOT_FORWARD, ATEN, aten_form, training_forms
from extract.eager import Eager
from extract.failures import LIBRARY_ERRORS, LIFT, REBUILD, GraphBreakError, failure_kind, failure_row, step
from extract.files import FILES, located
from extract.isolation import isolated, left_behind, retire
from extract.ladder import ClimbConfig, Traced, climb
from extract.numeric import Lifted, Memory, compare
from extract.points import ALL, FORWARD_POINT, POINTS, points_of
from extract.warm import warm_up
from schemas.fx import lower
from schemas.graph import Graph
from schemas.rows import Failure, GraphRecord, ModelConfig, content_id

__all__ = ["TraceConfig", "failure_kind", "left_behind", "trace", "warm_up"]

SAMPLE_MODE = "sample"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceConfig:
    """Settings of the stage."""

    numeric_limit_gib: float = 4.0
    """Largest estimated memory of running a graph, above which values are not compared."""
    real_limit_gib: float = 2.0
    """Largest size of parameters that are held for real where fake ones do not do."""
    keep_pieces: bool = False
    """Whether the pieces of a broken call are kept as graphs."""
    threads: int = 1
    """Threads of torch while values are compared."""
    samples: str = ""
    """Folder below which the sample folders of the source graphs are."""
    files: tuple[str, ...] = ()
    """Python files or import paths of the source files."""
    points: tuple[str, ...] = (FORWARD_POINT,)
    """Entry points: forward, batch, decode, or all."""
    aten: bool = False
    """Whether every whole graph gives a second row, its form in ATen ops."""
    training: bool = False
    """Whether the forward call in training mode gives two more rows, the graphs of AOT autograd."""
    seed: int = 0
    """Seed of the values that graphs are compared on."""

    def __post_init__(self) -> None:
        if unknown := [name for name in self.points if name not in (*POINTS, ALL)]:
            raise ValueError(f"unknown entry point {unknown[0]!r}: choose from {', '.join((*POINTS, ALL))}")
        if self.threads < 1 or self.numeric_limit_gib < 0 or self.real_limit_gib < 0:
            raise ValueError("threads must be at least 1 and memory limits not negative")

    @property
    def climb(self) -> ClimbConfig:
        """What of this concerns building and capturing."""
        return ClimbConfig(real_limit_gib=self.real_limit_gib, keep_pieces=self.keep_pieces, seed=self.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """How a graph was got, and which of the graphs of its call it is."""

    point: str
    capture: str
    rung: str
    index: int = 0
    count: int = 1
    reason: str = ""


def trace(row: ModelConfig, config: TraceConfig) -> Iterator[GraphRecord | Failure]:
    """Yield the admitted graph of an architecture (its pieces and other forms only on request), or why there is none.

    A Failure of the forward call is the only row; one of another point or form stands beside the rows that there are.
    What the architecture's code changed of the process is put back before the first row is given.
    """
    _be_quiet()
    torch.set_num_threads(config.threads)
    if row.library == FILES:
        retire("the code of a file ran")
    with isolated():
        rows = [*_rows(row, config)]
    yield from rows


def _rows(row: ModelConfig, config: TraceConfig) -> Iterator[GraphRecord | Failure]:
    """What `trace` yields, in a process that may be changed."""
    try:
        if row.library == SAMPLE_MODE:
            yield _read(row, config)
            return
        row = located(row, config.files) if row.library == FILES else row
        records = _traced(row, config, FORWARD_POINT)
    except LIBRARY_ERRORS as error:
        yield failure_row(error, stage="graphs", row=row)
        return
    yield from records
    yield from _more(row, config, records)


def _more(row: ModelConfig, config: TraceConfig, records: list[GraphRecord]) -> Iterator[GraphRecord | Failure]:
    """The rows asked for besides those of the forward call."""
    for point in points_of(row, config.points):
        found: list[GraphRecord | Failure] = list(records)
        if point != FORWARD_POINT:
            found = _attempt(row, point, partial(_traced, row, config, point))
            yield from found
        for record in found if config.aten else ():
            if isinstance(record, GraphRecord) and record.break_count == 1:
                yield from _attempt(row, f"{point}.{ATEN}", partial(_aten, row, config, record))
    if config.training:
        yield from _attempt(row, f"{FORWARD_POINT}.training", partial(_training, row, config))


def _attempt(row: ModelConfig, what: str, make: Callable[[], list[GraphRecord]]) -> list[GraphRecord | Failure]:
    """Further rows, or one Failure whose item names what failed."""
    try:
        return [*make()]
    except LIBRARY_ERRORS as error:
        failed = failure_row(error, stage="graphs", row=row)
        return [replace(failed, item=f"{failed.item}#{what}", name=f"{failed.name}#{what}")]


def _traced(row: ModelConfig, config: TraceConfig, point: str) -> list[GraphRecord]:
    traced = climb(row, replace(config.climb, point=point))
    return [_admit(row, config, traced, index, point) for index in range(len(traced.graphs))]


def _aten(row: ModelConfig, config: TraceConfig, record: GraphRecord) -> list[GraphRecord]:
    """The ATen form of an admitted graph; its values are compared with those of the graph itself."""
    _, graph = aten_form(record.graph)
    place = _Place(point=record.entry_point, capture=ATEN, rung=record.rung)
    return [_record(row, config, Lifted(module=lower(record.graph), graph=graph), place)]


def _training(row: ModelConfig, config: TraceConfig) -> list[GraphRecord]:
    traced = climb(row, replace(config.climb, training=True))
    if len(traced.graphs) != 1:
        raise GraphBreakError(traced.captured.reason)
    places = [_Place(point=FORWARD_POINT, capture=mode, rung=traced.rung) for mode in (AOT_FORWARD, AOT_BACKWARD)]
    pairs = zip(places, training_forms(traced.graphs[0]), strict=True)
    return [_record(row, config, Lifted(module=module, graph=graph), place) for place, (module, graph) in pairs]


def _be_quiet() -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    warnings.filterwarnings("ignore")
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    ignored = getattr(torch._dynamo.config, "ignore_logging_functions", None)
    if ignored is not None:
        ignored.add(warnings.warn)


def _admit(row: ModelConfig, config: TraceConfig, traced: Traced, index: int, point: str) -> GraphRecord:
    """The row of one graph; raises RoundtripError or NumericError if it does not survive."""
    place = _Place(
        point=point, capture=traced.mode, rung=traced.rung, index=index, count=len(traced.graphs),
        reason=traced.captured.reason_after(index),
    )  # fmt: skip
    piece = traced.captured.pieces[index]
    lifted = Lifted(module=piece.gm, graph=traced.graphs[index], specialised=traced.specialised)

    def eager(graph: Graph) -> Eager:
        return Eager(traced.source, piece, graph, seed=config.seed)

    return _record(row, config, lifted, place, eager if len(traced.graphs) == 1 else None)


def _read(row: ModelConfig, config: TraceConfig) -> GraphRecord:
    """The row of a sample, read instead of traced; raises ValueError if it is malformed."""
    from extract.samples import checked_sample

    with step(LIFT):
        sample = checked_sample(Path(config.samples) / json.loads(row.config)["sample"])
        lifted = Lifted(module=lower(sample.graph), graph=sample.graph, specs=sample.specs)
    return _record(row, config, lifted, _Place(point=FORWARD_POINT, capture=SAMPLE_MODE, rung=""))


def _record(
    row: ModelConfig,
    config: TraceConfig,
    lifted: Lifted,
    place: _Place,
    eager: Callable[[Graph], Eager] | None = None,
) -> GraphRecord:
    """The row of a graph that survives; `eager` makes the module that it is compared with."""
    with step(REBUILD):
        specs = lifted.specs or check_rebuilt(lifted.graph)
        graph = settled(lifted.graph, specs)
        memory = Memory(needed=estimate_bytes(graph, specs), limit=int(config.numeric_limit_gib * GIB))
        make = None if eager is None else partial(eager, graph)
        found = compare(replace(lifted, graph=graph), memory, eager=make, seed=config.seed)
    parameters = [graph.nodes[i] for i in graph.placeholders if graph.nodes[i].target == "parameter"]
    return GraphRecord(
        graph_id=content_id(row.architecture, place.point, place.capture, str(place.index), graph.to_json()),
        architecture=row.architecture, name=row.name, family=row.family, modality=row.modality, license=row.license,
        entry_point=place.point, capture=place.capture, rung=place.rung, break_index=place.index,
        break_count=place.count, break_reason=place.reason, num_nodes=len(graph.nodes), num_ops=graph.num_ops,
        num_parameters=sum(node.outputs[0].numel for node in parameters),
        numeric=found.numeric, numeric_detail=found.detail, graph=graph,
    )  # fmt: skip
