"""A submission put on a graph: captured by the candidate, rewritten by the passes in a process of their own, bound.

    placing = Placing(template, submission, facts, Terms(...))
    placing.place(ask, child, graph, case)       # whether the candidate now runs the rewritten graph
    placing.close()

The process that runs the passes is one for all graphs of a task; what it says is data, which the candidate checks and
does again. It is asked for nothing that could show a verdict. Whatever goes wrong here is the submission's failure.
Reads and writes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from passbench.grading import Case
from passbench.isolate import Child, Template
from passbench.policy import Facts
from passbench.rewriting import MAX_TEXT
from passbench.sandbox import LEVELS
from passbench.sources import placed, read_modules
from passbench.submission import Submission
from passbench.wire import Header
from schemas.graph import Graph
from schemas.rows import Verdict

TRUSTING = frozenset({"D4b.graph", "D4b.source"})
"""Layers without which the candidate's process executes the submission's own objects."""
Ask = Callable[[Child, Header, Case], "tuple[Header, list[bytearray]] | None"]
"""An answer of a process that runs submitted code, or None after the case was settled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a submission is placed under."""

    max_functions: int
    """Distinct replacement functions that count; passes with further ones are left out."""
    off: tuple[str, ...] = ()
    """Layers that are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failed:
    """How the passes fail to load, whatever the graph."""

    verdict: Verdict
    detail: str
    rule: str


class Placing:
    """Puts one submission on any number of graphs."""

    def __init__(self, template: Template, submission: Submission, facts: Facts, terms: Terms) -> None:
        modules = read_modules(submission)
        self.template, self.facts, self.terms = template, facts, terms
        self.files = placed(submission, modules)
        self.sources = {path: blob.decode("latin-1") for path, blob in self.files if path.endswith(".py")}
        self.keys = submission.passes
        self.child: Child | None = None
        self.passes: list[Any] = []
        self.failed: _Failed | None = None

    @property
    def candidate_files(self) -> tuple[tuple[str, bytes], ...]:
        """What is placed beside a candidate: nothing, but in a proof that trusts the submission."""
        return self.files if TRUSTING & set(self.terms.off) else ()

    @property
    def terms_of_program(self) -> Header:
        """What the candidate needs to compile wrappers and kernels."""
        return {"wrapped": self.facts.wrapped, "sources": self.sources, "keys": self.keys}

    def place(self, ask: Ask, child: Child, graph: Graph, case: Case, on: str = "") -> bool:
        """Have a candidate run a graph as the passes rewrite it; False after the case was settled."""
        more: Header = {"on": on} if on else {}
        trusting = bool(self.candidate_files)
        load = {"do": "load", "graph": graph.to_json(), "off": self.terms.off, **more}
        if trusting:
            load.update({"passes": self.keys, **self.terms_of_program})
        answer = ask(child, load, case)
        if answer is None or "D4b.graph" in self.terms.off:
            return answer is not None
        told = self.matched(ask, str(answer[0].get("captured")), case)
        if told is None:
            return False
        bind = {"do": "bind", "passes": self.passes, "steps": told, **self.terms_of_program, **more}
        return ask(child, bind, case) is not None

    def matched(self, ask: Ask, captured: str, case: Case) -> list[Any] | None:
        """What the passes do to a captured graph, as their process says; None after the case was settled."""
        if self.failed is not None:
            case.fail(self.failed.verdict, self.failed.detail, rule=self.failed.rule)
            return None
        if self.child is None and not self.load(ask, case):
            return None
        assert self.child is not None
        case.isolation = min((case.isolation, self.child.level), key=_rank)
        answer = self.asked(ask, {"do": "match", "captured": captured, "only": self.counted()}, case)
        steps = answer.get("steps") if answer is not None else None
        if answer is not None and not isinstance(steps, list):
            case.fail(Verdict.INTEGRITY, "malformed steps of the passes", rule="protocol")
        return steps if isinstance(steps, list) else None

    def load(self, ask: Ask, case: Case) -> bool:
        """Start the process of the passes."""
        self.child = self.template.fork("matcher", self.files, self.terms.off)
        request = {"do": "load", "passes": self.keys, "wrapped": self.facts.wrapped}
        answer = self.asked(ask, request, case)
        if answer is None:
            if case.verdict in (Verdict.COMPILE_ERROR, Verdict.REJECTED):  # it said so itself, and would say it again
                self.failed = _Failed(verdict=case.verdict, detail=case.detail, rule=case.rule)
            return False
        self.passes = [item for item in answer.get("passes", []) if _is_pass(item)]
        if [item["key"] for item in self.passes] != list(self.keys):
            case.fail(Verdict.INTEGRITY, "a malformed account of the passes", rule="protocol")
            self.end()
            return False
        return True

    def asked(self, ask: Ask, request: Header, case: Case) -> Header | None:
        """An answer of the process of the passes, which is ended where there is none."""
        assert self.child is not None
        answer = ask(self.child, request, case)
        if answer is not None and self.doubted(answer[0], case):
            answer = None
        if answer is None:
            self.end()
            return None
        return answer[0]

    def doubted(self, answer: Mapping[str, Any], case: Case) -> bool:
        """Settle the case if the passes tried what is refused, or changed their process."""
        lists = [answer.get(name, []) for name in ("refused", "state")]
        if not all(isinstance(item, list) and all(isinstance(text, str) for text in item) for item in lists):
            case.fail(Verdict.INTEGRITY, "an account of the passes without form", rule="protocol")
            return True
        refused, state = lists
        if refused:
            tried = ", ".join(sorted(set(refused)))
            case.fail(Verdict.INTEGRITY, f"tried what is refused: {tried}"[:300], rule="refused")
        elif state and "D5.state" not in self.terms.off:
            case.fail(Verdict.INTEGRITY, f"changed in the process: {', '.join(state)}"[:300], rule="state")
        return case.rule in ("refused", "state")

    def counted(self) -> Sequence[str]:
        """Passes that count: those of the first distinct replacement functions, and all of the whole-graph form."""
        functions = list(dict.fromkeys(tuple(item["function"]) for item in self.passes if item["function"][1]))
        allowed = set(functions[: self.terms.max_functions])
        return [item["key"] for item in self.passes if not item["function"][1] or tuple(item["function"]) in allowed]

    def end(self) -> None:
        """End the process of the passes; the next graph starts another."""
        if self.child is not None:
            self.child.end()
            self.child = None


def _rank(level: str) -> int:
    return LEVELS.index(level) if level in LEVELS else len(LEVELS)


def _is_pass(item: Any) -> bool:
    """Whether an untrusted process describes a pass."""
    if not isinstance(item, dict) or not all(isinstance(item.get(name), str) for name in ("key", "pattern")):
        return False
    function = item.get("function")
    named = isinstance(function, list) and len(function) == 2 and all(isinstance(part, str) for part in function)
    return named and len(item["pattern"]) <= MAX_TEXT
