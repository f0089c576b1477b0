"""Defaults of the installed libraries that their own constructors refuse, and what stands in their place.

    settings = adjustments("nemotron", "NemotronModel")        # {"num_key_value_heads": 48}

Only default configurations are adjusted, before they become canonical: what is built is what the row states. A real
configuration of a Hub is never touched. Reads and writes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustment:
    """One setting of one or several model types."""

    families: str
    """Glob on the model type."""
    classes: str
    """Glob on the class to build."""
    path: str
    """Key in the configuration; dots lead into nested ones."""
    value: Any
    why: str


_PP_OCR_BLOCK = {
    "reduce_channel": [1, 1, 0],
    "return_channel": [1, 1, 0],
    **{
        f"{name}_{ratio}ratio": [kernel, [1, 1], padding]
        for ratio, size in (("long", 7), ("mid", 5), ("short", 3))
        for name, kernel, padding in (
            ("vertical_long_to_small_conv", [size, 1], [size // 2, 0]),
            ("horizontal_small_to_long_conv", [1, size], [0, size // 2]),
            ("symmetric_conv_long", [size, size], [size // 2, size // 2]),
        )
    },
}
"""Kernels of 7, 5 and 3, as the block's documentation describes."""
_ROPE = {"full_attention": {"rope_theta": 10000.0, "rope_type": "default"}}


_HALF_ROPE = {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.5}


_FOUR_AXES = {"rope_theta": 10000.0, "rope_type": "default", "mrope_section": [16, 16, 16, 16]}
"""Sections of four axes that fill half a head of 128."""


_REPVIT = {
    "model_type": "timm_wrapper", "architecture": "repvit_m1", "do_pooling": True, "num_classes": 2,
    "model_args": {"in_chans": 3, "features_only": True, "out_indices": [0, 1, 2, 3]},
}  # fmt: skip


def _set(families: str, path: str, value: Any, why: str, classes: str = "*") -> Adjustment:
    return Adjustment(families=families, classes=classes, path=path, value=value, why=why)


