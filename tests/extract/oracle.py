"""Whether a graph is its module: both run on equal values, the module called eagerly as its author wrote it.

    record = traced(path, "Net")                     # through the stage `graphs`, as a build does
    assert unlike(record, Net, seed=1) == ""         # outputs, and what inputs, buffers and parameters hold afterwards

Nothing of `extract.admission` is used: placeholders are told apart by their names, values are drawn here.
"""

import inspect
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from extract.files import load, models_of, origin_of, revision_of
from extract.trace import TraceConfig, trace
from schemas.fx import lower
from schemas.rows import Failure, GraphRecord, ModelConfig, Text


def row_of(path: Path, name: str) -> ModelConfig:
    """The row of one architecture of a file."""
    origin = origin_of(str(path))
    settings = Text(json.dumps({"model": name, "module": origin.module}))
    return ModelConfig(
        architecture=name, name=f"{origin.module}/{name}", library="files", library_version=revision_of(origin),
        class_name=name, config=settings, family=origin.module, modality="other", license="",
    )  # fmt: skip


def traced(path: Path, name: str, **settings: Any) -> GraphRecord | Failure:
    """What the stage `graphs` gives for one architecture of a file."""
    (found,) = trace(row_of(path, name), TraceConfig(files=(str(path),), **settings))
    return found


def names_of(path: Path) -> list[str]:
    """The architectures of a file."""
    origin = origin_of(str(path))
    return [own.name for own in models_of(load(origin), origin)]


def example_of(path: Path, name: str) -> tuple[Callable[[], torch.nn.Module], Callable[[], Any]]:
    """(module factory, inputs factory) of one architecture of a file."""
    origin = origin_of(str(path))
    (own,) = [own for own in models_of(load(origin), origin) if own.name == name]
    return own.make, own.inputs


# --- values ---------------------------------------------------------------------------------------------------------
def _plain(name: str) -> str:
    """A placeholder's or a tensor's name without what says where it comes from."""
    bare = re.sub(r"(?<![a-z])(l|self|modules|parameters|buffers|kwargs|tensors|model)(?=_|\.)", "", name.lower())
    return re.sub(r"[^a-z0-9]", "", bare)


def _arguments(module: torch.nn.Module, example: Any) -> dict[str, Any]:
    """The example inputs by argument name."""
    if isinstance(example, Mapping):
        return dict(example)
    given = example if isinstance(example, tuple) else (example,)
    return dict(zip(inspect.signature(module.forward).parameters, given, strict=False))


def _named(prefix: str, value: Any) -> dict[str, torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return {prefix: value}
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, tuple | list) else ()
    return {name: leaf for key, item in items for name, leaf in _named(f"{prefix}_{key}", item).items()}


def _redrawn(value: Any, seed: int, again: bool) -> Any:
    """The example with floating-point numbers drawn anew (in place, so that what is shared stays shared)."""
    generator = torch.Generator().manual_seed(seed)
    for leaf in pytree.tree_leaves(value):
        if again and isinstance(leaf, torch.Tensor) and leaf.dtype.is_floating_point:
            leaf.copy_(torch.randn(leaf.shape, generator=generator, dtype=leaf.dtype))
    return value


def _call(make: Callable[[], torch.nn.Module], inputs: Callable[[], Any], seed: int, again: bool) -> tuple[Any, Any]:
    torch.manual_seed(seed)
    module = make().eval()
    torch.manual_seed(0)
    return module, _redrawn(inputs(), seed, again)


def unlike(record: GraphRecord, path: Path, name: str, *, seed: int = 0) -> str:
    """How the graph differs from the module on the example (seed 0) or on other numbers of its shapes; else empty."""
    make, inputs = example_of(path, name)
    module, example = _call(make, inputs, seed, again=seed > 0)
    twin, mirrored = _call(make, inputs, seed, again=seed > 0)
    arguments = _arguments(twin, mirrored)
    tensors = {**dict(twin.named_parameters()), **dict(twin.named_buffers())}
    tensors |= {key: leaf for name, value in arguments.items() for key, leaf in _named(name, value).items()}
    known = {_plain(key): value for key, value in tensors.items()}
    values = [known[_plain(record.graph.nodes[index].name)] for index in record.graph.placeholders]
    with torch.no_grad():
        torch.manual_seed(seed + 77)
        wanted = module(**_arguments(module, example))
        given = [*module.parameters(), *module.buffers(), *pytree.tree_leaves(example)]
        torch.manual_seed(seed + 77)
        found = lower(record.graph)(*values)
    return _outputs_differ(wanted, found, given) or _contents_differ((module, example), (twin, mirrored))


def _outputs_differ(wanted: Any, found: Any, given: list[Any]) -> str:
    """Every tensor of the module's result is among the graph's outputs, in order, but for those given back."""
    left, right = ([x for x in pytree.tree_leaves(item) if isinstance(x, torch.Tensor)] for item in (wanted, found))
    places, seen = iter(right), list(given)
    for number, leaf in enumerate(left):
        if not any(leaf is item for item in seen) and not any(_equal(leaf, candidate) for candidate in places):
            return f"output {number} of the module is none of the graph's"
        seen.append(leaf)
    return ""


def _contents_differ(mine: tuple[Any, Any], other: tuple[Any, Any]) -> str:
    left, right = (
        [*module.parameters(), *module.buffers(), *pytree.tree_leaves(example)] for module, example in (mine, other)
    )
    pairs = [pair for pair in zip(left, right, strict=True) if isinstance(pair[0], torch.Tensor)]
    return "" if all(_equal(*pair) for pair in pairs) else "inputs or buffers hold other numbers afterwards"


def _equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    same = left.dtype == right.dtype and left.shape == right.shape
    return same and bool(torch.allclose(left.double(), right.double(), rtol=0, atol=0, equal_nan=True))
