"""The verbs of `passnet` for the published task layout: import-task and export-task.

    passnet import-task published/0123... --out runs/published
    passnet import-task samples --out runs/published     # every task folder below
    passbench run published/0123.../pass_dir --tasks runs/published --task 'add > layer_norm'

`register` puts them on the application of `flows.cli`; `flows.published` does the work.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from passbench.tasks import Shelf
from schemas.text import counted

if TYPE_CHECKING:
    from flows.published import Refused

PUBLISHED = Path("runs/published")


def _refusals(refused: "Sequence[Refused]") -> None:
    """The table of what did not become a task."""
    width = max(len(str(item.folder)) for item in refused)
    typer.echo(f"{counted(len(refused), 'folder')} not imported:")
    for item in refused:
        typer.echo(f"  {item.folder!s:<{width}}  {item.why}")


def register(app: typer.Typer, one_line_errors: Callable[[bool], Any]) -> None:
    """Put the verbs on an application, whose way to show errors is given."""

    @app.command("import-task")
    def import_task(
        folders: Annotated[
            list[Path], typer.Argument(help="Task folders of the published layout, or folders of them.")
        ],
        out: Annotated[Path, typer.Option(help="Folder for the tables of tasks and variants.")] = Path(
            "runs/published"
        ),
        debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    ) -> None:
        """Read task folders of the published layout, without running their code, as tasks that `passbench` runs.

        A folder that cannot be read stops no other; what was not read is listed at the end with the reason. Exit code
        0: all became tasks; 1: some did not; 2: none did, or a bad argument.
        """
        with one_line_errors(debug):
            from flows.published import import_tasks

            found = import_tasks(folders, out)
            for task in found.tasks:
                typer.echo(f"{task.task_id[:12]}  N={task.num_variants}  {task.title}")
            if found.refused:
                _refusals(found.refused)
            total = len(found.tasks) + len(found.refused)
            if found.tasks:
                typer.echo(f"{len(found.tasks)} of {total} tasks in {out}; "
                           f"passbench run PASSES --tasks {out} --task TITLE")  # fmt: skip
        if found.refused:
            raise typer.Exit(1 if found.tasks else 2)

    @app.command("export-task")
    def export_task(
        task: Annotated[str, typer.Argument(help="Task id or its beginning, structure key, title or part of a title.")],
        tasks: Annotated[Path, typer.Option(help="A PassBench folder or a run directory.")] = Path("runs/default"),
        out: Annotated[Path, typer.Option(help="The task folder is written below this one.")] = Path("published"),
        debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    ) -> None:
        """Write one task as a task folder of the published layout, for harnesses that read it."""
        with one_line_errors(debug):
            from flows.published import export_task as write

            typer.echo(f"task folder {write(Shelf(tasks), task, out)}")
