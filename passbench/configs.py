"""Further configurations of autotuned kernels must be right as well (layer D12): any may be the fastest on some device.

    check_configurations(grader, child, draw, case)      # after the outputs with the first one were found right

An interpreter runs the first valid configuration. A candidate that has more is asked for others, drawn by chance, one
call each, on inputs whose right outputs are known. Settles the case with the name of the configuration that is wrong.
Reads and writes nothing.
"""

import random
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

from passbench.check import compare
from passbench.evidence import doubt_of
from passbench.grading import Case
from passbench.isolate import Child
from schemas.rows import CORRECT_VERDICTS, Verdict

if TYPE_CHECKING:
    from passbench.probes import Draw, Grader

FURTHER = 2
"""Most configurations of a kernel that are tried beyond the first."""


def valid_configurations(account: Mapping[str, object]) -> dict[str, list[str]]:
    """Kernel -> its valid configurations, from a candidate's account of a call; empty where no kernel is autotuned."""
    found = account.get("configs")
    pairs = found.items() if isinstance(found, dict) else ()
    return {str(name): [*map(str, texts)] for name, texts in pairs if isinstance(texts, list) and texts}


def check_configurations(grader: "Grader", child: Child, draw: "Draw", case: Case) -> None:
    """Try configurations of every autotuned kernel other than its first, chosen here and now; only if all was right."""
    if case.verdict not in CORRECT_VERDICTS or not grader.settings.has("D12.configs"):
        return
    count = max(map(len, case.configs.values()), default=1)
    for number in random.Random(secrets.randbits(62)).sample(range(1, count), min(FURTHER, count - 1)):
        trial = Case()
        _answer(grader, child, draw, number, trial)
        if trial.verdict is not Verdict.PASSED:
            tried = {name: texts[min(number, len(texts) - 1)] for name, texts in sorted(case.configs.items())}
            named = "; ".join(f"{kernel} with {config}" for kernel, config in tried.items())
            case.comparison, case.killed = trial.comparison, trial.killed
            case.fail(trial.verdict, f"another configuration, {named}: {trial.detail}"[:500], rule=trial.rule)
            return


def _answer(grader: "Grader", child: Child, draw: "Draw", number: int, trial: Case) -> None:
    """One call with the configurations of a number; settles the trial by its outputs."""
    call = {"do": "run", **draw.request, "changes": draw.facts["changed"], "config": number}
    answer = grader.ask_candidate(child, call, trial)
    if answer is None:
        return
    doubt = doubt_of(answer[0], draw.facts, grader.settings.layers_off, draw.state)
    if doubt is not None:
        trial.fail(Verdict.INTEGRITY, doubt.detail, rule=doubt.rule)
        return
    outputs = grader.outputs(child, {"do": "read", "index": -1}, draw, trial)
    if outputs is not None:
        compared = compare(draw.expected, outputs, oracle=draw.oracle)
        trial.comparison = compared if compared.max_abs_error is not None else None
        trial.fail(compared.verdict, compared.detail)
