"""Adjusted defaults: every line is needed by an installed model type, and what the row states is what is built."""

import json
from fnmatch import fnmatchcase

import pytest
import torch

from extract.adjust import ADJUSTMENTS, adjustments
from extract.build import _construct
from extract.configs import ConfigsConfig, resolve_configs
from extract.models import LICENSE
from schemas.rows import ModelConfig, ModelRef

pytestmark = pytest.mark.torch


def resolved(name: str) -> ModelConfig:
    ref = ModelRef(
        model=name, source="installed", name=name, revision="r", library="transformers", family=name.split("/")[0],
        modality="text-decoder", pipeline_tag="", license=LICENSE, gated=False, downloads=0, tags=(),
    )  # fmt: skip
    found = next(iter(resolve_configs(models=[ref], config=ConfigsConfig())))
    assert isinstance(found, ModelConfig), found
    return found


def test_every_line_is_about_an_installed_model_type_and_says_why():
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    for line in ADJUSTMENTS:
        assert line.why and any(fnmatchcase(family, line.families) for family in CONFIG_MAPPING_NAMES), line


def test_dots_lead_into_nested_configurations_and_classes_choose():
    assert adjustments("dbrx", "DbrxModel") == {"attn_config": {"rope_theta": 10000.0, "clip_qkv": 8}}
    assert adjustments("wav2vec2-bert", "Wav2Vec2BertForCTC") == {"vocab_size": 32}
    assert adjustments("wav2vec2-bert", "Wav2Vec2BertModel") == adjustments("bert", "BertModel") == {}


@pytest.mark.parametrize("name", [
    "nemotron/NemotronForCausalLM", "dbrx/DbrxModel", "esm/EsmModel", "pp_doclayout_v2/PPDocLayoutV2ForObjectDetection",
    "pp_ocrv6_medium_det/PPOCRV6MediumDetModel", "aria/AriaModel", "modernvbert/ModernVBertModel",
    "granite_speech/GraniteSpeechModel",
])  # fmt: skip
def test_an_adjusted_default_can_be_built_and_is_stated_in_the_row(name):
    row = resolved(name)
    for key, value in adjustments(*name.split("/")).items():
        stated = json.loads(row.config)[key]
        assert stated == value or value.items() <= stated.items()
    with torch.device("meta"):
        assert type(_construct(row)).__name__ == row.class_name


def test_a_class_that_is_one_part_of_its_type_gets_the_configuration_of_that_part():
    settings = json.loads(resolved("musicgen/MusicgenForCausalLM").config)
    assert settings["model_type"] == "musicgen_decoder" and "text_encoder" not in settings


def test_a_class_of_another_type_gets_the_configuration_as_it_is_and_a_head_around_text_its_own_around_it():
    settings = json.loads(resolved("glmga/Glm46VForConditionalGeneration").config)
    assert settings["model_type"] == "glmga" and settings["text_config"]["model_type"] == "glm4v_text"
    settings = json.loads(resolved("gemma4/JevForDecision").config)
    assert settings["model_type"] == "jev" and settings["text_config"]["model_type"] == "gemma4"
