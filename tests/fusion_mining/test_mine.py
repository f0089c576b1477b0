"""Classes of ops, in-place calls made functional, cutting, and the stages `mine`, `collect` and `pick`; no torch."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from fusion_mining.blocks import blocks as repeated
from fusion_mining.cut import cut
from fusion_mining.estimate import saving_us
from fusion_mining.grow import GrowConfig, grow
from fusion_mining.mine import MineConfig, mine
from fusion_mining.op_classes import CLASSES, LEGALITY, classes_of
from fusion_mining.pieces import PickConfig, PiecesConfig, collect, io_bytes, pick
from fusion_mining.regions import regions
from fusion_mining.sole import sole_ops
from fusion_mining.targets import TARGETS
from schemas.canonical import canonicalize
from schemas.functional import functionalise
from schemas.graph import Graph, check
from schemas.rows import CanonicalGraph, Member, Occurrence, Pick, Skipped, Subgraph
from tests.fusion_mining.test_grow import mixed_graphs
from tests.schemas.drafts import Draft, Ref, spec

pytestmark = pytest.mark.plain
CONFIG = MineConfig(grow=GrowConfig())


def class_row(graph: Graph, name: str = "bert") -> CanonicalGraph:
    form = canonicalize(graph)
    keys = form.keys
    return CanonicalGraph(
        key=keys.exact, shape_free=keys.shape_free, dtype_free=keys.dtype_free, structure=keys.structure,
        topology=keys.topology, body="", inference="", members=1, architectures=1, representative=name,
        name=name, family=name, modality=f"m-{name}",
        license="", num_nodes=len(form.graph.nodes), num_ops=form.graph.num_ops, graph=form.graph,
    )  # fmt: skip


def blocks(count: int) -> Graph:
    """`count` times linear, add, gelu: a repeated block."""
    d = Draft()
    value = d.input()
    for _ in range(count):
        w = d.input(spec(8, 8), "parameter")
        linear = d.call("torch.nn.functional.linear", value, w)
        value = d.call("torch.nn.functional.gelu", d.call("torch.add", linear, value))
    return d.graph(value)


# --- classes --------------------------------------------------------------------------------------------------------
def test_every_class_has_a_legality_and_every_op_one_class():
    assert set(CLASSES) <= set(LEGALITY)
    names = [name for listed in CLASSES.values() for name in listed.split()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("target", "args", "expected"),
    [
        ("operator.add", (Ref(0), Ref(0)), "pointwise"),
        ("torch.nn.functional.softmax", (Ref(0), -1), "reduction"),
        ("torch.nn.functional.dropout", (Ref(0), {"float": "0.1"}, False, False), "free"),
        ("torch.nn.functional.dropout", (Ref(0), {"float": "0.1"}, True, False), "random"),
        ("operator.iadd", (Ref(0), Ref(0)), "effect"),
        ("operator.getitem", (Ref(0), {"tuple": [0, {"slice": [None, 3, None]}]}), "view"),
        ("operator.getitem", (Ref(0), [0, 1]), "gather"),
        ("operator.getitem", (Ref(0), Ref(0)), "gather"),
        ("torch.ops.aten.mul.Tensor", (Ref(0), Ref(0)), "pointwise"),
        ("torch.ops.mylib.mul.default", (Ref(0), Ref(0)), "effect"),
        ("torch.unheard_of", (Ref(0),), "opaque"),
    ],
)
def test_classes(target: str, args: tuple[object, ...], expected: str):
    d = Draft()
    d.input()
    graph = d.graph(d.call(target, *args))
    assert classes_of(graph)[1] == expected


def test_calls_inside_autocast_are_opaque_and_after_it_are_not():
    d = Draft()
    x = d.input()
    scope = d.call("torch.amp.autocast_mode._enter_autocast", "cpu", None, True, None, of=None)
    y = d.call("torch.exp", x)
    d.call("torch.amp.autocast_mode._exit_autocast", scope, of=None)
    assert classes_of(d.graph(d.call("torch.exp", y)))[2:5] == ["opaque", "effect", "pointwise"]


# --- in place -------------------------------------------------------------------------------------------------------
def conv_relu_add(read_after: bool) -> Graph:
    d = Draft()
    x = d.input()
    conv = d.call("torch.conv2d", x)
    relu = d.call("torch.nn.functional.relu", conv, inplace=True)
    total = d.call("operator.iadd", d.call("torch.conv2d", relu), relu)
    return d.graph(total, d.call("torch.exp", conv)) if read_after else d.graph(total)


def test_unobservable_writes_become_functional():
    graph = functionalise(conv_relu_add(False))
    assert [node.target.rpartition(".")[2] for _, node in graph.calls()] == ["conv2d", "relu", "conv2d", "add"]
    assert canonicalize(graph).graph.num_ops == 4
    assert not any("inplace" in node.attrs for node in graph.nodes)
    assert "effect" not in classes_of(graph)


def test_a_write_that_is_read_later_or_is_the_callers_stays():
    kept = functionalise(conv_relu_add(True))
    assert '"inplace":true' in kept.nodes[2].attrs
    assert classes_of(kept)[2] == "effect"
    d = Draft()
    x = d.input()
    graph = d.graph(d.method("add_", x, 1))
    assert functionalise(graph).nodes == graph.nodes


def test_what_touches_written_storage_is_no_piece():
    d = Draft()
    x, y = d.input(), d.input()
    view = d.method("view", x, 4, 8)
    d.method("add_", x, 1)
    a = d.call("torch.exp", d.call("torch.relu", view))
    b = d.call("torch.exp", d.call("torch.relu", y))
    graph = d.graph(a, b)
    assert grow(graph, GrowConfig()).sets == ((int(b) - 1, int(b)),)


# --- cutting --------------------------------------------------------------------------------------------------------
def test_a_cut_keeps_roles_initialisers_and_the_true_outputs():
    d = Draft()
    x, w = d.input(), d.input(spec(8), "parameter")
    mask = d.call("torch.gt", x, 0, of=spec(4, 8, dtype="bool"))
    linear = d.call("torch.matmul", x, x)
    a = d.call("torch.mul", linear, w)
    b = d.call("torch.where", mask, a, linear)
    graph = d.graph(d.call("torch.matmul", a, b))
    piece = cut(graph, (int(a), int(b)))
    check(piece)
    assert [(n.target, piece.inits[k]) for k, n in enumerate(piece.nodes[:3])] == [
        ("input", '{"kind":"normal","mean":0.0,"std":1.0}'),
        ("parameter", graph.inits[1]),
        ("input", '{"kind":"bool","p":0.5}'),
    ]
    assert piece.nodes[-1].attrs == '{"args":[{"tuple":[{"in":0},{"in":1}]}],"kwargs":{}}'
    assert piece.nodes[-1].inputs == (3, 4)


def test_a_cut_refuses_tuples_at_its_edge_and_dead_ends():
    d = Draft()
    pair = d.call("torch.chunk", d.input(), 2, of=None)
    left = d.call("operator.getitem", pair, 0)
    graph = d.graph(left)
    with pytest.raises(ValueError, match="one tensor"):
        cut(graph, (int(left),))
    e = Draft()
    dead = e.call("torch.exp", e.input())
    with pytest.raises(ValueError, match="yields something"):
        cut(e.graph(Ref(0)), (int(dead),))


@given(mixed_graphs())
@settings(max_examples=60, deadline=None)
def test_every_piece_cuts_into_a_legal_graph(graph: Graph):
    for nodes in grow(graph, GrowConfig()).sets:
        piece = cut(graph, nodes)
        check(piece)
        assert piece.num_ops == len(nodes)


# --- stages ---------------------------------------------------------------------------------------------------------
def test_repeated_blocks_are_one_occurrence_with_a_count():
    rows = [row for row in mine(class_row(blocks(5)), CONFIG) if isinstance(row, Occurrence)]
    assert sorted((row.kind, row.rule, len(row.nodes), row.repeats) for row in rows) == [
        ("fusible", "maximal", 2, 5),
        ("sole_op", "single", 1, 5),
        ("sole_op", "single", 1, 5),
        ("sole_op", "single", 1, 5),
        ("typical", "repeated", 3, 5),
    ]


def test_a_piece_found_as_two_kinds_is_of_the_first():
    graph = chain(*("torch.exp", "torch.relu", "torch.sin") * 2)
    rows = [row for row in mine(class_row(graph), CONFIG) if isinstance(row, Occurrence)]
    (row,) = [row for row in rows if row.repeats == 2 and len(row.nodes) == 3]
    assert row.kind == "fusible"
    assert not any(row.kind == "typical" for row in rows)


@given(mixed_graphs())
@settings(max_examples=40, deadline=None)
def test_occurrences_count_every_place_and_keys_hold(graph: Graph):
    row = class_row(graph)
    found = list(mine(row, CONFIG))
    places = [item for item in found if isinstance(item, Occurrence)]
    fusible = {*grow(row.graph, CONFIG.grow).sets, *regions(row.graph, CONFIG.grow)}
    sets = {*fusible, *(nodes for block in repeated(row.graph, CONFIG.blocks) for nodes in block), *sole_ops(row.graph)}
    assert len(fusible) <= sum(item.repeats for item in places) <= len(sets)
    assert {item.nodes for item in places} <= sets
    assert len({item.subgraph for item in places}) == len(places)
    for item in places:
        form = canonicalize(cut(row.graph, item.nodes), free_outputs=True)
        assert form.keys.exact == item.subgraph
    assert (Skipped(item=row.key, reason="no fusible piece") in found) == (not fusible)


def members_of(row: CanonicalGraph, *names: str) -> list[Member]:
    return [
        Member(graph_id=f"{row.key}{name}", key=row.key, architecture=name, family=name, modality=f"m-{name}",
               license=f"l-{name}")
        for name in names
    ]  # fmt: skip


def all_subgraphs_of(*graphs: Graph) -> list[Subgraph]:
    rows = [class_row(graph, f"family{k}") for k, graph in enumerate(graphs)]
    found = [item for row in rows for item in mine(row, CONFIG) if isinstance(item, Occurrence)]
    members = [member for row in rows for member in members_of(row, row.name, f"{row.name}b")]
    return list(collect(occurrences=found, classes=rows, members=members, config=PiecesConfig()))


def subgraphs_of(*graphs: Graph) -> list[Subgraph]:
    return [row for row in all_subgraphs_of(*graphs) if row.kind == "fusible"]


def test_collect_counts_graphs_places_families():
    (row,) = subgraphs_of(blocks(2), blocks(3))
    assert (row.document_frequency, row.occurrences) == (2, 5)
    names = ("family0", "family0b", "family1", "family1b")  # of all members, not of representatives alone
    assert row.families == names
    assert row.modalities == tuple(f"m-{name}" for name in names)
    assert row.licenses == tuple(f"l-{name}" for name in names)
    assert (row.pattern, row.rule, row.num_ops) == ("add > gelu", "maximal", 2)
    assert canonicalize(row.graph, free_outputs=True).keys.exact == row.key


def test_collect_refuses_a_piece_that_is_not_what_was_mined():
    parent = class_row(blocks(2))
    row = next(item for item in mine(parent, CONFIG) if isinstance(item, Occurrence))
    wrong = replace(row, subgraph="0" * 32)
    with pytest.raises(RuntimeError, match="mine again"):
        list(collect(occurrences=[wrong], classes=[parent], members=[], config=PiecesConfig()))


def test_kinds_agree_over_graphs():
    """A block of one graph that is a fusible piece of another is one row, of kind fusible."""
    unit = ("torch.exp", "torch.relu", "torch.sin")
    once, twice = class_row(chain(*unit), "a"), class_row(chain(*unit * 2), "b")
    found = [item for row in (once, twice) for item in mine(row, CONFIG) if isinstance(item, Occurrence)]
    key = canonicalize(chain(*unit), free_outputs=True).keys.exact
    split = [replace(r, kind="typical", rule="repeated") if r.parent == twice.key else r for r in found]
    (row,) = [
        row for row in collect(occurrences=split, classes=[once, twice], members=[], config=PiecesConfig())
        if row.key == key
    ]  # fmt: skip
    assert (row.kind, row.document_frequency, row.occurrences) == ("fusible", 2, 3)


def chain(*targets: str, width: int = 8) -> Graph:
    d = Draft()
    value = d.input(spec(4, width))
    for target in targets:
        value = d.call(target, value, of=spec(4, width))
    return d.graph(value)


def test_pick_is_deterministic_spreads_and_accounts_for_every_piece():
    long, wide = chain("torch.exp", "torch.relu", "torch.sigmoid"), chain("torch.exp", "torch.relu", width=16)
    rows = subgraphs_of(long, wide, chain("torch.tanh", "torch.sin"))
    config = PickConfig(limit=3)
    found = list(pick(subgraphs=rows, config=config))
    assert found == list(pick(subgraphs=rows[::-1], config=config))
    picks = [item for item in found if isinstance(item, Pick)]
    assert [item.rank for item in picks] == [0, 1, 2]
    assert picks[0].pattern == "exp > relu > sigmoid"
    assert picks[1].pattern == "tanh > sin"
    topologies = {row.key: row.topology for row in rows}
    assert len({topologies[item.subgraph] for item in picks}) == 3
    skipped = [item for item in found if isinstance(item, Skipped)]
    assert {item.subgraph for item in picks} | {item.item for item in skipped} == {row.key for row in rows}


def test_what_one_kernel_would_save_most_on_comes_first():
    rows = subgraphs_of(
        chain("torch.exp", "torch.relu", "torch.sigmoid"), chain("torch.tanh", "torch.sin", width=1 << 22)
    )
    picks = [item for item in pick(subgraphs=rows, config=PickConfig()) if isinstance(item, Pick)]
    assert [item.pattern for item in picks[:2]] == ["tanh > sin", "exp > relu > sigmoid"]
    assert {item.pattern for item in picks[2:]} == {"exp > relu", "relu > sigmoid"}  # they save the same
    savings = [saving_us(item.graph, TARGETS["H200"]) for item in picks]
    assert savings == sorted(savings, reverse=True)
    # two kernels that each read and write 64 MiB, and one that does so once, at 0.8 of 4800 GB/s
    assert savings[0] == pytest.approx(2 * 4 * (4 << 22) / (0.8 * 4800e3))
    with pytest.raises(ValueError, match="no target is called 'B1'"):
        PickConfig(target="B1")


def test_only_fusible_pieces_are_picked():
    rows = all_subgraphs_of(blocks(3))
    found = list(pick(subgraphs=rows, config=PickConfig()))
    kinds = {row.key: row.kind for row in rows}
    assert sorted(kinds.values()) == ["fusible", "sole_op", "sole_op", "sole_op", "typical"]
    assert [kinds[item.subgraph] for item in found if isinstance(item, Pick)] == ["fusible"]
    assert {item.reason for item in found if isinstance(item, Skipped)} == {"not a fusible piece"}


def test_pieces_too_large_for_memory_are_not_picked():
    rows = subgraphs_of(chain("torch.exp", "torch.relu"))
    assert io_bytes(rows[0].graph) == 2 * 4 * 8 * 4
    (found,) = pick(subgraphs=rows, config=PickConfig(max_bytes=255))
    assert found == Skipped(item=rows[0].key, reason="inputs and outputs are too large")
