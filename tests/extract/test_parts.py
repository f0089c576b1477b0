"""Classes without a call of tensors: the part that is called keeps its name, a tracker follows into a first frame."""

import inspect

import pytest
import torch

from extract.parts import Part, Tracked, signature_of, with_call
from schemas.rows import NumericCheck
from tests.extract.test_input_groups import inputs, traced

pytestmark = pytest.mark.torch


def test_the_part_of_a_class_without_forward_is_called_and_named():
    part = {"hidden_size": 32, "num_layers": 1, "num_heads": 2, "block_size": 256}
    found = traced("bark/BarkModel", "multimodal", semantic_config=part, coarse_acoustics_config=part,
                   fine_acoustics_config=part)  # fmt: skip
    assert found.numeric is NumericCheck.EQUAL
    assert next(iter(inputs(found).values())) == (1, 128)
    weights = [n.name for n in found.graph.nodes if n.op == "placeholder" and n.target == "parameter"]
    assert weights and all("model_semantic_" in name or "model_modules_semantic_" in name for name in weights)


class Session:
    def __init__(self, *, video_height: int, video_width: int, dtype: torch.dtype) -> None:
        self.points: dict[str, torch.Tensor] = {}

    def obj_id_to_idx(self, number: int) -> int:
        return number - 1

    def add_point_inputs(self, index: int, frame: int, given: dict[str, torch.Tensor]) -> None:
        self.points = given


class Tracker(torch.nn.Module):
    config = None

    @torch.inference_mode()
    def forward(self, inference_session: Session, frame: torch.Tensor | None = None):
        return frame * inference_session.points["point_coords"].sum()


def test_a_tracker_is_called_with_a_fresh_session_outside_of_inference_mode():
    model = with_call(Tracker(), "Tracker")
    assert isinstance(model, Tracked)
    assert list(signature_of(model).parameters) == ["frame", "point_coords", "point_kinds"]
    found = model(torch.ones(1, 3, 4, 4), torch.full((1, 1, 1, 2), 0.5), torch.ones(1, 1, 1))
    assert torch.equal(found, torch.ones(1, 3, 4, 4)) and not found.is_inference()


def test_an_assistant_drafts_from_keys_and_values_of_the_model_it_assists():
    text = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
            "vocab_size": 99}  # fmt: skip
    found = traced("gemma4_assistant/Gemma4AssistantForCausalLM", "text-decoder", text_config=text,
                   backbone_hidden_size=24)  # fmt: skip
    assert found.numeric is NumericCheck.CLOSE  # without a compiler, the heads of a group are read where they lie
    full, window = (1, 2, 128, 512), (1, 2, 128, 256)
    assert sorted(inputs(found).values()) == sorted([(1, 1, 48), full, full, window, window])


def test_other_models_are_called_as_they_are():
    model = torch.nn.Linear(2, 2)
    assert with_call(model, "Linear") is model
    assert signature_of(Part(torch.nn.Sequential(model), "0")) == inspect.signature(model.forward)
