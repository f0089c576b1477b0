"""Published evaluation logs as records and rows, so that old results can be scored again under any preset. No torch.

    records = read_log(Path("validation.log"))   # one a graph, in the order of the log
    score = rescore(records, PRESETS["published"], total=10)

A log is text that the graded code could print to, so what comes of it is marked as isolation "none" and a line that
stands twice with different values fails its graph as INTEGRITY(contradiction). Correctness at level t is read from the
line of the output's dtype at that level; atol and rtol stand there with three digits. Reading traps: a graph whose
compiled side failed has no dtype line; one with other dtypes or shapes has no all_close lines.

| what the log holds                                   | verdict                                      |
|------------------------------------------------------|----------------------------------------------|
| all_close up to t = -5                               | PASSED                                       |
| all_close from a later level or never                | WRONG_VALUE; NON_FINITE if differences are nan |
| other dtypes                                         | WRONG_DTYPE                                  |
| equal dtypes but no all_close line                   | WRONG_SHAPE                                  |
| no dtype line, and a word about compiling or matching | COMPILE_ERROR                                |
| no dtype line otherwise                              | RUNTIME_ERROR                                |
| a failure of the eager side                          | HARNESS_ERROR in a row, never tolerated in `rescore` |

Reads one file; writes nothing.
"""  # fmt: skip

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from passbench.presets import MISSING, Preset
from passbench.score import VERDICT_CLASS, Outcome, es_curve, geometric_mean, task_score
from schemas.rows import Environment, EvalResult, Task, Verdict, content_id

