"""The two sides that are timed against each other, in one fresh pair of processes after the other.

    with contextlib.closing(sessions(grader, child, variant, draw, case)) as source:
        timing = time_sessions(source, plan)

The first pair is the reference and the candidate whose outputs were just found right; every further candidate is a new
process that has to give right outputs once more before it is timed, and its final record after. Of secretly chosen
windows the outputs of one call are kept, and compared when the pair is done (layer D8); before each window both sides
fill inputs that no call had before (`passbench.windows`), which is not timed. Raises SideFailed after the
case was settled. Reads and writes nothing.
"""

import secrets
from collections.abc import Generator
from typing import TYPE_CHECKING

from passbench.check import compare
from passbench.clock import Prepared
from passbench.grading import Case
from passbench.isolate import Child
from passbench.probes import Draw, Loop, check_state, rehearse
from passbench.windows import Order
from schemas.rows import TaskVariant, Verdict

if TYPE_CHECKING:
    from passbench.grader import Grader

KEPT_WINDOWS = 6
"""Most timed windows of a pair of processes of which one call's outputs are kept and checked."""


class SideFailed(Exception):
    """The candidate failed while it was timed; its case says how."""


def sessions(
    grader: "Grader", child: Child, variant: TaskVariant, draw: Draw, case: Case
) -> Generator[tuple[Prepared, Prepared], None, None]:
    """Windows of reference and candidate; each further item, and closing, ends the processes of the one before."""
    with_first = _Pair(grader, child, case)
    try:
        yield with_first.windows
    finally:
        with_first.check()
    while True:
        grader.close()  # the next request starts a new reference
        grader.ask_reference({"do": "load", "graph": variant.graph.to_json()})
        fresh = grader.template.fork("candidate", grader.placing.candidate_files, grader.settings.layers_off)
        try:
            _prove(grader, fresh, variant, draw, case)
            pair = _Pair(grader, fresh, case)
            try:
                yield pair.windows
            finally:
                pair.check()
                pair.finish()
        finally:
            fresh.end()


class _Pair:
    """Both sides, compiled and on equal inputs of a fresh seed."""

    def __init__(self, grader: "Grader", child: Child, case: Case) -> None:
        self.grader, self.child, self.case = grader, child, case
        self.loop = Loop(grader, child, case)
        self.watching = grader.settings.has("D8.timed")
        grader.ask_reference(self.loop.prepare)
        if grader.ask_candidate(child, self.loop.prepare, case) is None:
            raise SideFailed
        self.sets = 0

    @property
    def windows(self) -> tuple[Prepared, Prepared]:
        """Functions that make n calls of the reference and of the candidate."""
        return (Prepared(ready=self.fill_reference, run=self.run_reference),
                Prepared(ready=self.fill_candidate, run=self.run_candidate))  # fmt: skip

    def fill_reference(self, count: int) -> None:
        """Inputs of its own for every call of the reference's next window."""
        request = {"do": "fill", "count": count, "seed": secrets.randbits(62)}
        self.sets = int(self.grader.ask_reference(request)[0]["sets"])

    def run_reference(self, count: int) -> None:
        """The reference's calls, told as the candidate's are; nothing of them is read."""
        order = Order.drawn(count=count, sets=self.sets, chunk=self.loop.chunk, keep=False)
        self.grader.ask_reference({"do": "window", "count": count, "chunk": self.loop.chunk}, order.message())

    def fill_candidate(self, count: int) -> None:
        """Inputs of its own for every call of the candidate's next window."""
        if not self.loop.ready(count):
            raise SideFailed

    def run_candidate(self, count: int) -> None:
        """The candidate's calls; of some windows the outputs of one call are kept."""
        keep = self.watching and len(self.loop.kept) < KEPT_WINDOWS and secrets.randbelow(3) == 0
        if self.loop.window(count, keep=keep) is None:
            raise SideFailed

    def check(self) -> None:
        """Compare what was kept and look at the process's state; does nothing once the case is settled."""
        if self.case.verdict is Verdict.PASSED:
            self.loop.judge()
        if self.case.verdict is Verdict.PASSED and self.grader.settings.has("D8.timed"):
            # What was skipped in the timed loop may be skipped still.
            rehearse(self.grader, self.child, self.case, timed=True)
        if self.case.verdict is Verdict.PASSED:
            check_state(self.grader, self.child, self.case, self.loop.draw.state)
        if self.case.verdict is not Verdict.PASSED:
            raise SideFailed

    def finish(self) -> None:
        """Demand the final record."""
        if not self.grader.finish(self.child, self.case):
            raise SideFailed


def _prove(grader: "Grader", child: Child, variant: TaskVariant, draw: Draw, case: Case) -> None:
    """Load and run once; the outputs are right, as they were in the process before."""
    if not grader.place(child, variant.graph, case):
        raise SideFailed
    if grader.account(child, {"do": "run", **draw.request, "changes": draw.facts["changed"]}, case) is None:
        raise SideFailed
    found = grader.outputs(child, {"do": "read", "index": 0}, draw, case)
    if found is None:
        raise SideFailed
    again = compare(draw.expected, found, oracle=draw.oracle)
    if not again.passed:
        case.comparison = again if again.max_abs_error is not None else None
        case.fail(Verdict.NONDETERMINISTIC if case.comparison else again.verdict, f"in a new process: {again.detail}")
        raise SideFailed
