"""torch_geometric, torchaudio, ultralytics: listed where installed, built and called by their tables, admitted."""

import copy
import json
import os
import subprocess
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from extract import class_zoos, yolo
from extract.arguments import written_call
from extract.build import _RealConstants
from extract.catalog import OTHER, STRATA
from extract.class_zoos import TORCH_GEOMETRIC, TORCHAUDIO
from extract.configs import ConfigsConfig, resolve_configs
from extract.further_zoos import ZOOS, missing
from extract.models import list_zoo, select_models
from extract.trace import TraceConfig, trace
from schemas.rows import GraphRecord, ModelConfig

pytestmark = pytest.mark.torch
TABLES = (TORCH_GEOMETRIC, TORCHAUDIO)


# --- without the libraries ------------------------------------------------------------------------------------------
@pytest.fixture
def absent(monkeypatch):
    yolo._files.cache_clear()
    for module in (class_zoos, yolo, sys.modules["extract.further_zoos"]):
        monkeypatch.setattr(module, "installed", lambda library: "")
    yield
    yolo._files.cache_clear()


@pytest.mark.parametrize("library", ZOOS)
def test_an_absent_library_lists_nothing_and_its_extra_is_named(library, absent):
    assert list_zoo(library) == []
    assert missing("timm/resnet50") == ""
    with pytest.raises(ValueError, match=rf'{library} is not installed: pip install -e "\.\[{library}\]"'):
        select_models([], [f"{library}/*"])


@pytest.mark.parametrize("zoo", TABLES, ids=lambda zoo: zoo.library)
def test_every_entry_has_a_call_and_every_exclusion_a_reason(zoo):
    table = zoo.table()
    assert len(table) > 25 and set(table["excluded"]).isdisjoint(table)
    assert all(len(reason) > 20 for reason in table["excluded"].values())
    for name in set(table) - {"excluded"}:
        assert set(table[name]) <= {"settings", "call", "positional"}, name
        tree, wanted = written_call(table[name]["call"])
        assert wanted and set(table[name].get("positional", ())) <= set(tree), name


def test_indices_of_edges_are_below_the_number_of_nodes():
    for name, entry in TORCH_GEOMETRIC.table().items():
        if "edge_index" in entry.get("call", {}):
            bound = int(entry["call"]["edge_index"].split("<")[1])
            nodes = entry["call"].get("x", "64x").split("x")[0]
            assert entry["call"]["edge_index"].startswith("int64 2x") and bound == int(nodes), name


@pytest.mark.parametrize(
    ("stem", "owner", "stratum"),
    [
        ("yolo11", "DetectionModel", "detection"),
        ("yolo11-seg", "SegmentationModel", "segmentation"),
        ("yoloe-26-seg", "YOLOESegModel", "segmentation"),
        ("yolov8-worldv2", "WorldModel", "detection"),
        ("yolov8-rtdetr", "RTDETRDetectionModel", "detection"),
        ("yolov8-cls-resnet50", "ClassificationModel", "vision-conv"),
    ],
)
def test_the_name_of_a_file_says_what_it_is_built_with(stem, owner, stratum):
    assert yolo.task_of(stem)[:2] == (owner, stratum)


def test_each_file_is_listed_in_each_of_its_scales(monkeypatch, tmp_path):
    pytest.importorskip("yaml")
    folder = tmp_path / "ultralytics" / "cfg" / "models" / "11"
    folder.mkdir(parents=True)
    for stem, scales in {"yolo11-seg": "{n: [1], x: [1]}", "yolov10b": "{b: [1]}", "yolov9t": "", "rtdetr-l": "{l: [1]}"}.items():  # fmt: skip # noqa: E501
        (folder / f"{stem}.yaml").write_text(f"nc: 80\nscales: {scales}\n")
    (tmp_path / "ultralytics" / "__init__.py").write_text("raise RuntimeError('a listing imports nothing')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ultralytics", raising=False)
    monkeypatch.setattr(yolo, "installed", lambda library: "8.4")
    yolo._files.cache_clear()
    try:
        assert dict(yolo._files()) == {
            "yolo11n-seg": ("yolo11-seg", "n"), "yolo11x-seg": ("yolo11-seg", "x"), "yolov10b": ("yolov10b", "b"),
            "yolov9t": ("yolov9t", ""), "rtdetr-l": ("rtdetr-l", "l"),
        }  # fmt: skip
    finally:
        yolo._files.cache_clear()


def test_licences_stand_as_declared():
    assert {library: zoo.license for library, zoo in ZOOS.items()} == {
        "torch_geometric": "MIT", "torchaudio": "BSD-2-Clause", "ultralytics": "AGPL-3.0",
    }  # fmt: skip


def test_a_copy_of_a_module_under_fake_parameters_keeps_real_statistics():
    with FakeTensorMode(allow_non_fake_inputs=True), _RealConstants():
        layers = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4))
        copied = copy.deepcopy(layers)
    assert isinstance(copied[0].weight, FakeTensor) and not isinstance(copied[1].running_var, FakeTensor)
    assert copied[1].running_var.tolist() == [1.0] * 4 and copied[1].running_var is not layers[1].running_var


# --- with the libraries ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("zoo", TABLES, ids=lambda zoo: zoo.library)
def test_every_model_is_listed_or_excluded(zoo):
    pytest.importorskip(zoo.library)
    assert zoo.unlisted() == []
    assert {row.modality for row in list_zoo(zoo.library)} <= {*STRATA, OTHER}


CHOSEN = (
    "torch_geometric/GCN", "torch_geometric/PNA", "torch_geometric/GroupAddRev", "torch_geometric/SchNet",
    "torchaudio/Conformer", "torchaudio/DeepSpeech", "ultralytics/yolo11-cls-resnet18", "ultralytics/yolov10n",
)  # fmt: skip


@pytest.mark.parametrize("name", CHOSEN)
def test_architectures_are_admitted(name):
    library = name.split("/")[0]
    pytest.importorskip(library)
    (chosen,) = [row for row in list_zoo(library) if row.name == name]
    (config,) = [r for r in resolve_configs(models=[chosen], config=ConfigsConfig()) if isinstance(r, ModelConfig)]
    (record,) = trace(config, TraceConfig())
    assert isinstance(record, GraphRecord), record
    assert record.num_ops > 3 and record.license == ZOOS[library].license and record.numeric == "equal"


def test_an_import_of_ultralytics_looks_up_no_host_and_leaves_no_file(tmp_path):
    pytest.importorskip("ultralytics")
    code = """
import json, os, socket, tempfile
asked = []
socket.getaddrinfo = lambda *a, **k: asked.append(str(a[0])) or []
socket.socket.connect = lambda self, address: asked.append(str(address))
from extract.yolo import quiet_import
tasks = quiet_import()
table = {"nc": 2, "backbone": [[-1, 1, "Conv", [8, 3, 2]]], "head": [[-1, 1, "Classify", [2]]]}
tasks.ClassificationModel(cfg=table, verbose=False)
print(json.dumps([asked, [f for _, _, files in os.walk(os.environ["HOME"]) for f in files]]))
"""
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / ".config"), "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [[], []]
