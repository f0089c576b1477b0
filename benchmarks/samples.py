"""Whether graphs in the published layout are read as what they were written from: real models, written, read and run.

    python -m benchmarks.samples --json                              # 125 models, each in one style: about 20 minutes
    python -m benchmarks.samples --only bert,resnet18 --json         # a few models, in every style
    python -m benchmarks.samples --every --json                      # every model in every style

Traces tiny models of the installed libraries with Dynamo, writes each graph as a sample (`benchmarks.sample_writing`),
reads the sample back, and puts the graph that was read in place of Dynamo's in the compiled call: the outputs of the
model must be those of the model itself, bit for bit. Also compares what the reader says of each argument with the
tensor that it was written from. Writes a temporary folder and standard output; refusals go to standard error.

| key        | meaning                                                                                     |
|------------|---------------------------------------------------------------------------------------------|
| models     | calls that were traced, one a model and style                                               |
| samples    | graphs written: a call that breaks gives several                                            |
| admitted   | samples that were read                                                                      |
| refused    | samples that were not, by kind in `kinds`                                                   |
| equal      | calls all of whose graphs were read and whose outputs are the model's, bit for bit          |
| unequal    | calls whose outputs differ                                                                  |
| described  | arguments whose initialiser gives the numbers, range, mean and deviation they were written from |
| misdescribed | arguments whose does not                                                                  |
| seconds    | processor seconds of reading alone                                                          |
"""

import argparse
import copy
import json
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from benchmarks.sample_writing import Style, Traced, publish
from benchmarks.sample_zoo import NAMES, build
from extract.failures import LIBRARY_ERRORS, failure_kind
from extract.initialisers import STATISTICS
from extract.numeric import first_unequal
from extract.samples import read_sample
from passbench.inputs import number, value_of
from schemas import values
from schemas.fx import lower
from schemas.graph import Graph

STYLES = {
    "plain": Style(), "dynamic": Style(dynamic=True), "renamed": Style(renamed=True),
    "bare": Style(dynamic=True, bare_scalars=True), "autocast": Style(autocast=True),
}  # fmt: skip
"""Ways in which samples are published."""
ROUNDED = 0.00051
"""Largest error of a number of three decimals."""


@dataclass(slots=True)
class Result:
    """What the models gave."""

    counts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


def plan(names: Sequence[str], *, every: bool) -> Iterator[tuple[str, str]]:
    """(model, style): each model in one style, taken in turn, or in all of them."""
    styles = list(STYLES)
    for place, name in enumerate(names):
        yield from ((name, style) for style in (styles if every else [styles[place % len(styles)]]))


def try_one(name: str, style: str, folder: Path, result: Result) -> None:
    """Write, read and run one model; a model that Dynamo cannot trace is no matter of samples and not counted."""
    model, inputs = build(name)
    try:
        traced = publish(model, inputs, folder, STYLES[style])
        wanted = eager(model, inputs, traced)
    except (*LIBRARY_ERRORS, torch._dynamo.exc.TorchDynamoException) as error:
        print(f"{name} {style}: not traced: {type(error).__name__}", file=sys.stderr, flush=True)
        return
    result.counts["models"] += 1
    whole = [read_one(traced, place, f"{name} {style}", result) for place in range(len(traced.folders))]
    if not all(whole):
        return
    difference = first_unequal(pytree.tree_leaves(wanted), pytree.tree_leaves(traced.call()))
    result.counts["unequal" if difference else "equal"] += 1
    if difference:
        print(f"{name} {style}: {difference}", file=sys.stderr, flush=True)


def eager(model: torch.nn.Module, inputs: tuple[tuple[Any, ...], dict[str, Any]], traced: Traced) -> Any:
    """What the model itself gives for the inputs."""
    args, kwargs = copy.deepcopy(inputs)
    torch.manual_seed(0)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=traced.autocast):
        return model(*args, **kwargs)


