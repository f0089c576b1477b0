"""A tiny process that outlives a killed build just long enough to end what the build had started.

    python -I -S data/warden.py < PIPE      # started by `data.pool` only

Reads lines "pid born pid born ..." from standard input, each replacing the one before: the living descendants of the
build. At end of file, which comes even if the build is killed with SIGKILL, it kills those that are still the same
processes. Uses the standard library alone, so that it starts in milliseconds and holds little memory.
"""

import os
import signal
import sys


def born(pid: int) -> str:
    """When a process began, in clock ticks since boot; empty if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except OSError:
        return ""


def main() -> None:
    """Remember the newest whole line; kill what it lists at end of file."""
    words: list[str] = []
    for line in sys.stdin:
        words = line.split() if line.endswith("\n") else words
    for pid, start in zip(words[::2], words[1::2], strict=True):
        if born(int(pid)) == start:
            try:
                os.kill(int(pid), signal.SIGKILL)
            except OSError:
                continue


if __name__ == "__main__":
    main()