LEVELS = range(-10, 6)
PASS_LEVEL = -5
SLOPES = {"float16": (1.0, 0.6), "bfloat16": (1.0, 1.796 / 5), "float32": (1.0, 5.886 / 5), "float64": (1.4, 1.4)}
"""dtype -> exponents of ten a level, for atol and rtol; other dtypes are compared exactly."""
MAX_BYTES = 2**30
_TAG = re.compile(r"\[([A-Za-z]+)\](?:\[([^\]]+)\])?:?\s*(.*)")
_PREFIX = re.compile(r"^\S*-log\s+")
"""What the program that wrote the log puts before its own lines."""
_START = "[Processing]"
_COMPILE = re.compile(r"compil|pattern|no pass|not match|inductor", re.IGNORECASE)
_EAGER = re.compile(r"eager", re.IGNORECASE)
_ERROR_LINE = re.compile(r"(?:Error|Exception):")
_FAILED = re.compile(r"fail|error|exception", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """What a log says of one graph."""

    graph: str
    """Path of the graph as printed."""
    hardware: str
    """Device as printed."""
    verdict: Verdict
    """What happened, by the table above."""
    correct_from: int | None
    """Smallest level from which all outputs agree; None if none does."""
    speedup: float | None
    """Printed eager / compiled time, end to end; None if it is not there."""
    reference_failed: bool
    """Whether the eager side itself failed."""
    error_line: bool = False
    """Whether a line says "Error:" or "Exception:", which the published evaluation takes for a failure at run time."""
    detail: str
    """Why, one line; empty if passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogScore:
    """The score of a log."""

    total: int
    """N: graphs of the task."""
    es: dict[int, float]
    """ES_t by level."""
    task_score: float
    """AS."""
    correctness: float
    """Share correct from t = -5 on."""
    speedup: float | None
    """Geometric mean of the speed-ups of correct graphs."""
    verdicts: dict[str, int]
    """Verdict -> number of graphs; those that the log lacks as "missing"."""


def read_log(path: Path) -> list[LogRecord]:
    """The records of a log file; raises ValueError if it cannot be read or holds no graph."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"{path}: larger than {MAX_BYTES >> 20} MiB")
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error
    records = parse_log(text)
    if not records:
        raise ValueError(f"{path}: no line says {_START}: not an evaluation log")
    return records


def parse_log(text: str) -> list[LogRecord]:
    """The records of a log's text; a graph that is processed twice has two."""
    blocks: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if _START in line:
            blocks.append((line.partition(_START)[2].strip(), []))
        elif blocks:
            blocks[-1][1].append(line)
    return [_record(graph, lines) for graph, lines in blocks]


def _record(graph: str, lines: Sequence[str]) -> LogRecord:
    facts: dict[str, set[str]] = {}
    for line in lines:
        found = _TAG.search(line)
        if found:
            key = found[1] if found[2] is None else f"{found[1]}/{found[2]}"
            facts.setdefault(key, set()).add(found[3].strip())
    hardware = next((text.partition(":")[2].strip() for text in facts.get("Config", ()) if "hardware" in text), "")
    verdict, level, detail = _judge(facts, lines)
    failed = verdict is Verdict.HARNESS_ERROR
    speed = _speedup(facts) if level is not None else None
    return LogRecord(graph=graph, hardware=hardware, verdict=verdict, correct_from=level, speedup=speed,
                     reference_failed=failed, detail=detail,
                     error_line=any(_ERROR_LINE.search(line) for line in lines))  # fmt: skip


def _judge(facts: dict[str, set[str]], lines: Sequence[str]) -> tuple[Verdict, int | None, str]:
    """Verdict, level and one line."""
    tags = ("Correctness/", "Datatype/", "Speedup/e2e")
    twice = next((key for key, found in sorted(facts.items()) if key.startswith(tags) and len(found) > 1), None)
    if twice:
        return Verdict.INTEGRITY, None, f"{twice} stands in the log with {len(facts[twice])} values"
    eager, compiled = (_words(facts, f"Datatype/{side}") for side in ("eager", "compiled"))
    if not eager or not compiled:
        return _failure(lines)
    if eager != compiled:
        return Verdict.WRONG_DTYPE, None, f"{' '.join(eager)} expected, {' '.join(compiled)} found"
    if not any(key.startswith("Correctness/all_close") for key in facts):
        return Verdict.WRONG_SHAPE, None, "no tolerance was compared: shapes differ"
    level = correct_from(eager, {key: _words(facts, key) for key in facts})
    if level is not None and level <= PASS_LEVEL:
        return Verdict.PASSED, level, ""
    if level is None and "nan" in _words(facts, "Correctness/max_diff"):
        return Verdict.NON_FINITE, None, "the differences are nan"
    return Verdict.WRONG_VALUE, level, "agrees at no level" if level is None else f"agrees only from level {level}"


def _failure(lines: Sequence[str]) -> tuple[Verdict, int | None, str]:
    plain = [_PREFIX.sub("", line) for line in lines]
    said = [line for line in plain if _FAILED.search(line) and "eager_fail" not in line]
    detail = " ".join(said[-1].split())[:200] if said else "ended without a comparison"
    if any(_EAGER.search(line) and not _COMPILE.search(line) for line in said):
        return Verdict.HARNESS_ERROR, None, detail
    compiling = any(_COMPILE.search(line) for line in said)
    return (Verdict.COMPILE_ERROR if compiling else Verdict.RUNTIME_ERROR), None, detail


def correct_from(dtypes: Sequence[str], facts: dict[str, list[str]]) -> int | None:
    """Smallest level from which every output agrees at every later level; None if the last one does not."""
    found = None
    for level in reversed(LEVELS):
        if not all(_agrees(facts, dtype, index, level) for index, dtype in enumerate(dtypes)):
            break
        found = level
    return found


def _agrees(facts: dict[str, list[str]], dtype: str, index: int, level: int) -> bool:
    if dtype in SLOPES:
        atol, rtol = (10.0 ** (slope * level) for slope in SLOPES[dtype])
        flags = facts.get(f"Correctness/all_close_atol_{atol:.2E}_rtol_{rtol:.2E}", [])
    else:
        flags = facts.get("Correctness/equal", [])
    return index < len(flags) and flags[index] == "1"


def _words(facts: dict[str, set[str]], key: str) -> list[str]:
    return next(iter(facts.get(key, {""}))).split()


def _speedup(facts: dict[str, set[str]]) -> float | None:
    words = _words(facts, "Speedup/e2e")
    try:
        value = float(words[0]) if words else 0.0
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None


# --- scores and rows ------------------------------------------------------------------------------------------------
def rescore(records: Sequence[LogRecord], preset: Preset, *, total: int | None = None) -> LogScore:
    """The score of a log by the published definition; raises ValueError if `total` is less than the graphs it has.

    A graph that is correct only from a late level counts with its printed speed-up there, as published. Under class
    map `published` a graph with a line "Error:" or "Exception:" failed at run time, whatever else the log says of it,
    as the published evaluation has it; under the others such a line counts for nothing. A graph that stands twice, or
    not at all where `total` says there are more, is missing.
    """
    counted = Counter(record.graph for record in records)
    count = len(counted) if total is None else total
    if count < len(counted) or not count:
        raise ValueError(f"the log holds {len(counted)} graphs, so the task cannot have {count}")
    once = [record for record in records if counted[record.graph] == 1]
    outcomes = [_outcome(record, preset) for record in once]
    outcomes += [Outcome(correct_from=None, speedup=1.0, error_class=MISSING)] * (count - len(once))
    speeds = [r.speedup for r in once if r.verdict is Verdict.PASSED and r.speedup is not None]
    es = es_curve(outcomes, preset)
    verdicts = Counter(record.verdict.value for record in once)
    if count > len(once):
        verdicts[MISSING] = count - len(once)
    return LogScore(
        total=count, es=es, task_score=task_score(es, preset.weights),
        speedup=geometric_mean(speeds) if speeds else None,
        correctness=verdicts[Verdict.PASSED.value] / count, verdicts=dict(sorted(verdicts.items())),
    )  # fmt: skip


def _outcome(record: LogRecord, preset: Preset) -> Outcome:
    if record.error_line and record.correct_from is not None and preset.class_map == "published":
        return Outcome(correct_from=None, speedup=1.0, error_class="runtime")
    if record.reference_failed or (record.correct_from is not None and record.speedup is None):
        return Outcome(correct_from=None, speedup=1.0, error_class=MISSING)
    kind = VERDICT_CLASS.get(record.verdict, "accuracy")
    return Outcome(correct_from=record.correct_from, speedup=record.speedup or 1.0, error_class=kind)


def rows_of(records: Sequence[LogRecord], name: str) -> tuple[Task, Environment, list[EvalResult]]:
    """A task, an environment and one row a graph, as `passbench run` would store them; isolation is "none".

    Rows carry a speed-up only where the outputs are right at t = -5, so their score is at most that of `rescore`.
    """
    task_id, place = content_id(*(record.graph for record in records)), records[0].hardware
    task = Task(
        task_id=task_id, version=1, title=f"published log {name}", split="", structure="", num_variants=len(records),
        max_patterns=100, max_functions=1, document_frequency=0, families=(), modalities=(), licenses=(),
        rejected_solvers=(),
    )  # fmt: skip
    env = Environment(
        environment=content_id("published log", place), device="cuda", processor=place, cores=0, threads=0, python="",
        torch="", triton="", system="",
    )  # fmt: skip
    return task, env, [_row(record, index, task, env, name) for index, record in enumerate(records)]


def _row(record: LogRecord, index: int, task: Task, env: Environment, name: str) -> EvalResult:
    ran = record.verdict in (Verdict.PASSED, Verdict.WRONG_VALUE)
    speed = record.speedup if record.verdict is Verdict.PASSED else None
    return EvalResult(
        task_id=task.task_id, index=index, submission=content_id("published log", name), environment=env.environment,
        verdict=record.verdict, rule="contradiction" if record.verdict is Verdict.INTEGRITY else "",
        detail=record.detail or record.graph, matches=int(ran), correct_from=record.correct_from if ran else None,
        max_abs_error=None, max_rel_error=None, speed_measured=speed is not None, speedup=speed, ci_low=None,
        ci_high=None, inductor_speedup=None, isolation="none",
    )  # fmt: skip
