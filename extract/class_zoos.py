"""torch_geometric and torchaudio: classes and functions of one module each, built and called by a table.

    for item in TORCH_GEOMETRIC.listed(): print(item.name, item.family)      # nothing where it is not installed

Reads the installed library and data/catalog/<library>.toml, which says of every public name how it is built and called
or why it is not listed; writes nothing. As in `extract.zoos`, settings and call stand in the configuration.
"""

import inspect
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any

from extract.zoos import installed
from schemas.rows import ModelConfig, ModelRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One architecture of a library."""

    name: str
    """Name without the library's."""
    family: str
    """The module or file that defines it."""
    modality: str
    """Its stratum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassZoo:
    """A library whose architectures are public names of one module."""

    library: str
    module: str
    """The module whose public names are listed."""
    modality: str
    """Stratum of all of them."""
    parts: str = ""
    """The module whose classes settings may name as {"module": ...}."""

    def table(self) -> Mapping[str, Any]:
        """data/catalog/<library>.toml: name -> settings and call; "excluded": name -> reason."""
        return _table(self.library)

    def listed(self) -> Iterator[Listed]:
        """The names of the table that the installed library has, by name; empty without it."""
        if not installed(self.library):
            return
        module = import_module(self.module)
        for name in sorted(set(self.table()) - {"excluded"}):
            if hasattr(module, name):
                family = getattr(module, name).__module__.split(".")[-1]
                yield Listed(name=name, family=family, modality=self.modality)

    def config(self, row: ModelRef) -> str:
        """Configuration of an architecture: its settings and its call."""
        entry = {"settings": {}, **self.table()[row.name.split("/")[-1]]}
        return json.dumps(entry, sort_keys=True, separators=(",", ":"))

    def build(self, row: ModelConfig, settings: Mapping[str, Any]) -> Any:
        """The architecture with the settings of its configuration, ready to be called."""
        from extract.arguments import called, written_call

        make = getattr(import_module(self.module), row.class_name)
        arguments = {key: self._value(value) for key, value in settings["settings"].items()}
        return called(make(**arguments), *written_call(settings["call"]), settings.get("positional", ()))

    def _value(self, value: Any) -> Any:
        """A setting: a tensor or module where a table names one, else itself."""
        if not isinstance(value, Mapping):
            return value
        if "tensor" in value:
            return import_module("torch").tensor(value["tensor"])
        options = {key: self._value(item) for key, item in value.items() if key != "module"}
        owners = [import_module(name) for name in (self.parts, "torch.nn", "extract.atoms") if name]
        return next(getattr(owner, value["module"]) for owner in owners if hasattr(owner, value["module"]))(**options)

    def unlisted(self) -> list[str]:
        """Public models of the installed library that the table neither lists nor excludes."""
        module = import_module(self.module)
        table = self.table()
        models = [name for name in module.__all__ if inspect.isclass(getattr(module, name))]
        return sorted(set(models) - set(table) - set(table["excluded"]))


@cache
def _table(library: str) -> Mapping[str, Any]:
    return tomllib.loads((files("data") / "catalog" / f"{library}.toml").read_text(encoding="utf-8"))


TORCH_GEOMETRIC = ClassZoo(
    library="torch_geometric", module="torch_geometric.nn.models", modality="other", parts="torch_geometric.nn"
)
TORCHAUDIO = ClassZoo(library="torchaudio", module="torchaudio.models", modality="audio")
