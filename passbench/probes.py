"""What is asked of a candidate beyond its graded draws: other inputs, other graphs, and a loop like the timed one.

    probe(grader, child, variant, case)          # moods of inputs, hidden sizes, graphs that a pass must tell apart
    rehearse(grader, child, case, timed=True)    # layer D8: outputs of secretly chosen calls of an unwatched loop

Both leave the case alone if nothing is wrong. Probes are drawn after the submission is frozen. On a graph that no pass
fires on there is nothing to be wrong; where the reference cannot follow a probe, the probe is left out. Outputs are
compared element by element (`passbench.pointwise`), what is not finite by kind and place. Reads and writes nothing.
"""

import random
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from passbench.check import Comparison, compare
from passbench.evidence import doubt_of, doubt_of_state
from passbench.grading import CONTRACTS, Case, Settings
from passbench.isolate import Child
from passbench.moods import FAR_MOODS, MOODS
from passbench.neighbours import INSERTIONS, altered, resized
from passbench.ownership import Facts as Account
from passbench.pointwise import Doubtful, compare_each
from passbench.policy import Facts
from passbench.windows import Order, chunk_of
from passbench.wire import Header
from schemas.graph import Graph
from schemas.rows import TaskVariant, Verdict

SLACK = 2**16
"""Bytes a candidate's answer may hold beyond twice the expected outputs."""

MOST_NUMBERS = 64
"""Most numbers of a submission that stand among the inputs of one probe."""


