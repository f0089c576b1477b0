"""How fast architectures become graphs: against a loop of one process a model, and projected to a listing of 100,000.

    python -m benchmarks.extract_speed --json [--sample 60] [--seed 0] [--workers 2] [--block 20] [--no-largest]
    python -m benchmarks.extract_speed --json --minutes 25 --state speed.jsonl     # stops in time, goes on when asked

The same architectures, a seeded pick over the strata, go block by block through two ways on the same cores: a loop that
starts a process a model, which imports, builds (without weights), captures with `torch.compile` and saves the graph;
and the stage `graphs` as a build runs it and under the limits of a build, with values not compared, then saved. In its
turn each block goes through the stage once more, in workers of their own, with values compared, as builds do by
default: these seconds are those of the projection. Every architecture that gives a graph in the loop must give one in
the stage. Figures so far go to standard error after every block; with --minutes no block begins after so many, and the
result says how many architectures it rests on. With --state, blocks that a file holds are not measured again, and
what is measured is added to it. Writes to a temporary folder, that file and standard output.

| key                     | meaning                                                                                  |
|-------------------------|------------------------------------------------------------------------------------------|
| architectures, graphs, loop_graphs | tried, and how many gave a graph in either way                                |
| loop_wall_s, stage_wall_s          | wall seconds of both, blocks taken in turn; the stage's include its start     |
| loop_cpu_s, stage_cpu_s            | processor seconds of both, all processes                                      |
| speedup_vs_loop         | loop_wall_s / stage_wall_s: one process after another against `workers` of them          |
| speedup_per_core        | loop_cpu_s / stage_cpu_s: what a loop on every core would leave of it                     |
| nodes_per_s, models_per_s          | of the stage, a processor second                                              |
| admit_wall_s, admit_cpu_s          | the same with values compared, an architecture; its start included            |
| config_s                | seconds to resolve one configuration                                                     |
| distinct_100k           | distinct architectures in a listing, the mean of 20 simulated ones (`simulate`)          |
| projected_hours_100k    | wall hours for that listing with this many workers: configurations and traces            |
| mixtral_peak_gib        | peak resident GiB of a process that traces Mixtral 8x7B in full (46.7e9 parameters)      |
| largest_model, largest_parameters, largest_model_peak_gib | the same for the largest installed default configuration |
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from data.calls import Call, Item
from data.environment import environment_of_children
from data.pool import ChildPool
from flows.stages import STAGES
from schemas.arrow import from_bytes, from_table, to_bytes, to_table
from schemas.rows import GraphRecord, ModelConfig

GIB = 1 << 30
DISCOUNT, CONCENTRATION = 0.8, 1.0
"""Of the Pitman-Yor process that draws a listing. A model repeats a configuration seen k times with a chance in
proportion to k - DISCOUNT, else it brings a new one: few bases with thousands of fine-tunes, many with one. The
published 85,000 extracted graphs with 1,500 distinct ones (1.8%) would be a discount of 0.6, the published 4,973 models
with 244 graphs (4.9%) one of about 0.6 too; 0.8 assumes 13.4%, seven times more than the larger of the two listings."""
LISTINGS = 20
"""Simulated listings: the number of distinct configurations varies by a half from one to the next."""


# --- two ways -------------------------------------------------------------------------------------------------------
def capture_alone(row: ModelConfig, out: Path) -> None:
    """What a loop does for one model in a process of its own: build, capture, save."""
    import torch

    from extract.build import build_model, fake_scope
    from extract.inputs import wanted_inputs
    from schemas.fx import fake_input, lift

    built = build_model(row)
    wanted = wanted_inputs(built.model, row)
    found: list[Any] = []

    def keep(gm: Any, examples: Any) -> Any:
        found.append(gm)
        return gm.forward

    with torch.no_grad(), fake_scope(built):
        arguments = {item.name: fake_input(item.spec) for item in wanted}
        torch.compile(built.model, backend=keep, fullgraph=True, dynamic=False)(**arguments)
    out.write_text(lift(found[0]).to_json(), encoding="utf-8")


def loop(rows: Sequence[ModelConfig], folder: Path) -> int:
    """One process a model, one after another; -> how many gave a graph."""
    environment = environment_of_children({})
    for row in rows:
        path = folder / f"{row.architecture}.row"
        path.write_bytes(to_bytes([row], ModelConfig))
        command = [sys.executable, "-m", "benchmarks.extract_speed", "--capture", str(path)]
        subprocess.run(command, env=environment, capture_output=True, timeout=600, check=False)
    return len(list(folder.glob("*.json")))


def stage(pool: ChildPool, rows: Sequence[ModelConfig], workers: int, **config: Any) -> list[pa.Table]:
    """The stage as a build calls it; -> tables of graphs."""
    (planned,) = (found for found in STAGES if found.name == "graphs")
    call = Call(
        stage="graphs", function=planned.function, config_class=planned.config, config=config, limits=planned.limits
    )

    def one(row: ModelConfig) -> pa.Table | None:
        with pool.borrow() as child:
            tables = child.run_item(call, to_table([row], ModelConfig), Item(key=row.architecture, name=row.name))
        return tables.get("GraphRecord")

    with ThreadPoolExecutor(workers) as threads:
        return [table for table in threads.map(one, rows) if table is not None]


@contextmanager
def clocked(total: list[float]) -> Iterator[None]:
    """Add the wall seconds and the processor seconds of ended and running children to a total."""
    began, before = time.perf_counter(), children_cpu()
    yield
    total[0] += time.perf_counter() - began
    total[1] += children_cpu() - before


def children_cpu() -> float:
    """Processor seconds of all descendants so far, those that still run included."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime + sum(map(_cpu_of, _living(os.getpid())))


