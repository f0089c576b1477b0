"""Whether the keys that a canonical configuration leaves out shape no graph, tested on the installed transformers.

    python -m benchmarks.architecture_keys --json
    python -m benchmarks.architecture_keys --sample 8 --seed 1 --json

Two questions. Of what the library says: which model types read an irrelevant key outside of the functions that make
initial weights and of the computation of a loss, by its source? Each of them is traced, unless
`extract.configs.SHAPING` keeps the key there. Of what happens: of a seeded sample of (model type, class), and of those,
the raw configuration and one in which every irrelevant key has another value, nested ones too, are traced apart. Equal
architecture keys must give equal exact classes; where they do not, each key is tried alone. Networks are cut to few
layers.

| key             | meaning                                                                                     |
|-----------------|---------------------------------------------------------------------------------------------|
| pairs           | (model type, class) pairs tried                                                             |
| traced          | pairs of which the raw configuration gave a graph                                           |
| equal           | traced pairs whose varied configuration has the same exact class                            |
| unequal         | the others, with the keys that changed the graph                                            |
| untraced        | pairs that gave no graph, with the kind of failure                                          |
| variations      | values varied in all traced pairs together                                                  |
| keys            | irrelevant key -> traced pairs in which it was varied                                       |
| readers         | irrelevant key -> model types whose source reads it and that do not keep it                 |

Reads the installed transformers and its source; writes standard output, and every pair as it is done to standard
error. Models are built in child processes.
"""

import argparse
import ast
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from data.calls import Call, Item, Limits
from data.pool import Child, ChildPool
from extract.catalog import load_catalog
from extract.configs import IRRELEVANT, PINNED, canonical_config, is_irrelevant, transformers_config
from extract.failures import LIBRARY_ERRORS
from extract.models import list_transformers
from schemas.arrow import from_table, to_table
from schemas.canonical import canonicalize
from schemas.rows import Failure, GraphRecord, ModelConfig, ModelRef, Text, content_id

CALL = Call(
    stage="graphs", function="extract.trace:trace", config_class="extract.trace:TraceConfig",
    config={"numeric_limit_gib": 0.0, "real_limit_gib": 0.5}, limits=Limits(timeout_s=180.0, memory_gib=4.0),
)  # fmt: skip
DEPTHS = (
    "num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers",
    "num_encoder_layers",
)  # fmt: skip
"""Keys that count equal blocks; cut to `LAYERS` where that gives a graph."""
LAYERS = 2
WEIGHTS = frozenset({"_init_weights", "init_weights", "_init_weight", "initialize_weights", "reset_parameters"})
"""Functions that make initial weights: what they read shapes no graph."""
SPOKEN = frozenset({"save_pretrained", "generate", "load_adapter"})
"""Functions that no traced call enters."""


# --- what the library's source says ---------------------------------------------------------------------------------
def readers(key: str) -> list[str]:
    """Folders of model types whose code reads a key outside of `WEIGHTS` and `SPOKEN`, and that do not keep it."""
    import transformers

    found = []
    for folder in sorted(Path(transformers.models.__file__).parent.iterdir()):
        files = [*folder.glob("modeling_*.py"), *folder.glob("configuration_*.py")]
        if any(_reads(path, key) for path in files) and is_irrelevant(key, (folder.name,)):
            found.append(folder.name)
    return found


def _reads(path: Path, key: str) -> bool:
    text = path.read_text(encoding="utf-8")
    return key in text and any(not ({*scope} & (WEIGHTS | SPOKEN)) for scope in _scopes(ast.parse(text), key, ()))


