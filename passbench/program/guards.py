"""The checks that stand in a wrapper's code: what it does with values whose kind is known at run time only.

    namespace.update(Guards(store, namespace).names())   # "__number", "__plain", "__attr_shape", "__call_view", ...

A check gives its value back, or does what the wrapper asks for, or raises Refused. No check computes with a tensor,
reads its contents, or lets a wrapper do so. Functions that wrappers call by name stand in `passbench.program.library`.
"""

import operator
import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import torch
import triton

from passbench.program.launcher import Kernel
from passbench.program.refusal import Refused
from passbench.program.store import Store
from passbench.program.tables import ATTRIBUTES, METHODS, TENSOR_ATTRIBUTES, TENSOR_METHODS
from passbench.program.values import ATOMS, NUMBERS, TENSORS, Launch, Partial, Record, RecordType, field

_ADDABLE = NUMBERS | {str, tuple, list, torch.Size}
_ITERABLE = frozenset({list, tuple, dict, set, frozenset, range, torch.Size, str})
_INDEX = frozenset({int, slice, bool})
_BASIC = frozenset({int, slice, type(None), type(...)})
_TAKES_TENSOR = frozenset({"view_as", "expand_as", "reshape_as", "type_as", "to"})
_OTHERS: Mapping[type, frozenset[str]] = {
    list: frozenset("append extend insert pop remove clear copy count index sort reverse".split()),
    dict: frozenset("get items keys values setdefault update pop popitem copy clear".split()),
    set: frozenset("add discard remove union copy pop clear".split()),
    str: frozenset("join split startswith endswith strip lstrip rstrip lower upper replace format count index".split()),
    tuple: frozenset({"count", "index"}), torch.Size: frozenset({"count", "index", "numel"}),
    int: frozenset({"bit_length"}), float: frozenset({"is_integer"}),
}  # fmt: skip
"""Type -> methods that it has here."""
_CHANGING = frozenset("append extend insert pop popitem remove clear sort reverse update add discard".split())
_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Div": operator.truediv,
    "FloorDiv": operator.floordiv, "Mod": operator.mod, "Pow": operator.pow, "LShift": operator.lshift,
    "RShift": operator.rshift, "BitAnd": operator.and_, "BitOr": operator.or_, "BitXor": operator.xor,
}  # fmt: skip


# --- values ---------------------------------------------------------------------------------------------------------
def number(value: Any) -> Any:
    """A number that is computed with."""
    if type(value) in NUMBERS:
        return value
    raise _no_number(value)


def addable(value: Any) -> Any:
    """An operand of `+` or `*`."""
    if type(value) in _ADDABLE:
        return value
    raise _no_number(value)


def _no_number(value: Any) -> BaseException:
    if type(value) in TENSORS:
        return Refused("tensor-operator", "computes with a tensor")
    return TypeError(f"an operator on a {type(value).__name__}")


def plain(value: Any) -> Any:
    """A value without tensors."""
    kind = type(value)
    if kind in ATOMS:
        return value
    if kind in TENSORS:
        raise Refused("tensor-operator", "compares a tensor, or uses it as a number or a key")
    if kind in (tuple, list, set, frozenset):
        for item in value:
            plain(item)
    elif kind is dict:
        for item in value.values():
            plain(item)
    elif kind is Record:
        plain(value.values)
    elif kind is slice:
        plain((value.start, value.stop, value.step))
    return value


def searched(value: Any) -> Any:
    """A container in which a value is looked for; of a dictionary the keys, which hold no tensors."""
    return value if type(value) is dict else plain(value)


def runs_on() -> bool:
    """Whether the code around goes on, and no refusal is leaving it."""
    return not isinstance(sys.exc_info()[1], Refused)


def truth(value: Any) -> Any:
    """A value whose truth is asked for."""
    if type(value) in TENSORS:
        raise Refused("tensor-operator", "asks for the truth of a tensor")
    return value


def iterable(value: Any) -> Any:
    """A container whose elements are taken one by one."""
    if type(value) in _ITERABLE:
        return value
    if type(value) in TENSORS:
        raise Refused("tensor-method", "takes a tensor apart")
    raise TypeError(f"a {type(value).__name__} has no elements")


def unpacked(value: Any, shape: Any) -> Any:
    """A container that is taken apart into names."""
    found = list(iterable(value))
    for item, inner in zip(found, shape, strict=False):
        if inner is not None:
            unpacked(item, inner)
    return found


