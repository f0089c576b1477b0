"""One grader: takes a variant from its reference outputs to a verdict, asking processes that it does not trust.

    case = Grader(template, submission, facts, task, settings).grade(variant, speed_measured=False)

A variant's life: fresh seeds are drawn (after the submission is frozen) -> the reference process gives eager outputs
and a float64 oracle -> the passes' process says how they rewrite the graph -> a fresh candidate process builds that,
compiles and answers with output bytes -> they are compared here, over several draws, a repeat of the first and one on
reused input tensors, all held together before they are read; what the process says of memory, state and launches is
weighed too -> the same calls with kernels that do nothing must fail -> if the outputs are right and the speed is real,
both processes are timed in ABBA windows by this process's clock -> the candidate must end with its final record.

Reads nothing beyond its arguments and writes nothing; runs no submitted code.
"""

import contextlib
import secrets
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from passbench.check import PASS_LEVEL, UNCHECKED, Comparison, compare, fitted, merge
from passbench.clock import PairTiming, time_sessions
from passbench.compiling import Compiler
from passbench.configs import check_configurations, valid_configurations
from passbench.evidence import doubt_of
from passbench.grading import Case, Settings, Timing
from passbench.isolate import Child, End, Template, TemplateDied
from passbench.lanes import Quiet
from passbench.numerics import worst_errors
from passbench.patience import used_by
from passbench.placing import Placing, Terms
from passbench.policy import Facts
from passbench.probes import SLACK, Draw, ReferenceFailed, probe, rehearse
from passbench.rewrites import rewrite_texts
from passbench.sides import SideFailed, sessions
from passbench.submission import Submission
from passbench.verdicts import describe_end, verdict_of_end, verdict_of_report
from passbench.windows import Order
from passbench.wire import Header, WireClosed, WireError, WireTimeout, decode
from schemas.graph import Graph
from schemas.rows import CORRECT_VERDICTS, Task, TaskVariant, TimingVerdict, Verdict

CALLS = 12
"""About as many calls as a variant is checked by: one that takes more than its share of the budget gets fewer."""
FLOOR_SHARE = 0.25
"""Share of the best time of copying the outputs, below which a candidate's time is not believed."""


