"""Build a model without its weights: parameters are fake, small constructor tensors are real.

    built = build_model(row, rung="fake")
    built.model            # eval mode, every parameter and buffer a FakeTensor of built.mode
    built.data_of(buffer)  # the real values a constructor computed for a buffer, or None

Reads a ModelConfig; writes nothing. Raises whatever the library's constructor raises.

Constructors compute small tables (drop-path rates, rotary frequencies, relative positions, causal masks) and read
them back with `.item()` or `.tolist()`. Such tensors come from a factory call without tensor arguments, so these calls
and everything computed from their results alone run for real; all else is fake. When the model stands, what is still
real is replaced by fake tensors and its data is kept aside, for the initialisers of the graph's placeholders.
"""

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from extract.configs import transformers_config
from extract.failures import LIBRARY_ERRORS
from extract.files import build_file
from extract.further_zoos import ZOOS
from extract.held import held_tensors
from extract.inputs import copied
from extract.parts import with_call
from extract.patches import idle_conversions, no_rejection_sampling, replaced
from extract.zoos import build_diffusers, build_torchvision
from schemas.rows import ModelConfig

FAKE, REAL = "fake", "real"
"""Rungs: fake parameters on the CPU, or real ones where they are small enough to hold."""
FACTORIES = (
    torch.arange, torch.linspace, torch.logspace, torch.tensor, torch.as_tensor, torch.from_numpy, torch.zeros,
    torch.ones, torch.full, torch.eye, torch.hann_window, torch.hamming_window, torch.tril_indices, torch.triu_indices,
)  # fmt: skip
_MAX_REAL_ELEMENTS = 1 << 22
"""Factories asked for a larger tensor make a fake one."""
_MAX_REAL_WEIGHT = 4096
"""Elements of a parameter whose values on the real rung are kept."""
_MAX_REAL_BYTES = 256 << 20
"""Parameters and buffers of a model that is made a second time, for real, to see what its constructor computes."""
SETTINGS: tuple[tuple[str, bool, str], ...] = (
    ("use_cache", False, "one call returns one fixed structure, without a cache that grows"),
    ("output_attentions", False, "as above"),
    ("output_hidden_states", False, "as above"),
    ("return_dict", True, "as above"),
    ("use_associative_scan", False, "the recurrence itself, not vmap's machinery around a generic scan"),
)
"""(attribute, value, why): set in every nested transformers configuration that has the attribute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A model ready to be called, and the real data of what its constructor computed."""

    model: torch.nn.Module
    """The model in eval mode."""
    mode: FakeTensorMode | None
    """The mode its tensors belong to; None on the real rung."""
    names: dict[int, str] = field(default_factory=dict)
    """id of a tensor that the model holds, of `extract.held` -> its qualified name or path."""
    buffers: frozenset[str] = frozenset()
    """Qualified names of the buffers."""
    data: dict[int, torch.Tensor] = field(default_factory=dict)
    """id of a tensor -> its real values before the call, where they are known and no weights."""
    real: Callable[[], Mapping[str, torch.Tensor]] = dict
    """Makes the model for real if it is small: name or path of a tensor -> its values."""

    def name_of(self, value: Any) -> str | None:
        """Qualified name of one of the model's tensors."""
        return self.names.get(id(value))

    def data_of(self, value: Any) -> torch.Tensor | None:
        """The real values of one of the model's tensors, if they are known."""
        return self.data.get(id(value))

    def computed(self, value: Any) -> torch.Tensor | None:
        """The real values of one of the model's tensors, if need be from a model that is made for real."""
        found = self.data_of(value)
        if found is None and self.mode is not None and id(value) in self.names:
            found = self.real().get(self.names[id(value)])
        return found if found is None or found.shape == value.shape else None


