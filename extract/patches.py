"""Temporary replacements of foreign functions that stand in the way of building or recording without weights.

    with no_rejection_sampling(), idle_conversions(): ...

| replaced                              | by                                  | because                                    |
|---------------------------------------|-------------------------------------|--------------------------------------------|
| torch.nn.init._no_grad_trunc_normal_  | leave the tensor                    | it draws until all values fit: never, fake |
| torch.utils.swap_tensors              | nothing, for equal fake tensors     | `Module.to` swaps a fake parameter for an equal one, and fails where anything else refers to it |
| moe._can_use_grouped_mm               | no                                  | as under Dynamo: the fake kernel knows bfloat16 only |
| masking_utils.is_tracing              | yes                                 | as under Dynamo: no mask is left out because it is all ones |
| masking_utils._vmap_expansion_sdpa    | broadcasting of the four indices    | no storage of a tensor inside vmap can be looked at; mask functions go by indices |
| torch.compiler.is_compiling           | yes                                 | as under Dynamo, where real tensors are computed with |
| torch.autocast, entered and left      | itself, telling the recorder        | no torch function mode is told of it       |
| torch.from_numpy, torch.IntTensor     | themselves, telling the recorder    | no torch function mode is told of them     |

Reads and writes nothing.
"""  # noqa: E501

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import lru_cache
from types import CellType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

_Cached = type(lru_cache(int))


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Let `owner.name` be another value for a while."""
    kept = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, kept)


@contextmanager
def no_rejection_sampling() -> Iterator[None]:
    """Let truncated normals leave their tensor as it is."""
    with replaced(torch.nn.init, "_no_grad_trunc_normal_", lambda tensor, *args, **kwargs: tensor):
        yield


@contextmanager
def idle_conversions() -> Iterator[None]:
    """Let `Module.to` leave a fake parameter alone that is of the wanted dtype already."""
    kept: Callable[[torch.Tensor, torch.Tensor], None] = torch.utils.swap_tensors

    def swap(left: torch.Tensor, right: torch.Tensor) -> None:
        if not (isinstance(left, FakeTensor) and left.dtype == right.dtype and left.device == right.device):
            kept(left, right)

    with replaced(torch.utils, "swap_tensors", swap):
        yield


_AS_COMPILED: tuple[tuple[str, str, bool], ...] = (
    ("transformers.integrations.moe", "_can_use_grouped_mm", False),
    ("transformers.masking_utils", "is_tracing", True),
)
"""(module, function, answer): questions that transformers answers in this way under Dynamo."""


@contextmanager
def as_compiled() -> Iterator[None]:
    """Let transformers decide as it does under Dynamo."""
    with ExitStack() as stack:
        for module, name, answer in _AS_COMPILED:
            owner = sys.modules.get(module)
            if hasattr(owner, name):
                stack.enter_context(replaced(owner, name, lambda *args, _answer=answer, **kwargs: _answer))
        yield


@contextmanager
def compiling() -> Iterator[None]:
    """Let torch and transformers answer as under Dynamo, while real tensors are computed with."""
    with (
        as_compiled(),
        replaced(torch.compiler, "_is_compiling_flag", True),
        replaced(torch.compiler, "is_dynamo_compiling", lambda: True),
    ):
        yield


def _broadcast_mask(mask_function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A mask function of four indices, each a number, as one of four ranges."""

    def masked(*ranges: torch.Tensor) -> torch.Tensor:
        spread = [
            index.view([-1 if axis == own else 1 for axis in range(len(ranges))]) for own, index in enumerate(ranges)
        ]
        return mask_function(*spread).expand(tuple(len(index) for index in ranges))

    return masked


@contextmanager
def broadcast_masks() -> Iterator[None]:
    """Let transformers build masks by broadcasting where it would use vmap."""
    owner = sys.modules.get("transformers.masking_utils")
    with ExitStack() as stack:
        if hasattr(owner, "_vmap_expansion_sdpa") and hasattr(owner, "TransformGetItemToIndex"):
            stack.enter_context(replaced(owner, "_vmap_expansion_sdpa", _broadcast_mask))
            stack.enter_context(replaced(owner, "TransformGetItemToIndex", nullcontext))
        yield


@contextmanager
def no_inference_mode() -> Iterator[None]:
    """Let `torch.inference_mode` do nothing: values are the same, and its tensors keep no count of writes."""
    idle: Callable[..., None] = lambda *_: None  # noqa: E731
    with replaced(torch.inference_mode, "__enter__", idle), replaced(torch.inference_mode, "__exit__", idle):
        yield


@contextmanager
def told_autocast(entered: Callable[[torch.autocast], None], left: Callable[[torch.autocast], None]) -> Iterator[None]:
    """Call `entered` after a scope of `torch.autocast` began and `left` after it ended."""
    enter: Callable[..., Any] = torch.autocast.__enter__
    leave: Callable[..., Any] = torch.autocast.__exit__

    def entering(self: torch.autocast) -> Any:
        found = enter(self)
        entered(self)
        return found

    def leaving(self: torch.autocast, *error: Any) -> Any:
        found = leave(self, *error)
        left(self)
        return found

    with replaced(torch.autocast, "__enter__", entering), replaced(torch.autocast, "__exit__", leaving):
        yield


@contextmanager
def told_arrays(tell: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Hand every real tensor that `torch.from_numpy` or `torch.IntTensor` makes to `tell` first."""
    kept, legacy = torch.from_numpy, torch.IntTensor

    def from_numpy(array: Any) -> torch.Tensor:
        with unset_fake_temporarily():
            return tell(kept(array))

    class Legacy(type):
        def __call__(cls, *numbers: Any) -> torch.Tensor:
            with unset_fake_temporarily():
                return tell(legacy(*numbers))

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, legacy)

    with replaced(torch, "from_numpy", from_numpy), replaced(torch, "IntTensor", Legacy("IntTensor", (), {})):
        yield


def forget_cached() -> None:
    """Clear what functions of transformers' models have cached: a tensor of an earlier call is none of this one."""
    for name, module in list(sys.modules.items()):
        if name.startswith("transformers.models.") and "modeling" in name:
            for owner in (module, *(item for item in vars(module).values() if isinstance(item, type))):
                for value in list(vars(owner).values()):
                    _clear(value)


def _clear(value: Any) -> None:
    """Clear the cache of a function, or of the one that it wraps."""
    cells = [cell.cell_contents for cell in getattr(value, "__closure__", None) or () if _is_filled(cell)]
    for found in (value, *cells):
        if isinstance(found, _Cached):
            found.cache_clear()


def _is_filled(cell: CellType) -> bool:
    return cell != CellType()
