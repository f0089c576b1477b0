"""All processes of the machine as /proc shows them: who descends from whom, and how much memory they hold.

    table = processes()
    total(table, family(pid, table))       # resident bytes of a whole family
    bound(3 << 30)                         # from now on this process cannot hold more

Reads /proc; writes nothing; `kill_below` ends processes.
"""

import os
import re
import resource
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_FIELDS = 22
"""Fields of /proc/PID/stat that are read, counted after the command's name."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Seen:
    """One process."""

    parent: int
    """Its parent's process id."""
    group: int
    """Its process group."""
    resident: int
    """Resident bytes."""
    born: int
    """Start in clock ticks since boot; with the process id it names one process for good."""


def processes() -> dict[int, Seen]:
    """All processes of the machine: pid -> what /proc tells."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                words = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if len(words) < _FIELDS:
            continue
        found[int(entry)] = Seen(int(words[1]), int(words[2]), int(words[21]) * _PAGE, int(words[19]))
    return found


def descendants(pid: int, table: Mapping[int, Seen]) -> set[int]:
    """Processes below `pid`, without it."""
    return _below({pid}, table) - {pid}


def family(pid: int, table: Mapping[int, Seen]) -> set[int]:
    """A session leader `pid`, all of its process group, and everything below them."""
    return _below({pid} | {other for other, seen in table.items() if seen.group == pid}, table)


def kill_below(pid: int, table: Mapping[int, Seen]) -> None:
    """Kill the family of `pid`, without it."""
    for other in family(pid, table) - {pid}:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(other, signal.SIGKILL)


def _below(roots: set[int], table: Mapping[int, Seen]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, seen in table.items():
        children.setdefault(seen.parent, []).append(pid)
    found, stack = set(roots), list(roots)
    while stack:
        fresh = [child for child in children.get(stack.pop(), []) if child not in found]
        found.update(fresh)
        stack.extend(fresh)
    return found


def total(table: Mapping[int, Seen], pids: set[int]) -> int:
    """Resident bytes of some processes together."""
    return sum(table[pid].resident for pid in pids if pid in table)


def resident(pid: int) -> int:
    """Resident bytes of one process; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def bound(allowed: int) -> None:
    """Have the kernel refuse this process what would take it above so many resident bytes.

    What it maps for itself from now on counts, used or not, besides what is resident now; library files do not, nor
    does what it had mapped before and given back.
    """
    status = dict(re.findall(r"(?m)^(VmData|VmRSS):\s+(\d+) kB$", Path("/proc/self/status").read_text()))
    mapped, held = int(status["VmData"]) * 1024, int(status["VmRSS"]) * 1024
    most = resource.getrlimit(resource.RLIMIT_DATA)[1]
    wanted = mapped + max(0, allowed - held)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most))