def _living(parent: int) -> list[int]:
    found = Path(f"/proc/{parent}/task").glob("*/children")
    below = [int(pid) for path in found for pid in path.read_text().split()]
    return [*below, *(pid for child in below for pid in _living(child))]


def _cpu_of(pid: int) -> float:
    """Own processor seconds of a process and of its ended children."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What was measured on some architectures; times are (wall seconds, processor seconds)."""

    start: int
    """Position of its first architecture."""
    architectures: int
    loop: tuple[float, float]
    stage: tuple[float, float]
    admitted: tuple[float, float]
    loop_graphs: int
    graphs: int
    nodes: int


def measure_block(rows: Sequence[ModelConfig], start: int, pools: tuple[ChildPool, ChildPool], workers: int) -> Block:
    """All ways over the same architectures, one after the other."""
    looped, staged, admitted = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with clocked(looped):
            loop_graphs = loop(rows, folder)
        with clocked(staged):
            tables = stage(pools[0], rows, workers, numeric_limit_gib=0.0)
            if tables:
                pq.write_table(pa.concat_tables(tables), folder / "graphs.parquet")
        with clocked(admitted):
            stage(pools[1], rows, workers)
    graphs = [row for table in tables for row in from_table(table, GraphRecord)]
    return Block(
        start=start, architectures=len(rows), loop=(looped[0], looped[1]), stage=(staged[0], staged[1]),
        admitted=(admitted[0], admitted[1]), loop_graphs=loop_graphs, graphs=len(graphs),
        nodes=sum(row.num_nodes for row in graphs),
    )  # fmt: skip


def compare(rows: Sequence[ModelConfig], options: argparse.Namespace) -> list[Block]:
    """All blocks, measured in turn as long as there is time, those known already left out."""
    until = time.monotonic() + 60 * options.minutes
    lines = options.state.read_text().splitlines() if options.state and options.state.exists() else []
    found = [Block(**json.loads(line)) for line in lines]
    known = {(block.start, block.architectures) for block in found}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        pools = tuple(
            stack.enter_context(ChildPool(workers=options.workers, work=Path(name) / part)) for part in ("fast", "full")
        )
        for start in range(0, len(rows), options.block):
            some = rows[start : start + options.block]
            if (start, len(some)) in known or (found and time.monotonic() > until):
                continue
            found.append(measure_block(some, start, (pools[0], pools[1]), options.workers))
            if options.state:
                with options.state.open("a") as file:
                    file.write(json.dumps(asdict(found[-1])) + "\n")
            print(json.dumps(summary(found)), file=sys.stderr, flush=True)
    return found


