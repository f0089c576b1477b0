"""ultralytics: every architecture that a packaged YAML file describes, in every scale that the file has.

    for item in listed(): print(item.name)        # "yolo11n-seg": yolo11-seg.yaml in scale n

Reads the packaged YAML files, for which the library is not imported; a build imports it, told to be offline, to install
nothing and to keep its settings in a folder that is gone after the import. Writes nothing.
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from extract.class_zoos import Listed
from extract.zoos import installed
from schemas.rows import ModelConfig, ModelRef

LIBRARY = "ultralytics"
TASKS: tuple[tuple[str, str, str, Mapping[str, str]], ...] = (
    ("*-cls*", "ClassificationModel", "vision-conv", {"x": "1x3x224x224 unit"}),
    ("yoloe*-seg*", "YOLOESegModel", "segmentation", {"x": "1x3x640x640 unit", "tpe": "1x80x512"}),
    ("yoloe*", "YOLOEModel", "detection", {"x": "1x3x640x640 unit", "tpe": "1x80x512"}),
    ("*-world*", "WorldModel", "detection", {"x": "1x3x640x640 unit", "txt_feats": "1x80x512"}),
    ("*-seg*", "SegmentationModel", "segmentation", {"x": "1x3x640x640 unit"}),
    ("*-sem*", "SemanticSegmentationModel", "segmentation", {"x": "1x3x640x640 unit"}),
    ("*-pose*", "PoseModel", "detection", {"x": "1x3x640x640 unit"}),
    ("*-obb*", "OBBModel", "detection", {"x": "1x3x640x640 unit"}),
    ("*-depth*", "DepthModel", "vision-conv", {"x": "1x3x640x640 unit"}),
    ("*rtdetr*", "RTDETRDetectionModel", "detection", {"x": "1x3x640x640 unit"}),
    ("*", "DetectionModel", "detection", {"x": "1x3x640x640 unit"}),
)
"""(glob on a file's name, class that the library builds it with, stratum, call): the first that fits."""
QUIET = {"YOLO_OFFLINE": "true", "YOLO_AUTOINSTALL": "false", "YOLO_VERBOSE": "false"}
"""What the library is told in the environment, beside the folder of its settings."""
WRAPPED = "TorchVision"
"""Layer that is a network of torchvision: (channels, name, weights to download, ...)."""
_NUMBER = re.compile(r"(yolo(?:e-)?v?\d+)(?![a-z\d])")
"""The part of a file's name that a scale follows; where a letter follows already, or none could, it has one scale."""


def task_of(stem: str) -> tuple[str, str, Mapping[str, str]]:
    """(class, stratum, call) of a file."""
    return next(row[1:] for row in TASKS if fnmatchcase(stem, row[0]))


def _read(path: Path) -> dict[str, Any]:
    import yaml

    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


@cache
def _files() -> Mapping[str, tuple[str, str]]:
    """Name of an architecture -> (stem of its file, scale); empty without the library."""
    spec = find_spec(LIBRARY) if installed(LIBRARY) else None
    if spec is None or spec.origin is None:
        return {}
    found = {}
    for path in sorted((Path(spec.origin).parent / "cfg" / "models").glob("*/*.yaml")):
        scales = list(_read(path).get("scales") or [""])
        for scale in scales if _NUMBER.search(path.stem) else scales[:1]:
            found[_NUMBER.sub(rf"\g<1>{scale}", path.stem, count=1)] = (path.stem, scale)
    return found


def listed() -> Iterator[Listed]:
    """Every file in every scale, by name; the family is the file."""
    for name, (stem, _) in sorted(_files().items()):
        yield Listed(name=name, family=stem, modality=task_of(stem)[1])


def config(row: ModelRef) -> str:
    """Configuration of an architecture: class, file, scale and call."""
    stem, scale = _files()[row.name.split("/")[-1]]
    owner, _, call = task_of(stem)
    settings = {"class": owner, "file": stem, "scale": scale, "call": call}
    return json.dumps(settings, sort_keys=True, separators=(",", ":"))


def build(row: ModelConfig, settings: Mapping[str, Any]) -> Any:
    """The architecture of a file, ready to be called."""
    from extract.arguments import called, written_call

    tasks = quiet_import()
    (path,) = (Path(tasks.__file__).parents[1] / "cfg" / "models").glob(f"*/{settings['file']}.yaml")
    table = {**_read(path), "scale": settings["scale"], "yaml_file": path.name}
    for _, _, module, arguments in (*table["backbone"], *table["head"]):
        if module == WRAPPED:
            arguments[2:3] = [None]
    model = getattr(tasks, settings["class"])(cfg=table, verbose=False)
    _plain_strides(model.model[-1])
    return called(model, *written_call(settings["call"]))


def _plain_strides(head: Any) -> None:
    """Turn the strides of a head into numbers: its call fills tensors with them, for which their values must be known.

    Only where they are real: a model on the meta device is never called.
    """
    import torch

    stride = getattr(head, "stride", None)
    if type(stride) is torch.Tensor and stride.device.type == "cpu":
        head.stride = stride.tolist()


def quiet_import() -> Any:
    """ultralytics.nn.tasks, imported without a look at the network and without a file left behind."""
    if f"{LIBRARY}.nn.tasks" not in sys.modules:
        with TemporaryDirectory() as folder, patch.dict(os.environ, {**QUIET, "YOLO_CONFIG_DIR": folder}):
            __import__(f"{LIBRARY}.nn.tasks")
    return sys.modules[f"{LIBRARY}.nn.tasks"]
