"""How many of the installed architectures give an admitted graph, each built from its default configuration alone.

    python -m benchmarks.extract_coverage --json [--out DIR] [--sample N --seed S] [--groups transformers_types,timm]
                                          [--only 'bert*'] [--workers 2] [--shrink]

Every architecture is traced in a child process with limits on time and memory. Outcomes are appended to
DIR/outcomes.jsonl as they come; a run over the same DIR goes on where it stopped, and `--retry KIND` asks again for
those that failed in that way. `--sample N` takes N of each group by the seed. `--shrink` (for work on the rules) cuts
stacks of layers to two; a shrunk configuration that fails is traced again in full. Writes DIR and standard output.

| key                | meaning                                                                                      |
|--------------------|----------------------------------------------------------------------------------------------|
| transformers_types | share of the model types with a base class whose base class gives an admitted graph          |
| transformers_heads | share of (model type, head class) pairs of all task mappings                                 |
| timm, torchvision, diffusers | share of the listed architectures                                                  |
| torch_geometric, torchaudio, ultralytics | as above; null where the library is not installed                      |
| unknown_failures   | share of the failures that are of kind "unknown"                                             |
| numeric_checked    | share of the admitted graphs that were run, rebuilt against traced                           |
| numeric_equal      | share of those whose outputs are equal bit for bit                                           |
| counts             | group -> [admitted, tried, listed]                                                           |
| intervals          | group -> 95% interval of its share (Wilson), where it is a sample                            |
| failures           | kind -> number                                                                               |
| shrunk             | whether stacks of layers were cut                                                            |
"""

import argparse
import json
import math
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from data.calls import Call, Item, Limits
from data.pool import ChildPool
from extract import models as listing
from extract.catalog import load_catalog
from extract.configs import ConfigsConfig, resolve_configs
from extract.further_zoos import ZOOS
from extract.scale import BY_LAYER
from schemas.arrow import to_table
from schemas.rows import ConfigLink, Failure, FailureKind, ModelConfig, ModelRef, Text, content_id

TYPES, HEADS = "transformers_types", "transformers_heads"
GROUPS = (TYPES, HEADS, "timm", "torchvision", "diffusers", *ZOOS)
LAYERS = frozenset({
    "num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers", "num_encoder_layers",
    "num_decoder_layers", "num_attention_layers", "num_block_layers", "encoder_num_layers", "decoder_num_layers",
})  # fmt: skip
"""Keys of a configuration that count the layers of a stack, cut by `--shrink`."""
SHRUNK_LAYERS = 2
DETAIL = 1500
"""Characters kept of a traceback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one architecture; `kind` is empty where its graph was admitted."""

    name: str
    kind: str
    message: str
    numeric: str
    rung: str
    nodes: int
    seconds: float
    shrunk: bool
    inputs: tuple[str, ...] = ()
    """Names of the graph's inputs."""
    detail: str = ""
    """End of the traceback of a failure."""


# --- the pool -------------------------------------------------------------------------------------------------------
def list_groups() -> dict[str, list[ModelRef]]:
    """The architectures of each group, by name."""
    catalog = load_catalog()
    rows = listing.list_transformers(catalog)
    return {
        TYPES: [row for row in rows if row.name.split("/")[1] in listing.base_classes(row.family)[:1]],
        HEADS: [row for row in rows if row.name.split("/")[1] in listing.head_classes(row.family)],
        "timm": listing.list_timm(catalog),
        "torchvision": listing.list_torchvision(),
        "diffusers": listing.list_diffusers(catalog),
        **{library: listing.list_zoo(library) for library in ZOOS},
    }


def sample(rows: Sequence[ModelRef], size: int, seed: int) -> list[ModelRef]:
    """`size` rows in the seed's order, all where size is 0; a larger sample only adds."""
    ordered = sorted(rows, key=lambda row: content_id(str(seed), row.name))
    return ordered[:size] if size else ordered


def shrink(settings: Any) -> Any:
    """A configuration whose stacks have at most two layers, lists of one entry a layer cut alike.

    A backbone whose stages are named stays as it is: others look for features of its last stages.
    """
    if not isinstance(settings, dict):
        return settings
    cut = {key: shrink(value) for key, value in settings.items()}
    if "stage_names" in settings:
        return cut
    counts = [value for key, value in settings.items() if key in LAYERS and isinstance(value, int)]
    for key, value in settings.items():
        if key in LAYERS and isinstance(value, int):
            cut[key] = min(value, SHRUNK_LAYERS)
        elif _is_by_layer(key, value, counts):
            cut[key] = value[:SHRUNK_LAYERS]
    if counts and isinstance(by_layer := cut.get(BY_LAYER), dict):
        cut[BY_LAYER] = {key: value for key, value in by_layer.items() if int(key) < SHRUNK_LAYERS}
    return cut


