"""The command line: `passnet build`, `run`, `status`, `show`, `failures`, `same`, `find`, `families`, `doctor`.

    passnet build --limit 10 --out runs/first
    passnet show subgraphs --out runs/first

Reads and writes one run directory; the only place of this package that prints. A wrong input is one red line on
standard error and exit code 2; `--debug` shows the traceback. Heavy libraries are loaded by child processes alone.
"""

import json
import traceback
from collections.abc import Callable
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from data.calls import StageFailed
from data.store import RunDirectory, StoreError
from dedup.families import lines_of as family_lines
from dedup.families import survey
from dedup.lookup import find, graph_of, names_of
from dedup.picture import picture
from dedup.twins import compare, lines_of
from extract.files import absolute, digest
from flows import config as configs
from flows.build import Plan, build
from flows.doctor import examine
from flows.failures import as_json as failures_as_json
from flows.failures import chart, failures_of, print_failures
from flows.progress import watcher
from flows.published_cli import register as register_published
from flows.report import funnel, read_record
from flows.run import ConservationError
from flows.show import print_funnel, print_next, print_outcome, print_rows
from flows.stages import STAGES, producer_of, stage_named

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False
)
EXPECTED = (ValueError, OSError, StoreError, StageFailed, ConservationError)
"""Errors that are one line for a person, not a traceback."""

