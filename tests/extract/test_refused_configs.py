"""Configurations that the library refuses: the message names the setting, or says what the file is."""

import json

import pytest

from extract.build import build_model
from extract.configs import _architectures, transformers_config
from extract.hub import Verdict, _object
from schemas.rows import ModelConfig, Text

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("family", "name", "value"),
    [
        ("bert", "hidden_size", "32"),
        ("bert", "hidden_size", 32.5),
        ("bert", "num_hidden_layers", None),
        ("bert", "hidden_act", None),
        ("bert", "id2label", ["a", "b"]),
        ("llama", "quantization_config", "awq"),
        ("llama", "rope_scaling", 3),
    ],
)
def test_the_wrong_setting_is_named(family, name, value):
    with pytest.raises(ValueError, match=name.replace("rope_scaling", "rope_parameters")) as caught:
        transformers_config(family, {"model_type": family, name: value}).to_dict()
    assert not str(caught.value).splitlines()[0].endswith(":") or len(str(caught.value).splitlines()) > 1


def test_architectures_may_be_one_name_and_nothing_else():
    assert _architectures("BertModel") == _architectures(["BertModel"]) == ["BertModel"]
    assert _architectures(None) == _architectures([]) == []
    for wrong in (3, {"a": 1}, ["a", 2]):
        with pytest.raises(ValueError, match="architectures is a list of class names, not"):
            _architectures(wrong)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0", "a pointer to a file in Git LFS"),
        ("<!DOCTYPE html><html>", "a page of HTML"),
        ("[1]", "a JSON array"),
        ("3", "a JSON int"),
        ("hello", "a text that begins with 'hello'"),
    ],
)
def test_a_file_that_is_no_configuration_says_what_it_is(text, what):
    with pytest.raises(Verdict, match="is no JSON object but " + what):
        _object(text)


def test_a_byte_order_mark_is_no_fault():
    assert _object('\ufeff{"a": 1}') == {"a": 1}


def test_a_model_whose_train_returns_nothing_is_built(tmp_path):
    path = tmp_path / "frozen.py"
    path.write_text(
        "import torch\nclass Frozen(torch.nn.Module):\n    example_inputs = torch.ones(2)\n"
        "    def train(self, mode=True): super().train(mode)\n    def forward(self, x): return x * 2\n",
        encoding="utf-8",
    )
    row = ModelConfig(
        architecture="a", name="frozen/Frozen", library="files", library_version="", class_name="Frozen",
        config=Text(json.dumps({"model": "Frozen", "from": str(path)})), family="", modality="other", license="",
    )  # fmt: skip
    for rung in ("fake", "real"):
        assert build_model(row, rung=rung).model.training is False