def _is_by_layer(key: str, value: Any, counts: Sequence[int]) -> bool:
    """Whether a setting has an entry a layer, of more layers than stay; lists of ids have as many by chance."""
    return isinstance(value, list) and SHRUNK_LAYERS < len(value) in counts and not key.endswith("_ids")


# --- tracing --------------------------------------------------------------------------------------------------------
def attempt(pool: ChildPool, call: Call, row: ModelConfig, *, shrunk: bool) -> Outcome:
    """Trace one architecture in a child of the pool."""
    began = time.perf_counter()
    with pool.borrow() as child:
        tables = child.run_item(call, to_table([row], ModelConfig), Item(key=row.architecture, name=row.name))
    return _outcome(row.name, tables, seconds=round(time.perf_counter() - began, 1), shrunk=shrunk)


def _outcome(name: str, tables: Mapping[str, pa.Table], *, seconds: float, shrunk: bool) -> Outcome:
    failures = tables["Failure"].to_pylist() if "Failure" in tables else []
    kept = ["numeric", "rung", "capture", "num_nodes", "graph"]
    records = tables["GraphRecord"].select(kept).to_pylist() if "GraphRecord" in tables else []
    empty = Outcome(
        name=name, kind="", message="", numeric="", rung="", nodes=0, seconds=seconds, shrunk=shrunk
    )  # fmt: skip
    if failures or not records:
        found = failures[0] if failures else {"kind": FailureKind.UNKNOWN, "message": "no row"}
        detail = str(found.get("detail", ""))[-DETAIL:]
        return replace(empty, kind=str(found["kind"]), message=str(found["message"])[:300], detail=detail)
    record = records[0]
    names = [
        node["name"] for node in record["graph"]["nodes"] if (node["op"], node["target"]) == ("placeholder", "input")
    ]
    return replace(
        empty, numeric=str(record["numeric"]), rung=f"{record['rung']}, {record['capture']}", nodes=record["num_nodes"],
        inputs=tuple(names),
    )  # fmt: skip


def configurations(rows: Iterable[ModelRef]) -> Iterator[ModelConfig | Outcome]:
    """The default configuration of each architecture, or why there is none."""
    for ref in rows:
        for found in resolve_configs(models=[ref], config=ConfigsConfig()):
            if isinstance(found, Failure):
                yield Outcome(
                    name=ref.name, kind=found.kind, message=found.message, numeric="", rung="", nodes=0, seconds=0.0,
                    shrunk=False,
                )  # fmt: skip
            elif not isinstance(found, ConfigLink):
                yield found


