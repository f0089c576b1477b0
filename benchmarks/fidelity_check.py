"""Whether a published graph computes what its module computes: run both, with code of its own for what is compared.

    python -m benchmarks.fidelity_check FOLDER      # reads NAME.py and, where a graph was admitted, NAME.json

Each module runs in a process of its own, eagerly, on its example inputs and on a second draw of the same shapes. The
graph of NAME.json ({"graph": Graph.to_json, "capture": mode}) gets clones of the same values: inputs, parameters and
buffers by name, constants from their initialisers, which a module that holds them in an attribute gets as well (its
constructor may have drawn them). Outputs (values, dtypes, shapes) and what was written into inputs,
parameters and buffers must agree. A specialised graph's inputs, parameters and buffers whose initialisers give every
number keep those, and inputs that it does not take keep theirs. Writes a line of JSON a module to standard output:
{"name", "verdict", "why"}.

| verdict    | meaning                                                                              |
|------------|--------------------------------------------------------------------------------------|
| equal      | there is a graph, and it agrees on both draws                                        |
| wrong      | there is a graph, and it does not                                                    |
| refused    | there is no graph, and the module runs and gives the same twice                      |
| unsteady   | there is no graph, and the module gives something else each time                     |
| illegal    | there is no graph, and the module itself raises                                      |
"""

import dataclasses
import importlib.util
import inspect
import json
import os
import random
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from passbench.inputs import value_of
from schemas.fx import lower
from schemas.graph import Graph
from schemas.values import loads

ERRORS = (
    ArithmeticError, AssertionError, AttributeError, BufferError, ImportError, LookupError, NameError, OSError,
    RuntimeError, StopIteration, TypeError, ValueError,
)  # fmt: skip
"""What a module or a graph may raise; anything else ends the process of that module, which counts as wrong."""
WORDS = frozenset(
    {"", "l", "dict", "self", "modules", "parameters", "buffers", "tensors", "keywords", "arguments", "model"}
)
"""Parts of a placeholder's name that say where it was found, not what it is."""
EXACT = frozenset({"literal", "zeros", "ones", "constant", "arange"})
"""Kinds of initialisers that give every number."""


class Differs(Exception):
    """The graph is not the module; the message says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A fresh module and what it is called with."""

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: dict[str, torch.Tensor]
    """Input tensors by their path, of parts joined by dots."""
    state: dict[str, torch.Tensor]
    """Parameters and buffers by qualified name."""


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[str, torch.Tensor]]:
    """(path, tensor) of every tensor in nested containers, in order, equal ones as often as they stand there."""
    if isinstance(value, torch.Tensor):
        yield ".".join(map(str, path)), value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list | tuple):
        names = getattr(value, "_fields", range(len(value)))
        for name, item in zip(names, value, strict=True):
            yield from leaves(item, (*path, name))


def fresh(file: Path, seed: int) -> Call:
    """Run the file anew, make its module and its example inputs."""
    torch.manual_seed(seed)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = found
    spec.loader.exec_module(found)
    module = found.M()
    module.eval()
    torch.manual_seed(seed + 1)
    given = found.M.example_inputs()
    args, kwargs = ((), dict(given)) if type(given) is dict else (given, {})
    bound = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    kinds = inspect.signature(module.forward).parameters
    inputs: dict[str, torch.Tensor] = {}
    for name, value in bound.items():
        spread = {kinds[name].VAR_POSITIONAL: ("input",), kinds[name].VAR_KEYWORD: ()}
        inputs.update(leaves(value, spread.get(kinds[name].kind, (name,))))
    return Call(module=module, args=args, kwargs=kwargs, inputs=inputs, state=held_weights(module))


