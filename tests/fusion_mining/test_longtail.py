"""The long tail: rare, slow, both; hand-computed tests and intervals."""

import math
from dataclasses import replace

import pytest

from fusion_mining.longtail import LongTailConfig, Share, classify, sign_test, slow_share, step_up
from schemas.graph import OUTPUT, PLACEHOLDER, Graph, Node, TensorSpec
from schemas.rows import LongTail, Profile, ProfileStatus, Skipped, Subgraph, TimingVerdict

pytestmark = pytest.mark.plain
SPEC = TensorSpec(dtype="float32", shape=(8,), stride=(1,), device="cpu")


def chain(*ops):
    nodes = [Node(op=PLACEHOLDER, name="x", target="input", inputs=(), attrs="{}", outputs=(SPEC,))]
    for op in ops:
        attrs = '{"args":[{"in":0}],"kwargs":{}}'
        nodes.append(Node(op="call_function", name=op, target=f"torch.{op}", inputs=(len(nodes) - 1,), attrs=attrs,
                          outputs=(SPEC,)))  # fmt: skip
    attrs = '{"args":[{"tuple":[{"in":0}]}],"kwargs":{}}'
    nodes.append(Node(op=OUTPUT, name="output", target="", inputs=(len(nodes) - 1,), attrs=attrs, outputs=()))
    return Graph(nodes=tuple(nodes), inits=('{"kind":"normal","mean":0.0,"std":1.0}',), subgraphs=())


def piece(key, *ops, found=1):
    return Subgraph(
        key=key, shape_free="", dtype_free="", structure="", topology="", kind="fusible", rule="grown",
        pattern=" > ".join(ops), num_ops=len(ops), num_compute_ops=len(ops), document_frequency=found,
        occurrences=found, families=("bert",), modalities=("text-encoder",), licenses=(), graph=chain(*ops),
    )  # fmt: skip


def profile(key, ratio, *, spread=0.01, pairs=10, status=ProfileStatus.MEASURED, recompiles=0):
    eager = (100.0,) * pairs
    inductor = tuple(100.0 * ratio * (1 + spread * (k % 3 - 1)) for k in range(pairs))
    return Profile(
        subgraph=key, environment="e", settings="{}", status=status, verdict=TimingVerdict.AMBIGUOUS, eager_us=100.0,
        inductor_us=100.0 * ratio, speedup=1 / ratio, ci_low=1 / (ratio * (1 + spread)),
        ci_high=1 / (ratio * (1 - spread)), pairs=pairs, recompiles=recompiles, compile_s=1.0, eager_samples_us=eager,
        inductor_samples_us=inductor,
    )  # fmt: skip


PIECES = [
    piece("a", "exp", "sin", found=3),
    piece("b", "exp", "sin", "cos", found=40),
    piece("c", "exp", "sin", "tan", found=90),
]
CLASSES = [None] * 100


def rows_of(profiles, **config):
    found = list(classify(profiles=profiles, subgraphs=PIECES, classes=CLASSES, config=LongTailConfig(**config)))
    return {row.subgraph: row for row in found if isinstance(row, LongTail)}, [
        r for r in found if isinstance(r, Skipped)
    ]


def test_slow_needs_the_whole_interval_beyond_three_percent():
    rows, _ = rows_of([profile("a", 1.2), profile("b", 1.035), profile("c", 0.5)])
    assert {key: row.slow for key, row in rows.items()} == {"a": True, "b": False, "c": False}
    assert slow_share(rows.values()) == Share(slow=1, of=3)


def test_rarity_is_the_rarest_transition_or_few_classes():
    rows, _ = rows_of([profile("a", 1.2), profile("b", 1.2)], rare_share=0.05, rare_bits=1.5)
    assert rows["a"].rarity_bits == 0.0, "exp > sin is in all three pieces"
    assert rows["b"].rarity_bits == pytest.approx(math.log2(3)), "sin > cos is in one of three"
    assert rows["a"].rare, "in 3 of 100 classes"
    assert rows["b"].rare, "1.58 bits"
    common, _ = rows_of([profile("b", 1.2)], rare_share=0.05, rare_bits=2.0)
    assert not common["b"].rare and not common["b"].long_tail


def test_the_score_multiplies_bits_doublings_and_reach():
    rows, _ = rows_of([profile("b", 2.0), profile("c", 0.9)])
    assert rows["b"].score == pytest.approx(math.log2(3) * 1.0 * math.log2(41))
    assert rows["c"].score == 0.0


def test_what_was_not_timed_is_skipped_with_its_reason():
    wrong = replace(profile("a", 1.2), status=ProfileStatus.WRONG_VALUE, speedup=0.0)
    rows, skipped = rows_of([wrong, profile("b", 1.2, recompiles=1), profile("c", 1.2)])
    assert list(rows) == ["c"]
    assert [(row.item, row.reason) for row in skipped] == [
        ("a", "compiled values are wrong"), ("b", "recompiled while timed"),
    ]  # fmt: skip


def test_the_sign_test_counts_pairs_exactly():
    assert sign_test([104.0] * 3 + [100.0], [100.0] * 4) == pytest.approx((4 + 1) / 16)
    assert sign_test([100.0] * 4, [100.0] * 4) == 1.0


def test_the_step_up_procedure_by_hand():
    assert step_up([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.16 / 3, 0.16 / 3, 0.5])
    assert step_up([]) == []


def test_wilsons_interval_by_hand():
    low, high = Share(slow=10, of=100).interval
    assert (low, high) == pytest.approx((0.05523, 0.17437), abs=1e-5)
    assert Share(slow=0, of=0).interval == (0.0, 1.0)
