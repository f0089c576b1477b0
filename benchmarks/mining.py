"""All figures of mining: enumeration, kernel maps without a GPU, and kernels taken over from the compiler.

    python -m benchmarks.mining --run runs/default --json              # everything; hours on one core
    python -m benchmarks.mining --only enumeration --only provenance   # parts

Reads a run; prints. Each part is a module of its own that can be run alone and explains its keys: `mining_brute`
(brute), `mining_checked` (provenance), `mining_prefix` (prefix), `mining_maps` (maps, resumable), `mining_lifted`
(lifted); enumeration is here.

| key                | meaning                                                                                    |
|--------------------|--------------------------------------------------------------------------------------------|
| candidates_per_s   | convex connected sets without dangling views a processor second of enumeration (folding,   |
|                    | growth, the canonical key of what is admitted), shifts of folded sets included             |
| grown_per_s        | those that were built themselves                                                           |
| pieces_per_s       | admitted pieces with canonical key, at all their places, in the same time                  |
| mined_per_s        | candidates a processor second of the whole stage (also rewriting, op classes, blocks)      |
| capped_graphs      | graphs of which a sample was grown                                                         |
| linear_fit_r2      | r squared of seconds = a + b * grown sets within one graph, limits of growth raised        |
"""

import argparse
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mining_maps import row_of, sample_of
from fusion_mining.fold import stretches
from fusion_mining.grow import GrowConfig, grow, wiring_of
from fusion_mining.mine import FUSIBLE, MineConfig, Place, keyed, mine
from fusion_mining.op_classes import classes_of
from schemas.canonical import nested_form
from schemas.forms import tokens_of
from schemas.functional import functionalise
from schemas.rows import CanonicalGraph

PARTS = {
    "brute": "mining_brute",
    "provenance": "mining_checked",
    "prefix": "mining_prefix",
    "maps": "mining_maps",
    "lifted": "mining_lifted",
}


CAPS = (100, 300, 1000, 2000, 4000, 8000)
"""Limits of growth (`GrowConfig.max_sets`) of the linear fit."""


def counted(row: CanonicalGraph, config: MineConfig) -> tuple[int, int, int, float, bool]:
    """(candidates, those built, pieces at all places, processor seconds, whether a sample) of enumerating one graph."""
    graph = functionalise(row.graph)
    tokens = tokens_of(graph, tuple(nested_form(text) for text in graph.subgraphs))
    classes, records = classes_of(graph, tokens), [token.records[0] for token in tokens]
    began = time.process_time()
    found = grow(graph, config.grow, wiring_of(graph, config.grow, classes), stretches(graph, records, classes))
    places = [
        Place(kind=FUSIBLE, rule="grown", nodes=nodes, more=more)
        for nodes, (_, more) in zip(found.sets, found.shifts, strict=True)
    ]
    pieces = sum(1 + place.more for place, _ in keyed(graph, tokens, places))
    return found.candidates, found.grown, pieces, time.process_time() - began, found.capped


def enumeration(run: Path, size: int, seed: int) -> dict[str, Any]:
    """Speed of growing and keying over a sample of a run's classes."""
    rows = [row_of(run, key) for key, _ in sample_of(run, size, seed)]
    random.Random(seed).shuffle(rows)
    began = time.process_time()
    for row in rows:
        list(mine(row, MineConfig()))
    whole = time.process_time() - began
    sets, grown, pieces, seconds, capped = np.array([counted(row, MineConfig()) for row in rows], dtype=float).T
    largest = rows[int(grown.argmax())]
    raised = [counted(largest, MineConfig(grow=GrowConfig(max_sets=cap))) for cap in CAPS]
    return {
        "enumerated_graphs": len(rows), "candidates": int(sets.sum()),
        "candidates_per_s": round(float(sets.sum() / seconds.sum())),
        "grown_per_s": round(float(grown.sum() / seconds.sum())),
        "pieces_per_s": round(float(pieces.sum() / seconds.sum())),
        "mined_per_s": round(float(sets.sum() / whole)),
        "capped_graphs": int(capped.sum()),
        "linear_fit_r2": fit([(found, took) for _, found, _, took, _ in raised]),
        "linear_points": [[found, round(took, 3)] for _, found, _, took, _ in raised],
    }  # fmt: skip


def fit(points: list[tuple[int, float]]) -> float:
    """r squared of seconds = a + b * sets."""
    sets, seconds = np.array(points, dtype=float).T
    slope, offset = np.polyfit(sets, seconds, 1)
    left = float(((seconds - slope * sets - offset) ** 2).sum())
    return round(1 - left / float(((seconds - seconds.mean()) ** 2).sum()), 4)


def part(module: str, run: Path) -> dict[str, Any]:
    """The figures of one part, from a process of its own: each stands in for a GPU or interprets."""
    command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.{module}", "--json"]
    command += ["--run", str(run)] if module not in ("mining_brute", "mining_checked") else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"benchmarks.{module} failed: {(done.stderr.splitlines() or [''])[-1]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Entry of `python -m benchmarks.mining`."""
    parser = argparse.ArgumentParser(description="All figures of mining.")
    parser.add_argument("--run", type=Path, default=Path("runs/default"), help="a run directory")
    parser.add_argument("--graphs", type=int, default=30, help="graphs that are enumerated")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--only", action="append", choices=["enumeration", *PARTS], help="a part; repeatable")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    wanted = options.only or ["enumeration", *PARTS]
    found = enumeration(options.run, options.graphs, options.seed) if "enumeration" in wanted else {}
    for name, module in PARTS.items():
        found |= part(module, options.run) if name in wanted else {}
    print(json.dumps(found) if options.json else "\n".join(f"{key:<20} {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
