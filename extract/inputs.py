"""Which inputs a model is called with: two tables a reader can extend, and the small code that follows them.

    wanted = wanted_inputs(model, row)     # (WantedInput(name="input_ids", spec=..., init=...), ...)

`FACTS` says how sizes are found in a configuration, `RULES` which argument of `forward` gets which shape, dtype and
initialiser. An argument that no rule names is left to its default. Sizes are canonical and fixed (batch 1, text 128,
decoder 16), so that equal architectures give equal graphs. Reads and writes nothing; raises InputsError where no
argument of `forward` has a rule.
"""

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch

from extract.failures import InputsError
from schemas import values
from schemas.graph import TensorSpec
from schemas.rows import ModelConfig

TEXT, DECODER, SCAN = 128, 16, 4
"""Canonical lengths in tokens: of a text, of a decoder's prefix, and of a text that a sequential scan unrolls."""
INNER = ("text_config", "encoder", "decoder", "vision_config", "audio_config", "backbone_config")
"""Nested configurations searched for a fact, in this order, after the outer one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One size: the first of `keys` that a configuration has, times `scale`; else `default`; at most `limit`."""

    name: str
    keys: tuple[str, ...]
    default: int
    scale: int = 1
    limit: int | None = None


FACTS = (
    Fact(name="batch", keys=(), default=1),
    Fact(name="decoder", keys=(), default=DECODER),
    Fact(name="scan", keys=(), default=SCAN),
    Fact(name="samples", keys=(), default=16_000),
    Fact(name="vocab", keys=("vocab_size",), default=1000),
    Fact(name="text", keys=("max_position_embeddings", "n_positions"), default=TEXT, limit=TEXT),
    Fact(name="channels", keys=("num_channels", "in_channels", "in_chans"), default=3),
    Fact(name="image", keys=("image_size", "img_size"), default=224),
    Fact(name="detection_image", keys=("image_size",), default=512),
    Fact(name="video", keys=("num_frames",), default=8),
    Fact(name="mel", keys=("num_mel_bins", "feature_size", "input_feat_per_channel"), default=80),
    Fact(name="mel_frames", keys=("max_source_positions",), default=1500, scale=2),
    Fact(name="patch_frames", keys=("max_length",), default=1024),
    Fact(name="types", keys=("type_vocab_size",), default=2),
)
"""Sizes by name; "image" and "detection_image" are spread into "..._height" and "..._width"."""
NORMAL = '{"kind":"normal","mean":0.0,"std":1.0}'
ONES = '{"kind":"ones"}'
IDS = '{"kind":"integers","low":0,"high":"vocab"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRule:
    """One argument of `forward`: its shape in facts or numbers, its dtype, its initialiser with facts as strings."""

    name: str
    shape: tuple[str | int, ...]
    init: str
    dtype: str = "float32"
    families: tuple[str, ...] = ("*",)
    modalities: tuple[str, ...] = ("*",)

    def holds(self, name: str, row: ModelConfig) -> bool:
        """Whether the rule is about this argument of this architecture."""
        fits = any(fnmatchcase(row.family, glob) for glob in self.families)
        return name == self.name and fits and any(fnmatchcase(row.modality, glob) for glob in self.modalities)


