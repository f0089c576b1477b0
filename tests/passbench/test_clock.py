"""The clock's statistics on synthetic samples and its verdicts on planted sleeps; never absolute times."""

import math
import time

import numpy as np
import pytest

from passbench.clock import MIN_PAIRS, Plan, estimate, summarise, time_pairs, time_windows, verdict_of
from schemas.rows import TimingVerdict

pytestmark = pytest.mark.plain


def noisy(ratio, pairs=40, noise=0.01, drift=1.0, seed=1):
    rng = np.random.default_rng(seed)
    trend = np.linspace(1, drift, pairs)
    base = 100 * trend * np.exp(rng.normal(0, noise, pairs))
    return list(base), list(100 / ratio * trend * np.exp(rng.normal(0, noise, pairs)))


@pytest.mark.parametrize(
    "low, high, expected",
    [
        (1.03, 1.5, "FASTER"),
        (0.5, 0.97, "SLOWER"),
        (0.99, 1.01, "SAME"),
        (1 / 1.02, 1.02, "SAME"),
        (0.9, 1.1, "AMBIGUOUS"),
        (1.01, 1.2, "AMBIGUOUS"),
        (0.9, 0.99, "AMBIGUOUS"),
    ],
)
def test_verdict_table(low, high, expected):
    assert verdict_of(low, high) == TimingVerdict(expected)


@pytest.mark.parametrize("ratio, expected", [(1.5, "FASTER"), (0.7, "SLOWER"), (1.0, "SAME")])
def test_known_ratio_is_found_even_when_the_machine_slows_down_threefold(ratio, expected):
    found = estimate(*noisy(ratio, drift=3.0), seed=0)
    assert found.verdict == expected
    assert found.ci_low <= found.speedup <= found.ci_high
    assert math.isclose(found.speedup, ratio, rel_tol=0.02)


def test_noise_is_ambiguous_not_a_win():
    assert estimate(*noisy(1.0, pairs=8, noise=0.3), seed=0).verdict == TimingVerdict.AMBIGUOUS


def test_one_outlier_pair_changes_nothing_much():
    base, cand = noisy(1.5)
    base[3] *= 100
    assert math.isclose(estimate(base, cand, seed=0).speedup, 1.5, rel_tol=0.03)


def test_interval_covers_the_truth_about_95_times_in_100():
    hits = 0
    for seed in range(100):
        found = estimate(*noisy(1.1, pairs=20, noise=0.05, seed=seed), seed=seed)
        hits += found.ci_low <= 1.1 <= found.ci_high
    assert 85 <= hits <= 100


def test_estimate_is_a_function_of_samples_and_seed():
    samples = noisy(1.2)
    assert estimate(*samples, seed=5) == estimate(*samples, seed=5)
    swapped = estimate(samples[1], samples[0], seed=5)
    assert math.isclose(swapped.speedup * estimate(*samples, seed=5).speedup, 1.0)


@pytest.mark.parametrize("base, cand", [([1.0], [1.0, 2.0]), ([], []), ([0.0], [1.0])])
def test_bad_samples_are_refused(base, cand):
    with pytest.raises(ValueError):
        summarise(base, cand, seed=0)


def test_bad_plan_is_refused():
    with pytest.raises(ValueError, match="at least"):
        Plan(pairs=1)


def test_planted_sleep_is_found_and_windows_alternate_in_abba_order():
    order = []
    plan = Plan(pairs=6, warmup=0, inner_us=1.0, max_seconds=5)

    def side(name, seconds):
        def window(count):
            order.append(name)
            time.sleep(seconds * count)

        return window

    timing = time_windows(side("A", 0.009), side("B", 0.003), plan)
    assert timing.verdict == TimingVerdict.FASTER and timing.pairs == 6
    assert "".join(order) == "AB" + "ABBA" * 3


def test_time_limit_stops_early_but_never_below_the_least_number_of_pairs():
    slow = Plan(pairs=50, warmup=0, inner_us=1.0, max_seconds=0.001)
    assert time_pairs(lambda: time.sleep(0.001), lambda: time.sleep(0.001), slow).pairs == MIN_PAIRS


def test_short_calls_are_batched_until_a_window_is_long_enough():
    counts = []
    time_windows(counts.append, counts.append, Plan(pairs=5, inner_us=200.0))
    assert max(counts) > 100
