"""Python source as HTML with light colours, through the standard tokenizer.

    html = highlighted(text)                     # escaped; plain where the text is no Python

Reads and writes nothing.
"""

import io
import keyword
import tokenize
from html import escape

MAX_CHARACTERS = 200_000


def highlighted(text: str) -> str:
    """Source with spans of class k (keyword), s (string), c (comment), n (number) and d (decorator)."""
    text = text[:MAX_CHARACTERS]
    lines = text.splitlines(keepends=True)
    parts: list[str] = []
    at = (1, 0)
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT) or token.end <= at:
                continue
            parts.append(escape(_between(lines, at, token.start)))
            parts.append(_span(token))
            at = token.end
    except (tokenize.TokenError, SyntaxError, IndentationError):
        pass
    return "".join(parts) + escape(_between(lines, at, (len(lines) + 1, 0)))


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """The text from one place to another; lines count from 1."""
    if start[0] == end[0]:
        return lines[start[0] - 1][start[1] : end[1]] if start[0] <= len(lines) else ""
    whole = lines[start[0] - 1 : end[0]]
    if not whole:
        return ""
    last = whole[-1][: end[1]] if end[0] <= len(lines) else whole[-1]
    return (whole[0][start[1] :] + "".join(whole[1:-1]) + last) if len(whole) > 1 else whole[0][start[1] :]


def _span(token: tokenize.TokenInfo) -> str:
    shown = escape(token.string)
    kinds = {tokenize.STRING: "s", tokenize.COMMENT: "c", tokenize.NUMBER: "n"}
    kind = kinds.get(token.type, "")
    if token.type == tokenize.NAME and keyword.iskeyword(token.string):
        kind = "k"
    if token.type == tokenize.OP and token.string == "@" and token.line.lstrip().startswith("@"):
        kind = "d"
    return f"<i class={kind}>{shown}</i>" if kind else shown
