"""The hand-kept tables of `data/catalog/`: which stratum an architecture is in, and which come first.

    catalog = load_catalog()
    catalog.defaults["text-encoder"]     # ("bert/BertModel", ...)

Reads data/catalog/strata.toml and defaults.toml; writes nothing; needs no torch.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

STRATA = (
    "text-encoder", "text-decoder", "seq2seq", "moe", "state-space", "vision-conv", "vision-transformer",
    "detection", "segmentation", "audio", "multimodal",
)  # fmt: skip
"""The strata a build is spread over, in round-robin order."""
OTHER = "other"
"""Stratum of everything the tables do not place; taken last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The tables as read, each in file order."""

    defaults: Mapping[str, tuple[str, ...]]
    """Stratum -> names that come first in it."""
    heads: Mapping[str, str]
    """Auto mapping -> stratum of its head classes; empty, and for all other mappings: that of the family."""
    families: Mapping[str, tuple[str, ...]]
    """Stratum -> globs on transformers model types."""
    mappings: Mapping[str, str]
    """Auto mapping -> stratum of the model types in it that no glob places."""
    timm: Mapping[str, tuple[str, ...]]
    """Stratum -> globs on timm modules."""
    diffusers: Mapping[str, tuple[str, ...]]
    """Stratum -> globs on classes of diffusers."""


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((files("data") / "catalog" / name).read_text(encoding="utf-8"))


@cache
def load_catalog() -> Catalog:
    """Read and check the tables; raises ValueError if a line names an unknown stratum."""
    strata, defaults = _read("strata.toml"), _read("defaults.toml")
    globbed = [stratum for table in ("families", "timm", "diffusers") for stratum in strata[table]]
    named = [*defaults, *globbed, *strata["mappings"].values(), *strata["heads"].values()]
    unknown = [name for name in named if name and name not in STRATA]
    if unknown:
        raise ValueError(f"data/catalog names the unknown stratum {unknown[0]!r}; known: {', '.join(STRATA)}")
    return Catalog(
        defaults={key: tuple(names) for key, names in defaults.items()},
        heads=strata["heads"],
        families={key: tuple(globs) for key, globs in strata["families"].items()},
        mappings=strata["mappings"],
        timm={key: tuple(globs) for key, globs in strata["timm"].items()},
        diffusers={key: tuple(globs) for key, globs in strata["diffusers"].items()},
    )


def place(name: str, table: Mapping[str, tuple[str, ...]]) -> str | None:
    """The first stratum of a glob table that has the name, or None."""
    for stratum, globs in table.items():
        if any(fnmatchcase(name, glob) for glob in globs):
            return stratum
    return None
