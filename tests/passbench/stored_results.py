"""Results folders made for the tests: rows of one submission on many tasks, written as `passbench run` writes them."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from schemas.arrow import to_table
from schemas.rows import Environment, EvalResult, Task, Verdict
from tests.passbench.test_score import row as score_row

ENVIRONMENT = Environment(environment="e", device="cpu", processor="Abacus 3", cores=2, threads=1, python="3.11",
                          torch="2.14", triton="3.8", system="Linux")  # fmt: skip
SETTINGS = {"device": "cpu", "draws": 3, "timeout_s": 120.0, "inductor": True,
            "plan": {"pairs": 12, "warmup": 3, "inner_us": 3000.0, "max_seconds": 3.0, "seed": 0}}  # fmt: skip


def task_named(name: str, total: int, **more) -> Task:
    plain = {
        "task_id": name, "version": 1, "title": f"title of {name}", "split": "test", "structure": "s",
        "num_variants": total, "max_patterns": 100, "max_functions": 1, "document_frequency": 1, "families": (),
        "modalities": (), "licenses": (), "rejected_solvers": (),
    }  # fmt: skip
    return Task(**{**plain, **more})


def rows_of(task: str, speeds: list[float | str], submission: str = "sub", isolation: str = "namespaces"):
    """A row a speed; a name of a verdict instead of a speed makes a failure."""
    found = []
    for index, speed in enumerate(speeds):
        verdict, value = (speed, 1.0) if isinstance(speed, str) else ("PASSED", speed)
        made = score_row(index, verdict, value, correct_from=-6 if verdict == "PASSED" else None, submission=submission)
        fields = {name: getattr(made, name) for name in made.__slots__}
        found.append(EvalResult(**{**fields, "task_id": task, "isolation": isolation, "verdict": Verdict(verdict)}))
    return found


def write(folder: Path, task: Task, rows: list[EvalResult], *, environment=ENVIRONMENT, **more) -> Path:
    """One results folder; `more` goes into results.json."""
    folder.mkdir(parents=True)
    tables = (("results", rows, EvalResult), ("tasks", [task], Task), ("environments", [environment], Environment))
    for name, items, cls in tables:
        pq.write_table(to_table(items, cls), folder / f"{name}.parquet")
    raw = {
        "submission": {"name": "mine", "digest": rows[0].submission, "passes": ["fuse"]}, "settings": SETTINGS,
        "isolation": {"landlock": "yes"}, "timings": [], "numerics": [], **more,
    }  # fmt: skip
    (folder / "results.json").write_text(json.dumps(raw))
    return folder
