"""The rule of the architecture key on two small families: irrelevant values leave the class, a shaping one does not."""

import json

import pytest

from benchmarks.architecture_keys import default_settings, other, varied
from extract.catalog import load_catalog
from extract.configs import canonical_config
from extract.models import list_transformers
from extract.trace import TraceConfig, trace
from schemas.canonical import canonicalize
from schemas.rows import GraphRecord, ModelConfig, ModelRef, Text

pytestmark = pytest.mark.torch
SMALL = {
    "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16,
    "intermediate_size": 64, "vocab_size": 128,
}  # fmt: skip


def named(name: str) -> ModelRef:
    found = [row for row in list_transformers(load_catalog()) if row.name == name]
    return found[0] if found else pytest.skip(f"the installed transformers has no {name}")


def exact(row: ModelRef, settings: dict) -> str:
    config = ModelConfig(
        architecture="a", name=row.name, library=row.library, library_version="", class_name=row.name.split("/")[-1],
        config=Text(json.dumps(settings)), family=row.family, modality=row.modality, license="",
    )  # fmt: skip
    (record,) = trace(config, TraceConfig(numeric_limit_gib=0.0))
    assert isinstance(record, GraphRecord), record
    return canonicalize(record.graph).key


@pytest.mark.parametrize("name", ["bert/BertForSequenceClassification", "llama/LlamaModel"])
def test_irrelevant_values_leave_key_and_class(name):
    row = named(name)
    base = default_settings(row) | SMALL
    changed, counts = varied(base)
    assert {"_name_or_path", "initializer_range", "id2label", "eos_token_id"} <= set(counts) and counts.total() >= 8
    assert canonical_config(changed) == canonical_config(base)
    assert exact(row, changed) == exact(row, base)


def test_a_range_that_the_forward_divides_by_is_part_of_the_key():
    row = named("dory/DoryModel")
    layers = {"num_hidden_layers": 3, "n_input_layers": 1, "n_recurrent_layers": 1, "n_output_layers": 1}
    layers |= {"layer_types": ["full_attention"] * 3}
    base = default_settings(row) | layers
    changed = base | {"initializer_range": 0.5}
    assert canonical_config(changed) != canonical_config(base)
    assert exact(row, changed) != exact(row, base)


def test_other_values_are_of_the_same_sort_and_differ():
    for key, value in (
        ("_name_or_path", "x"),
        ("initializer_range", 0.02),
        ("eos_token_id", 2),
        ("id2label", {0: "a"}),
    ):
        assert other(key, value) != value and type(other(key, value)) is type(value)