def summary(blocks: Sequence[Block]) -> dict[str, Any]:
    """The figures of some blocks together."""
    count, nodes = sum(block.architectures for block in blocks), sum(block.nodes for block in blocks)
    looped, staged, admitted = (
        [sum(pair) for pair in zip(*times, strict=True)]
        for times in zip(*((block.loop, block.stage, block.admitted) for block in blocks), strict=True)
    )
    return {
        "architectures": count, "graphs": sum(block.graphs for block in blocks),
        "loop_graphs": sum(block.loop_graphs for block in blocks),
        "loop_wall_s": round(looped[0], 1), "stage_wall_s": round(staged[0], 1), "loop_cpu_s": round(looped[1], 1),
        "stage_cpu_s": round(staged[1], 1), "speedup_vs_loop": round(looped[0] / staged[0], 2),
        "speedup_per_core": round(looped[1] / staged[1], 2), "nodes_per_s": round(nodes / staged[1], 1),
        "models_per_s": round(count / staged[1], 3), "admit_wall_s": round(admitted[0] / count, 2),
        "admit_cpu_s": round(admitted[1] / count, 2),
    }  # fmt: skip


# --- projection -----------------------------------------------------------------------------------------------------
def simulate(models: int, seed: int, discount: float = DISCOUNT) -> int:
    """Distinct configurations among so many models, drawn from a Pitman-Yor process."""
    draw, distinct = random.Random(seed), 0
    for seen in range(models):
        distinct += draw.random() < (CONCENTRATION + discount * distinct) / (CONCENTRATION + seen)
    return distinct


# --- memory ---------------------------------------------------------------------------------------------------------
def estimated_parameters(config: Any) -> float:
    """Parameters of a transformer in the usual layout, from its configuration; good enough to rank."""
    inner = getattr(config, "text_config", None) or config
    sizes = {name: getattr(inner, name, None) for name in _SIZES}
    hidden, layers, wide, experts, expert_wide, vocabulary = (
        float(value) if isinstance(value, int | float) else 0.0
        for value in (
            sizes["hidden_size"], sizes["num_hidden_layers"], sizes["intermediate_size"],
            next((sizes[name] for name in _SIZES[5:] if isinstance(sizes[name], int)), 1),
            sizes["moe_intermediate_size"] or sizes["intermediate_size"], sizes["vocab_size"],
        )
    )  # fmt: skip
    feed_forward = 3 * hidden * (experts * expert_wide if experts > 1 else wide)
    return layers * (4 * hidden**2 + feed_forward) + vocabulary * hidden


_SIZES = ("hidden_size", "num_hidden_layers", "intermediate_size", "moe_intermediate_size", "vocab_size",
          "num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")  # fmt: skip


def rank(rows: Sequence[ModelConfig]) -> list[ModelConfig]:
    """Transformers rows, one a model type, the one with most estimated parameters first."""
    from extract.configs import transformers_config

    one = {row.family: row for row in sorted(rows, key=lambda row: "ForCausalLM" in row.class_name)}
    sized = [
        (estimated_parameters(transformers_config(family, json.loads(row.config))), row) for family, row in one.items()
    ]
    return [row for _, row in sorted(sized, key=lambda pair: -pair[0])]


