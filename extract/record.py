"""Record one call of a model function by function while it runs: for forwards that read values or log as they go.

    recorded = record(built, wanted)          # .capture is one graph, as `extract.capture.capture` gives it

A forward may ask whether a mask has zeros, turn a table of sizes into a list, or log; Dynamo breaks there. Here Python
runs such code as it stands, and each call of a torch function becomes a node in Dynamo's vocabulary. What
`extract.known` knows the values of runs for real, so that they can be read; all else stays fake on the fake rung.
Values that depend on inputs or weights and were read, or that decide a size, are those of this one call: the graph is
*specialised* to them, which `Recorded.reads` tells.

Reads and writes nothing. Raises what the forward raises, DataDependentOutputException where it reads a value that is
not known, and NotRepresentable for a tensor that no recorded call made.
"""

import operator
import os
import re
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
    unset_fake_temporarily,
)
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from extract.build import Built, fake_scope
from extract.capture import UNCHECKED, Capture, Piece, as_literal, is_few, is_readable
from extract.failures import CAPTURE, LIBRARY_ERRORS, NondeterministicError, step
from extract.inputs import WantedInput, copied
from extract.known import ALIKE, Done, Known, done_by
from extract.patches import (
    as_compiled,
    broadcast_masks,
    forget_cached,
    idle_conversions,
    no_inference_mode,
    told_arrays,
    told_autocast,
)  # fmt: skip
from extract.spelled_call import spelled_call
from extract.unheld import check_argument, check_arrays, check_tensors
from schemas.dead_code import remove_dead_calls
from schemas.fx import META_SPECS, NotRepresentable, fake_input, specs_of
from schemas.known import reads_values

_COUNTED = frozenset({"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount"})
"""Calls whose output shape depends on values: their results are kept as constants."""
_SIZED = frozenset(
    "view reshape expand repeat arange linspace zeros ones full empty rand randn new_zeros new_ones new_full split "
    "narrow interpolate pad tile unflatten multinomial topk roll select chunk eye one_hot unfold".split()
)
"""Calls with sizes among their arguments, which a forward may give as integer tensors."""
DRAWN = "what the forward draws"
"""What the numbers of a call depend on that draws from torch's generator."""
_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
"""Python's types where a dtype is wanted -> what torch takes them for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One recorded call."""

    capture: Capture
    """The graph, as one piece."""
    reads: tuple[str, ...]
    """Calls that read values which depend on inputs or weights, without repetition."""


@dataclass(slots=True)
class _Origin:
    """Where a tensor comes from: a node, or an element of the tuple that a node returns."""

    node: torch.fx.Node
    path: tuple[Any, ...]
    sources: frozenset[str] = frozenset()
    """Names of the inputs and parameters that its values depend on."""


def record(built: Built, wanted: Sequence[WantedInput], *, seed: int = 0) -> Recorded:
    """Call the model once in inference mode and record it.

    Where the forward read values of inputs or weights, inputs of whole numbers get them as their initialisers.
    """
    torch.manual_seed(seed)
    forget_cached()
    os.environ.update(UNCHECKED)
    with fake_scope(built):
        arguments = {item.name: _argument(item, built, seed) for item in wanted}
    given = {item.name: copied(arguments[item.name]) for item in wanted if built.mode is None and is_few(item.spec)}
    recorder = _Recorder(built, arguments)
    told = told_arrays(lambda tensor: recorder.constant(tensor))
    casts = told_autocast(recorder.enter_autocast, recorder.leave_autocast)
    patches = (told, casts, idle_conversions(), as_compiled(), broadcast_masks(), no_inference_mode())
    with ExitStack() as stack:
        for context in (step(CAPTURE), *patches, torch.no_grad(), fake_scope(built), recorder.watch, recorder):
            stack.enter_context(context)
        result = built.model(**arguments)
    piece = Piece(gm=recorder.finish(result), examples=tuple(recorder.examples))
    read = {item.name: arguments[item.name] for item in wanted if recorder.reads and is_readable(item.spec)}
    read |= {item.name: given[item.name] for item in wanted if item.name in recorder.read & set(given)}
    found = Capture(
        pieces=(piece,), reasons=(), inputs={id(value): name for name, value in arguments.items()}, ran=True,
        inits={item.name: as_literal(item, read).init for item in wanted if item.name in read},
    )  # fmt: skip
    return Recorded(capture=found, reads=tuple(dict.fromkeys(recorder.reads)))


