"""Stage `graphs`: build one architecture without weights, capture its call, and admit the graph that survives.

    rows = list(trace(row, TraceConfig()))      # one GraphRecord, or one Failure of a specific kind

Reads a ModelConfig row and the installed libraries; writes GraphRecord and Failure rows. Meant for a child process
with limits on time and memory: constructors and forwards of foreign code run here. Whatever is not expected of such
code is raised; `failure_kind` tells what it means.
"""

import json
import logging
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from extract.admission import GIB, check_rebuilt, compare, estimate_bytes
from extract.build import FAKE, REAL, build_model, parameter_bytes
from extract.capture import Capture, Piece, capture
from extract.failures import (
    BUILD,
    FORWARD,
    LIBRARY_ERRORS,
    LIFT,
    REBUILD,
    GraphBreakError,
    failure_kind,
    failure_row,
    step,
)  # fmt: skip
from extract.files import FILES, located
from extract.initialisers import describe_placeholders
from extract.inputs import wanted_inputs
from schemas.fx import lift, lower
from schemas.graph import Graph, check
from schemas.rows import Failure, FailureKind, GraphRecord, ModelConfig, content_id

__all__ = ["TraceConfig", "failure_kind", "trace"]

ENTRY_POINT, CAPTURE_MODE, SAMPLE_MODE = "forward", "dynamo-eval", "sample"
RETRY = frozenset({
    FailureKind.BUILD_ERROR, FailureKind.DATA_DEPENDENT, FailureKind.DYNAMO_ERROR, FailureKind.NOT_REPRESENTABLE,
})  # fmt: skip
"""Kinds of failure on the fake rung for which real parameters may help."""


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
    seed: int = 0
    """Seed of the values that graphs are compared on."""

    def __post_init__(self) -> None:
        if self.threads < 1 or self.numeric_limit_gib < 0 or self.real_limit_gib < 0:
            raise ValueError("threads must be at least 1 and memory limits not negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Traced:
    """The graphs of one call, before admission."""

    rung: str
    captured: Capture
    graphs: tuple[Graph, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """How a graph was got, and which of the graphs of its call it is."""

    capture: str
    rung: str
    index: int
    count: int
    reason: str


def trace(row: ModelConfig, config: TraceConfig) -> Iterator[GraphRecord | Failure]:
    """Yield the admitted graph of an architecture (its pieces only on request), or why there is none."""
    _be_quiet()
    torch.set_num_threads(config.threads)
    try:
        if row.library == "sample":
            yield _read(row, config)
            return
        if row.library == FILES:
            row = located(row, config.files)
        traced = _trace_on_some_rung(row, config)
        records = [_admit(row, config, traced, index) for index in range(len(traced.graphs))]
    except LIBRARY_ERRORS as error:
        yield failure_row(error, stage="graphs", row=row)
        return
    yield from records


def _be_quiet() -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    warnings.filterwarnings("ignore")
    logging.getLogger("torch").setLevel(logging.CRITICAL)


def _trace_on_some_rung(row: ModelConfig, config: TraceConfig) -> _Traced:
    """The graphs from the fake rung or, where that fails in a way real parameters may cure, from the real one."""
    try:
        return _trace_on(FAKE, row, config)
    except LIBRARY_ERRORS as error:
        if isinstance(error, GraphBreakError) or failure_kind(error) not in RETRY or not _is_small(row, config):
            raise
        first = error
    try:
        return _trace_on(REAL, row, config)
    except LIBRARY_ERRORS:
        raise first from None


def _is_small(row: ModelConfig, config: TraceConfig) -> bool:
    """Whether the parameters may be held for real; an architecture that cannot be counted is not."""
    try:
        return parameter_bytes(row) <= config.real_limit_gib * GIB
    except LIBRARY_ERRORS:
        return False


def _trace_on(rung: str, row: ModelConfig, config: TraceConfig) -> _Traced:
    with step(BUILD):
        built = build_model(row, rung=rung, seed=config.seed)
    with step(FORWARD):
        wanted = wanted_inputs(built.model, row)
    captured = capture(built, wanted, seed=config.seed)
    if not captured.is_whole and not (config.keep_pieces and captured.pieces):
        raise GraphBreakError(captured.reason or f"the call gave {len(captured.pieces)} graphs")

    def lifted(piece: Piece) -> Graph:
        roles, inits = describe_placeholders(piece, captured, built, wanted)
        graph = lift(piece.gm, roles=roles, inits=inits)
        check(graph)
        return graph

    with step(LIFT):
        graphs = tuple(lifted(piece) for piece in captured.pieces)
    return _Traced(rung=rung, captured=captured, graphs=graphs)


def _admit(row: ModelConfig, config: TraceConfig, traced: _Traced, index: int) -> GraphRecord:
    """The row of one graph; raises RoundtripError or NumericError if it does not survive."""
    place = _Place(
        capture=CAPTURE_MODE, rung=traced.rung, index=index, count=len(traced.graphs),
        reason=traced.captured.reason_after(index),
    )  # fmt: skip
    return _record(row, config, (traced.graphs[index], traced.captured.pieces[index].gm), place)


def _read(row: ModelConfig, config: TraceConfig) -> GraphRecord:
    """The row of a sample, read instead of traced; raises ValueError if it is malformed."""
    from extract.samples import read_sample

    with step(LIFT):
        graph = read_sample(Path(config.samples) / json.loads(row.config)["sample"])
        rebuilt = lower(graph)
    return _record(row, config, (graph, rebuilt), _Place(capture=SAMPLE_MODE, rung="", index=0, count=1, reason=""))


def _record(
    row: ModelConfig, config: TraceConfig, pair: tuple[Graph, torch.fx.GraphModule], place: _Place
) -> GraphRecord:
    graph, module = pair
    with step(REBUILD):
        specs = check_rebuilt(graph)
    found = compare(
        module, graph, needed=estimate_bytes(graph, specs), limit=int(config.numeric_limit_gib * GIB), seed=config.seed
    )
    parameters = [graph.nodes[i] for i in graph.placeholders if graph.nodes[i].target == "parameter"]
    return GraphRecord(
        graph_id=content_id(row.architecture, ENTRY_POINT, place.capture, str(place.index), graph.to_json()),
        architecture=row.architecture, name=row.name, family=row.family, modality=row.modality, license=row.license,
        entry_point=ENTRY_POINT, capture=place.capture, rung=place.rung, break_index=place.index,
        break_count=place.count, break_reason=place.reason, num_nodes=len(graph.nodes), num_ops=graph.num_ops,
        num_parameters=sum(node.outputs[0].numel for node in parameters),
        numeric=found.numeric, numeric_detail=found.detail, graph=graph,
    )  # fmt: skip
