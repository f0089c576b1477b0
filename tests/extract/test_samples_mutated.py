"""The reader under damaged samples: each is read as it says, or refused in one placed line."""

import random
from pathlib import Path

import pytest

from benchmarks.samples_mutated import SOURCES, measure, mutated
from extract.samples import find_samples

pytestmark = pytest.mark.torch


def test_damaged_samples_are_read_or_refused_in_one_line():
    found = measure(count=60, seed=9)
    assert found["admitted"] + found["refused"] == 60
    assert found["admitted"] > 5
    assert found["compared"] > 5
    assert [found[key] for key in ("crashes", "unknown", "unplaced", "roundtrip", "misread", "left")] == [0] * 6


def test_mutations_are_a_pure_function_of_the_seed(tmp_path: Path):
    source = next(find_samples(SOURCES))
    texts = []
    for place in range(2):
        mutated(source, tmp_path / str(place), random.Random(4))
        texts.append((tmp_path / str(place) / "model.py").read_text(encoding="utf-8"))
    assert texts[0] == texts[1]
    assert texts[0] != (source / "model.py").read_text(encoding="utf-8")
