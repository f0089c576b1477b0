"""At which level two graphs are the same, and the first place where they are not, for people.

    print("\\n".join(lines_of(compare(a, b))))

Reads two graphs; writes nothing. The picture shows both graphs around the first line in which their canonical forms of
the finest level that tells them apart differ; names are the graphs' own.
"""

from dataclasses import dataclass

from schemas.canonical import Canonical, canonicalize
from schemas.forms import LEVELS
from schemas.graph import PLACEHOLDER, Graph
from schemas.normal import normalised
from schemas.source import describe, statement_of

CONTEXT = 2
"""Lines shown before the first difference."""
SEEN_BEFORE, SEEN = 20, 60
"""Characters of a record that are shown before its first difference, and in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """The level of two graphs, and the first place where they differ."""

    level: str
    """The finest level at which they are equal; empty if they differ even in topology."""
    left: tuple[str, ...]
    """Lines of the left graph around the first difference, that line last; empty if they are equal."""
    right: tuple[str, ...]
    """As `left`; the last lines are never the same text."""
    place: int
    """Number of the first differing line, counted in canonical order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What two graphs have in common."""

    level: str
    """The finest level at which they are equal; empty if they differ even in topology."""
    inference: bool
    """Whether they are equal after the normalisation `inference`."""
    body: bool
    """Whether they compute the same and differ at most in which intermediate values they return."""
    sizes: tuple[int, int]
    """Live nodes of either."""
    left: tuple[str, ...]
    """Lines of the left graph around the first difference, that line last; empty if they are equal."""
    right: tuple[str, ...]
    """As `left`."""
    place: int
    """Number of the first differing line, counted in canonical order."""


def compare(a: Graph, b: Graph) -> Comparison:
    """Compare two graphs at every level, under the normalisation `inference` and by their bodies."""
    left, right = canonicalize(a), canonicalize(b)
    found = contrast(left, right)
    return Comparison(
        level=found.level, body=left.body == right.body, inference=_inference_key(a) == _inference_key(b),
        sizes=(len(left.numbered), len(right.numbered)), place=found.place, left=found.left, right=found.right,
    )  # fmt: skip


def contrast(left: Canonical, right: Canonical) -> Contrast:
    """At which level two graphs are equal, and the first lines that tell them apart at the level before it."""
    level = next((name for name in LEVELS if getattr(left.keys, name) == getattr(right.keys, name)), "")
    finest = LEVELS.index(level) - 1 if level else len(LEVELS) - 1
    if finest < 0:
        return Contrast(level=level, left=(), right=(), place=-1)
    ours, theirs = _records(left, finest), _records(right, finest)
    pairs = enumerate(zip(ours, theirs, strict=False))
    place = next((place for place, (x, y) in pairs if x != y), min(len(ours), len(theirs)))
    lines, others = _around(left, place), _around(right, place)
    if lines[-1] == others[-1]:
        told, other = _told_apart(ours[place : place + 1], theirs[place : place + 1])
        lines, others = (*lines[:-1], f"{lines[-1]}  {told}"), (*others[:-1], f"{others[-1]}  {other}")
    return Contrast(level=level, left=lines, right=others, place=place)


def _inference_key(graph: Graph) -> str:
    return canonicalize(normalised(graph, "inference")).key


def _records(form: Canonical, level: int) -> list[str]:
    """The lines of a form after its head."""
    return [line.decode() for line in form.forms[level].split(b"\n")[1:]]


def _told_apart(ours: list[str], theirs: list[str]) -> tuple[str, str]:
    """Where the records behind two lines of one text differ: what lines do not show, such as strides and versions."""
    left, right = ("".join(ours) or "(no line)"), ("".join(theirs) or "(no line)")
    start = next((k for k, (x, y) in enumerate(zip(left, right, strict=False)) if x != y), min(len(left), len(right)))
    return tuple(f"(... {text[max(0, start - SEEN_BEFORE) :][:SEEN]})" for text in (left, right))  # type: ignore[return-value]


def _around(form: Canonical, place: int) -> tuple[str, ...]:
    if place < 0:
        return ()
    order, graph = form.numbered, form.source
    if place >= len(order):
        return ("(the graph ends before this line)",)
    return tuple(_line(graph, index) for index in order[max(0, place - CONTEXT) : place + 1])


def _line(graph: Graph, index: int) -> str:
    node = graph.nodes[index]
    if node.op == PLACEHOLDER:
        return f"{node.name}: {node.target} {describe(node.outputs)}"
    return statement_of(node, [graph.nodes[k].name for k in node.inputs])


_SAYS = {
    "exact": "the same graph: equal at the level exact and at all others",
    "shape_free": "equal but for sizes: the level shape_free joins them, exact does not",
    "dtype_free": "equal but for sizes and dtypes: the level dtype_free joins them, shape_free does not",
    "structure": "equal but for numbers: the level structure joins them, dtype_free does not",
    "topology": "equal in ops and wiring alone: the level topology joins them, structure does not",
    "": "different at every level: other ops or other wiring",
}


def lines_of(found: Comparison) -> list[str]:
    """The comparison as lines of text."""
    lines = [_SAYS[found.level]]
    if found.level != "exact":
        if found.inference:
            lines.append("equal after the normalisation inference (eval dropout and other idle calls left out)")
        if found.body:
            lines.append("one body: they differ only in which intermediate values they return")
        lines.append(f"live nodes: {found.sizes[0]} and {found.sizes[1]}; first difference at line {found.place}:")
        lines += [f"  A  {line}" for line in found.left] + [f"  B  {line}" for line in found.right]
    return lines
