"""The module itself as the reference for its graph: called eagerly, as its author's code runs it, on chosen numbers.

    eager = Eager(source, piece, graph, seed=0)     # the model with real tensors in place of fake ones
    eager.values                                    # what the graph takes, placeholder by placeholder
    found = eager.run()                             # the tensors that the call returned, and what it wrote into
    eager.restore()                                 # every tensor as it was before

Values of inputs and weights are one set of tensors that the module holds and the graph takes, so that a model is held
once. Inputs are a person's own examples where there are some, else drawn; tensors that a constructor computed have the
numbers it gave them, but running statistics, which are drawn. A model that ran while it was captured is built anew, so
that nothing of that call is left in it. Reads its arguments and writes into the model. Raises Unheld where the module
cannot be called with real tensors, and what the forward raises.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import xxhash
from torch._subclasses.fake_tensor import FakeTensor

from extract.build import Built
from extract.capture import EXACT, Capture, Piece
from extract.draws import Draws
from extract.held import DEPTH, held_tensors
from extract.initialisers import STATISTICS, describe_held
from extract.inputs import WantedInput, copied
from extract.outside import kept_state, sources_called, surroundings
from extract.patches import forget_cached
from extract.results import tensors_in
from extract.sharing import extent
from passbench.inputs import derive, value_of
from schemas.fx import spec_of
from schemas.graph import Graph, TensorSpec
from schemas.values import loads


class Unheld(RuntimeError):
    """The module cannot be called eagerly here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The call that a graph was captured from."""

    built: Built
    wanted: tuple[WantedInput, ...]
    captured: Capture
    rebuild: Callable[[], Built]
    """Builds the same model once more."""
    recapture: Callable[[int], tuple[Graph, ...]]
    """Builds the model and captures the call once more, in surroundings of a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A tensor that a call returned."""

    value: torch.Tensor
    """A copy of it."""
    is_own: bool
    """Whether it is no tensor that the module was given or holds, and stands in the result for the first time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one call did."""

    leaves: tuple[Leaf, ...]
    written: Mapping[str, torch.Tensor]
    """Name of a tensor that the call wrote into -> a copy of what it holds now."""
    generator: torch.Tensor
    """State of torch's generator afterwards."""


@dataclass(slots=True, kw_only=True)
class _Held:
    """A tensor that the module holds or is given."""

    name: str
    make: Callable[[int], torch.Tensor]
    """Its numbers in a draw: 0 for the first, which has the examples."""
    varies: bool
    """Whether they are others in another draw."""
    tensor: torch.Tensor
    digest: int = 0

    def fill(self, draw: int) -> None:
        """Give it the numbers of a draw, in place if what refers to its memory would miss others."""
        wanted = self.make(draw)
        same = wanted.shape == self.tensor.shape and wanted.stride() == self.tensor.stride()
        with torch.no_grad():
            if same and not _overlaps(wanted):
                self.tensor.copy_(wanted)
            else:
                self.tensor.data = wanted
        self.digest = digest_of(self.tensor)


@dataclass(kw_only=True)
class _Owner:
    """A fake tensor whose real one others of the same memory are views of."""

    fake: torch.Tensor
    held: _Held

    def view(self, fake: torch.Tensor) -> torch.Tensor | None:
        """The real view for a fake tensor of the same storage, None if it lies outside."""
        start = fake.storage_offset() - self.fake.storage_offset()
        inside = start >= 0 and start + extent(fake) <= extent(self.fake) and fake.dtype == self.fake.dtype
        real = self.held.tensor.detach()
        return torch.as_strided(real, fake.shape, fake.stride(), start) if inside else None


