"""Stage `models`: which architectures there are, and a stratified pick of them.

Source `installed` reads the installed transformers and timm (no network, nothing is built) and `data/catalog/`; `hub`
asks a Hub for its models and keeps their configurations in a cache (`extract.hub`); `graphs` finds sample folders;
`files` lists the modules of a person's own files in a child process (`extract.files`).

    rows = list(list_models(config=ModelsConfig(limit=40)))
    rows = list(list_models(config=ModelsConfig(select=("bert/*", "timm/resnet*"))))

`select` restricts the pool by globs; `limit` then takes that many, round robin over the strata: first the curated
names of data/catalog/defaults.toml, then the rest in a seeded order.
"""

import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path

from extract.catalog import OTHER, STRATA, Catalog, load_catalog, place
from extract.files import list_files
from extract.further_zoos import ZOOS, missing
from extract.zoos import LICENSES, diffusers_family, diffusers_names, group_of, torchvision_names
from schemas.rows import Failure, ModelRef, Skipped, content_id

SOURCES = ("installed", "hub", "graphs", "files")
LICENSE = "apache-2.0"
"""Licence of the code of the libraries, but for `extract.zoos.LICENSES`; configurations come with it."""
SAMPLE = "sample"
"""ModelRef.library of a graph that is read instead of traced."""
_HEADS = re.compile("MODEL_FOR_(.+)_MAPPING_NAMES")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsConfig:
    """Which models a build starts from."""

    sources: tuple[str, ...] = ("installed",)
    """Where models are listed: installed, hub, graphs, files."""
    limit: int = 40
    """How many models to take at most, of each source."""
    samples: str = ""
    """Source graphs: folder below which sample folders are found."""
    files: tuple[str, ...] = ()
    """Source files: Python files ("my_models.py") or import paths ("package.module") with modules of one's own."""
    files_digest: str = ""
    """Source files: digest of their code, so that a change lists them anew."""
    hub_task: str = ""
    """Source hub: only models of this pipeline tag."""
    hub_license: str = ""
    """Source hub: only models under this licence."""
    hub_since: str = ""
    """Source hub: only models changed at this date or later ("2026-11-01")."""
    hub_refresh: bool = False
    """Source hub: list anew, even where a listing was finished."""
    select: tuple[str, ...] = ()
    """Globs on ModelRef.name or on either side of its "/"; empty takes from everything."""
    seed: int = 0
    """Orders the models that are not curated."""

    def __post_init__(self) -> None:
        unknown = [name for name in self.sources if name not in SOURCES]
        if unknown:
            raise ValueError(f"unknown source {unknown[0]!r}: choose from {', '.join(SOURCES)}")
        if self.limit < 1:
            raise ValueError(f"limit must be at least 1, not {self.limit}")
        if "graphs" in self.sources and not self.samples:
            raise ValueError("source graphs needs the folder of the samples: --samples FOLDER")
        if "files" in self.sources and not self.files:
            raise ValueError("source files needs a Python file or an import path: --files my_models.py")


def list_models(*, config: ModelsConfig) -> Iterator[ModelRef | Failure | Skipped]:
    """Yield the chosen models of each source, or why one has no configuration or is left out.

    Raises ValueError if a selection of installed architectures matches nothing, if a listing fails, or if there is no
    folder of samples.
    """
    if "hub" in config.sources:
        yield from list_hub(config)
    if "graphs" in config.sources:
        yield from list_samples(config)
    if "files" in config.sources:
        yield from list_own(config)
    if "installed" in config.sources:
        catalog = load_catalog()
        pool = [*list_transformers(catalog), *list_timm(catalog), *list_torchvision(), *list_diffusers(catalog)]
        pool += [row for library in ZOOS for row in list_zoo(library)]
        yield from sorted(pick(pool, config=config, catalog=catalog), key=lambda row: row.name)


def list_own(config: ModelsConfig) -> Iterator[ModelRef | Failure | Skipped]:
    """The architectures of a person's own files: those selected, as many as the limit lets; the others are counted."""
    found = list(list_files(config.files))
    rows = [row for row in found if isinstance(row, ModelRef)]
    yield from (row for row in found if not isinstance(row, ModelRef))
    chosen, left = chosen_names([row.name for row in rows], config)
    yield from (row for row in rows if row.name in chosen)
    yield from (Skipped(item=row.model, reason=left[row.name]) for row in rows if row.name in left)


def chosen_names(names: Sequence[str], config: ModelsConfig) -> tuple[set[str], dict[str, str]]:
    """The names that a selection and then the limit leave, and why each other one is left out.

    Raises ValueError if there are names and a glob fits none of them, where no other source is asked.
    """
    if names and config.select and len(config.sources) == 1:
        refuse_unmatched(names, config.select)
    selected = [name for name in names if not config.select or any(matches(name, glob) for glob in config.select)]
    chosen = set(selected[: config.limit])
    left = dict.fromkeys(set(names) - set(selected), "not selected (--select)")
    left |= dict.fromkeys(selected[config.limit :], f"over the limit of {config.limit} models (--limit takes more)")
    return chosen, left


