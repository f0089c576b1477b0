"""The attribute grammar: how a constant argument of a node is written as canonical JSON.

Is: the closed list of tags below and small functions over the decoded JSON ("value") form. No torch objects:
`schemas.fx` translates between these values and live Python objects, `schemas.source` prints them.
Run: not runnable; used by every module that looks inside `Node.attrs`.

| Python value          | written as                                   |
|-----------------------|----------------------------------------------|
| None, bool, int, str  | the JSON literal (1, True and "1" stay apart)|
| float                 | {"float": repr}: exact, "nan", "-inf", "-0.0"|
| complex               | {"complex": [repr, repr]}                    |
| list                  | a JSON array                                 |
| tuple                 | {"tuple": [...]}: torch.fx keeps torch.Size so|
| dict                  | {"dict": [[key, value], ...]}, in order      |
| slice / range         | {"slice": [a, b, c]} / {"range": [a, b, c]}  |
| Ellipsis              | {"ellipsis": true}                           |
| dtype, layout, format | {"dtype": "float32"}, {"layout": ...}, {"memory_format": ...} |
| device                | {"device": "cpu"} or {"device": "cuda:0"}    |
| operand k of the node | {"in": k}: k indexes `Node.inputs`           |
| function or type      | {"target": "torch.add"}                      |
| nested graph          | {"graph": k}: k indexes `Graph.subgraphs`    |
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

Value = Any
"""One decoded value: what `json.loads` returns for a text of the grammar above."""

TAGS = (
    "float", "complex", "tuple", "dict", "slice", "range", "ellipsis",
    "dtype", "layout", "memory_format", "device", "in", "target", "graph",
)  # fmt: skip
SEQUENCE_TAGS = ("tuple", "slice", "range")


def dumps(value: Value) -> str:
    """Canonical JSON text of a value: no spaces, ASCII only, key order kept, no bare NaN or Infinity."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def loads(text: str) -> Value:
    """Decode one canonical JSON text."""
    return json.loads(text)


def tag_of(value: Value) -> str | None:
    """The tag of a tagged value, or None for a JSON literal or array."""
    if isinstance(value, dict) and len(value) == 1:
        tag = next(iter(value))
        return tag if tag in TAGS else None
    return None


def rewrite(value: Value, change: Callable[[Value], Value | None]) -> Value:
    """Rebuild a value bottom-up; where `change(v)` is not None its result replaces v and is not entered.

    `change` is asked about a value before its children, so it can replace a whole tagged value.
    """
    changed = change(value)
    if changed is not None:
        return changed
    if isinstance(value, list):
        return [rewrite(item, change) for item in value]
    tag = tag_of(value)
    if tag in SEQUENCE_TAGS:
        return {tag: [rewrite(item, change) for item in value[tag]]}
    if tag == "dict":
        return {tag: [[key, rewrite(item, change)] for key, item in value[tag]]}
    return value


def walk(value: Value) -> Iterator[Value]:
    """Yield a value and every value inside it, parents first, left to right."""
    stack = [value]
    while stack:
        item = stack.pop()
        yield item
        if isinstance(item, list):
            stack.extend(reversed(item))
            continue
        tag = tag_of(item)
        if tag in SEQUENCE_TAGS:
            stack.extend(reversed(item[tag]))
        elif tag == "dict":
            stack.extend(reversed([pair[1] for pair in item[tag]]))
