"""How long a process may still take: by the processor time of its whole tree, not by the clock of a busy machine.

    patience = Patience(pid, seconds=120)
    patience.left()                              # seconds until it is worth asking again; 0 once it is used up
    patience.why                                 # "120 s of processor time used"

A tree of processes has `seconds` of processor time for an answer, and as much time in which it neither runs nor waits
for a processor; WALL times that ends it in any case. Time in which others had the processors costs it nothing. Reads
/proc, but not in the first moments, so that a quick answer is not held up; where /proc does not say, the wall alone
counts. Writes nothing.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

WALL = 10.0
"""Multiple of its time after which a tree is given up whatever it did."""
STEP_S = 0.5
"""Seconds between two looks."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What a tree of processes has used so far."""

    cpu_s: float
    """Processor seconds, those of reaped children included."""
    waited_s: float
    """Seconds in which its threads waited for a processor."""


class Patience:
    """The time that one answer may take."""

    def __init__(self, pid: int, *, seconds: float) -> None:
        self.pid, self.seconds, self.why = pid, seconds, ""
        self.began, self.first = time.monotonic(), Used(cpu_s=0.0, waited_s=0.0)
        self.looked = False

    def left(self) -> float:
        """Seconds until it is worth looking again; 0 once the time is used up, and `why` says by what."""
        wall = time.monotonic() - self.began
        if wall < min(STEP_S, self.seconds):
            return min(STEP_S, self.seconds) - wall
        used = used_by(self.pid)
        if used is None:
            self.why = f"{self.seconds:g} s"
            return max(self.seconds - wall, 0.0)
        if not self.looked:  # what was used before is not known exactly: at most the moments that have passed
            self.looked, self.first = True, Used(cpu_s=used.cpu_s - wall, waited_s=used.waited_s)
        cpu, waited = used.cpu_s - self.first.cpu_s, used.waited_s - self.first.waited_s
        if cpu >= self.seconds:
            self.why = f"{self.seconds:g} s of processor time"
        elif wall - cpu - waited >= self.seconds:
            self.why = f"{self.seconds:g} s, for most of which it did nothing"
        elif wall >= WALL * self.seconds:
            self.why = f"{WALL * self.seconds:g} s on a busy machine"
        return 0.0 if self.why else STEP_S


def used_by(pid: int) -> Used | None:
    """What a process and all below it have used; None if it is gone or the system does not say."""
    cpu = waited = 0.0
    known = False
    for member in _tree(pid):
        try:
            fields = Path(f"/proc/{member}/stat").read_text().rsplit(")", 1)[1].split()
            cpu += sum(map(int, fields[11:15])) / _TICKS
            tasks = list(Path(f"/proc/{member}/task").iterdir())
            waited += sum(int((task / "schedstat").read_text().split()[1]) for task in tasks) / 1e9
            known = True
        except (OSError, IndexError, ValueError):
            continue
    return Used(cpu_s=cpu, waited_s=waited) if known else None


def _tree(pid: int) -> Iterator[int]:
    """A process and all below it."""
    waiting = [pid]
    while waiting:
        member = waiting.pop()
        yield member
        for task in Path(f"/proc/{member}/task").glob("*/children"):
            try:
                waiting += map(int, task.read_text().split())
            except (OSError, ValueError):
                continue
