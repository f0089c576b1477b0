"""The rungs of tracing: ways to build and capture an architecture, tried in turn until one gives whole graphs.

    traced = climb(row, ClimbConfig())        # the graphs of one call, and how they were got

| attempt                     | tried                                                     | marked as             |
|-----------------------------|-----------------------------------------------------------|-----------------------|
| fake weights, Dynamo        | first                                                     | fake, dynamo-eval     |
| fake weights, recorded      | if Dynamo fails in any way but by time or memory          | fake, record-eval     |
| both once more, text alone  | if a model of text and pictures or sounds failed so far   | as above              |
| real weights, Dynamo        | if building under fake weights failed                     | real, dynamo-eval     |
| real weights, recorded      | if recording needs a value that depends on weights        | real, record-...      |
| scaled weights, recorded    | the same, where the real ones are too large               | scaled, record-...    |

A graph whose forward read values of inputs or weights holds for these values only: "dynamo-specialised" and
"record-specialised".
Reads a ModelConfig and the installed libraries; writes nothing. Raises the failure of the last attempt that was made
with fake weights, which says most about the architecture, or of the first where inputs did not fit or an op failed; a
sentence on what the author's code holds that no graph does goes before either.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from extract.admission import GIB
from extract.build import FAKE, REAL, Built, build_model, parameter_bytes
from extract.capture import Capture, Piece, capture
from extract.eager import Source
from extract.failures import BUILD, FORWARD, LIBRARY_ERRORS, LIFT, OWN, GraphBreakError, failure_kind, step, told
from extract.initialisers import describe_placeholders
from extract.inputs import WantedInput, wanted_inputs, without_media
from extract.isolation import isolated
from extract.outside import surroundings
from extract.points import FORWARD_POINT, enter
from extract.record import record
from extract.scale import scaled
from extract.sharing import with_shared
from extract.unheld import check_device, devices_told
from schemas.fx import NotRepresentable, lift
from schemas.graph import Graph, check
from schemas.rows import FailureKind, ModelConfig, Text

SCALED = "scaled"
DYNAMO, RECORDED, SPECIALISED = "dynamo-eval", "record-eval", "record-specialised"
DYNAMO_SPECIALISED = "dynamo-specialised"
"""Capture modes: by Dynamo, function by function, and the latter where the graph holds for the values read only."""
MISFITS = frozenset({FailureKind.INPUT_MISMATCH, FailureKind.RUNTIME_ERROR})
"""Kinds of failure of Dynamo that are the model's own more often than not: they stay what is told."""
RECORDABLE = MISFITS | {
    FailureKind.DATA_DEPENDENT, FailureKind.DYNAMO_ERROR, FailureKind.GRAPH_BREAK, FailureKind.NOT_REPRESENTABLE,
    FailureKind.NONDETERMINISTIC,
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
    source: Source
    """The call, for comparing."""

    @property
    def specialised(self) -> bool:
        """Whether the graphs hold for the numbers that were read only."""
        return self.mode in (SPECIALISED, DYNAMO_SPECIALISED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A model that was built, and what it is called with."""

    built: Built
    wanted: tuple[WantedInput, ...]

    @property
    def has_media(self) -> bool:
        """Whether the model takes a text, and pictures or sounds that it can do without."""
        return len(without_media(self.wanted)) < len(self.wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One line of the table above."""

    row: ModelConfig
    rung: str
    mode: str
    alone: bool = False
    """Whether a text goes in without pictures and sounds."""

    def prepare(self, config: ClimbConfig) -> Ready:
        """Build the model and say what goes in."""
        with step(BUILD):
            built = build_model(self.row, rung=FAKE if self.rung == FAKE else REAL, seed=config.seed)
        with step(FORWARD):
            built, wanted = enter(config.point, built, wanted_inputs(built.model, self.row))
        return Ready(built=built, wanted=wanted)

    def run(self, ready: Ready, config: ClimbConfig) -> Traced:
        """Capture and lift; raises what any of these does, GraphBreakError if there is no whole graph."""
        built, mode = ready.built, self.mode
        wanted = without_media(ready.wanted) if self.alone else ready.wanted
        built.model.train(config.training)
        if mode == DYNAMO:
            captured = capture(built, wanted, seed=config.seed, training=config.training)
            mode = DYNAMO_SPECIALISED if captured.reads else mode
        else:
            recorded = record(built, wanted, seed=config.seed)
            captured, mode = recorded.capture, SPECIALISED if recorded.reads else RECORDED
        if not captured.is_whole and not (config.keep_pieces and captured.pieces):
            raise GraphBreakError(captured.reason or f"the call gave {len(captured.pieces)} graphs")

        def lifted(piece: Piece) -> Graph:
            read_weights = self.rung != FAKE and mode in (SPECIALISED, DYNAMO_SPECIALISED)
            roles, inits = describe_placeholders(piece, captured, built, wanted, as_held=read_weights)
            graph = lift(piece.gm, roles=roles, inits=inits)
            check(graph)
            for spec in (spec for node in graph.nodes for spec in node.outputs):
                check_device(spec.device)
            return graph

        def name_of(tensor: Any) -> str:
            return captured.inputs.get(id(tensor)) or built.name_of(tensor) or "a tensor of the forward"

        with step(LIFT):
            captured = replace(captured, pieces=tuple(with_shared(piece, name_of) for piece in captured.pieces))
            graphs = tuple(lifted(piece) for piece in captured.pieces)

        def recapture(number: int) -> tuple[Graph, ...]:
            again = self.prepare(config)
            with surroundings(number):
                return self.run(again, config).graphs

        source = Source(
            built=built, wanted=wanted, captured=captured, rebuild=lambda: self.prepare(config).built,
            recapture=recapture,
        )  # fmt: skip
        return Traced(rung=self.rung, mode=mode, captured=captured, graphs=graphs, source=source)


def climb(row: ModelConfig, config: ClimbConfig) -> Traced:
    """The graphs of the first attempt that succeeds; what an attempt changed of the process is put back after it."""
    shown: Exception | None = None
    failed: list[_Failed] = []
    for attempt in _attempts(row, config, failed):
        has_media = False
        try:
            with isolated(), devices_told():
                ready = attempt.prepare(config)
                has_media = ready.has_media
                return attempt.run(ready, config)
        except LIBRARY_ERRORS as raised:
            error = told(raised)
            failed.append(_Failed(attempt=attempt, kind=failure_kind(error), has_media=has_media))
            tells = (attempt.rung == FAKE or isinstance(error, OWN)) and not attempt.alone
            if shown is None or (tells and _says_more(error, shown)):
                shown = error
    assert shown is not None
    raise shown


def _says_more(later: Exception, first: Exception) -> bool:
    """Whether a later failure says more of the author's code than the first.

    What a forward holds that no graph does says most. Where Dynamo followed the whole forward, which its graph tells
    that could not be lifted, the forward runs: what it raises while it is recorded comes of recording.
    """
    if _is_told(later) != _is_told(first):
        return _is_told(later)
    if getattr(first, "passnet_step", "") == LIFT and failure_kind(later) in MISFITS:
        return False
    return not _is_told(first) and failure_kind(first) not in MISFITS


def _is_told(error: Exception) -> bool:
    """Whether a failure is a sentence on the author's code, and none on a graph."""
    return isinstance(error, OWN) or (
        isinstance(error, NotRepresentable) and getattr(error, "passnet_step", "") != LIFT
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failed:
    """What became of an attempt."""

    attempt: Attempt
    kind: FailureKind
    has_media: bool


def _attempts(row: ModelConfig, config: ClimbConfig, failed: list[_Failed]) -> Iterator[Attempt]:
    """What is tried in turn; the caller keeps what failed."""
    light = Attempt(row=row, rung=FAKE, mode=DYNAMO)
    if config.training:
        yield light
        return
    yield from _calls(light, failed)
    kinds = {item.attempt.mode: item.kind for item in failed if not item.attempt.alone}
    heavy = None
    if kinds[DYNAMO] is FailureKind.BUILD_ERROR:
        heavy = _weighted(row, DYNAMO, config)
    elif kinds.get(RECORDED) in WEIGHTED:
        heavy = _weighted(row, RECORDED, config)
    if heavy is not None:
        yield from _calls(heavy, failed)


def _calls(attempt: Attempt, failed: list[_Failed]) -> Iterator[Attempt]:
    """A call with everything, then one with the text alone."""
    yield from _ways(attempt, failed)
    if failed[-1].has_media:
        yield from _ways(replace(attempt, alone=True), failed)


def _ways(attempt: Attempt, failed: list[_Failed]) -> Iterator[Attempt]:
    """A call as wanted, then recorded where that may cure what stopped Dynamo."""
    yield attempt
    if attempt.mode == DYNAMO and failed[-1].kind in RECORDABLE:
        yield replace(attempt, mode=RECORDED)


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
        with isolated():
            return parameter_bytes(row) <= config.real_limit_gib * GIB
    except LIBRARY_ERRORS:
        return False
