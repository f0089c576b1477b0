"""The verbs of `passnet` for the published task layout: import-task and export-task.

    passnet import-task published/0123... --out runs/published
    passbench run published/0123.../pass_dir --tasks runs/published --task 'add > layer_norm'

`register` puts them on the application of `flows.cli`; `flows.published` does the work.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from passbench.tasks import Shelf

PUBLISHED = Path("runs/published")


def register(app: typer.Typer, one_line_errors: Callable[[bool], Any]) -> None:
    """Put the verbs on an application, whose way to show errors is given."""

    @app.command("import-task")
    def import_task(
        folders: Annotated[list[Path], typer.Argument(help="Task folders of the published layout.")],
        out: Annotated[Path, typer.Option(help="Folder for the tables of tasks and variants.")] = Path(
            "runs/published"
        ),
        debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    ) -> None:
        """Read task folders of the published layout, without running their code, as tasks that `passbench` runs."""
        with one_line_errors(debug):
            from flows.published import import_tasks

            for task in import_tasks(folders, out):
                typer.echo(f"{task.task_id[:12]}  N={task.num_variants}  {task.title}")
            typer.echo(f"tasks in {out}; passbench run PASSES --tasks {out} --task TITLE")

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
