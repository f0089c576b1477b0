"""Stage `configs`: the configuration of every model in canonical form, and one architecture key per distinct one.

Reads the ModelRef table and the installed libraries' default configurations; writes ModelConfig and ConfigLink rows.
Most models of a hub are fine-tunes: equal (library, version, class, canonical configuration) is traced once.

    rows = list(resolve_configs(models=models, config=ConfigsConfig()))

The canonical configuration is the library's own dictionary without the keys of `IRRELEVANT` and `PINNED`, keys
sorted; `SHAPING` lists the model types for which one of them is kept.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib.metadata import version
from typing import Any

from extract.adjust import adjustments
from extract.failures import LIBRARY_ERRORS, failure_row, first_line
from extract.files import file_config
from extract.further_zoos import ZOOS
from extract.zoos import diffusers_config, torchvision_config
from schemas.rows import ConfigLink, Failure, FailureKind, ModelConfig, ModelRef, Text, content_id

IRRELEVANT: tuple[tuple[str, str], ...] = (
    ("_name_or_path", "where the configuration was loaded from"),
    ("transformers_version", "the version is part of the key already"),
    ("architectures", "the class to build is part of the key already"),
    ("initializer_*", "scale of initial weights, which are never made"),
    ("init_std", "as above"),
    ("init_xavier_std", "as above"),
    ("id2label", "names of classes; their number stays as num_labels"),
    ("label2id", "as above"),
    ("problem_type", "chooses a training loss"),
    ("task_specific_params", "settings of generation"),
    ("bos_token_id", "a token that generation begins with"),
    ("eos_token_id", "a token that generation ends with"),
    ("tokenizer_class", "chooses a tokenizer"),
    ("tokenizer_name", "as above"),
    ("finetuning_task", "a note"),
    ("auto_map", "code of a repository is never run"),
)
"""(glob on a key at any depth, why it cannot shape the graph); benchmarks.architecture_keys verifies it."""
PINNED: tuple[tuple[str, str], ...] = (
    ("dtype", "every architecture is built in float32"),
    ("torch_dtype", "older name of dtype"),
    ("quantization_config", "every architecture is built in float32"),
    ("_attn_implementation*", "every architecture is built with the library's default"),
    ("attn_implementation", "as above"),
    ("_experts_implementation*", "as above"),
    ("output_attentions", "set by the build, so that every capture returns the same things"),
    ("output_hidden_states", "as above"),
    ("return_dict", "as above"),
    ("use_cache", "as above"),
    ("use_associative_scan", "set by the build: one way to compute a scan"),
    ("chunk_size_feed_forward", "left at 0: trades memory for time in training"),
)
"""(glob on a configuration key at any depth, what the build does instead): these would shape a graph if followed."""
SHAPING: tuple[tuple[str, str, str], ...] = (
    ("dory*", "initializer_range", "its forward divides by it"),
    *[(glob, "eos_token_id", "its forward looks for the token, or another setting is derived from it") for glob in (
        "aimv2*", "bart", "bigbird_pegasus", "clip*", "clvp*", "cwm*", "dia*", "esmc*", "esmfold2*", "flaubert",
        "fuyu*", "glm", "glm4", "glmasr*", "groupvit*", "mbart", "metaclip_2*", "mt5*", "mvp", "phi4_multimodal*",
        "pix2struct*", "plbart", "qwen4_exp*", "t5*", "umt5*", "xclip*", "x_clip*", "x-clip*", "xlm",
    )],
    *[(glob, "bos_token_id", "its forward puts the token in, or another setting is derived from it") for glob in (
        "blip*", "clvp*", "dia*", "esmc*", "esmfold2*", "flaubert", "musicgen*", "rag", "t5gemma*", "xlm",
    )],
)  # fmt: skip
"""(glob on a model type, irrelevant key, why it does shape the graph there): the key stays, there and below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigsConfig:
    """Settings of the stage: none so far."""