Out = Annotated[Path, typer.Option(help="The run directory: everything a build makes lies there.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Engine = Annotated[str, typer.Option(help="prefect (flow and task runs; its own server if none is set) or local.")]
Limit = Annotated[int | None, typer.Option(help="Most models. [default: 40]", show_default=False)]
Select = Annotated[list[str] | None, typer.Option(help="Pattern of model names, repeatable: 'bert*', 'timm/resnet50'.")]
Workers = Annotated[int | None, typer.Option(help="Child processes at a time; never changes a table. [default: 2]",
                                             show_default=False)]  # fmt: skip
Source = Annotated[list[str] | None, typer.Option(help="installed, hub, graphs, files, repeatable [default: installed]",
                                                 show_default=False)]  # fmt: skip
Samples = Annotated[Path | None, typer.Option(help="Folder of graphs in the sample layout; adds source graphs.")]
Files = Annotated[list[str] | None, typer.Option(help="Python file or import path with your modules, repeatable; "
                                                 "adds source files.")]  # fmt: skip
Since = Annotated[str, typer.Option(help="Only models changed at this date or later, as 2026-11-01; adds source hub.")]
Seed = Annotated[int | None, typer.Option(help="Seed of every sampled choice. [default: 0]", show_default=False)]
Preset = Annotated[str, typer.Option(help="default (about 40 architectures) or small (three, a first look).")]
Setting = Annotated[list[str] | None, typer.Option("--set", help="STAGE.FIELD=VALUE (JSON), repeatable.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Do everything again, even what is done.")]
WIDTH = 150
"""Columns of output that goes to no terminal."""
DEFAULT_OUT = Path("runs/default")


@contextmanager
def _one_line_errors(debug: bool) -> Any:
    try:
        yield
    except EXPECTED as error:
        if debug:
            traceback.print_exc()
        elif isinstance(error, StageFailed) and error.detail:
            Console(stderr=True).print(error.detail, style="dim", markup=False, highlight=False, soft_wrap=True)
        message = " ".join(str(error).split())
        Console(stderr=True).print(f"error: {message}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(2) from error
    except ModuleNotFoundError as error:
        if debug:
            traceback.print_exc()
        message = f'error: {error.name} is not installed; a build needs pip install ".[build,zoo]"'
        Console(stderr=True).print(message, style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        Console(stderr=True).print("stopped; the same command continues where it stopped", style="yellow")
        raise typer.Exit(130) from error


def _config(preset: str, settings: list[str] | None, **changes: Any) -> configs.BuildConfig:
    found = configs.preset(preset, **changes)
    return configs.with_settings(found, settings or [])


def _sources(names: list[str], samples: Path | None, files: list[str], since: str) -> list[str]:
    """The sources as settings of the stages that need them; raises ValueError on a file or a date that is none."""
    settings = []
    if samples is not None:
        names, folder = [*names, "graphs"], json.dumps(str(samples.resolve()))
        settings += [f"models.samples={folder}", f"graphs.samples={folder}"]
    if files:
        names, found = [*names, "files"], [absolute(text) for text in files]
        settings += [f"models.files={json.dumps(found)}", f"graphs.files={json.dumps(found)}"]
        settings += [f"models.files_digest={digest(found)}"]
    if since:
        names = [*names, "hub"]
        settings += [f"models.hub_since={json.dumps(date.fromisoformat(since).isoformat())}"]
    return [f"models.sources={json.dumps(list(dict.fromkeys(names)))}", *settings] if names else []


def _run_plan(out: Path, config: configs.BuildConfig, make: Callable[..., Plan]) -> None:
    with watcher(Console(stderr=True)) as observer:
        outcome = build(out, config, make(observer=observer))
    print_outcome(_console(), outcome)


@app.command("build")
def build_command(
    out: Out = DEFAULT_OUT,
    limit: Limit = None,
    select: Select = None,
    source: Source = None,
    samples: Samples = None,
    files: Files = None,
    since: Since = "",
    engine: Engine = "prefect",
    workers: Workers = None,
    seed: Seed = None,
    preset: Preset = "default",
    settings: Setting = None,
    fresh: Fresh = False,
    debug: Debug = False,
) -> None:
    """Build both datasets: models -> graphs -> classes -> subgraphs -> profiles -> tasks -> datasets.

    A build that was stopped, even by kill -9, continues with the same command; what is done is never done twice.

    Examples:

    - `passnet build` builds the embedded default, about 40 architectures
    - `passnet build --preset small --out runs/first` takes a first look in a minute or two
    - `passnet build --select 'bert*' --select timm/resnet50` builds chosen models
    - `passnet build --source hub --limit 500` lists a Hub (HF_ENDPOINT, HF_TOKEN), fetches no weights
    - `passnet build --since 2026-11-01` lists only the Hub's models that changed since then
    - `passnet build --files my_models.py` builds modules of your own, in child processes with limits
    - `passnet build --samples folder` reads graphs in the published sample layout, without running their code
    - `passnet build --engine local` builds without an orchestrator

    A build in which nothing is traced, or nothing fits a task, ends with exit status 0, empty tables and one sentence.
    """
    with _one_line_errors(debug):
        settings = [*_sources(source or [], samples, files or [], since), *(settings or [])]
        config = _config(
            preset, settings, limit=limit, select=tuple(select) if select else None, workers=workers, seed=seed
        )
        _run_plan(out, config, lambda **known: Plan(engine=engine, fresh=fresh, **known))


@app.command("run")
def run_command(
    stage: Annotated[str, typer.Argument(help="Name of the stage: " + ", ".join(s.name for s in STAGES))],
    out: Out = DEFAULT_OUT,
    settings: Setting = None,
    engine: Engine = "local",
    fresh: Fresh = False,
    debug: Debug = False,
) -> None:
    """Run one stage on what the run directory holds, with the settings of its last build.

    Examples:

    - `passnet run profiles --fresh` measures again, for instance on a quiet machine
    - `passnet run tasks --set tasks.min_variants=4` tries another rule of admission
    """
    with _one_line_errors(debug):
        stage_named(stage)
        config = configs.with_settings(configs.of_run(RunDirectory(out)), settings or [])
        _run_plan(out, config, lambda **known: Plan(engine=engine, only=stage, fresh=fresh, **known))


@app.command()
def status(out: Out = DEFAULT_OUT, debug: Debug = False) -> None:
    """Show the funnel of a run directory: what is done, what failed and why.

    Example: `passnet status --out runs/first`
    """
    with _one_line_errors(debug):
        store = _existing(out)
        print_funnel(_console(), funnel(store, STAGES))
        record = read_record(store)
        done = "finished" if record.get("finished") else "not finished: `passnet build` continues it"
        typer.echo(f"{out}: {done}")
        print_next(_console(), out, record.get("datasets", {}))


@app.command()
def show(
    table: Annotated[str, typer.Argument(help="A table, or <stage>.failures.")],
    key: Annotated[str, typer.Argument(help="Beginning of a key or name; empty lists the table.")] = "",
    out: Out = DEFAULT_OUT,
    limit: Annotated[int, typer.Option(help="Most rows.", min=1)] = 20,
    debug: Debug = False,
) -> None:
    """Print rows of a table; a row that holds a graph is printed as Python source.

    Examples:

    - `passnet show models` lists the models
    - `passnet show subgraphs 3f2a` prints the piece whose key begins with 3f2a, as source
    - `passnet show graphs.failures` says why architectures yielded no graph, and what to do about it
    """
    with _one_line_errors(debug):
        store = _existing(out)
        if table.endswith(".failures"):
            stage_named(table.removesuffix(".failures"))
        else:
            producer_of(table)
        print_rows(_console(), store, table, (key, limit))


@app.command("failures")
def failures_command(
    stage: Annotated[str, typer.Argument(help="Only this stage; empty takes all.")] = "",
    out: Out = DEFAULT_OUT,
    drawn: Annotated[Path | None, typer.Option("--chart", help="Also draw the bars, as SVG.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    debug: Debug = False,
) -> None:
    """Say why items of a run failed: count, share, cause, whether to try again, what to do, examples.

    Examples:

    - `passnet failures --out runs/first` explains every kind of failure of a run
    - `passnet failures graphs --chart failures.svg` draws those of one stage as a bar chart as well
    """
    with _one_line_errors(debug):
        if stage:
            stage_named(stage)
        found = failures_of(_existing(out), STAGES, stage)
        if as_json:
            typer.echo(json.dumps(failures_as_json(found)))
        else:
            print_failures(_console(), found)
        if drawn is not None:
            drawn.write_text(chart(found), encoding="utf-8")
            typer.echo(f"chart: {drawn}", err=as_json)


@app.command()
def report(
    out: Out = DEFAULT_OUT,
    written: Annotated[Path, typer.Option("--page", help="Where to write the page.")] = Path("report.html"),
    debug: Debug = False,
) -> None:
    """Write one self-contained page on the measured pieces: slow share, speed-ups, sizes, roofline, long tail.

    Example:

    - `passnet report --out runs/first --page first.html` needs a build whose pieces were measured
    """
    with _one_line_errors(debug):
        from flows.mining_page import page

        written.write_text(page(_existing(out)), encoding="utf-8")
        typer.echo(f"report: {written}")


@app.command()
def same(
    left: Annotated[str, typer.Argument(help="A model's name, a key, a graph id, or a file with a graph as JSON.")],
    right: Annotated[str, typer.Argument(help="As LEFT.")],
    out: Out = DEFAULT_OUT,
    drawn: Annotated[Path | None, typer.Option("--picture", help="Also draw the first difference, as SVG.")] = None,
    debug: Debug = False,
) -> None:
    """Say at which level two graphs are the same, and print the first difference.

    The levels are exact, shape_free, dtype_free, structure and topology; beside them it says whether the two are equal
    once eval dropout and other idle calls are left out, and whether they differ only in what they return as well.
    Exit code 0 if they are equal at the level exact, 1 if not.

    Examples:

    - `passnet same bert/BertModel roberta/RobertaModel` compares two models of the default run
    - `passnet same mine.json yours.json` compares two files that `Graph.to_json` wrote
    - `passnet same mine.json yours.json --picture difference.svg` draws both around the first difference as well
    """
    with _one_line_errors(debug):
        store = RunDirectory(out) if (out / "run.json").exists() else None
        a, b = graph_of(left, store), graph_of(right, store)
        found = compare(a, b)
        for line in lines_of(found):
            typer.echo(line)
        if drawn is not None:
            drawn.write_text(picture(a, b), encoding="utf-8")
            typer.echo(f"picture: {drawn}")
    raise typer.Exit(0 if found.level == "exact" else 1)


@app.command("find")
def find_command(
    graph: Annotated[str, typer.Argument(help="A file with a graph as JSON, a model's name, a key or a graph id.")],
    out: Out = DEFAULT_OUT,
    limit: Annotated[int, typer.Option(help="Most classes.")] = 10,
    debug: Debug = False,
) -> None:
    """Say whether a graph is in a run, at which level, and whose graph it is there.

    Exit code 0 if it is there at the level exact, 1 if it is not.

    Examples:

    - `passnet find mine.json --out runs/first` looks a file up that `Graph.to_json` wrote
    - `passnet find timm/resnet50` lists the classes that are close to that of a model
    """
    with _one_line_errors(debug):
        store = _existing(out)
        hits = list(find(graph_of(graph, store), store))
        names = names_of([hit.key for hit in hits[:limit]], store)
        for hit in hits[:limit]:
            typer.echo(f"{hit.level:<10} {hit.key}  {hit.members} graph(s): {', '.join(names[hit.key][:5])}")
        if len(hits) > limit:
            typer.echo(f"... of {len(hits)}; --limit shows more")
        if not hits:
            typer.echo(f"not in {out}: no class agrees with it at any level")
    raise typer.Exit(0 if hits and hits[0].level == "exact" else 1)


@app.command()
def families(
    out: Out = DEFAULT_OUT,
    limit: Annotated[int, typer.Option(help="Families explained.", min=0)] = 10,
    debug: Debug = False,
) -> None:
    """Count the classes of a run at each level, and explain its largest families.

    A family is a set of graphs that are equal but for sizes, dtypes and numbers; for each it is said what tells its
    classes apart, with the first line that differs. The table is Markdown.

    Example: `passnet families --out runs/first --limit 3`
    """
    with _one_line_errors(debug):
        for line in family_lines(survey(_existing(out), limit)):
            typer.echo(line)


@app.command()
def doctor(
    out: Out = DEFAULT_OUT,
    online: Annotated[bool, typer.Option("--online", help="Also ask whether the Hub can be reached.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check what a build needs: Python, packages, compiler, GPU, memory, disk, Prefect server.

    Exit code 1 if something needed is absent. Nothing is sent over the network unless `--online` is given.
    """
    checks = examine(out, online=online)
    if as_json:
        typer.echo(json.dumps({check.name: {"ok": check.ok, "found": check.found} for check in checks}))
    for check in [] if as_json else checks:
        mark = "ok " if check.ok else "NO "
        typer.echo(f"{mark} {check.name:<16} {check.found}" + ("" if check.ok else f"   -> {check.advice}"))
    raise typer.Exit(0 if all(check.ok for check in checks) else 1)


def _console() -> Console:
    """Standard output: as wide as the terminal, or wide enough for a row in a pipe or file."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)


def _existing(out: Path) -> RunDirectory:
    if not (out / "run.json").exists():
        raise ValueError(f"{out} is no run directory: run `passnet build --out {out}` first")
    return RunDirectory(out)


register_published(app, _one_line_errors)


def main() -> None:
    """Entry of the console script `passnet`."""
    app(prog_name="passnet")


if __name__ == "__main__":
    main()