class _RealConstants(TorchFunctionMode):
    """Runs for real: factory calls of moderate size, and every call whose tensor operands are all real."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        operands = args[:1] if func is torch.Tensor.__deepcopy__ else (args, kwargs)
        tensors = [leaf for leaf in pytree.tree_leaves(operands) if isinstance(leaf, torch.Tensor)]
        made = not tensors and func in FACTORIES and is_moderate(func, args, kwargs)
        if made or (tensors and not any(isinstance(tensor, FakeTensor) for tensor in tensors)):
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        return func(*args, **kwargs)


def is_moderate(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether a factory call makes a tensor that is small enough to hold."""
    given = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, int | float)]
    if func in (torch.arange, torch.linspace, torch.logspace, torch.tril_indices, torch.triu_indices):
        return all(abs(value) <= _MAX_REAL_ELEMENTS for value in given)
    if func not in (torch.zeros, torch.ones, torch.full, torch.eye, torch.empty):
        return True
    sizes = [leaf for leaf in pytree.tree_leaves((args, kwargs.get("size"))) if isinstance(leaf, int)]
    return math.prod(sizes) <= _MAX_REAL_ELEMENTS


def build_model(row: ModelConfig, *, rung: str = FAKE, seed: int = 0) -> Built:
    """Build the architecture of a row in eval mode on the given rung."""
    _seed(seed)
    if rung == REAL:
        model = _in_eval_mode(_construct(row))
        return _built(model, None, {})
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with no_rejection_sampling(), idle_conversions(), mode, _RealConstants():
        model = _in_eval_mode(_construct(row))
    data = _replace_real(model, mode)
    return replace(_built(model, mode, data), real=lru_cache(partial(_made_for_real, row, model, seed)))


def _seed(seed: int) -> None:
    """Constructors may draw numbers: equal builds draw equal ones."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def _in_eval_mode(model: torch.nn.Module) -> torch.nn.Module:
    """The model in eval mode; its own `eval` or `train` need not return it."""
    model.eval()
    return model


def _built(model: torch.nn.Module, mode: FakeTensorMode | None, data: dict[int, torch.Tensor]) -> Built:
    """The model with names and values of what it holds; what a call writes into is a copy or fake."""
    buffers = frozenset(name for name, _ in model.named_buffers(remove_duplicate=False))
    names: dict[int, str] = {}
    for path, tensor in held_tensors(model):
        names[id(tensor)] = path
        is_small = tensor.numel() <= (
            _MAX_REAL_WEIGHT if isinstance(tensor, torch.nn.Parameter) else _MAX_REAL_ELEMENTS
        )
        if is_small and is_plain(tensor):
            data[id(tensor)] = copied(tensor.detach())
    return Built(model=model, mode=mode, names=names, buffers=buffers, data=data)


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is a block of numbers in memory: not fake, sparse, nested or of a class of its own."""
    kinds = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    return type(tensor) in kinds and tensor.layout is torch.strided and tensor.device.type == "cpu"


def _made_for_real(row: ModelConfig, model: torch.nn.Module, seed: int) -> Mapping[str, torch.Tensor]:
    """Values of what a small model holds; nothing of a large one, nor where its constructor needs fake weights."""
    held = sum(tensor.numel() * tensor.element_size() for tensor in [*model.parameters(), *model.buffers()])
    if held > _MAX_REAL_BYTES:
        return {}
    with torch.random.fork_rng(devices=[]):
        _seed(seed)
        try:
            made = _in_eval_mode(_construct(row))
        except LIBRARY_ERRORS:
            return {}
    return {path: tensor.detach() for path, tensor in held_tensors(made) if is_plain(tensor)}


def parameter_bytes(row: ModelConfig) -> int:
    """Bytes of the parameters and buffers of an architecture, counted on the meta device or, where its constructor
    reads values back, under fake tensors."""
    try:
        with no_rejection_sampling(), torch.device("meta"):
            model = _construct(row)
    except LIBRARY_ERRORS:
        model = build_model(row).model
    return sum(tensor.numel() * tensor.element_size() for tensor in [*model.parameters(), *model.buffers()])


