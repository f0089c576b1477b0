"""Real architectures through the stages `configs` and `graphs`, on the CPU and without weights."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from extract.build import build_model
from extract.configs import ConfigsConfig, resolve_configs
from extract.described import described
from extract.inputs import facts_of, wanted_inputs
from extract.models import LICENSE
from extract.parts import signature_of
from extract.trace import TraceConfig, failure_kind, trace
from passbench.inputs import value_of
from schemas.fx import spec_of
from schemas.graph import check
from schemas.rows import ConfigLink, Failure, FailureKind, GraphRecord, ModelConfig, ModelRef, NumericCheck

pytestmark = pytest.mark.torch
TINY = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}


def config(name: str, *, modality: str = "text-encoder", family: str = "", **changes) -> ModelConfig:
    library = "timm" if name.startswith("timm/") else "transformers"
    ref = ModelRef(
        model=name, source="installed", name=name, revision="r", library=library, family=family or name.split("/")[0],
        modality=modality, pipeline_tag="", license=LICENSE, gated=False, downloads=0, tags=(),
    )  # fmt: skip
    resolved, link = resolve_configs(models=[ref], config=ConfigsConfig())
    assert isinstance(resolved, ModelConfig) and isinstance(link, ConfigLink)
    return replace(resolved, config=json.dumps({**json.loads(resolved.config), **changes}))


def only(row: ModelConfig, **settings) -> GraphRecord | Failure:
    (found,) = trace(row, TraceConfig(**settings))
    return found


@pytest.fixture(scope="module")
def bert() -> GraphRecord:
    found = only(config("bert/BertModel", **TINY))
    assert isinstance(found, GraphRecord), found
    return found


def test_bert_is_admitted_whole_and_compared(bert):
    check(bert.graph)
    assert (bert.numeric, bert.rung, bert.break_count) == (NumericCheck.EQUAL, "fake", 1)
    roles = [bert.graph.nodes[i].target for i in bert.graph.placeholders]
    assert {"input", "parameter", "buffer"} <= set(roles)
    assert bert.num_parameters == sum(
        bert.graph.nodes[i].outputs[0].numel
        for i in bert.graph.placeholders
        if bert.graph.nodes[i].target == "parameter"
    )


def test_initialisers_let_every_operation_show(bert):
    inits = dict(zip([bert.graph.nodes[i].name for i in bert.graph.placeholders], bert.graph.inits, strict=True))
    biases = [json.loads(init) for name, init in inits.items() if name.endswith("_bias_")]
    assert biases and all(init["kind"] == "normal" and float(init["std"]["float"]) > 0 for init in biases)
    (ids,) = [json.loads(init) for name, init in inits.items() if name.endswith("input_ids_")]
    assert ids == {"kind": "integers", "low": 0, "high": 30522}
    positions = [json.loads(init) for name, init in inits.items() if name.endswith("position_ids_")]
    assert positions == [{"kind": "arange", "start": 0, "step": 1}]


def test_two_processes_give_the_same_graph(bert):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_trace as t;"
        "print(t.only(t.config('bert/BertModel', **t.TINY)).graph_id)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(__import__("pathlib").Path(__file__).parent)],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout.split()[-1] == bert.graph_id


def test_drop_path_constructor_that_reads_linspace_back():
    row = config("vit/ViTModel", modality="vision-transformer", image_size=32, **TINY)
    found = only(row)
    assert isinstance(found, GraphRecord) and found.numeric is NumericCheck.EQUAL
    swin = config("swin/SwinModel", modality="vision-transformer")
    built = build_model(swin)
    index = next(name for name in built.buffers if name.endswith("relative_position_index"))
    data = built.data_of(built.model.get_buffer(index))
    assert data is not None and int(data.max()) == (2 * 7 - 1) ** 2 - 1


def test_a_backbone_that_collects_its_states_itself_collects_each_once():
    model = build_model(config("pp_ocrv5_mobile_rec/PPOCRV5MobileRecModel")).model
    hooks = [len(m._forward_hooks) for m in model.modules() if type(m).__name__ == "PPLCNetV3Block"]
    assert hooks == [1] * 5


def test_timm_network_with_running_statistics():
    found = only(config("timm/resnet18", modality="vision-conv", family="resnet"))
    assert isinstance(found, GraphRecord) and found.numeric is NumericCheck.EQUAL
    names = [found.graph.nodes[i].name for i in found.graph.placeholders]
    variances = [init for name, init in zip(names, found.graph.inits, strict=True) if "running_var" in name]
    assert variances and all(json.loads(init)["kind"] == "uniform" for init in variances)


def test_a_graph_over_the_limit_is_admitted_without_values():
    found = only(config("bert/BertModel", **TINY), numeric_limit_gib=0.001)
    assert isinstance(found, GraphRecord)
    assert found.numeric is NumericCheck.TOO_LARGE and "limit" in found.numeric_detail


def test_parameters_take_no_memory():
    built = build_model(config("mixtral/MixtralModel", modality="moe"))
    assert sum(parameter.numel() for parameter in built.model.parameters()) > 40e9


@pytest.mark.parametrize(
    ("name", "changes", "kind"),
    [
        ("bert/BertModel", {**TINY, "num_attention_heads": 5}, FailureKind.BUILD_ERROR),
        ("bert/BertModel", {**TINY, "hidden_act": "no_such_function"}, FailureKind.BUILD_ERROR),
    ],
)
def test_failures_are_rows_of_a_specific_kind(name, changes, kind):
    found = only(config(name, **changes))
    assert isinstance(found, Failure)
    assert (found.kind, found.stage) == (kind, "graphs")
    assert "site-packages" not in found.detail


def test_an_input_that_does_not_fit_is_told_in_the_words_of_the_first_attempt():
    row = replace(config("vit/ViTModel", modality="vision-encoder", **TINY, image_size=32), family="superglue")
    found = only(row)
    assert isinstance(found, Failure) and found.kind is FailureKind.INPUT_MISMATCH, found


def test_failure_kind_is_part_of_the_stage():
    assert failure_kind(KeyboardInterrupt()) is FailureKind.UNKNOWN


def test_facts_come_from_nested_settings_and_have_limits():
    facts = facts_of(
        {"text_config": {"vocab_size": 7, "max_position_embeddings": 77}, "vision_config": {"image_size": 30}}
    )
    assert (facts["vocab"], facts["text"], facts["image_height"], facts["image_width"]) == (7, 77, 30, 30)
    assert facts_of({"max_position_embeddings": 4096})["text"] == 128
    assert facts_of({"image_size": [30, 40]})["image_width"] == 40


def test_inputs_follow_the_signature():
    row = config("bert/BertModel", **TINY)
    found = wanted_inputs(build_model(row).model, row)
    assert [(item.name, item.spec.shape) for item in found] == [("input_ids", (1, 128)), ("attention_mask", (1, 128))]


@pytest.mark.parametrize(
    ("name", "argument", "shape"),
    [
        ("pp_ocrv6_tiny_rec/PPOCRV6TinyRecForTextRecognition", "pixel_values", (1, 3, 48, 320)),
        ("splinter/SplinterForPreTraining", "question_positions", (1, 4)),
        ("fuyu/FuyuModel", "pixel_values", (1, 256, 2700)),
        ("granite_docling/GraniteDoclingModel", "pixel_attention_mask", (1, 1)),
        ("moss_transcribe_diarize/MossTranscribeDiarizeModel", "input_features_mask", (1, 3000)),
        ("fun_asr_nano/FunAsrNanoModel", "input_features_mask", (1, 1024)),
        ("video_llama_3/VideoLlama3Model", "image_merge_sizes", (1,)),
        ("hunyuan_vl/HunYuanVLModel", "position_ids", (4, 1, 128)),
        ("glm_image/GlmImageModel", "image_grid_thw", (2, 3)),
        ("visual_bert/VisualBertModel", "visual_embeds", (1, 36, 512)),
        ("inkling2/Inkling2Model", "pixel_values", (256, 40, 40, 3)),
        ("nemotron_h_omni/NemotronH_Omni_Reasoning_V3", "image_grid_hw", (1, 2)),
    ],
)
def test_an_argument_of_a_model_type_has_its_shape(name, argument, shape):
    row = config(name, modality="multimodal", family=name.split("/")[0])
    wanted = {item.name: item.spec.shape for item in wanted_inputs(build_model(row).model, row)}
    assert wanted[argument] == shape


def test_an_argument_that_is_passed_on_unnamed_is_given_too():
    row = config("blt/BltForCausalLM", modality="text-decoder", family="blt")
    built = build_model(row)
    assert "patch_lengths" not in signature_of(built.model).parameters
    assert "patch_lengths" in [item.name for item in wanted_inputs(built.model, row)]


@pytest.mark.parametrize(
    "data",
    [
        torch.arange(512).expand(1, -1),
        torch.arange(3, 30, 3),
        torch.ones(80, 80, dtype=torch.bool).tril()[None, None],
        torch.full((3, 5), 0.25),
        torch.tensor([1.5, float("-inf"), float("nan"), -0.0]),
        torch.tensor(7),
        torch.zeros(0, 3),
        torch.randint(0, 100, (20, 20), generator=torch.Generator().manual_seed(0)),
    ],
    ids=lambda data: f"{data.dtype}-{list(data.shape)}",
)
def test_a_described_buffer_comes_back_exactly(data):
    value = value_of(described(data), spec_of(data), seed=0)
    torch.testing.assert_close(value, data, rtol=0, atol=0, equal_nan=True)


def test_long_irregular_data_comes_back_alike():
    data = torch.randn(100, 100, generator=torch.Generator().manual_seed(0)) * 3 + 1
    value = value_of(described(data), spec_of(data), seed=0)
    assert abs(float(value.mean()) - 1) < 0.2 and abs(float(value.std()) - 3) < 0.2
