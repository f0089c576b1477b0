"""A stored table as a collection of rows that are decoded while it is read: what a table stage is given.

    graphs = StoredRows(run.parts("graphs"))
    len(graphs); for row in graphs: ...                  # as often as need be, always in stored order

Reads the parts, never more than about BATCH_BYTES of one row group at a time, so memory does not grow with the table.
Holds the number of rows of every part and the places of the rows whose key an earlier part has too. Raises StoreError
on unreadable Parquet, ValueError on a table of another version.
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from data.parts import key_columns, key_texts, row_type_of
from data.store import opened
from schemas.arrow import from_table

BATCH_BYTES = 1 << 20
"""Uncompressed bytes of the rows that are decoded together; decoded they take some tens of times as much."""
BATCH_ROWS = 1024
"""Most rows that are decoded together."""


class StoredRows(Collection[Any]):
    """The rows of some parts of one table in order, the first of every key where there are several parts."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = tuple(paths)
        self._repeats = _repeats(self._paths) if len(self._paths) > 1 else {}
        self._count = sum(map(_rows_of, self._paths)) - sum(map(len, self._repeats.values()))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        for path in self._paths:
            left_out = self._repeats.get(path, frozenset())
            for place, row in enumerate(iter_part(path)):
                if place not in left_out:
                    yield row

    def __contains__(self, wanted: object) -> bool:
        return any(row == wanted for row in self)


def iter_part(path: Path) -> Iterator[Any]:
    """Rows of one part, decoded in batches."""
    for data in _batches(path):
        yield from from_table(data, row_type_of(data.schema))


def _batches(path: Path) -> Iterator[pa.Table]:
    with opened(path) as file:
        for group in range(file.num_row_groups):
            known = file.metadata.row_group(group)
            per_row = max(1, known.total_byte_size // max(1, known.num_rows))
            size = max(1, min(BATCH_ROWS, BATCH_BYTES // per_row))
            for batch in file.iter_batches(batch_size=size, row_groups=[group], use_threads=False):
                yield pa.Table.from_batches([batch])


def _rows_of(path: Path) -> int:
    with opened(path) as file:
        count: int = file.metadata.num_rows
        return count


def _repeats(paths: Sequence[Path]) -> dict[Path, frozenset[int]]:
    """Places of the rows whose key stands before them, for every part that has some; only key columns are read."""
    seen: set[str] = set()
    found: dict[Path, frozenset[int]] = {}
    for path in paths:
        with opened(path) as file:
            schema = file.schema_arrow
        cls = row_type_of(schema)
        with opened(path) as file:
            data = file.read(columns=key_columns(cls))
        places = set()
        for place, key in enumerate(key_texts(data, cls)):
            if key in seen:
                places.add(place)
            seen.add(key)
        if places:
            found[path] = frozenset(places)
    return found
