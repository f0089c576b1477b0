"""Autotuned kernels in an interpreter: which configuration runs, and that others are checked."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from passbench.configs import valid_configurations

pytestmark = pytest.mark.torch
ROOT = Path(__file__).resolve().parent.parent.parent


def test_autotuned_kernels_run_as_tritons_autotuner_would_run_them() -> None:
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    script = str(ROOT / "tests" / "passbench" / "tuned.py")
    ran = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads(ran.stdout)
    assert len(found) >= 13 and [name for name, right in found.items() if not right] == []


def test_an_account_of_configurations_is_read_with_care() -> None:
    told = {"kernel": ["BLOCK: 1", "BLOCK: 2"]}
    assert valid_configurations({"configs": told}) == told
    for odd in (None, [], 3, "kernel", {"kernel": 3}, {"kernel": []}, {"kernel": "text"}):
        assert valid_configurations({"configs": odd}) == {}
    assert valid_configurations({}) == {}