def resolve_configs(
    *, models: Collection[ModelRef], config: ConfigsConfig
) -> Iterator[ModelConfig | ConfigLink | Failure]:
    """Yield a ConfigLink for every model and a ModelConfig for every distinct key, or a CONFIG_UNSUPPORTED Failure."""
    seen: set[str] = set()
    for row in models:
        try:
            resolved = _resolve(row)
        except LIBRARY_ERRORS as error:
            yield failure_row(error, stage="configs", row=row, kind=FailureKind.CONFIG_UNSUPPORTED)
            continue
        if resolved.architecture not in seen:
            seen.add(resolved.architecture)
            yield resolved
        yield ConfigLink(model=row.model, architecture=resolved.architecture)


def _resolve(row: ModelRef) -> ModelConfig:
    """The configuration of a model, with the class to build and the architecture key."""
    if row.source == "graphs":
        return _row(row, class_name="", library_version=row.revision, canonical=json.dumps({"sample": row.name}),
                    key=(row.revision,))  # fmt: skip
    library = row.library
    if row.source == "files":
        return _row(row, class_name=row.name.partition("/")[2], library_version=row.revision,
                    canonical=file_config(row), key=(row.revision, file_config(row)))  # fmt: skip
    if row.source == "hub":
        library, (class_name, canonical) = "transformers", _of_repository(row)
    else:
        class_name, canonical = row.name.split("/")[-1], _RESOLVERS[library](row)
    built = version(library)
    return _row(replace(row, library=library), class_name=class_name, library_version=built, canonical=canonical,
                key=(built, class_name, canonical))  # fmt: skip


def _row(row: ModelRef, *, class_name: str, library_version: str, canonical: str, key: tuple[str, ...]) -> ModelConfig:
    return ModelConfig(
        architecture=content_id(row.library, *key), name=row.name, library=row.library,
        library_version=library_version, class_name=class_name, config=Text(canonical), family=row.family,
        modality=row.modality, license=row.license,
    )  # fmt: skip


def canonical_config(raw: Mapping[str, Any]) -> str:
    """Canonical JSON of a configuration: irrelevant keys removed at every depth, keys sorted.

    Raises TypeError or ValueError for a value that JSON does not hold.
    """
    return json.dumps(_relevant(raw), sort_keys=True, separators=(",", ":"), allow_nan=True)


