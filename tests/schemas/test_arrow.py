"""The Arrow codec: exact round trips and explicit schemas for every row type, without torch."""

from dataclasses import fields
from enum import StrEnum
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.arrow import from_bytes, from_table, schema_of, to_bytes, to_table
from schemas.graph import Graph, Node, TensorSpec
from schemas.rows import ROW_TYPES, EvalResult, Failure, GraphRecord, Text, Verdict

pytestmark = pytest.mark.plain
NAMES = st.text(max_size=8)
SPECS = st.builds(
    TensorSpec, dtype=NAMES, shape=st.lists(st.integers(0, 9)).map(tuple),
    stride=st.lists(st.integers(0, 9)).map(tuple), device=NAMES,
)  # fmt: skip
NODES = st.builds(
    Node, op=NAMES, name=NAMES, target=NAMES, inputs=st.lists(st.integers(0, 99)).map(tuple), attrs=NAMES,
    outputs=st.lists(SPECS, max_size=2).map(tuple),
)  # fmt: skip
GRAPHS = st.builds(
    Graph, nodes=st.lists(NODES, max_size=3).map(tuple), inits=st.lists(NAMES).map(tuple),
    subgraphs=st.lists(NAMES).map(tuple),
)  # fmt: skip


def strategy(hint: Any) -> st.SearchStrategy[Any]:
    """Values of one field's type."""
    if hint is Graph:
        return GRAPHS
    if get_origin(hint) is tuple:
        return st.lists(strategy(get_args(hint)[0]), max_size=2).map(tuple)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return st.sampled_from(hint)
    if hasattr(hint, "__dataclass_fields__"):
        return rows(hint)
    if type(None) in get_args(hint):
        return st.none() | strategy(get_args(hint)[0])
    simple = {str: NAMES, Text: NAMES, int: st.integers(-(2**63), 2**63 - 1), bool: st.booleans()}
    return simple.get(hint, st.floats(allow_nan=False))


def rows(cls: type) -> st.SearchStrategy[Any]:
    hints = get_type_hints(cls)
    return st.builds(cls, **{f.name: strategy(hints[f.name]) for f in fields(cls)})


@pytest.mark.parametrize("cls", [t for t in ROW_TYPES if t is not EvalResult], ids=lambda t: t.__name__)
def test_rows_survive_tables_and_bytes(cls: type):
    @settings(max_examples=10, deadline=None)
    @given(st.lists(rows(cls), max_size=2))
    def survive(found: list[Any]) -> None:
        assert from_table(to_table(found, cls), cls) == found
        assert from_bytes(to_bytes(found, cls), cls) == found

    survive()


def test_a_null_column_keeps_its_type():
    lost = EvalResult(
        task_id="t", index=0, submission="s", environment="e", verdict=Verdict.TIMEOUT, rule="", detail="", matches=0,
        correct_from=None, max_abs_error=None, max_rel_error=None, speed_measured=False, speedup=None, ci_low=None,
        ci_high=None, inductor_speedup=None, isolation="process",
    )  # fmt: skip
    table = to_table([lost], EvalResult)
    assert table.schema.field("speedup").type == pa.float64()
    assert table.schema.field("verdict").nullable is False
    assert from_table(table, EvalResult) == [lost]


def test_zero_rows_keep_the_schema():
    for cls in ROW_TYPES:
        assert to_table([], cls).schema.equals(schema_of(cls))


def test_long_texts_are_large_strings_and_graphs_are_nested():
    assert schema_of(Failure).field("detail").type == pa.large_string()
    assert pa.types.is_struct(schema_of(GraphRecord).field("graph").type)


def test_foreign_tables_and_bytes_are_refused():
    with pytest.raises(ValueError, match="not a table of Failure"):
        from_table(pa.table({"a": [1]}), Failure)
    with pytest.raises(ValueError, match="not an Arrow stream"):
        from_bytes(b"garbage", Failure)