def held_weights(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by qualified name, and by the way through plain lists and dictionaries to them."""
    found: dict[str, torch.Tensor] = {
        **dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False)),
    }  # fmt: skip
    for prefix, owner in module.named_modules():
        for name, value in vars(owner).items():
            if isinstance(value, list | dict) and not name.startswith("_"):
                path = (prefix, name) if prefix else (name,)
                found.update((key, item) for key, item in leaves(value, path) if isinstance(item, torch.nn.Parameter))
                for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                    if isinstance(item, torch.nn.Module):
                        found.update((".".join((*path, str(key), inner)), w) for inner, w in held_weights(item).items())
    return found


def redraw(call: Call, seed: int, kept: Sequence[torch.Tensor]) -> None:
    """New numbers of the same kind into every input but some; tensors that share memory go on sharing it."""
    generator = torch.Generator().manual_seed(seed)
    storages = {tensor.untyped_storage()._cdata: tensor for tensor in call.inputs.values()}
    left = {tensor.untyped_storage()._cdata for tensor in kept}
    for key, tensor in storages.items():
        if key in left:
            continue
        count = tensor.untyped_storage().nbytes() // tensor.element_size()
        flat = tensor.detach().as_strided((count,), (1,), 0)
        if not count:
            continue
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            new = torch.randn(count, generator=generator) * 1.5 - 0.25
        else:
            low, high = int(flat.long().min()), int(flat.long().max())
            new = torch.randint(low, high + 1, (count,), generator=generator)
        flat.copy_(new)


def place(name: str) -> str:
    """What the name of a placeholder, or the path of a tensor, says: its words without those of `WORDS`, joined."""
    return "".join(word for word in re.split(r"[^0-9a-z]+", re.sub(r"_", " ", name.lower())) if word not in WORDS)


def bound_values(graph: Graph, call: Call) -> list[Any]:
    """The module's own tensor, or None where the graph has a constant or a number, of every placeholder in order."""
    waiting: dict[bool, list[tuple[str, torch.Tensor]]] = {
        is_input: [(place(path), tensor) for path, tensor in found.items()]
        for is_input, found in ((True, call.inputs), (False, call.state))
    }
    wanted = [graph.nodes[index] for index in graph.placeholders]
    found: dict[int, torch.Tensor] = {}
    for agrees in (str.__eq__, str.startswith, str.endswith):
        for position, node in enumerate(wanted):
            if position in found or node.target in ("constant", "scalar"):
                continue
            choice = waiting[node.target == "input"]
            name, spec = place(node.name), node.outputs[0]
            fits = [
                item for item in choice
                if agrees(name, item[0]) and tuple(item[1].shape) == spec.shape
                and str(item[1].dtype) == f"torch.{spec.dtype}"
            ]  # fmt: skip
            if fits:
                choice.remove(fits[0])
                found[position] = fits[0][1]
    for position, node in enumerate(wanted):
        if position not in found and node.target not in ("constant", "scalar"):
            raise Differs(f"no {node.target} of the module is the placeholder {node.name}")
    return [found.get(position) for position in range(len(wanted))]


def fix(graph: Graph, bound: Sequence[Any]) -> None:
    """Give the module the numbers for which alone a specialised graph holds."""
    for tensor, init, index in zip(bound, graph.inits, graph.placeholders, strict=True):
        if tensor is not None and loads(init)["kind"] in EXACT and tensor.numel():
            value = value_of(init, graph.nodes[index].outputs[0], seed=0)
            assert isinstance(value, torch.Tensor)
            tensor.detach().copy_(value)


def fix_constants(graph: Graph, call: Call) -> None:
    """Give tensors in the module's attributes the numbers that the graph states for them."""
    held = {
        place(f"{prefix} {name} {path}"): tensor
        for prefix, owner in call.module.named_modules()
        for name, value in vars(owner).items()
        if not name.startswith("_")
        for path, tensor in leaves(value)
    }
    for init, index in zip(graph.inits, graph.placeholders, strict=True):
        node = graph.nodes[index]
        tensor = held.get(place(node.name))
        if node.target != "constant" or tensor is None or loads(init)["kind"] not in EXACT:
            continue
        value = value_of(init, node.outputs[0], seed=0)
        if isinstance(value, torch.Tensor) and (value.dtype, value.shape) == (tensor.dtype, tensor.shape):
            tensor.detach().copy_(value)


def seed_all(seed: int) -> None:
    """Torch's generator as told; numpy's and Python's differ from run to run."""
    torch.manual_seed(seed)
    np.random.seed(int.from_bytes(os.urandom(4), "little"))
    random.seed(os.urandom(8))


def run_eager(call: Call, seed: int) -> Any:
    """Call the module in inference."""
    seed_all(seed)
    with torch.no_grad():
        return call.module(*call.args, **call.kwargs)


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same values and strides in memory of its own."""
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    if 0 in tensor.stride() and tensor.numel():
        whole = tensor.detach().as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)
        return whole.clone().as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return made.copy_(tensor.detach())


def same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors have one dtype, one shape and the same numbers, nan for nan."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    a, b = (
        left.detach().resolve_conj().resolve_neg().contiguous(),
        right.detach().resolve_conj().resolve_neg().contiguous(),
    )
    if not a.dtype.is_floating_point and not a.dtype.is_complex:
        return a.tolist() == b.tolist()
    wide = torch.complex128 if a.dtype.is_complex else torch.float64
    return bool(np.array_equal(a.to(wide).numpy(), b.to(wide).numpy(), equal_nan=True))


def reached(value: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    """Every tensor that can be found from a module or a container."""
    if id(value) in seen or isinstance(value, str | bytes | int | float | type(None) | type):
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, torch.nn.Module) or dataclasses.is_dataclass(value):
        for item in vars(value).values():
            yield from reached(item, seen)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from reached(item, seen)
    elif isinstance(value, list | tuple | set) or hasattr(value, "popleft"):
        for item in value:
            yield from reached(item, seen)


def check_outputs(call: Call, result: Any, outputs: Sequence[Any], before: set[int], *, in_order: bool = True) -> None:
    """Raise Differs unless a graph's outputs are the tensors that the module gave.

    A graph may leave out what the module hands back as it got it, and what it gives twice; it may add what the module
    put into an attribute. Fields of objects inside of objects come in an order of the capture's: `in_order` False.
    """
    every = [tensor for _, tensor in leaves(result)]
    once = [tensor for index, tensor in enumerate(every) if all(tensor is not item for item in every[:index])]
    made = [tensor for tensor in once if id(tensor) not in before]
    given = [item for item in outputs if isinstance(item, torch.Tensor)]
    given = given if in_order else _arranged(made, given)
    for wanted in (every, once, made):
        if len(given) >= len(wanted) and all(map(same, wanted, given)):
            kept = list(reached(call.module, set())) + list(
                reached(vars(sys.modules[type(call.module).__module__]), set())
            )
            for extra in given[len(wanted) :]:
                if not any(same(extra, item) for item in [*kept, *every]):
                    raise Differs(f"an output {list(extra.shape)} that the module neither gives nor keeps")
            return
    if len(given) >= len(made):
        index = next(index for index, item in enumerate(made) if not same(item, given[index]))
        raise Differs(f"output {index}: the graph gives {_shown(given[index])}, the module {_shown(made[index])}")
    raise Differs(f"the graph gives {len(given)} tensors, the module {len(made)}")


def _arranged(wanted: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The given tensors in the order of those wanted that they equal, each once; then those that equal none."""
    left = list(given)
    found = []
    for item in wanted:
        index = next((index for index, other in enumerate(left) if same(item, other)), None)
        if index is not None:
            found.append(left.pop(index))
    return [*found, *left]


def _shown(value: torch.Tensor) -> str:
    numbers = value.detach().reshape(-1)[:3].tolist()
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)} {numbers}"


