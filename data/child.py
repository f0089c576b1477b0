"""What runs inside a child process: a loop that calls stage functions and answers with Arrow rows.

    python -m data.child SOCKET-FD PARENT-PID      # started by `data.pool` only

A message is a JSON header and binary blobs, all length-prefixed; nothing is pickled, no output text is parsed.
Requests: "load" (import a function and its configuration class), "warm" (call its module's `warm_up`, then fork on
request instead of working), "settle" (defaults of a configuration),
"item" (one row in), "table" (whole tables in, read here from their parts as the stage goes through them). Answers: one
Arrow IPC stream a row type; the rows of a table stage go out while it runs, in messages with "more" before the last.

Where a stage's module has `left_behind` and that tells of something after an item, the answer says "spent": the process
must not take another item, and the pool replaces it.

Reads the parts that a "table" request names; writes to the socket alone. Holds the first of the two broad `except`:
what a stage raises becomes a `Failure` row, its kind told by the stage module's `failure_kind(error)` if it has one.
"""

import contextlib
import ctypes
import dataclasses
import faulthandler
import gc
import importlib
import json
import os
import re
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from data.processes import bound
from data.store import StoreError
from data.stored import StoredRows
from data.template import serve_forks, single_threaded
from schemas import rows as row_types
from schemas.arrow import from_bytes, to_table
from schemas.rows import Failure, FailureKind, Text

DETAIL_LIMIT = 4000
"""Characters of a traceback or standard error kept in a Failure row."""
ROOT = Path(__file__).resolve().parent.parent
"""The folder that holds the packages."""
_CHUNK_ROWS, _CHUNK_BYTES = 256, 1 << 20
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_SCRUB: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"/(?:[^\s\"'/:]+/)*(?:site|dist)-packages/"), ""),
    (re.compile(re.escape(f"{ROOT}/")), ""),
    (re.compile(r"/(?:[^\s\"'/:]+/)*lib/(?=python3\.\d+/)"), ""),
    (re.compile(r"(?<![\w.:/>-])/(?:[^\s\"'/:,()<>]+/)+(?=[^\s\"'/:,()<>])"), ""),
    (re.compile(r"\b0x[0-9a-fA-F]{6,}"), "0x..."),
    (re.compile(r"^Extension modules: .*\n?", re.MULTILINE), ""),
    (re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d[.,]\d+ +\d+ ", re.MULTILINE), ""),
)
"""Machine paths, addresses and log stamps, which would differ between two builds."""


