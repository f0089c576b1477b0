"""What a candidate's end or its own report of an error means; pure, no torch.

    verdict, detail = verdict_of_end(child.end())
    verdict, detail, rule = verdict_of_report(header["error"])

Reads and writes nothing.
"""

from typing import Any

from passbench.isolate import End
from schemas.rows import Verdict

_GUEST_VERDICTS = frozenset({Verdict.REJECTED, Verdict.COMPILE_ERROR, Verdict.GRAPH_INVALID, Verdict.OOM,
                             Verdict.RUNTIME_ERROR})  # fmt: skip
"""Verdicts that a candidate's process may report about itself: all of them are failures."""


def verdict_of_end(end: End) -> tuple[Verdict, str]:
    """What it means that a candidate's process ended before its final record; exit code 0 is a failure too."""
    if end.signal == 9 and not end.killed:
        return Verdict.OOM, "killed by the system, most likely for memory, before its final record"
    if end.signal == 24:
        return Verdict.TIMEOUT, "processor time used up before its final record"
    return Verdict.RUNTIME_ERROR, f"{describe_end(end)} before its final record"


def describe_end(end: End) -> str:
    """How a process ended, in words."""
    if end.killed:
        return "still running"
    return f"ended by signal {end.signal}" if end.signal else f"ended with exit code {end.code}"


def verdict_of_report(report: Any) -> tuple[Verdict, str, str]:
    """(verdict, detail, rule) of an error that a candidate reports; anything but a failure it may report is forged."""
    if isinstance(report, dict) and all(isinstance(report.get(name), str) for name in ("verdict", "rule", "detail")):
        known = {verdict.value: verdict for verdict in _GUEST_VERDICTS}
        if report["verdict"] in known:
            return known[report["verdict"]], report["detail"][:300], report["rule"][:40]
    return Verdict.INTEGRITY, "malformed error report", "protocol"
