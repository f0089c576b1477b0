"""Entry points: the calls of one architecture that become graphs of their own.

    built, wanted = enter("decode", built, wanted)

| point   | call                                                                                                    |
|---------|---------------------------------------------------------------------------------------------------------|
| forward | the whole call at batch 1; of a decoder: its prefill                                                    |
| batch   | the same at batch 4                                                                                     |
| decode  | of a decoder: one new token, with the keys and values of all but the last token of the canonical length |

`decode` takes every layer's keys and values as inputs of fixed size and returns them grown by one token, so that the
call is one graph without state. Reads and writes nothing; raises InputsError where a model has no such point.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from extract.build import Built, fake_scope
from extract.failures import FORWARD, InputsError, step
from extract.inputs import WantedInput, dense_stride
from schemas.fx import fake_input, spec_of
from schemas.graph import TensorSpec
from schemas.rows import ModelConfig

FORWARD_POINT, BATCH, DECODE, ALL = "forward", "batch", "decode", "all"
POINTS = (FORWARD_POINT, BATCH, DECODE)
"""All points; `forward` is always traced first."""
BATCH_SIZE = 4
DECODERS = ("text-decoder", "moe")
"""Modalities of the architectures that may decode."""
NORMAL = '{"kind":"normal","mean":{"float":"0.0"},"std":{"float":"1.0"}}'


def points_of(row: ModelConfig, wanted: Sequence[str]) -> tuple[str, ...]:
    """The points of an architecture among those asked for, in the order of `POINTS`."""
    asked = POINTS if ALL in wanted else wanted
    decodes = row.library == "transformers" and row.modality in DECODERS
    return tuple(point for point in POINTS if point in asked and (point != DECODE or decodes))


def enter(point: str, built: Built, wanted: tuple[WantedInput, ...]) -> tuple[Built, tuple[WantedInput, ...]]:
    """The model and its inputs at a point, from those of the forward call."""
    if point == BATCH:
        return built, tuple(map(_batched, wanted))
    return _decoding(built, wanted) if point == DECODE else (built, wanted)


def _batched(item: WantedInput) -> WantedInput:
    """An input at batch 4; what has no batch dimension of size 1 stays."""
    if item.spec.shape[:1] != (1,) or '"literal"' in item.init or '"lines"' in item.init:
        return item
    shape = (BATCH_SIZE, *item.spec.shape[1:])
    return replace(item, spec=replace(item.spec, shape=shape, stride=dense_stride(shape)))


# --- decoding -------------------------------------------------------------------------------------------------------
class Decoding(torch.nn.Module):
    """A decoder that takes its cache as tensors and gives it back as tensors."""

    def __init__(self, model: torch.nn.Module, windows: Sequence[int | None], past: int) -> None:
        super().__init__()
        self.model, self.windows, self.past = model, list(windows), past

    def forward(self, **tensors: torch.Tensor) -> Any:
        """The model's first output, and keys and values of every layer."""
        from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

        cache = DynamicCache()
        for index, window in enumerate(self.windows):
            layer = DynamicLayer() if window is None else DynamicSlidingWindowLayer(sliding_window=window)
            layer.keys, layer.values = tensors[f"past_key_{index}"], tensors[f"past_value_{index}"]
            layer.dtype, layer.device, layer.is_initialized = layer.keys.dtype, layer.keys.device, True
            if window is not None:
                layer.cumulative_length = self.past
            cache.layers.append(layer)
        found = self.model(input_ids=tensors["input_ids"], past_key_values=cache, use_cache=True)
        return found[0], [layer.keys for layer in cache.layers], [layer.values for layer in cache.layers]


def _decoding(built: Built, wanted: tuple[WantedInput, ...]) -> tuple[Built, tuple[WantedInput, ...]]:
    tokens = next((item for item in wanted if item.name == "input_ids"), None)
    if tokens is None or tokens.spec.shape[1] < 2 or any(item.name == "decoder_input_ids" for item in wanted):
        raise InputsError("no decode point: the model takes no tokens, or has an encoder")
    batch, length = tokens.spec.shape
    layers = _prefilled(built, _shaped(tokens, (batch, length - 1)))
    inputs = [_shaped(tokens, (batch, 1))]
    for index, layer in enumerate(layers):
        inputs += [_past(f"past_key_{index}", spec_of(layer.keys)), _past(f"past_value_{index}", spec_of(layer.values))]
    windows = [getattr(layer, "sliding_window", None) for layer in layers]
    return _behind(built, Decoding(built.model, windows, length - 1)), tuple(inputs)


def _prefilled(built: Built, tokens: WantedInput) -> list[Any]:
    """The layers of the cache after a call with some tokens; InputsError if they are no plain keys and values."""
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    with step(FORWARD), torch.no_grad(), fake_scope(built):
        given = fake_input(tokens.spec) if built.mode is not None else torch.zeros(tokens.spec.shape, dtype=torch.int64)
        found = built.model(input_ids=given, use_cache=True)
    layers = list(getattr(getattr(found, "past_key_values", None), "layers", ()))
    if not layers or any(type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers):
        raise InputsError("no decode point: the model keeps no plain keys and values")
    return layers


def _shaped(item: WantedInput, shape: tuple[int, ...]) -> WantedInput:
    return replace(item, spec=replace(item.spec, shape=shape, stride=dense_stride(shape)))


def _past(name: str, spec: TensorSpec) -> WantedInput:
    return WantedInput(name=name, spec=replace(spec, stride=dense_stride(spec.shape)), init=NORMAL)


def _behind(built: Built, wrapper: torch.nn.Module) -> Built:
    """A built model behind a wrapper that holds it as `model`."""
    return replace(
        built, model=wrapper.eval(), names={key: f"model.{name}" for key, name in built.names.items()},
        buffers=frozenset(f"model.{name}" for name in built.buffers),
        real=lambda: {f"model.{name}": value for name, value in built.real().items()},
    )  # fmt: skip