# --- pick -----------------------------------------------------------------------------------------------------------
def matches(name: str, pattern: str) -> bool:
    """Whether a glob fits a model's name, or, if it has no "/", one side of the name's "/"."""
    return any(fnmatchcase(part, pattern) for part in (name, *(() if "/" in pattern else name.split("/"))))


def select_models(pool: Sequence[ModelRef], patterns: Sequence[str], *, strict: bool = True) -> list[ModelRef]:
    """The rows of the pool that fit any glob, in pool order; raises ValueError if a glob fits none (if strict)."""
    refuse_unmatched([row.name for row in pool], patterns if strict else ())
    return [row for row in pool if any(matches(row.name, pattern) for pattern in patterns)]


def refuse_unmatched(names: Sequence[str], patterns: Sequence[str]) -> None:
    """Raise ValueError that names close ones if a glob fits no name."""
    for pattern in patterns:
        if not any(matches(name, pattern) for name in names):
            raise ValueError(
                f"no model is named {pattern!r}{_suggestion(names, pattern)}; a selection is a glob on names"
                f"{missing(pattern)}"
            )


def _suggestion(names: Sequence[str], pattern: str) -> str:
    wanted = pattern.strip("*").lower()
    known: dict[str, str] = {}
    for name in names:
        for part in (name, *name.split("/")):
            known.setdefault(part.lower(), part)
    close = difflib.get_close_matches(wanted, known, n=3, cutoff=0.6)
    return f" (close: {', '.join(known[name] for name in close)})" if close else ""


def pick(pool: Sequence[ModelRef], *, config: ModelsConfig, catalog: Catalog) -> list[ModelRef]:
    """At most `limit` rows, round robin over the strata; models of no stratum come last."""
    is_alone = len(config.sources) == 1  # a glob may be meant for the models of another source
    rows = select_models(pool, config.select, strict=is_alone) if config.select else list(pool)
    queues = [_queue(rows, stratum, config.seed, catalog.defaults) for stratum in STRATA]
    spread = [row for turn in zip_longest(*queues) for row in turn if row is not None]
    return [*spread, *_queue(rows, OTHER, config.seed, catalog.defaults)][: config.limit]


def _queue(rows: Sequence[ModelRef], stratum: str, seed: int, defaults: Mapping[str, Sequence[str]]) -> list[ModelRef]:
    """The rows of one stratum: curated ones in the catalog's order, then the others in the seed's order."""
    rank = {name: position for position, name in enumerate(defaults.get(stratum, ()))}
    members = [row for row in rows if row.modality == stratum]
    return sorted(members, key=lambda row: (rank.get(row.name, len(rank)), content_id(str(seed), row.name)))


# --- other sources --------------------------------------------------------------------------------------------------
def list_hub(config: ModelsConfig) -> Iterator[ModelRef | Failure]:
    """Models of a Hub, their configurations fetched into its cache; this child may use the network if the user may."""
    os.environ["HF_HUB_OFFLINE"] = os.environ.get("PASSNET_OFFLINE", "")
    from huggingface_hub import constants

    from extract.hub import HubConfig, HubModel, cache_folder, collect_hub
    from extract.hub_session import Budget, Session

    constants.HF_HUB_OFFLINE = os.environ["HF_HUB_OFFLINE"].upper() in constants.ENV_VARS_TRUE_VALUES
    asked = HubConfig(
        task=config.hub_task, license=config.hub_license, since=config.hub_since, limit=config.limit,
        page_size=min(1000, config.limit),
    )  # fmt: skip
    with Session(policy=asked.policy, budget=Budget()) as session:
        for row in collect_hub(folder=cache_folder(), config=asked, session=session, refresh=config.hub_refresh):
            yield row.ref if isinstance(row, HubModel) else row


def list_samples(config: ModelsConfig) -> Iterator[ModelRef | Skipped]:
    """One row a sample folder, by path; its revision is the digest of its files. Those left out are counted."""
    from extract.samples import find_samples

    root = Path(config.samples)
    names = [folder.relative_to(root).as_posix() for folder in find_samples(root)]
    chosen, left = chosen_names(names, config)
    yield from (Skipped(item=name, reason=left[name]) for name in names if name in left)
    for name in (name for name in names if name in chosen):
        folder = root / name
        files = sorted(path for path in folder.iterdir() if path.is_file())
        revision = content_id(*(f"{path.name}\n{path.read_bytes().hex()}" for path in files))
        yield ModelRef(
            model=content_id("graphs", name, revision), source="graphs", name=name, revision=revision,
            library=SAMPLE, family=name.split("/")[-1], modality=OTHER, pipeline_tag="", license="", gated=False,
            downloads=0, tags=(),
        )  # fmt: skip


