"""Samples do not change each other: levels that one enters are left, and rows depend on neither order nor workers."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from data.calls import Call, Item, Limits
from data.pool import ChildPool
from extract.failures import SampleError
from extract.samples import read_sample
from extract.trace import SAMPLE_MODE, TraceConfig, trace
from schemas.arrow import to_table
from schemas.graph import Graph
from schemas.rows import GraphRecord, ModelConfig
from tests.extract.test_sample_forms import row_of, written

pytestmark = pytest.mark.torch
ENTER = "e = torch.amp.autocast_mode._enter_autocast('cpu', torch.bfloat16, True, None)\n"
LEVEL = "v = torch._C._functorch._vmap_increment_nesting(2, 'error')\n"
LINEAR = "return torch.nn.functional.linear(L_x_, L_x_)"
BODIES = {
    "plain": LINEAR,
    "autocast_left_open": ENTER + LINEAR,
    "autocast_refused": ENTER + "y = L_x_.view(3)\nreturn y",
    "autocast_closed": ENTER + "y = torch.relu(L_x_)\nx = torch.amp.autocast_mode._exit_autocast(e)\nreturn y @ L_x_.T",
    "twice": ENTER + ENTER.replace("e =", "f =") + LINEAR,
    "level_left_open": LEVEL + "y = L_x_ + 1\nreturn y",
    "level_refused": LEVEL + "y = torch._C._functorch._add_batch_dim(L_x_, 0, 1)\nz = y.view(3)\nreturn z",
    "grad_off": "g = torch._C._set_grad_enabled(False)\nreturn L_x_ + 1",
    "unknown_size": ENTER + "return L_x_[L_x_ > 0]",
}  # fmt: skip


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    for name, body in BODIES.items():
        written(tmp_path / "samples" / name, body)
    return tmp_path / "samples"


def dtypes_of(graph: Graph) -> list[str]:
    return [spec.dtype for _, node in graph.calls() for spec in node.outputs]


@pytest.mark.parametrize("name", [name for name in BODIES if name != "plain"])
def test_a_plain_sample_is_the_same_after_any_other(name: str, samples: Path):
    before = read_sample(samples / "plain")
    try:
        read_sample(samples / name)
    except SampleError:
        assert name in ("autocast_refused", "level_left_open", "level_refused", "unknown_size")
    assert not torch.is_autocast_enabled("cpu")
    assert torch._C._functorch.maybe_current_level() is None
    assert torch.is_grad_enabled()
    again = read_sample(samples / "plain")
    assert again == before
    assert dtypes_of(again) == ["float32"]


def test_an_autocast_that_is_left_open_is_closed_at_the_end(samples: Path):
    graph = read_sample(samples / "twice")
    targets = [node.target.rpartition(".")[2] for _, node in graph.calls()]
    assert targets == ["_enter_autocast", "_enter_autocast", "linear", "_exit_autocast", "_exit_autocast"]
    inner, outer = (graph.nodes[node.inputs[0]] for _, node in list(graph.calls())[-2:])
    assert (inner.name, outer.name) == ("f", "e")
    assert "bfloat16" in dtypes_of(graph)


def test_a_balanced_autocast_keeps_its_calls(samples: Path):
    targets = [node.target.rpartition(".")[2] for _, node in read_sample(samples / "autocast_closed").calls()]
    assert targets == ["_enter_autocast", "relu", "_exit_autocast", "t", "matmul"]


def texts(rows: Sequence[object]) -> list[str]:
    """Rows as texts, apart from tracebacks, in the order of their names."""
    found = [
        (row.name, row.graph_id, row.graph.to_json()) if isinstance(row, GraphRecord) else
        (getattr(row, "name", ""), str(getattr(row, "kind", "")), getattr(row, "message", ""))
        for row in rows
    ]  # fmt: skip
    return [json.dumps(row) for row in sorted(found)]


def test_rows_do_not_depend_on_the_order_in_which_samples_are_read(samples: Path):
    config = TraceConfig(samples=str(samples))
    orders = [list(BODIES), list(reversed(BODIES)), random.Random(5).sample(list(BODIES), len(BODIES))]
    found = [texts([row for name in order for row in trace(row_of(samples, name), config)]) for order in orders]
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == len(BODIES)


def test_rows_do_not_depend_on_the_number_of_workers(samples: Path, tmp_path: Path):
    call = Call(
        stage="graphs", function="extract.trace:trace", config_class="extract.trace:TraceConfig",
        limits=Limits(timeout_s=120.0, memory_gib=4.0, recycle_items=50, hard=False),
        config={"samples": str(samples)},
    )  # fmt: skip
    rows = [row_of(samples, name) for name in BODIES]
    assert all(row.library == SAMPLE_MODE for row in rows)
    shuffled = random.Random(7).sample(rows, len(rows))
    one = _in_pool(call, rows, tmp_path / "one", workers=1)
    assert one == _in_pool(call, shuffled, tmp_path / "two", workers=2)
    assert len(one) == len(BODIES)


def _in_pool(call: Call, rows: Sequence[ModelConfig], work: Path, workers: int) -> list[str]:
    """What the rows give in a pool, each given to the children in turn, without tracebacks and in order of names."""
    found = []
    with ChildPool(workers=workers, work=work) as pool:
        children = [pool.borrow() for _ in range(workers)]
        entered = [child.__enter__() for child in children]
        for place, row in enumerate(rows):
            item = Item(key=row.architecture, name=row.name)
            tables = entered[place % workers].run_item(call, to_table([row], ModelConfig), item)
            for name, columns in (("GraphRecord", ("name", "graph_id")), ("Failure", ("name", "kind", "message"))):
                if name in tables:
                    found += [json.dumps([row[c] for c in columns]) for row in tables[name].to_pylist()]
        for child in children:
            child.__exit__(None, None, None)
    return sorted(found)
