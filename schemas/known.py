"""Fake tensors that know their values: what is computed from them alone is computed, so that code may read it.

    with mode, computed_constants():
        grid = torch.tensor([[1, 8, 8]])             # fake, and knows its data
        grid.prod(-1).tolist()                       # [64]
    with computed_constants({id(fake): data}):       # tensors that Dynamo makes its own fake copies of
        torch.compile(model, backend=backend)(fake)

torch carries the data of fake tensors of one element through operations; inside `computed_constants` it does so up to
`MAX_KNOWN` elements, for results of factory functions too. A tensor that is also computed from unknown data, or from a
scalar that stands for an unknown number, knows nothing. Reads and writes nothing; replaces attributes of torch's
FakeTensorMode while the context is open. One thread at a time is in such a context, for these attributes and torch's
own flags of what modes are entered belong to the process.
"""

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._mode_utils import no_dispatch

from schemas.graph import TensorSpec

MAX_KNOWN = 1 << 16
"""Most elements of a tensor whose data is carried along."""
MAX_EXAMPLE = 4096
"""Largest placeholder whose numbers are known while shapes are propagated, or that a capture may read."""
UNKNOWN = (torch.SymInt, torch.SymFloat, torch.SymBool)
"""Scalars that stand for a number; torch looks for the first alone before it computes, and stops at the others."""
WHOLE = frozenset({"bool", "uint8", "int8", "int16", "int32", "int64"})
_ALONE = threading.RLock()
_aten = torch.ops.aten
FACTORIES = frozenset({
    _aten.arange.default, _aten.arange.start, _aten.arange.start_step, _aten.full.default, _aten.zeros.default,
    _aten.ones.default, _aten.eye.default, _aten.eye.m, _aten.scalar_tensor.default, _aten.linspace.default,
    _aten.tril_indices.default, _aten.triu_indices.default,
})  # fmt: skip
"""Functions without tensor arguments whose results are known; not those that leave memory as it is."""
UNWRITTEN = frozenset({
    _aten.empty_like.default, _aten.new_empty.default, _aten.new_empty_strided.default, _aten.empty_permuted.default,
})  # fmt: skip
"""Functions whose results hold whatever the memory held, also if their operands are known: fake versions of other
functions (an index with unknown positions) make their results so."""


def exact_numbers(spec: TensorSpec, raw: Mapping[str, Any]) -> list[Any] | None:
    """All numbers of a placeholder, row-major, if its decoded initialiser gives them and they are few.

    Whole numbers and truth values only, and any single number.
    """
    size, number = spec.numel, {"zeros": 0, "ones": 1, "constant": raw.get("value")}.get(str(raw.get("kind")))
    known = raw["data"] if raw.get("kind") == "literal" else [number] * min(size, MAX_EXAMPLE)
    if raw.get("kind") == "arange" and spec.shape:
        start, step, last = _plain(raw.get("start", 0)), _plain(raw.get("step", 1)), spec.shape[-1]
        known = [start + step * (k % last) for k in range(min(size, MAX_EXAMPLE))] if last else []
    whole = spec.dtype in WHOLE
    if not known or len(known) != size or spec.device != "cpu" or not (whole or size == 1):
        return None
    if any(item is None or isinstance(item, list) for item in known):
        return None
    plain = [_plain(item) for item in known]
    return [bool(item) if spec.dtype == "bool" else int(item) for item in plain] if whole else plain


def _plain(item: Any) -> Any:
    """A number of an initialiser, whose fractions are spelt as texts."""
    return float(item["float"]) if isinstance(item, dict) else item


def attach(mode: FakeTensorMode, fake: Any, data: torch.Tensor) -> None:
    """Let a fake tensor of a mode know its data, a tensor of the same shape and dtype on the CPU."""
    if isinstance(fake, FakeTensor) and fake.constant is None and data.numel() <= MAX_KNOWN:
        with no_dispatch():
            fake.constant = data.detach().clone()
        mode.fake_tensor_converter.add_constant_storage_mapping(fake)


