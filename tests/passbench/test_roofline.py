"""Lower bounds of bytes and operations, computed by hand for small graphs; caps; the A/A noise floor."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from passbench.details import noise_floor
from passbench.roofline import Machine, caps_of, cost_of, floor_us, machine_of
from schemas import values
from schemas.graph import Graph, Node, TensorSpec, check
from schemas.rows import Environment, TaskVariant

pytestmark = pytest.mark.plain

ENVIRONMENT = Environment(environment="e", device="cuda", processor="NVIDIA H200", cores=8, threads=4, python="3.11",
                          torch="2.14", triton="3.8", system="Linux")  # fmt: skip


def spec(*shape, dtype="float32", stride=None):
    dense = tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))
    return TensorSpec(dtype=dtype, shape=shape, stride=stride or dense, device="cpu")


def node(op, name, target, inputs=(), outputs=(), args=None):
    refs = [{"in": k} for k in range(len(inputs))] if args is None else args
    attrs = "{}" if op == "placeholder" else values.dumps({"args": refs, "kwargs": {}})
    return Node(op=op, name=name, target=target, inputs=tuple(inputs), attrs=attrs, outputs=tuple(outputs))


def graph(*nodes):
    found = Graph(nodes=nodes, inits=("{}",) * sum(n.op == "placeholder" for n in nodes), subgraphs=())
    check(found)
    return found


def add_relu():
    x, y, out = spec(8, 16), spec(8, 16, stride=(0, 1)), spec(8, 16)
    return graph(
        node("placeholder", "x", "input", outputs=[x]), node("placeholder", "y", "input", outputs=[y]),
        node("call_function", "total", "operator.add", (0, 1), [out]),
        node("call_function", "relu", "torch.relu", (2,), [out]),
        node("output", "output", "", (3,)),
    )  # fmt: skip


def test_every_input_counts_once_and_a_broadcast_input_only_what_it_stores():
    cost = cost_of(add_relu())
    assert cost.moved == 4 * (128 + 16 + 128) and cost.flops == 0
    assert cost.eager_moved == 4 * (128 + 16 + 128) + 4 * (128 + 128)


def test_sizes_slices_and_views_are_not_traffic():
    table, index, taken = spec(1000, 64), spec(3, dtype="int64"), spec(3, 64)
    found = cost_of(graph(
        node("placeholder", "i", "input", outputs=[index]), node("placeholder", "t", "parameter", outputs=[table]),
        node("placeholder", "unread", "input", outputs=[table]),
        node("call_function", "e", "torch.nn.functional.embedding", (0, 1), [taken]),
        node("call_method", "v", "view", (3,), [spec(192)], args=[{"in": 0}, 192]),
        node("call_method", "w", "view", (1,), [spec(64000)], args=[{"in": 0}, 64000]),
        node("output", "output", "", (4, 5), args=[{"tuple": [{"in": 0}, {"in": 1}]}]),
    ))  # fmt: skip
    # the view of the table is returned, so its storage may be read by nobody: only what views read is counted whole
    assert found.moved == 3 * 8 + 4 * 64000 + 3 * 64 * 4


def test_a_matrix_product_costs_two_operations_a_multiply_add():
    found = cost_of(graph(
        node("placeholder", "x", "input", outputs=[spec(5, 32)]),
        node("placeholder", "w", "input", outputs=[spec(7, 32)]),
        node("call_function", "y", "torch.nn.functional.linear", (0, 1), [spec(5, 7)]),
        node("output", "output", "", (2,)),
    ))  # fmt: skip
    assert found.flops == 2 * 5 * 7 * 32 and found.moved == 4 * (5 * 32 + 7 * 32 + 5 * 7)


def test_the_floor_is_the_larger_of_moving_and_computing():
    machine = Machine(gbytes=100.0, tflops=1.0, cache_mib=0.0, launch_us=0.5)
    cost = cost_of(add_relu())
    assert floor_us(cost, machine) == 0.5
    assert math.isclose(floor_us(replace(cost, moved=10**6), machine), 10.0)
    assert math.isclose(floor_us(replace(cost, flops=5e7), machine), 50.0)
    cached = replace(machine, cache_mib=1.0)
    assert math.isclose(floor_us(replace(cost, moved=10**6), cached), 10.0 / 3)


def test_caps_are_eager_time_over_the_floor_and_an_unknown_machine_has_none():
    variant = TaskVariant(task_id="t", index=2, subgraph="s", origin="s", dtype="float32", shapes="", graph=add_relu())
    assert caps_of([variant], {2: 30.0}, ENVIRONMENT) == {2: 30.0}  # launch of 1 microsecond decides
    assert caps_of([variant], {}, ENVIRONMENT) == {}
    unknown = replace(ENVIRONMENT, processor="Abacus 3")
    assert machine_of(unknown) is None and caps_of([variant], {2: 30.0}, unknown) == {}
    processor = machine_of(replace(ENVIRONMENT, device="cpu"))
    assert processor is not None and processor.gbytes == 2048.0


def test_the_noise_floor_is_the_width_of_measuring_nothing():
    rng = np.random.default_rng(3)
    still = [np.full(12, 7.0)] * 3
    assert noise_floor(still) == 0.0 and noise_floor([]) is None
    floors = [noise_floor([np.exp(rng.normal(0, s, 12)) for _ in range(200)]) for s in (0.01, 0.02)]
    # neighbours differ by sqrt(2) s; the median of 12 of them has a standard error of 1.2533 sqrt(2) s / sqrt(12)
    for floor, s in zip(floors, (0.01, 0.02), strict=True):
        assert math.isclose(floor, 1.96 * 1.2533 * math.sqrt(2) * s / math.sqrt(12), rel_tol=0.2)
    drift = [np.exp(np.repeat(np.linspace(0, 1, 6), 2)[[0, *range(11)]]) for _ in range(50)]
    assert noise_floor(drift) < 0.25  # a drift moves both windows of a pair of neighbours
    assert json.dumps(floors)
