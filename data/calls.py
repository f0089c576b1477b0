"""What a child process is asked to do and how much it may use: plain frozen data.

    Call(stage="graphs", function="extract.trace:trace", config_class="extract.trace:TraceConfig", limits=Limits())

Reads and writes nothing. `data.pool` turns a call into requests, `data.child` answers them.
"""

import signal
from dataclasses import dataclass, field
from typing import Any

from schemas.rows import Failure, FailureKind, Text


class StageFailed(Exception):
    """A stage could not run at all: the message says which and why, `detail` holds the traceback."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one child may use for one item."""

    timeout_s: float = 300.0
    """Wall seconds an item."""
    memory_gib: float = 4.0
    """Resident GiB of the child and all its descendants; above it they are killed when next looked at."""
    hard: bool = False
    """Whether the kernel refuses the child what would take it above `memory_gib`, between two looks too."""
    recycle_items: int = 200
    """Items after which the child is replaced."""
    recycle_gib: float = 1.5
    """Resident GiB above which an idle child is replaced."""
    start_s: float = 300.0
    """Wall seconds to start and import the stage's module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Which function a child calls, with which configuration, under which limits."""

    stage: str
    """Stage name, for Failure rows."""
    function: str
    """"module:function"."""
    config_class: str = ""
    """"module:Class" of its configuration; empty if it has none."""
    config: dict[str, Any] = field(default_factory=dict)
    """The configuration's fields as decoded JSON."""
    limits: Limits
    """Limits of every item."""

    def request(self, do: str) -> dict[str, Any]:
        """The header of a request to do something with this call."""
        return {
            "do": do, "stage": self.stage, "function": self.function,
            "config_class": self.config_class, "config": self.config,
            "bytes": int(self.limits.memory_gib * (1 << 30)) if self.limits.hard else 0,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Who an input row is."""

    key: str
    """Its `row_key`."""
    name: str
    """Its name for people."""


def failure_of_death(call: Call, item: Item, kind: FailureKind, ended: tuple[int, str]) -> Failure:
    """The Failure row of an item whose child was killed or died; ended: its exit status and last words."""
    status, tail = ended
    if kind is FailureKind.TIMEOUT:
        message, detail = f"no result within {call.limits.timeout_s:g} s", ""
    elif kind is FailureKind.OOM:
        message, detail = f"more than {call.limits.memory_gib:g} GiB resident", ""
    else:
        message, detail = _cause_of_death(status), tail
    return Failure(
        stage=call.stage, item=item.key, name=item.name, kind=kind, exception="", message=message, detail=Text(detail)
    )


def _cause_of_death(status: int) -> str:
    if status >= 0:
        return f"the child process ended with exit status {status}"
    if -status == signal.SIGKILL:
        return "the child process was killed from outside (SIGKILL; out of memory?)"
    return f"the child process died of {signal.Signals(-status).name}"
