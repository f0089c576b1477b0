"""The terminal report: one table of variants and a few lines below; everything shown is computed from rows.

    print_report(console, task, rows, variants)

Writes to the console it is given and nothing else. No torch.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from passbench.presets import PRESETS, Preset
from passbench.score import TaskScore, score_task
from schemas.rows import CORRECT_VERDICTS, EvalResult, Task, TaskVariant, Verdict
from schemas.text import times

_STYLES = {Verdict.PASSED: "green", Verdict.AMBIGUOUS_TIMING: "yellow", Verdict.HARNESS_ERROR: "yellow"}


def print_report(
    console: Console, task: Task, rows: Sequence[EvalResult], preset: Preset, variants: Sequence[TaskVariant] = ()
) -> None:
    """Print what happened to every variant, then coverage, correctness, speed and score."""
    shown = {variant.index: variant for variant in variants}
    console.print(results_table(task, rows, shown))
    for line in summary_lines(task, rows, preset):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def results_table(task: Task, rows: Sequence[EvalResult], variants: Mapping[int, TaskVariant]) -> Table:
    """One line a variant."""
    table = Table(title=f"{task.title}  ({task.task_id[:12]})", title_justify="left")
    for name in ("#", "dtype", "shapes", "verdict", "correct from", "max error", "matches", "speed-up", "Inductor"):
        table.add_column(name, justify="left" if name in ("dtype", "shapes", "verdict") else "right")
    for row in rows:
        variant = variants.get(row.index)
        verdict = f"{row.verdict.value}({row.rule})" if row.rule else row.verdict.value
        table.add_row(
            str(row.index),
            variant.dtype if variant else "",
            _cut(variant.shapes, 34) if variant else "",
            f"[{_STYLES.get(row.verdict, 'red')}]{verdict}[/]",
            "" if row.correct_from is None else f"t={row.correct_from}",
            "" if row.max_abs_error is None else f"{row.max_abs_error:.2g}",
            str(row.matches),
            _speed(row),
            "" if row.inductor_speedup is None else f"{times(row.inductor_speedup)}x",
        )
    return table


def diagnoses(rows: Sequence[EvalResult]) -> list[str]:
    """What is said of each variant; one line for all where it is the same."""
    lines = [f"{row.index}: {row.verdict.value}: {row.detail}" for row in rows if row.detail]
    if len(lines) == len(rows) > 1 and len({line.split(": ", 1)[1] for line in lines}) == 1:
        return [f"all: {lines[0].split(': ', 1)[1]}"]
    return lines


def plain(rows: Sequence[EvalResult]) -> list[dict[str, Any]]:
    """Results as JSON: verdict, rule and diagnosis of each variant, and its numbers."""
    return [
        {"index": row.index, "verdict": row.verdict.value, "rule": row.rule, "detail": row.detail,
         "matches": row.matches, "correct_from": row.correct_from, "max_abs_error": row.max_abs_error,
         "max_rel_error": row.max_rel_error, "speedup": row.speedup, "inductor_speedup": row.inductor_speedup}
        for row in rows
    ]  # fmt: skip


def summary_lines(task: Task, rows: Sequence[EvalResult], preset: Preset) -> list[str]:
    """What stands under the table."""
    lines = diagnoses(rows)
    score = score_task(rows, task, preset, unit_speed=True)
    passed = sum(row.verdict in CORRECT_VERDICTS for row in rows)
    fired = sum(row.matches > 0 for row in rows)
    lines.append(f"{passed} of {score.total} correct, passes fired in {fired}, isolation {rows[0].isolation}")
    if any(row.verdict in CORRECT_VERDICTS and not row.speed_measured for row in rows):
        lines.append("speed not measured: Triton kernels ran in the interpreter on the CPU, so s = 1 is used below")
    elif score.speedup is not None:
        lines.append(f"speed-up over eager where correct: {score.speedup:.3f}x (geometric mean)")
    return [*lines, *score_lines(score)]


def score_lines(score: TaskScore) -> list[str]:
    """ES_t at a few levels and AS, with the settings they hold under; why there is no score where there is none."""
    if score.task_score is None:
        return [f"no score: {score.voided}"]
    levels = "  ".join(f"t={t}: {score.es[t]:.3f}" for t in (-5, -3, 0, 1, 3))
    preset = score.preset
    return [
        f"ES_t  {levels}",
        f"score {score.task_score:.3f}  (preset {preset.name}: {preset.settings}, speed {score.speed})",
        f"      {score.paper_score:.3f}  (preset paper: {PRESETS['paper'].settings})",
    ]


def _speed(row: EvalResult) -> str:
    if row.speedup is not None:
        return f"{times(row.speedup)}x [{row.ci_low:.2f}, {row.ci_high:.2f}]"
    return "not measured" if row.verdict in CORRECT_VERDICTS else ""


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
