"""Inductor's kernels for an H200 as reference solutions: run by Triton's interpreter, compared with eager.

    python -m benchmarks.mining_lifted --run runs/default --json

Reads the subgraphs of a run, prints. Pieces are the first by key, which is a digest: no topology twice, small enough to
interpret. A piece is compiled for the target, its generated module is run on the CPU, and its outputs are compared with
eager's by `passbench.check`, a float64 oracle at hand. Pieces whose module is not interpretable are named and left out.

| key            | meaning                                                     |
|----------------|-------------------------------------------------------------|
| lifted_pieces  | pieces whose kernels ran                                    |
| lifted_match   | share of them whose outputs agree with eager's              |
| lifted_wrong   | pattern and difference of the others                        |
| lifted_not_run | reasons why pieces were left out, with numbers              |
"""

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import torch

from data.store import RunDirectory
from fusion_mining.device import stand_in
from fusion_mining.interpret import NotInterpretable, lift_kernels, real_inputs
from fusion_mining.kernel_map import compile_graph
from fusion_mining.pieces import FUSIBLE, io_bytes
from fusion_mining.profile import RAISED_BY_OPS
from fusion_mining.targets import TARGETS
from passbench.check import compare
from passbench.inputs import materialize
from passbench.oracle import oracle_outputs
from schemas.fx import lower
from schemas.graph import Graph

MAX_BYTES = 1 << 19


def chosen(run: Path, most_calls: int) -> Iterator[tuple[str, Graph]]:
    """(pattern, graph) of small fusible pieces, no topology twice, in order of their keys, which is none."""
    seen: set[str] = set()
    for row in RunDirectory(run).iter_rows("subgraphs"):
        small = row.num_ops <= most_calls and io_bytes(row.graph) <= MAX_BYTES
        if row.kind == FUSIBLE and small and row.topology not in seen:
            seen.add(row.topology)
            yield row.pattern, row.graph


def difference(graph: Graph) -> str:
    """What differs between a graph's interpreted kernels and eager; empty if nothing. Raises NotInterpretable."""
    lifted = lift_kernels(compile_graph(graph, device="cuda"))
    actual = lifted(real_inputs(graph, seed=0))
    inputs = materialize(graph, seed=0)
    expected = lower(graph)(*inputs)
    if len(actual) != len(expected):
        raise NotInterpretable("outputs that are inputs")
    oracle = oracle_outputs(graph, materialize(graph, seed=0), len(expected)).values
    dense = [[value.contiguous() for value in values] for values in (expected, actual)]
    return compare(*dense, oracle=oracle).detail


def measure(pieces: Iterator[tuple[str, Graph]], wanted: int, seconds: float) -> dict[str, Any]:
    """Every figure, over the first `wanted` pieces that run, or as many as fit in some processor seconds."""
    stand_in(TARGETS["H200"])
    ran, wrong, left_out = 0, {}, Counter[str]()
    began = time.process_time()
    for pattern, graph in pieces:
        if ran == wanted or time.process_time() - began > seconds:
            break
        try:
            found = difference(graph)
        except NotInterpretable as reason:
            left_out[str(reason)] += 1
            continue
        except RAISED_BY_OPS as error:
            left_out[f"{type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}"] += 1
            continue
        ran += 1
        if found:
            wrong[pattern] = found
    return {
        "lifted_pieces": ran, "lifted_match": round(1 - len(wrong) / max(1, ran), 4), "lifted_wrong": wrong,
        "lifted_not_run": dict(left_out.most_common()), "lifted_s": round(time.process_time() - began, 1),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry of `python -m benchmarks.mining_lifted`."""
    parser = argparse.ArgumentParser(description="Generated kernels in the interpreter, against eager.")
    parser.add_argument("--run", type=Path, default=Path("runs/default"), help="a run directory with subgraphs")
    parser.add_argument("--pieces", type=int, default=200, help="pieces that must run")
    parser.add_argument("--calls", type=int, default=16, help="most calls of a piece")
    parser.add_argument("--seconds", type=float, default=3600.0, help="processor seconds after which no piece begins")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    with torch.no_grad():
        found = measure(chosen(options.run, options.calls), options.pieces, options.seconds)
    print(json.dumps(found) if options.json else "\n".join(f"{key:<16} {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
