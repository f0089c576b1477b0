"""kill -9 at every event of every stage, then the same command: the bytes of an undisturbed build, and no orphans."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from data.processes import processes
from tests.flows.toy import TOY

pytestmark = pytest.mark.build
ROOT = Path(__file__).resolve().parent.parent.parent
EVENTS = ("start", "item", "computed", "written", "renamed", "done")
MATRIX = tuple(
    (s.name, e, 1 if s.scope == "item" else 0) for s in TOY for e in EVENTS if (e, s.scope) != ("item", "table")
)


def drive(run: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.flows.drive", str(run), *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)


def table_bytes(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.glob("*/part-*.parquet"))}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    done = drive(run, "toy", "never", "", "0")
    assert done.returncode == 0, done.stderr
    return table_bytes(run)


def kill_and_resume(run: Path, where: tuple[str, str, int], undisturbed: dict[str, bytes]) -> None:
    stage, event, shard = where
    killed = drive(run, "toy", event, stage, str(shard))
    assert killed.returncode == -9, killed.stderr
    resumed = drive(run, "toy", "never", "", "0")
    assert resumed.returncode == 0, resumed.stderr
    assert "damaged" not in resumed.stdout, "a kill leaves nothing damaged"
    assert table_bytes(run) == undisturbed
    assert not list(run.glob("*/*.tmp")) + list(run.glob("*/.*.tmp"))
    assert not [pid for pid in processes() if str(run) in _words(pid)]


def _words(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


@pytest.mark.parametrize("where", MATRIX, ids=str)
def test_wherever_it_is_killed(tmp_path: Path, where: tuple[str, str, int], undisturbed: dict[str, bytes]) -> None:
    kill_and_resume(tmp_path / "run", where, undisturbed)


def test_prefect_gives_the_same_bytes_and_leaves_no_server_behind(
    tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    run = tmp_path / "run"
    killed = drive(run, "toy", "renamed", "configs", "1", "prefect")
    assert killed.returncode == -9, killed.stderr
    assert not [pid for pid in processes() if str(run) in _environment(pid)]
    resumed = drive(run, "toy", "never", "", "0", "prefect")
    assert resumed.returncode == 0, resumed.stderr
    assert table_bytes(run) == undisturbed
    assert (run / ".prefect").is_dir()


PREFECT = """
import sys
from flows import orchestrate
from flows.build import STAGES
from flows.cli import app
orchestrate.ROOM_MIB = int(sys.argv[1])
app(["build", "--engine", "prefect", "--select", "no/such", "--out", sys.argv[2]])
"""


@pytest.mark.parametrize(
    ("room", "server", "words"),
    [
        ("1", "", "no model is named 'no/such'"),
        (str(1 << 40), "", "continue with --engine local"),
        ("1", "http://127.0.0.1:9/api", "Prefect failed (Failed to reach API at http://127.0.0.1:9/api/)"),
    ],
)
def test_what_goes_wrong_under_prefect_is_one_line_too(tmp_path: Path, room: str, server: str, words: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)} | ({"PREFECT_API_URL": server} if server else {})
    command = [sys.executable, "-c", PREFECT, room, str(tmp_path / "run")]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("models: ")]
    assert len(lines) == 1
    assert lines[0].startswith("error: ") and words in lines[0]


def _environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:
        return ""


def test_the_matrix_covers_every_stage() -> None:
    assert {where[0] for where in MATRIX} == {stage.name for stage in TOY}
