"""The device library of the interpreter, against mpmath's functions and, for whole numbers, against Python's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def found() -> list[object]:
    script = ROOT / "tests" / "passbench" / "library_values.py"
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout)


def test_every_function_of_the_library_can_be_called(found):
    count, bad = found[0]
    assert count >= 190 and bad == {}


def test_real_functions_are_within_half_a_unit(found):
    assert len(found[1]) > 50 and {name: worst for name, worst in found[1].items() if worst > 0.51} == {}


def test_bessel_functions_are_within_a_millionth(found):
    assert sorted(found[4]) == ["j0", "j1", "jn", "y0", "y1", "yn"] and max(found[4].values()) < 1e-6


def test_directed_roundings_keep_their_side(found):
    assert found[2] == []


def test_functions_of_whole_numbers_and_conversions(found):
    assert [name for name, right in found[3].items() if not right] == []
