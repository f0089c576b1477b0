"""Texts: a long one as a type of its own, which is `large_string` in Arrow, and a number with what it counts.

Is: `Text`; import it from `schemas.rows`. Reads and writes nothing.
"""

from typing import NewType

Text = NewType("Text", str)
"""A long text."""


def counted(number: int, noun: str) -> str:
    """A number and what it counts: "1 task", "2 tasks"."""
    return f"{number:,} {noun}{'s' if number != 1 else ''}"