def read_one(traced: Traced, place: int, label: str, result: Result) -> bool:
    """Read one sample and put it in place of its graph; whether it was read."""
    result.counts["samples"] += 1
    began = time.process_time()
    try:
        graph = read_sample(traced.folders[place])
    except LIBRARY_ERRORS as error:
        kind = str(failure_kind(error))
        result.counts["refused"] += 1
        result.kinds[kind] += 1
        print(f"{label} {place}: {kind}: {error}", file=sys.stderr, flush=True)
        return False
    finally:
        result.seconds += time.process_time() - began
    result.counts["admitted"] += 1
    traced.replace(place, lower(graph))
    for position, given in enumerate(traced.arguments[place]):
        if isinstance(given, torch.Tensor):
            why = misdescribed(graph, position, given.detach())
            result.counts["misdescribed" if why else "described"] += 1
            if why:
                print(f"{label} {place}: {why}", file=sys.stderr, flush=True)
    return True


def misdescribed(graph: Graph, position: int, given: torch.Tensor) -> str:
    """Why an argument's spec or initialiser is not that of the tensor it was written from; empty if it is."""
    node = graph.nodes[graph.placeholders[position]]
    spec, raw = node.outputs[0], values.loads(graph.inits[position])
    if (spec.dtype, spec.shape) != (str(given.dtype).removeprefix("torch."), tuple(given.shape)):
        return f"{node.name}: {spec.dtype}{list(spec.shape)} was {given.dtype}{list(given.shape)}"
    if raw["kind"] in ("literal", "constant"):
        made = value_of(graph.inits[position], spec, seed=0)
        assert isinstance(made, torch.Tensor)
        near = made.equal(given) or (given.is_floating_point() and bool(((made - given).abs() <= ROUNDED).all()))
        return "" if near or given.isnan().any() else f"{node.name}: other numbers than it was written from"
    if raw["kind"] == "integers":
        bounds = (int(given.min()), int(given.max()) + 1)
        return "" if (raw["low"], raw["high"]) == bounds else f"{node.name}: not the range {bounds}"
    if raw["kind"] == "normal" and given.is_floating_point():
        return _moments(node.name, raw, given, is_parameter=node.target == "parameter")
    return ""


def _moments(name: str, raw: dict[str, Any], given: torch.Tensor, *, is_parameter: bool) -> str:
    wide = given.double()
    mean, deviation = float(wide.mean()), float(wide.std(correction=0))
    if not (torch.tensor([mean, deviation]).isfinite().all()) or any(leaf in name for leaf in STATISTICS):
        return ""  # running statistics are made as after some training
    drawn = is_parameter and round(deviation, 3) == 0  # a constant parameter is varied on purpose
    near = abs(number(raw["mean"]) - mean) <= ROUNDED and (drawn or abs(number(raw["std"]) - deviation) <= ROUNDED)
    return "" if near else f"{name}: mean {mean:.3f} and deviation {deviation:.3f} became {raw}"


def measure(names: Sequence[str], *, every: bool) -> dict[str, Any]:
    """Try the models and return the flat result."""
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    result = Result()
    for name, style in plan(names, every=every):
        with tempfile.TemporaryDirectory() as folder:
            try_one(name, style, Path(folder), result)
        print(f"{name} {style} {dict(result.counts)}", file=sys.stderr, flush=True)
    keys = ("models", "samples", "admitted", "refused", "equal", "unequal", "described", "misdescribed")
    return {
        **{key: result.counts[key] for key in keys}, "kinds": dict(sorted(result.kinds.items())),
        "seconds": round(result.seconds, 1),
    }  # fmt: skip


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="parts of model names, separated by commas")
    parser.add_argument("--first", type=int, default=0, help="number of the first model")
    parser.add_argument("--count", type=int, default=len(NAMES), help="how many models from there on")
    parser.add_argument("--every", action="store_true", help="every model in every style")
    parser.add_argument("--json", action="store_true", help="print one flat JSON object")
    options = parser.parse_args()
    parts = [part for part in options.only.split(",") if part]
    chosen = NAMES[options.first : options.first + options.count]
    names = [name for name in chosen if not parts or any(part in name for part in parts)]
    found = measure(names, every=options.every or bool(parts))
    print(json.dumps(found) if options.json else "\n".join(f"{key}: {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()
