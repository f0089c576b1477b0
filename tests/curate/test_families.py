"""Families: variants, order, budget, split and conservation."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from curate.families import FamiliesConfig, propose, retype
from schemas.canonical import canonicalize
from schemas.propagation import propagate
from schemas.rows import Skipped, TaskCandidate
from tests.curate.pieces import add_gelu, graph_of, mul_add_relu, pair, piece, scaled_softmax

pytestmark = pytest.mark.torch

GELU = piece(graph_of(add_gelu, *pair(4, 8)), documents=5)
GELU_WIDE = piece(graph_of(add_gelu, *pair(2, 64)), documents=3, family="gpt2")
RELU = piece(graph_of(mul_add_relu, *pair(4, 8)), documents=2)
SOFTMAX = piece(graph_of(scaled_softmax, torch.zeros(2, 16)), documents=9)
ALL = [GELU, GELU_WIDE, RELU, SOFTMAX]


def split_rows(rows):
    found = list(rows)
    candidates = [row for row in found if isinstance(row, TaskCandidate)]
    skipped = [row for row in found if isinstance(row, Skipped)]
    assert len(candidates) + len(skipped) == len(found)
    return candidates, skipped


def test_one_shape_in_three_dtypes_makes_three_variants():
    ((candidate,), skipped) = split_rows(propose(subgraphs=[SOFTMAX], config=FamiliesConfig(other_sizes=False)))
    assert [(v.index, v.dtype, v.shapes) for v in candidate.variants] == [
        (0, "float32", "2x16"),
        (1, "float16", "2x16"),
        (2, "bfloat16", "2x16"),
    ]
    assert not skipped
    assert candidate.variants[0].subgraph == SOFTMAX.key
    assert {v.origin for v in candidate.variants} == {SOFTMAX.key}


def test_members_at_other_shapes_join_the_family_and_its_provenance():
    config = FamiliesConfig(other_sizes=False)
    candidates, _ = split_rows(propose(subgraphs=[GELU, GELU_WIDE], config=config))
    (candidate,) = candidates
    assert [v.shapes for v in candidate.variants] == ["4x8, 4x8"] * 3 + ["2x64, 2x64"] * 3
    assert candidate.families == ("bert", "gpt2")
    assert len({v.subgraph for v in candidate.variants}) == 6


def test_other_sizes_fill_up_the_variants_and_keep_family_and_origin():
    ((candidate,), _) = split_rows(propose(subgraphs=[SOFTMAX], config=FamiliesConfig(variants=10)))
    assert [v.shapes for v in candidate.variants] == ["2x16"] * 3 + ["2x32"] * 3 + ["2x8"] * 3 + ["2x64"]
    assert {v.origin for v in candidate.variants} == {SOFTMAX.key}
    keys = [canonicalize(v.graph, free_outputs=True).keys for v in candidate.variants]
    assert {key.structure for key in keys} == {SOFTMAX.structure} and len({key.exact for key in keys}) == 10


def test_other_sizes_stay_within_the_memory_of_a_piece():
    large = piece(graph_of(scaled_softmax, torch.zeros(1, 2**21)))
    ((candidate,), _) = split_rows(
        propose(subgraphs=[large], config=FamiliesConfig(max_mib=32, dtypes=("float32",), min_variants=1))
    )
    assert [v.shapes for v in candidate.variants] == ["1x2097152", "1x1048576"], "4 x 2097152 is beyond 32 MiB"


def test_every_variant_states_the_specs_that_its_ops_give():
    candidates, _ = split_rows(propose(subgraphs=ALL, config=FamiliesConfig()))
    for variant in [v for c in candidates for v in c.variants]:
        recorded = [node.outputs for node in variant.graph.nodes]
        assert [tuple(found) for found in propagate(variant.graph)] == recorded


def test_the_variants_of_a_candidate_are_bounded_and_the_rest_accounted_for():
    candidates, skipped = split_rows(propose(subgraphs=[GELU, GELU_WIDE], config=FamiliesConfig(variants=3)))
    assert len(candidates[0].variants) == 3
    assert [(row.item, row.reason) for row in skipped] == [(GELU_WIDE.key, "beyond the 3 variants of its family")]


@settings(max_examples=15, deadline=None)
@given(order=st.permutations(ALL), limit=st.integers(1, 4), seed=st.integers(0, 3))
def test_the_result_does_not_depend_on_the_order_of_the_rows(order, limit, seed):
    config = FamiliesConfig(task_limit=limit, seed=seed, variants=3)
    candidates, skipped = split_rows(propose(subgraphs=order, config=config))
    expected, expected_skipped = split_rows(propose(subgraphs=ALL, config=config))
    assert candidates == expected
    assert Counter((s.item, s.reason) for s in skipped) == Counter((s.item, s.reason) for s in expected_skipped)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_every_piece_is_a_variant_origin_or_skipped_exactly_once(limit):
    candidates, skipped = split_rows(propose(subgraphs=ALL, config=FamiliesConfig(task_limit=limit)))
    used = {v.origin for c in candidates for v in c.variants}
    assert len(candidates) == limit
    assert sorted(used | {row.item for row in skipped}) == sorted(p.key for p in ALL)
    assert len(skipped) == len(ALL) - len(used)


def test_among_equally_widespread_families_the_first_pick_covers_most_transitions():
    alike = [replace(item, families=("bert",)) for item in ALL]
    candidates, skipped = split_rows(propose(subgraphs=alike, config=FamiliesConfig(task_limit=1)))
    assert candidates[0].title == RELU.pattern, "mul > add > relu has two transitions, the others one"
    assert {row.reason for row in skipped} == {"over the budget of 1 tasks"}


def test_a_widespread_family_goes_before_a_longer_rare_one():
    spread = [replace(item, families=("bert",) if item is RELU else ("bert", "gpt2", "vit")) for item in ALL]
    candidates, _ = split_rows(propose(subgraphs=spread, config=FamiliesConfig(task_limit=1)))
    assert candidates[0].title != RELU.pattern


def test_small_and_large_pieces_are_left_out_with_a_reason():
    big = piece(graph_of(add_gelu, *pair(1024, 8192)))
    single = piece(graph_of(lambda x: torch.relu(x), torch.zeros(3)))
    candidates, skipped = split_rows(propose(subgraphs=[big, single], config=FamiliesConfig()))
    assert not candidates
    assert [row.reason for row in skipped] == ["larger than 64 MiB", "fewer than 2 compute ops"]


def test_only_fusible_pieces_make_tasks():
    others = [replace(RELU, kind="typical"), replace(SOFTMAX, kind="sole_op")]
    candidates, skipped = split_rows(propose(subgraphs=[GELU, *others], config=FamiliesConfig()))
    assert [row.title for row in candidates] == [GELU.pattern]
    assert skipped == [Skipped(item=row.key, reason="not a fusible piece") for row in others]


def test_a_family_whose_ops_refuse_other_dtypes_is_left_out():
    double = piece(graph_of(add_gelu, torch.zeros(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)))
    candidates, skipped = split_rows(propose(subgraphs=[double], config=FamiliesConfig()))
    assert not candidates and [row.reason for row in skipped] == ["fewer than 3 variants"]


def test_integer_inputs_keep_their_dtype():
    def embed(ids, table):
        return torch.nn.functional.embedding(ids, table) * 2.0

    graph = graph_of(embed, torch.zeros(2, 3, dtype=torch.int64), torch.zeros(10, 4))
    half = retype(graph, "float16")
    assert half is not None
    assert [half.nodes[i].outputs[0].dtype for i in half.placeholders] == ["int64", "float16"]


def test_pieces_of_several_floating_dtypes_are_not_retyped():
    def mixed(x, y):
        return x.to(torch.float32) + y

    graph = graph_of(mixed, torch.zeros(3, dtype=torch.float16), torch.zeros(3))
    assert retype(graph, "bfloat16") is None


def exact_gelu(x):
    return torch.nn.functional.gelu(x, approximate="none") + 1.0


def fast_gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh") + 1.0


OPS = ("relu", "sigmoid", "tanh", "exp", "sin", "cos", "erf", "abs", "neg", "square")


def chain(first, second):
    one, two = getattr(torch, first), getattr(torch, second)
    return piece(graph_of(lambda x: two(one(x) * 2.0), torch.zeros(3, 4)))


def test_structures_of_one_topology_are_always_on_one_side():
    pieces = [piece(graph_of(f, torch.zeros(3, 4))) for f in (exact_gelu, fast_gelu)]
    assert len({p.structure for p in pieces}) == 2 and len({p.topology for p in pieces}) == 1
    for seed in range(8):
        config = FamiliesConfig(seed=seed, max_likeness=1.1, test_percent=50)
        candidates, _ = split_rows(propose(subgraphs=pieces, config=config))
        assert [c.split for c in candidates] == ["train", "train"], "the two fill more than half"


def test_the_test_split_is_filled_up_to_its_share_and_depends_on_the_seed():
    pieces = [chain(a, b) for a, b in zip(OPS, OPS[1:] + OPS[:1], strict=True)]
    found = set()
    for seed in range(4):
        candidates, _ = split_rows(propose(subgraphs=pieces, config=FamiliesConfig(seed=seed)))
        sides = {c.structure: c.split for c in candidates}
        assert len(sides) == 10 and list(sides.values()).count("test") == 2
        found.add(tuple(sorted(s for s, side in sides.items() if side == "test")))
    assert len(found) > 1


def test_a_piece_of_another_tasks_piece_is_on_its_side():
    def short(x):
        return torch.relu(x + 1.0)

    def long(x):
        return torch.tanh(torch.relu(x + 1.0) * 2.0) - 3.0

    pieces = [piece(graph_of(f, torch.zeros(3, 4))) for f in (short, long)]
    others = [chain(a, b) for a, b in zip(OPS[3::2], OPS[4::2], strict=False)]
    for seed in range(8):
        config = FamiliesConfig(seed=seed, max_likeness=1.1, test_percent=50)
        candidates, _ = split_rows(propose(subgraphs=[*pieces, *others], config=config))
        sides = {c.structure: c.split for c in candidates}
        assert sides[pieces[0].structure] == sides[pieces[1].structure]


def test_a_family_too_like_an_earlier_pick_is_passed_over():
    pieces = [piece(graph_of(f, torch.zeros(3, 4))) for f in (exact_gelu, fast_gelu)]
    candidates, skipped = split_rows(propose(subgraphs=pieces, config=FamiliesConfig()))
    assert len(candidates) == 1 and [row.reason for row in skipped] == ["like an earlier task"]
