"""The tables of inputs are well formed: names resolve, initialisers parse, every line can hold."""

import json

import pytest

from extract.input_rules import FACTS, MEDIA, PRODUCTS, RULES, InputRule
from schemas.rows import ModelConfig, Text

pytestmark = pytest.mark.plain
KINDS = {"normal", "uniform", "integers", "bool", "zeros", "ones", "constant", "arange", "literal"}
KINDS |= {"lattice", "sentence", "first", "placed"}
SIZES = {name for fact in FACTS for name in (fact.name, f"{fact.name}_height", f"{fact.name}_width")}
SIZES |= {name for name, _, _ in PRODUCTS}


def row(family: str = "bert", modality: str = "text-encoder") -> ModelConfig:
    return ModelConfig(
        architecture="a", name=f"{family}/X", library="transformers", library_version="1", class_name="X",
        config=Text("{}"), family=family, modality=modality, license="",
    )  # fmt: skip


def names_in(value: object) -> set[str]:
    if isinstance(value, dict):
        return {name for key, item in value.items() if key != "kind" for name in names_in(item)}
    if isinstance(value, list):
        return {name for item in value for name in names_in(item)}
    return {value} if isinstance(value, str) else set()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.name}-{'-'.join(rule.families)}")
def test_every_size_and_kind_of_a_rule_is_known(rule: InputRule):
    assert {dim for dim in rule.shape if isinstance(dim, str)} <= SIZES
    if rule.init:
        init = json.loads(rule.init)
        assert init["kind"] in KINDS and names_in(init) <= SIZES


def test_products_are_made_of_facts():
    plain = SIZES - {name for name, _, _ in PRODUCTS}
    assert all({*factors, *divisors} <= plain for _, factors, divisors in PRODUCTS)


def test_every_fact_has_a_value_for_every_family():
    assert {fact.name for fact in FACTS if fact.families == ("*",)} == {fact.name for fact in FACTS}


def test_no_rule_stands_behind_one_that_always_holds():
    general: set[str] = set()
    for rule in RULES:
        assert rule.name not in general, f"a rule for {rule.name} is never reached"
        if (rule.families, rule.modalities, rule.classes, rule.given, rule.needed) == (*[("*",)] * 3, (), False):
            general.add(rule.name)


def test_labels_are_never_given():
    assert not any("label" in rule.name and rule.name != "input_labels" for rule in RULES)


def test_a_rule_holds_for_its_families_arguments_and_need():
    rule = InputRule(name="x", families=("bert*",), modalities=("text-*",), given=("*grid_thw",), needed=True)
    assert rule.holds(row(), ("x", "image_grid_thw"), needed=True)
    assert not rule.holds(row(), ("x", "image_grid_thw"), needed=False)
    assert not rule.holds(row(), ("x",), needed=True)
    assert not rule.holds(row(family="gpt2"), ("x", "grid_thw"), needed=True)
    assert not rule.holds(row(modality="audio"), ("x", "grid_thw"), needed=True)


def test_text_is_never_left_out():
    assert not {"input_ids", "attention_mask", "decoder_input_ids"} & set(MEDIA)
