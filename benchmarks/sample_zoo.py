"""Architectures that samples are written from: tiny models of the installed libraries, built in seconds.

    model, inputs = build("transformers/bert")      # a module in eval mode, (args, kwargs) of one call

Reads the installed libraries; writes nothing. Widths and depths are cut, weights are random: what counts is the code.
"""

import logging
import warnings
from typing import Any

import torch

TRANSFORMERS = (
    "bert roberta gpt2 gptj gpt_neox llama mistral mixtral qwen2 qwen3 qwen2_moe gemma gemma2 gemma3_text phi phi3 "
    "falcon bloom opt t5 mt5 bart marian mbart pegasus blenderbot m2m_100 whisper wav2vec2 hubert vit deit electra "
    "albert distilbert deberta deberta-v2 xlnet xlm longformer mobilebert mpnet layoutlm segformer beit dinov2 mamba "
    "rwkv nystromformer fnet canine ibert codegen ctrl mpt stablelm olmo cohere starcoder2 granite biogpt xglm "
    "big_bird prophetnet led dpt glpn yolos data2vec-text ernie esm gpt_bigcode modernbert smollm3 olmo2 nemotron "
    "persimmon roformer splinter tapas vit_msn yoso visual_bert sew mobilenet_v2 mobilevit pvt cvt poolformer"
).split()
TIMM = (
    "resnet18 efficientnet_b0 mobilenetv3_small_050 convnext_atto vit_tiny_patch16_224 swin_tiny_patch4_window7_224 "
    "mixer_s32_224 regnetx_002 densenet121 ghostnet_050 coat_lite_tiny xcit_nano_12_p16_224 poolformer_s12 "
    "levit_128s edgenext_xx_small tf_efficientnet_lite0 maxvit_rmlp_nano_rw_256 crossvit_tiny_240 visformer_tiny "
    "gcvit_xxtiny nfnet_l0 hrnet_w18_small repvgg_a0 volo_d1_224"
).split()
TORCHVISION = (
    "alexnet vgg11 squeezenet1_1 shufflenet_v2_x0_5 googlenet inception_v3 mnasnet0_5 swin_t vit_b_32 "
    "lraspp_mobilenet_v3_large r3d_18"
).split()
NAMES = tuple(
    f"{library}/{name}"
    for library, names in (("transformers", TRANSFORMERS), ("timm", TIMM), ("torchvision", TORCHVISION))
    for name in names
)
_TINY = {
    "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 64, "num_key_value_heads": 2, "head_dim": 8, "n_embd": 32, "n_layer": 2, "n_head": 4,
    "n_positions": 64, "n_ctx": 64, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
    "num_decoder_layers": 2, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "image_size": 32, "patch_size": 8,
    "embed_dim": 16, "ffn_dim": 48, "rotary_dim": 8, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48,
    "emb_dim": 32, "num_local_experts": 4, "num_experts": 4, "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16, "num_experts_per_tok": 2, "word_embed_proj_dim": 32, "embedding_size": 16,
    "max_source_positions": 20, "max_target_positions": 64, "num_mel_bins": 8, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "sliding_window": 6,
}  # fmt: skip
_SIZES = {
    "inception_v3": 96, "swin_tiny_patch4_window7_224": 224, "maxvit_rmlp_nano_rw_256": 256, "crossvit_tiny_240": 240,
    "gcvit_xxtiny": 224, "volo_d1_224": 224, "levit_128s": 224, "xcit_nano_12_p16_224": 224, "mixer_s32_224": 224,
    "vit_tiny_patch16_224": 224, "visformer_tiny": 224, "vit_b_32": 224, "coat_lite_tiny": 224,
}  # fmt: skip
"""Height and width of pictures where they are no free choice."""

Call = tuple[tuple[Any, ...], dict[str, Any]]


def build(name: str) -> tuple[torch.nn.Module, Call]:
    """A model in eval mode and the arguments of one call; the same weights and inputs each time."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    library, _, short = name.partition("/")
    torch.manual_seed(0)
    make = {"transformers": _transformers, "timm": _timm, "torchvision": _torchvision}[library]
    model, inputs = make(short)
    return model.eval(), inputs


def _transformers(name: str) -> tuple[torch.nn.Module, Call]:
    from transformers import CONFIG_MAPPING, AutoModel

    kind = CONFIG_MAPPING[name]
    given = kind().to_dict()
    config = kind(**{key: value for key, value in _TINY.items() if key in given and not isinstance(given[key], list)})
    if "use_cache" in given:
        config.use_cache = False
    model = AutoModel.from_config(config)
    return model, ((), _inputs(model))


def _inputs(model: Any) -> dict[str, torch.Tensor]:
    key = str(model.main_input_name)
    made = {
        "pixel_values": lambda: torch.randn(1, 3, 32, 32), "input_values": lambda: torch.randn(1, 1600),
        "input_features": lambda: torch.randn(1, 8, 40), "input_ids": lambda: torch.randint(3, 60, (2, 8)),
    }  # fmt: skip
    found = {key: made[key]()}
    if key == "input_ids":
        found["attention_mask"] = torch.ones(2, 8, dtype=torch.int64)
    if getattr(model.config, "is_encoder_decoder", False):
        found["decoder_input_ids"] = torch.randint(3, 60, (found[key].shape[0], 6))
    return found


def _timm(name: str) -> tuple[torch.nn.Module, Call]:
    import timm

    size = _SIZES.get(name, 64)
    return timm.create_model(name, num_classes=10), ((torch.randn(1, 3, size, size),), {})


def _torchvision(name: str) -> tuple[torch.nn.Module, Call]:
    import torchvision

    size = _SIZES.get(name, 64)
    picture = torch.randn(1, 3, 4, 32, 32) if name == "r3d_18" else torch.randn(1, 3, size, size)
    if name == "lraspp_mobilenet_v3_large":
        found: torch.nn.Module = torchvision.models.segmentation.lraspp_mobilenet_v3_large(weights_backbone=None)
        return found, ((picture,), {})
    more = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    return torchvision.models.get_model(name, weights=None, **more), ((picture,), {})
