"""Import of a submission's modules, in a process that runs submitted code.

    guests = GuestModules(Path("submission"))    # the frozen files
    module = guests.load("p")                    # executes p.py, and what it imports, once

Modules stand in Python's table below the package PACKAGE, under no other name. An import statement in one of them goes
by `passbench.sources`: a sibling if there is one, else the library. Reads the folder and writes nothing.
"""

import builtins
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from passbench.failure import PassFailed, one_line
from passbench.sources import PACKAGE, path_of, sibling_of
from schemas.rows import Verdict


def module_name(key: str) -> str:
    """The name of a module in Python's table."""
    return f"{PACKAGE}.{key.replace('/', '.')}"


def file_of(module: ModuleType) -> str:
    """The file of a loaded module, for people."""
    return f"{module.__name__.removeprefix(f'{PACKAGE}.')}.py"


class GuestModules:
    """The modules of one submission in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        found = (path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))
        self.keys = frozenset(path.removesuffix(".py") for path in found)
        self.loaded: dict[str, ModuleType] = {}
        self.key_of: dict[str, str] = {}
        """Full name of a module -> its key."""
        self.packages: dict[str, ModuleType] = {}
        self.builtins = {**vars(builtins), "__import__": self.imported}

    def load(self, key: str) -> ModuleType:
        """A module, executed at most once; raises PassFailed if that fails."""
        if key in self.loaded:
            return self.loaded[key]
        path = self.folder / path_of(key)
        name = module_name(key)
        module = ModuleType(name)
        module.__dict__.update({"__file__": str(path.resolve()), "__builtins__": self.builtins})
        self.loaded[key], self.key_of[name], sys.modules[name] = module, key, module
        try:
            exec(compile(path.read_bytes(), module.__dict__["__file__"], "exec"), module.__dict__)
        except PassFailed:
            raise
        except Exception as error:
            text = f"{path_of(key)}: {type(error).__name__} at import: {one_line(error)}"
            raise PassFailed(Verdict.COMPILE_ERROR, text) from error
        return module

    def imported(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """What `__import__` gives to a module of the submission."""
        importer = self.key_of.get((globals or {}).get("__name__", ""))
        if importer is None:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        key = sibling_of(self.keys, importer, name, level)
        if key is not None:
            module = self.load(key)
            return module if fromlist or level else self.root(name, module)
        parts = {item: sibling_of(self.keys, importer, f"{name}.{item}".strip("."), level) for item in fromlist or ()}
        if parts and all(parts.values()):
            return self.package(name, {item: self.load(found) for item, found in parts.items() if found})
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    def root(self, name: str, module: ModuleType) -> ModuleType:
        """The first part of a dotted name, through which the module can be reached by attributes."""
        for place in range(name.count("."), 0, -1):
            parts = name.split(".")
            module = self.package(".".join(parts[:place]), {parts[place]: module})
        return module

    def package(self, name: str, parts: Mapping[str, ModuleType]) -> ModuleType:
        """The module that stands for a folder, with more of its parts."""
        found = self.packages.setdefault(name, ModuleType(name or PACKAGE))
        found.__dict__.update(parts)
        return found
