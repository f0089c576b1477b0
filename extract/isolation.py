"""Foreign code and samples leave nothing behind: what a process shares is put back after every item.

    with isolated():                # around one item: a file's module, a sample, an architecture, one attempt at it
        ...
    left_behind()                   # what could not be put back; the process must not take another item

Reads the globals before (`extract.interpreter_state`, `extract.torch_state`, `extract.torch_tables`), and puts back
afterwards, also after an exception, what differs.
Whatever still differs then, or may be changed again by an object that lives on, is remembered: the child that the
item ran in is told to end (`data.child`), and the next item gets a fresh one.
"""

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from extract.failures import LIBRARY_ERRORS
from extract.interpreter_state import FUNCTIONS, INTERPRETER, Global
from extract.torch_state import MODES
from extract.torch_tables import TABLES, TORCH_FUNCTIONS

GLOBALS: tuple[Global, ...] = (FUNCTIONS, TORCH_FUNCTIONS, *INTERPRETER, *MODES, *TABLES)
"""All rows: functions that were replaced come first, for all others call some. `MODES` alone is what a graph that is
read, not run, can change; it costs a thirtieth."""
_left: dict[str, None] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A row, and what was read of it."""

    row: Global
    value: Any


@contextmanager
def isolated(rows: Sequence[Global] = GLOBALS) -> Iterator[None]:
    """Put back what the code inside changed of the process; it may raise, and may be inside another such block."""
    before = [Kept(row=row, value=row.read()) for row in rows]
    try:
        yield
    finally:
        changed = put_back(before)
        lingering = [kept for kept in changed if kept.row.lingers]
        if lingering:
            gc.collect()  # what entered a context and is dead leaves it now, not in a later item
        stubborn = put_back(before if lingering else changed)
        _left.update(dict.fromkeys(kept.row.what for kept in (*lingering, *stubborn)))


def put_back(before: Iterable[Kept]) -> list[Kept]:
    """Restore every row that differs from what was read of it; -> these rows."""
    changed = []
    for kept in before:
        try:
            differs = kept.row.differs(kept.value)
        except LIBRARY_ERRORS:
            differs = True
        if differs:
            changed.append(kept)
            with suppress(*LIBRARY_ERRORS):
                kept.row.restore(kept.value)
    return changed


def retire(why: str) -> None:
    """Say that this process must take no other item, whatever was put back."""
    _left[why] = None


def left_behind() -> tuple[str, ...]:
    """What could not be put back in this process, or why it must not go on; empty if it may take another item."""
    return tuple(_left)
