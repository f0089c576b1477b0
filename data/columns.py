"""Some columns of a stored table, and whole rows on request: what a lookup by name or key needs of a large table.

    names = Columns(RunDirectory("runs/default"), "graphs", ("name", "graph_id"))
    places = [place for place, name in enumerate(names["name"]) if name == "bert/BertModel"]
    rows = names.rows(places)                  # decoded, from the row groups that hold them

Reads the Parquet parts of one table of a run directory: of each part the columns that are asked for, which are small
beside the graphs, and then one row group at a time. Writes nothing, so nothing can be out of date.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from data.parts import row_type_of
from data.store import RunDirectory, opened
from schemas.arrow import from_table


class Columns:
    """Columns of all parts of a table as lists, in stored order (repeated keys are not dropped)."""

    def __init__(self, store: RunDirectory, table: str, names: Sequence[str]) -> None:
        self._parts: list[Path] = store.parts(table)
        self._starts: list[int] = []
        self._values: dict[str, list[Any]] = {name: [] for name in names}
        count = 0
        for path in self._parts:
            with opened(path) as file:
                found = file.read(columns=list(names))
            self._starts.append(count)
            count += found.num_rows
            for name, values in self._values.items():
                values += found[name].to_pylist()
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, name: str) -> list[Any]:
        return self._values[name]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """The values of each row, in the order in which the columns were asked for."""
        return zip(*self._values.values(), strict=True)

    def rows(self, places: Sequence[int]) -> dict[int, Any]:
        """Whole rows by their place, decoded; each row group that holds one is read once."""
        wanted: dict[Path, list[tuple[int, int]]] = defaultdict(list)
        for place in sorted(set(places)):
            part = bisect_right(self._starts, place) - 1
            wanted[self._parts[part]].append((place - self._starts[part], place))
        found: dict[int, Any] = {}
        for path, rows in wanted.items():
            found.update(_rows(path, rows))
        return found


def _rows(path: Path, rows: Sequence[tuple[int, int]]) -> Iterator[tuple[int, Any]]:
    """(place, row) for each (number in the part, place), ascending."""
    with opened(path) as file:
        first, waiting = 0, list(rows)
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            here = [(number - first, place) for number, place in waiting if number < first + size]
            waiting = waiting[len(here) :]
            first += size
            if not here:
                continue
            data = file.read_row_group(group)
            for number, place in here:
                yield place, from_table(data.slice(number, 1), row_type_of(data.schema))[0]


def row_type(store: RunDirectory, table: str) -> type[Any] | None:
    """The row type of a stored table; None if it has no part."""
    for path in store.parts(table):
        with opened(path) as file:
            return row_type_of(file.schema_arrow)
    return None
