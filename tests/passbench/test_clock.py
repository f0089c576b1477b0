"""The clock's statistics on synthetic samples and its verdicts on planted sleeps; never absolute times."""

import math
import time

import numpy as np
import pytest

from passbench import clock
from passbench.clock import (
    MIN_PAIRS,
    Plan,
    aa_width,
    estimate,
    foreign_share,
    summarise,
    time_pairs,
    time_sessions,
    time_windows,
    verdict_of,
)
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


def test_processes_that_disagree_widen_the_interval_and_those_that_agree_do_not():
    rng = np.random.default_rng(3)
    noise = np.exp(rng.normal(0, 0.002, 12))
    offsets = np.repeat([1.0, 1.25, 0.8], 4)
    apart = estimate(100 * noise * offsets, [100.0] * 12, seed=0, blocks=(4, 4, 4))
    alike = estimate(100 * noise, [100.0] * 12, seed=0, blocks=(4, 4, 4))
    assert apart.ci_high / apart.ci_low > 1.3 and apart.verdict == TimingVerdict.AMBIGUOUS
    assert alike.ci_high / alike.ci_low < 1.01 and alike.verdict == TimingVerdict.SAME
    uneven = estimate(100 * noise, [100.0] * 12, seed=0, blocks=(5, 5, 2))
    assert uneven.ci_high / uneven.ci_low < 1.01
    with pytest.raises(ValueError, match="do not make 12 pairs"):
        estimate(100 * noise, [100.0] * 12, seed=0, blocks=(4, 4))


def test_a_gain_inside_the_noise_of_equal_windows_is_not_called_but_no_noise_makes_it_the_same():
    assert verdict_of(1.03, 1.05) == "FASTER" and verdict_of(1.03, 1.05, noise=0.04) == "AMBIGUOUS"
    assert verdict_of(0.95, 0.97) == "SLOWER" and verdict_of(0.95, 0.97, noise=0.06) == "AMBIGUOUS"
    assert verdict_of(0.97, 1.03, noise=0.5) == "AMBIGUOUS"


def test_the_width_of_equal_sides_comes_from_neighbouring_windows_of_one_side():
    steady = aa_width(np.full(8, 100.0), np.full(8, 50.0), [8], seed=0)
    jumpy = aa_width(np.array([100.0, 150.0] * 4), np.array([50.0, 80.0] * 4), [8], seed=0)
    trend = aa_width(np.full(8, 100.0), 50.0 * np.array([1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 8.0, 8.0]), [8], seed=0)
    assert steady == 0.0 and jumpy > 0.3
    assert trend == 0.0  # from pair 1 to 2 and from 3 to 4 the candidate's windows are not neighbours
    assert aa_width(np.full(2, 1.0), np.full(2, 1.0), [1, 1], seed=0) == 0.0


class Machine:
    """Sides whose calls take a set time on a clock that the test turns; sessions are counted."""

    def __init__(self, monkeypatch, ratios):
        self.now, self.sessions, self.ratios = 0, 0, ratios
        monkeypatch.setattr(clock.time, "perf_counter_ns", lambda: self.now)

    def side(self, micros):
        def window(count):
            self.now += round(1000 * micros * count)

        return window

    def source(self):
        for ratio in self.ratios:
            self.sessions += 1
            yield self.side(100 * ratio), self.side(100)


def test_the_pairs_are_spread_over_the_processes_and_a_clear_verdict_needs_one_round(monkeypatch):
    machine = Machine(monkeypatch, [2.0] * 9)
    found = time_sessions(machine.source(), Plan(pairs=12, processes=3, inner_us=1.0))
    assert (found.verdict, found.blocks, machine.sessions) == (TimingVerdict.FASTER, (4, 4, 4), 3)
    assert math.isclose(found.speedup, 2.0)


def test_an_ambiguous_round_is_repeated_whole_with_fresh_processes_and_then_stays_ambiguous(monkeypatch):
    machine = Machine(monkeypatch, [1.5, 1.0, 0.7] * 3)
    found = time_sessions(machine.source(), Plan(pairs=12, processes=3, inner_us=1.0, rounds=2))
    assert found.verdict == TimingVerdict.AMBIGUOUS
    assert machine.sessions == 6 and found.blocks == (4,) * 6 and len(found.baseline_samples_us) == 24


def test_processor_time_of_others_is_a_share_of_the_machine(monkeypatch):
    monkeypatch.setattr(clock.os, "cpu_count", lambda: 4)
    assert foreign_share(10.0, 10.0) == 0.0 and foreign_share(30.0, 10.0) == 0.5
    assert math.isnan(foreign_share(math.nan, 10.0))
