"""The same runner under Prefect: one flow run a build, one task run a shard, one table artifact with the funnel.

    run_under_prefect(runner, list(STAGES))

With no server configured an in-process one is started, its database inside RUN/.prefect; with PREFECT_API_URL or a
profile the runs show on that server. Parameters are ids and paths, nothing is cached or persisted: resume belongs to
the manifests. The only module that imports prefect; import it only when this engine is asked for.
"""

import os
import shutil
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from data.calls import StageFailed
from data.store import StoreError, explained
from flows.report import FunnelRow, funnel
from flows.run import Runner
from flows.stages import Stage, stage_named

QUIET: Mapping[str, str] = {
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_LOGGING_SERVER_LEVEL": "CRITICAL",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
    "DO_NOT_TRACK": "1",
}
"""Settings that a person's own environment overrides: patience at start, no analytics, no log.

What goes wrong in a shard is raised through the flow and told once, in one line, by whoever called `build`.
"""
ROOM_MIB = 24
"""Free space that the in-process server's database may need; a server that cannot write it never answers."""
WITHOUT = "continue with --engine local, which needs neither server nor database"
_RUNNERS: dict[str, Runner] = {}


def configured_server(env: Mapping[str, str] | None = None) -> str:
    """The URL of the Prefect server that the environment or the active profile names; empty if there is none."""
    env = os.environ if env is None else env
    if env.get("PREFECT_API_URL"):
        return env["PREFECT_API_URL"]
    home = Path(env.get("PREFECT_HOME", "~/.prefect")).expanduser()
    path = Path(env.get("PREFECT_PROFILES_PATH", home / "profiles.toml"))
    with suppress(OSError, tomllib.TOMLDecodeError):
        document = tomllib.loads(path.read_text())
        active = env.get("PREFECT_PROFILE", document.get("active", ""))
        return str(document.get("profiles", {}).get(active, {}).get("PREFECT_API_URL", ""))
    return ""


def prepare(home: Path) -> None:
    """Set Prefect's environment before its first import: quiet, patient, and at home in the run if no server is set.

    Raises StoreError if the file system has no room for the database of a server of its own.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    if not configured_server():
        with explained(home):
            home.mkdir(exist_ok=True)
            free = shutil.disk_usage(home).free
        if free < ROOM_MIB << 20:
            raise StoreError(
                f"{home} has {free >> 20} MiB left, Prefect's database needs {ROOM_MIB}; nothing already built is "
                f"lost: free some space, or {WITHOUT}"
            )
        os.environ.setdefault("PREFECT_HOME", str(home))
        os.environ.setdefault("PREFECT_SERVER_ALLOW_EPHEMERAL_MODE", "true")


def run_under_prefect(runner: Runner, stages: list[Stage]) -> None:
    """Run stages as one Prefect flow run; raises as the plain runner does, StageFailed if Prefect itself fails."""
    path = str(runner.store.path.resolve())
    prepare(Path(path) / ".prefect")
    flow = _define(runner.config.workers)
    from httpx import HTTPError
    from prefect.exceptions import PrefectException

    _RUNNERS[path] = runner
    try:
        flow(path, [stage.name for stage in stages])
    except (PrefectException, HTTPError, RuntimeError) as error:
        runner.pool.abort()
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise StageFailed(f"Prefect failed ({reason}); nothing already built is lost: {WITHOUT}") from error
    except BaseException:
        runner.pool.abort()
        raise
    finally:
        del _RUNNERS[path]


def _define(workers: int) -> Any:
    """The flow and its task, with Prefect imported now."""
    from prefect import flow, task
    from prefect.artifacts import create_table_artifact
    from prefect.cache_policies import NO_CACHE
    from prefect.task_runners import ThreadPoolTaskRunner

    @task(task_run_name="{stage}-{shard}", cache_policy=NO_CACHE, persist_result=False)
    def run_shard(run: str, stage: str, shard: int) -> dict[str, Any]:
        runner = _RUNNERS[run]
        return runner.run_shard(stage_named(stage, runner.stages), shard)

    threads: Any = ThreadPoolTaskRunner(max_workers=workers)

    @flow(name="passnet-build", task_runner=threads, persist_result=False)
    def build(run: str, stages: list[str]) -> None:
        runner = _RUNNERS[run]
        for name in stages:
            stage = stage_named(name, runner.stages)
            futures = [run_shard.submit(run, name, index) for index in runner.pending(stage)]
            for future in futures:
                future.result()
            runner.finish_stage(stage)
        rows = [artifact_row(row) for row in funnel(runner.store, runner.stages)]
        create_table_artifact(key="passnet-funnel", table=rows, description="Rows, failures and seconds a stage")

    return build


def artifact_row(row: FunnelRow) -> dict[str, Any]:
    """One funnel row with plain cells."""
    return {
        "stage": row.stage,
        "in": row.read,
        "out": ", ".join(f"{table} {count}" for table, count in row.out.items()),
        "failures": ", ".join(f"{kind} {count}" for kind, count in row.failures.items()),
        "skipped": ", ".join(f"{reason}: {count}" for reason, count in row.skipped.items()),
        "seconds": row.seconds,
    }
