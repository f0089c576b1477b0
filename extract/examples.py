"""A module and its example inputs: what it is called with, read off the values a person gave.

    model = with_examples(module, lambda: (torch.randn(1, 64),), name="Net of my_models.py")

The inputs are a tensor, a tuple by position or a dictionary by name; tensors may sit in lists, tuples, named tuples,
dictionaries, dataclasses and plain objects, which the module gets as they are. Each tensor becomes an input of a name
of its own, described as `extract.described` says: whole numbers and truth values exactly where they are few,
floating-point numbers as a distribution, unless they are few different ones. A tensor that stands twice is one input;
of tensors that share memory, those inside another become views of it.

Reads and writes nothing. Raises ValueError that names the model if there is no tensor, NotRepresentable that names the
input for a tensor, or a place of one, that a graph does not hold.
"""

import inspect
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from extract.arguments import Called, Made, Slot, View
from extract.described import described, drawn_like, is_few_valued
from extract.held import fields_of
from extract.inputs import WantedInput, copied
from schemas.fx import NotRepresentable, spec_of


def with_examples(module: Any, inputs: Callable[[], Any], *, name: str) -> torch.nn.Module:
    """The module, behind `Called` where its call holds more than tensors by name; it knows its inputs."""
    if not isinstance(module, torch.nn.Module):
        raise ValueError(f"{name} is a {type(module).__name__}, no torch.nn.Module: its factory has to make one")
    with unset_fake_temporarily(), torch.device("cpu"):
        args, kwargs = _by_name(module, *_as_call(module, inputs(), name))
        places = list({id(item.value): item for item in reversed(list(_found(args, kwargs)))}.values())[::-1]
        if not places:
            raise ValueError(f"the example inputs of {name} hold no tensor: give at least one")
        slots = _slots(places)
        wanted = tuple(_wanted(slot, item) for item in places if isinstance(slot := slots[id(item.value)], Slot))
    call = _Call(slots=slots)
    tree = [call.read(item) for item in args]
    named = {key: call.read(item) for key, item in kwargs.items()}
    plain = not tree and all(isinstance(item, Slot) and item.name == key for key, item in named.items())
    model = module if plain else Called(module, tree, named)
    model.wanted_inputs = wanted  # type: ignore[assignment]
    return model


def _as_call(module: torch.nn.Module, given: Any, name: str) -> tuple[list[Any], dict[str, Any]]:
    """(arguments by position, arguments by name); a named tuple is one argument where the module takes one."""
    if isinstance(given, Mapping):
        if not all(isinstance(key, str) for key in given):
            raise ValueError(f"the example inputs of {name} are a dictionary by argument name, and a key is no text")
        return [], dict(given)
    spread = isinstance(given, tuple)
    if spread and hasattr(given, "_fields"):
        spread = not _binds(module, [given])
    return (list(given) if spread else [given]), {}


def _binds(module: torch.nn.Module, args: Sequence[Any]) -> bool:
    try:
        inspect.signature(module.forward).bind(*args)
    except TypeError:
        return False
    return True


