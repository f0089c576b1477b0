"""The rungs of tracing: ways to build and capture an architecture, tried in turn until one gives whole graphs.

    traced = climb(row, ClimbConfig())        # the graphs of one call, and how they were got

| attempt                     | tried                                                     | marked as             |
|-----------------------------|-----------------------------------------------------------|-----------------------|
| fake weights, Dynamo        | first                                                     | fake, dynamo-eval     |
| fake weights, recorded      | if Dynamo fails in any way but by time or memory          | fake, record-eval     |
| real weights, Dynamo        | if building under fake weights failed                     | real, dynamo-eval     |
| real weights, recorded      | if recording needs a value that depends on weights        | real, record-...      |
| scaled weights, recorded    | the same, where the real ones are too large               | scaled, record-...    |

A recorded graph whose forward read values of inputs or weights holds for these values only: "record-specialised".
Reads a ModelConfig and the installed libraries; writes nothing. Raises the failure of the last attempt that was made
with fake weights, which says most about the architecture, or of the first where inputs did not fit or an op failed.
"""

import json
from dataclasses import dataclass, replace

from extract.admission import GIB
from extract.build import FAKE, REAL, build_model, parameter_bytes
from extract.capture import Capture, Piece, capture
from extract.failures import BUILD, FORWARD, LIBRARY_ERRORS, LIFT, GraphBreakError, failure_kind, step
from extract.initialisers import describe_placeholders
from extract.inputs import wanted_inputs
from extract.points import FORWARD_POINT, enter
from extract.record import record
from extract.scale import scaled
from schemas.fx import lift
from schemas.graph import Graph, check
from schemas.rows import FailureKind, ModelConfig, Text

SCALED = "scaled"
DYNAMO, RECORDED, SPECIALISED = "dynamo-eval", "record-eval", "record-specialised"
"""Capture modes: by Dynamo, function by function, and the latter where the graph holds for the values read only."""
MISFITS = frozenset({FailureKind.INPUT_MISMATCH, FailureKind.RUNTIME_ERROR})
"""Kinds of failure of Dynamo that are the model's own more often than not: they stay what is told."""
RECORDABLE = MISFITS | {
    FailureKind.DATA_DEPENDENT, FailureKind.DYNAMO_ERROR, FailureKind.GRAPH_BREAK, FailureKind.NOT_REPRESENTABLE,
}  # fmt: skip
"""Kinds of failure of Dynamo that recording may cure."""
WEIGHTED = frozenset({FailureKind.DATA_DEPENDENT})
"""Kinds of failure of recording that weights may cure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClimbConfig:
    """What may be tried."""

    real_limit_gib: float = 2.0
    """Largest size of weights that are held."""
    keep_pieces: bool = False
    """Whether the pieces of a broken call do instead of one graph."""
    seed: int = 0
    point: str = FORWARD_POINT
    """Entry point, of `extract.points`."""
    training: bool = False
    """Whether the model is called in training mode, with gradients; only the first attempt does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """The graphs of one call, before admission."""

    rung: str
    mode: str
    captured: Capture
    graphs: tuple[Graph, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One line of the table above."""

    row: ModelConfig
    rung: str
    mode: str

    def run(self, config: ClimbConfig) -> Traced:
        """Build, capture and lift; raises what any of these does, GraphBreakError if there is no whole graph."""
        with step(BUILD):
            built = build_model(self.row, rung=FAKE if self.rung == FAKE else REAL, seed=config.seed)
        with step(FORWARD):
            built, wanted = enter(config.point, built, wanted_inputs(built.model, self.row))
        mode = self.mode
        built.model.train(config.training)
        if mode == DYNAMO:
            captured = capture(built, wanted, seed=config.seed, training=config.training)
        else:
            recorded = record(built, wanted, seed=config.seed)
            captured, mode = recorded.capture, SPECIALISED if recorded.reads else RECORDED
        if not captured.is_whole and not (config.keep_pieces and captured.pieces):
            raise GraphBreakError(captured.reason or f"the call gave {len(captured.pieces)} graphs")

        def lifted(piece: Piece) -> Graph:
            roles, inits = describe_placeholders(piece, captured, built, wanted)
            graph = lift(piece.gm, roles=roles, inits=inits)
            check(graph)
            return graph

        with step(LIFT):
            graphs = tuple(lifted(piece) for piece in captured.pieces)
        return Traced(rung=self.rung, mode=mode, captured=captured, graphs=graphs)


def climb(row: ModelConfig, config: ClimbConfig) -> Traced:
    """The graphs of the first attempt that succeeds."""
    attempt: Attempt | None = Attempt(row=row, rung=FAKE, mode=DYNAMO)
    shown: Exception | None = None
    while attempt is not None:
        try:
            return attempt.run(config)
        except LIBRARY_ERRORS as error:
            failed = error
        if shown is None or (attempt.rung == FAKE and failure_kind(shown) not in MISFITS):
            shown = failed
        attempt = _following(attempt, failure_kind(failed), row, config)
    assert shown is not None
    raise shown


def _following(attempt: Attempt, kind: FailureKind, row: ModelConfig, config: ClimbConfig) -> Attempt | None:
    """The attempt that may cure what stopped another, if there is one."""
    if config.training:
        return None
    if attempt.mode == DYNAMO and kind in RECORDABLE:
        return replace(attempt, mode=RECORDED)
    if attempt.rung == FAKE and attempt.mode == DYNAMO and kind is FailureKind.BUILD_ERROR:
        return _weighted(row, DYNAMO, config)
    if attempt.rung == FAKE and kind in WEIGHTED:
        return _weighted(row, RECORDED, config)
    return None


def _weighted(row: ModelConfig, mode: str, config: ClimbConfig) -> Attempt | None:
    """An attempt with weights, real or scaled, whichever first fits the limit."""
    small = replace(row, config=Text(json.dumps(scaled(json.loads(row.config)))))
    for candidate, rung in ((row, REAL), (small, SCALED)):
        if _fits(candidate, config):
            return Attempt(row=candidate, rung=rung, mode=mode)
    return None


def _fits(row: ModelConfig, config: ClimbConfig) -> bool:
    """Whether the weights may be held; an architecture that cannot be counted is not."""
    try:
        return parameter_bytes(row) <= config.real_limit_gib * GIB
    except LIBRARY_ERRORS:
        return False
