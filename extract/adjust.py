"""Defaults of the installed libraries that their own constructors refuse, and what stands in their place.

    settings = adjustments("nemotron")        # {"num_key_value_heads": 48}

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
_CONV_THEN_ATTENTION = ["full_attention" if i % 4 == 2 else "conv" for i in range(32)]

ADJUSTMENTS: tuple[Adjustment, ...] = (
    Adjustment(families="beit", path="out_indices", value=[3, 5, 7, 11], why="segmentation asks for four features"),
    Adjustment(families="big_bird", path="block_size", value=8,
               why="with blocks of 64 a text of 128 tokens is too short for sparse attention"),
    Adjustment(families="bigbird_pegasus", path="block_size", value=8, why="as above"),
    Adjustment(families="cohere_compass*", path="text_config.rope_parameters",
               value={"full_attention": {"rope_theta": 10000.0, "rope_type": "default"}},
               why="rotary settings are read by layer type"),
    Adjustment(families="dbrx", path="attn_config.rope_theta", value=10000.0,
               why="attention reads it from its own part, where it has no default"),
    Adjustment(families="emu3", path="vocabulary_map",
               value={"<image>": 151643, "<|extra_200|>": 151847,
                      **{f"<|visual token {i:06d}|>": 151854 + i for i in range(8)}},
               why="the map of image tokens has no default; its entries shape no operation"),
    Adjustment(families="hunyuan_v1_*", path="head_dim", value=128, why="no default; 4096 / 32 heads"),
    Adjustment(families="hunyuan_vl", path="text_config.head_dim", value=128, why="as above"),
    Adjustment(families="lfm2_moe", path="layer_types", value=_CONV_THEN_ATTENTION,
               why="no default; attention in one layer of four, as in published models"),
    Adjustment(families="nemotron", path="num_key_value_heads", value=48, why="no default; one a head"),
    Adjustment(families="perception_lm", path="vision_config",
               value={"architecture": "vit_pe_core_large_patch14_336", "do_pooling": True, "num_classes": 1024,
                      "model_args": {"embed_dim": 1024, "depth": 23, "img_size": [448, 448], "global_pool": "",
                                     "use_post_transformer_norm": False, "init_values": 0.1,
                                     "ref_feat_shape": [32, 32]}},
               why="the projector reads the vision tower's width from its arguments, which have no default"),
    Adjustment(families="pp_ocrv5_server_det", path="intraclass_block_config", value=_PP_OCR_BLOCK,
               why="no default"),
    Adjustment(families="pp_ocrv5_server_det", path="scale_factor_list", value=[1, 2, 4, 8],
               why="no default; brings four stages to one size"),
    Adjustment(families="pp_ocrv5_server_det", path="kernel_list", value=[3, 2, 2], why="as its documentation says"),
    Adjustment(families="pp_ocrv6_*_det", path="intraclass_block_config", value=_PP_OCR_BLOCK, why="no default"),
    *(
        Adjustment(families=families, path=f"{prefix}indexer_{name}", value=value, why="no default of the indexer")
        for families, prefix in (("qwen4_exp_text", ""), ("qwen4_exp", "text_config."))
        for name, value in (("n_heads", 16), ("kv_heads", 1), ("head_dim", 256), ("budget", 64), ("compress_ratio", 4))
    ),
    Adjustment(families="sapiens2", path="head_config",
               value={"upsample_out_channels": [512, 256], "conv_out_channels": [256, 256]},
               why="a head without layers is refused"),
    Adjustment(families="wav2vec2-bert", path="vocab_size", value=32, why="no default; that of wav2vec2"),
)  # fmt: skip
"""Every setting that differs from the library's default, and why."""


def adjustments(family: str) -> dict[str, Any]:
    """The settings of a model type that stand in place of defaults, nested as its configuration is."""
    found: dict[str, Any] = {}
    for line in ADJUSTMENTS:
        if not fnmatchcase(family, line.families):
            continue
        *outer, key = line.path.split(".")
        level = found
        for name in outer:
            level = level.setdefault(name, {})
        level[key] = dict(line.value) if isinstance(line.value, Mapping) else line.value
    return found
