"""Whether any configuration, however malformed, costs more than one row.

    python -m benchmarks.extract_mutated --json                  # 2,000 mutated configurations, two workers
    python -m benchmarks.extract_mutated --configs 40 --seed 3   # a sample

Small configurations of several model types are mutated (types swapped, huge, negative, missing, nested, unicode,
strings of 10 MB) and traced in a real pool with limits on time and memory, as a build has them. Prints

| key                     | meaning                                                                                  |
|-------------------------|------------------------------------------------------------------------------------------|
| configs, rows           | tried, and rows that came back: one each is right                                        |
| not_one_row             | configurations that gave no row or several                                               |
| crashed_runs            | exceptions that left the pool                                                            |
| over_memory             | workers whose peak resident size, by the kernel's account, was above `limit_gib`         |
| over_time               | items answered later than `limit_s` and what ending a worker may take                    |
| over_limit              | both together                                                                            |
| peak_worker_gib, slowest_s | the worst worker and the slowest item                                                 |
| ended_workers           | workers that were killed or died of an item, by the kind of their Failure                |
| unknown_share, kinds    | share of failures of kind "unknown"; graphs and failures by kind                         |

The peak is that of a worker's whole life; a killed worker's counts too. Progress goes to standard error, and nothing
is written but a temporary folder.
"""

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from data.calls import Call, Item, Limits, StageFailed
from data.pool import GIB, ChildPool
from schemas.arrow import to_table
from schemas.rows import ModelConfig, Text, content_id

_DEEP, _LONG = 300, 10_000_000
"""Levels of nesting, bytes of a string."""
_TEXT = {
    "num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "vocab_size": 100,
    "max_position_embeddings": 64,
}  # fmt: skip
_IMAGE = {"image_size": 32, "patch_size": 8, "num_channels": 3}
BASES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert/BertModel": ("text-encoder", _TEXT),
    "llama/LlamaModel": ("text-decoder", {**_TEXT, "num_key_value_heads": 2, "rope_parameters": {
        "rope_type": "default", "rope_theta": 10000.0}}),
    "gpt2/GPT2Model": ("text-decoder", {"n_layer": 1, "n_embd": 32, "n_head": 4, "vocab_size": 100, "n_positions": 64}),
    "mixtral/MixtralModel": ("moe", {**_TEXT, "num_key_value_heads": 2, "num_local_experts": 4}),
    "t5/T5Model": ("seq2seq", {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4,
                               "vocab_size": 100}),
    "vit/ViTModel": ("vision-transformer", {**_TEXT, **_IMAGE}),
    "resnet/ResNetModel": ("vision-conv", {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}),
    "clip/CLIPModel": ("multimodal", {"text_config": _TEXT, "vision_config": {**_TEXT, **_IMAGE},
                                      "projection_dim": 16}),
}  # fmt: skip
"""Model name -> (modality, a configuration that traces in about a second)."""
VALUES: tuple[tuple[str, Any], ...] = (
    ("type", "seven"), ("type", None), ("type", []), ("type", {}), ("type", True), ("type", 0.5), ("type", [1, "a"]),
    ("huge", 2**31), ("huge", 10**12), ("huge", 10**30), ("huge", 1e308), ("huge", float("inf")),
    ("huge", float("nan")), ("negative", -1), ("negative", -(2**40)), ("negative", 0),
    ("unicode", "\u202eпрямо\x00\ud83d\ude00"), ("unicode", "\ud800"), ("unicode", "../" * 50),
)  # fmt: skip
"""(kind of mutation, value put in place of another)."""
LIMITS = Limits(timeout_s=20.0, memory_gib=3.0, recycle_items=50, hard=True)
GRACE_S = 3.0
"""How long it may take to see that a worker is late, to end it and to wait for its end, on a machine that is busy."""
CALL = Call(
    stage="graphs", function="extract.trace:trace", config_class="extract.trace:TraceConfig", limits=LIMITS,
    config={"numeric_limit_gib": 0.1},
)  # fmt: skip


