"""The golden graphs: real captured graphs with frozen keys, and how each of them was captured.

    python -m benchmarks.golden                 # capture again with the installed torch and compare the keys
    python -m benchmarks.golden --write         # capture and freeze: only with a new version of the tables of identity
    python -m benchmarks.golden --only resnet   # recipes whose label contains a text

Reads the installed torch, transformers and timm, and `data/golden/`; writes with `--write` only: `graphs.jsonl.xz` (a
line a graph: label and the graph's JSON) and `keys.json` (label -> keys). `tests/schemas/test_golden.py` checks the
stored graphs against the stored keys without torch, so identity is the same under every version of it.
"""

import argparse
import json
import lzma
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.canonical import canonicalize
from schemas.forms import LEVELS
from schemas.graph import Graph
from schemas.normal import normalised

FOLDER = Path(__file__).resolve().parent.parent / "data" / "golden"
GRAPHS, KEYS = FOLDER / "graphs.jsonl.xz", FOLDER / "keys.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One graph to capture."""

    label: str
    """Its name in the golden files."""
    family: str
    """transformers model type; empty for timm."""
    class_name: str
    """Class to build, or the timm entry point."""
    config: dict[str, Any] = field(default_factory=dict)
    """Changes of the default configuration."""
    after: dict[str, Any] = field(default_factory=dict)
    """Attributes set on every configuration of the built model."""
    act: str = ""
    """Name of a torch.nn activation put in place of every `act_fn`."""


def _hf(family: str, class_name: str, label: str = "", **config: Any) -> Recipe:
    return Recipe(label=label or f"{family}/{class_name}", family=family, class_name=class_name, config=config)


_TIMM = (
    "resnet50 resnet18 resnet34 resnext50_32x4d vgg11 vgg16_bn mobilenetv2_100 mobilenetv3_small_100 "
    "mobilenetv3_large_100 mixer_s32_224 convnext_pico deit_tiny_patch16_224 vit_tiny_patch16_224 mnasnet_100 "
    "hardcorenas_a poolformer_s12 resmlp_12_224 regnety_002 seresnet18 repvgg_a0 xception41 dpn68 fbnetc_100 tinynet_a "
    "efficientnet_b0 regnetx_006 regnetx_008 regnetx_080 regnetx_320 ghostnet_100"
)
RECIPES: tuple[Recipe, ...] = (
    *(Recipe(label=f"timm/{name}", family="", class_name=name) for name in _TIMM.split()),
    _hf("resnet", "ResNetForImageClassification", num_labels=1000),
    _hf("bert", "BertModel", "bert-4-layers", num_hidden_layers=4),
    Recipe(label="bert-4-layers-hidden-states", family="bert", class_name="BertModel", config={"num_hidden_layers": 4},
           after={"output_hidden_states": True}),
    _hf("gemma", "GemmaModel", "gemma-2-layers", num_hidden_layers=2),
    Recipe(label="gemma-2-layers-erf", family="gemma", class_name="GemmaModel", config={"num_hidden_layers": 2},
           act="GELU"),
    *(_hf(family, name, num_hidden_layers=3) for family, name in (
        ("albert", "AlbertModel"), ("gpt_neox", "GPTNeoXModel"), ("phi", "PhiModel"), ("mpnet", "MPNetModel"),
        ("mistral", "MistralModel"), ("stablelm", "StableLmModel"), ("hubert", "HubertModel"),
        ("electra", "ElectraModel"), ("roberta", "RobertaModel"), ("vit", "ViTModel"), ("deit", "DeiTModel"),
        ("opt", "OPTModel"), ("wav2vec2", "Wav2Vec2Model"), ("audio-spectrogram-transformer", "ASTModel"),
        ("yolos", "YolosForObjectDetection"),
    )),
    *(_hf(family, name, n_layer=3) for family, name in (
        ("gptj", "GPTJModel"), ("bloom", "BloomModel"), ("codegen", "CodeGenModel"), ("gpt2", "GPT2Model"),
    )),
    _hf("mobilebert", "MobileBertModel", num_hidden_layers=2),
    _hf("convbert", "ConvBertModel", num_hidden_layers=2),
    _hf("t5", "T5Model", num_layers=2, num_decoder_layers=2),
    _hf("swin", "SwinModel"),
    _hf("whisper", "WhisperModel", encoder_layers=2, decoder_layers=2),
    _hf("distilbert", "DistilBertModel"),
    _hf("segformer", "SegformerForSemanticSegmentation"),
    _hf("regnet", "RegNetModel"),
    _hf("mamba", "MambaModel", num_hidden_layers=1),
    _hf("mixtral", "MixtralModel", num_hidden_layers=2),
)  # fmt: skip


