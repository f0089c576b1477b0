"""Processes of the grader are killed at random points; every result must be there once, and nothing may be left behind.

    python -m benchmarks.harness_faults --json          # 50 kills; many minutes
    python -m benchmarks.harness_faults --json --kills 5 --seed 3

One grading after the other is started by `passbench run`, in a temporary folder of its own. In random order and at
random moments the orchestrator, the template and one of its children (reference, candidate, or a process of its
namespace) are killed with SIGKILL; after the orchestrator's end the grading is started again. Writes below the
temporary folder, which is removed; its counts so far go to standard error.

| key          | meaning                                                                                   |
|--------------|-------------------------------------------------------------------------------------------|
| kills        | kills that met a living process                                                           |
| kills_<whom> | those of them that met the orchestrator, the template, a child                            |
| lost         | variants without a result, or with another verdict than in a grading nobody disturbed     |
| doubled      | variants with more than one result                                                        |
| resumed      | variants that the next start found settled                                                |
| orphans      | processes of a grading that outlive it by more than five seconds                          |
| leftovers    | files in the temporary folder or beside the results after a grading                       |
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

Value = int | float
VARIANTS = 4
PATIENCE_S = 300.0
ROLES = ("orchestrator", "template", "child")


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one flat JSON object")
    parser.add_argument("--kills", type=int, default=50, help="kills (default: 50)")
    parser.add_argument("--seed", type=int, default=0, help="seed of whom and when")
    options = parser.parse_args()
    found = measure(options.kills, options.seed)
    print(json.dumps(found) if options.json else "\n".join(f"{name:<18} {value}" for name, value in found.items()))
    return 0


def measure(kills: int, seed: int) -> dict[str, Value]:
    """Gradings under random kills until so many have met."""
    from benchmarks.grader_tasks import FAULTS, add_relu_task, write_shelf, write_submission

    rng = random.Random(seed)
    counts: Counter[str] = Counter(dict.fromkeys(("lost", "doubled", "resumed", "orphans", "leftovers"), 0))
    with tempfile.TemporaryDirectory(prefix="faults-") as made:
        folder = Path(made)
        shelf = write_shelf(folder / "shelf", [add_relu_task(0, VARIANTS)])
        names = ("right", "wrong")
        plain = {name: undisturbed(folder, shelf, write_submission(folder / name, FAULTS[name])) for name in names}
        seconds = max(found.seconds for found in plain.values())
        attempt = 0
        while sum(counts[f"kills_{role}"] for role in ROLES) < kills and attempt < kills:
            name = names[attempt % 2]
            job = Job(folder=folder / f"job{attempt}", shelf=shelf, submission=folder / name)
            counts.update(disturbed(job, rng, seconds / 6, plain[name].verdicts))
            attempt += 1
            print(f"{attempt}: {dict(counts)}", file=sys.stderr)
    total = sum(counts[f"kills_{role}"] for role in ROLES)
    return {"kills": total, **dict(sorted(counts.items())), "seconds_undisturbed": round(seconds, 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One grading in a temporary folder of its own."""

    folder: Path
    """Where its results and its temporary folder are."""
    shelf: Path
    """The tasks."""
    submission: Path
    """What is graded."""

    @property
    def temporary(self) -> Path:
        """Its temporary folder."""
        return self.folder / "tmp"

    @property
    def results(self) -> Path:
        """Its results."""
        return self.folder / "results"

    def start(self) -> "subprocess.Popen[str]":
        """Start or resume it."""
        self.temporary.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "passbench.cli", "run", str(self.submission), "--tasks", str(self.shelf),
                   "--task", "add > relu 0", "--out", str(self.results), "--no-inductor", "--workers", "2",
                   "--draws", "1"]  # fmt: skip
        env = {**os.environ, "TMPDIR": str(self.temporary), "PYTHONDONTWRITEBYTECODE": "1",
               "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}  # fmt: skip
        return subprocess.Popen(
            command, env=env, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def verdicts(self) -> list[tuple[int, str]]:
        """Index and verdict of every stored row."""
        from passbench.results import read_results

        try:
            stored = read_results(self.results)
        except ValueError:
            return []
        return sorted((row.index, row.verdict.value) for item in stored for row in item.rows)

    def leftovers(self) -> list[str]:
        """What lies about beside the results."""
        hidden = list(self.results.glob(".*")) if self.results.is_dir() else []
        return [str(path) for path in [*self.temporary.iterdir(), *hidden]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """A grading that nobody disturbed."""

    verdicts: list[tuple[int, str]]
    """Its verdicts."""
    seconds: float
    """How long it took."""


def undisturbed(folder: Path, shelf: Path, submission: Path) -> Plain:
    """Grade in peace."""
    job = Job(folder=folder / f"plain-{submission.name}", shelf=shelf, submission=submission)
    began = time.monotonic()
    said, _ = job.start().communicate(timeout=PATIENCE_S)
    found = Plain(verdicts=job.verdicts(), seconds=time.monotonic() - began)
    assert len(found.verdicts) == VARIANTS and not job.leftovers(), said
    return found


def disturbed(job: Job, rng: random.Random, pause_s: float, expected: list[tuple[int, str]]) -> Counter[str]:
    """One grading in which one process of every role is killed, started again until it ends; what was counted."""
    counts: Counter[str] = Counter()
    process = job.start()
    for role in rng.sample(ROLES, len(ROLES)):
        time.sleep(rng.uniform(0.0, pause_s))
        counts[f"kills_{role}"] += strike(process, role, job, rng)
        if role == "orchestrator":
            process = resumed(process, job, counts)
    said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    counts["orphans"] += orphans(job)
    rows = job.verdicts()
    counts["lost"] += len(set(expected) - set(rows))
    counts["doubled"] += len(rows) - len({index for index, _ in rows})
    counts["leftovers"] += len(job.leftovers())
    return counts


def strike(process: "subprocess.Popen[str]", role: str, job: Job, rng: random.Random) -> int:
    """Kill a process of a role, one that is there or comes in time; how many were met."""
    deadline = time.monotonic() + PATIENCE_S
    victims = targets(process.pid, role, job)
    while not victims and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
        victims = targets(process.pid, role, job)
    if not victims or process.poll() is not None:
        return 0
    with contextlib.suppress(ProcessLookupError):
        os.kill(rng.choice(victims), signal.SIGKILL)
        return 1
    return 0


def resumed(process: "subprocess.Popen[str]", job: Job, counts: Counter[str]) -> "subprocess.Popen[str]":
    """The same grading started again, once nothing of the killed one is left."""
    process.communicate(timeout=PATIENCE_S)
    counts["orphans"] += orphans(job)
    counts["resumed"] += len(list(job.results.glob(".*.progress/*.json"))) if job.results.is_dir() else 0
    return job.start()


# --- processes ------------------------------------------------------------------------------------------------------
def targets(orchestrator: int, role: str, job: Job) -> list[int]:
    """Processes of a role in a running grading."""
    if role == "orchestrator":
        return [orchestrator]
    workers = workers_of(job)
    templates = [pid for pid in workers if parent_of(pid) == orchestrator]
    return templates if role == "template" else [pid for pid in workers if pid not in templates]


def workers_of(job: Job) -> list[int]:
    """Template and children of a grading, by the home folder that they were started with."""
    mark = f"HOME={job.temporary}/".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def parent_of(pid: int) -> int:
    """The parent of a process, 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return 0


def orphans(job: Job) -> int:
    """Workers that are still there five seconds after the orchestrator's end."""
    deadline = time.monotonic() + 5.0
    while workers_of(job) and time.monotonic() < deadline:
        time.sleep(0.05)
    return len(workers_of(job))


if __name__ == "__main__":
    sys.exit(main())