def check_writes(call: Call, bound: Sequence[Any], values: Sequence[Any], kept: Mapping[str, torch.Tensor]) -> None:
    """Raise Differs unless everything that was written is equal, and what is no placeholder was not written."""
    storages = set()
    for tensor, value in zip(bound, values, strict=True):
        if tensor is not None:
            storages.add(tensor.untyped_storage()._cdata)
            if not same(tensor, value):
                raise Differs(f"a placeholder {list(tensor.shape)} holds something else afterwards")
    for name, tensor in {**call.inputs, **call.state}.items():
        if tensor.untyped_storage()._cdata not in storages and not same(tensor, kept[name]):
            raise Differs(f"{name} was written by the module and is no placeholder")


def check_draw(file: Path, graph: Graph, capture: str, draw: int) -> None:
    """Raise Differs unless graph and module agree on one draw of the inputs."""
    call = fresh(file, 11 + draw)
    bound = bound_values(graph, call)
    is_special = "specialised" in capture
    if draw:
        known = {id(tensor) for tensor in bound}
        read = [tensor for tensor in call.inputs.values() if id(tensor) not in known] if is_special else []
        redraw(call, draw, read)
    if is_special:
        fix(graph, bound)
    fix_constants(graph, call)
    values = [
        value_of(graph.inits[position], graph.nodes[index].outputs[0], seed=0) if tensor is None else copied(tensor)
        for position, (tensor, index) in enumerate(zip(bound, graph.placeholders, strict=True))
    ]
    kept = {name: copied(tensor) for name, tensor in {**call.inputs, **call.state}.items()}
    before = {id(tensor) for tensor in [*call.inputs.values(), *call.state.values()]}
    result = run_eager(call, draw)
    seed_all(draw)
    with torch.no_grad():
        outputs = lower(graph)(*values)
    check_outputs(call, result, list(outputs) if isinstance(outputs, tuple | list) else [outputs], before)
    check_writes(call, bound, values, kept)


def verdict_of(file: Path) -> tuple[str, str]:
    """(verdict, why) of one module."""
    published = file.with_suffix(".json")
    if published.exists():
        row = json.loads(published.read_text())
        for draw in (0, 1):
            try:
                check_draw(file, Graph.from_json(row["graph"]), row["capture"], draw)
            except (Differs, *ERRORS) as error:
                what = (str(error).splitlines() or [""])[0]
                return "wrong", f"{row['capture']}, draw {draw}: {type(error).__name__}: {what}"
        return "equal", ""
    try:
        first, second = (run_eager(fresh(file, 11), 0) for _ in range(2))
    except ERRORS as error:
        return "illegal", f"{type(error).__name__}: {str(error)[:200]}"
    steady = all(same(left[1], right[1]) for left, right in zip(leaves(first), leaves(second), strict=True))
    return ("refused" if steady else "unsteady"), ""


def main() -> None:
    """Check every module of a folder, each in a process of its own."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    for file in sorted(Path(sys.argv[1]).glob("*.py")):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            with open(writer, "w") as out:
                out.write(json.dumps(dict(zip(("verdict", "why"), verdict_of(file), strict=True))))
            os._exit(0)
        os.close(writer)
        with open(reader) as answers:
            text = answers.read()
        os.waitpid(child, 0)
        found = json.loads(text) if text else {"verdict": "wrong", "why": "the check itself died"}
        print(json.dumps({"name": file.stem, **found}), flush=True)


if __name__ == "__main__":
    main()
