"""What a person sees while a build runs: one bar a stage on a terminal, a few quiet lines elsewhere.

    build(path, config, Plan(observer=watcher(Console(stderr=True))))

Reads and writes nothing but standard error. Threads may call it.
"""

import threading
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as Remaining

from flows.run import Observer
from flows.stages import Stage

QUIET_S = 20.0
"""Seconds between two lines where there is no terminal."""


class Bars(Observer):
    """One progress bar a stage: done of total, elapsed and remaining time."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            Remaining(),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {}
        self._whole: set[str] = set()

    def __enter__(self) -> "Bars":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def on_stage(self, stage: Stage, total: int, kept: int) -> None:
        """Show the stage's bar."""
        self._tasks[stage.name] = self._progress.add_task(stage.name, total=total, completed=kept)
        if stage.scope == "table":
            self._whole.add(stage.name)

    def on_event(self, event: str, stage: str, shard: int) -> None:
        """Advance the stage's bar."""
        if stage in self._tasks and event == ("done" if stage in self._whole else "item"):
            self._progress.advance(self._tasks[stage])

    def on_note(self, text: str) -> None:
        """Print a note above the bars."""
        self._progress.console.print(text, style="yellow", highlight=False, soft_wrap=True)


class Lines(Observer):
    """One line when a stage begins with work to do, and at most one every QUIET_S seconds while it runs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._total = self._done = self._at_start = 0
        self._began = self._last = time.monotonic()

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def on_stage(self, stage: Stage, total: int, kept: int) -> None:
        """Say what the stage has to do."""
        self._total, self._done, self._at_start = total, kept, kept
        self._began = self._last = time.monotonic()
        if stage.scope == "table":
            self._say(f"{stage.name}: {'kept' if kept else stage.doc}")
        else:
            self._say(f"{stage.name}: {total} rows" + (f", {kept} kept" if kept else "") + f". {stage.doc}")

    def on_event(self, event: str, stage: str, shard: int) -> None:
        """Count items, and say so now and then."""
        if event != "item":
            return
        with self._lock:
            self._done += 1
            now = time.monotonic()
            if now - self._last < QUIET_S:
                return
            self._last = now
            rate = (self._done - self._at_start) / (now - self._began)
            left = (self._total - self._done) / rate
            self._say(f"{stage}: {self._done} of {self._total}, {rate:.2g} a second, about {left:.0f} s left")

    def on_note(self, text: str) -> None:
        """Print a note."""
        self._say(text)

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


def watcher(console: Console) -> Bars | Lines:
    """Bars on a terminal, lines elsewhere; a context manager."""
    return Bars(console) if console.is_terminal else Lines(console)
