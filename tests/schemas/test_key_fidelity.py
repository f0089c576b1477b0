"""A fixed slice of `benchmarks.key_fidelity`: keys against the values of random programs and of one-edit variants."""

import pytest

from benchmarks.key_fidelity import measure

pytestmark = pytest.mark.torch


def test_programs_of_one_key_compute_the_same_and_the_reverse():
    found = measure(80, seed=11)
    wrong = {key: found[key] for key in ("unequal_values", "missed", "unequal_functional", "laws_broken")}
    assert wrong == dict.fromkeys(wrong, 0)
    assert found["equal_keys"] > found["equal_by_construction"] > 10