def _by_name(module: torch.nn.Module, args: list[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by the names of the module's parameters, where all of them have one."""
    parameters = list(inspect.signature(module.forward).parameters.values())
    known = [item.name for item in parameters if item.kind is item.POSITIONAL_OR_KEYWORD]
    if len(args) > len(known) or any(item.kind is item.POSITIONAL_ONLY for item in parameters):
        return args, dict(kwargs)
    return [], {**dict(zip(known, args, strict=False)), **kwargs}


# --- tensors in a call ----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A tensor of a call."""

    path: tuple[str, ...]
    """Name of the argument, then keys, indices and fields."""
    value: torch.Tensor

    @property
    def text(self) -> str:
        """The path for people: x[0].mask."""
        return self.path[0] + "".join(f"[{part}]" for part in self.path[1:])


def _found(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[_Place]:
    """Every tensor of a call, in order, as often as it stands there."""
    for index, item in enumerate(args):
        yield from _tensors(item, ("input", str(index)))
    for key, item in kwargs.items():
        yield from _tensors(item, (str(key),))


def _tensors(value: Any, path: tuple[str, ...], above: tuple[int, ...] = ()) -> Iterator[_Place]:
    """Every tensor in a structure; one that holds itself is entered once."""
    place = _Place(path=path, value=value)
    if isinstance(value, torch.Tensor):
        _check_held(place)
        yield place
        return
    if hasattr(type(value), "__next__"):
        raise NotRepresentable(f"the example input {place.text} is a {type(value).__name__}, read once: give a list")
    parts = _parts(value) if id(value) not in above else None
    for key, item in parts.items if parts is not None else ():
        yield from _tensors(item, (*path, str(key)), (*above, id(value)))
    if isinstance(value, set | frozenset) and any(isinstance(item, torch.Tensor) for item in value):
        raise NotRepresentable(f"the example input {place.text} is a set of tensors, which has no order: give a list")


def _check_held(place: _Place) -> None:
    """Raise NotRepresentable for a tensor that is no block of numbers on the CPU."""
    value = place.value
    what = f"the example input {place.text} is a"
    if value.is_nested:
        raise NotRepresentable(f"{what} nested tensor, which no graph holds: give a padded tensor and its lengths")
    if value.layout is not torch.strided:
        layout = str(value.layout).removeprefix("torch.")
        raise NotRepresentable(f"{what} tensor of layout {layout}, which no graph holds: give a dense one")
    if value.is_quantized:
        raise NotRepresentable(f"{what} quantized tensor, which no graph holds: give its numbers and its scale")
    if type(value) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        raise NotRepresentable(f"{what} {type(value).__name__}, a sub-class of Tensor: give a plain tensor")
    if value.device.type != "cpu":
        raise NotRepresentable(f"{what} tensor on the device {value.device.type}: give one on the CPU")
    try:
        spec_of(value)
    except NotRepresentable as error:
        raise NotRepresentable(f"{what} tensor that no graph holds: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """A container taken apart: what is in it, and how to make another like it."""

    items: tuple[tuple[Any, Any], ...]
    make: Callable[[Sequence[Any]], Any]


def _parts(value: Any) -> _Parts | None:
    """What a container holds, by key, index or field; None for anything that is no container."""
    kind = type(value)
    if isinstance(value, tuple | list | deque):
        names = getattr(value, "_fields", range(len(value)))
        return _Parts(items=tuple(zip(names, value, strict=True)), make=_maker(value))
    if isinstance(value, dict):
        return _Parts(items=tuple(value.items()), make=partial(_mapping, value, tuple(value)))
    if isinstance(value, type | torch.nn.Module) or callable(value) or kind.__module__ in ("builtins", "torch"):
        return None
    fields = fields_of(value)
    return _Parts(items=tuple(fields.items()), make=partial(_object, kind, tuple(fields))) if fields else None


def _maker(value: Any) -> Callable[[Sequence[Any]], Any]:
    kind = type(value)
    if hasattr(value, "_fields"):
        return lambda items: kind(*items)
    return partial(deque, maxlen=value.maxlen) if isinstance(value, deque) else kind


def _mapping(like: dict[Any, Any], keys: Sequence[Any], items: Sequence[Any]) -> Any:
    """A dictionary of the same type; one with a default factory, or a dataclass, is made as these are."""
    pairs: dict[Any, Any] = dict(zip(keys, items, strict=True))
    if type(like) is dict:
        return pairs
    kind: Any = type(like)
    if hasattr(like, "default_factory"):
        return kind(like.default_factory, pairs)
    return kind(**pairs) if hasattr(like, "__dataclass_fields__") else kind(pairs)


def _object(kind: type, names: Sequence[str], items: Sequence[Any]) -> Any:
    """An instance with these attributes; its constructor is not run again."""
    made: Any = object.__new__(kind)
    for name, item in zip(names, items, strict=True):
        object.__setattr__(made, name, item)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A call in which every tensor gives way to its slot."""

    slots: Mapping[int, Slot | View]

    def read(self, value: Any, above: tuple[int, ...] = ()) -> Any:
        """A structure of `extract.arguments.fill`; what holds no tensor stays the very object."""
        if isinstance(value, torch.Tensor):
            return self.slots[id(value)]
        parts = _parts(value)
        if parts is None or not any(True for _ in _tensors(value, ("",))):
            return value
        if id(value) in above:
            raise NotRepresentable(f"an example input of type {type(value).__name__} holds itself: give a plain one")
        items = [self.read(item, (*above, id(value))) for _, item in parts.items]
        if type(value) in (list, tuple):
            return type(value)(items)
        return Made(make=parts.make, items=items)


# --- names and memory -----------------------------------------------------------------------------------------------
def _slots(places: Sequence[_Place]) -> dict[int, Slot | View]:
    """By id of a tensor: the input that it is, or of which input it is a view. Names differ from one another."""
    around = _containers(places)
    names = _unique([re.sub(r"\W+", "_", "_".join(item.path)) for item in places])
    slots: dict[int, Slot | View] = {id(item.value): Slot(name=name) for item, name in zip(places, names, strict=True)}
    for item in places:
        outer = around.get(id(item.value))
        if outer is not None:
            slots[id(item.value)] = View(
                name=slots[id(outer)].name, shape=tuple(item.value.shape), stride=tuple(item.value.stride()),
                offset=int(item.value.storage_offset() - outer.storage_offset()),
            )  # fmt: skip
    return slots


def _unique(names: Sequence[str]) -> list[str]:
    """The same names; of equal ones all but the first get a number, which makes no other name's text."""
    found: list[str] = []
    for name in names:
        count, unique = 1, name
        while unique in found or (count > 1 and unique in names):
            count += 1
            unique = f"{name}_{count}"
        found.append(unique)
    return found


def _containers(found: Sequence[_Place]) -> dict[int, torch.Tensor]:
    """id of each tensor that lies inside another one -> that one; raises NotRepresentable where two overlap in part."""
    outer: list[_Place] = []
    inside: dict[int, torch.Tensor] = {}
    for item in sorted(found, key=lambda item: -item.value.numel()):
        around = next((other for other in outer if _shares(item, other)), None)
        if around is None:
            outer.append(item)
            continue
        elements, wider = _elements(item.value), _elements(around.value)
        if item.value.dtype != around.value.dtype or not bool(torch.isin(elements, wider).all()):
            raise NotRepresentable(
                f"the example inputs {around.text} and {item.text} share a part of their memory: give clones, or one "
                "that lies within the other"
            )
        inside[id(item.value)] = around.value
    return inside


def _shares(left: _Place, right: _Place) -> bool:
    """Whether two tensors have elements in common."""
    a, b = left.value, right.value
    if not a.numel() or not b.numel() or a.untyped_storage()._cdata != b.untyped_storage()._cdata:
        return False
    if a.dtype != b.dtype:
        return True
    return bool(torch.isin(_elements(a), _elements(b)).any())


def _elements(value: torch.Tensor) -> torch.Tensor:
    """Places in the storage of all elements of a tensor."""
    found = torch.tensor([value.storage_offset()])
    for size, stride in zip(value.shape, value.stride(), strict=True):
        found = torch.unique(found[:, None] + torch.arange(size) * stride)
    return found


# --- what is known of an input --------------------------------------------------------------------------------------
def _wanted(slot: Slot, item: _Place) -> WantedInput:
    value = copied(item.value.detach().resolve_conj().resolve_neg())
    return WantedInput(name=slot.name, spec=spec_of(value), init=_init(value), example=value)


def _init(value: torch.Tensor) -> str:
    is_number = value.dtype.is_floating_point or value.dtype.is_complex
    exact = not is_number or value.numel() < 2 or is_few_valued(value)
    return described(value) if exact else drawn_like(value)