class Eager:
    """A model with the numbers of its graph; see the module's docstring."""

    def __init__(self, source: Source, piece: Piece, graph: Graph, *, seed: int) -> None:
        self.seed, self.graph = seed, graph
        self.built = source.rebuild() if source.captured.ran else source.built
        self.model = self.built.model
        self.draw = 0
        self.draws = [Draws(graph, derive(seed, number)) for number in range(2)]
        self.calls = 0
        self.held: list[_Held] = []
        names = [source.captured.inputs.get(id(item)) or source.built.name_of(item) or "" for item in piece.examples]
        self.position = {name: index for index, name in enumerate(names) if name}
        self.arguments = {item.name: self._argument(item) for item in source.wanted}
        self.real: dict[int, torch.Tensor] = {}
        self._bind()
        self.values = [self._value(index, *pair) for index, pair in enumerate(zip(names, piece.examples, strict=True))]
        self.source = source
        self.asked = False
        """Whether a call asked for what is outside."""
        self.keeps = False
        """Whether a call asked for what is outside, or left something in Python: another call may do something else."""

    @property
    def varies(self) -> bool:
        """Whether there is a second draw that differs from the first."""
        return any(item.varies for item in self.held)

    @property
    def is_given(self) -> bool:
        """Whether all inputs are a person's own."""
        return bool(self.source.wanted) and all(item.example is not None for item in self.source.wanted)

    # --- numbers ----------------------------------------------------------------------------------------------------
    def _hold(self, name: str, make: Callable[[int], torch.Tensor], *, varies: bool, tensor: Any = None) -> _Held:
        made = make(0) if tensor is None else tensor
        self.held.append(_Held(name=name, make=make, varies=varies, tensor=made, digest=digest_of(made)))
        return self.held[-1]

    def _drawn(self, name: str, init: str, spec: TensorSpec, draw: int) -> torch.Tensor:
        """The value of a placeholder in a draw or, of a tensor that is none, one by its initialiser."""
        if name in self.position:
            value = self.draws[draw].one(self.position[name])
        else:
            value = value_of(init, spec, seed=derive(self.seed, draw, len(name)))
        assert isinstance(value, torch.Tensor)
        return value

    def _argument(self, item: WantedInput) -> torch.Tensor:
        example, fixed = item.example, loads(item.init)["kind"] in EXACT

        def make(draw: int) -> torch.Tensor:
            return self._drawn(item.name, item.init, item.spec, draw) if example is None or draw else copied(example)

        return self._hold(item.name, make, varies=example is not None and not fixed).tensor

    def _bind(self) -> None:
        """Put real tensors in the places of fake ones; tensors that are real stay and are watched."""
        every = list(held_tensors(self.model))
        fakes = [tensor for _, tensor in every if isinstance(tensor, FakeTensor)]
        owners: dict[int, _Owner] = {}
        for fake in sorted(fakes, key=lambda item: (self._name(item) not in self.position, -item.numel())):
            storage, is_taken = int(fake.untyped_storage()._cdata), self._name(fake) in self.position
            inside = owners[storage].view(fake) if storage in owners and not is_taken else None
            if inside is None:
                owner = _Owner(fake=fake, held=self._real(fake))
                owners.setdefault(storage, owner)
                self.real[id(fake)] = owner.held.tensor
            else:
                self.real[id(fake)] = _like(inside, fake)
        put_real(self.model, self.real)
        for path, tensor in every:
            if id(tensor) not in self.real:
                self._watch(path, tensor)

    def _name(self, tensor: torch.Tensor) -> str:
        return self.built.name_of(tensor) or ""

    def _real(self, fake: torch.Tensor) -> _Held:
        """The real tensor of a fake one."""
        name, spec = self._name(fake), spec_of(fake)
        is_weight = isinstance(fake, torch.nn.Parameter) or name.rpartition(".")[2] in STATISTICS
        data = None if is_weight else self.built.computed(fake)
        if data is not None:
            kept = copied(data)
            return self._hold(name, lambda draw: copied(kept), varies=False)
        init = "" if name in self.position else describe_held(fake, self.built)[1]
        made = _like(self._drawn(name, init, spec, 0), fake)
        return self._hold(name, lambda draw: self._drawn(name, init, spec, 0), varies=False, tensor=made)

    def _watch(self, name: str, tensor: torch.Tensor) -> _Held:
        """A tensor that is real: it keeps its numbers, but weights are drawn for a second draw."""
        before = self.built.data_of(tensor)
        kept, drawn = copied(tensor if before is None else before), name in self.position
        drawn, spec = drawn and isinstance(tensor, torch.nn.Parameter), spec_of(tensor)

        def make(draw: int) -> torch.Tensor:
            return self._drawn(name, "", spec, draw) if draw and drawn else copied(kept)

        return self._hold(name, make, varies=drawn, tensor=tensor)

    def _value(self, position: int, name: str, example: Any) -> Any:
        """What the graph takes for a placeholder: a tensor that the module holds or is given, or a number."""
        if not isinstance(example, torch.Tensor):
            return self.draws[0].one(position)
        held = next((item for item in self.held if name and item.name == name), None)
        if held is not None:
            return held.tensor
        if isinstance(example, FakeTensor):
            raise Unheld("a tensor of the graph is none that the module holds")
        return self._watch(name, example).tensor

    # --- calls ------------------------------------------------------------------------------------------------------
    def redraw(self) -> None:
        """Take the numbers of the second draw."""
        self.draw = 1
        for item in self.held:
            if item.varies:
                item.fill(1)

    def restore(self, draw: int | None = None) -> None:
        """Give every tensor that was written into its numbers back, or all that vary those of another draw."""
        again, self.draw = draw is not None and draw != self.draw, self.draw if draw is None else draw
        for item in self.held:
            if (again and item.varies) or digest_of(item.tensor) != item.digest:
                item.fill(self.draw)

    def run(self, model: Callable[..., Any] | None = None) -> Found:
        """Call the module or, with the values of the placeholders, another one; tensors keep what is written into them.

        Each call of the module has other surroundings; torch's generator starts alike in all calls of a draw.
        """
        torch.manual_seed(derive(self.seed, self.draw, 17))
        if model is not None:
            with torch.no_grad():
                return self._found(model(*self.values))
        forget_cached()
        before = kept_state(self.model)
        self.calls += 1
        with torch.no_grad(), surroundings(self.calls) as asked:
            found = self._found(self.model(**self.arguments))
        self.asked = self.asked or bool(asked)
        self.keeps = self.keeps or self.asked or kept_state(self.model) != before
        return found

    def sources(self) -> tuple[str, ...]:
        """Which clocks and generators the module asks."""
        with torch.no_grad():
            return sources_called(lambda: self.model(**self.arguments))

    def _found(self, result: Any) -> Found:
        known, leaves = {id(item.tensor) for item in self.held} | set(map(id, self.real.values())), list[Leaf]()
        for tensor in tensors_in(result):
            if isinstance(tensor, FakeTensor):
                raise Unheld("the call returned a fake tensor")
            leaves.append(Leaf(value=tensor.detach().clone(), is_own=id(tensor) not in known))
            known.add(id(tensor))
        written = {
            item.name: item.tensor.detach().clone() for item in self.held if digest_of(item.tensor) != item.digest
        }
        return Found(leaves=tuple(leaves), written=written, generator=torch.get_rng_state())


