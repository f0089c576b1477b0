"""Mutation of the form: whichever field is dropped from it, a pair of different graphs becomes one.

Each row of FIELDS names a field of the form, two graphs that differ in it alone, and how to write the form without it.
The graphs differ; with the field dropped they are equal. So the field is needed, and a form that lost it fails here.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from schemas import canonical, forms, values
from schemas.canonical import canonicalize
from schemas.graph import CONSTANT, SUBGRAPH, Graph, Node
from schemas.values import Value
from tests.schemas.drafts import SPEC, Draft, spec

pytestmark = pytest.mark.plain
Pair = tuple[Graph, Graph]


def one(*args: Value, target: str = "torch.f", **settings: object) -> Graph:
    """A call of one op on a placeholder."""
    d = Draft()
    x = d.input(settings.pop("given", SPEC), settings.pop("role", "input"))  # type: ignore[arg-type]
    return d.graph(d.call(target, x, *args, **settings))  # type: ignore[arg-type]


def constant(dtype: str = "float32", shape: tuple[int, ...] = (2,), data: str = "AACAPwAAgD8=") -> Graph:
    d = Draft()
    attrs = values.dumps({"dtype": dtype, "shape": list(shape), "data": data})
    return d.graph(d.call("torch.f", d._add(op=CONSTANT, target="", inputs=(), attrs=attrs, outputs=(SPEC,))))


def nested(inner: Graph) -> Graph:
    d = Draft()
    x = d.input()
    body = d._add(op=SUBGRAPH, target="", inputs=(), attrs='{"graph":0}', outputs=())
    return replace(d.graph(d.call("torch.f", x, body)), subgraphs=(inner.to_json(),))


def wired(second: bool) -> Graph:
    d = Draft()
    x, y = d.input(), d.input()
    return d.graph(d.call("torch.sub", d.call("torch.sub", x, y), y if second else x))


def read_around_a_write(early: bool) -> Graph:
    d = Draft()
    x = d.input()
    first = d.call("torch.exp", x) if early else None
    d.method("add_", x, 1)
    return d.graph(first if first is not None else d.call("torch.exp", x))


def two_writes(first: int) -> Graph:
    d = Draft()
    x, y = d.input(), d.input(role="parameter")
    written = {value: d.method("add_", value, 1) for value in ((x, y) if first == 0 else (y, x))}
    return d.graph(d.call("torch.sub", written[x], written[y]))


def in_scope(inside: bool) -> Graph:
    d = Draft()
    x = d.input()
    early = None if inside else d.call("torch.exp", x)
    d.call("torch._C._set_grad_enabled", False, of=None)
    late = d.call("torch.exp", x) if early is None else early
    return d.graph(late)


def returned(end: Value) -> Graph:
    d = Draft()
    graph = d.graph(d.call("torch.exp", d.input()))
    last = replace(graph.nodes[-1], attrs=values.dumps({"args": [end], "kwargs": {}}))
    return replace(graph, nodes=(*graph.nodes[:-1], last))


Drop = Callable[[pytest.MonkeyPatch], None]


def record(kind: str, *path: object) -> Drop:
    """Write the exact records of one kind of node without the item at a path."""

    def drop(patch: pytest.MonkeyPatch) -> None:
        real = forms._lines

        def lines(levels: tuple[Value, ...]) -> tuple[bytes, ...]:
            exact = values.loads(values.dumps(levels[0]))
            is_leaf = exact[0] in ("placeholder", "constant", "subgraph")
            if kind == (exact[0] if is_leaf else "output" if exact[0] == "output" else "call"):
                for holder in holders(exact, path[:-1]):
                    holder[path[-1]] = None
            return real((exact, *levels[1:]))  # type: ignore[arg-type]

        patch.setattr(forms, "_lines", lines)

    return drop


def holders(item: Value, path: tuple[object, ...]) -> Iterator[Value]:
    """The lists at a path; * stands for every item."""
    if not path:
        yield item
    elif path[0] == "*":
        for inner in item:
            yield from holders(inner, path[1:])
    elif path[0] == "kwargs":
        yield from ([] if not item[1] else item[1])
    else:
        yield from holders(item[path[0]], path[1:])


def wires(change: Callable[[bytes], bytes]) -> Drop:
    """Write the operands of every node without some part."""

    def drop(patch: pytest.MonkeyPatch) -> None:
        real = canonical._Lines.__init__

        def init(self: object, *args: object) -> None:
            real(self, *args)  # type: ignore[misc, arg-type]
            self.wires = [change(wire) for wire in self.wires]  # type: ignore[attr-defined]

        patch.setattr(canonical._Lines, "__init__", init)

    return drop


def without(mark: bytes) -> Callable[[bytes], bytes]:
    return lambda wire: b" ".join(word.partition(mark)[0] for word in wire.split(b" ")).rstrip()


FIELDS: dict[str, tuple[Pair, Drop]] = {
    "target": ((one(), one(target="torch.g")), record("call", 0)),
    "positional argument": ((one(1), one(2)), record("call", 1, 0, 1)),
    "type of a literal": ((one(1), one(True)), record("call", 1, 0, 1)),
    "sign of zero": ((one({"float": "0.0"}), one({"float": "-0.0"})), record("call", 1, 0, 1)),
    "keyword value": ((one(a=1), one(a=2)), record("call", 1, "kwargs", 1)),
    "keyword name": ((one(a=1), one(b=1)), record("call", 1, "kwargs", 0)),
    "dtype of a result": ((one(), one(of=replace(SPEC, dtype="float16"))), record("call", 2, "*", 0)),
    "shape of a result": ((one(), one(of=spec(9, 8))), record("call", 2, "*", 1)),
    "device of a result": ((one(), one(of=replace(SPEC, device="cuda"))), record("call", 2, "*", 2)),
    "role": ((one(), one(role="parameter")), record("placeholder", 1)),
    "dtype of an input": ((one(), one(given=replace(SPEC, dtype="float16"))), record("placeholder", 2, "*", 0)),
    "shape of an input": ((one(), one(given=spec(9, 8))), record("placeholder", 2, "*", 1)),
    "device of an input": ((one(), one(given=replace(SPEC, device="cuda"))), record("placeholder", 2, "*", 2)),
    "stride of an input": ((one(), one(given=replace(SPEC, stride=(1, 4)))), record("placeholder", 3)),
    "dtype of a constant": ((constant(), constant(dtype="int32")), record("constant", 1)),
    "shape of a constant": ((constant(), constant(shape=(2, 1))), record("constant", 2)),
    "data of a constant": ((constant(), constant(data="AAAAQAAAgD8=")), record("constant", 3)),
    "nested graph": ((nested(one()), nested(one(target="torch.g"))), record("subgraph", 1)),
    "structure of the output": ((returned({"in": 0}), returned({"tuple": [{"in": 0}]})), record("output", 1)),
    "operands": ((wired(True), wired(False)), wires(lambda wire: b"")),
    "version that is read": ((read_around_a_write(True), read_around_a_write(False)), wires(without(b"@"))),
    "place of an effect": ((two_writes(0), two_writes(1)), wires(without(b"e"))),
    "scope of a call": ((in_scope(True), in_scope(False)), wires(without(b"s"))),
}


def fresh(graph: Graph) -> bytes:
    """Canonical bytes, nothing remembered."""
    forms._cached.cache_clear()
    canonical.nested_form.cache_clear()
    return canonicalize(graph).blob


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_of_the_form_is_needed(field: str, monkeypatch: pytest.MonkeyPatch):
    (left, right), drop = FIELDS[field]
    assert fresh(left) != fresh(right)
    drop(monkeypatch)
    dropped = fresh(left) == fresh(right)
    monkeypatch.undo()
    forms._cached.cache_clear()
    canonical.nested_form.cache_clear()
    assert dropped, "the pair differs in more than this field, so it says nothing about it"


def sizes_of(a: int, b: int) -> Graph:
    d = Draft()
    return d.graph(d.call("torch.f", d.input(spec(a)), d.input(spec(b))))


def test_equality_classes_of_sizes_are_needed_where_sizes_are_open(monkeypatch: pytest.MonkeyPatch):
    def key(graph: Graph) -> str:
        return canonicalize(graph).keys.shape_free

    assert key(sizes_of(3, 5)) == key(sizes_of(7, 2)) != key(sizes_of(4, 4))
    monkeypatch.setattr(canonical._Lines, "sized_wires", property(lambda self: self.wires))
    assert key(sizes_of(3, 5)) == key(sizes_of(4, 4))


def test_the_table_names_all_fields_of_a_node():
    """What a node holds and the form does not: names, initialisers and strides of results."""
    assert set(Node.__dataclass_fields__) == {"op", "name", "target", "inputs", "attrs", "outputs"}