def peak_gib(row: ModelConfig, folder: Path) -> dict[str, Any]:
    """Peak resident GiB of a process that runs the stage on one row, and what became of it."""
    path = folder / "one.row"
    path.write_bytes(to_bytes([row], ModelConfig))
    command = [sys.executable, "-m", "benchmarks.extract_speed", "--trace", str(path)]
    done = subprocess.run(command, env=environment_of_children({}), capture_output=True, text=True, timeout=3000,
                          check=True)  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def trace_alone(row: ModelConfig) -> dict[str, Any]:
    """Run the stage on a row here, as a worker does."""
    from extract.trace import TraceConfig, trace, warm_up

    warm_up()
    (found,) = trace(row, TraceConfig())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB
    graph = found if isinstance(found, GraphRecord) else None
    return {"peak_gib": round(peak, 3), "parameters": graph.num_parameters if graph else 0,
            "message": "" if graph else getattr(found, "message", "")}  # fmt: skip


def memory(seed: int) -> dict[str, Any]:
    """Peaks of Mixtral and of the largest installed configuration, the largest in fact of the four that seem so."""
    from extract.build import parameter_bytes

    rows = [row for row in resolve(limit=10_000, seed=seed)[0] if row.library == "transformers"]
    mixtral = min((row for row in rows if row.family == "mixtral"), key=lambda row: "ForCausalLM" not in row.class_name)
    largest = max(rank(rows)[:4], key=parameter_bytes)
    with tempfile.TemporaryDirectory() as name:
        first, second = peak_gib(mixtral, Path(name)), peak_gib(largest, Path(name))
    return {
        "mixtral_peak_gib": first["peak_gib"], "mixtral_parameters": first["parameters"],
        "largest_model": largest.name, "largest_parameters": second["parameters"],
        "largest_model_peak_gib": second["peak_gib"], "largest_failure": second["message"],
    }  # fmt: skip


# --- the command ----------------------------------------------------------------------------------------------------
def resolve(*, select: tuple[str, ...] = (), limit: int, seed: int) -> tuple[list[ModelConfig], float]:
    """Configurations of a seeded pick, and the seconds that one takes once its library is loaded."""
    from extract.configs import ConfigsConfig, resolve_configs
    from extract.models import ModelsConfig, list_models
    from schemas.rows import ModelRef

    listed = list_models(config=ModelsConfig(select=select, limit=limit, seed=seed))
    models = [row for row in listed if isinstance(row, ModelRef)]
    rows = [row for row in resolve_configs(models=models, config=ConfigsConfig()) if isinstance(row, ModelConfig)]
    began = time.perf_counter()
    list(resolve_configs(models=models[:100], config=ConfigsConfig()))
    return rows, (time.perf_counter() - began) / len(models[:100])


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All figures."""
    rows, config_s = resolve(limit=options.sample, seed=options.seed)
    found = summary(compare(rows, options))
    distinct = round(statistics.mean(simulate(100_000, seed) for seed in range(LISTINGS)))
    hours = (distinct * found["admit_wall_s"] + 100_000 * config_s) / 3600
    found |= {"config_s": round(config_s, 5), "distinct_100k": distinct, "projected_hours_100k": round(hours, 2)}
    return found | (memory(options.seed) if options.largest else {})


def main() -> None:
    """Entry of `python -m benchmarks.extract_speed`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=60, help="architectures")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--block", type=int, default=20, help="architectures after which the other way has its turn")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no block begins after so many")
    parser.add_argument("--state", type=Path, help="file of blocks that are measured already, added to")
    parser.add_argument("--largest", action=argparse.BooleanOptionalAction, default=True, help="measure memory too")
    parser.add_argument("--json", action="store_true", help="print one flat JSON object")
    parser.add_argument("--capture", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--trace", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.capture or options.trace:
        (row,) = from_bytes((options.capture or options.trace).read_bytes(), ModelConfig)
        if options.capture:
            capture_alone(row, options.capture.with_suffix(".json"))
        else:
            print(json.dumps(trace_alone(row)))
        return
    found = measure(options)
    if options.json:
        print(json.dumps(found))
        return
    for key, value in found.items():
        print(f"{key:<26}{value}")


if __name__ == "__main__":
    main()
