"""A fault of the matcher itself is the harness's, never the submission's; and a submission cannot claim one.

    raise MatcherFault(error, pattern)           # in the candidate's process: the matcher raised what it never should
    confirm(ask, report, case)                   # in the orchestrator: HARNESS_ERROR if the fault is real
    rebuilt(text)                                # in the reference process: the pattern, to be matched once more

A candidate's process is not believed when it says that the harness failed. It sends the pattern as plain IR along with
its claim; the reference process, which holds no submitted code, rebuilds the pattern and matches it against the graph
again. Only a fault that shows there too counts as HARNESS_ERROR. Reads and writes nothing.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule

from passbench.match import Pattern, pattern_of
from passbench.wire import Header
from schemas.fx import NotRepresentable, lift, lower
from schemas.graph import Graph, check
from schemas.rows import Verdict

RULE = "matcher"
MAX_PATTERN = 2**20
"""Most characters of a pattern that is matched again."""


class MatcherFault(Exception):
    """The matcher raised an error that is no statement about the pattern."""

    def __init__(self, error: BaseException, pattern: Pattern) -> None:
        super().__init__(f"the matcher failed: {type(error).__name__}: {error}")
        self.pattern = pattern_text(pattern)


def pattern_text(pattern: Pattern) -> str:
    """A pattern as IR; empty if the IR does not hold it."""
    graph = pattern.outputs[0].graph
    for node in pattern.placeholders:
        node.meta.setdefault("val", torch.empty(()))  # a pattern's arguments have no spec; the IR wants one
    try:
        return lift(GraphModule({}, graph)).to_json()
    except (NotRepresentable, ValueError, RuntimeError):
        return ""


def rebuilt(text: str) -> Pattern | None:
    """The pattern of a text; None if it is none."""
    try:
        graph = Graph.from_json(text)
        check(graph)
        return pattern_of(lower(graph).graph)
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError):
        return None


def confirm(ask: Callable[[Header], tuple[Header, Any]], report: Any, case: Any) -> None:
    """Turn a candidate's claim of a matcher fault into HARNESS_ERROR if the reference process meets it as well."""
    text = report.get("pattern") if isinstance(report, dict) else None
    if case.rule != RULE or not isinstance(text, str) or not text or len(text) > MAX_PATTERN:
        return
    header, _ = ask({"do": "match", "pattern": text})
    if header["crash"]:
        case.fail(Verdict.HARNESS_ERROR, f"the matcher failed on this graph: {header['crash']}")
