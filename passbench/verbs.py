"""The verbs of `passbench` that work on stored results: compare, report, leaderboard, submit-check, rescore.

    passbench compare results/mine results/yours
    passbench report results/mine -o page.html

Each has a library twin that does the work; here arguments are read and text is written. `register` puts them on the
application of `passbench.cli`.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from passbench.compare import compare as compare_entries
from passbench.compare import lines_of
from passbench.entries import read_entries
from passbench.presets import DEFAULT, PRESETS, Preset, chosen

PresetOption = Annotated[str, typer.Option("--preset", help=f"Settings of ES_t: {', '.join(PRESETS)}.")]
PenaltyOption = Annotated[float | None, typer.Option("--p", help="Slow-down penalty, instead of the preset's.")]
FailureOption = Annotated[float | None, typer.Option("--b", help="What a failure counts, instead of the preset's.")]
ClassesOption = Annotated[
    str, typer.Option("--classes", help="Class map, or pairs such as accuracy=1,runtime=2, instead of the preset's.")
]
UnitSpeed = Annotated[bool, typer.Option(help="Where speed was not measured, use s = 1 and say so.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]


def fail(message: object) -> NoReturn:
    """One line on standard error, exit code 2."""
    typer.echo(f"passbench: {message}", err=True)
    raise typer.Exit(2)


def preset_of(name: str, p: float | None, b: float | None, classes: str) -> Preset:
    """A preset with other settings where they are given; ends the command if there is none such."""
    try:
        return chosen(name, p=p, b=b, classes=classes)
    except ValueError as error:
        fail(error)


def compare(
    a: Annotated[Path, typer.Argument(help="Results of one submission: a results folder or a folder of them.")],
    b: Annotated[Path, typer.Argument(help="Results of the other, on the same tasks.")],
    preset: PresetOption = DEFAULT,
    penalty: PenaltyOption = None,
    failure: FailureOption = None,
    classes: ClassesOption = "",
    unit_speed: UnitSpeed = False,
    as_json: AsJson = False,
) -> None:
    """Compare two submissions by task: ratio of their scores with a 95% interval; unequal settings are refused."""
    settings = preset_of(preset, penalty, failure, classes)
    try:
        found = compare_entries(*(read_entries(side, settings, unit_speed=unit_speed) for side in (a, b)))
    except (ValueError, OSError) as error:
        fail(error)
    if as_json:
        typer.echo(json.dumps({**asdict(found), "verdict": found.verdict}))
        return
    for line in lines_of(found):
        typer.echo(line)


def report(
    results: Annotated[Path, typer.Argument(help="A results folder, or a folder of them, of one submission.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path("page.html"),
    preset: PresetOption = DEFAULT,
    penalty: PenaltyOption = None,
    failure: FailureOption = None,
    classes: ClassesOption = "",
) -> None:
    """Write one self-contained HTML page: scores, charts, verdicts, isolation, graphs, pass source and kernels."""
    from passbench.page import page

    settings = preset_of(preset, penalty, failure, classes)
    try:
        out.write_text(page(read_entries(results, settings, unit_speed=True)), encoding="utf-8")
    except (ValueError, OSError) as error:
        fail(error)
    typer.echo(f"page in {out}")


def leaderboard(
    folders: Annotated[list[Path], typer.Argument(help="Results folders, or folders of them.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path("index.html"),
    preset: PresetOption = DEFAULT,
    penalty: PenaltyOption = None,
    failure: FailureOption = None,
    classes: ClassesOption = "",
    unit_speed: UnitSpeed = False,
) -> None:
    """Write a static leaderboard page from result files; what may not be compared stands in tables of its own."""
    from passbench.leaderboard import leaderboard as page_of
    from passbench.leaderboard import read_boards

    settings = preset_of(preset, penalty, failure, classes)
    try:
        boards = read_boards(folders, settings, unit_speed=unit_speed)
        out.write_text(page_of(boards), encoding="utf-8")
    except (ValueError, OSError) as error:
        fail(error)
    typer.echo(f"{sum(len(board.lines) for board in boards)} submissions in {len(boards)} tables: {out}")


def submit_check(
    results: Annotated[Path, typer.Argument(help="The results folder that was handed in, or a folder of them.")],
    submission: Annotated[Path, typer.Option(help="The submission folder that was handed in.")],
    tasks: Annotated[Path, typer.Option(help="The published tasks: a PassBench folder or a run directory.")],
    sample: Annotated[int, typer.Option(help="Subgraphs of every task that are graded again; 0: none.")] = 3,
    seed: Annotated[int, typer.Option(help="Which ones; do not tell it beforehand.")] = 0,
) -> None:
    """Check a result before it is accepted: hash, rows, times and tasks, then grade a seeded sample again and compare.

    Exit code 0: all is confirmed; 1: something does not hold; 3: something could not be confirmed here, such as a
    speed-up from another processor, or nothing was graded again.
    """
    from passbench.acceptance import Sample, accepted, inspect, refuted, regrade
    from passbench.submission import freeze
    from passbench.tasks import Shelf

    try:
        frozen, shelf = freeze(submission), Shelf(tasks)
        findings = inspect(results, shelf, frozen)
        if sample and not refuted(findings):
            findings += regrade(results, shelf, frozen, Sample(count=sample, seed=seed))
    except (ValueError, OSError) as error:
        fail(error)
    for item in findings:
        typer.echo(f"{item.status:11}  {item.task}: {item.what}: {item.unconfirmed or item.detail}")
    good, wrong = accepted(findings) and bool(sample), refuted(findings)
    graded = sum(item.what.startswith("subgraph") for item in findings)
    word = "accepted" if good else "NOT accepted" if wrong else "UNCONFIRMED"
    typer.echo(f"{word}: {len(findings)} checks, {graded} subgraphs graded again")
    raise typer.Exit(0 if good else 1 if wrong else 3)


def rescore(
    log: Annotated[Path, typer.Argument(help="A published evaluation log.")],
    preset: PresetOption = DEFAULT,
    penalty: PenaltyOption = None,
    failure: FailureOption = None,
    classes: ClassesOption = "",
    total: Annotated[int, typer.Option(help="Graphs of the task, where the log may lack some; 0: those it has.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Also write its rows to a results folder below this one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Score a published evaluation log again, by its own definition, under any preset."""
    from passbench.published_log import read_log, rows_of
    from passbench.published_log import rescore as score_of
    from passbench.results import write_rows

    settings = preset_of(preset, penalty, failure, classes)
    try:
        records = read_log(log)
        found = score_of(records, settings, total=total or None)
        folder = write_rows(out / log.stem, *rows_of(records, log.stem)) if out else None
    except (ValueError, OSError) as error:
        fail(error)
    if as_json:
        typer.echo(json.dumps({"preset": asdict(settings), **asdict(found)}))
        return
    typer.echo(f"N={found.total}: {', '.join(f'{count} {name}' for name, count in found.verdicts.items())}")
    typer.echo("ES_t  " + "  ".join(f"t={t}: {found.es[t]:.3f}" for t in (-5, -3, 0, 1, 3)))
    typer.echo(f"score {found.task_score:.3f}  (preset {settings.name}; the graded code could print to a log)")
    if folder:
        typer.echo(f"rows in {folder}")


def register(app: typer.Typer) -> None:
    """Put the verbs on an application."""
    app.command()(compare)
    app.command()(report)
    app.command()(leaderboard)
    app.command()(rescore)
    app.command("submit-check")(submit_check)