class Run:
    """Outcomes of a folder: what is there already, and what is added."""

    def __init__(self, folder: Path, retry: Sequence[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "outcomes.jsonl"
        self._lock = threading.Lock()
        self.outcomes: dict[str, Outcome] = {}
        for line in self._file.read_text().splitlines() if self._file.exists() else ():
            found = Outcome(**json.loads(line))
            self.outcomes[found.name] = found
        self.retried = {name for name, found in self.outcomes.items() if found.kind and found.kind in retry}

    def wants(self, name: str) -> bool:
        """Whether an architecture is still to be tried."""
        return name not in self.outcomes or name in self.retried

    def add(self, found: Outcome) -> None:
        """Keep an outcome, at once and for good."""
        with self._lock:
            self.outcomes[found.name] = found
            with self._file.open("a") as file:
                file.write(json.dumps(asdict(found)) + "\n")
        result = found.kind or f"{found.nodes} nodes, {found.numeric}, {found.rung}"
        print(f"{found.name:<70} {found.seconds:6.1f} s  {result}  {found.message[:150]}", file=sys.stderr, flush=True)


def trace_all(rows: Sequence[ModelRef], run: Run, options: argparse.Namespace) -> None:
    """Trace what the run still wants, `workers` at a time."""
    settings = {"numeric_limit_gib": options.numeric_limit, "seed": 0}
    call = Call(
        stage="graphs", function="extract.trace:trace", config_class="extract.trace:TraceConfig", config=settings,
        limits=Limits(timeout_s=options.timeout, memory_gib=options.memory, recycle_items=options.recycle),
    )  # fmt: skip

    def work(row: ModelConfig | Outcome) -> None:
        if isinstance(row, Outcome):
            run.add(row)
            return
        small = Text(json.dumps(shrink(json.loads(row.config)), sort_keys=True, separators=(",", ":")))
        shrunk = options.shrink and small != row.config
        found = attempt(pool, call, replace(row, config=small) if shrunk else row, shrunk=shrunk)
        if found.kind and shrunk:
            found = attempt(pool, call, row, shrunk=False)
        run.add(found)

    wanted = [row for row in rows if run.wants(row.name)]
    work_folder = Path(options.out) / ".work"
    with ChildPool(workers=options.workers, work=work_folder) as pool, ThreadPoolExecutor(options.workers) as threads:
        for _ in threads.map(work, configurations(wanted)):
            pass


# --- the figures ----------------------------------------------------------------------------------------------------
def wilson(good: int, tried: int) -> list[float]:
    """The 95% Wilson score interval of a share (Wilson 1927)."""
    z, share = 1.96, good / tried
    middle = share + z * z / (2 * tried)
    spread = z * math.sqrt(share * (1 - share) / tried + z * z / (4 * tried * tried))
    return [round((middle + sign * spread) / (1 + z * z / tried), 4) for sign in (-1, 1)]


def report(groups: Mapping[str, Sequence[ModelRef]], chosen: Mapping[str, Sequence[ModelRef]], run: Run) -> dict[str, Any]:  # fmt: skip # noqa: E501
    """All figures of the outcomes that the chosen architectures have."""
    found: dict[str, Any] = {}
    counts: dict[str, list[int]] = {}
    seen: dict[str, Outcome] = {}
    for group, rows in chosen.items():
        outcomes = [run.outcomes[row.name] for row in rows if row.name in run.outcomes]
        seen |= {item.name: item for item in outcomes}
        admitted = sum(not item.kind for item in outcomes)
        found[group] = round(admitted / len(outcomes), 4) if outcomes else None
        counts[group] = [admitted, len(outcomes), len(groups[group])]
    failed = [item for item in seen.values() if item.kind]
    graphs = [item for item in seen.values() if not item.kind]
    checked = [item for item in graphs if item.numeric == "equal"]
    kinds = Counter(item.kind for item in failed)
    # A graph whose values differ is a failure of kind "numeric", so it was checked as well.
    tried = len(checked) + kinds["numeric"]
    found["unknown_failures"] = round(kinds["unknown"] / len(failed), 4) if failed else 0.0
    found["numeric_checked"] = round(tried / (len(graphs) + kinds["numeric"]), 4) if graphs else None
    found["numeric_equal"] = round(len(checked) / tried, 4) if tried else None
    found["counts"] = counts
    found["intervals"] = {
        group: wilson(good, tried) for group, (good, tried, listed) in counts.items() if 0 < tried < listed
    }
    found["failures"] = dict(kinds.most_common())
    found["shrunk"] = any(item.shrunk for item in seen.values())
    return found


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--out", default="runs/coverage", help="folder of the outcomes; continued if it has some")
    parser.add_argument("--sample", type=int, default=0, help="architectures of each group; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="decides the sample")
    parser.add_argument("--groups", default=",".join(GROUPS), help="groups to try, with commas between")
    parser.add_argument("--only", action="append", default=[], help="glob on names; may be repeated")
    parser.add_argument("--retry", action="append", default=[], help="kind of failure that is tried again")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds an architecture")
    parser.add_argument("--memory", type=float, default=5.0, help="GiB a child")
    parser.add_argument("--numeric-limit", type=float, default=1.0, help="GiB up to which values are compared")
    parser.add_argument("--recycle", type=int, default=16, help="architectures after which a child is replaced")
    parser.add_argument("--shrink", action="store_true", help="cut stacks of layers to two")
    parser.add_argument("--report-only", action="store_true", help="trace nothing")
    return parser.parse_args(arguments)


def main() -> None:
    """Trace and print."""
    options = parse_options()
    unknown = [name for name in options.groups.split(",") if name not in GROUPS]
    if unknown:
        raise SystemExit(f"unknown group {unknown[0]!r}: choose from {', '.join(GROUPS)}")
    groups = list_groups()
    only = tuple(options.only) or ("*",)
    chosen = {
        group: sample([row for row in groups[group] if any(listing.matches(row.name, glob) for glob in only)],
                      options.sample, options.seed)
        for group in options.groups.split(",")
    }  # fmt: skip
    run = Run(Path(options.out), options.retry)
    if not options.report_only:
        trace_all(list({row.name: row for rows in chosen.values() for row in rows}.values()), run, options)
    found = dict.fromkeys(GROUPS) | report(groups, chosen, run)
    if options.json:
        print(json.dumps(found))
        return
    for key, value in found.items():
        print(f"{key:<20}{value}")


if __name__ == "__main__":
    main()
