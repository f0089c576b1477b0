"""Mutated configurations in a real pool: each becomes one row, none ends the run, none is of unknown kind."""

import json

import pytest

from benchmarks.extract_mutated import BASES, measure, mutated, rows

pytestmark = pytest.mark.slow


def test_twenty_mutated_configurations_become_twenty_rows():
    found = measure(20, seed=2)
    assert (found["configs"], found["rows"], found["crashed_runs"], found["over_limit"]) == (20, 20, 0, 0), found
    assert found["unknown_share"] == 0.0, found


def test_rows_are_a_pure_function_of_the_seed_and_differ_from_their_base():
    first, again, other = ([row.config for row in rows(24, seed)] for seed in (5, 5, 6))
    assert first == again and first != other
    bases = {json.dumps({"model_type": name.split("/")[0], **base}) for name, (_, base) in BASES.items()}
    assert not bases & set(first)
    assert mutated({"a": 1}, __import__("random").Random(0)) != {"a": 1}
