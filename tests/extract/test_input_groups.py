"""One small real architecture for each group of input rules, traced whole and compared."""

import json
from dataclasses import replace

import pytest
import torch

from extract.build import Built
from extract.capture import capture
from extract.configs import ConfigsConfig, resolve_configs
from extract.inputs import WantedInput, dense_stride
from extract.models import LICENSE
from extract.record import record
from extract.trace import TraceConfig, trace
from schemas.graph import TensorSpec
from schemas.rows import GraphRecord, ModelConfig, ModelRef, NumericCheck, Text

pytestmark = pytest.mark.torch
SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}


def traced(name: str, modality: str, **changes) -> GraphRecord:
    ref = ModelRef(
        model=name, source="installed", name=name, revision="r", library="transformers", family=name.split("/")[0],
        modality=modality, pipeline_tag="", license=LICENSE, gated=False, downloads=0, tags=(),
    )  # fmt: skip
    row = next(row for row in resolve_configs(models=[ref], config=ConfigsConfig()) if isinstance(row, ModelConfig))
    settings = json.loads(row.config)
    for key, value in changes.items():
        settings[key] = {**settings[key], **value} if isinstance(value, dict) and settings.get(key) else value
    (found,) = trace(replace(row, config=Text(json.dumps(settings))), TraceConfig())
    assert isinstance(found, GraphRecord), found
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


def test_region_features_have_their_own_rule():
    found = traced("lxmert/LxmertModel", "multimodal", **SMALL, l_layers=1, x_layers=1, r_layers=1, vocab_size=99)
    assert {(1, 36, 2048), (1, 36, 4)} <= set(inputs(found).values())


def test_series_have_their_own_rule():
    found = traced("patchtst/PatchTSTModel", "other", num_hidden_layers=1, d_model=16, ffn_dim=16)
    assert next(iter(inputs(found).values())) == (1, 32, 1)


def test_packed_patches_with_their_shapes():
    found = traced("siglip2_vision_model/Siglip2VisionModel", "multimodal", **SMALL)
    assert {(1, 256, 768), (1, 2)} <= set(inputs(found).values())


class TextOrMore(torch.nn.Module):
    """Reads a text; refuses pictures of an odd height."""

    def forward(self, input_ids, pixel_values=None):
        if pixel_values is not None and pixel_values.shape[-1] % 2:
            raise ValueError("odd")
        found = input_ids * 2
        return found if pixel_values is None else found + pixel_values.sum()


@pytest.mark.parametrize(("side", "names"), [(4, {"input_ids", "pixel_values"}), (3, {"input_ids"})])
def test_a_model_that_fails_with_pictures_is_called_with_its_text(side: int, names: set[str]):
    def given(name: str, shape: tuple[int, ...], dtype: str, init: str) -> WantedInput:
        spec = TensorSpec(dtype=dtype, shape=shape, stride=dense_stride(shape), device="cpu")
        return WantedInput(name=name, spec=spec, init=init, optional=name == "pixel_values")

    wanted = (
        given("input_ids", (1, 8), "int64", '{"kind":"ones"}'),
        given("pixel_values", (1, 3, side, side), "float32", '{"kind":"zeros"}'),
    )
    found = capture(Built(model=TextOrMore().eval(), mode=None), wanted)
    assert found.is_whole and set(found.inputs.values()) == names


class NeedsBoth(torch.nn.Module):
    """Needs pictures with its text, of an even height."""

    def forward(self, input_ids, pixel_values=None):
        if pixel_values is None:
            raise ValueError("no pictures")
        raise ValueError("odd pictures")


def test_the_first_call_tells_why_where_the_text_alone_fails_too():
    spec = TensorSpec(dtype="int64", shape=(1, 4), stride=(4, 1), device="cpu")
    wanted = (
        WantedInput(name="input_ids", spec=spec, init='{"kind":"ones"}'),
        WantedInput(name="pixel_values", spec=spec, init='{"kind":"ones"}', optional=True),
    )
    for call in (capture, record):
        with pytest.raises(Exception, match="odd pictures"):
            call(Built(model=NeedsBoth(), mode=None), wanted)
