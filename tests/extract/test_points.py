"""Entry points and further forms: each a checked row beside the first, with fixed sizes and its own initialisers."""

import json
from dataclasses import replace

import pytest

from extract.configs import ConfigsConfig, resolve_configs
from extract.models import LICENSE
from extract.points import points_of
from extract.trace import TraceConfig, trace
from schemas.graph import Graph, check
from schemas.rows import Failure, FailureKind, GraphRecord, ModelConfig, ModelRef, NumericCheck

pytestmark = pytest.mark.torch
TINY = {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 99}  # fmt: skip


def config(name: str, modality: str, **changes) -> ModelConfig:
    ref = ModelRef(
        model=name, source="installed", name=name, revision="r", library="transformers", family=name.split("/")[0],
        modality=modality, pipeline_tag="", license=LICENSE, gated=False, downloads=0, tags=(),
    )  # fmt: skip
    resolved = next(
        row for row in resolve_configs(models=[ref], config=ConfigsConfig()) if isinstance(row, ModelConfig)
    )
    return replace(resolved, config=json.dumps({**json.loads(resolved.config), **changes}))


def rows(row: ModelConfig, **settings) -> dict[tuple[str, str], GraphRecord]:
    found = list(trace(row, TraceConfig(**settings)))
    assert all(isinstance(item, GraphRecord) for item in found), found
    assert len({item.graph_id for item in found}) == len(found)
    assert {item.numeric for item in found} == {NumericCheck.EQUAL}
    for item in found:
        check(item.graph)
    return {(item.entry_point, item.capture): item for item in found}


def inputs(graph: Graph) -> list[tuple[int, ...]]:
    return [graph.nodes[i].outputs[0].shape for i in graph.placeholders if graph.nodes[i].target == "input"]


def test_a_decoder_has_a_prefill_a_batch_and_a_decoding_step():
    found = rows(config("llama/LlamaModel", "text-decoder", head_dim=8, **TINY), points=("all",))
    assert list(found) == [("forward", "dynamo-eval"), ("batch", "dynamo-eval"), ("decode", "dynamo-eval")]
    forward, batch, decode = (item.graph for item in found.values())
    assert {shape[0] for shape in inputs(forward)} == {1}
    assert {shape[0] for shape in inputs(batch)} == {4}
    assert sorted(inputs(decode)) == [(1, 1), *[(1, 2, 127, 8)] * 4]
    grown = [spec.shape for node in decode.nodes if node.is_call for spec in node.outputs].count((1, 2, 128, 8))
    assert grown >= 4, "keys and values of both layers come back longer by one token"
    assert len({item.num_parameters for item in found.values()}) == 1


def test_only_the_forward_call_is_traced_unless_more_is_asked_for():
    assert list(rows(config("llama/LlamaModel", "text-decoder", **TINY))) == [("forward", "dynamo-eval")]
    assert points_of(config("bert/BertModel", "text-encoder"), ("all",)) == ("forward", "batch")
    with pytest.raises(ValueError, match="unknown entry point 'prefill': choose from forward, batch, decode, all"):
        TraceConfig(points=("prefill",))


def test_the_aten_form_is_linked_to_its_graph_and_gives_its_values():
    found = rows(config("bert/BertModel", "text-encoder", **TINY), aten=True)
    torch_level, aten = found["forward", "dynamo-eval"], found["forward", "aten-eval"]
    assert aten.architecture == torch_level.architecture
    assert {node.target.split(".")[0:3][-1] for node in aten.graph.nodes if node.is_call} <= {"aten", "getitem"}
    assert [aten.graph.nodes[i].target for i in aten.graph.placeholders] == [
        torch_level.graph.nodes[i].target for i in torch_level.graph.placeholders
    ]
    assert aten.graph.inits == torch_level.graph.inits


def test_a_training_step_is_a_forward_and_a_backward_graph():
    found = rows(config("bert/BertModel", "text-encoder", **TINY), training=True)
    forward, backward = found["forward", "aot-forward"], found["forward", "aot-backward"]
    assert any("dropout" in node.target for node in forward.graph.nodes), "the model is in training mode"
    parameters = [forward.graph.nodes[i] for i in forward.graph.placeholders]
    shapes = {node.outputs[0].shape for node in parameters if node.target == "parameter"}
    gradients = {spec.shape for node in backward.graph.nodes for spec in node.outputs}
    assert shapes <= gradients, "every parameter has a gradient of its shape"


def test_a_point_that_fails_is_a_failure_of_its_own_beside_the_graph():
    row = config("bert/BertModel", "text-decoder", **TINY)
    graph, failed = trace(row, TraceConfig(points=("decode",)))
    assert isinstance(graph, GraphRecord)
    assert isinstance(failed, Failure)
    assert (failed.item, failed.kind) == (f"{row.architecture}#decode", FailureKind.INPUT_MISMATCH)
    assert "keeps no plain keys and values" in failed.message
