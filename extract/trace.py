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

from extract.admission import GIB, check_rebuilt, compare, estimate_bytes, settled
from extract.failures import LIBRARY_ERRORS, LIFT, REBUILD, failure_kind, failure_row, step
from extract.files import FILES, located
from extract.ladder import ClimbConfig, Traced, climb
from extract.warm import warm_up
from schemas.fx import lower
from schemas.graph import Graph
from schemas.rows import Failure, GraphRecord, ModelConfig, content_id

__all__ = ["TraceConfig", "failure_kind", "trace", "warm_up"]

ENTRY_POINT, SAMPLE_MODE = "forward", "sample"


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

    @property
    def climb(self) -> ClimbConfig:
        """What of this concerns building and capturing."""
        return ClimbConfig(real_limit_gib=self.real_limit_gib, keep_pieces=self.keep_pieces, seed=self.seed)


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
        traced = climb(row, config.climb)
        records = [_admit(row, config, traced, index) for index in range(len(traced.graphs))]
    except LIBRARY_ERRORS as error:
        yield failure_row(error, stage="graphs", row=row)
        return
    yield from records


def _be_quiet() -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    warnings.filterwarnings("ignore")
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    ignored = getattr(torch._dynamo.config, "ignore_logging_functions", None)
    if ignored is not None:
        ignored.add(warnings.warn)


def _admit(row: ModelConfig, config: TraceConfig, traced: Traced, index: int) -> GraphRecord:
    """The row of one graph; raises RoundtripError or NumericError if it does not survive."""
    place = _Place(
        capture=traced.mode, rung=traced.rung, index=index, count=len(traced.graphs),
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
        graph = settled(graph, specs)
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