def _argument(item: WantedInput, built: Built, seed: int) -> torch.Tensor:
    """A fake tensor for floating-point inputs on the fake rung, else real values."""
    if built.mode is not None and item.spec.dtype.startswith(("float", "bfloat", "complex")):
        return fake_input(item.spec)
    with unset_fake_temporarily():
        return item.value(seed)


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes whether an ATen call below gave a Python number, or a tensor whose size depends on values."""

    seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen = self.seen or reads_values(func, (args, kwargs))
        return func(*args, **(kwargs or {}))


def _sized_by_values(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether a call cannot say the sizes of its results from the sizes of its operands: it fails without values."""
    with unset_fake_temporarily(), torch._C.DisableTorchFunction(), FakeTensorMode():
        blank = pytree.tree_map_only(torch.Tensor, lambda tensor: fake_input(specs_of(tensor)[0]), (args, kwargs))
        try:
            func(*blank[0], **blank[1])
        except LIBRARY_ERRORS:
            return True
    return False


class _Recorder(TorchFunctionMode):
    """Adds a node a call and remembers which node made which tensor."""

    def __init__(self, built: Built, arguments: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.built, self.known = built, Known(built)
        self.root, self.graph = torch.nn.Module(), torch.fx.Graph()
        self.argument_names = {id(value): name for name, value in arguments.items()}
        self.origins: MutableMapping[torch.Tensor, _Origin] = WeakIdKeyDictionary()
        self.examples: list[Any] = []
        self.watch = _Watch()  # type: ignore[no-untyped-call]
        self.reads: list[str] = []
        self.read: set[str] = set()
        """Names of the inputs and parameters that these depend on."""
        self.effects: set[torch.fx.Node] = set()
        self.scopes: list[torch.fx.Node] = []
        """Scopes of autocast that were entered and not left."""
        self.labels: set[str] = set()
        self.varying: dict[int, tuple[torch.UntypedStorage, frozenset[str]]] = {}
        """Storages that something which varies was written into, and what it depends on."""
        self.last_placeholder: torch.fx.Node | None = None
        """Placeholders stand in the order of `examples`, before all calls."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.__name__
        if func is torch.Tensor.__iter__:
            return iter(self.__torch_function__(torch.Tensor.unbind, types, args, kwargs))
        if name == "__set__" and func.__self__.__name__ == "data" and not _share(args[0], args[1]):
            raise NotRepresentable("a forward that assigns to the data of a tensor is not held by the IR")
        if name == "__getitem__":
            args = (args[0], self._without_masks(args[1]))
        if name in _SIZED:
            args, kwargs = self._with_numbers((args, kwargs))
        try:
            return self._call(func, args, kwargs)
        except DataDependentOutputException:
            given = self._with_numbers((args, kwargs))
            if len(_tensors(given)) == len(_tensors((args, kwargs))):
                raise
            return self._call(func, *given)
        except UnsupportedOperatorException as error:
            raise NotRepresentable(
                f"the call {name} is not held by the IR: torch has no {error} without numbers"
            ) from error

    def _call(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run a call and keep it if it made or changed a tensor."""
        operands = _tensors((args, kwargs))
        check_tensors(operands)
        if operands:
            check_arrays(func.__name__, self.known.value(operands[0]) is not None)
        versions = [operand._version for operand in operands]
        self._keep_strange(operands)
        self.watch.seen = False
        done = done_by(func, args, kwargs)
        result = self.known.run(func, args, kwargs, done)
        writes = versions != [operand._version for operand in operands]
        made = _tensors(result)
        if not made and not writes:
            self._note_read(func.__name__, operands)
        elif writes or not all(any(leaf is operand for operand in operands) for leaf in made):
            if self.watch.seen and _sized_by_values(func, args, kwargs):
                self._add_read(func.__name__, self._all_sources(operands))
            written = done.written or tuple(operands[:1] if writes else ())
            self._keep(func, (args, kwargs), result, replace(done, written=written))
        return result

    def _note_read(self, name: str, operands: Sequence[torch.Tensor]) -> None:
        """Remember a call that turned values which vary into Python ones."""
        is_value = name in ("item", "tolist", "numpy", "equal", "allclose", "is_nonzero") or name in (
            "__bool__", "__int__", "__float__", "__index__", "__complex__", "__contains__", "__array__",
        )  # fmt: skip
        if is_value:
            self._add_read(name, self._all_sources(operands))

    def _add_read(self, name: str, sources: frozenset[str]) -> None:
        """A call read values that depend on these; on none, it read constants."""
        if DRAWN in sources:
            raise NondeterministicError(f"the forward reads ({name}) numbers that it draws: they differ in every call")
        if sources:
            self.reads.append(name)
            self.read |= sources

    def _with_numbers(self, given: Any) -> Any:
        """Arguments in which known integers that are tensors stand as Python's."""
        leaves, spec = pytree.tree_flatten(given)
        for position, leaf in enumerate(leaves):
            is_integer = isinstance(leaf, torch.Tensor) and leaf.dim() == 0 and not leaf.is_floating_point()
            value = self.known.value(leaf) if is_integer else None
            if value is not None:
                self._note_read("item", [leaf])
                with unset_fake_temporarily():
                    leaves[position] = value.item()
        return pytree.tree_unflatten(leaves, spec)

    def _without_masks(self, index: Any) -> Any:
        """An index with known tensors in slices as numbers, and boolean ones as the positions of their ones."""
        parts: list[Any] = []
        for part in index if isinstance(index, tuple) else (index,):
            if isinstance(part, slice):
                part = slice(*self._with_numbers((part.start, part.stop, part.step)))
            is_mask = isinstance(part, torch.Tensor) and part.dtype in (torch.bool, torch.uint8) and part.dim() > 0
            values = self.known.value(part) if is_mask else None
            if values is None:
                parts.append(part)
                continue
            sources = self._sources(part)
            self._add_read("__getitem__", sources)
            with unset_fake_temporarily():
                parts += [self.constant(found.clone(), sources) for found in values.nonzero(as_tuple=True)]
        return tuple(parts) if isinstance(index, tuple) or len(parts) != 1 else parts[0]

    # --- nodes ------------------------------------------------------------------------------------------------------
    def _keep(self, func: Any, given: tuple[Any, Any], result: Any, done: Done) -> None:
        """Add the node of a call and note what it made and what it does besides."""
        operands = _tensors(given)
        sources = operands[1:] if func.__name__ in ALIKE else operands
        known = self._all_sources(sources) | ({DRAWN} if done.is_random else frozenset[str]())
        counted = func.__name__ in _COUNTED or _is_counted(func.__name__, *given)
        if counted or (not operands and _has_arrays(given)):
            self._add_read(func.__name__, known)
            for leaf in _tensors(result):
                self.constant(leaf, known)
            return
        op, target, args = spelled_call(func, given[0])
        node = self.graph.create_node(op, target, self._encode(args), self._encode(given[1]))
        self._describe(node, result)
        if done.written:
            self.effects.add(node)
            for operand in done.written if known else ():
                storage = operand.untyped_storage()
                before = self.varying.get(int(storage._cdata), (storage, frozenset[str]()))[1]
                self.varying[int(storage._cdata)] = (storage, before | known)
        for path, leaf in pytree.tree_flatten_with_path(result)[0]:
            if isinstance(leaf, torch.Tensor):
                keys = tuple(_key(part) for part in path)
                self.origins[leaf] = _Origin(node=node, path=keys, sources=known)

    def enter_autocast(self, scope: torch.autocast) -> None:
        """Add the node of a scope that begins, as Dynamo does."""
        given = (scope.device, scope.fast_dtype, scope._enabled, scope._cache_enabled)
        self.scopes.append(self.graph.call_function(_enter_autocast, given))
        self._add_scope(self.scopes[-1])

    def leave_autocast(self, _: torch.autocast) -> None:
        """Add the node of the end of the innermost scope."""
        self._add_scope(self.graph.call_function(_exit_autocast, (self.scopes.pop(),)))

    def _add_scope(self, node: torch.fx.Node) -> None:
        self.effects.add(node)
        node.meta[META_SPECS] = ()

    def _describe(self, node: torch.fx.Node, value: Any) -> None:
        node.meta[META_SPECS] = specs_of(value)

    def constant(self, value: torch.Tensor, sources: frozenset[str] = frozenset()) -> torch.Tensor:
        """Keep a real tensor in the graph by value; -> the tensor."""
        name = f"_constant_{len(self.graph.nodes)}"
        with torch._C.DisableTorchFunction(), unset_fake_temporarily():
            kept = value.detach().clone(memory_format=torch.contiguous_format)
        self.root.register_buffer(name, kept, persistent=False)
        node = self.graph.create_node("get_attr", name)
        self._describe(node, kept)
        self.origins[value] = _Origin(node=node, path=(), sources=sources)
        return value

    def _keep_strange(self, tensors: Sequence[torch.Tensor]) -> None:
        """Keep by value, before anything is written into it, what no call made and no module holds.

        On the fake rung alone: a real tensor has no numbers of weights or drawn inputs in it there.
        """
        for tensor in tensors:
            is_real = self.built.mode is not None and not isinstance(tensor, FakeTensor)
            if is_real and tensor not in self.origins and not self._is_named(tensor):
                self.constant(tensor)

    def _is_named(self, tensor: torch.Tensor) -> bool:
        return id(tensor) in self.argument_names or self.built.name_of(tensor) is not None

    def _origin(self, tensor: torch.Tensor) -> _Origin:
        self._keep_strange([tensor])
        found = self.origins.get(tensor)
        if found is None:
            found = self.origins[tensor] = self._placeholder(tensor)
        return found

    def _placeholder(self, tensor: torch.Tensor) -> _Origin:
        argument, name = self.argument_names.get(id(tensor)), self.built.name_of(tensor)
        if argument is None and name is None:
            raise NotRepresentable(f"no recorded call made a tensor {tensor.dtype} {list(tensor.shape)} of the forward")
        label = re.sub(r"\W", "_", f"L_{argument}_" if argument is not None else f"L_self_{name}_")
        while label in self.labels:
            label += "_"
        self.labels.add(label)
        last = self.last_placeholder
        with self.graph.inserting_before(None) if last is None else self.graph.inserting_after(last):
            node = self.last_placeholder = self.graph.placeholder(label)
        self._describe(node, tensor)
        self.examples.append(tensor)
        return _Origin(node=node, path=(), sources=self._own_sources(tensor))

    def _own_sources(self, tensor: torch.Tensor) -> frozenset[str]:
        """What a tensor that no call made depends on: itself, if it is an input or a parameter."""
        argument = self.argument_names.get(id(tensor))
        if argument is None and not isinstance(tensor, torch.nn.Parameter):
            return frozenset()
        return frozenset({argument if argument is not None else f"self.{self.built.name_of(tensor)}"})

    def _sources(self, tensor: torch.Tensor) -> frozenset[str]:
        """The inputs and parameters that a tensor's values depend on."""
        found = self.origins.get(tensor)
        written = self.varying.get(int(tensor.untyped_storage()._cdata))
        own = self._own_sources(tensor) if found is None else found.sources
        return own if written is None else own | written[1]

    def _all_sources(self, tensors: Sequence[torch.Tensor]) -> frozenset[str]:
        return frozenset[str]().union(*map(self._sources, tensors))

    def _node(self, tensor: torch.Tensor) -> torch.fx.Node:
        """The node of a tensor; elements of tuples get theirs when they are first used."""
        origin = self._origin(tensor)
        for key in origin.path:
            origin.node = self.graph.call_function(operator.getitem, (origin.node, key))
            origin.node.meta[META_SPECS] = ()
        if origin.path:
            origin.path = ()
            origin.node.meta[META_SPECS] = specs_of(tensor)
        return origin.node

    def _encode(self, value: Any) -> Any:
        """Arguments with tensors replaced by their nodes, numpy's numbers by Python's and types by dtypes."""
        if isinstance(value, torch.Tensor):
            return self._node(value)
        if isinstance(value, tuple | list):
            items = [self._encode(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, dict):
            return {key: self._encode(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(*(self._encode(part) for part in (value.start, value.stop, value.step)))
        if isinstance(value, type) and value in _DTYPES:
            return _DTYPES[value]
        value = value.item() if isinstance(value, np.generic) else value
        check_argument(value)
        return value

    def finish(self, result: Any) -> torch.fx.GraphModule:
        """The graph with the tensors of the forward's result as its outputs, without calls that nothing needs."""
        outputs = tuple(self._node(leaf) for leaf in _tensors(result))
        if not outputs:
            raise NotRepresentable("the forward returned no tensor")
        self.graph.output(outputs)
        self.graph.lint()
        gm = torch.fx.GraphModule(self.root, self.graph)
        remove_dead_calls(gm, keep=self.effects)
        return gm


# --- calls ----------------------------------------------------------------------------------------------------------
def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _share(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether assigning one tensor to the data of the other changes nothing."""
    same = left.untyped_storage()._cdata == right.untyped_storage()._cdata
    return same and left.dtype == right.dtype and left.shape == right.shape


def _key(part: Any) -> Any:
    """The index of one step of a pytree path: fields of a named tuple count by position too."""
    if isinstance(part, pytree.GetAttrKey):
        raise NotRepresentable(f"a call that returns an object with the field {part.name!r} is not held by the IR")
    return part.idx if isinstance(part, pytree.SequenceKey) else part.key


def _is_counted(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether the sizes of a result depend on values, for calls where that depends on the arguments."""
    if name == "where":
        return len(args) + len(kwargs) == 1
    given = args[1] if len(args) > 1 else kwargs.get("repeats")
    return name == "repeat_interleave" and isinstance(given, torch.Tensor) and "output_size" not in kwargs


def _has_arrays(given: Any) -> bool:
    return any(isinstance(leaf, np.ndarray) for leaf in pytree.tree_leaves(given))
