"""What the Hub source does with a Hub full of faults: a stand-in Hub on loopback, real HTTP.

    python -m benchmarks.hub --json [--models 2000] [--faults 0.05] [--seed 0]

Every kind of fault of `tests.hub.population` befalls the given share of the models, each passing one for one or two
answers; the first four listing requests fail too. Writes to a temporary folder and standard output.

| key                     | meaning                                                                                  |
|-------------------------|------------------------------------------------------------------------------------------|
| accounted               | share of the models that are one row: a configuration, or a Failure of the expected kind |
| configurations          | models that gave a configuration                                                         |
| requests_clean_max      | most resolver requests for a model without a fault                                       |
| requests_model          | resolver requests a model, without those that a passing fault or a redirect answered     |
| requests_model_all      | resolver requests a model, everything counted                                            |
| requests_model_max      | most resolver requests for one model, counted as in requests_model                       |
| listing_requests        | requests for pages of 100                                                                |
| info_requests           | requests about one model                                                                 |
| rebuild_requests        | requests of a second run                                                                 |
| relist_resolver_requests| resolver requests of a third run that lists anew                                         |
| rebuild_equal           | whether those runs gave the same rows                                                    |
| minutes                 | wall time of the first run                                                               |
"""

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from extract.hub import HubConfig, HubModel, collect_hub
from extract.hub_session import Budget, Policy, Session
from schemas.rows import Failure, FailureKind
from tests.hub.__main__ import TYPES
from tests.hub.population import Model, installed_bases, population
from tests.hub.server import HubServer, Settings

EXPECTED: Mapping[str, FailureKind] = {
    "malformed_json": FailureKind.MALFORMED_CONFIG, "huge": FailureKind.TOO_LARGE, "gated": FailureKind.GATED,
    "missing_config": FailureKind.MISSING_CONFIG, "private": FailureKind.REMOVED, "disabled": FailureKind.DISABLED,
}  # fmt: skip
POLICY = Policy(timeout_s=4.0, backoff_s=0.1)


def build(hub: HubServer, folder: Path, *, refresh: bool = False) -> list[HubModel | Failure]:
    """One run of the source."""
    config = HubConfig(endpoint=hub.endpoint, page_size=100, policy=POLICY)
    with Session(policy=POLICY, budget=Budget()) as session:
        return list(collect_hub(folder=folder, config=config, session=session, refresh=refresh))


def accounted(rows: Sequence[HubModel | Failure], models: Sequence[Model]) -> float:
    """Share of the models with exactly one row, and that as expected."""
    found: dict[str, list[FailureKind | None]] = {}
    for row in rows:
        failed = isinstance(row, Failure)
        found.setdefault(row.name if failed else row.ref.name, []).append(row.kind if failed else None)
    return sum(found.get(model.name) == [_expected(model)] for model in models) / len(models)


def _expected(model: Model) -> FailureKind | None:
    remote = FailureKind.REMOTE_CODE if "auto_map" in model.listed["config"] else None
    return EXPECTED.get(model.fault, remote)


def measure(models: Sequence[Model]) -> dict[str, object]:
    """Three runs against one server: the first, a rebuild, and one that lists anew."""
    with tempfile.TemporaryDirectory() as name, HubServer(models, Settings(stall_s=5.0, spoil_pages=4)) as hub:
        began = time.perf_counter()
        rows = build(hub, Path(name))
        minutes = (time.perf_counter() - began) / 60
        first, resolved, wasted = hub.counts.copy(), hub.resolved.copy(), hub.wasted.copy()
        rebuilt = build(hub, Path(name))
        rebuild = sum(hub.counts.values()) - sum(first.values())
        listed = build(hub, Path(name), refresh=True)
        relist = sum(hub.resolved.values()) - sum(resolved.values())
    return {
        "models": len(models), "accounted": accounted(rows, models),
        "configurations": sum(isinstance(row, HubModel) for row in rows),
        "requests_clean_max": max(resolved[m.name] for m in models if not m.fault),
        "requests_model": round((sum(resolved.values()) - sum(wasted.values())) / len(models), 3),
        "requests_model_all": round(sum(resolved.values()) / len(models), 3),
        "requests_model_max": max(resolved[m.name] - wasted[m.name] for m in models),
        "listing_requests": first["list"], "info_requests": first["info"] + first["tree"],
        "rebuild_requests": rebuild, "relist_resolver_requests": relist, "rebuild_equal": rows == rebuilt == listed,
        "minutes": round(minutes, 2),
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument("--faults", type=float, default=0.05, help="share of the models that each kind of fault hits")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one flat JSON object")
    options = parser.parse_args()
    bases = installed_bases(TYPES)
    found = measure(population(size=options.models, seed=options.seed, faults=options.faults, bases=bases))
    if options.json:
        print(json.dumps(found))
        return
    for key, value in found.items():
        print(f"{key:<26}{value}")


if __name__ == "__main__":
    main()
