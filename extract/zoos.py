"""torchvision and diffusers: which architectures they have, how each is built and called.

    rows = [*list_torchvision(catalog), *list_diffusers(catalog)]      # nothing where a library is not installed

Reads the installed libraries and data/catalog/diffusers.toml; writes nothing. What a model is built with and called
with stands in its configuration, so that both are part of its architecture key: {"settings": ..., "call": ...}, a call
as `extract.arguments` writes it down.
"""

import inspect
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

from schemas.rows import ModelConfig, ModelRef

LICENSES = {"torchvision": "bsd-3-clause", "diffusers": "apache-2.0"}
"""Licence of the code of each library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """How the architectures of some modules of torchvision are called; "SIZE" is the edge their weights expect."""

    module: str
    """Glob on the module that defines them, without "torchvision.models."."""
    modality: str
    """Their stratum."""
    call: Mapping[str, str]
    """The call, as `extract.arguments` writes it down."""
    part: str = ""
    """"network": from the image to raw predictions; choosing boxes needs values and gives any number of them."""


IMAGE = "1x3xSIZExSIZE"
GROUPS = (
    Group(module="detection.*rcnn", modality="detection", part="network",
          call={"images": "1x3x512x512", "regions": "64x256x7x7", "crops": "64x256x14x14"}),
    Group(module="detection.ssdlite", modality="detection", part="network", call={"images": "1x3x320x320"}),
    Group(module="detection.ssd", modality="detection", part="network", call={"images": "1x3x300x300"}),
    Group(module="detection.*", modality="detection", part="network", call={"images": "1x3x512x512"}),
    Group(module="segmentation.lraspp", modality="segmentation", call={"input": "1x3x520x520"}),
    Group(module="segmentation.*", modality="segmentation", call={"x": "1x3x520x520"}),
    Group(module="video.resnet", modality="vision-conv", call={"x": "1x3x16x112x112"}),
    Group(module="video.s3d", modality="vision-conv", call={"x": "1x3x16x224x224"}),
    Group(module="video.*", modality="vision-transformer", call={"x": "1x3x16x224x224"}),
    Group(module="optical_flow.*", modality="vision-conv", call={"image1": "1x3x128x128", "image2": "1x3x128x128"}),
    Group(module="vision_transformer", modality="vision-transformer", call={"x": IMAGE}),
    Group(module="swin_transformer", modality="vision-transformer", call={"x": IMAGE}),
    Group(module="maxvit", modality="vision-transformer", call={"x": IMAGE}),
    Group(module="*", modality="vision-conv", call={"x": IMAGE}),
)  # fmt: skip
"""The first group whose glob fits a module."""
EXCLUDED = (("quantization.*", "packed integer weights behind operators of their own; the float model is listed"),)
"""(glob on modules of torchvision, why their architectures are not listed)."""


def installed(library: str) -> str:
    """Version of a library, empty if it is not installed."""
    try:
        return version(library)
    except PackageNotFoundError:
        return ""


# --- torchvision ----------------------------------------------------------------------------------------------------
def _module_of(name: str) -> str:
    from torchvision.models import get_model_builder

    module: str = get_model_builder(name).__module__
    return module.removeprefix("torchvision.models.")


def group_of(module: str) -> Group:
    """The group of a module of torchvision."""
    return next(group for group in GROUPS if fnmatchcase(module, group.module))


def torchvision_names() -> Iterator[tuple[str, str]]:
    """(name, module) of every listed architecture of the installed torchvision, by name; empty without it."""
    if not installed("torchvision"):
        return
    from torchvision.models import list_models

    for name in sorted(list_models()):
        module = _module_of(name)
        if not any(fnmatchcase(module, glob) for glob, _ in EXCLUDED):
            yield name, module


def torchvision_config(row: ModelRef) -> str:
    """Configuration of an architecture: its call at the resolution of its weights, and the part that is called."""
    from torchvision.models import get_model_weights

    name = row.name.split("/")[-1]
    group = group_of(_module_of(name))
    crops = [getattr(weights.transforms(), "crop_size", None) for weights in list(get_model_weights(name))[-1:]]
    edge = str(crops[0][0] if crops and crops[0] else 224)
    call = {key: text.replace("SIZE", edge) for key, text in group.call.items()}
    if "mask" not in name and "keypoint" not in name:
        call.pop("crops", None)
    return _json({"call": call, "part": group.part})


def build_torchvision(row: ModelConfig, settings: Mapping[str, Any]) -> Any:
    """The architecture without weights, its region-choosing steps left out where the configuration says so."""
    from torchvision.models import get_model, get_model_builder

    from extract.arguments import called, written_call
    from extract.detectors import network_of

    known = inspect.signature(get_model_builder(row.class_name)).parameters
    options: dict[str, Any] = {"weights_backbone": None} if "weights_backbone" in known else {}
    if row.class_name in ("googlenet", "inception_v3"):
        options["init_weights"] = False
    model = get_model(row.class_name, weights=None, **options)
    if settings["part"] == "network":
        model = network_of(model)
    return called(model, *written_call(settings["call"]))


# --- diffusers ------------------------------------------------------------------------------------------------------
@cache
def diffusers_table() -> Mapping[str, Any]:
    """data/catalog/diffusers.toml: class name -> settings and call; "excluded": class name -> reason."""
    return tomllib.loads((files("data") / "catalog" / "diffusers.toml").read_text(encoding="utf-8"))


def diffusers_names() -> list[str]:
    """The classes of the table that the installed diffusers has, by name; empty without it."""
    if not installed("diffusers"):
        return []
    import diffusers

    return sorted(name for name in diffusers_table() if name != "excluded" and name in dir(diffusers))


def diffusers_family(name: str) -> str:
    """The module that defines a class of diffusers: siblings share it."""
    import diffusers

    module: str = getattr(diffusers, name).__module__
    return module.split(".")[-1]


def diffusers_config(row: ModelRef) -> str:
    """Configuration of a class: what the table changes of its defaults, and its call."""
    entry = diffusers_table()[row.name.split("/")[-1]]
    return _json({"settings": entry.get("settings", {}), "call": entry["call"]})


def build_diffusers(row: ModelConfig, settings: Mapping[str, Any]) -> Any:
    """The class with the settings of the table, ready to be called."""
    import diffusers

    from extract.arguments import called, written_call

    diffusers.utils.logging.set_verbosity_error()
    cls = getattr(diffusers, row.class_name)
    model = cls(**_arguments(settings["settings"], inspect.signature(cls.__init__).parameters))
    _plain_numbers(model)
    return called(model, *written_call(settings["call"]))


def _plain_numbers(model: Any) -> None:
    """Turn numbers of numpy among the attributes into Python's: a capture takes them for inputs."""
    import numpy

    for module in model.modules():
        for name, value in vars(module).items():
            if isinstance(value, numpy.generic):
                setattr(module, name, value.item())


def _arguments(settings: Mapping[str, Any], known: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    """Settings as the constructor takes them: lists where its default is a list or None, else tuples."""
    listed = [name for name in settings if name in known and isinstance(known[name].default, list | None)]
    return {name: value if name in listed else _tuples(value) for name, value in settings.items()}


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _json(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True, separators=(",", ":"))
