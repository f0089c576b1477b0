"""Builds that end with nothing: whole datasets with empty tables, one clear sentence, exit status 0."""

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from data.store import RunDirectory
from flows.stages import STAGES, TABLES
from schemas.arrow import schema_of

pytestmark = pytest.mark.build
ROOT = Path(__file__).resolve().parent.parent.parent
HEAD = "import torch\nclass Net(torch.nn.Module):\n    example_inputs = torch.ones(2, 2)\n    def forward(self, x): "


def run(module: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", f"from {module} import main; main()", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("body", "sentence", "empty"),
    [
        ("raise RuntimeError('no')", "nothing was traced", "graphs"),
        ("return x @ x", "no piece was proposed as a task", "candidates"),
    ],
)
def test_a_build_that_gives_nothing_says_so_and_its_tables_are_empty(tmp_path, body, sentence, empty):
    (tmp_path / "own.py").write_text(HEAD + body + "\n", encoding="utf-8")
    out = str(tmp_path / "run")
    done = run("flows.cli", "build", "--files", str(tmp_path / "own.py"), "--out", out, "--engine", "local")
    assert done.returncode == 0 and sentence in done.stdout, done.stdout + done.stderr
    store = RunDirectory(Path(out))
    for table in (name for stage in STAGES for name in stage.writes):
        data = store.read_arrow(table)
        assert data is not None and data.schema.names == schema_of(TABLES[table]).names, table
    assert store.count(empty) == store.count("tasks") == store.count("profiles") == 0
    files = sorted(Path(out).glob("datasets/*/0*/data/*/*.parquet"))
    assert len({file.parent.name for file in files}) == 10 and all(pq.read_schema(file).names for file in files)
    assert all(pq.read_metadata(file).num_rows == 0 for file in files if file.parent.name in ("tasks", "fusible"))
    listed = run("passbench.cli", "list", "--tasks", out)
    assert listed.returncode == 0 and "no task in" in listed.stdout
    shown = run("flows.cli", "show", empty, "--out", out)
    assert shown.returncode == 0 and f"{empty} has no rows: " in shown.stdout, shown.stdout + shown.stderr
    report = run("flows.cli", "report", "--out", out)
    assert report.returncode == 2 and "nothing was measured" in report.stderr + report.stdout