def mutated(settings: Mapping[str, Any], random_: random.Random) -> dict[str, Any]:
    """A configuration with one to three mutations, drawn from the generator."""
    found: dict[str, Any] = json.loads(json.dumps(settings))
    for _ in range(random_.choice((1, 1, 2, 3))):
        level = random_.choice([found, *(value for value in found.values() if isinstance(value, dict) and value)])
        key = random_.choice(sorted(level) or ["hidden_size"])
        how = random_.choice(("value", "value", "value", "value", "missing", "nested", "long", "name"))
        if how == "missing":
            level.pop(key, None)
        elif how == "nested":
            level[key] = _nested(level.get(key), random_.choice((1, 5, _DEEP)))
        elif how == "long":
            letter = random_.choice("aé😀")
            level[key] = letter * (_LONG // len(letter.encode()))
        else:
            target = random_.choice(("é" * 100, "__class__", "_attn_implementation")) if how == "name" else key
            level[target] = random_.choice(VALUES)[1]
    return found


def _nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = {"inner": value}
    return value


def rows(count: int, seed: int) -> Iterator[ModelConfig]:
    """That many mutated rows, spread over `BASES`, a pure function of the seed."""
    random_ = random.Random(seed)
    for number in range(count):
        name, (modality, base) = sorted(BASES.items())[number % len(BASES)]
        family, class_name = name.split("/")
        config = json.dumps({"model_type": family, **mutated(base, random_)})
        yield ModelConfig(
            architecture=content_id(str(number), config), name=name, library="transformers",
            library_version=version("transformers"), class_name=class_name, config=Text(config), family=family,
            modality=modality, license="apache-2.0",
        )  # fmt: skip


@dataclass(slots=True)
class Result:
    """What a run gave."""

    done: int = 0
    rows: int = 0
    not_one_row: int = 0
    crashed_runs: int = 0
    over_time: int = 0
    slowest_s: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


def trace_one(pool: ChildPool, row: ModelConfig, result: Result) -> None:
    """Trace one row in the pool and count what came back."""
    with pool.borrow() as child:
        began = time.monotonic()
        try:
            tables = child.run_item(CALL, to_table([row], ModelConfig), Item(key=row.architecture, name=row.name))
        except StageFailed:
            tables = None
        wall = time.monotonic() - began
        ended = child.process is None
    if tables is None:
        with result.lock:
            result.crashed_runs += 1
        return
    kinds = [str(kind) for kind in tables["Failure"]["kind"].to_pylist()] if "Failure" in tables else []
    kinds += ["graph"] * (tables["GraphRecord"].num_rows if "GraphRecord" in tables else 0)
    with result.lock:
        result.done += 1
        result.rows += len(kinds)
        result.not_one_row += len(kinds) != 1
        result.kinds.update(kinds)
        result.ended.update(kinds[:1] if ended else ())
        result.slowest_s = max(result.slowest_s, wall)
        result.over_time += wall > LIMITS.timeout_s + GRACE_S
        if "unknown" in kinds:
            print(row.name, tables["Failure"]["message"].to_pylist(), file=sys.stderr, flush=True)
        if result.done % 20 == 0:
            print(f"{result.done} done, {dict(result.kinds)}", file=sys.stderr, flush=True)


def work_off(pool: ChildPool, waiting: Iterator[ModelConfig], result: Result) -> None:
    """Trace rows until none waits; each is made when its turn comes, for some are large."""
    while True:
        with result.lock:
            row = next(waiting, None)
        if row is None:
            return
        trace_one(pool, row, result)


def warm(pool: ChildPool, row: ModelConfig) -> None:
    """Load the stage, which the limit on an item's time does not cover."""
    with pool.borrow() as child:
        child.run_item(CALL, to_table([row], ModelConfig), Item(key=row.architecture, name=row.name))


def measure(count: int, seed: int, workers: int = 2) -> dict[str, Any]:
    """Trace that many mutated configurations and return the flat result."""
    result = Result()
    with tempfile.TemporaryDirectory() as work, ChildPool(workers=workers, work=Path(work) / "pool") as pool:
        warm(pool, next(rows(1, seed + 1)))
        with ThreadPoolExecutor(workers) as threads:
            waiting = rows(count, seed)
            for done in [threads.submit(work_off, pool, waiting, result) for _ in range(workers)]:
                done.result()
    peaks = [peak / GIB for peak in pool.child_peaks]
    over_memory = sum(peak > LIMITS.memory_gib for peak in peaks)
    failed = sum(result.kinds.values()) - result.kinds["graph"]
    return {
        "configs": count, "rows": result.rows, "not_one_row": result.not_one_row, "crashed_runs": result.crashed_runs,
        "over_limit": over_memory + result.over_time, "over_memory": over_memory, "over_time": result.over_time,
        "workers": len(peaks), "limit_gib": LIMITS.memory_gib, "peak_worker_gib": round(max(peaks), 3),
        "limit_s": LIMITS.timeout_s, "slowest_s": round(result.slowest_s, 1),
        "ended_workers": dict(sorted(result.ended.items())),
        "unknown_share": round(result.kinds["unknown"] / max(failed, 1), 5),
        "kinds": dict(sorted(result.kinds.items())),
    }  # fmt: skip


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configs", type=int, default=2000, help="how many configurations")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print one flat JSON object")
    options = parser.parse_args()
    found = measure(options.configs, options.seed, options.workers)
    print(json.dumps(found) if options.json else "\n".join(f"{key}: {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
