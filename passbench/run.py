"""Grading one submission on one task: the orchestrator. It runs no submitted code and decides every verdict.

    graded = grade(freeze(folder), task, variants, Settings())
    graded.results                               # one EvalResult a variant, N fixed by the task

`passbench.grader` takes one variant from reference outputs to its verdict; this module starts the processes, gives
variants to graders, and makes a row of what each came to.

Reads nothing beyond its arguments and writes nothing lasting; `passbench.results` writes the results folder.
"""

import threading
from collections.abc import Mapping, Sequence

from passbench.clock import environment
from passbench.compiling import Compiler
from passbench.grader import Grader
from passbench.grading import Case, Journal, Progress, gather, row_of, settled_of, silent
from passbench.grading import Graded as Graded
from passbench.grading import Settings as Settings
from passbench.grading import Timing as Timing
from passbench.isolate import Template, TemplateDied
from passbench.lanes import Lane, Quiet, side_by_side
from passbench.policy import inspect_sources
from passbench.sandbox import LEVELS
from passbench.submission import Rejected, Submission
from schemas.rows import Task, TaskVariant, Verdict


class Harness:
    """One template process, started when it is first needed, for any number of gradings; a context manager.

    If the template dies it is started anew and what was being graded is graded once more.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.started: Template | None = None
        self.turn = threading.RLock()
        self.quiet, self.compiler = Quiet(), Compiler(settings.limits, settings.isolation)

    def __enter__(self) -> "Harness":
        return self

    def __exit__(self, *error: object) -> None:
        self.compiler.__exit__(*error)
        if self.started is not None:
            self.drop(self.started)

    @property
    def template(self) -> Template:
        """The template process."""
        with self.turn:
            if self.started is None:
                settings = self.settings
                try:
                    self.started = self.new_template()
                except TemplateDied:  # perhaps something killed it; if not, the second says what is wrong
                    self.started = self.new_template()
                if settings.require_isolation != LEVELS[0]:
                    self.started.reachable(settings.require_isolation)
            return self.started

    def new_template(self) -> Template:
        """Start one."""
        settings = self.settings
        return Template(device=settings.device, limits=settings.limits, isolation=settings.isolation).__enter__()

    def drop(self, template: Template) -> None:
        """Close this template, unless another lane did; the next is started when it is needed."""
        with self.turn:
            if self.started is template:
                self.started = None
                template.__exit__(None, None, None)

    def stop(self) -> None:
        """Kill all processes."""
        if self.started is not None:
            self.started.kill()

    def grade(
        self, submission: Submission, task: Task, variants: Sequence[TaskVariant], *,
        progress: Progress = silent, journal: Journal | None = None,
    ) -> Graded:  # fmt: skip
        """Grade a frozen submission on all variants, those in the journal left out.

        Raises ValueError on variants that are not the task's N, or where the isolation required is not reached, and
        TemplateDied if no template can be started.
        """
        if sorted(row.index for row in variants) != list(range(task.num_variants)):
            raise ValueError(f"task {task.task_id} has {task.num_variants} variants, {len(variants)} were given")
        ordered = sorted(variants, key=lambda row: row.index)
        env = environment(self.settings.device)
        if self.settings.require_isolation != LEVELS[0]:
            self.template  # noqa: B018  # starting it refuses what is not isolated enough
        try:
            rules = self.settings.has("D4.policy")
            facts = inspect_sources(submission, max_patterns=task.max_patterns, rules=rules)
        except (Rejected, RecursionError, MemoryError) as error:
            case = Case(off=self.settings.layers_off)
            too_deep = Rejected("syntax", "an expression is nested too deeply to be read; split it")
            told = error if isinstance(error, Rejected) else too_deep
            case.fail(Verdict.REJECTED, str(told), told.rule)
            rows = [row_of(case, row, submission, env, speed=False) for row in ordered]
            return Graded(results=tuple(rows), environment=env, timings=(), settings=self.settings)
        speed = self.settings.device == "cuda" or not facts.uses_triton
        done = dict(journal.done) if journal else {}
        measures: Mapping[str, str] = {}
        todo = [variant for variant in ordered if variant.index not in done]
        self.template  # noqa: B018  # one that cannot be started at all is no variant's verdict
        lanes = 1 if speed else self.settings.workers

        def grader(template: Template) -> Grader:
            return Grader(template, submission, facts, task, self.settings, self.quiet, self.compiler)

        for variant, case in side_by_side(todo, lambda: Lane(self, grader, speed), lanes, self.stop):
            settled = settled_of(case, row_of(case, variant, submission, env, speed=speed))
            done[variant.index], measures = settled, case.measures or measures
            if journal:
                journal.add(settled)
            progress(settled.row)
        return gather([done[variant.index] for variant in ordered], env, self.settings, measures)


def grade(
    submission: Submission,
    task: Task,
    variants: Sequence[TaskVariant],
    settings: Settings,
    *,
    progress: Progress = silent,
    journal: Journal | None = None,
) -> Graded:
    """Grade one frozen submission on one task; see `Harness.grade`."""
    with Harness(settings) as harness:
        return harness.grade(submission, task, variants, progress=progress, journal=journal)
