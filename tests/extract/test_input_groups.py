"""One small real architecture for each group of input rules, traced whole and compared."""

import json
from dataclasses import replace

import pytest

from extract.configs import ConfigsConfig, resolve_configs
from extract.models import LICENSE
from extract.trace import TraceConfig, trace
from schemas.rows import Failure, GraphRecord, ModelConfig, ModelRef, NumericCheck, Text

pytestmark = pytest.mark.torch
SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}


def attempted(name: str, modality: str, **changes) -> GraphRecord | Failure:
    ref = ModelRef(
        model=name, source="installed", name=name, revision="r", library="transformers", family=name.split("/")[0],
        modality=modality, pipeline_tag="", license=LICENSE, gated=False, downloads=0, tags=(),
    )  # fmt: skip
    row = next(row for row in resolve_configs(models=[ref], config=ConfigsConfig()) if isinstance(row, ModelConfig))
    settings = json.loads(row.config)
    for key, value in changes.items():
        settings[key] = {**settings[key], **value} if isinstance(value, dict) and settings.get(key) else value
    (found,) = trace(replace(row, config=Text(json.dumps(settings))), TraceConfig())
    return found


def traced(name: str, modality: str, **changes) -> GraphRecord:
    found = attempted(name, modality, **changes)
    assert isinstance(found, GraphRecord), found
    return found


def failed(name: str, modality: str = "multimodal", **changes) -> Failure:
    found = attempted(name, modality, **changes)
    assert isinstance(found, Failure), found
    return found


def inputs(record: GraphRecord) -> dict[str, tuple[int, ...]]:
    nodes = [record.graph.nodes[i] for i in record.graph.placeholders]
    return {node.name: node.outputs[0].shape for node in nodes if node.target == "input"}


def test_a_grid_that_the_forward_reads_is_part_of_the_call():
    vision = {**SMALL, "depth": 1, "num_heads": 2, "out_hidden_size": 32, "deepstack_visual_indexes": [0]}
    found = traced("qwen3_vl_vision/Qwen3VLVisionModel", "vision-transformer", **vision)
    assert found.numeric is NumericCheck.EQUAL
    assert sorted(inputs(found).values()) == [(1, 3), (256, 3 * 2 * 16 * 16)]
    grids = [init for init in found.graph.inits if json.loads(init) == {"kind": "literal", "data": [1, 16, 16]}]
    assert len(grids) == 1


def test_pictures_and_text_go_in_together():
    found = traced(
        "llava/LlavaModel", "multimodal", text_config={**SMALL, "num_key_value_heads": 2, "vocab_size": 99},
        vision_config={**SMALL, "image_size": 28, "patch_size": 14, "projection_dim": 32}, image_token_index=3,
    )  # fmt: skip
    assert (1, 128) in inputs(found).values() and (1, 3, 28, 28) in inputs(found).values()


def test_a_text_has_places_for_its_picture():
    found = traced(
        "qwen3_vl/Qwen3VLModel", "multimodal", text_config={**SMALL, "num_key_value_heads": 2, "vocab_size": 99},
        vision_config={**SMALL, "depth": 1, "num_heads": 2, "out_hidden_size": 32, "deepstack_visual_indexes": [0]},
        image_token_id=7,
    )  # fmt: skip
    assert found.numeric is NumericCheck.EQUAL
    assert found.capture == "dynamo-specialised"  # the sizes of the picture's grid are read
    assert {(1, 128), (3, 1, 128), (256, 1536), (1, 3)} <= set(inputs(found).values())
    texts = [json.loads(init).get("data", []) for init in found.graph.inits]
    assert [7] * 64 + [*range(3, 7), *range(8, 68)] in texts


def test_region_features_have_their_own_rule():
    found = traced("lxmert/LxmertModel", "multimodal", **SMALL, l_layers=1, x_layers=1, r_layers=1, vocab_size=99)
    assert {(1, 36, 2048), (1, 36, 4)} <= set(inputs(found).values())


def test_a_question_has_its_global_tokens():
    found = traced("longformer/LongformerForQuestionAnswering", "text-encoder", **SMALL, attention_window=[32],
                   vocab_size=99)  # fmt: skip
    assert list(inputs(found).values()) == [(1, 128)] * 3 and found.numeric is NumericCheck.EQUAL


def test_series_have_their_own_rule():
    found = traced("patchtst/PatchTSTModel", "other", num_hidden_layers=1, d_model=16, ffn_dim=16)
    assert next(iter(inputs(found).values())) == (1, 32, 1)


def test_packed_patches_with_their_shapes():
    found = traced("siglip2_vision_model/Siglip2VisionModel", "multimodal", **SMALL)
    assert {(1, 256, 768), (1, 2)} <= set(inputs(found).values())


TEXT = {**SMALL, "num_key_value_heads": 2, "vocab_size": 99}
PICTURE = {**SMALL, "image_size": 28, "patch_size": 14, "projection_dim": 32}


def test_a_model_that_fails_with_pictures_is_called_with_its_text():
    found = traced("llava/LlavaModel", "multimodal", text_config=TEXT, vision_config=PICTURE, image_token_index=3,
                   vision_feature_layer=99)  # fmt: skip
    assert inputs(found) == {"l_kwargs_input_ids_": (1, 128), "l_kwargs_attention_mask_": (1, 128)}


def test_pictures_whose_sizes_decide_how_they_are_put_together_are_not_left_out():
    found = traced("llava_next/LlavaNextModel", "multimodal", text_config=TEXT, vision_config=PICTURE,
                   image_token_index=3, image_grid_pinpoints=[[28, 56]])  # fmt: skip
    assert (1, 3, 3, 28, 28) in inputs(found).values() and found.numeric is NumericCheck.EQUAL


def test_the_call_with_everything_tells_why_where_the_text_alone_fails_too():
    found = failed("llava/LlavaModel", text_config={**TEXT, "num_key_value_heads": 3}, vision_config=PICTURE,
                   vision_feature_layer=99)  # fmt: skip
    assert "index out of range" in found.message