# --- messages -------------------------------------------------------------------------------------------------------
def send(link: socket.socket, header: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> None:
    """Write one message: header as JSON, then the blobs."""
    text = json.dumps(header).encode()
    link.sendall(struct.pack("<QI", len(text), len(blobs)) + text)
    for blob in blobs:
        link.sendall(struct.pack("<Q", len(blob)))
        link.sendall(blob)


def receive(link: socket.socket) -> tuple[dict[str, Any], list[bytes]] | None:
    """Read one message; None where the other side is gone."""
    try:
        size, count = struct.unpack("<QI", _exactly(link, 12))
        header: dict[str, Any] = json.loads(_exactly(link, size))
        blobs = [_exactly(link, struct.unpack("<Q", _exactly(link, 8))[0]) for _ in range(count)]
    except (EOFError, ConnectionError):
        return None
    return header, blobs


def receive_answer(link: socket.socket) -> tuple[dict[str, Any], list[bytes]] | None:
    """Read one answer, the messages with "more" put before the last; None where the other side is gone before it."""
    types: list[str] = []
    streams: list[bytes] = []
    while (message := receive(link)) is not None:
        header, blobs = message
        if not header.get("more"):
            return (header | {"types": types + header["types"]}, streams + blobs) if "types" in header else message
        types += header["types"]
        streams += blobs
    return None


def _exactly(link: socket.socket, size: int) -> bytes:
    buffer = bytearray(size)
    view, got = memoryview(buffer), 0
    while got < size:
        step = link.recv_into(view[got:], min(size - got, 1 << 20))
        if step == 0:
            raise EOFError
        got += step
    return bytes(buffer)


def portable(text: str, limit: int = DETAIL_LIMIT) -> str:
    """A traceback or log without machine paths, addresses and time stamps; only its last `limit` characters."""
    for pattern, replacement in _SCRUB:
        text = pattern.sub(replacement, text)
    return text if len(text) <= limit else "..." + text[3 - limit :]


# --- configurations -------------------------------------------------------------------------------------------------
def load_object(reference: str) -> Any:
    """The object that "module:name" names; raises ValueError if there is none."""
    module, _, name = reference.partition(":")
    found = getattr(importlib.import_module(module), name, None)
    if found is None:
        raise ValueError(f"{module} has no {name!r}")
    return found


def build_config(cls: Any, settings: Mapping[str, Any]) -> Any:
    """An instance of a configuration dataclass from decoded JSON; raises ValueError on an unknown setting."""
    hints = get_type_hints(cls)
    known = [field.name for field in fields(cls)]
    for name in settings:
        if name not in known:
            raise ValueError(f"{cls.__name__} has no setting {name!r}; it has {', '.join(known)}")
    found = {}
    for name, value in settings.items():
        try:
            found[name] = _decode(hints[name], value)
        except (TypeError, ValueError) as error:
            hint = getattr(hints[name], "__name__", hints[name]) if get_origin(hints[name]) is None else hints[name]
            raise ValueError(f"{cls.__name__}.{name} is of type {hint}, not {json.dumps(value)}") from error
    return cls(**found)


def _decode(hint: Any, value: Any) -> Any:
    """A decoded JSON value as a field of this type; raises TypeError or ValueError on a value of another type."""
    if get_origin(hint) in (Union, UnionType):
        inner = [arg for arg in get_args(hint) if arg is not type(None)]
        return None if value is None else _decode(inner[0], value)
    if get_origin(hint) is tuple:
        parts = get_args(hint)
        if not isinstance(value, (list, tuple)):
            raise TypeError(value)
        inner = [parts[0]] * len(value) if parts[-1] is Ellipsis else list(parts)
        return tuple(_decode(part, item) for part, item in zip(inner, value, strict=True))
    if is_dataclass(hint):
        return build_config(hint, value)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint(value)
    plain = {bool: (bool,), int: (int,), float: (int, float), str: (str,)}.get(hint)
    if plain is not None and (not isinstance(value, plain) or isinstance(value, bool) != (hint is bool)):
        raise TypeError(value)
    return float(value) if hint is float else value


# --- calls ----------------------------------------------------------------------------------------------------------
@dataclass(slots=True, kw_only=True)
class _Collector:
    """Rows of one call, encoded in small chunks as they come; with `emit` they are sent on, else kept."""

    emit: Callable[[dict[str, bytes]], None] | None = None
    """Takes about _CHUNK_BYTES of rows at a time."""
    pending: dict[str, list[Any]] = field(default_factory=dict)
    done: dict[str, list[pa.Table]] = field(default_factory=dict)
    size: int = 0
    """Bytes in `done`."""
    chunk: dict[str, int] = field(default_factory=dict)
    """Rows of the next chunk of a type: as many as fit by the chunk before, at most twice as many as that had."""

    def add(self, row: Any) -> None:
        name = type(row).__name__
        assert getattr(row_types, name, None) is type(row), f"a stage yielded {name}, which is no row type"
        rows = self.pending.setdefault(name, [])
        rows.append(row)
        if len(rows) >= self.chunk.get(name, 1):
            self._encode(name)
        if self.emit is not None and self.size >= _CHUNK_BYTES:
            self.emit(self.streams())

    def _encode(self, name: str) -> None:
        rows = self.pending.pop(name)
        data = to_table(rows, type(rows[0]))
        fitting = _CHUNK_BYTES * len(rows) // max(1, data.nbytes)
        self.chunk[name] = max(1, min(_CHUNK_ROWS, 2 * len(rows), fitting))
        self.done.setdefault(name, []).append(data)
        self.size += data.nbytes

    def streams(self) -> dict[str, bytes]:
        """One Arrow IPC stream a row type, in order of name; from then on they are no longer held here."""
        for name in list(self.pending):
            self._encode(name)
        done, self.done, self.size = self.done, {}, 0
        return {name: stream_of(tables) for name, tables in sorted(done.items())}


def stream_of(tables: Sequence[pa.Table]) -> bytes:
    """Some tables of one schema as one Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def tables_of(header: Mapping[str, Any], blobs: Sequence[bytes]) -> dict[str, pa.Table]:
    """The tables of an answer, by row type."""
    found: dict[str, list[pa.Table]] = {}
    for name, blob in zip(header["types"], blobs, strict=True):
        with pa.ipc.open_stream(pa.BufferReader(blob)) as reader:
            found.setdefault(name, []).append(reader.read_all())
    return {name: pa.concat_tables(tables) for name, tables in found.items()}


def _collect(rows: Iterable[Any], emit: Callable[[dict[str, bytes]], None] | None = None) -> dict[str, bytes]:
    collector = _Collector(emit=emit)
    for row in rows:
        collector.add(row)
    return collector.streams()


def _load(request: Mapping[str, Any]) -> tuple[Callable[..., Any], Any]:
    function, name = load_object(request["function"]), request["config_class"]
    return function, build_config(load_object(name), request["config"]) if name else None


def failure_of(error: BaseException, request: Mapping[str, Any]) -> Failure:
    """The Failure row of an exception that left a stage function."""
    if isinstance(error, MemoryError):
        kind = FailureKind.OOM
    else:
        classify = getattr(sys.modules.get(request["function"].partition(":")[0]), "failure_kind", None)
        kind = FailureKind.UNKNOWN if classify is None else FailureKind(classify(error))
    lines = [line.strip() for line in str(error).strip().splitlines()] or [""]
    last = next((index for index, line in enumerate(lines) if not line.endswith(":")), len(lines) - 1)
    return Failure(
        stage=request["stage"],
        item=request["key"],
        name=request["name"],
        kind=kind,
        exception=type(error).__name__,
        message=portable(" ".join(lines[: last + 1]), 500),
        detail=_traceback(error),
    )


def _traceback(error: BaseException) -> Text:
    trace = error.__traceback__
    return Text(portable("".join(traceback.format_exception(type(error), error, trace and trace.tb_next))))


def _answer_item(request: Mapping[str, Any], blobs: Sequence[bytes]) -> dict[str, bytes]:
    """Call a stage on one row: its rows, or exactly one Failure row in place of them."""
    (row,) = from_bytes(blobs[0], getattr(row_types, request["row_type"]))
    function, config = _load(request)
    if request.get("bytes"):
        bound(request["bytes"])
    try:
        return _collect(function(row, config))
    except (Exception, SystemExit) as error:
        return _collect([failure_of(error, request)])


def _answer_table(request: Mapping[str, Any], link: socket.socket) -> dict[str, bytes]:
    """Call a stage on whole tables, each a collection of rows under its name; its last rows, the others are sent."""
    function, config = _load(request)
    tables = {name: StoredRows([Path(path) for path in paths]) for name, paths in request["reads"].items()}

    def emit(streams: Mapping[str, bytes]) -> None:
        send(link, {"types": list(streams), "more": True}, list(streams.values()))

    return _collect(function(**tables, config=config), emit)


def _answer(
    request: Mapping[str, Any], blobs: Sequence[bytes], link: socket.socket
) -> tuple[dict[str, Any], list[bytes]]:
    if request["do"] == "item":
        streams = _answer_item(request, blobs)
    elif request["do"] == "table":
        streams = _answer_table(request, link)
    elif request["do"] == "path":
        value = load_object(request["function"])(Path(request["path"]))
        return {"value": {name: str(item) for name, item in dataclasses.asdict(value).items()}}, []
    elif request["do"] == "settle":
        config = build_config(load_object(request["config_class"]), request["config"])
        return {"config": dataclasses.asdict(config)}, []
    elif request["do"] == "warm":
        return {"forks": warm_up(request["function"])}, []
    else:
        _load(request)
        return {"types": [], "warms": hasattr(_module_of(request["function"]), "warm_up")}, []
    return {"types": list(streams), "spent": _is_spent(request["function"])}, list(streams.values())


def _is_spent(function: str) -> bool:
    """Whether an item changed this process in a way that the next one could tell."""
    tell = getattr(_module_of(function), "left_behind", None)
    return tell is not None and bool(tell())


def _module_of(function: str) -> Any:
    return sys.modules[function.partition(":")[0]]


def warm_up(function: str) -> bool:
    """Call the `warm_up` of a function's module and freeze what it left; whether the process may then be forked."""
    _module_of(function).warm_up()
    gc.collect()
    gc.freeze()
    return single_threaded()


def serve(link: socket.socket) -> bool:
    """Answer requests until the parent closes the connection; True where it asks for a process that forks."""
    while (message := receive(link)) is not None:
        try:
            header, blobs = _answer(*message, link)
        except (Exception, SystemExit) as error:
            user = isinstance(error, (ValueError, StoreError))
            detail = {"user": user, "message": f"{error}", "type": type(error).__name__, "detail": _traceback(error)}
            header, blobs = {"error": detail}, []
        send(link, header, blobs)
        if header.get("forks"):
            return True
    return False


def die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent dies, and keep its own descendants beneath it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit("the parent is gone")


def main(argv: Sequence[str]) -> None:
    """Entry of the child process: the socket's file descriptor and the parent's process id."""
    handle, parent = int(argv[0]), int(argv[1])
    die_with(parent)
    os.set_inheritable(handle, False)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("800")
    faulthandler.enable()
    link = socket.socket(fileno=handle)
    if serve(link):
        template = os.getpid()
        forked = serve_forks(link)
        if forked is not None:
            die_with(template)
            serve(socket.socket(fileno=forked))
            os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
