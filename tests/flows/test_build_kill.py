"""The real stages on three architectures: kill -9 in the middle of each, and the other engine, give the same bytes.

One run directory is killed once in every stage and resumed each time by the plain runner; another is built undisturbed
under Prefect. Every table but the measurements must be equal, byte for byte.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from data.store import RunDirectory
from flows.stages import STAGES

pytestmark = pytest.mark.build
ROOT = Path(__file__).resolve().parent.parent.parent
MEASURED = ("profiles", "environments", "profiles.failures", "longtail")
"""Tables that hold measurements."""
MIDDLE = {"table": "written", "item": "item"}
"""Where the middle of a stage is: written but not yet renamed, or after one item of a shard."""


def drive(run: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.flows.drive", str(run), "real", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=600, check=False)


def table_bytes(run: Path) -> dict[str, bytes]:
    tables = [table for table in RunDirectory(run).tables() if table not in MEASURED]
    return {f"{table}/{path.name}": path.read_bytes() for table in tables for path in RunDirectory(run).parts(table)}


def test_killed_in_every_stage_is_the_same_as_undisturbed_under_prefect(tmp_path: Path) -> None:
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    done = drive(calm, "never", "", "0", "prefect")
    assert done.returncode == 0, done.stderr
    for stage in STAGES:
        died = drive(killed, MIDDLE[stage.scope], stage.name, "0")
        assert died.returncode == -9, f"{stage.name}: {died.stdout}{died.stderr}"
    assert drive(killed, "publish", "datasets", "0").returncode == -9
    done = drive(killed, "never", "", "0")
    assert done.returncode == 0, done.stderr
    expected, found = table_bytes(calm), table_bytes(killed)
    assert found.keys() == expected.keys()
    assert [name for name in expected if expected[name] != found[name]] == []
    assert {name.partition("/")[0] for name in found} >= {s.name for s in STAGES if s.name not in MEASURED}
    assert (killed / "datasets/PassNet-Dataset/latest").exists()