ADJUSTMENTS: tuple[Adjustment, ...] = (
    _set("*former", "prediction_length", 24, "no default; a day of hours", "*formerModel"),
    _set("time_series_transformer", "prediction_length", 24, "as above"),
    _set("aria", "vision_config.image_size", 490, "its projector knows pictures of 35 x 35 or 70 x 70 patches"),
    _set("aria", "vision_config.patch_size", 14, "as above"),
    _set("aya_vision", "vision_config.num_attention_heads", 16, "the default width is no multiple of 14 heads"),
    _set("beit", "out_indices", [3, 5, 7, 11], "segmentation asks for four features", "*Segmentation"),
    _set("big*bird*", "block_size", 8, "with blocks of 64 a text of 128 tokens is too short for sparse attention"),
    _set("blip-2", "image_token_id", 50265, "no default; that of its published models, a token beyond the text's"),
    _set("blip-2", "qformer_config.use_qformer_text_input", True, "it reads a text", "Blip2ForImageTextRetrieval"),
    *(
        _set(families, "vision_config.image_size", size, "its connector joins patches, two by two or four by four")
        for families, size in (("modernvbert", 512), ("ultravbert", 512), ("idefics3", 256), ("smolvlm", 256))
    ),
    _set("chameleon", "vocabulary_map", {"<image>": 8711, **{f"IMGIMG{c}Z": 4 + i for i, c in enumerate("ABCD")}},
         "the map of image tokens has no default; its entries shape no operation"),
    _set("cohere_compass", "text_config.rope_parameters", _ROPE, "rotary settings are read by layer type"),
    _set("cohere_compass_text", "rope_parameters", _ROPE, "as above"),
    _set("dbrx", "attn_config.rope_theta", 10000.0, "attention reads it from its own part, where it has no default"),
    _set("dbrx", "attn_config.clip_qkv", 8, "a limit is computed from it, though it is optional"),
    _set("deepseek_ocr2", "text_config.mlp_layer_types", ["dense"] + ["sparse"] * 31, "no default"),
    _set("deepseek_ocr2", "text_config.num_experts_per_tok", 6, "no default"),
    _set("deepseek_v2", "num_experts_per_tok", 6, "no default; that of its published models"),
    _set("diffusion_gemma", "text_config.num_experts", 128, "no default"),
    _set("diffusion_gemma", "text_config.top_k_experts", 8, "no default"),
    _set("diffusion_gemma", "text_config.moe_intermediate_size", 704, "no default"),
    _set("dots1", "n_routed_experts", 128, "no default"),
    _set("dots1", "num_experts_per_tok", 6, "no default"),
    _set("dots1", "n_shared_experts", 2, "no default"),
    _set("edgetam", "vision_config.backbone_config", _REPVIT, "the default spells the key wrongly that names it"),
    _set("edgetam_video", "vision_config", {"model_type": "edgetam_vision_model", "backbone_config": _REPVIT},
         "as above; the default has the vision tower of another type"),
    _set("edgetam_vision_model", "backbone_config", _REPVIT, "as above"),
    _set("emu3", "vocabulary_map",
         {"<image>": 151643, "<|extra_200|>": 151847, **{f"<|visual token {i:06d}|>": 151854 + i for i in range(8)}},
         "the map of image tokens has no default; its entries shape no operation"),
    _set("esm", "vocab_size", 33, "no default; that of its tokenizer"),
    _set("esm", "pad_token_id", 1, "as above"),
    _set("gemma4_assistant", "text_config", {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0,
         "num_hidden_layers": 4, "num_kv_shared_layers": 4}, "its validation refuses the default of gemma4"),
    _set("glm4v", "text_config.rope_parameters", _HALF_ROPE, "the sections of three axes fill half a head"),
    _set("glm4v_text", "rope_parameters", _HALF_ROPE, "as above"),
    _set("glm4v_moe", "text_config.head_dim", 128, "as in glm4v_moe_text"),
    _set("glm4v_moe_text", "head_dim", 128, "no default; the sections of three axes fill half a head of 128"),
    _set("glm46v", "text_config.rope_parameters", _HALF_ROPE, "as in glm4v"),
    _set("glmga", "text_config.rope_parameters", _HALF_ROPE, "as in glm4v"),
    _set("glm_image", "text_config.rope_parameters", _HALF_ROPE, "as in glm4v"),
    _set("glm_image_text", "rope_parameters", _HALF_ROPE, "as in glm4v"),
    _set("granite4_vision", "deepstack_layer_map", [[-8, 6], [-5, 12], [-2, 18]], "no default"),
    _set("granite4_vision", "downsample_rate", "1/2", "no default"),
    _set("granite_speech*", "projector_config.encoder_hidden_size", 1024, "as wide as its default encoder"),
    _set("hiera", "decoder_hidden_size", 512, "no default", "*PreTraining"),
    _set("hiera", "decoder_depth", 8, "no default", "*PreTraining"),
    _set("hiera", "decoder_num_heads", 16, "no default", "*PreTraining"),
    _set("hunyuan_v1_*", "head_dim", 128, "no default; 4096 / 32 heads"),
    _set("hunyuan_vl", "text_config.head_dim", 128, "as above"),
    _set("hunyuan_vl_text", "head_dim", 128, "as above"),
    _set("hunyuan_vl", "text_config.rope_parameters", _FOUR_AXES, "no default of the sections, which it counts"),
    _set("hunyuan_vl_text", "rope_parameters", _FOUR_AXES, "as above"),
    _set("lfm2_moe", "layer_types", ["full_attention" if i % 4 == 2 else "conv" for i in range(32)],
         "no default; attention in one layer of four, as in published models"),
    _set("lw_detr", "projector_scale_factors", [1.0], "no scale by default; one, as in its smallest published models"),
    _set("instructblip", "image_token_index", 50265, "as in blip-2"),
    _set("instructblipvideo", "video_token_index", 50265, "as in blip-2"),
    *(
        _set(families, f"{name}_token_id", 5 + place, "no default; a token of its own")
        for families in ("minicpm_ocr", "minicpmv4_*", "nemotron_h_omni")
        for place, name in enumerate(("image", "video"))
    ),
    _set("nemotron_h_omni", "audio_token_id", 7, "as above"),
    _set("llama4", "vision_config.hidden_size", 1408, "four patches side by side are as wide as the adapter's input"),
    _set("llama4", "vision_config.vision_output_dim", 4096, "as wide as the adapter's output"),
    _set("voxtral", "audio_token_id", 24, "no default; that of its published models"),
    _set("ministral", "head_dim", 128, "no default; 4096 / 32 heads"),
    _set("moonshine_streaming", "num_key_value_heads", 8, "no default; one a head"),
    _set("nemotron", "num_key_value_heads", 48, "no default; one a head"),
    _set("ovis2", "hidden_size", 4096, "as wide as its default text model"),
    _set("perceiver", "num_cross_attention_heads", 1, "inputs of these heads are no multiple of 8 wide",
         "PerceiverForImageClassification[FC]*"),
    _set("perception_lm", "vision_config",
         {"architecture": "vit_pe_core_large_patch14_336", "do_pooling": True, "num_classes": 1024,
          "model_args": {"embed_dim": 1024, "depth": 23, "img_size": [448, 448], "global_pool": "",
                         "use_post_transformer_norm": False, "init_values": 0.1, "ref_feat_shape": [32, 32]}},
         "the projector reads the vision tower's width from its arguments, which have no default"),
    _set("pp_ocrv[56]_*er_det", "scale_factor_list", [1, 2, 4, 8], "no default; brings four stages to one size"),
    _set("pp_ocrv6_*_det", "scale_factor_list", [1, 2, 4, 8], "as above"),
    _set("pp_ocrv[56]_*_det", "kernel_list", [3, 2, 2], "as its documentation says"),
    _set("pp_ocrv6_small_det", "backbone_config",
         {"model_type": "pp_lcnet_v3", "scale": 0.75, "divisor": 16,
          "out_features": ["stage2", "stage3", "stage4", "stage5"]},
         "what it declares as its default is not what it gets, a backbone of one stage"),
    _set("pp_ocrv6_medium_det", "backbone_config",
         {"model_type": "hgnet_v2", "out_features": ["stage1", "stage2", "stage3", "stage4"]},
         "what it declares as its default; it gets one whose stages do not halve pictures"),
    _set("pp_doclayout_v2", "class_thresholds", [0.5] * 25, "no default; one of each class", "*ForObjectDetection"),
    _set("pp_doclayout_v2", "class_order", [0] * 25, "as above", "*ForObjectDetection"),
    _set("pp_ocrv6_small_det", "layer_list_out_channels", [48, 96, 192, 384], "the channels of these four stages"),
    _set("pp_ocrv5_server_det", "intraclass_block_config", _PP_OCR_BLOCK, "no default"),
    _set("pp_ocrv6_*_det", "intraclass_block_config", _PP_OCR_BLOCK, "no default"),
    *(
        _set(families, f"{prefix}vision_start_token_id", 151652, "no default; that of its published models")
        for families, prefix in (("qwen*omni*_thinker", ""), ("qwen2_5_omni", "thinker_config."),
                                 ("qwen3_omni_moe", "thinker_config."))
    ),
    _set("qwen3_omni_moe_thinker", "text_config.head_dim", 128, "28 heads do not divide 2048; the sections of its "
         "rotary embedding fill half a head of 128"),
    _set("qwen3_omni_moe", "thinker_config.text_config.head_dim", 128, "as above"),
    _set("qwen3_omni_moe", "talker_config.text_config.shared_expert_intermediate_size", 768, "no default"),
    _set("qwen3_omni_moe", "talker_config.spatial_merge_size", 2, "no default; that of its vision tower"),
    *(
        _set(families, f"{prefix}indexer_{name}", value, "no default of the indexer")
        for families, prefix in (("qwen4_exp_text", ""), ("qwen4_exp", "text_config."))
        for name, value in (("n_heads", 16), ("kv_heads", 1), ("head_dim", 256), ("budget", 64), ("compress_ratio", 4))
    ),
    *(
        _set(families, f"{prefix}vision_config.{key}", width, "as wide as its default text model")
        for families, prefix, key, width in (
            ("cohere_compass", "", "out_hidden_size", 8192), ("cosmos3_omni", "", "out_hidden_size", 4096),
            ("glm5_next", "", "out_hidden_size", 4096), ("glm_ocr", "", "out_hidden_size", 1024),
            ("qwen2_vl", "", "hidden_size", 8192), ("qwen2_5_vl", "", "out_hidden_size", 8192),
            ("qwen3_vl", "", "out_hidden_size", 4096), ("qwen3_vl_moe", "", "out_hidden_size", 2048),
            ("qwen3_5", "", "out_hidden_size", 4096), ("qwen3_5_moe", "", "out_hidden_size", 2048),
            ("qwen4_exp", "", "out_hidden_size", 2048), ("qwen3_omni_moe_thinker", "", "out_hidden_size", 2048),
            ("qwen3_omni_moe", "thinker_config.", "out_hidden_size", 2048),
        )
    ),
    *(
        _set(families, f"{prefix}{name}_token_id", 1000 + place, "its default is none of its text model's tokens")
        for families, prefix in (("qwen3_omni_moe_thinker", ""), ("qwen3_omni_moe", "thinker_config."))
        for place, name in enumerate(("image", "video", "audio"))
    ),
    _set("reformer", "is_decoder", True, "a language model is a decoder", "*LMHead"),
    _set("sapiens2", "head_config", {"upsample_out_channels": [512, 256], "conv_out_channels": [256, 256]},
         "a head without layers is refused", "*For*"),
    _set("t5gemma", "is_encoder_decoder", False, "an encoder alone", "T5GemmaEncoderModel"),
    _set("step3p7", "text_config.sliding_window", 512, "no default, and masks are made with it"),
    _set("t5gemma2_encoder", "text_config.dropout_rate", 0.0, "set by the outer type only"),
    *(
        _set(families, f"{prefix}vision_config.{name}", value, "a side of 14 patches is not pooled to 16")
        for families, prefix in (("t5gemma2", "encoder."), ("t5gemma2_encoder", ""), ("gemma3", ""),
                                 ("shieldgemma2", ""))
        for name, value in (("image_size", 896), ("patch_size", 14))
    ),
    _set("timm_backbone", "backbone", "resnet50", "no default"),
    _set("timm_wrapper", "num_classes", 1000, "no default"),
    _set("gemma3n_vision", "num_classes", 1000, "no default"),
    _set("uvdoc", "backbone_config",
         {"model_type": "uvdoc_backbone", "out_features": [f"stage{k}" for k in range(1, 7)]},
         "its head joins all stages"),
    _set("vitmatte", "backbone_config",
         {"model_type": "vitdet", "hidden_size": 384, "num_attention_heads": 6, "num_channels": 4,
          "out_features": ["stage12"]}, "its neck is 384 wide, half as wide as its default backbone"),
    _set("wav2vec2-*", "vocab_size", 32, "no default; that of wav2vec2", "*ForCTC"),
    _set("xmod", "default_language", "en_XX", "the adapter of a language has to be chosen"),
)  # fmt: skip
"""Every setting that differs from the library's default, and why."""


def adjustments(family: str, class_name: str = "") -> dict[str, Any]:
    """The settings of a model type that stand in place of defaults, nested as its configuration is."""
    found: dict[str, Any] = {}
    for line in ADJUSTMENTS:
        if not (fnmatchcase(family, line.families) and fnmatchcase(class_name, line.classes)):
            continue
        *outer, key = line.path.split(".")
        level = found
        for name in outer:
            level = level.setdefault(name, {})
        level[key] = dict(line.value) if isinstance(line.value, Mapping) else line.value
    return found
