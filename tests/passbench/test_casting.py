"""Scopes of autocast: a lowered graph is recorded again as it was, and computes what eager code does."""

import pytest
import torch

from passbench.casting import with_scopes
from schemas.fx import lift, lower

pytestmark = pytest.mark.torch


def nested(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = torch.mm(x, y)
        with torch.autocast("cpu", enabled=False):
            b = torch.mm(x, y)
        c = torch.mm(y, x)
    return a, b + 1, c, torch.mm(x, x)


def empty(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pass
    return (torch.mm(x, y),)


def without(x, y):
    return (torch.mm(x, y) + 1,)


def recorded(call, inputs):
    found = []

    def backend(gm, example_inputs):
        found.append(gm)
        return gm.forward

    torch._dynamo.reset()
    outputs = torch.compile(call, backend=backend, fullgraph=True)(*inputs)
    return found[0], outputs


def targets(gm):
    return [node.target for node in gm.graph.nodes if node.op.startswith("call_")]


@pytest.mark.parametrize("call", [nested, empty, without])
def test_a_lowered_graph_is_recorded_with_the_calls_it_has(call):
    inputs = torch.randn(4, 4), torch.randn(4, 4)
    first, _ = recorded(call, inputs)
    again, found = recorded(with_scopes(lower(lift(first))), inputs)
    assert targets(again) == targets(first)
    right = call(*inputs)
    torch.testing.assert_close(found, right, rtol=0, atol=0)
    if call is nested:
        assert [value.dtype for value in found[:3]] == [torch.bfloat16, torch.float32, torch.bfloat16]


def test_scopes_that_cross_stay_calls():
    gm, _ = recorded(nested, (torch.randn(4, 4), torch.randn(4, 4)))
    one, two = (node for node in gm.graph.nodes if "exit_autocast" in str(node.target))
    one.args, two.args = two.args, one.args
    gm.recompile()
    before = gm.code
    assert with_scopes(gm).code == before
