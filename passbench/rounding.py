"""The reference with every rounding step moved at random: what an honest kernel that rounds elsewhere might give.

    runs = noisy_runs(module, make_inputs, changed=(), device="cpu")     # several lists of outputs

Each step that rounds has its result moved by a unit in the last place of its dtype: all up, all down, by turns, and by
chance. Sums, products of matrices and what is made of them have their operands moved by chance as well, which is what
another order of summation does. What only moves, compares or chooses values is exact and stays so. Where the runs
agree, the result does not hang on rounding. Reads and writes nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

_EXACT = frozenset("""
    relu relu_ neg neg_ abs abs_ sign signbit ceil floor round trunc maximum minimum max min amax amin argmax argmin
    fmax fmin clamp clamp_ clamp_min clamp_max clamp_min_ clamp_max_ where masked_fill masked_fill_ threshold hardtanh
    hardtanh_ fill fill_ zero_ copy copy_ clone _to_copy lift_fresh lift_fresh_copy detach alias isnan isinf isfinite
    eq ne lt le gt ge logical_not logical_and logical_or logical_xor cat stack index index_select gather scatter
    scatter_ scatter_reduce index_put index_put_ slice_scatter select_scatter constant_pad_nd reflection_pad1d
    reflection_pad2d replication_pad1d replication_pad2d roll flip repeat embedding tril triu sort topk unfold im2col
    max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d pixel_shuffle pixel_unshuffle one_hot arange
    full zeros ones empty full_like zeros_like ones_like empty_like new_full new_zeros new_ones new_empty scalar_tensor
    native_dropout dropout bernoulli bernoulli_ rand randn rand_like randn_like normal_ uniform_ _local_scalar_dense
    fmod remainder copysign heaviside nan_to_num bucketize searchsorted nonzero empty_strided new_empty_strided
""".split())  # fmt: skip
"""Names of operators whose results are no rounded numbers; views are known by their schemas."""
_APART = frozenset("""
    clone _to_copy copy copy_ lift_fresh lift_fresh_copy detach alias cat stack fill fill_ zero_ arange full zeros ones
    empty full_like zeros_like ones_like empty_like new_full new_zeros new_ones new_empty scalar_tensor where
    masked_fill masked_fill_ repeat empty_strided new_empty_strided gelu silu softplus leaky_relu elu hardswish
    hardsigmoid hardtanh mish threshold log_sigmoid_forward relu6 prelu _prelu_kernel glu clamp clamp_ hardtanh_
""".split())  # fmt: skip
"""Operators that bring no elements of one tensor together, though they are not marked as pointwise."""
_SCHEDULES: tuple[tuple[float, float] | None, ...] = ((1.0, 1.0), (-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0), None, None)
"""One a run: how far all steps of even and of odd number are moved, None for each element by chance."""


def is_pointwise(func: Any) -> bool:
    """Whether each element of an operator's results depends on one element of each operand at most; views count."""
    return torch.Tag.pointwise in func.tags or func.is_view or func.overloadpacket.__name__ in _APART


class Rounding(TorchDispatchMode):
    """Moves what every step rounds; entered for one run."""

    def __init__(self, schedule: tuple[float, float] | None, generator: torch.Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.schedule, self.generator, self.steps = schedule, generator, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.overloadpacket.__name__ in _EXACT or func.is_view:
            return func(*args, **kwargs)
        self.steps += 1
        written = _written(func, args, kwargs)
        if not is_pointwise(func) and not written:
            args, kwargs = pytree.tree_map(lambda value: self.moved(value, by_chance=True), (args, kwargs))
        found = func(*args, **kwargs)
        for value in written:
            if isinstance(value, torch.Tensor) and value.is_floating_point() and not _overlaps(value):
                value.copy_(self.moved(value))
        return found if written else pytree.tree_map(self.moved, found)

    def moved(self, value: Any, *, by_chance: bool = False) -> Any:
        """A floating tensor with every element moved by one unit in the last place, or by less by chance."""
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.dtype.itemsize < 2:
            return value
        step = torch.finfo(value.dtype).eps
        if self.schedule is not None and not by_chance:
            return (value.double() * (1.0 + step * self.schedule[self.steps % 2])).to(value.dtype)
        by = torch.empty(value.shape, dtype=torch.float64, device=value.device)
        by.uniform_(-1.0, 1.0, generator=self.generator)
        return (value.double() * (1.0 + step * by)).to(value.dtype)


def _written(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments that an operator writes into."""
    if not func._schema.is_mutable:
        return []
    named = zip((argument.name for argument in func._schema.arguments), args, strict=False)
    given = {**dict(named), **kwargs}
    marked = [item.name for item in func._schema.arguments if item.alias_info is not None and item.alias_info.is_write]
    return [leaf for name in marked for leaf in pytree.tree_leaves(given.get(name))]


def _overlaps(value: torch.Tensor) -> bool:
    return any(size > 1 and not stride for size, stride in zip(value.shape, value.stride(), strict=True))


def noisy_runs(
    module: Callable[..., Any], make: Callable[[], Sequence[Any]], changed: Sequence[int], device: str
) -> list[list[Any]]:
    """Outputs of several runs of a module, each on inputs made anew, and after them the inputs at positions `changed`.

    None where the module refuses such a run.
    """
    found: list[list[Any]] = []
    for seed, schedule in enumerate(_SCHEDULES):
        inputs = make()
        try:
            with Rounding(schedule, torch.Generator(device=device).manual_seed(seed)):
                outputs = pytree.tree_leaves(module(*inputs))
        except (RuntimeError, TypeError, ValueError):
            return []
        found.append([*outputs, *(inputs[position] for position in changed)])
    return found
