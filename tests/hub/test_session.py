"""The request budget on a clock of its own, and what headers ask for."""

from datetime import UTC, datetime

import pytest

from extract.hub_session import API, RESOLVER, Budget, TooLargeError, meter, retry_after_s

pytestmark = pytest.mark.plain


class Clock:
    """Seconds that pass only in `sleep`."""

    def __init__(self) -> None:
        self.now, self.slept = 100.0, 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds


def test_a_budget_waits_for_the_next_window_of_the_same_resource_only():
    clock = Clock()
    budget = Budget(clock=clock, sleep=clock.sleep)
    budget.take(RESOLVER)
    budget.note(RESOLVER, left=2, reset_s=30)
    for _ in range(2):
        budget.take(RESOLVER)
    budget.take(API)
    assert clock.slept == 0
    budget.take(RESOLVER)
    assert clock.slept == 30
    budget.take(RESOLVER)
    assert clock.slept == 30


def test_a_late_answer_does_not_give_requests_back():
    clock = Clock()
    budget = Budget(clock=clock, sleep=clock.sleep)
    budget.note(API, left=1, reset_s=30)
    budget.take(API)
    budget.note(API, left=9, reset_s=29)
    budget.take(API)
    assert clock.slept >= 29


def test_retry_after_is_a_number_or_a_date():
    now = datetime(2026, 11, 1, 12, 0, 0, tzinfo=UTC)
    assert retry_after_s("120", now) == 120
    assert retry_after_s("Sun, 01 Nov 2026 12:00:05 GMT", now) == 5
    assert retry_after_s("Sun, 01 Nov 2026 11:00:00 GMT", now) == 0
    assert retry_after_s("", now) is None and retry_after_s("soon", now) is None


def test_a_meter_stops_a_body_that_is_longer_than_it_said():
    with meter(100)(desc="config.json", total=10) as bar:
        bar.update(100)
        with pytest.raises(TooLargeError):
            bar.update(1)