# --- the installed libraries ----------------------------------------------------------------------------------------
def _row(*, library: str, name: str, family: str, modality: str, license: str = LICENSE) -> ModelRef:
    revision = f"{library} {version(library)}"
    return ModelRef(
        model=content_id("installed", name, revision), source="installed", name=name, revision=revision,
        library=library, family=family, modality=modality, pipeline_tag="", license=license, gated=False,
        downloads=0, tags=(),
    )  # fmt: skip


def _auto_mapping(name: str) -> Mapping[str, str | tuple[str, ...]]:
    """One auto mapping of transformers, model type -> class name(s); empty if this version lacks it."""
    from transformers.models.auto import modeling_auto

    attribute = "MODEL_MAPPING_NAMES" if not name else f"MODEL_FOR_{name}_MAPPING_NAMES"
    found: Mapping[str, str | tuple[str, ...]] = getattr(modeling_auto, attribute, {})
    return found


@cache
def head_mappings() -> tuple[str, ...]:
    """Every task that the installed transformers has an auto mapping for ("CAUSAL_LM"), in alphabetical order."""
    from transformers.models.auto import modeling_auto

    found = (_HEADS.fullmatch(attribute) for attribute in dir(modeling_auto))
    return tuple(sorted(match[1] for match in found if match))


def _classes(mapping: str, family: str) -> tuple[str, ...]:
    found = _auto_mapping(mapping).get(family, ())
    return (found,) if isinstance(found, str) else tuple(found)


def base_classes(family: str) -> tuple[str, ...]:
    """The class(es) of a model type without a head; empty if the library lists none."""
    return _classes("", family)


def head_classes(family: str) -> tuple[str, ...]:
    """The class of a model type for every task it has one for, each once, by task."""
    return tuple(dict.fromkeys(name for task in head_mappings() for name in _classes(task, family)))


def _family_stratum(family: str, catalog: Catalog) -> str:
    placed = place(family, catalog.families)
    if placed:
        return placed
    return next((s for mapping, s in catalog.mappings.items() if family in _auto_mapping(mapping)), OTHER)


def list_transformers(catalog: Catalog) -> list[ModelRef]:
    """Base class and all task heads of every model type of the installed transformers, by model type.

    A head is in the stratum of the first mapping of `catalog.heads` that has it, else in that of its family.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    rows: dict[str, ModelRef] = {}
    for family in sorted(CONFIG_MAPPING_NAMES):
        stratum = _family_stratum(family, catalog)
        placed = [(name, stratum) for name in base_classes(family)]
        placed += [(name, own or stratum) for task, own in catalog.heads.items() for name in _classes(task, family)]
        placed += [(name, stratum) for name in head_classes(family)]
        for class_name, modality in placed:
            name = f"{family}/{class_name}"
            rows.setdefault(name, _row(library="transformers", name=name, family=family, modality=modality))
    return list(rows.values())


def list_timm(catalog: Catalog) -> list[ModelRef]:
    """Every entry point of the installed timm, by name; its family is the timm module that defines it."""
    import timm

    rows = []
    for name in sorted(timm.list_models(pretrained=False)):
        module = timm.models._registry._model_to_module[name]
        modality = place(module, catalog.timm) or "vision-conv"
        rows.append(_row(library="timm", name=f"timm/{name}", family=module, modality=modality))
    return rows


def list_torchvision() -> list[ModelRef]:
    """Every float architecture of the installed torchvision, by name; its family is the module that defines it."""
    return [
        _row(library="torchvision", name=f"torchvision/{name}", family=module.split(".")[-1],
             modality=group_of(module).modality, license=LICENSES["torchvision"])
        for name, module in torchvision_names()
    ]  # fmt: skip


def list_diffusers(catalog: Catalog) -> list[ModelRef]:
    """The classes of data/catalog/diffusers.toml that the installed diffusers has, by name."""
    rows = []
    for name in diffusers_names():
        modality = place(name, catalog.diffusers) or "vision-transformer"
        rows.append(_row(library="diffusers", name=f"diffusers/{name}", family=diffusers_family(name),
                         modality=modality, license=LICENSES["diffusers"]))  # fmt: skip
    return rows


def list_zoo(library: str) -> list[ModelRef]:
    """The architectures of one of the further zoos, by name; empty where its library is not installed."""
    zoo = ZOOS[library]
    return [
        _row(library=library, name=f"{library}/{item.name}", family=item.family, modality=item.modality,
             license=zoo.license)
        for item in zoo.listed()
    ]  # fmt: skip