# --- tensors --------------------------------------------------------------------------------------------------------
def digest_of(value: torch.Tensor) -> int:
    """A hash of a tensor's numbers and of where they lie in its memory."""
    found = xxhash.xxh3_64(repr((value.dtype, tuple(value.shape), value.stride())).encode())
    if value.numel():
        flat = torch.as_strided(value.detach(), (extent(value),), (1,))
        found.update(flat.view(torch.uint8).numpy().data)
    return int(found.intdigest())


def _overlaps(value: torch.Tensor) -> bool:
    """Whether elements of a tensor lie at one place of memory, as after `expand`."""
    return value.numel() > extent(value)


def _like(real: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
    """A real tensor as what a fake one is: a parameter, or a plain tensor."""
    if isinstance(fake, torch.nn.Parameter):
        return torch.nn.Parameter(real, requires_grad=fake.requires_grad)
    return real


def put_real(model: torch.nn.Module, real: Mapping[int, torch.Tensor]) -> None:
    """Put real tensors in the places of the fake ones of a model; `real`: id of a fake tensor -> the real one.

    Entered are attributes, and what lists, tuples, dictionaries and plain objects in them hold.
    """
    seen: set[int] = set()

    def put(value: Any, depth: int) -> Any:
        if isinstance(value, torch.Tensor):
            return real.get(id(value), value)
        if not depth or id(value) in seen or isinstance(value, torch.nn.Module | type | str) or callable(value):
            return value
        if isinstance(value, tuple):
            made = [put(item, depth - 1) for item in value]
            same = all(left is right for left, right in zip(made, value, strict=True))
            return value if same else type(value)(*made) if hasattr(value, "_fields") else tuple(made)
        seen.add(id(value))
        items = _places(value)
        for key, item in list(items.items() if isinstance(items, dict) else enumerate(items)):
            found = put(item, depth - 1)
            if found is not item:
                items[key] = found
        return value

    for module in model.modules():
        for space in (module._parameters, module._buffers, vars(module)):
            for key, value in list(space.items()):
                if space is not vars(module) or key not in ("_parameters", "_buffers", "_modules"):
                    found = put(value, DEPTH)
                    if found is not value:
                        space[key] = found


def _places(value: Any) -> Any:
    """The list or dictionary in which items of a value stand; an empty one for what is not entered."""
    if isinstance(value, list | dict):
        return value
    return vars(value) if hasattr(value, "__dict__") and type(value).__module__.partition(".")[0] != "torch" else {}
