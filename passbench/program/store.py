"""What a submission's modules keep between calls, and what of it may be changed.

    store = Store()
    store.seal(values)                           # once, when the modules have been executed
    store.write(container, key, value)           # `container[key] = value` of a container that is kept
    store.reset()                                # everything is as the modules made it

A wrapper may look up settings by a key and put in those that are missing; any other change of what is kept is refused.
No output can be kept: of tensors only memory that was just allocated and not written may be put in, as scratch space.
While calls are watched, scratch memory is spoiled before each; in a loop that is not watched everything is as the
modules made it at the beginning of every call. Reads and writes nothing else.
"""

import contextlib
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any

import torch

from passbench.census import spoil
from passbench.program.refusal import Refused
from passbench.program.values import ATOMS, TENSORS, Launch, Partial, Record, is_fixed

_CONTAINERS = (list, dict, set)


class Store:
    """Containers at the top of modules."""

    def __init__(self) -> None:
        self.shared: dict[int, tuple[Any, Any]] = {}
        """Identity -> (container, its contents as the modules made them)."""
        self.fresh: dict[int, torch.Tensor] = {}
        """Memory that was allocated in this call and not given to a kernel."""
        self.kept: list[torch.Tensor] = []
        self.added: list[int] = []
        """Identities of containers that calls put into others."""
        self.unwritten: dict[int, torch.Tensor] = {}
        """Memory that modules allocated and did not write."""
        self.made: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = {}
        """Identity -> (a tensor of a module, its contents as the module made them; None where it wrote none)."""
        self.seen: set[int] = set()
        """Identities of functions whose surroundings are known."""
        self.sealed = self.changed = False

    def seal(self, values: Iterable[Any]) -> None:
        """The modules have been executed: from now on what these values hold, functions too, is kept."""
        self.share(values)
        self.sealed = True

    def share(self, values: Iterable[Any]) -> None:
        """Know containers and tensors, and those inside, as kept."""
        for value in values:
            if not self.sealed and type(value) in TENSORS:
                contents = None if id(value) in self.unwritten else value.clone()
                self.made.setdefault(id(value), (value, contents))
            if type(value) in _CONTAINERS and id(value) not in self.shared:
                self.shared[id(value)] = (value, value.copy())
                if self.sealed:
                    self.added.append(id(value))
                self.share(value.values() if type(value) is dict else value)
            elif type(value) is tuple:
                self.share(value)
            elif type(value) is Record:
                self.share(value.values)
            elif type(value) is Partial:
                self.share((value.function, *value.args, *value.kwargs.values()))
            elif type(value) is FunctionType and value.__closure__ and id(value) not in self.seen:
                self.seen.add(id(value))
                self.share(_cells(value))

    def check(self, container: Any, how: str) -> None:
        """Refuse a change of a container that is kept."""
        if id(container) in self.shared:
            raise Refused("state", f"{how} changes what is kept between calls")

    def write(self, container: Any, key: Any, value: Any) -> None:
        """Put a setting into a container."""
        if id(container) in self.shared:
            if type(container) is not dict:
                raise Refused("state", "an element of a list is changed that is kept between calls")
            self.admit(value)
            self.changed = True
        container[key] = value

    def admit(self, value: Any) -> None:
        """Refuse to keep what could hold an output."""
        if type(value) in TENSORS:
            if self.fresh.pop(id(value), None) is None:
                raise Refused("state", "a tensor is kept between calls")
            self.kept.append(value)
        elif type(value) in (tuple, list, set):
            for item in value:
                self.admit(item)
        elif type(value) is dict:
            for item in value.values():
                self.admit(item)
        elif type(value) is Record:
            self.admit(value.values)
        elif type(value) not in ATOMS and not is_fixed(value) and not (type(value) is Launch and is_fixed(value.grid)):
            raise Refused("state", f"a {type(value).__name__} is kept between calls")
        self.share([value])

    def begin(self, *, spoiled: bool) -> None:
        """A call begins: scratch memory holds nothing that could be used, or everything is as it was."""
        self.fresh.clear()
        if spoiled:
            for tensor in self.kept:
                spoil(tensor)
            for tensor, contents in self.made.values():
                spoil(tensor) if contents is None else tensor.copy_(contents)
        elif self.changed:
            self.reset()

    def reset(self) -> None:
        """Have everything as the modules made it."""
        for identity in self.added:
            del self.shared[identity]
        self.added.clear()
        for container, contents in self.shared.values():
            container.clear()
            (container.extend if type(container) is list else container.update)(contents)
        self.kept.clear()
        self.fresh.clear()
        self.changed = False

    @contextlib.contextmanager
    def cold(self) -> Iterator[None]:
        """Everything is as the modules made it, and afterwards as it was before."""
        contents = [(container, container.copy()) for container, _ in self.shared.values()]
        before = dict(self.shared), [*self.added], [*self.kept], self.changed
        self.reset()
        try:
            yield
        finally:
            self.shared, self.added, self.kept, self.changed = before
            for container, held in contents:
                container.clear()
                (container.extend if type(container) is list else container.update)(held)

    def check_outputs(self, outputs: Iterable[Any]) -> None:
        """Refuse outputs in memory that is kept."""
        kept = [*self.kept, *(tensor for tensor, _ in self.made.values())]
        places = {tensor.untyped_storage().data_ptr() for tensor in kept}
        for value in outputs:
            if isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() in places:
                raise Refused("kept-output", "an output stands in memory that is kept between calls")


def _cells(function: FunctionType) -> list[Any]:
    """What a function sees of the functions around it."""
    found = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):
            found.append(cell.cell_contents)
    return found
