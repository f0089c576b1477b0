"""The coverage benchmark: samples, shrunk configurations, resumed folders and the figures."""

import argparse
import json

import pytest

from benchmarks.extract_coverage import HEADS, TYPES, Outcome, Run, parse_options, report, sample, shrink, wilson
from schemas.rows import ModelRef

pytestmark = pytest.mark.plain


def ref(name: str) -> ModelRef:
    return ModelRef(
        model=name, source="installed", name=name, revision="r", library="transformers", family=name.split("/")[0],
        modality="other", pipeline_tag="", license="", gated=False, downloads=0, tags=(),
    )  # fmt: skip


def outcome(name: str, kind: str = "", numeric: str = "equal") -> Outcome:
    return Outcome(name=name, kind=kind, message="", numeric="" if kind else numeric, rung="fake", nodes=1, seconds=1.0,
                   shrunk=False)  # fmt: skip


POOL = [ref(f"f{k}/Model{k}") for k in range(30)]


def test_a_larger_sample_only_adds_and_a_seed_changes_it():
    small, large = sample(POOL, 5, 1), sample(POOL, 12, 1)
    assert large[:5] == small and len(large) == 12
    assert sample(POOL, 5, 2) != small and len(sample(POOL, 0, 1)) == len(POOL)


def test_shrinking_cuts_stacks_and_what_counts_along_with_them():
    settings = {"num_hidden_layers": 4, "layer_types": ["a", "b", "c", "d"], "hidden_size": 8, "depths": [2, 2, 6, 2],
                "text_config": {"num_layers": 1}}  # fmt: skip
    found = shrink(settings)
    assert (found["num_hidden_layers"], found["layer_types"], found["hidden_size"]) == (2, ["a", "b"], 8)
    assert found["text_config"] == {"num_layers": 1}


def test_shrinking_leaves_named_stages_and_lists_of_ids():
    backbone = {"num_hidden_layers": 3, "stage_names": list("sabc"), "out_features": ["c"]}
    assert shrink({"backbone_config": backbone})["backbone_config"] == backbone
    assert shrink({"num_layers": 3, "target_layer_ids": [1, 9, 17]})["target_layer_ids"] == [1, 9, 17]
    assert shrink({"num_layers": 3, "per_layer_config": {"1": {}, "2": {}}})["per_layer_config"] == {"1": {}}


def test_a_folder_is_continued(tmp_path):
    first = Run(tmp_path, [])
    first.add(outcome("f0/Model0"))
    first.add(outcome("f1/Model1", "timeout"))
    again = Run(tmp_path, ["timeout"])
    assert not again.wants("f0/Model0") and again.wants("f1/Model1") and again.wants("f2/Model2")
    again.add(outcome("f1/Model1"))
    assert Run(tmp_path, []).outcomes["f1/Model1"].kind == ""
    assert len((tmp_path / "outcomes.jsonl").read_text().splitlines()) == 3


def test_shares_counts_and_kinds(tmp_path):
    run = Run(tmp_path, [])
    for k, (kind, numeric) in enumerate([("", "equal"), ("", "too_large"), ("numeric", ""), ("unknown", "")]):
        run.add(outcome(POOL[k].name, kind, numeric))
    found = report({TYPES: POOL, HEADS: []}, {TYPES: POOL[:5], HEADS: []}, run)
    assert found[TYPES] == 0.5 and found[HEADS] is None
    assert found["counts"][TYPES] == [2, 4, 30] and found["failures"] == {"numeric": 1, "unknown": 1}
    assert (found["unknown_failures"], found["numeric_checked"], found["numeric_equal"]) == (0.5, 0.6667, 0.5)
    assert json.loads(json.dumps(found)) == found


def test_wilson_interval_against_a_published_value():
    """Newcombe 1998, table I: 81 of 263 gives 0.2553 to 0.3662."""
    assert wilson(81, 263) == pytest.approx([0.2553, 0.3662], abs=1e-4)


def test_options_have_defaults():
    assert isinstance(parse_options([]), argparse.Namespace) and parse_options(["--sample", "3"]).sample == 3
