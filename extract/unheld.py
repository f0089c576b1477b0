"""What a forward computes with that no graph holds, told in terms of its author's code before anything else fails.

    check_tensors([x, y])             # raises NotRepresentable: sparse, nested, under a function transform
    check_argument(generator)         # raises NotRepresentable: "an argument of type torch.Generator ..."
    with devices_told(): ...          # a missing CUDA device raises DeviceError

States are looked at, not messages: the layout of a tensor, whether functorch wraps it, the device it is on, and torch's
own function that starts CUDA. Reads and writes nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import _functorch as functorch

from extract.failures import DeviceError
from extract.patches import replaced
from schemas.fx import NotRepresentable, constant

HOSTS = frozenset({"cpu", "meta"})
"""Types of devices that graphs are traced on."""
_PLAIN = frozenset({int, float, bool, str, complex, type(None), type(...), torch.dtype, torch.device})
"""Types of arguments that are held and met most."""
ADVICE = "graphs are traced on the CPU: create tensors on the device of the inputs or weights, and leave .cuda() out"


def check_tensors(tensors: Iterable[torch.Tensor]) -> None:
    """Raise NotRepresentable or DeviceError for a tensor that is no plain block of numbers on the CPU."""
    for tensor in tensors:
        if functorch.is_functorch_wrapped_tensor(tensor):
            name = "vmap" if functorch.is_batchedtensor(tensor) else "grad, vjp, jvp or a like one"
            raise NotRepresentable(f"a call inside a function transform of torch.func ({name}) is not held by the IR")
        if tensor.is_nested:
            raise NotRepresentable("a nested tensor is not held by the IR: pad it and give its lengths")
        if tensor.layout is not torch.strided:
            layout = str(tensor.layout).removeprefix("torch.")
            raise NotRepresentable(f"a tensor of layout {layout} is not held by the IR: use a dense one")
        check_device(tensor.device.type)


def check_device(device: str) -> None:
    """Raise DeviceError for the type of a device that graphs are not traced on."""
    if device not in HOSTS:
        raise DeviceError(f"the model computes on a device of type {device}; {ADVICE}")


def check_argument(value: Any) -> None:
    """Raise NotRepresentable for an argument, without tensors in it, that the IR does not hold."""
    if type(value) not in _PLAIN:
        constant(value)


def check_arrays(name: str, is_known: bool) -> None:
    """Raise NotRepresentable where numbers that are not known leave torch for numpy."""
    if name in ("numpy", "__array__") and not is_known:
        raise NotRepresentable(
            "the forward hands a tensor to numpy, whose calls are not held by the IR: compute with torch"
        )


@contextmanager
def devices_told() -> Iterator[None]:
    """Let torch's failing to start CUDA, and to move fake weights to another device, raise DeviceError."""
    start: Callable[[], None] = torch.cuda._lazy_init
    swap: Callable[[torch.Tensor, torch.Tensor], None] = torch.utils.swap_tensors

    def started() -> None:
        try:
            start()
        except (AssertionError, RuntimeError) as error:
            raise DeviceError(f"the model needs a CUDA device and there is none here; {ADVICE}") from error

    def swapped(left: torch.Tensor, right: torch.Tensor) -> None:
        check_device(right.device.type)
        swap(left, right)

    with replaced(torch.cuda, "_lazy_init", started), replaced(torch.utils, "swap_tensors", swapped):
        yield
