"""The parts of benchmarks.extract_speed that projections and the choice of the largest model rest on."""

import statistics
from types import SimpleNamespace

import pytest

from benchmarks.extract_speed import DISCOUNT, children_cpu, estimated_parameters, simulate

pytestmark = pytest.mark.plain


def test_the_simulated_listing_repeats_configurations_and_is_set_by_its_seed():
    assert simulate(10_000, 3) == simulate(10_000, 3)
    assert simulate(10_000, 3) < simulate(20_000, 3) < 2 * simulate(10_000, 3)


def test_the_published_share_of_distinct_graphs_is_a_discount_of_three_fifths_and_ours_is_harsher():
    published = statistics.median(simulate(85_000, seed, 0.6) for seed in range(5))
    assert 1_000 < published < 2_500, "85,000 graphs with 1,500 distinct ones"
    assert simulate(85_000, 0, DISCOUNT) > 4 * published


def test_parameters_are_ranked_by_layers_and_experts():
    mixtral = SimpleNamespace(hidden_size=4096, num_hidden_layers=32, intermediate_size=14336, num_local_experts=8,
                              vocab_size=32000)  # fmt: skip
    dense = SimpleNamespace(hidden_size=4096, num_hidden_layers=32, intermediate_size=14336, vocab_size=32000)
    assert estimated_parameters(mixtral) == pytest.approx(46.7e9, rel=0.03)
    assert estimated_parameters(SimpleNamespace(text_config=mixtral)) == estimated_parameters(mixtral)
    assert estimated_parameters(dense) == pytest.approx(7.9e9, rel=0.05)


def test_processor_seconds_of_descendants_never_fall():
    assert 0 <= children_cpu() <= children_cpu() + 1e-9
