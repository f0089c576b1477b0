"""The same piece at other sizes: which of its sizes change together, and at which points they are tried.

    for point in points(piece):              # Point(symbol="batch", old=1, new=4), ...
        graph = resize(piece, point)          # every spec propagated again

Is: symbols found by trial, not by comparing integers. A *length* (tokens, rows, columns, frames, or a width that no
parameter has) is a set of places (dimensions of inputs, sizes written in arguments) that holds a given dimension, can
change together, and from which no single place can be left out: from all places of that size, one after the other is
left as it was wherever the graph still propagates, so that square scores with a square mask stay square. What reaches
a parameter belongs to the architecture: it stays. The *batch* is all leading dimensions of size 1 of the inputs, and
what is written of them, less what may not change with them.
Reads a graph, writes nothing; loads torch to propagate (`schemas.sizes`).
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from schemas import values
from schemas.graph import Graph, Node
from schemas.roles import SHAPE_PARAMETERS, VARIADIC, short_name
from schemas.sizes import resized, strides
from schemas.values import Value

BATCH, LENGTH = "batch", "length"
BATCHES = (4, 16)
"""Sizes that a batch of one is tried at."""
FACTORS = ((2, 1), (1, 2), (4, 1))
"""(numerator, denominator) of the sizes that a length is tried at, next to the one it has."""
MIN_LENGTH = 8
"""Smaller sizes count heads, channels of a picture or corners of a box: they stay."""
Places = frozenset[tuple[int, int]]
"""(node index, which dimension of its spec or which size among its arguments)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One symbol at one other size."""

    symbol: str
    """batch or length."""
    old: int
    """The size it has."""
    new: int
    """The size it gets."""
    places: Places
    """Where it stands."""


def points(graph: Graph) -> list[Point]:
    """Every symbol of a graph at its other sizes: the first point of each, then the second of each, and so on."""
    columns = [list(_sizes(symbol, old, places)) for symbol, old, places in symbols(graph)]
    deepest = max(map(len, columns), default=0)
    return [column[row] for row in range(deepest) for column in columns if row < len(column)]


def _sizes(symbol: str, old: int, places: Places) -> Iterator[Point]:
    news = BATCHES if symbol == BATCH else [old * up // down for up, down in FACTORS]
    for new in news:
        yield Point(symbol=symbol, old=old, new=new, places=places)


def symbols(graph: Graph) -> list[tuple[str, int, Places]]:
    """(kind, size, places) of every symbol of a graph that may change: batch, lengths, lengths of last dimensions."""
    found: list[tuple[str, int, Places]] = []
    known: set[tuple[int, int]] = set()
    for start in _starts(graph):
        size = graph.nodes[start[0]].outputs[0].shape[start[1]]
        places = frozenset() if start in known else _tied(graph, start, size)
        known |= places
        if places and not any(graph.nodes[index].target == "parameter" for index, _ in places):
            found.append((LENGTH, size, places))
    found.sort(key=lambda item: (_is_last(graph, item[2]), -item[1], sorted(item[2])))
    batch = _batch(graph)
    return [(BATCH, 1, batch), *found] if batch else found


def _is_last(graph: Graph, places: Places) -> bool:
    """Whether a symbol is the last dimension of an input: usually a width, which varies less than a length."""
    inputs = graph.placeholders
    return any(index in inputs and dim == len(graph.nodes[index].outputs[0].shape) - 1 for index, dim in places)


def _starts(graph: Graph) -> list[tuple[int, int]]:
    """Dimensions of inputs that may be a length."""
    inputs = [index for index in graph.placeholders if graph.nodes[index].target == "input"]
    shapes = {index: graph.nodes[index].outputs[0].shape for index in inputs}
    return [(index, dim) for index, shape in shapes.items() for dim, size in enumerate(shape) if size >= MIN_LENGTH]


def _tied(graph: Graph, start: tuple[int, int], size: int) -> Places:
    """Places that hold `start` and change together, none of them in vain; empty if there are none."""
    places = frozenset(_places(graph, size))
    if _resized(graph, places, size, 2 * size) is None:
        return frozenset()
    for place in sorted(places - {start}):
        if _resized(graph, places - {place}, size, 2 * size) is not None:
            places -= {place}
    return places


def _batch(graph: Graph) -> Places:
    """All leading places of size 1 that can change together, one of them left out if need be; empty if none can."""
    several = {index for index in graph.placeholders if len(graph.nodes[index].outputs[0].shape) > 1}
    fixed = {index for index in graph.placeholders if graph.nodes[index].target == "parameter" or index not in several}
    every = frozenset(place for place in _places(graph, 1) if not place[1] and place[0] not in fixed)
    tries = [every, *(every - {place} for place in sorted(every))]
    fitting = (places for places in tries if any(index in several for index, _ in places))
    return next((places for places in fitting if _resized(graph, places, 1, BATCHES[0]) is not None), frozenset())


def _places(graph: Graph, size: int) -> Iterator[tuple[int, int]]:
    """All places of one size."""
    for index in graph.placeholders:
        for dim, found in enumerate(graph.nodes[index].outputs[0].shape):
            if found == size:
                yield index, dim
    for index, node in graph.calls():
        for place, found in enumerate(written_sizes(node)):
            if found == size:
                yield index, place


# --- sizes written in arguments -------------------------------------------------------------------------------------
def written_sizes(node: Node) -> list[int]:
    """The integers that a call's arguments give as sizes, in order."""
    found: list[int] = []

    def note(place: int, size: int) -> int:
        found.append(size)
        return size

    _rewrite(node, note)
    return found


