"""The `passbench` command: list tasks, show one, run a submission on it, score stored results.

    passbench list --tasks runs/default
    passbench run examples/submissions/fused_add_layer_norm --tasks runs/default

Every verb has a library twin: `tasks.Shelf`, `schemas.source.source_of`, `run.grade`, `score.score_task`. The only
module of this package that prints. Exit code 0: done; 1: the submission was rejected; 2: a bad argument; 3: the harness
failed on a subgraph, so the task has no score. Errors are one line on standard error.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from passbench import verbs
from passbench.call_forms import form_lines
from passbench.entries import read_entries
from passbench.isolate import TemplateDied
from passbench.presets import DEFAULT, Preset
from passbench.report import diagnoses, plain, print_report, results_table, score_lines
from passbench.results import finished, prepare, write_results
from passbench.sandbox import LEVELS
from passbench.score import score_task, summarise, why_void
from passbench.submission import Submission
from passbench.tasks import Shelf
from passbench.verbs import ClassesOption, FailureOption, PenaltyOption, PresetOption, preset_of
from schemas.rows import EvalResult, Task, TaskVariant, Verdict
from schemas.source import source_of
from schemas.text import counted

if TYPE_CHECKING:
    from passbench.run import Settings

DEFAULT_TASKS = Path("runs/default")
app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Grade compiler passes on real subgraphs.",
)  # fmt: skip
TasksOption = Annotated[
    Path, typer.Option("--tasks", help="A PassBench folder, one version of it, or a run directory of `passnet build`.")
]


def _fail(message: object) -> NoReturn:
    typer.echo(f"passbench: {message}", err=True)
    raise typer.Exit(2)


@app.command("list")
def list_tasks(
    tasks: TasksOption = DEFAULT_TASKS,
    split: Annotated[str, typer.Option(help="Only this split: train or test.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line instead of a table.")] = False,
) -> None:
    """List the tasks: id, number of variants, split, title."""
    try:
        found = Shelf(tasks).tasks()
        rows = [task for task in found if split in ("", task.split)]
        if found and not rows:
            raise ValueError(f"no task is in split {split!r}; there are {', '.join(sorted({t.split for t in found}))}")
    except (ValueError, OSError) as error:
        _fail(error)
    if as_json:
        for task in rows:
            typer.echo(json.dumps(asdict(task)))
        return
    if not rows:
        typer.echo(
            f"no task in {tasks}: the build that wrote it proposed or admitted none (`passnet status` shows why)"
        )
        return
    table = Table(title=f"{counted(len(rows), 'task')} in {tasks}", title_justify="left")
    for name in ("task", "variants", "split", "title"):
        table.add_column(name)
    for task in rows:
        table.add_row(task.task_id[:12], str(task.num_variants), task.split, task.title)
    _console().print(table)


@app.command()
def show(
    task: Annotated[str, typer.Argument(help="Task id or its beginning, structure key, title or part of a title.")],
    tasks: TasksOption = DEFAULT_TASKS,
    variant: Annotated[int, typer.Option(help="Variant whose graph is printed.")] = 0,
) -> None:
    """Show one task: variants, the graph of one as Python source, other spellings, and sizes that are drawn too."""
    try:
        shelf = Shelf(tasks)
        found = shelf.find(task)
        variants = shelf.variants(found.task_id)
        if not 0 <= variant < len(variants):
            raise ValueError(f"there is no variant {variant}; the task has 0 to {len(variants) - 1}")
    except (ValueError, OSError) as error:
        _fail(error)
    typer.echo(f"{found.title}\ntask {found.task_id} version {found.version}, split {found.split}")
    typer.echo(f"from {', '.join(found.families)}; in at least {found.document_frequency} graph classes")
    for row in variants:
        typer.echo(f"  {row.index:2} {row.dtype:9} {row.shapes}")
    typer.echo(f"\n# variant {variant}\n{source_of(variants[variant].graph)}")
    for line in form_lines(variants, variant):
        typer.echo(line)
    for line in size_lines(variants[variant]):
        typer.echo(line)


@app.command()
def run(
    submission: Annotated[Path, typer.Argument(help="Folder of passes with sorted_output_pass_rule_names.json.")],
    tasks: TasksOption = DEFAULT_TASKS,
    task: Annotated[str, typer.Option(help="Task id, title or part of one; default: what task.json says.")] = "",
    out: Annotated[Path, typer.Option(help="Results are written to a folder below this one.")] = Path("results"),
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    draws: Annotated[int, typer.Option(help="Input draws a variant.")] = 3,
    timeout: Annotated[float, typer.Option(help="Most processor seconds of one answer of the candidate.")] = 120.0,
    inductor: Annotated[bool, typer.Option(help="Time default Inductor beside eager.")] = True,
    require_isolation: Annotated[
        str, typer.Option(help=f"Grade nothing below this isolation level: {', '.join(LEVELS)}.")
    ] = LEVELS[0],
    workers: Annotated[
        int, typer.Option(help="Variants graded side by side where no speed is measured; 0: one a core.")
    ] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Grade again what is already graded.")] = False,
    only: Annotated[
        str, typer.Option("--variants", help="Grade these alone, such as 0,3; there is no score and nothing is stored.")
    ] = "",
    contract: Annotated[
        str, typer.Option(help="passbench: other sizes than the listed ones are drawn too; published: none are.")
    ] = "passbench",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
    preset: PresetOption = DEFAULT,
    penalty: PenaltyOption = None,
    failure: FailureOption = None,
    classes: ClassesOption = "",
) -> None:
    """Grade a submission on a task: verdict, error and speed a variant, and the score.

    A run that was stopped goes on where it stopped, and a finished one is shown again, as long as submission, task,
    harness, machine and settings are the same.
    """
    from passbench.run import Settings

    settings_of_score = preset_of(preset, penalty, failure, classes)
    try:
        lanes = workers or len(os.sched_getaffinity(0))
        settings = Settings(device=_device(device), draws=draws, timeout_s=timeout, inductor=inductor,
                            require_isolation=require_isolation, workers=lanes, contract=contract)  # fmt: skip
        job = _job(submission, Shelf(tasks), task, settings)
        wanted = chosen_variants(only, len(job.variants))
        prepare(out)
        if wanted:
            _partly(_console(), job, wanted, as_json)
            return
        folder, rows = _graded(_console(), job, out, fresh, quiet=as_json)
    except (ValueError, OSError, TemplateDied) as error:
        _fail(error)
    _show_run(job, rows, folder, settings_of_score, as_json=as_json)


def _job(submission: Path, shelf: Shelf, task: str, settings: "Settings") -> "Job":
    """What is to be graded; ends the command if the submission cannot be frozen. Raises ValueError on no task."""
    from passbench.submission import Rejected, freeze

    try:
        frozen = freeze(submission)
    except Rejected as error:
        typer.echo(f"passbench: rejected ({error.rule}): {error}", err=True)
        raise typer.Exit(1) from error
    named = task or frozen.task
    if not named:
        raise ValueError(f"which task? give --task, or put a task.json into {submission}")
    found = shelf.find(named)
    return Job(submission=frozen, task=found, variants=shelf.variants(found.task_id), settings=settings)


def _show_run(job: "Job", rows: Sequence[EvalResult], folder: Path, preset: Preset, *, as_json: bool) -> None:
    """Print what a run came to and end the command: 1 if it was rejected, 3 if the task is void."""
    if as_json:
        scored = score_task(rows, job.task, preset, unit_speed=True)
        told = {"folder": str(folder), "title": job.task.title, **asdict(scored), "results": plain(rows)}
        typer.echo(json.dumps(told))
    if {row.verdict for row in rows} == {Verdict.REJECTED}:
        typer.echo(f"passbench: rejected ({rows[0].rule}): {rows[0].detail}; results in {folder}", err=True)
        raise typer.Exit(1)
    if not as_json:
        print_report(_console(), job.task, rows, preset, job.variants)
        typer.echo(f"results in {folder}")
    _end_if_void([why_void(rows, job.task)])


@app.command()
def score(
    results: Annotated[Path, typer.Argument(help="A results folder, or a folder of them.")] = Path("results"),
    preset: PresetOption = DEFAULT,
    penalty: PenaltyOption = None,
    failure: FailureOption = None,
    classes: ClassesOption = "",
    unit_speed: Annotated[bool, typer.Option(help="Where speed was not measured, use s = 1 and say so.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line instead of text.")] = False,
) -> None:
    """Compute ES_t and the task score from stored results; scores of unequal settings are never averaged."""
    chosen = preset_of(preset, penalty, failure, classes)
    try:
        entries = read_entries(results, chosen, unit_speed=unit_speed)
        scores = [(entry.stored, entry.score) for entry in entries]
    except (ValueError, OSError) as error:
        _fail(error)
    for item, found in scores:
        if as_json:
            typer.echo(json.dumps({"folder": str(item.folder), "title": item.task.title, **asdict(found),
                                   "results": plain(item.rows)}))  # fmt: skip
            continue
        typer.echo(f"{item.folder.name}: {item.task.title}")
        verdicts = ", ".join(f"{count} {name}" for name, count in found.verdicts.items())
        typer.echo(f"  N={found.total}: {verdicts}; coverage {found.coverage:.2f}, correct {found.correctness:.2f}")
        for line in score_lines(found):
            typer.echo(f"  {line}")
    by_submission = {found.submission for _, found in scores}
    if len(scores) > 1 and len(by_submission) == 1 and not as_json:
        try:
            total = summarise([found for _, found in scores])
        except (ValueError, OSError) as error:
            _fail(error)
        known = total.ci_low is not None and total.ci_high is not None
        ends = f"95% interval {total.ci_low:.3f} to {total.ci_high:.3f}" if known else "too few for an interval"
        if total.score is not None:
            typer.echo(f"{counted(total.tasks, 'task')}: {total.score:.3f} ({ends})")
    _end_if_void([found.voided for _, found in scores])


def chosen_variants(text: str, count: int) -> list[int]:
    """The indices that a text such as "0,3" names; all that are named must exist. Empty of an empty text."""
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    bad = next((part for part in parts if not part.isdigit() or int(part) >= count), None)
    if bad is not None:
        raise ValueError(f"--variants {text}: there is no variant {bad!r}; the task has 0 to {count - 1}")
    return sorted(set(map(int, parts)))


def size_lines(row: TaskVariant) -> list[str]:
    """Which other sizes a grading draws beside those of a variant, in lines."""
    from passbench.neighbours import hidden_sizes

    found = hidden_sizes(row.graph)
    if not found:
        return ["# graded on these sizes alone: the graph fixes them"]
    return [
        "# also graded on other sizes, drawn anew each time (not with passbench run --contract published):",
        *(f"#     {text}" for text in found),
    ]


def _end_if_void(reasons: Sequence[str]) -> None:
    void = [reason for reason in reasons if reason]
    if void:
        typer.echo(f"passbench: {counted(len(void), 'task')} of {len(reasons)} void: {void[0]}", err=True)
        raise typer.Exit(3)


def _device(name: str) -> str:
    if name not in ("auto", "cuda"):
        return name
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if name == "cuda":
        raise ValueError("torch finds no GPU on this machine; choose --device cpu or auto")
    return "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one `passbench run` grades."""

    submission: Submission
    """The frozen submission."""
    task: Task
    """The task."""
    variants: Sequence[TaskVariant]
    """Its variants."""
    settings: "Settings"
    """How it is graded."""


