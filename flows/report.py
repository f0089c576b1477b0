"""What a build leaves for people: the funnel, run.json, and the machine and libraries it ran on.

    rows = funnel(RunDirectory("runs/default"), STAGES)
    rows[2].failures                      # {"data_dependent": 2}

Reads manifests; writes RUN/run.json.
"""

import os
import platform
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from data.store import RunDirectory, StoreError
from flows.stages import Stage
from schemas.rows import SCHEMA_VERSION

LIBRARIES = (
    "passnet", "torch", "transformers", "timm", "torchvision", "diffusers", "triton", "numpy", "pyarrow", "xxhash",
    "networkx", "prefect", "datasets", "huggingface_hub", "torch_geometric", "torchaudio", "ultralytics",
)  # fmt: skip
"""Distributions whose versions a run records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunnelRow:
    """One stage of the funnel, summed over its shards."""

    stage: str
    """Stage name."""
    shards: int
    """Shards that are done."""
    read: int
    """Input rows; of the first table, where a stage reads several."""
    out: dict[str, int]
    """Rows written, by table, the main one first."""
    failures: dict[str, int]
    """Failures by kind."""
    skipped: dict[str, int]
    """Input rows left out on purpose, by reason."""
    seconds: float
    """Seconds of all shards together."""
    peak_gib: float
    """Most resident GiB of the whole build up to the end of the stage."""


def funnel(store: RunDirectory, stages: tuple[Stage, ...]) -> list[FunnelRow]:
    """The funnel as the manifests tell it; stages that have none are left out."""
    return [row for row in (_funnel_row(store, stage) for stage in stages) if row.shards]


def _funnel_row(store: RunDirectory, stage: Stage) -> FunnelRow:
    counts: list[Mapping[str, Any]] = []
    for shard in store.manifest_shards(stage.name):
        try:
            manifest = store.read_manifest(stage.name, shard)
        except StoreError:
            continue
        counts += [] if manifest is None else [manifest.counts]
    return FunnelRow(
        stage=stage.name,
        shards=len(counts),
        read=sum(item["in"] for item in counts),
        out={table: sum(item["out"].get(table, 0) for item in counts) for table in stage.writes},
        failures=_sum(counts, "failures"),
        skipped=_sum(counts, "skipped"),
        seconds=round(sum(item["seconds"] for item in counts), 1),
        peak_gib=max((item["peak_gib"] for item in counts), default=0.0),
    )


def _sum(counts: list[Mapping[str, Any]], name: str) -> dict[str, int]:
    total: Counter[str] = Counter()
    for item in counts:
        total.update(item[name])
    return dict(sorted(total.items()))


def versions() -> dict[str, str]:
    """Versions of Python and of the recorded libraries; absent ones are left out."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """The machine in a few words: system, processor, usable cores, GiB of memory."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(pages / 2**30, 1),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What run.json holds."""

    config: dict[str, Any]
    """The build's configuration (`flows.config.BuildConfig`)."""
    stages: dict[str, dict[str, Any]]
    """Every stage's whole configuration, defaults included."""
    schema_version: str
    """Version of the row types."""
    versions: dict[str, str]
    """Versions of Python and libraries."""
    machine: dict[str, Any]
    """The machine."""
    engine: str
    """local or prefect."""
    finished: bool
    """Whether all stages and the datasets are done."""
    funnel: list[FunnelRow]
    """The funnel."""
    wall_s: float
    """Wall seconds of the last build that computed anything."""
    peak_rss_gib: float
    """Most resident GiB of the build and its children, sampled."""
    datasets: dict[str, str]
    """Dataset name -> folder inside the run directory."""


def read_record(store: RunDirectory) -> dict[str, Any]:
    """What RUN/run.json holds, empty if it is absent; StoreError if it is no record."""
    found = store.read_json("run.json")
    if found is not None and not isinstance(found, dict):
        raise StoreError(f"{store.path / 'run.json'} is damaged (no object): delete it and build again")
    return found or {}


def write_record(store: RunDirectory, record: RunRecord) -> None:
    """Write RUN/run.json."""
    store.write_json("run.json", asdict(record))


def this_run(**known: Any) -> RunRecord:
    """A record of this machine and these libraries with the given fields."""
    return RunRecord(schema_version=SCHEMA_VERSION, versions=versions(), machine=machine(), **known)
