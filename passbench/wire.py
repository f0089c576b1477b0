"""Messages between the orchestrator and its workers: length-prefixed JSON header and raw bytes; never pickle.

    send(link, {"do": "run", "seed": 7})
    header, blobs = receive(link, deadline=clock + 60, limit=2**20)

A message is a header length (u32), that many bytes of JSON, and the blobs whose sizes stand under "sizes". What comes
from a candidate is data to be doubted: sizes are bounded before anything is read, and tensors are rebuilt from declared
dtype, shape and stride only after these have been checked. Its text goes through `cleaned` first: no surrogate, escape
or mark of direction reaches a file or a terminal. `encode` and `decode` need torch; nothing else does.
"""

import json
import math
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from passbench.patience import Patience
from schemas.graph import DTYPE_BYTES
from schemas.text import plain

if TYPE_CHECKING:
    import torch

HEADER_LIMIT = 8 * 2**20
MAX_RANK = 32
MAX_BLOBS = 4096
MAX_DEPTH = 16
"""Most lists and objects inside each other in what a candidate says."""
MAX_DIGITS = 40
"""Most characters of a whole number."""
Header = dict[str, Any]


class WireError(Exception):
    """A message breaks the protocol."""


class WireClosed(Exception):
    """The other side ended."""


class WireTimeout(Exception):
    """The other side did not answer in time."""


def send(
    link: socket.socket, header: Mapping[str, Any], blobs: Sequence[bytes] = (), *, told: bytes = b"",
    deadline: float | None = None,
) -> None:  # fmt: skip
    """Send one message, and after it bytes that are no part of it, by a `time.monotonic` deadline.

    Raises WireClosed or WireTimeout.
    """
    raw = json.dumps({**header, "sizes": [len(blob) for blob in blobs]}).encode()
    try:
        for part in (struct.pack("<I", len(raw)) + raw, *blobs, told):
            link.settimeout(None if deadline is None else max(deadline - time.monotonic(), 1e-3))
            link.sendall(part)
    except TimeoutError as error:
        raise WireTimeout from error
    except OSError as error:
        raise WireClosed(str(error)) from error


def receive(
    link: socket.socket, *, deadline: float | Patience | None = None, limit: int = 2**62
) -> tuple[Header, list[bytearray]]:
    """Receive one message by a `time.monotonic` deadline or while there is patience.

    Raises WireClosed, WireTimeout, which says why, or WireError.
    """
    (size,) = struct.unpack("<I", _exactly(link, 4, deadline))
    if size > HEADER_LIMIT:
        raise WireError(f"header of {size} bytes")
    try:
        header = json.loads(bytes(_exactly(link, size, deadline)), parse_int=_whole)
    except (ValueError, RecursionError) as error:
        raise WireError("header is not JSON") from error
    sizes = header.pop("sizes", None) if isinstance(header, dict) else None
    if not isinstance(sizes, list) or not all(type(item) is int and item >= 0 for item in sizes):
        raise WireError("header without sizes")
    if len(sizes) > MAX_BLOBS:
        raise WireError(f"{len(sizes)} pieces of data")
    if sum(sizes) > limit:
        raise WireError(f"{sum(sizes)} bytes of data, at most {limit} expected")
    return header, [_exactly(link, item, deadline) for item in sizes]


def _left(deadline: float | Patience) -> float:
    return deadline.left() if isinstance(deadline, Patience) else deadline - time.monotonic()


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError("a whole number of absurd length")
    return int(digits)


def cleaned(value: Any, depth: int = 0) -> Any:
    """What a candidate says, its text made plain (`schemas.text`); raises WireError where it is nested too deeply."""
    if depth > MAX_DEPTH:
        raise WireError("header is nested too deeply")
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, list):
        return [cleaned(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {plain(name): cleaned(item, depth + 1) for name, item in value.items()}
    return value


def _exactly(link: socket.socket, count: int, deadline: float | Patience | None) -> bytearray:
    buffer = bytearray(count)
    view, done = memoryview(buffer), 0
    while done < count:
        patient = deadline if isinstance(deadline, Patience) else None
        left = None if deadline is None else _left(deadline)
        if left is not None and left <= 0:
            raise WireTimeout(patient.why if patient else "")
        try:
            link.settimeout(left)
            got = link.recv_into(view[done:])
        except TimeoutError as error:
            if patient:
                continue
            raise WireTimeout from error
        except OSError as error:
            raise WireClosed(str(error)) from error
        if not got:
            raise WireClosed("end of file")
        done += got
    return buffer


# --- tensors --------------------------------------------------------------------------------------------------------
def encode(values: Sequence[Any]) -> tuple[list[Header], list[bytes]]:
    """Outputs of a call as descriptions and raw row-major bytes; raises TypeError on what is no plain value."""
    import torch

    described: list[Header] = []
    blobs: list[bytes] = []
    for value in values:
        if value is None or type(value) in (int, float, bool):
            described.append({"scalar": value})
            continue
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise TypeError(f"an output is a {type(value).__name__}, not a plain tensor")
        flat = value.detach().cpu().contiguous().reshape(-1)
        name = str(value.dtype).removeprefix("torch.")
        described.append({"dtype": name, "shape": list(value.shape), "stride": list(value.stride())})
        blobs.append(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    return described, blobs


def decode(described: Any, blobs: Sequence[bytearray]) -> list[Any]:
    """Inverse of `encode` on doubted data; raises WireError."""
    if not isinstance(described, list):
        raise WireError("outputs are not a list")
    rest = list(blobs)
    found: list[Any] = []
    for item in described:
        if isinstance(item, dict) and set(item) == {"scalar"} and not isinstance(item["scalar"], str | list | dict):
            found.append(item["scalar"])
            continue
        if not rest:
            raise WireError("an output without data")
        found.append(_tensor(item, rest.pop(0)))
    if rest:
        raise WireError("data without an output")
    return found


def _tensor(item: Any, blob: bytearray) -> "torch.Tensor":
    import torch

    from passbench.check import stride_order

    if not isinstance(item, dict) or set(item) != {"dtype", "shape", "stride"}:
        raise WireError("an output is not described by dtype, shape and stride")
    if not isinstance(item["dtype"], str) or item["dtype"] not in DTYPE_BYTES:
        raise WireError("an output of unknown dtype")
    shape, stride = item["shape"], item["stride"]
    for part in (shape, stride):
        if not isinstance(part, list) or not all(type(n) is int and 0 <= n < 2**48 for n in part):
            raise WireError("shape and stride are lists of whole numbers")
    if len(shape) > MAX_RANK or math.prod(max(size, 1) for size in shape) >= 2**48:
        raise WireError("an output of absurd shape")
    if len(shape) != len(stride) or math.prod(shape) * DTYPE_BYTES[item["dtype"]] != len(blob):
        raise WireError("an output's data does not fit its description")
    dtype = getattr(torch, item["dtype"])
    try:
        if not blob:
            return torch.empty(shape, dtype=dtype)
        value = torch.frombuffer(blob, dtype=torch.uint8).view(dtype).reshape(shape)
        if stride_order(shape, stride) is None:
            return torch.stack([value, value], dim=-1)[..., 0]
        return torch.empty_strided(shape, stride, dtype=dtype).copy_(value)
    except (RuntimeError, TypeError) as error:  # NotImplementedError of an exotic dtype is a RuntimeError
        raise WireError(f"an output of {item['dtype']} that torch does not make") from error