def _partly(console: Console, job: Job, wanted: Sequence[int], as_json: bool) -> None:
    """Grade some variants and print what happened to them."""
    from passbench.run import grade

    some = [row for row in job.variants if row.index in wanted]
    task = replace(job.task, num_variants=len(some))
    renumbered = [replace(row, index=k) for k, row in enumerate(some)]
    graded = grade(job.submission, task, renumbered, job.settings)
    rows = [replace(row, index=some[row.index].index) for row in graded.results]
    if as_json:
        typer.echo(json.dumps({"title": job.task.title, "task_score": None, "results": plain(rows)}))
        return
    console.print(results_table(job.task, rows, {row.index: row for row in some}))
    for line in diagnoses(rows):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    typer.echo(f"{len(rows)} of {job.task.num_variants} variants graded: no score, and nothing is stored")


def _graded(
    console: Console, job: Job, out: Path, fresh: bool, *, quiet: bool = False
) -> tuple[Path, Sequence[EvalResult]]:
    """The results and their folder: found there, or made, from where an earlier run stopped."""
    from passbench.journal import Journal, key_of
    from passbench.run import grade

    submission, task = job.submission, job.task
    key = key_of(submission, task, job.variants, job.settings)
    known = None if fresh else finished(out, submission, task, key)
    if known:
        if not quiet:
            typer.echo("already graded, with the same submission, task, harness and machine; --fresh grades it again")
        return known.folder, known.rows
    journal = Journal(out, submission, task, key)
    if fresh:
        journal.forget()
    if journal.done and not quiet:
        typer.echo(f"{len(journal.done)} of {task.num_variants} variants are already graded; the rest follows")
    graded = grade(submission, task, job.variants, job.settings, progress=lambda row: _progress(console, row),
                   journal=journal)  # fmt: skip
    folder = write_results(replace(graded, key=key), task, submission, out, job.variants)
    journal.forget()
    return folder, graded.results


def _progress(console: Console, row: EvalResult) -> None:
    if console.is_terminal:
        console.print(f"  variant {row.index}: {row.verdict.value}", highlight=False)


def _console() -> Console:
    return Console(width=None if os.isatty(1) else 132)


verbs.register(app)


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