def rows(value: Any, shape: Any) -> Any:
    """A container whose elements are taken apart into names."""
    return [unpacked(item, shape) for item in iterable(value)]


def mapping(value: Any) -> Any:
    """A dictionary that is passed as keyword arguments."""
    if type(value) is dict:
        return value
    raise TypeError(f"a {type(value).__name__} is no dictionary")


def text(value: Any) -> Any:
    """A value that becomes text: of a tensor no more than its shape."""
    if type(value) in ATOMS:
        return value
    if type(value) in TENSORS:
        return f"<tensor of shape {tuple(value.shape)}>"
    if isinstance(value, Exception):
        return str(value)
    try:
        return plain(value) if type(value) in (tuple, list, dict, set) else f"<{type(value).__name__}>"
    except Refused:
        return f"<{type(value).__name__}>"


def fixed(value: Any) -> Any:
    """A default value, which all calls share."""
    if type(value) in (list, dict, set) or type(value) in TENSORS:
        raise Refused("state", f"a default value is a {type(value).__name__}, which calls would share")
    return value


def item(value: Any, index: Any) -> Any:
    """`value[index]`."""
    kind = type(value)
    if kind is torch.Size or kind is tuple or kind is list or kind is str or kind is range:
        if type(index) not in _INDEX:
            plain(index)
        return value[index]
    if kind is dict:
        return value[plain(index)]
    if kind in TENSORS:
        return value[_basic(index)]
    if kind is Kernel:
        return Launch(value, index)
    raise TypeError(f"a {kind.__name__} has no elements")


def _basic(index: Any) -> Any:
    """An index that views a tensor and reads nothing of it or of another."""
    for part in index if type(index) is tuple else (index,):
        if type(part) not in _BASIC:
            raise Refused("tensor-method", f"indexes a tensor with a {type(part).__name__}")
        plain(part)
    return index


# --- attributes and methods -----------------------------------------------------------------------------------------
def _owners() -> dict[str, frozenset[Any]]:
    """Attribute -> exact types of which it may be read."""
    more: dict[type, str] = {
        torch.device: "type index", torch.dtype: "itemsize is_floating_point is_complex is_signed",
        slice: "start stop step", range: "start stop step", torch.finfo: "bits max min eps tiny smallest_normal dtype",
        torch.iinfo: "bits max min dtype",
        triton.Config: "kwargs num_warps num_stages num_ctas maxnreg",
    }  # fmt: skip
    found: dict[str, set[Any]] = {name: set(TENSORS if name in TENSOR_ATTRIBUTES else ()) for name in ATTRIBUTES}
    for kind, names in more.items():
        for name in names.split():
            found[name].add(kind)
    properties = getattr(torch.cuda, "_CudaDeviceProperties", None) or getattr(torch._C, "_CudaDeviceProperties", None)
    for name in ATTRIBUTES if properties is not None else ():
        if hasattr(properties, name):
            found[name].add(properties)
    return {name: frozenset(kinds) for name, kinds in found.items()}


def _reader(name: str, owners: frozenset[Any]) -> Callable[[Any], Any]:
    get = operator.attrgetter(name)

    def read(value: Any) -> Any:
        if type(value) in owners:
            return get(value)
        raise AttributeError(f"a {type(value).__name__} has no {name} here")

    return read


