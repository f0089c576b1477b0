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
    level = next((name for name in LEVELS if getattr(left.keys, name) == getattr(right.keys, name)), "")
    finest = LEVELS.index(level) - 1 if level else len(LEVELS) - 1
    place = _first_difference(left.forms[finest], right.forms[finest]) if finest >= 0 else -1
    return Comparison(
        level=level, body=left.body == right.body, inference=_inference_key(a) == _inference_key(b),
        sizes=(len(left.numbered), len(right.numbered)), place=place,
        left=_around(left, place), right=_around(right, place),
    )  # fmt: skip


def _inference_key(graph: Graph) -> str:
    return canonicalize(normalised(graph, "inference")).key


def _first_difference(left: bytes, right: bytes) -> int:
    """Number of the first line (after the head) that differs."""
    ours, theirs = left.split(b"\n")[1:], right.split(b"\n")[1:]
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((place for place, (x, y) in pairs if x != y), min(len(ours), len(theirs)))


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