_VIDEO = ("timesformer", "vivit", "videomae", "vjepa2", "tvlt")
_IMAGE = ("batch", "channels", "image_height", "image_width")
_SCANS = ("mamba", "falcon_mamba", "rwkv", "recurrent_gemma", "jamba", "xlstm", "zamba")
RULES = (
    InputRule(name="input_ids", shape=("batch", "scan"), dtype="int64", init=IDS, families=_SCANS),
    InputRule(name="attention_mask", shape=("batch", "scan"), dtype="int64", init=ONES, families=("jamba", "zamba")),
    InputRule(name="input_ids", shape=("batch", "text"), dtype="int64", init=IDS),
    InputRule(name="attention_mask", shape=("batch", "text"), dtype="int64", init=ONES,
              modalities=("text-*", "seq2seq", "moe", "multimodal")),
    InputRule(name="decoder_input_ids", shape=("batch", "decoder"), dtype="int64", init=IDS),
    InputRule(name="bbox", shape=("batch", "text", 4), dtype="int64", init='{"kind":"integers","low":0,"high":2}',
              families=("layoutlm*", "bros", "lilt", "markuplm")),
    InputRule(name="pixel_values", shape=("batch", "video", "channels", "image_height", "image_width"), init=NORMAL,
              families=_VIDEO),
    InputRule(name="pixel_values_videos", shape=("batch", "video", "channels", "image_height", "image_width"),
              init=NORMAL, families=_VIDEO),
    InputRule(name="pixel_values", shape=("batch", "channels", "detection_image_height", "detection_image_width"),
              init=NORMAL, modalities=("detection",)),
    InputRule(name="pixel_values", shape=_IMAGE, init=NORMAL),
    InputRule(name="input_values", shape=("batch", "patch_frames", "mel"), init=NORMAL,
              families=("audio-spectrogram-transformer",)),
    InputRule(name="input_values", shape=("batch", 1, "samples"), init=NORMAL, families=("encodec", "dac", "mimi")),
    InputRule(name="input_values", shape=("batch", "samples"), init=NORMAL),
    InputRule(name="input_features", shape=("batch", 1, 1001, 64), init=NORMAL, families=("clap*",)),
    InputRule(name="input_features", shape=("batch", "mel", "mel_frames"), init=NORMAL, families=("whisper*",)),
    InputRule(name="input_features", shape=("batch", 1024, "mel"), init=NORMAL),
    InputRule(name="x", shape=_IMAGE, init=NORMAL, modalities=("vision-*",)),
)  # fmt: skip
"""The first rule that holds for an argument of `forward` gives its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedInput:
    """One keyword argument of the call."""

    name: str
    spec: TensorSpec
    init: str


def wanted_inputs(model: torch.nn.Module, row: ModelConfig) -> tuple[WantedInput, ...]:
    """The keyword arguments a model is called with, in the order of its signature; a model may know them itself."""
    known: tuple[WantedInput, ...] | None = getattr(model, "wanted_inputs", None)
    if known is not None:
        return known
    facts = facts_of(json.loads(row.config), getattr(model, "config", None))
    names = list(inspect.signature(model.forward).parameters)
    found = []
    for name in names:
        rule = next((rule for rule in RULES if rule.holds(name, row)), None)
        if rule is not None and not (name == "attention_mask" and "input_ids" not in names):
            found.append(_wanted(rule, facts))
    if not found:
        raise InputsError(f"no input rule for any argument of {row.class_name}.forward({', '.join(names)})")
    return tuple(found)


def _wanted(rule: InputRule, facts: Mapping[str, int]) -> WantedInput:
    shape = tuple(dim if isinstance(dim, int) else facts[dim] for dim in rule.shape)
    init = {
        key: facts[item] if key != "kind" and isinstance(item, str) else item
        for key, item in values.loads(rule.init).items()
    }
    spec = TensorSpec(dtype=rule.dtype, shape=shape, stride=dense_stride(shape), device="cpu")
    return WantedInput(name=rule.name, spec=spec, init=values.dumps(_tagged(init)))


def _tagged(init: dict[str, Any]) -> dict[str, Any]:
    """Floats in the attribute grammar's exact form."""
    return {key: {"float": repr(item)} if isinstance(item, float) else item for key, item in init.items()}


def dense_stride(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a contiguous tensor."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def facts_of(settings: Mapping[str, Any], config: Any = None) -> dict[str, int]:
    """All facts of a configuration, given as its dictionary and, if there is one, as the library's object."""
    facts: dict[str, int] = {}
    size = settings.get("input_size")
    if isinstance(size, list) and len(size) == 3:
        settings = {**settings, "num_channels": size[0], "image_size": size[1:]}
    for fact in FACTS:
        found = _look_up(fact.keys, settings, config)
        if fact.name.endswith("image"):
            facts[f"{fact.name}_height"], facts[f"{fact.name}_width"] = _sides(found, fact.default)
            continue
        value = found * fact.scale if isinstance(found, int) and found > 0 else fact.default * fact.scale
        facts[fact.name] = value if fact.limit is None else min(value, fact.limit)
    return facts


def _look_up(keys: tuple[str, ...], settings: Mapping[str, Any], config: Any) -> Any:
    """The first key that the outer or a nested configuration has; attribute aliases of the object count."""
    inner = [item for name in INNER if isinstance(item := settings.get(name), Mapping)]
    for level in (settings, *inner):
        for key in keys:
            if level.get(key) is not None:
                return level[key]
    return next((found for key in keys if (found := getattr(config, key, None)) is not None), None)


def _sides(found: Any, default: int) -> tuple[int, int]:
    """Height and width of an image size: a number, a pair, or a dictionary."""
    if isinstance(found, Mapping):
        found = [found.get("height", default), found.get("width", default)]
    if isinstance(found, list | tuple) and found:
        return int(found[0]), int(found[-1])
    return (int(found), int(found)) if isinstance(found, int) and found > 0 else (default, default)
