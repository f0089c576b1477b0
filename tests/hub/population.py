"""The models of a stand-in Hub, decided by a seed alone: few base configurations, many fine-tunes, and their faults.

    models = population(size=2000, seed=0, faults=0.05, bases=BASES)

A fine-tune repeats the configuration of its base and differs in keys that shape no graph (`_name_or_path`, label
names, versions); bases are drawn by a Zipf law. Every kind of FAULTS befalls the share `faults` of the models, at most
one a model. Reads nothing; `installed_bases` reads the installed transformers.
"""

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FAULTS = (
    "rate_limited", "error_500", "error_503", "timeout", "cut_body", "wrong_length", "malformed_json", "huge", "gated",
    "missing_config", "renamed", "private", "disabled",
)  # fmt: skip
"""What can be wrong with one model. The first six pass after `Model.bad_answers` answers."""
PASSING = FAULTS[:6]
REMOTE_CODE_SHARE = 0.01
TASKS = ("text-classification", "fill-mask", "text-generation", "image-classification")
LICENSES = ("apache-2.0", "mit", "openrail", "")
BASES: tuple[dict[str, Any], ...] = (
    {"model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 768, "num_hidden_layers": 12},
    {"model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 1024, "num_hidden_layers": 24},
    {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 768, "n_layer": 12},
    {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 16},
    {"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 192},
    {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 512, "num_layers": 6},
)
"""Stand-ins for `installed_bases` where nothing is built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One repository and how it answers."""

    name: str
    sha: str
    config: bytes
    """Content of config.json at `sha`."""
    listed: Mapping[str, Any]
    """Its entry in a listing, all expanded fields."""
    base: int
    """Which base configuration it repeats."""
    fault: str
    """A member of FAULTS, or empty."""
    bad_answers: int
    """How many answers a passing fault spoils."""


def installed_bases(types: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """Default configurations of the installed transformers, as config.json holds them."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    found = []
    for name in types:
        built = MODEL_MAPPING_NAMES[name]
        values = json.loads(CONFIG_MAPPING[name]().to_json_string(use_diff=False))
        found.append({**values, "architectures": [built if isinstance(built, str) else built[0]]})
    return tuple(found)


def population(*, size: int, seed: int, faults: float, bases: Sequence[Mapping[str, Any]] = BASES) -> list[Model]:
    """Models sorted as a Hub lists them: by falling downloads."""
    if faults * len(FAULTS) > 1:
        raise ValueError(f"faults is the share of each of {len(FAULTS)} kinds: at most {1 / len(FAULTS):.3f}")
    weights = [1 / (rank + 1) for rank in range(len(bases))]
    return [_model(index, random.Random(f"{seed}/{index}"), faults, bases, weights) for index in range(size)]


def _model(
    index: int, chance: random.Random, faults: float, bases: Sequence[Mapping[str, Any]], weights: Sequence[float]
) -> Model:
    place = int(chance.random() / faults) if faults else len(FAULTS)
    fault = FAULTS[place] if place < len(FAULTS) else ""
    (base,) = chance.choices(range(len(bases)), weights)
    name = f"org{index % 37}/model-{index:06d}"
    config: dict[str, Any] = {
        **bases[base], "_name_or_path": f"./out/{chance.randrange(10**6)}", "transformers_version": "4.30.2",
        "id2label": {str(k): f"LABEL_{chance.randrange(100)}" for k in range(2)},
    }  # fmt: skip
    remote = not fault and chance.random() < REMOTE_CODE_SHARE
    if remote:
        config |= {"model_type": "homemade", "auto_map": {"AutoModel": "modeling.HomemadeModel"}}
    text = json.dumps(config, indent=2).encode()
    text = text[: len(text) // 2] if fault == "malformed_json" else text
    sha = hashlib.sha1(f"{name}/{len(text)}".encode()).hexdigest()
    return Model(
        name=name, sha=sha, config=text, listed=_listed(index, name, sha, fault, config, chance), base=base,
        fault=fault, bad_answers=chance.randint(1, 2),
    )  # fmt: skip


def _listed(
    index: int, name: str, sha: str, fault: str, config: Mapping[str, Any], chance: random.Random
) -> dict[str, Any]:
    """The entry in a listing. Half of the gated repositories and of those without config.json became so since."""
    changed_since = chance.random() < 0.5
    files = [] if fault == "missing_config" and not changed_since else ["config.json"]
    licence = chance.choice(LICENSES)
    return {
        "_id": f"{index:024x}", "id": name, "modelId": name, "sha": sha, "private": False,
        "disabled": fault == "disabled" and not changed_since,
        "gated": "manual" if fault == "gated" and not changed_since else False,
        "downloads": 10_000_000 // (index + 1), "library_name": "transformers",
        "pipeline_tag": TASKS[index % len(TASKS)],
        "tags": ["transformers", *([f"license:{licence}"] if licence else [])],
        "lastModified": f"2026-{12 - index % 12:02d}-15T00:00:00.000Z",
        "config": {key: config[key] for key in ("architectures", "model_type", "auto_map") if key in config},
        "siblings": [{"rfilename": file} for file in (*files, "README.md", "model.safetensors")],
    }  # fmt: skip
