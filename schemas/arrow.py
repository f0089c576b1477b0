"""The Arrow codec: schema, table and bytes of rows, derived once a type from its annotations.

    table = to_table(rows, GraphRecord)          # explicit schema, also for zero rows and all-null columns
    rows  = from_table(table, GraphRecord)       # the inverse, exact
    blob  = to_bytes(rows, Failure)              # an Arrow IPC stream, what a child process returns

Reads and writes nothing itself. Tuples become lists, dataclasses structs, StrEnums strings, `X | None` is nullable,
`Text` is large_string; every other field is non-null. Raises ValueError if a table's schema is not the type's.
"""

import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from schemas.rows import SCHEMA_VERSION, Text

T = TypeVar("T")
Convert = Callable[[Any], Any]
_SCALARS: dict[Any, pa.DataType] = {
    str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(), Text: pa.large_string(),
}  # fmt: skip


def _optional(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) in (Union, types.UnionType):
        inner = [arg for arg in get_args(hint) if arg is not type(None)]
        assert len(inner) == 1, f"only X | None is supported, not {hint}"
        return inner[0], True
    return hint, False


def _arrow_type(hint: Any) -> pa.DataType:
    if hint in _SCALARS:
        return _SCALARS[hint]
    if get_origin(hint) is tuple:
        return pa.list_(pa.field("element", _arrow_type(get_args(hint)[0]), nullable=False))
    if is_dataclass(hint):
        return pa.struct(_arrow_fields(hint))
    assert issubclass(hint, StrEnum), f"no Arrow type for {hint}"
    return pa.string()


def _arrow_fields(cls: Any) -> list[pa.Field]:
    hints = get_type_hints(cls)
    found = []
    for field in fields(cls):
        inner, nullable = _optional(hints[field.name])
        found.append(pa.field(field.name, _arrow_type(inner), nullable=nullable))
    return found


@cache
def schema_of(cls: type) -> pa.Schema:
    """The explicit Arrow schema of a row type; row type name and schema version stand in its metadata."""
    return pa.schema(_arrow_fields(cls), metadata={"row_type": cls.__name__, "schema_version": SCHEMA_VERSION})


@cache
def _encoder(hint: Any) -> Convert | None:
    """A function from field value to Arrow-ready value, or None where the value can pass unchanged."""
    hint, nullable = _optional(hint)
    if hint in _SCALARS:
        return None
    if get_origin(hint) is tuple:
        inner = _encoder(get_args(hint)[0])
        return list if inner is None else lambda value: [inner(item) for item in value]
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        parts = [(field.name, _encoder(hints[field.name])) for field in fields(hint)]
        return lambda value: {n: getattr(value, n) if e is None else e(getattr(value, n)) for n, e in parts}
    return (lambda value: None if value is None else value.value) if nullable else (lambda value: value.value)


@cache
def _decoder(hint: Any) -> Convert | None:
    """The inverse of `_encoder`."""
    hint, nullable = _optional(hint)
    if hint in _SCALARS:
        return None
    if get_origin(hint) is tuple:
        inner = _decoder(get_args(hint)[0])
        return tuple if inner is None else lambda value: tuple([inner(item) for item in value])
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        parts = [(field.name, _decoder(hints[field.name])) for field in fields(hint)]
        make: Any = getattr(hint, "shared", hint)
        return lambda value: make(**{n: value[n] if d is None else d(value[n]) for n, d in parts})
    enum: Any = hint
    return (lambda value: None if value is None else enum(value)) if nullable else (lambda value: enum(value))


def to_table(rows: Iterable[Any], cls: type) -> pa.Table:
    """Rows of one type as an Arrow table with the type's explicit schema."""
    encode = _encoder(cls)
    assert encode is not None
    return pa.Table.from_pylist([encode(row) for row in rows], schema=schema_of(cls))


def from_table(table: pa.Table, cls: type[T]) -> list[T]:
    """Rows of a table; raises ValueError if its columns are not exactly the type's."""
    if not table.schema.equals(schema_of(cls)):  # type: ignore[arg-type]
        raise ValueError(
            f"not a table of {cls.__name__} (schema version {SCHEMA_VERSION}): its columns are "
            f"{', '.join(table.schema.names)}; it was written by another version, so rebuild it"
        )
    row_type: Any = cls
    decode = _decoder(row_type)
    assert decode is not None
    return [decode(row) for row in table.to_pylist()]


def to_bytes(rows: Sequence[Any], cls: type) -> bytes:
    """Rows of one type as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    table = to_table(rows, cls)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def from_bytes(blob: bytes, cls: type[T]) -> list[T]:
    """Inverse of `to_bytes`; raises ValueError on bytes that are no such stream."""
    try:
        with pa.ipc.open_stream(pa.BufferReader(blob)) as reader:
            table = reader.read_all()
    except pa.ArrowInvalid as error:
        raise ValueError(f"not an Arrow stream of {cls.__name__}: {error}") from error
    return from_table(table, cls)