def fake_scope(built: Built) -> Any:
    """The context in which the model is called: its fake mode, or nothing on the real rung."""
    return nullcontext() if built.mode is None else built.mode


# --- libraries ------------------------------------------------------------------------------------------------------
def _construct(row: ModelConfig) -> torch.nn.Module:
    settings = json.loads(row.config)
    model: torch.nn.Module = _CONSTRUCTORS[row.library](row, settings)
    return model


def _construct_transformers(row: ModelConfig, settings: dict[str, Any]) -> torch.nn.Module:
    import transformers

    cls = getattr(transformers, row.class_name)
    config = transformers_config(str(settings.get("model_type") or row.family), settings, owner=cls)
    apply_settings(config)
    model: torch.nn.Module = cls._from_config(config) if hasattr(cls, "_from_config") else cls(config)
    for module in model.modules():
        if isinstance(getattr(module, "config", None), transformers.PretrainedConfig):
            apply_settings(module.config)
    _install_capture_hooks(model)
    return with_call(model, row.class_name)


def _install_capture_hooks(model: torch.nn.Module) -> None:
    """Install the hooks that collect hidden states now: heads of backbones do so in their first call, under a lock
    that Dynamo cannot enter. Without a request for hidden states the hooks do nothing and the graph is the same. A
    part that has its hooks from its constructor gets none from the whole: it would collect every state twice."""
    try:
        from transformers.utils import output_capturing
    except ImportError:
        return
    kept = output_capturing.install_all_output_capturing_hooks

    def once(part: torch.nn.Module, prefix: str | None = None) -> None:
        if not getattr(part, "_output_capturing_hooks_installed", False):
            kept(part, prefix)

    with replaced(output_capturing, "install_all_output_capturing_hooks", once):
        for module in model.modules():
            if hasattr(module, "config") and output_capturing._CAN_RECORD_REGISTRY.get(module):
                output_capturing.maybe_install_capturing_hooks(module)


def apply_settings(config: Any) -> None:
    """Set the attributes of `SETTINGS` on a transformers configuration and on every configuration inside it."""
    for name, value, _ in SETTINGS:
        if hasattr(config, name):
            setattr(config, name, value)
    for inner in list(vars(config).values()):
        if hasattr(inner, "to_dict") and hasattr(inner, "model_type"):
            apply_settings(inner)


def _construct_timm(row: ModelConfig, settings: dict[str, Any]) -> torch.nn.Module:
    import timm

    model: torch.nn.Module = timm.create_model(row.class_name, pretrained=False)
    return model


_CONSTRUCTORS = {
    "transformers": _construct_transformers, "timm": _construct_timm, "torchvision": build_torchvision,
    "diffusers": build_diffusers, "files": build_file, **{library: zoo.build for library, zoo in ZOOS.items()},
}  # fmt: skip


# --- tensors of a model ---------------------------------------------------------------------------------------------
def _tensor_slots(model: torch.nn.Module) -> Iterator[tuple[str, dict[str, Any], str]]:
    """(qualified name, dictionary, key) of every parameter, buffer and plain tensor attribute."""
    for prefix, module in model.named_modules():
        for slots in (module._parameters, module._buffers, module.__dict__):
            for key, value in list(slots.items()):
                if isinstance(value, torch.Tensor):
                    yield f"{prefix}.{key}".lstrip("."), slots, key


def _replace_real(model: torch.nn.Module, mode: FakeTensorMode) -> dict[int, torch.Tensor]:
    """Replace what is still real by fake tensors, shared ones by shared ones; -> the data of each."""
    fakes: dict[int, torch.Tensor] = {}
    data: dict[int, torch.Tensor] = {}
    kept = []
    for _, slots, key in _tensor_slots(model):
        value = slots[key]
        if isinstance(value, FakeTensor):
            continue
        if id(value) not in fakes:
            fakes[id(value)] = mode.from_tensor(value)
            data[id(fakes[id(value)])] = value.detach()
            kept.append(value)
        slots[key] = fakes[id(value)]
    return data
