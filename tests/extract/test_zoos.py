"""torchvision and diffusers: what is listed, how a call is written down, that each library gives graphs."""

import pytest
import torch

from extract import zoos
from extract.arguments import Called, called, written_call, written_tensor
from extract.catalog import load_catalog
from extract.configs import ConfigsConfig, resolve_configs
from extract.described import described
from extract.models import list_diffusers, list_torchvision
from extract.trace import TraceConfig, trace
from passbench.inputs import value_of
from schemas.graph import TensorSpec
from schemas.rows import GraphRecord, ModelConfig

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("text", "dtype", "shape", "holds"),
    [
        ("1x3x8", "float32", (1, 3, 8), lambda t: t.std() > 0.1),
        ("int64 2x5 <9", "int64", (2, 5), lambda t: t.min() >= 0 and t.max() < 9),
        ("bool 1x4", "bool", (1, 4), lambda t: bool(t.all())),
        ("scalar =0.5", "float32", (), lambda t: t == 0.5),
        ("int64 6 arange", "int64", (6,), lambda t: t.tolist() == [0, 1, 2, 3, 4, 5]),
        ("3 unit", "float32", (3,), lambda t: t.min() >= 0 and t.max() < 1),
    ],
)
def test_a_tensor_is_a_short_text(text, dtype, shape, holds):
    wanted = written_tensor("x", text)
    assert (wanted.spec.dtype, wanted.spec.shape) == (dtype, shape)
    assert holds(value_of(wanted.init, wanted.spec, seed=1))


@pytest.mark.parametrize("text", ["1x", "float99 1", "1 purple", "one", "-1"])
def test_a_text_that_is_no_tensor_is_refused_by_name(text):
    with pytest.raises(ValueError, match="input 'x'"):
        written_tensor("x", text)


def test_tensors_come_to_their_places_in_lists_and_tables():
    class Model(torch.nn.Module):
        def forward(self, items, options, scale, mode):
            return sum(items) * scale + options["extra"][0] + (1 if mode == "add" else 0)

    call, wanted = written_call({"items": ["2", "2"], "options": {"extra": ["2"]}, "scale": 3.0, "mode": "'add"})
    model = called(Model(), call, wanted)
    assert isinstance(model, Called) and [item.name for item in wanted] == ["items_0", "items_1", "options_extra_0"]
    one = torch.ones(2)
    assert model(items_0=one, items_1=2 * one, options_extra_0=5 * one).tolist() == [15.0, 15.0]


def test_a_plain_call_leaves_the_model_as_it_is():
    model = torch.nn.Identity()
    assert called(model, *written_call({"input": "2"})) is model


def test_absent_libraries_are_listed_as_nothing(monkeypatch):
    monkeypatch.setattr(zoos, "installed", lambda library: "")
    assert list_torchvision() == [] and list_diffusers(load_catalog()) == []


def test_every_class_of_the_table_has_a_call_and_every_exclusion_a_reason():
    table = zoos.diffusers_table()
    assert len(table) > 140 and set(table["excluded"]).isdisjoint(table)
    assert all(len(reason) > 20 for reason in table["excluded"].values())
    for name, entry in table.items():
        if name != "excluded":
            assert set(entry) <= {"settings", "call"}, name
            _, wanted = written_call(entry["call"])
            assert wanted, name


def test_every_model_class_of_diffusers_is_listed_or_excluded():
    diffusers = pytest.importorskip("diffusers")
    table = zoos.diffusers_table()
    found = [getattr(diffusers, name, None) for name in dir(diffusers)]
    known = {cls.__name__ for cls in found if isinstance(cls, type) and issubclass(cls, diffusers.ModelMixin)}
    assert known - {"ModelMixin"} - set(table) == set(table["excluded"]) & known


CHOSEN = ("torchvision/resnet18", "torchvision/ssdlite320_mobilenet_v3_large", "diffusers/AutoencoderTiny",
          "diffusers/StableAudioProjectionModel", "diffusers/T5FilmDecoder")  # fmt: skip


@pytest.mark.parametrize("name", CHOSEN)
def test_architectures_of_both_libraries_are_admitted(name):
    library = name.split("/")[0]
    pytest.importorskip(library)
    rows = list_torchvision() if library == "torchvision" else list_diffusers(load_catalog())
    chosen = [row for row in rows if row.name == name]
    (config,) = [r for r in resolve_configs(models=chosen, config=ConfigsConfig()) if isinstance(r, ModelConfig)]
    (record,) = trace(config, TraceConfig())
    assert isinstance(record, GraphRecord), record
    assert record.num_ops > 3 and record.license == zoos.LICENSES[library]


def test_quantized_architectures_are_left_out_with_a_reason():
    pytest.importorskip("torchvision")
    names = [name for name, _ in zoos.torchvision_names()]
    assert len(names) > 100 and not any(name.startswith("quantized") for name in names)
    assert all(reason for _, reason in zoos.EXCLUDED)


@pytest.mark.parametrize("count", [3, 9000])
def test_complex_tables_keep_their_values_or_their_size(count):
    data = torch.polar(torch.full((count,), 2.0), torch.linspace(0, 6, count))
    spec = TensorSpec(dtype="complex64", shape=(count,), stride=(1,), device="cpu")
    again = value_of(described(data), spec, seed=0)
    assert again.dtype == torch.complex64
    assert torch.equal(again, data) if count == 3 else abs(float(again.abs().pow(2).mean()) - 4) < 0.2