def _relevant(value: Any, types: tuple[str, ...] = ()) -> Any:
    """A configuration without its irrelevant keys; `types` are the model types that enclose it."""
    if isinstance(value, Mapping):
        value = _one_rope_type(value)
        types = (*types, str(value["model_type"])) if value.get("model_type") else types
        kept = {str(key): _relevant(item, types) for key, item in value.items() if not is_irrelevant(str(key), types)}
        if "id2label" in value:
            kept["num_labels"] = len(value["id2label"] or ())
        return kept
    if isinstance(value, list | tuple):
        return [_relevant(item, types) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(value)
    return value


def _one_rope_type(value: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Settings of a rotary embedding without `type`, the older name of `rope_type`, where the two agree."""
    if "rope_type" in value and value.get("type") == value["rope_type"]:
        return {key: item for key, item in value.items() if key != "type"}
    return value


def is_irrelevant(key: str, types: Sequence[str] = ()) -> bool:
    """Whether a key is left out of the canonical configuration of these nested model types."""
    if not any(fnmatchcase(key, glob) for glob, _ in (*IRRELEVANT, *PINNED)):
        return False
    return not any(name == key and any(fnmatchcase(kind, glob) for kind in types) for glob, name, _ in SHAPING)


# --- the installed libraries ----------------------------------------------------------------------------------------
def transformers_config(family: str, settings: Mapping[str, Any], *, owner: Any = None) -> Any:
    """The configuration object of a model type; raises ValueError if the library's own validation refuses it.

    `owner` is the class to build: part of a larger model type, it may have a type of its own that no table lists.
    """
    import transformers
    from huggingface_hub.errors import StrictDataclassError
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    transformers.logging.set_verbosity_error()
    try:
        own: Any = getattr(owner, "config_class", None)
        found: Any = own if getattr(own, "model_type", None) == family else CONFIG_MAPPING[family]
        return found.from_dict(dict(settings))
    except StrictDataclassError as error:
        raise ValueError(str(error)) from error
    except LIBRARY_ERRORS as error:
        raise ValueError(_what_is_wrong(family, settings, error)) from error


def _what_is_wrong(family: str, settings: Mapping[str, Any], error: Exception) -> str:
    """The setting without which the library takes a configuration, where one alone is to blame."""
    from huggingface_hub.errors import StrictDataclassError
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    told = f"{type(error).__name__}: {first_line(error)}"
    if family not in CONFIG_MAPPING:
        return f"the installed transformers has no model type {family!r}"
    for name, value in settings.items():
        try:
            CONFIG_MAPPING[family].from_dict({key: item for key, item in settings.items() if key != name})
        except (*LIBRARY_ERRORS, StrictDataclassError):
            continue
        return f"{family!r} takes no {name} = {json.dumps(value)[:80]}: {told}"
    return f"the configuration of {family!r} is refused: {told}"


def _transformers_default(row: ModelRef) -> str:
    """The default configuration, adjusted; of a class that is one part of its model type, that part's; of a head with a
    configuration of its own around those of many model types, its own around this one."""
    import transformers

    class_name = row.name.split("/")[-1]
    config = transformers_config(row.family, adjustments(row.family, class_name))
    own: Any = getattr(getattr(transformers, class_name), "config_class", None)
    parts = vars(config).values() if own is not None and not isinstance(config, own) else ()
    config = next((part for part in parts if isinstance(part, own)), config)
    is_around_text = [*getattr(own, "sub_configs_defaults", ())] == ["text_config"]
    if own is not None and not isinstance(config, own) and is_around_text:
        width = {"hidden_size": config.get_text_config().hidden_size}
        config = own.from_dict({**width, "text_config": config.to_dict()})
    return canonical_config(config.to_dict())


def _timm_default(row: ModelRef) -> str:
    """A timm entry point fixes its architecture; what remains is the input size and the number of classes."""
    import timm

    found = timm.get_pretrained_cfg(row.name.split("/")[-1], allow_unregistered=False)
    settings = found.to_dict() if found is not None else {}
    size = settings.get("input_size") or (3, 224, 224)
    return canonical_config({"input_size": list(size), "num_classes": settings.get("num_classes", 1000)})


def _of_repository(row: ModelRef) -> tuple[str, str]:
    """Class and canonical configuration of a Hub model; ValueError if the installed library lacks the class."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    from extract.hub import cache_folder, stored_settings

    settings = stored_settings(row, cache_folder())
    family = str(settings.get("model_type"))
    named = _architectures(settings.get("architectures"))
    base = MODEL_MAPPING_NAMES.get(family, "")
    class_name = next(iter(named), base if isinstance(base, str) else base[0])
    if not isinstance(getattr(transformers, class_name, None), type):
        raise ValueError(f"the installed transformers has no class {class_name!r} (model type {family!r})")
    return class_name, canonical_config(transformers_config(family, settings).to_dict())


def _architectures(value: Any) -> list[str]:
    """The class names of a configuration, which some give as one name; raises ValueError for anything else."""
    names = [value] if isinstance(value, str) else value or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"architectures is a list of class names, not {json.dumps(value)[:80]}")
    return names


_RESOLVERS = {
    "transformers": _transformers_default, "timm": _timm_default, "torchvision": torchvision_config,
    "diffusers": diffusers_config, **{library: zoo.config for library, zoo in ZOOS.items()},
}  # fmt: skip