def capture_recipe(recipe: Recipe) -> Graph:
    """The graph of a recipe; raises what the libraries raise."""
    from extract.build import build_model
    from extract.capture import capture
    from extract.initialisers import describe_placeholders
    from extract.inputs import wanted_inputs
    from schemas.fx import lift

    row = _row(recipe)
    built = build_model(row)
    for module in built.model.modules():
        for name, value in recipe.after.items():
            if hasattr(module, "config"):
                setattr(module.config, name, value)
        if recipe.act and hasattr(module, "act_fn"):
            import torch

            module.act_fn = getattr(torch.nn, recipe.act)()
    wanted = wanted_inputs(built.model, row)
    captured = capture(built, wanted)
    if not captured.is_whole:
        raise ValueError(f"{recipe.label} breaks: {captured.reason}")
    roles, inits = describe_placeholders(captured.pieces[0], captured, built, wanted)
    return lift(captured.pieces[0].gm, roles=roles, inits=inits)


def _row(recipe: Recipe) -> Any:
    from extract.configs import canonical_config, transformers_config
    from schemas.rows import ModelConfig, Text

    settings: dict[str, Any] = {"input_size": [3, 224, 224], "num_classes": 1000}
    if recipe.family:
        settings = json.loads(canonical_config(transformers_config(recipe.family, {}).to_dict()))
    return ModelConfig(
        architecture=recipe.label, name=recipe.label, library="transformers" if recipe.family else "timm",
        library_version="", class_name=recipe.class_name, config=Text(json.dumps(settings | recipe.config)),
        family=recipe.family or "timm", modality="other" if recipe.family else "vision-conv", license="",
    )  # fmt: skip


def keys_of(graph: Graph) -> dict[str, str]:
    """Every frozen key of a graph."""
    form = canonicalize(graph)
    found = {level: getattr(form.keys, level) for level in LEVELS}
    return found | {"body": form.body, "inference": canonicalize(normalised(graph, "inference")).key}


def stored_graphs() -> Iterator[tuple[str, Graph]]:
    """(label, graph) of every golden graph, in the order of the recipes."""
    with lzma.open(GRAPHS, "rt", encoding="utf-8") as file:
        for line in file:
            raw = json.loads(line)
            yield raw["label"], Graph.from_json(raw["graph"])


def stored_keys() -> dict[str, dict[str, str]]:
    """label -> frozen keys."""
    found: dict[str, dict[str, str]] = json.loads(KEYS.read_text(encoding="utf-8"))
    return found


def write(graphs: dict[str, Graph]) -> None:
    """Freeze graphs and their keys."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"label": label, "graph": graph.to_json()}) + "\n" for label, graph in graphs.items()]
    GRAPHS.write_bytes(lzma.compress("".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))
    keys = {label: keys_of(graph) for label, graph in graphs.items()}
    KEYS.write_text(json.dumps(keys, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Entry of `python -m benchmarks.golden`."""
    parser = argparse.ArgumentParser(description="Capture the golden graphs and compare or freeze their keys.")
    parser.add_argument("--write", action="store_true", help="freeze what was captured")
    parser.add_argument("--rekey", action="store_true", help="freeze new keys of the stored graphs, capturing nothing")
    parser.add_argument("--only", default="", help="recipes whose label contains this text")
    options = parser.parse_args()
    if options.rekey:
        write(dict(stored_graphs()))
        return
    graphs: dict[str, Graph] = {}
    for recipe in RECIPES:
        if options.only in recipe.label:
            graphs[recipe.label] = capture_recipe(recipe)
            print(f"{recipe.label}: {len(graphs[recipe.label].nodes)} nodes", flush=True)
    if options.write:
        write(graphs)
        return
    frozen = stored_keys()
    wrong = [label for label, graph in graphs.items() if keys_of(graph) != frozen[label]]
    print(f"{len(graphs) - len(wrong)} of {len(graphs)} captured graphs have their frozen keys")
    if wrong:
        sys.exit("other keys: " + ", ".join(wrong))


if __name__ == "__main__":
    main()