class Grader:
    """Grades variant after variant; keeps one reference process, takes a fresh candidate process each time."""

    def __init__(
        self, template: Template, submission: Submission, facts: Facts, task: Task, settings: Settings,
        quiet: Quiet | None = None, compiler: Compiler | None = None,
    ) -> None:  # fmt: skip
        self.template, self.submission, self.facts = template, submission, facts
        self.task, self.settings = task, settings
        self.quiet, self.compiler = quiet, compiler
        terms = Terms(max_functions=task.max_functions, off=settings.layers_off)
        self.placing = Placing(template, submission, facts, terms)
        self.reference: Child | None = None
        self.graded: Header = {}
        """The request that loads the graded graph into a reference process."""

    def grade(self, variant: TaskVariant, *, speed_measured: bool) -> Case:
        """The verdict on one variant; where a process was killed by something outside, that of a second try."""
        case = self.attempt(variant, speed_measured=speed_measured)
        return self.attempt(variant, speed_measured=speed_measured) if case.killed else case

    def attempt(self, variant: TaskVariant, *, speed_measured: bool) -> Case:
        """One try."""
        case = Case(off=self.settings.layers_off)
        try:
            draws = self.expected(variant)
            candidate = self.template.fork("candidate", self.placing.candidate_files, self.settings.layers_off)
            case.isolation, case.measures = candidate.level, candidate.measures
            try:
                self.judge(candidate, variant, draws, case)
                if case.verdict in CORRECT_VERDICTS:
                    probe(self, candidate, variant, case, mixes=draws[0].mixes)
                if case.verdict in CORRECT_VERDICTS and self.facts.uses_triton and self.settings.has("D10.ghost"):
                    self.haunt(candidate, draws, case)
                if case.verdict in CORRECT_VERDICTS:
                    self.compile(candidate, case)
                if case.verdict in CORRECT_VERDICTS and self.settings.has("D8.timed"):
                    rehearse(self, candidate, case, timed=speed_measured)
                if case.verdict in CORRECT_VERDICTS and speed_measured:
                    self.time(candidate, case, variant, draws[0])
                    if case.verdict in CORRECT_VERDICTS and self.settings.has("D8.timed"):
                        rehearse(
                            self, candidate, case, timed=True
                        )  # what was skipped in the timed loop may be skipped still
                if case.verdict in CORRECT_VERDICTS:
                    self.finish(candidate, case)
            finally:
                candidate.end()
            if self.settings.inductor:
                with self.quiet.alone() if self.quiet else contextlib.nullcontext():
                    self.time_inductor(case, variant)
        except ReferenceFailed as error:  # even after right outputs: speed and final record are not known
            case.comparison, case.killed = None, error.killed
            case.fail(Verdict.HARNESS_ERROR, str(error))
        return case

    def control(self, variant: TaskVariant, *, speed_measured: bool) -> None:
        """All that a grading asks of the harness, without submitted code; raises whatever it fails with.

        Only what fails here as well is the harness's own fault: nothing that a submission holds, says or does takes
        part in it.
        """
        self.close()
        sizes = [len(blob) for _, blob in self.submission.files]
        self.template.fork("reference", [(f"file-{k}", bytes(size)) for k, size in enumerate(sizes)]).end()
        draw = self.expected(variant)[0]
        if speed_measured:
            self.ask_reference({"do": "prepare", **draw.request, "changes": draw.facts["changed"]})
            self.ask_reference({"do": "fill", "count": 1, "seed": 0})
            order = Order.drawn(count=1, sets=1, chunk=1, keep=False)
            self.ask_reference({"do": "window", "count": 1, "chunk": 1}, order.message())
            self.ask_reference({"do": "floor", **draw.request})

    # --- reference --------------------------------------------------------------------------------------------------
    def ask_reference(self, request: Header, told: bytes = b"") -> tuple[Header, list[bytearray]]:
        """An answer of the reference; restarts it and raises ReferenceFailed if there is none."""
        graded = request["do"] == "load" and "on" not in request
        self.graded = request if graded else self.graded
        if self.reference is None:
            self.reference = self.template.fork("reference")
            if self.graded and not graded:  # one that ended on a probe is followed by one that knows the graph
                self.ask_reference(self.graded)
        try:
            header, blobs = self.reference.ask(request, timeout_s=self.settings.reference_timeout_s, told=told)
        except (WireClosed, WireTimeout, WireError) as error:
            end = self.reference.end()
            self.reference = None
            detail = f"reference process: {type(error).__name__}, {describe_end(end)}"
            raise ReferenceFailed(detail, killed=_was_killed(end)) from error
        if "error" in header:
            raise ReferenceFailed(f"reference: {header['error']['detail']}")
        return header, blobs

    def expected(self, variant: TaskVariant) -> list[Draw]:
        """Reference outputs for fresh seeds."""
        self.ask_reference({"do": "load", "graph": variant.graph.to_json()})
        return [self.draw({"seed": self.seed(position)}) for position in range(self.settings.draws)]

    def seed(self, position: int) -> int:
        """A seed that nobody knew before."""
        return secrets.randbits(62) if self.settings.has("D6.seeds") else position

    def draw(self, request: Header) -> Draw:
        """Reference outputs for the inputs that a request describes."""
        request = {"guarded": self.settings.has("D6.guard"), **request}
        header, blobs = self.ask_reference({"do": "run", **request})
        split = header["split"]
        return Draw(
            request=request, facts=header["facts"], mixes=header["mixes"],
            state=tuple(header["state"]), nbytes=sum(map(len, blobs[:split])),
            expected=tuple(decode(header["outputs"], blobs[:split])),
            oracle=tuple(decode(header["oracle"], blobs[split:])),
        )  # fmt: skip

    def noisy(self, draw: Draw) -> list[list[Any]]:
        """What the reference gives where its steps round otherwise, several times."""
        request = {"do": "noisy", **draw.request, "changed": draw.facts["changed"]}
        header, blobs = self.ask_reference(request)
        flat, size = decode(header["outputs"], blobs), len(draw.expected)
        return [flat[run * size : (run + 1) * size] for run in range(header["runs"])]

    def time_inductor(self, case: Case, variant: TaskVariant) -> None:
        """Time default Inductor against eager in the reference process; a failure of it leaves the speed-up unknown."""
        plan = asdict(replace(self.settings.plan, processes=1))
        try:
            header, _ = self.ask_reference({"do": "inductor", "seed": secrets.randbits(62), "plan": plan})
        except ReferenceFailed as error:
            case.detail = case.detail or f"Inductor was not timed: {error}"
            return
        case.inductor_speedup, case.artifacts["inductor.py"] = header["speedup"], header["code"]
        case.timings.append(
            Timing(
                index=variant.index, side="inductor", verdict=header["verdict"], speedup=header["speedup"],
                eager_us=tuple(header["baseline_us"]), side_us=tuple(header["candidate_us"]),
                aa_width=header["aa_width"], blocks=tuple(header["blocks"]), foreign=header["foreign"],
            )
        )  # fmt: skip

    # --- candidate --------------------------------------------------------------------------------------------------
    def ask_candidate(
        self, child: Child, request: Header, case: Case, limit: int = SLACK, told: bytes = b""
    ) -> tuple[Header, list[bytearray]] | None:
        """An answer of the candidate, or None after the case was settled by what went wrong."""
        try:
            header, blobs = child.ask(request, timeout_s=self.settings.timeout_s, limit=limit, told=told)
        except WireTimeout as error:
            why = str(error) or f"{self.settings.timeout_s:g} s"
            case.fail(Verdict.TIMEOUT, f"no answer to {request['do']!r} within {why}")
            return None
        except WireError as error:
            case.fail(Verdict.INTEGRITY, f"malformed answer: {error}", rule="protocol")
            return None
        except WireClosed as error:
            end = child.end()
            verdict, detail = verdict_of_end(end)
            case.fail(verdict, f"{detail}, asked to {request['do']!r}: {error}")
            case.killed = _was_killed(end)
            return None
        if "error" in header:
            case.fail(*verdict_of_report(header["error"]))
            return None
        return header, blobs

    def judge(self, child: Child, variant: TaskVariant, draws: Sequence[Draw], case: Case) -> None:
        """Load, run on every draw, repeat the first, and only then read and compare; settles the verdict."""
        if not self.place(child, variant.graph, case):
            return
        calls: list[tuple[Draw, Header]] = [(draw, {}) for draw in [*draws, draws[0]]]
        if self.settings.has("D6.refill"):
            # The input tensors of that repeat with other contents: an answer kept by address or identity is wrong.
            calls.append((draws[-1], {"refill": True}))
        outputs: list[list[Any]] = []
        for position, (draw, more) in enumerate(calls):
            call = {"do": "run", **draw.request, "changes": draw.facts["changed"], **more}
            account = self.account(child, call, case)
            if account is None:
                return
            for text in rewrite_texts(account):
                case.artifacts["graph.json"] = text
            doubt = doubt_of(account, draw.facts, self.settings.layers_off, draw.state)
            if doubt is not None:
                case.fail(Verdict.INTEGRITY, doubt.detail, rule=doubt.rule)
                return
            if not position and self.is_spent(child, share=1 / CALLS):
                case.is_slow, draws = True, draws[:1]
                case.checked.append(f"slow to interpret: 1 draw of {self.settings.draws}, and its repeat")
                del calls[1:]
                calls.append((draws[0], {}))  # the loop goes on with what is left
            if not self.settings.has("D7.held") and not self.read_all(child, [draw], case, outputs):
                return
        if self.settings.has("D7.held") and not self.read_all(child, [draw for draw, _ in calls], case, outputs):
            return
        pairs = [(draw, found) for (draw, _), found in zip(calls, outputs, strict=True)]
        compared = [compare(draw.expected, found, oracle=draw.oracle) for draw, found in pairs]
        self.settle(case, compared, (outputs[0], outputs[len(draws)]))
        case.errors = worst_errors((draw.expected, found, draw.oracle) for draw, found in pairs)
        check_configurations(self, child, draws[0], case)

    def is_spent(self, child: Child, share: float = 1.0) -> bool:
        """Whether a candidate's process has used that share of the processor time for what is not necessary."""
        used = used_by(child.pid)
        return used is not None and used.cpu_s > share * self.settings.budget_s

    def read_all(self, child: Child, draws: Sequence[Draw], case: Case, into: list[list[Any]]) -> bool:
        """Read the outputs of the next held calls; whether all could be read."""
        for draw in draws:
            found = self.outputs(child, {"do": "read", "index": len(into)}, draw, case)
            if found is None:
                return False
            into.append(found)
        return True

    def place(self, child: Child, graph: Graph, case: Case, on: str = "") -> bool:
        """Have a candidate run a graph as the submission's passes rewrite it; False after the case was settled."""
        return self.placing.place(self.ask_candidate, child, graph, case, on)

    def haunt(self, child: Child, draws: Sequence[Draw], case: Case) -> None:
        """Run again with kernels that do nothing: outputs that are right even so are no kernel's."""
        ghost = Case()
        for draw in draws:
            call = {"do": "run", **draw.request, "changes": draw.facts["changed"], "ghost": True}
            if self.account(child, call, ghost) is None:
                return
            found = self.outputs(child, {"do": "read", "index": -1}, draw, ghost)
            if found is None or not compare(draw.expected, found).passed:
                return
        case.comparison = None
        case.fail(Verdict.INTEGRITY, "the outputs are the same when no kernel runs", rule="ghost")

    def compile(self, child: Child, case: Case) -> None:
        """Have what was interpreted compiled for a GPU; settles the case where Triton refuses it."""
        interpreted = self.facts.uses_triton and self.settings.device == "cpu"
        if self.compiler is None or not interpreted or not self.settings.has("D4b.compiled"):
            return
        answer = self.ask_candidate(child, {"do": "kernels"}, case)
        if answer is not None:
            self.compiler.check(b"".join(answer[1]), case)

    def account(self, child: Child, call: Header, case: Case) -> Header | None:
        """The candidate's account of one call, whose outputs it holds; None after the case was settled."""
        answer = self.ask_candidate(child, call, case)
        if answer is None:
            return None
        matches = answer[0].get("matches")
        if type(matches) is not int or not 0 <= matches < 2**31:
            case.fail(Verdict.INTEGRITY, "malformed outputs: no number of matches", rule="protocol")
            return None
        case.matches, case.configs = matches, valid_configurations(answer[0])
        if not matches and self.settings.has("D10.match"):
            case.fail(Verdict.NO_MATCH, str(answer[0].get("diagnosis", ""))[:300] or "no pass fired")
            return None
        return answer[0]

    def outputs(self, child: Child, request: Header, draw: Draw, case: Case) -> list[Any] | None:
        """The outputs that a request asks for; None after the case was settled."""
        answer = self.ask_candidate(child, request, case, draw.limit)
        if answer is None:
            return None
        try:
            found = decode(answer[0].get("outputs"), answer[1])
        except WireError as error:
            case.fail(Verdict.INTEGRITY, f"malformed outputs: {error}", rule="protocol")
            return None
        return found if self.settings.has("D7.form") else fitted(draw.expected, found)

    def settle(self, case: Case, comparisons: Sequence[Comparison], twice: tuple[list[Any], list[Any]]) -> None:
        """The verdict from all comparisons and from the outputs of two runs on the first draw."""
        worst = merge(comparisons)
        if not self.settings.has("D12.values") and worst.verdict in (Verdict.WRONG_VALUE, Verdict.NON_FINITE):
            worst = UNCHECKED
        case.comparison = worst if worst.max_abs_error is not None else None
        case.fail(worst.verdict, worst.detail)
        if case.comparison is None or not self.settings.has("D12.repeat"):
            return
        again = compare(*twice)
        if again.correct_from is None or again.correct_from > PASS_LEVEL:
            case.fail(Verdict.NONDETERMINISTIC, f"two runs on one input differ: {again.detail}")

    def time(self, child: Child, case: Case, variant: TaskVariant, draw: Draw) -> None:
        """Time candidate against eager in several fresh processes each, by this process's clock."""
        try:
            with contextlib.closing(sessions(self, child, variant, draw, case)) as source:
                timing = time_sessions(source, self.settings.plan)
        except SideFailed:
            return
        if self.is_implausible(timing, draw, case):
            return
        case.timing = timing
        if timing.verdict is TimingVerdict.AMBIGUOUS:
            case.fail(Verdict.AMBIGUOUS_TIMING, f"speed-up between {timing.ci_low:.3f} and {timing.ci_high:.3f}")
        case.timings.append(
            Timing(
                index=variant.index, side="candidate", verdict=timing.verdict.value, speedup=timing.speedup,
                eager_us=timing.baseline_samples_us, side_us=timing.candidate_samples_us, aa_width=timing.aa_width,
                blocks=timing.blocks, foreign=timing.foreign,
            )
        )  # fmt: skip

    def is_implausible(self, timing: PairTiming, draw: Draw, case: Case) -> bool:
        """Whether the candidate took less time than writing its outputs takes (layer D11); settles the case if so."""
        floor_us = float(self.ask_reference({"do": "floor", **draw.request})[0]["floor_us"])
        if not self.settings.has("D11.floor") or timing.candidate_us >= FLOOR_SHARE * floor_us:
            return False
        case.comparison = None
        detail = f"{timing.candidate_us:.3g} us a call, but copying the outputs alone takes {floor_us:.3g} us"
        case.fail(Verdict.INTEGRITY, detail, rule="implausible")
        return True

    def finish(self, child: Child, case: Case) -> bool:
        """Demand the final record; without it everything before counts for nothing."""
        answer = self.ask_candidate(child, {"do": "finish"}, case)
        if answer is not None and answer[0].get("final") is not True:
            case.fail(Verdict.INTEGRITY, "ended without its final record", rule="protocol")
            return False
        return answer is not None

    def close(self) -> None:
        """End the reference process and that of the passes."""
        self.placing.end()
        if self.reference is not None:
            with contextlib.suppress(TemplateDied):
                self.reference.end()
            self.reference = None


def _was_killed(end: End) -> bool:
    """Whether SIGKILL ended it and was not ours: memory ran short, or someone sent it, perhaps itself."""
    return end.signal == 9 and not end.killed
