"""Whether identity is the same under two versions of torch: capture in the running interpreter, write keys, compare.

    python -m benchmarks.identity_versions --write a.json             # in an environment with one version of torch
    python -m benchmarks.identity_versions --compare a.json --json    # in an environment with another version

Captures the golden recipes of transformers (timm needs a torchvision of the same version) through the path of
`extract`; reads `data/golden/` and the installed torch and transformers; writes the file of `--write` and standard
output.

| key                 | meaning                                                                                      |
|---------------------|----------------------------------------------------------------------------------------------|
| torch, other        | version of the running torch, and of the one that wrote the file                             |
| transformers, other_transformers | the same of transformers: only equal ones make a fair comparison                |
| captured, failed    | recipes captured here, and label -> first line of the error of those that were not           |
| compared            | recipes captured by both                                                                     |
| missing             | labels captured by one side alone                                                            |
| equal_LEVEL         | compared recipes whose keys of that level are equal; also equal_body and equal_inference     |
| golden_checked      | stored graphs keyed again by the running interpreter                                         |
| golden_equal        | those of them with their frozen keys at every level                                          |
| differing           | label -> levels that differ, and the first difference from the stored graph of that label    |
"""

import argparse
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.golden import RECIPES, capture_recipe, keys_of, stored_graphs, stored_keys
from dedup.twins import compare, lines_of
from extract.failures import LIBRARY_ERRORS, clean
from schemas.forms import LEVELS
from schemas.graph import Graph

KEYS = (*LEVELS, "body", "inference")
Keys = dict[str, dict[str, str]]


def capture_all(only: str = "") -> tuple[dict[str, Graph], dict[str, str]]:
    """(label -> graph, label -> first line of the error) of the recipes of transformers whose label holds `only`."""
    graphs: dict[str, Graph] = {}
    failed: dict[str, str] = {}
    for recipe in RECIPES:
        if recipe.family and only in recipe.label:
            try:
                graphs[recipe.label] = capture_recipe(recipe)
            except LIBRARY_ERRORS as error:
                failed[recipe.label] = f"{type(error).__name__}: {clean(str(error)).strip()}".splitlines()[0][:200]
    return graphs, failed


def golden_equal(stored: Mapping[str, Graph]) -> int:
    """How many stored graphs have their frozen keys at every level in this interpreter."""
    frozen = stored_keys()
    return sum(keys_of(graph) == frozen[label] for label, graph in stored.items())


def agreement(ours: Keys, theirs: Keys) -> dict[str, Any]:
    """Counts of equal keys by level over the labels that both hold, and the levels that differ of each other label."""
    both = [label for label in ours if label in theirs]
    counts = {f"equal_{name}": sum(ours[label][name] == theirs[label][name] for label in both) for name in KEYS}
    differing = {
        label: [name for name in KEYS if ours[label][name] != theirs[label][name]]
        for label in both
        if ours[label] != theirs[label]
    }
    return {"compared": len(both), **counts, "missing": sorted(set(ours) ^ set(theirs)), "differing": differing}


def read_file(path: Path) -> dict[str, Any]:
    """What `--write` wrote; raises ValueError for a file that is none of its own."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read as JSON ({error}); write it with --write {path}") from error
    if not isinstance(found, dict) or not {"torch", "transformers", "keys"} <= set(found):
        raise ValueError(f"{path}: lacks torch, transformers or keys; write it with --write {path}")
    return found


def report(ours: Mapping[str, Any], theirs: Mapping[str, Any], graphs: Mapping[str, Graph]) -> dict[str, Any]:
    """Every figure; `graphs` are this interpreter's captures, for the pictures of differences."""
    stored = dict(stored_graphs())
    found = agreement(ours["keys"], theirs["keys"])
    found["differing"] = {
        label: {"levels": levels, "first": lines_of(compare(graphs[label], stored[label]))}
        for label, levels in found["differing"].items()
    }
    return {
        "torch": ours["torch"], "other": theirs["torch"],
        "transformers": ours["transformers"], "other_transformers": theirs["transformers"],
        "captured": len(graphs), "failed": ours["failed"], **found,
        "golden_checked": len(stored), "golden_equal": golden_equal(stored),
    }  # fmt: skip


def main() -> None:
    """Entry of `python -m benchmarks.identity_versions`."""
    parser = argparse.ArgumentParser(description="Compare identity keys under two versions of torch.")
    parser.add_argument("--write", type=Path, help="write the keys of this interpreter's captures as JSON")
    parser.add_argument("--compare", type=Path, help="a file written under another version of torch")
    parser.add_argument("--only", default="", help="recipes whose label contains this text")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if not (options.write or options.compare):
        parser.error("nothing to do: give --write FILE, --compare FILE or both")
    theirs = read_file(options.compare) if options.compare else None
    graphs, failed = capture_all(options.only)
    keys = {label: keys_of(graph) for label, graph in graphs.items()}
    ours = {"torch": version("torch"), "transformers": version("transformers"), "keys": keys, "failed": failed}
    if options.write:
        options.write.write_text(json.dumps(ours, indent=1) + "\n", encoding="utf-8")
    if theirs is None:
        print(f"{len(keys)} captured, {len(failed)} failed under torch {ours['torch']}")
        return
    found = report(ours, theirs, graphs)
    if options.json:
        print(json.dumps(found))
    else:
        for key, value in found.items():
            print(f"{key:<20} {value}")


if __name__ == "__main__":
    main()
