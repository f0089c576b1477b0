"""The zoos beyond the usual ones: each a small adapter, listed where its library is installed.

    for library, zoo in ZOOS.items(): print(library, zoo.license, sum(1 for _ in zoo.listed()))

Reads the installed libraries and their tables; writes nothing. Each has an extra of its name: `pip install
"passnet[torch_geometric]"`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from extract import yolo
from extract.class_zoos import TORCH_GEOMETRIC, TORCHAUDIO, Listed
from extract.zoos import installed
from schemas.rows import ModelConfig, ModelRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Zoo:
    """What the stages need to know of a library."""

    license: str
    """Licence of its code, as it declares it."""
    listed: Callable[[], Iterable[Listed]]
    """Its architectures; none where it is not installed."""
    config: Callable[[ModelRef], str]
    """The default configuration of one."""
    build: Callable[[ModelConfig, Mapping[str, Any]], Any]
    """The model of a configuration."""


ZOOS: Mapping[str, Zoo] = {
    "torch_geometric": Zoo(
        license="MIT", listed=TORCH_GEOMETRIC.listed, config=TORCH_GEOMETRIC.config, build=TORCH_GEOMETRIC.build
    ),
    "torchaudio": Zoo(
        license="BSD-2-Clause", listed=TORCHAUDIO.listed, config=TORCHAUDIO.config, build=TORCHAUDIO.build
    ),
    "ultralytics": Zoo(license="AGPL-3.0", listed=yolo.listed, config=yolo.config, build=yolo.build),
}


def missing(name: str) -> str:
    """How to install the library that a name or glob of an architecture speaks of; empty if it is there or unknown."""
    library = name.split("/")[0]
    if library not in ZOOS or installed(library):
        return ""
    return f'; {library} is not installed: pip install -e ".[{library}]"'