def _rewrite(node: Node, change: Callable[[int, int], int]) -> Node:
    """A call with every written size replaced by change(place, size)."""
    short = short_name(node.target)
    positions, keywords = SHAPE_PARAMETERS.get(short, ((), ()))
    attrs = values.loads(node.attrs)
    count = 0

    def number(item: Value) -> Value | None:
        nonlocal count
        if not isinstance(item, int) or isinstance(item, bool):
            return None
        count += 1
        return change(count - 1, item)

    def slices(item: Value) -> Value | None:
        if values.tag_of(item) != "slice":
            return None
        start, stop, step = item["slice"]
        return {"slice": [values.rewrite(start, number), values.rewrite(stop, number), step]}

    args = [
        values.rewrite(item, number if k in positions or (short in VARIADIC and k and short != "permute") else slices)
        for k, item in enumerate(attrs["args"])
    ]
    kwargs = {name: values.rewrite(item, number if name in keywords else slices)
              for name, item in attrs["kwargs"].items()}  # fmt: skip
    return replace(node, attrs=values.dumps({"args": args, "kwargs": kwargs}))


def _with_size(node: Node, places: Collection[int], new: int) -> Node:
    return _rewrite(node, lambda place, size: new if place in places else size)


# --- another size ---------------------------------------------------------------------------------------------------
def resize(graph: Graph, point: Point) -> Graph | None:
    """The graph at another point; None if an op refuses it or an input's values are written down for its own size."""
    return _resized(graph, point.places, point.old, point.new)


def _resized(graph: Graph, places: Places, old: int, new: int) -> Graph | None:
    touched, shapes = {index for index, _ in places}, {}
    for index, init in zip(graph.placeholders, graph.inits, strict=True):
        if index not in touched:
            continue
        spec = graph.nodes[index].outputs[0]
        # A row cut out of a larger tensor has strides that its shape does not tell: it stays the row that it was.
        if values.loads(init)["kind"] in ("literal", "lines") or strides(spec, spec.shape) != spec.stride:
            return None
        shapes[index] = [new if (index, dim) in places else size for dim, size in enumerate(spec.shape)]
    nodes = list(graph.nodes)
    for index in touched.difference(graph.placeholders):
        nodes[index] = _with_size(nodes[index], {k for found, k in places if found == index}, new)
    return resized(replace(graph, nodes=tuple(nodes)), shapes)
