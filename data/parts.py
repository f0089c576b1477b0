"""Tables of rows as Arrow, not decoded: their row type, keys, order, and their bytes as deterministic Parquet.

    data = sorted_rows(data, GraphRecord)
    blob = parquet_bytes(data)

Reads and writes nothing. The row type of a stored table stands in its schema's metadata (`schemas.arrow.schema_of`).
"""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemas import rows as row_types
from schemas.arrow import schema_of

ROW_GROUP_BYTES = 32 << 20
"""Uncompressed bytes that a row group is aimed at."""


def row_type_of(schema: pa.Schema) -> type:
    """The row type that a stored table names in its metadata; raises ValueError if it names none."""
    name = (schema.metadata or {}).get(b"row_type", b"").decode()
    found = getattr(row_types, name, None) if name else None
    if not isinstance(found, type):
        raise ValueError(f"a table of unknown row type {name!r}: it was written by another version, so rebuild it")
    return found


def key_columns(cls: type) -> list[str]:
    """Names of the columns that identify a row of this type."""
    key: tuple[str, ...] = getattr(cls, "KEY")  # noqa: B009
    return list(key)


def key_texts(data: pa.Table, cls: type) -> list[str]:
    """`row_key` of every row of an Arrow table, without decoding the rows."""
    columns = [data[name].to_pylist() for name in key_columns(cls)]
    return ["/".join(map(str, values)) for values in zip(*columns, strict=True)]


def without_repeats(data: pa.Table, cls: type) -> pa.Table:
    """Keep the first row of every key."""
    first: dict[str, int] = {}
    for index, key in enumerate(key_texts(data, cls)):
        first.setdefault(key, index)
    return data if len(first) == data.num_rows else data.take(pa.array(first.values(), pa.int64()))


def sorted_rows(data: pa.Table, cls: type) -> pa.Table:
    """Rows in key order, equal rows merged; two different rows of one key are a broken invariant."""
    order = pc.sort_indices(data, sort_keys=[(name, "ascending") for name in key_columns(cls)])
    data = data.take(order)
    keys = key_texts(data, cls)
    for index in range(1, len(keys)):
        if keys[index] == keys[index - 1]:
            same = data.slice(index, 1).equals(data.slice(index - 1, 1))
            assert same, f"two different rows of {cls.__name__} have the key {keys[index]!r}"
    return without_repeats(data, cls)


def parquet_bytes(data: pa.Table) -> bytes:
    """Deterministic Parquet of a table: zstd, page index, content-defined chunks, groups near ROW_GROUP_BYTES.

    Made in memory: a full disk then meets a plain write, whereas the Parquet writer would abort the process.
    """
    per_row = max(1, data.nbytes // max(1, data.num_rows))
    group = max(1, ROW_GROUP_BYTES // per_row)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, data.schema, compression="zstd", write_page_index=True, use_content_defined_chunking=True
    ) as writer:
        writer.write_table(data.combine_chunks(), row_group_size=group)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def empty(cls: type) -> pa.Table:
    """A table of this row type without rows."""
    return schema_of(cls).empty_table()