class ReferenceFailed(Exception):
    """The reference process did not do its part; never the submission's fault."""

    def __init__(self, detail: str, *, killed: bool = False) -> None:
        super().__init__(detail)
        self.killed = killed


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Reference outputs of one set of inputs; they stay in this process."""

    request: Header
    """How the inputs are made: seed, mood, whether guarded, which graph."""
    expected: tuple[Any, ...]
    oracle: tuple[Any, ...]
    nbytes: int
    facts: Account
    """What the reference does to memory."""
    mixes: bool
    """Whether the graph brings elements of one tensor together."""
    state: tuple[str, ...] = ()
    """Global state that the graph itself changes (`passbench.guard`): a candidate may change that too."""

    @property
    def limit(self) -> int:
        """Most bytes of an answer that holds such outputs."""
        return 2 * self.nbytes + SLACK


class Grader(Protocol):
    """What probes need of the orchestrator."""

    settings: Settings
    facts: Facts

    def draw(self, request: Header) -> Draw:
        """Reference outputs."""

    def ask_reference(self, request: Header) -> tuple[Header, list[bytearray]]:
        """An answer of the reference; raises ReferenceFailed."""

    def noisy(self, draw: Draw) -> list[list[Any]]:
        """What the reference gives where its steps round otherwise."""

    def ask_candidate(
        self, child: Child, request: Header, case: Case, limit: int = SLACK, told: bytes = b""
    ) -> tuple[Header, list[bytearray]] | None:
        """An answer of the candidate, None after the case was settled."""

    def is_spent(self, child: Child, share: float = 1.0) -> bool:
        """Whether a candidate has used that share of the time for what is not necessary."""

    def outputs(self, child: Child, request: Header, draw: Draw, case: Case) -> list[Any] | None:
        """Outputs that a request asks for, None after the case was settled."""

    def place(self, child: Child, graph: Graph, case: Case, on: str = "") -> bool:
        """Have a candidate run a graph as the passes rewrite it; False after the case was settled."""


# --- other inputs and graphs ----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class _Probe:
    sentence: str
    mood: str = ""
    graph: Graph | None = None
    is_hidden_size: bool = False


def _probes(variant: TaskVariant, settings: Settings, *, whole_graphs: bool, mixes: bool) -> Iterator[_Probe]:
    """The probes of a variant; only a pass of the whole-graph form can miss what stands between two ops."""
    rng = random.Random(secrets.randbits(62))
    if settings.has("D6.distributions"):
        yield from (_Probe(sentence=f"on {mood} inputs", mood=mood) for mood in (MOODS if mixes else FAR_MOODS))
    ours = settings.contract == CONTRACTS[0]
    found = [resized(variant.graph, rng)] if ours and settings.has("D6.hidden_shapes") else []
    yield from (
        _Probe(sentence=f"with {item.sentence}", graph=item.graph, is_hidden_size=True) for item in found if item
    )
    kinds = ("number", *INSERTIONS) if whole_graphs else ("number",)
    found = [altered(variant.graph, kind, rng) for kind in kinds] if ours and settings.has("D10.negatives") else []
    yield from (_Probe(sentence=f"where {item.sentence}, a pass fires", graph=item.graph) for item in found if item)


def probe(grader: Grader, child: Child, variant: TaskVariant, case: Case, *, mixes: bool) -> None:
    """Put every probe to a candidate that is right so far; settles the case at the first that is answered wrongly.

    `mixes` says whether the graph brings elements of one tensor together.
    """
    left_out: list[str] = []
    for position, item in enumerate(
        _probes(variant, grader.settings, whole_graphs=grader.facts.whole_graphs, mixes=mixes)
    ):
        if position and item.mood and grader.is_spent(child):
            left_out.append(item.mood)
            continue
        trial = Case()
        _try(grader, child, item, trial)
        if trial.verdict not in (Verdict.HARNESS_ERROR, Verdict.PASSED):
            case.comparison = replace(case.comparison, correct_from=None) if case.comparison else None
            case.fail(trial.verdict, f"{item.sentence}: {trial.detail}", rule=trial.rule)
            case.killed = trial.killed
            return
        if item.is_hidden_size and trial.verdict is Verdict.PASSED:
            case.checked.append(f"also {item.sentence}")
    if left_out:
        case.checked.append(f"slow to interpret: without {', '.join(left_out)} inputs")


def _try(grader: Grader, child: Child, item: _Probe, trial: Case) -> None:
    """Settle a trial: HARNESS_ERROR means that there was nothing to settle."""
    on: Header = {}
    if item.graph is not None:
        on = {"on": "probe"}
        try:
            grader.ask_reference({"do": "load", "graph": item.graph.to_json(), **on})
        except ReferenceFailed:
            return
    try:
        numbers = secrets.SystemRandom().sample(grader.facts.numbers, min(MOST_NUMBERS, len(grader.facts.numbers)))
        draw = grader.draw({"seed": secrets.randbits(62), "mood": item.mood, "numbers": numbers, **on})
    except ReferenceFailed:
        return
    if item.graph is not None and not grader.place(child, item.graph, trial, "probe"):
        return
    call = {"do": "run", **draw.request, "changes": draw.facts["changed"]}
    answer = grader.ask_candidate(child, call, trial)
    if answer is None or answer[0].get("matches") == 0:
        return
    doubt = doubt_of(answer[0], draw.facts, grader.settings.layers_off, draw.state)
    if doubt is not None:
        trial.fail(Verdict.INTEGRITY, doubt.detail, rule=doubt.rule)
        return
    found = grader.outputs(child, {"do": "read", "index": -1, **on}, draw, trial)
    if found is not None and grader.settings.has("D12.values"):
        compared = compared_each(grader, draw, found)
        trial.fail(compared.verdict, compared.detail)


def compared_each(grader: Grader, draw: Draw, found: Sequence[Any]) -> Comparison:
    """The comparison element by element; what hangs on rounding is looked at only where something seems wrong."""
    known = Doubtful(oracle=draw.oracle, mixes=draw.mixes)
    compared = compare_each(draw.expected, found, known)
    if compared.verdict in (Verdict.WRONG_VALUE, Verdict.NON_FINITE):
        compared = compare_each(draw.expected, found, replace(known, noisy=grader.noisy(draw)))
    return compared


# --- a loop like the timed one --------------------------------------------------------------------------------------
class Loop:
    """Windows of a candidate on inputs of one fresh seed, and what was kept of them."""

    def __init__(self, grader: Grader, child: Child, case: Case) -> None:
        self.grader, self.child, self.case = grader, child, case
        self.draw = grader.draw({"seed": secrets.randbits(62)})
        self.chunk = chunk_of(self.draw.nbytes)
        self.prepare = {"do": "prepare", "changes": self.draw.facts["changed"], **self.draw.request}
        self.seed, self.sets = 0, 0
        self.kept: list[Header] = []
        """The request for the inputs of every call that is kept."""

    def ready(self, count: int) -> bool:
        """Give every call of the next window inputs of its own; False after the case was settled."""
        self.seed = secrets.randbits(62)
        request = {"do": "fill", "count": count, "seed": self.seed}
        answer = self.grader.ask_candidate(self.child, request, self.case)
        if answer is None:
            return False
        sets = answer[0].get("sets")
        self.sets = sets if isinstance(sets, int) and type(sets) is int else 0
        if not 0 < self.sets <= count:
            self.case.fail(Verdict.INTEGRITY, "malformed answer: no number of sets", rule="protocol")
            return False
        return True

    def window(self, count: int, *, keep: bool, watched: bool = False) -> Header | None:
        """Make the calls; what the candidate says of them, None after the case was settled."""
        order = Order.drawn(count=count, sets=self.sets, chunk=self.chunk, keep=keep)
        request = {"do": "window", "count": count, "chunk": self.chunk, "watched": watched}
        answer = self.grader.ask_candidate(self.child, request, self.case, told=order.message())
        if keep:
            given = {name: value for name, value in self.draw.request.items() if name != "guarded"}
            self.kept.append({**given, "guarded": False, "set": [self.seed, order.sets[order.keep]]})
        return None if answer is None else answer[0]

    def judge(self) -> None:
        """Read the outputs that were kept and compare; settles the case as INTEGRITY if they are wrong."""
        kept, self.kept = self.kept, []
        for request in kept:
            found = self.grader.outputs(self.child, {"do": "kept"}, self.draw, self.case)
            if found is None:
                return
            draw = self.grader.draw(request)
            compared = compare(draw.expected, found, oracle=draw.oracle)
            if not compared.passed and self.grader.settings.has("D12.values"):
                self.case.comparison = None
                detail = f"a call of a timed loop is wrong: {compared.detail}"
                self.case.fail(Verdict.INTEGRITY, detail, rule="timed-output")
                return


def rehearse(grader: Grader, child: Child, case: Case, *, timed: bool) -> None:
    """Two windows on new inputs, one of them counted; settles the case if outputs of either are wrong.

    Where nothing is timed there is no loop that these could be mistaken for, and they are as short as shows a pass
    that computes at every other call.
    """
    loop = Loop(grader, child, case)
    if grader.ask_candidate(child, loop.prepare, case) is None:
        return
    counted = grader.settings.has("D10.launch") and grader.facts.uses_triton and not grader.facts.whole_graphs
    for watched in random.Random(secrets.randbits(62)).sample([False, True], 1 if case.is_slow else 2):
        count = 2 + (secrets.randbelow(3) if timed else 0)
        answer = loop.window(count, keep=True, watched=watched) if loop.ready(count) else None
        if answer is None:
            return
        launches = answer.get("launches")
        if watched and counted and (type(launches) is not int or launches < count):
            case.fail(Verdict.INTEGRITY, f"{count} calls launched {launches} kernels", rule="no-launch")
            return
    loop.judge()


def check_state(grader: Grader, child: Child, case: Case, own: Sequence[str]) -> None:
    """Ask a candidate, after its last timed call, what it changed in its process; settles the case if it may not."""
    answer = grader.ask_candidate(child, {"do": "state"}, case)
    doubt = None if answer is None else doubt_of_state(answer[0], grader.settings.layers_off, own)
    if doubt is not None:
        case.comparison = None
        case.fail(Verdict.INTEGRITY, doubt.detail, rule=doubt.rule)