def _scopes(node: ast.AST, key: str, scope: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The enclosing names of every reading of an attribute of that name; not of those that compute a loss."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "labels" in ast.unparse(child.test):
            continue
        named = isinstance(child, ast.FunctionDef | ast.ClassDef)
        inner = (*scope, child.name) if named else scope  # type: ignore[attr-defined]
        if isinstance(child, ast.Attribute) and child.attr == key and isinstance(child.ctx, ast.Load):
            yield inner
        yield from _scopes(child, key, inner)


# --- variations -----------------------------------------------------------------------------------------------------
def other(key: str, value: Any) -> Any:
    """Another value of the same sort for an irrelevant key."""
    if key == "id2label":
        return {index: f"other {index}" for index in value or range(2)}
    if key == "label2id":
        return {f"other {index}": index for index in range(len(value or range(2)))}
    if key == "problem_type":
        return "multi_label_classification" if value != "multi_label_classification" else "regression"
    if key == "architectures":
        return ["OtherClass"]
    if key in ("task_specific_params", "auto_map"):
        return {"other": {"max_length": 9}} if key == "task_specific_params" else {"AutoModel": "other--other.Other"}
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return 0 if value == 1 else 1
    if isinstance(value, float):
        return value * 3 + 0.01
    return [other(key, item) for item in value] if isinstance(value, list) else "other"


def varied(
    settings: Mapping[str, Any], only: str = "", types: tuple[str, ...] = ()
) -> tuple[dict[str, Any], Counter[str]]:
    """The settings with another value for every irrelevant key, or for one, at every depth; how often for each."""
    kind = settings.get("model_type")
    types = (*types, str(kind)) if kind else types
    found: dict[str, Any] = {}
    counts: Counter[str] = Counter()
    pinned = tuple(glob for glob, _ in PINNED)
    for key, value in settings.items():
        found[key] = value
        if isinstance(value, Mapping) and not is_irrelevant(key, types):
            found[key], inner = varied(value, only, types)
            counts += inner
        elif only in ("", key) and is_irrelevant(key, types) and not any(fnmatchcase(key, glob) for glob in pinned):
            found[key] = other(key, value)
            counts[key] += found[key] != value
    return found, counts


def shallow(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with few equal blocks, at every depth."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        cut = key in DEPTHS and isinstance(value, int) and value > LAYERS
        found[key] = LAYERS if cut else shallow(value) if isinstance(value, Mapping) else value
    return found


# --- tracing --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a configuration gave."""

    key: str = ""
    """Exact key of its graph; empty if there is none."""
    failure: str = ""
    """Kind of its failure."""


def exact_key(child: Child, row: ModelRef, settings: Mapping[str, Any]) -> Outcome:
    """Trace a class with a raw configuration in a child process."""
    text = json.dumps(settings)
    config = ModelConfig(
        architecture=content_id(row.name, text), name=row.name, library=row.library, library_version="",
        class_name=row.name.split("/")[-1], config=Text(text), family=row.family, modality=row.modality, license="",
    )  # fmt: skip
    tables = child.run_item(CALL, to_table([config], ModelConfig), Item(key=config.architecture, name=row.name))
    if "GraphRecord" in tables:
        return Outcome(key=canonicalize(from_table(tables["GraphRecord"], GraphRecord)[0].graph).key)
    return Outcome(failure=from_table(tables["Failure"], Failure)[0].kind.value)


def default_settings(row: ModelRef) -> dict[str, Any] | None:
    """The default configuration of a model type with every irrelevant key that the library knows set, or None."""
    try:
        raw = json.loads(json.dumps(transformers_config(row.family, {}).to_dict()))
    except (*LIBRARY_ERRORS, RecursionError):
        return None
    raw |= {"_name_or_path": "here", "tokenizer_class": "Here", "finetuning_task": "here", "auto_map": {}}
    return {"architectures": ["Here"], "task_specific_params": {}, **raw}


def compare_pair(child: Child, row: ModelRef, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Trace a pair as it is and varied; the keys that matter alone, if the two differ."""
    base = shallow(settings)
    first = exact_key(child, row, base)
    if first.failure:
        base = dict(settings)
        first = exact_key(child, row, base)
    changed, counts = varied(base)
    assert canonical_config(changed) == canonical_config(base), f"{row.name}: the variation changed the key"
    if first.failure:
        return {"name": row.name, "failure": first.failure}
    if exact_key(child, row, changed).key == first.key:
        return {"name": row.name, "equal": True, "varied": counts}
    guilty = [key for key in counts if exact_key(child, row, varied(base, key)[0]).key != first.key]
    return {"name": row.name, "equal": False, "varied": counts, "keys": guilty}


def choose(pool: Sequence[ModelRef], *, sample: int, seed: int, types: Sequence[str]) -> list[ModelRef]:
    """A seeded sample of pairs, and the first class of every one of these model types."""
    chosen = random.Random(seed).sample(list(pool), min(sample, len(pool)))
    for kind in types:
        chosen += [row for row in pool if row.family.replace("-", "_").startswith(kind)][:1]
    return sorted(dict.fromkeys(chosen), key=lambda row: row.name)


def report(results: Sequence[Mapping[str, Any]], reading: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The figures of the table above."""
    traced = [item for item in results if "equal" in item]
    keys: Counter[str] = Counter()
    for item in traced:
        keys.update({key: 1 for key, count in item["varied"].items() if count})
    return {
        "pairs": len(results), "traced": len(traced), "equal": sum(item["equal"] for item in traced),
        "unequal": {item["name"]: item["keys"] for item in traced if not item["equal"]},
        "untraced": {item["name"]: item["failure"] for item in results if "failure" in item},
        "variations": sum(sum(item["varied"].values()) for item in traced),
        "keys": {glob: sum(keys[key] for key in keys if fnmatchcase(key, glob)) for glob, _ in IRRELEVANT},
        "readers": reading,
    }  # fmt: skip


def main() -> None:
    """Print the figures, or one line a figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, default=24, help="pairs drawn from all (model type, class) pairs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    plain = [key for key, _ in IRRELEVANT if "*" not in key] + ["initializer_range", "initializer_factor"]
    reading = {key: found for key in plain if (found := readers(key))}
    types = sorted({kind for key, found in reading.items() for kind in found})
    rows = choose(list_transformers(load_catalog()), sample=given.sample, seed=given.seed, types=types)
    results = []
    with tempfile.TemporaryDirectory() as work, ChildPool(workers=1, work=Path(work) / "keys") as pool:
        for row in rows:
            settings = default_settings(row)
            if settings is None:
                results.append({"name": row.name, "failure": "config_unsupported"})
                continue
            with pool.borrow() as child:
                results.append(compare_pair(child, row, settings))
            print(json.dumps(results[-1]), file=sys.stderr, flush=True)
    figures = report(results, reading)
    lines = [json.dumps(figures)] if given.json else [f"{key}: {value}" for key, value in figures.items()]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
