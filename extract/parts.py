"""What is called of a transformers class whose own `forward` takes no tensors, or that has none.

    model = with_call(model, "BarkModel")        # behind one of the classes below where a table says so, else itself

Such a class works through `generate` or through a session that keeps the state of a video. `PARTS` names the part that
does its main work: its weights keep their names ("model.semantic..."), so that a graph says which part it is of.
`Tracked` makes one call of a tracker: the first frame of a stream, with one point on one object; `Assisting` one of a
model that drafts a token for another one. Reads and writes nothing.
"""

import inspect
from collections.abc import Callable
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Any

import torch

PARTS: tuple[tuple[str, str, str], ...] = (
    ("BarkModel", "semantic", "text to semantic tokens; the coarse model has the same layers, the codec is Encodec"),
    ("GlmImageVQVAE", "encode", "its one computation"),
    ("Llama4ForConditionalGeneration", "language_model", "reads text; the class itself cannot return: its result asks "
     "for outputs of pictures that its language model does not give"),
    ("Qwen2_5OmniForConditionalGeneration", "thinker", "understands and writes; speech is a model type of its own"),
    ("Qwen3OmniMoeForConditionalGeneration", "thinker", "as above"),
    ("Sam3VideoModel", "detector_model", "finds objects in a frame; the tracker is a model type of its own, and which "
     "object is which is decided with lists"),
)  # fmt: skip
"""(glob on a class, attribute that is called, what it does)."""
SESSION = "inference_session"
"""Argument of `forward` that keeps the state of a video."""
SHARED, ASSISTANTS = "shared_kv_states", "*AssistantForCausalLM"
"""Argument of `forward` that brings keys and values of another model, and a glob on the classes that need it."""


class Part(torch.nn.Module):
    """A model of which one part is called: a module or a method."""

    def __init__(self, model: torch.nn.Module, path: str) -> None:
        super().__init__()
        self.model, self.path = model, path
        self.config = getattr(model, "config", None)

    def forward(self, **given: torch.Tensor) -> Any:
        """Call the part."""
        return attrgetter(self.path)(self.model)(**given)

    def called(self) -> Callable[..., Any]:
        """The function whose signature names the inputs."""
        part = attrgetter(self.path)(self.model)
        return part.forward if isinstance(part, torch.nn.Module) else part


class Tracked(torch.nn.Module):
    """A tracker of objects in videos, called with the first frame of a stream and a point on an object."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model
        self.config = model.config
        self.session = inspect.signature(model.forward).parameters[SESSION].annotation

    def forward(self, frame: torch.Tensor, point_coords: torch.Tensor, point_kinds: torch.Tensor) -> Any:
        """Follow one object into the first frame."""
        session = self.session(video_height=frame.shape[-2], video_width=frame.shape[-1], dtype=frame.dtype)
        index = session.obj_id_to_idx(1)
        session.add_point_inputs(index, 0, {"point_coords": point_coords, "point_labels": point_kinds})
        session.obj_with_new_inputs = [1]
        # Without torch.inference_mode, under which nothing is traced.
        forward = inspect.unwrap(type(self.model).forward)
        return forward(self.model, session, frame=frame)


class Assisting(torch.nn.Module):
    """A model that drafts for another one, called with that one's keys and values of its two kinds of layer."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model
        self.config = model.config

    def forward(
        self,
        assisted_embeds: torch.Tensor,
        full_keys: torch.Tensor,
        full_values: torch.Tensor,
        window_keys: torch.Tensor,
        window_values: torch.Tensor,
    ) -> Any:
        """Draft one token."""
        states = {"full_attention": (full_keys, full_values), "sliding_attention": (window_keys, window_values)}
        return self.model(inputs_embeds=assisted_embeds, **{SHARED: states})


def with_call(model: torch.nn.Module, class_name: str) -> torch.nn.Module:
    """The model as it is called: itself, one part of it, a tracker at a first frame, or an assistant at one token."""
    path = next((path for glob, path, _ in PARTS if fnmatchcase(class_name, glob)), "")
    if path:
        return Part(model, path)
    named = inspect.signature(model.forward).parameters
    if SESSION in named:
        return Tracked(model)
    return Assisting(model) if SHARED in named and fnmatchcase(class_name, ASSISTANTS) else model


def signature_of(model: torch.nn.Module) -> inspect.Signature:
    """The signature that names the inputs of a model, of its part where only that is called."""
    return inspect.signature(model.called() if isinstance(model, Part) else model.forward)
