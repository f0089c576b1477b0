"""One whole build: lock the run directory, run every stage, publish the datasets, write run.json.

    outcome = build(Path("runs/default"), BuildConfig(limit=3), engine="local")
    outcome.funnel, outcome.datasets

Reads and writes one run directory. engine "local" is the plain runner, "prefect" the same runner under a Prefect flow;
both give the same bytes. Raises ValueError, StoreError, StageFailed or ConservationError, each with one clear line.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data.calls import Call, Limits
from data.pool import GIB, ChildPool
from data.publish import damage
from data.store import RunDirectory, StoreError
from flows.config import BuildConfig
from flows.report import FunnelRow, funnel, read_record, this_run, write_record
from flows.run import Observer, Runner
from flows.stages import STAGES, Stage

ENGINES = ("prefect", "local")
PUBLISH = "data.publish:publish"
PUBLISH_VERSION = 3
"""Raised when the published form changes, so that unchanged tables are published again."""
DATASETS = {"PassNet-Dataset": "dataset", "PassBench": "bench"}
"""Dataset name -> the field of `data.publish.Published` that holds its folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a build runs: which stages, on which engine, watched by whom."""

    engine: str = "local"
    """prefect or local."""
    stages: tuple[Stage, ...] = STAGES
    """The stage table."""
    only: str = ""
    """Run this one stage and publish nothing; empty for the whole build."""
    fresh: bool = False
    """Forget what was done before (of the one stage, or of all)."""
    publish: str = PUBLISH
    """"module:function" that publishes a run; empty for none."""
    observer: Observer = field(default_factory=Observer)
    """Who watches."""
    env: dict[str, str] = field(default_factory=dict)
    """Additions to the children's environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a build gave."""

    run: Path
    """The run directory."""
    funnel: list[FunnelRow]
    """Rows, failures and seconds a stage."""
    datasets: dict[str, str]
    """Dataset name -> folder, inside the run directory."""
    computed: int
    """Shards computed now; 0 if everything was done already."""
    wall_s: float
    """Wall seconds."""


def build(path: Path, config: BuildConfig, plan: Plan | None = None) -> Outcome:
    """Build what is missing in a run directory; the same call after a kill continues where it stopped."""
    plan = plan or Plan()
    if plan.engine not in ENGINES:
        raise ValueError(f"no engine is called {plan.engine!r}; the engines are {' and '.join(ENGINES)}")
    store = RunDirectory(path)
    store.create()
    with store.lock():
        store.clean()
        work, workers = store.path.resolve() / ".work", config.workers
        with ChildPool(workers=workers, work=work, env=plan.env, memory_gib=config.memory_gib) as pool:
            runner = Runner(store=store, config=config, pool=pool, stages=plan.stages, observer=plan.observer)
            return _build(runner, plan)


def _build(runner: Runner, plan: Plan) -> Outcome:
    began = time.monotonic()
    stages = [stage for stage in plan.stages if plan.only in ("", stage.name)]
    if plan.fresh:
        _forget(runner.store, stages)
    _record(runner, plan, {}, began)
    engine_named(plan.engine)(runner, stages)
    datasets = _publish(runner, plan) if plan.publish and not plan.only else {}
    _record(runner, plan, datasets, began)
    return Outcome(
        run=runner.store.path,
        funnel=funnel(runner.store, plan.stages),
        datasets=datasets,
        computed=runner.computed,
        wall_s=round(time.monotonic() - began, 1),
    )


def engine_named(name: str) -> Callable[[Runner, list[Stage]], None]:
    """The function that runs stages: prefect is imported only if it is asked for."""
    if name == "local":
        return run_locally
    from flows.orchestrate import run_under_prefect

    return run_under_prefect


def run_locally(runner: Runner, stages: list[Stage]) -> None:
    """Run stages one after the other with the plain runner."""
    for stage in stages:
        runner.run_stage(stage)


def _forget(store: RunDirectory, stages: list[Stage]) -> None:
    for stage in stages:
        for shard in store.manifest_shards(stage.name):
            store.drop_shard(stage.name, shard)


def _publish(runner: Runner, plan: Plan) -> dict[str, str]:
    """Publish unless the very same tables were published already; returns dataset name -> folder in the run."""
    store = runner.store
    digests = {record.file: record.digest for stage in plan.stages for record in _outputs(store, stage)}
    digests["publish version"] = str(PUBLISH_VERSION)
    before = _published_before(store, digests)
    wrong = [f"{folder}/{file}" for folder in before.values() for file in damage(store.path / folder)]
    pointed = all((store.path / folder).with_name("latest").exists() for folder in before.values())
    if before and not wrong and pointed:
        return before
    if wrong:
        plan.observer.on_note(f"{store.path / wrong[0]} is missing or damaged: the datasets are published again")
    plan.observer.on_event("publish", "datasets", 0)
    with runner.pool.borrow() as child:
        call = Call(stage="datasets", function=plan.publish, limits=Limits(timeout_s=3600.0, memory_gib=4.0))
        found = child.run_path(call, store.path)
    root = store.path.resolve()
    datasets = {name: str(Path(found[key]).relative_to(root)) for name, key in DATASETS.items()}
    store.write_json("publish.json", {"tables": digests, "datasets": datasets})
    return datasets


def _published_before(store: RunDirectory, digests: dict[str, str]) -> dict[str, str]:
    """Dataset name -> folder as the last publishing of these tables left them; empty if it was of other tables."""
    try:
        before = store.read_json("publish.json")
    except StoreError:
        return {}
    if not isinstance(before, dict) or before.get("tables") != digests:
        return {}
    folders = before.get("datasets")
    return folders if isinstance(folders, dict) and set(folders) == set(DATASETS) else {}


def _outputs(store: RunDirectory, stage: Stage) -> list[Any]:
    manifests = [store.read_manifest(stage.name, shard) for shard in store.manifest_shards(stage.name)]
    return [record for manifest in manifests if manifest is not None for record in manifest.outputs]


def _record(runner: Runner, plan: Plan, datasets: dict[str, str], began: float) -> None:
    """Write run.json: at the start, so that a killed build can be understood, and at the end."""
    try:
        before = read_record(runner.store)
    except StoreError:
        before = {}
    rows = funnel(runner.store, plan.stages)
    wall = time.monotonic() - began if runner.computed else before.get("wall_s", 0.0)
    peak = max([runner.pool.peak_bytes / GIB, *(row.peak_gib for row in rows)])
    write_record(
        runner.store,
        this_run(
            config=json.loads(runner.config.to_json()),
            stages=runner.settled,
            engine=plan.engine,
            finished=bool(datasets),
            funnel=rows,
            wall_s=round(wall, 1),
            peak_rss_gib=round(peak, 3),
            datasets=datasets or before.get("datasets", {}),
        ),
    )