class Reads:
    """Which tensors of given data had their values read, or decide a size, directly or through what was computed."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self.names = names
        """id of a tensor with given data -> its name."""
        self.found: set[str] = set()
        self._sources: dict[int, tuple[Any, frozenset[str]]] = {}
        """Number of a storage of data -> (the storage, so that no other gets its number; names)."""

    def note(self, constant: torch.Tensor, names: frozenset[str]) -> None:
        """Some data depends on the tensors of these names."""
        storage = constant.untyped_storage()
        before = self._sources.get(int(storage._cdata), (storage, frozenset[str]()))[1]
        self._sources[int(storage._cdata)] = (storage, before | names)

    def of(self, given: Any) -> frozenset[str]:
        """What the operands of a call depend on."""
        constants = [leaf.constant for leaf in pytree.tree_leaves(given) if isinstance(leaf, FakeTensor)]
        numbers = [int(item.untyped_storage()._cdata) for item in constants if item is not None]
        return frozenset().union(*(self._sources[number][1] for number in numbers if number in self._sources))

    def passed(self, func: Any, given: Any, made: Any, names: frozenset[str]) -> None:
        """A call with operands that depend on `names` gave `made`."""
        if reads_values(func, given):
            self.found |= names
        for leaf in pytree.tree_leaves(made):
            if isinstance(leaf, FakeTensor) and leaf.constant is not None:
                self.note(leaf.constant, names)


def reads_values(func: Any, given: Any) -> bool:
    """Whether an ATen call gives a Python number, or a tensor whose size depends on values; by torch's own tags."""
    tags = getattr(func, "tags", ())
    if torch.Tag.data_dependent_output in tags:
        return True
    if torch.Tag.dynamic_output_shape not in tags:
        return False
    masks = [leaf for leaf in pytree.tree_leaves(given[0][1:]) if isinstance(leaf, torch.Tensor)]
    return func is not _aten.index.Tensor or any(item.dtype in (torch.bool, torch.uint8) for item in masks)


@contextmanager
def computed_constants(known: Mapping[int, torch.Tensor] | None = None, reads: Reads | None = None) -> Iterator[None]:
    """Carry known data through fake operations; `known`: id of a tensor -> the data that its fake copies have.

    `reads` notes which of these were read.
    """
    with _ALONE, _carried(known or {}, reads):
        yield


@contextmanager
def _carried(data_of: Mapping[int, torch.Tensor], reads: Reads | None) -> Iterator[None]:
    limit, from_tensor, dispatch = (
        fake_tensor.CONSTANT_NUMEL_LIMIT, FakeTensorMode.from_tensor, FakeTensorMode.dispatch
    )  # fmt: skip

    def copy(self: FakeTensorMode, tensor: torch.Tensor, **settings: Any) -> Any:
        made = from_tensor(self, tensor, **settings)
        if id(tensor) in data_of:
            attach(self, made, data_of[id(tensor)])
            if reads is not None and id(tensor) in reads.names and made.constant is not None:
                reads.note(made.constant, frozenset({reads.names[id(tensor)]}))
        return made

    def run(self: FakeTensorMode, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        unknown = any(isinstance(item, UNKNOWN) for item in (*args, *(kwargs or {}).values()))
        names = reads.of((args, kwargs)) if reads is not None else frozenset[str]()
        with _forgotten(self, func, (args, kwargs)) if unknown else nullcontext():
            made = dispatch(self, func, types, args, kwargs or {})
        if reads is not None and names:
            reads.passed(func, (args, kwargs), made, names)
        if func in FACTORIES and not unknown and isinstance(made, FakeTensor) and _is_concrete(made):
            with no_dispatch():
                data = func(*args, **{**(kwargs or {}), "device": "cpu", "pin_memory": None})
            attach(self, made, data)
        if func in UNWRITTEN and isinstance(made, FakeTensor):
            made.constant = None
        return made

    fake_tensor.CONSTANT_NUMEL_LIMIT = MAX_KNOWN
    _set(FakeTensorMode, from_tensor=copy, dispatch=run)
    try:
        yield
    finally:
        fake_tensor.CONSTANT_NUMEL_LIMIT = limit
        _set(FakeTensorMode, from_tensor=from_tensor, dispatch=dispatch)


@contextmanager
def _forgotten(mode: FakeTensorMode, func: Any, given: Any) -> Iterator[None]:
    """Let no operand of a call know its data, for torch would compute with it; one that is written to for good."""
    leaves = [leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, FakeTensor)]
    known = [(leaf, leaf.constant) for leaf in leaves if leaf.constant is not None]
    schema = getattr(func, "_schema", None)
    writes = schema is None or schema.is_mutable
    for leaf, constant in known:
        if writes:
            mode.fake_tensor_converter.invalidate_constant_aliases(constant)
        leaf.constant = None
    try:
        yield
    finally:
        for leaf, constant in () if writes else known:
            leaf.constant = constant


def _set(owner: Any, **attributes: Any) -> None:
    for name, value in attributes.items():
        setattr(owner, name, value)


def _is_concrete(made: FakeTensor) -> bool:
    """Whether a fake tensor is of the CPU, small, and has numbers for sizes."""
    sizes = list(made.shape)
    return made.device.type == "cpu" and all(type(size) is int for size in sizes) and math.prod(sizes) <= MAX_KNOWN
