"""Canonical configurations: what is left out, and that everything else decides the key."""

import json
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extract.configs import IRRELEVANT, PINNED, SHAPING, ConfigsConfig, canonical_config, resolve_configs
from schemas.rows import ModelRef

pytestmark = pytest.mark.plain

KEYS = st.sampled_from(["hidden_size", "num_layers", "hidden_act", "text_config"])
SETTINGS = st.dictionaries(KEYS, st.integers(0, 9) | st.booleans() | st.none() | st.text(max_size=3), max_size=4)


@given(SETTINGS)
def test_order_of_keys_does_not_matter_and_canonical_is_a_fixed_point(settings):
    text = canonical_config(settings)
    assert text == canonical_config(dict(reversed(list(settings.items()))))
    assert canonical_config(json.loads(text)) == text


@given(SETTINGS, st.sampled_from([key for key, _ in (*IRRELEVANT, *PINNED) if "*" not in key and key != "id2label"]))
def test_irrelevant_keys_do_not_matter_at_any_depth(settings, key):
    assert canonical_config({**settings, key: 1}) == canonical_config(settings)
    assert canonical_config({"inner": {**settings, key: 1}}) == canonical_config({"inner": settings})


@given(SETTINGS, KEYS)
def test_every_other_key_matters(settings, key):
    assert canonical_config({**settings, key: "changed"}) != canonical_config(settings)


def test_label_names_leave_their_number():
    one, two = {"id2label": {0: "cat"}}, {"id2label": {0: "dog"}}
    assert canonical_config(one) == canonical_config(two) == '{"num_labels":1}'


def test_every_irrelevant_key_has_a_reason():
    assert all(key and reason for key, reason in (*IRRELEVANT, *PINNED))
    assert not {key for key, _ in IRRELEVANT} & {key for key, _ in PINNED}


def test_a_key_stays_where_it_shapes_the_graph_there_and_below():
    irrelevant = {key for key, _ in IRRELEVANT}
    assert all(reason and any(fnmatchcase(key, glob) for glob in irrelevant) for _, key, reason in SHAPING)
    one = {"model_type": "dory", "initializer_range": 0.02, "inner": {"model_type": "bert", "initializer_range": 0.02}}
    assert canonical_config(one) == json.dumps(one, sort_keys=True, separators=(",", ":"))
    two = {"model_type": "bert", "initializer_range": 0.02, "inner": {"model_type": "dory", "initializer_range": 0.02}}
    assert json.loads(canonical_config(two)) == {"model_type": "bert", "inner": two["inner"]}
    clip = {
        "model_type": "siglip",
        "eos_token_id": 1,
        "text_config": {"model_type": "clip_text_model", "eos_token_id": 2},
    }
    assert json.loads(canonical_config(clip))["text_config"]["eos_token_id"] == 2
    assert "eos_token_id" not in json.loads(canonical_config(clip))


def test_no_models_give_no_rows():
    models: list[ModelRef] = []
    assert list(resolve_configs(models=models, config=ConfigsConfig())) == []


def test_the_older_name_of_a_rope_type_makes_no_other_architecture():
    old, new = (
        {"rope_parameters": {"factor": 2.0, "rope_type": "linear", **more}} for more in ({"type": "linear"}, {})
    )
    assert canonical_config(old) == canonical_config(new)
    other = {"rope_parameters": {"rope_type": "linear", "type": "yarn"}}
    assert "yarn" in canonical_config(other) and '"type"' in canonical_config({"layer": {"type": "linear"}})
