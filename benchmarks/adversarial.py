"""Every attack on the grader and every honest look-alike: what happens with all layers on, and without the one named.

    python -m benchmarks.adversarial --json      # attacks accepted layer_proved benign benign_passed gpu_only
    python -m benchmarks.adversarial --only NAME --only ...
    python -m benchmarks.adversarial --write-docs

An attack is graded up to three times: with everything on (it must not pass); where another layer would come first,
without that one (the layer named must decide); and without the named layer (it must pass, which shows that it was
this layer that stopped it). Reads tests/adversarial; `--write-docs` writes the table of docs/adversarial.md.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.adversarial_cases import AttackCase, cases, submission_of
from benchmarks.adversarial_tasks import task_of, variants_of
from passbench.clock import Plan
from passbench.grading import Settings
from passbench.run import Harness
from schemas.rows import EvalResult, Verdict

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs" / "adversarial.md"
BEGIN, END = "<!-- table begins -->", "<!-- table ends -->"
SETTINGS = Settings(inductor=False, draws=2, plan=Plan(pairs=5, inner_us=500.0, max_seconds=1.0), timeout_s=60.0)
GOOD = (Verdict.PASSED, Verdict.AMBIGUOUS_TIMING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one case came to."""

    name: str
    """AttackCase.name."""
    full: str
    """Verdict (and rule) with every layer on."""
    named: str
    """Without the layers that come first."""
    without: str
    """Without the layer named as well; empty if that was not tried."""
    refused: bool
    """Whether it did not pass with everything on."""
    decided: bool
    """Whether the layer named decided as expected."""
    proved: bool
    """Whether it passed without that layer."""
    detail: str
    """The detail of the named run, and of the one without if it did not pass."""


def graded(harness: Harness, case: AttackCase, off: Sequence[str]) -> EvalResult:
    """The last variant's result with some layers left out."""
    variants = variants_of(case.task)
    harness.settings = replace(SETTINGS, device=harness.settings.device, layers_off=tuple(off))
    with submission_of(case) as submission:
        return harness.grade(submission, task_of(variants), variants).results[-1]


def as_expected(case: AttackCase, row: EvalResult) -> bool:
    """Whether a result is what the case says the layer named gives."""
    if case.verdict == "PASSED":
        return row.verdict in GOOD
    right = {case.verdict, case.or_verdict or case.verdict}
    return row.verdict.value in right and row.rule == case.rule and case.says in row.detail


def outcome(harness: Harness, case: AttackCase) -> Outcome:
    """Grade one case with all layers, with the named one alone, and without it."""
    full = graded(harness, case, ())
    named = graded(harness, case, case.beside) if case.beside else full
    without = graded(harness, case, (*case.beside, *case.off)) if case.off else None
    proved = without is not None and without.verdict in GOOD
    details = [named.detail] + ([without.detail] if without is not None and not proved else [])
    return Outcome(
        name=case.name, full=_short(full), named=_short(named), without=_short(without) if without else "",
        refused=full.verdict not in GOOD, decided=as_expected(case, named), proved=proved, detail=" | ".join(details),
    )  # fmt: skip


def _short(row: EvalResult) -> str:
    return f"{row.verdict.value} {row.rule}".strip()


def outcomes(wanted: Sequence[AttackCase], device: str) -> Iterator[Outcome]:
    """Grade the cases one after the other."""
    with Harness(replace(SETTINGS, device=device)) as harness:
        for case in wanted:
            yield outcome(harness, case)


def summary(wanted: Sequence[AttackCase], found: Sequence[Outcome], skipped: int) -> dict[str, object]:
    """The figures of the bars."""
    pairs = list(zip(wanted, found, strict=True))
    attacks = [(case, item) for case, item in pairs if case.layer]
    benign = [item for case, item in pairs if not case.layer]
    return {
        "attacks": len(attacks),
        "accepted": sum(not item.refused for _, item in attacks),
        "decided_by_named_layer": sum(item.decided for _, item in attacks),
        "can_be_turned_off": sum(bool(case.off) for case, _ in attacks),
        "layer_proved": sum(item.proved for _, item in attacks),
        "benign": len(benign),
        "benign_passed": sum(item.decided for item in benign),
        "gpu_only": skipped,
        "failed": [asdict(item) for case, item in pairs if not item.decided or (case.off and not item.proved)],
    }


# --- docs -----------------------------------------------------------------------------------------------------------
def table(found: dict[str, Outcome]) -> str:
    """The table of all cases; results of those that were not run are said to be so."""
    lines = ["| case | what it tries | layer | without what comes first | with that layer | without it |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for case in cases():
        item = found.get(case.name)
        expected = f"{case.verdict} {case.rule}".strip()
        named = item.named if item else f"{expected} (GPU)" if case.gpu else expected
        why = case.why_not or ("needs a GPU" if case.gpu else "")
        without = item.without if item and item.without else why if case.gpu or not case.off else "PASSED"
        name, layer = f"`{case.name}`", case.layer or "honest"
        lines.append(f"| {name} | {case.reason} | {layer} | {', '.join(case.beside)} | {named} | {without} |")
    return "\n".join(lines)


def write_docs(found: dict[str, Outcome]) -> None:
    """Replace the table in the docs."""
    text = DOCS.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    DOCS.write_text(f"{head}{BEGIN}\n{table(found)}\n{END}{tail}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite; exit code 1 if an attack was accepted or a layer did not decide as it must."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--write-docs", action="store_true", help="write the table of docs/adversarial.md")
    parser.add_argument("--only", action="append", default=[], help="cases to run; repeatable")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="device to grade on")
    chosen = parser.parse_args(arguments)
    every = [case for case in cases() if not chosen.only or case.name in chosen.only]
    wanted = [case for case in every if not case.gpu or chosen.device == "cuda"]
    found: list[Outcome] = []
    began = time.monotonic()
    for item in outcomes(wanted, chosen.device):
        found.append(item)
        if not chosen.json:
            mark = "ok " if item.decided else "BAD"
            print(f"{mark} {item.name}: {item.full} / {item.named} / {item.without} {item.detail}", flush=True)
    figures = {**summary(wanted, found, len(every) - len(wanted)), "seconds": round(time.monotonic() - began, 1)}
    print(json.dumps(figures) if chosen.json else json.dumps(figures, indent=1))
    if chosen.write_docs:
        write_docs({item.name: item for item in found})
    return 1 if figures["failed"] or figures["accepted"] else 0


if __name__ == "__main__":
    sys.exit(main())
