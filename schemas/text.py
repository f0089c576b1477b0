"""Texts: a long one as a type of its own, which is `large_string` in Arrow, a number with what it counts, foreign text.

    plain("bad \\ud800\\x1b[2J text", 300)       # "bad \ufffd\ufffd[2J text"

Is: `Text`; import it from `schemas.rows`. Reads and writes nothing.
"""

import unicodedata
from typing import NewType

Text = NewType("Text", str)
"""A long text."""
REPLACEMENT = "\ufffd"
"""What stands for a character that is not plain."""
_NOT_PLAIN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories: control, format (bidirectional marks are such), surrogate, private, unassigned, separators."""
_MARKS = frozenset({"Mn", "Me"})
MAX_MARKS = 4
"""Most combining marks in a row: more would be drawn over the lines above and below."""


def counted(number: int, noun: str) -> str:
    """A number and what it counts: "1 task", "2 tasks"."""
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def plain(text: str, limit: int | None = None) -> str:
    """A foreign text that any file holds and any terminal shows as it is: one line, of at most `limit` characters.

    Characters that are not plain become REPLACEMENT, white space becomes a space.
    """
    if limit is not None and len(text) > limit:
        text = f"{text[: max(limit - 1, 0)]}…"
    if text.isascii() and text.isprintable():
        return text
    found: list[str] = []
    marks = 0
    for character in text:
        kind = unicodedata.category(character)
        marks = marks + 1 if kind in _MARKS else 0
        if character in "\t\n\r\v\f":
            found.append(" ")
        elif kind in _NOT_PLAIN:
            found.append(REPLACEMENT)
        elif marks <= MAX_MARKS:
            found.append(character)
    return "".join(found)


def times(value: float) -> str:
    """A ratio in few characters: 0.04, 1.25, 12.3, 1234, 1.0e+07."""
    if value != value or abs(value) >= 1e4 or 0 < abs(value) < 1e-2:
        return f"{value:.1e}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"
