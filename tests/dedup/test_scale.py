"""The benchmarks of identity in small: planted classes are found, an interrupted run continues, figures have keys."""

from pathlib import Path

import pytest

from benchmarks import identity
from benchmarks.golden import stored_graphs
from benchmarks.identity_scale import base_of, classes_in, make_shard, plan, variant_of
from schemas.canonical import canonicalize
from schemas.graph import check

pytestmark = pytest.mark.plain


def planted(chosen: list[tuple[int, int]]) -> list[list[str]]:
    found: dict[int, list[str]] = {}
    for number, member in chosen:
        found.setdefault(number, []).append(f"{number}/{member}")
    return sorted(sorted(names) for names in found.values())


def test_classes_are_found_as_planted_in_any_order_and_after_an_interruption(tmp_path: Path):
    chosen = list(plan(18))
    jobs = [(k, chosen[9 * k : 9 * k + 9], str(tmp_path)) for k in range(2)]
    first = [make_shard(job) for job in jobs]
    indices = [tmp_path / f"shard-{k:05d}.json" for k in range(2)]
    found = classes_in(indices)
    assert sorted(sorted(names) for names in found) == planted(chosen)
    indices[1].unlink()
    before = indices[0].stat().st_mtime_ns
    assert [make_shard(job)["nodes"] for job in jobs] == [item["nodes"] for item in first]
    assert indices[0].stat().st_mtime_ns == before, "a whole shard is kept"
    assert classes_in(indices[::-1]) == found


def test_neighbours_are_near_misses_and_variants_are_legal():
    keys = []
    for number in (0, 1, 2):
        base = base_of(number)
        variant = variant_of(base, number)
        check(variant)
        assert [node.name for node in variant.nodes] != [node.name for node in base.nodes]
        assert canonicalize(variant).blob == canonicalize(base).blob
        keys.append(canonicalize(base).key)
    assert len(set(keys)) == 3


def test_the_speed_benchmark_prints_its_keys(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(identity, "SIZES", (100, 200, 300))
    monkeypatch.setattr(identity, "ROUNDS", 1)
    graphs = [graph for label, graph in stored_graphs() if label in ("timm/vgg11", "bert-4-layers")]
    found = identity.measure(graphs, 300)
    for key in ("nodes_per_s_exact", "ratio_vs_wl", "levels_cost_ratio", "linear_fit_r2"):
        assert found[key] > 0
