"""How the variants of a task spell their calls: variants whose patterns differ only in names and numbers share a form.

    for form in call_forms(variants): form.indices, form.lines

`torch.relu(x)` and `x.relu()` are two forms, as are `x + y` and `y + x`: a pass needs a pattern for each. Variants
come from different models, so one task may have several. Reads and writes nothing.
"""

import io
import keyword
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.rows import TaskVariant
from schemas.source import source_of

_NUMBER = "N"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One spelling."""

    indices: tuple[int, ...]
    """The variants that have it."""
    lines: tuple[str, ...]
    """The statements of the first of them."""
    differing: tuple[str, ...]
    """Those that the form before all others does not have; empty for that one."""


def call_forms(variants: Sequence[TaskVariant]) -> list[Form]:
    """All forms, that of the first variant first."""
    groups: dict[tuple[str, ...], list[TaskVariant]] = {}
    for row in variants:
        groups.setdefault(tuple(_normal(line) for line in _renamed(source_of(row.graph))), []).append(row)
    first = next(iter(groups), ())
    found = []
    for normal, rows in groups.items():
        lines = _statements(source_of(rows[0].graph))
        other = [line for line, key in zip(lines, normal, strict=True) if key not in first]
        found.append(Form(indices=tuple(row.index for row in rows), lines=tuple(lines),
                          differing=() if normal == first else tuple(other or lines)))  # fmt: skip
    return found


def _statements(source: str) -> list[str]:
    """The lines of `forward` without comments: assignments and the return."""
    body = source[source.index("):\n") + 3 :] if "):\n" in source else source
    return [text for line in body.splitlines() if (text := line.split("  #")[0].strip())]


def _renamed(source: str) -> list[list[tokenize.TokenInfo | str]]:
    """The statements as tokens; every name that a statement gives or takes from the inputs is a number."""
    names: dict[str, str] = {}
    found = []
    for line in _statements(source):
        tokens: list[tokenize.TokenInfo | str] = []
        after_dot = False
        for token in _tokens(line):
            plain = token.type == tokenize.NAME and not after_dot and not keyword.iskeyword(token.string)
            if plain and token.string not in ("torch", "operator", "self", "float"):
                tokens.append(names.setdefault(token.string, f"v{len(names)}"))
            else:
                tokens.append(token)
            after_dot = token.string == "."
        found.append(tokens)
    return found


def _tokens(line: str) -> list[tokenize.TokenInfo]:
    try:
        return list(tokenize.generate_tokens(io.StringIO(line).readline))
    except tokenize.TokenError:  # a statement over several lines
        return [tokenize.TokenInfo(tokenize.STRING, line, (1, 0), (1, len(line)), line)]


def _normal(tokens: Sequence[tokenize.TokenInfo | str]) -> str:
    """A statement with numbers masked."""
    parts = [
        token if isinstance(token, str) else _NUMBER if token.type == tokenize.NUMBER else token.string
        for token in tokens
    ]
    return " ".join(part for part in parts if part.strip())


def form_lines(variants: Sequence[TaskVariant], shown: int) -> list[str]:
    """What other spellings there are than that of a variant, as comments; nothing if there are none."""
    ordered = sorted(variants, key=lambda row: (row.index != shown, row.index))
    forms = call_forms(ordered)
    if len(forms) == 1:
        return []
    lines = [f"# {len(forms)} spellings among the variants; a pass has to match each:"]
    for form in forms:
        names = ", ".join(map(str, sorted(form.indices)))
        lines.append(f"# variants {names}: {'as printed' if not form.differing else ''}".rstrip())
        lines += [f"#     {line}" for line in form.differing]
    return [*lines, ""]