def _tensor_arguments(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if "out" in kwargs:
        raise Refused("tensor-method", f".{name} with out=")
    for value in (*args, *kwargs.values()):
        if not (name in _TAKES_TENSOR and type(value) in TENSORS):
            plain(value)


class Guards:
    """The checks of one submission's namespace."""

    def __init__(self, store: Store, namespace: dict[str, Any]) -> None:
        self.store, self.namespace = store, namespace
        self.known: set[Any] = set()
        """Functions of `passbench.program.library`, which a wrapper may pass around and call."""

    def names(self) -> dict[str, Any]:
        """Name -> check."""
        found: dict[str, Any] = {
            "__number": number, "__addable": addable, "__plain": plain, "__searched": searched, "__truth": truth,
            "__runs_on": runs_on, "__iterable": iterable, "__unpacked": unpacked, "__rows": rows, "__mapping": mapping,
            "__text": text, "__fixed": fixed,
            "__item": item, "__field": field, "__call": self.call, "__launch": self.launch, "__store": self.put,
            "__changed": self.changed, "__store_changed": self.put_changed, "__record": RecordType,
        }  # fmt: skip
        found.update({f"__attr_{name}": _reader(name, owners) for name, owners in _owners().items()})
        found.update({f"__call_{name}": self.method(name) for name in METHODS})
        return found

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A call of a value: one of the wrapper's own functions, a known one, a kernel with its grid, a record type."""
        kind = type(function)
        if kind is Launch:
            return function.kernel.launch(function.grid, args, kwargs)
        if kind is RecordType:
            return function.make(args, kwargs)
        if kind is Partial:
            return self.call(function.function, *function.args, *args, **{**function.kwargs, **kwargs})
        own = kind is FunctionType and function.__globals__ is self.namespace
        if own or (kind is FunctionType and function in self.known):
            return function(*args, **kwargs)
        raise Refused("wrapper-call", f"calls a {kind.__name__}")

    def launch(self, base: Any, index: Any, /, *args: Any, **kwargs: Any) -> Any:
        """`base[index](...)`: of a kernel its launch."""
        if type(base) is Kernel:
            return base.launch(index, args, kwargs)
        return self.call(item(base, index), *args, **kwargs)

    def put(self, container: Any, index: Any, value: Any) -> None:
        """`container[index] = value`."""
        if type(container) not in (list, dict):
            if type(container) in TENSORS:
                raise Refused("tensor-method", "writes into a tensor")
            raise TypeError(f"a {type(container).__name__} has no elements that could be changed")
        self.store.write(container, plain(index), value)

    def changed(self, before: Any, name: str, value: Any) -> Any:
        """`before += value` and its kind."""
        if name == "Add" and type(before) is list:
            self.store.check(before, "+=")
            before.extend(iterable(value))
            return before
        check = addable if name in ("Add", "Mult") else number
        return _BINARY[name](check(before), check(value))

    def put_changed(self, container: Any, index: Any, name: str, value: Any) -> None:
        """`container[index] += value` and its kind."""
        if type(container) in TENSORS:
            raise Refused("tensor-method", "writes into a tensor")
        self.put(container, index, self.changed(item(container, index), name, value))

    def method(self, name: str) -> Callable[..., Any]:
        """What `.name(...)` becomes."""
        of_tensor = getattr(torch.Tensor, name, None) if name in TENSOR_METHODS else None

        def call(value: Any, /, *args: Any, **kwargs: Any) -> Any:
            if type(value) in TENSORS:
                if of_tensor is None:
                    raise Refused("tensor-method", f".{name}")
                if args or kwargs:
                    _tensor_arguments(name, args, kwargs)
                return self.noted(name, of_tensor(value, *args, **kwargs))
            return self.other(value, name, args, kwargs)

        return call

    def noted(self, name: str, found: Any) -> Any:
        """Remember memory that was allocated and not written."""
        if name in ("new_empty", "new_empty_strided") and self.store.shared:
            self.store.fresh[id(found)] = found
        return found

    def other(self, value: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A method of a container, text or number."""
        kind = type(value)
        if name not in _OTHERS.get(kind, ()):
            raise AttributeError(f"a {kind.__name__} has no method {name} here")
        if name == "setdefault":
            return self.set_default(value, *args)
        if name in _CHANGING and kind is not str:
            self.store.check(value, f".{name}")
        if kind is str and name in ("format", "join"):
            args = tuple(map(text, args))
            kwargs = {key: text(item) for key, item in kwargs.items()}
        elif name == "sort":
            plain(value)
            kwargs = self.with_key(kwargs)
        elif name in ("append", "insert"):
            plain(args[:-1])
        elif name in ("extend", "update", "union"):
            args = tuple(map(iterable, args))
            plain([*args] if kind is set else [list(part) for part in args if type(part) is dict])
        else:
            plain(args)
            plain(value) if name in ("remove", "count", "index") else None
        found = getattr(value, name)(*args, **kwargs)
        return list(found) if name in ("items", "keys", "values") else found

    def set_default(self, container: dict[Any, Any], key: Any, value: Any = None) -> Any:
        """`container.setdefault(key, value)`."""
        if plain(key) not in container:
            self.store.write(container, key, value)
        return container[key]

    def with_key(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments of a sort, whose key is a function of the wrapper."""
        if kwargs.get("key") is None:
            return kwargs
        function = kwargs["key"]
        return {**kwargs, "key": lambda value: plain(self.call(function, value))}
