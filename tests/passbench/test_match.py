"""The matcher: argument normal form, binding, soundness, several outputs, overlap, order, diagnosis."""

import math
import operator
import re

import pytest
import torch
from torch import fx
from torch.nn import functional as F

from passbench.calls import normal_arguments
from passbench.match import InvalidGraph, PatternError, rewrite_pass, trace_pattern

pytestmark = pytest.mark.torch

x, y, w, b = torch.randn(2, 4, 8), torch.randn(2, 4, 8), torch.randn(8), torch.randn(8)


@fx.wrap
def fused(*args):
    return F.layer_norm(args[0] + args[1], (8,), args[2], args[3], 1e-12)


@fx.wrap
def relu_twin(value):
    return torch.relu(value)


@fx.wrap
def sum_and_product(left, right):
    return left + right, left * right


def norm_pattern(a, c, weight, bias):
    total = a + c
    return F.layer_norm(total, (8,), weight, bias, 1e-12)


def identity_args(*args):
    return args


def apply(function, pattern, replacement, inputs, arguments=identity_args):
    gm = fx.symbolic_trace(function)
    found = rewrite_pass(gm, trace_pattern(pattern), arguments, replacement)
    torch.testing.assert_close(gm(*inputs), function(*inputs))
    return found, gm


def matched(pattern, function):
    return rewrite_pass(fx.symbolic_trace(function), trace_pattern(pattern), identity_args, relu_twin)


def targets(gm):
    return [node.target for node in gm.graph.nodes if node.op.startswith("call")]


def test_positional_and_keyword_arguments_and_defaults_are_one():
    def graph(a, c, weight, bias):
        return F.layer_norm(input=a + c, normalized_shape=(8,), bias=bias, weight=weight, eps=1e-12) * 2

    found, gm = apply(graph, norm_pattern, fused, (x, y, w, b))
    assert found.matches == 1 and targets(gm) == [fused, operator.mul]


@pytest.mark.parametrize(
    "one, two",
    [
        (lambda a: F.gelu(a), lambda a: torch._C._nn.gelu(a, approximate="none")),
        (lambda a: torch.softmax(a, -1), lambda a: torch.softmax(a, dim=-1)),
        (lambda a: F.dropout(a, 0.1, False, False), lambda a: F.dropout(a, p=0.1, training=False)),
        (lambda a: torch.add(a, a), lambda a: torch.add(a, a, alpha=1)),
        (lambda a: a.sum(-1), lambda a: a.sum(dim=-1, keepdim=False)),
        (lambda a: a.transpose(1, 2), lambda a: a.transpose(dim0=1, dim1=2)),
    ],
)
def test_one_call_spelt_two_ways_has_one_normal_form(one, two):
    forms = []
    for function in (one, two):
        node = next(n for n in fx.symbolic_trace(function).graph.nodes if n.op.startswith("call"))
        forms.append((node.target, {k: str(v) for k, v in normal_arguments(node).items()}))
    assert forms[0] == forms[1]


@pytest.mark.parametrize(
    "graph, words",
    [
        (lambda a, c, w, b: F.layer_norm(a + c, (8,), w, b, 1e-5), "the pattern has eps=1e-12, the graph 1e-05"),
        (
            lambda a, c, w, b: F.layer_norm(a * c, (8,), w, b, 1e-12),
            r"the pattern has operator.add where the graph has operator.mul \(mul\)",
        ),
        (lambda a, c, w, b: a + c, "returns a torch.nn.functional.layer_norm, the graph calls only operator.add"),
        (lambda a, c, w, b: (F.layer_norm(a + c, (8,), w, b, 1e-12), (a + c).relu())[0], None),
    ],
)
def test_diagnosis_says_what_was_expected_and_found(graph, words):
    found, _ = apply(graph, norm_pattern, fused, (x, y, w, b))
    if words is None:
        assert found.matches == 1
    else:
        assert found.matches == 0
        assert re.search(words, found.diagnosis), found.diagnosis


def test_a_value_read_outside_is_not_swallowed():
    def graph(a, c, weight, bias):
        total = a + c
        return F.layer_norm(total, (8,), weight, bias, 1e-12) + total

    found, _ = apply(graph, norm_pattern, fused, (x, y, w, b))
    assert found.matches == 0 and "also read by add_1, so the pattern must return it" in found.diagnosis


def test_several_outputs_and_a_user_between_them():
    def graph(a, c):
        total = a + c
        between = total.relu()
        product = a * c
        return between + product, total

    found, gm = apply(graph, lambda a, c: (a + c, a * c), sum_and_product, (x, y))
    assert found.matches == 1
    assert sum_and_product in targets(gm) and operator.mul not in targets(gm)


def test_outputs_that_feed_each_other_through_outside_nodes_are_not_convex():
    def graph(a, c):
        total = a + c
        return total.relu() * c

    found, _ = apply(graph, lambda a, c, d: (a + c, d * c), sum_and_product, (x, y))
    assert found.matches == 0


def test_back_to_back_matches_chain_and_overlapping_ones_are_taken_in_graph_order():
    def chain(a):
        return torch.relu(torch.relu(torch.relu(torch.relu(torch.relu(a)))))

    found, gm = apply(chain, lambda a: torch.relu(torch.relu(a)), relu_twin, (x,))
    assert found.matches == 2 and targets(gm) == [relu_twin, relu_twin, torch.relu]
    found, gm = apply(chain, lambda a: torch.relu(a), relu_twin, (x,))
    assert found.matches == 5 and targets(gm) == [relu_twin] * 5


def test_one_argument_stands_for_one_value():
    assert matched(lambda a: a * a, lambda a, c: a * a).matches == 1
    found = matched(lambda a: a * a, lambda a, c: a * c)
    assert found.matches == 0 and "stands for" in found.diagnosis


def test_two_arguments_may_stand_for_one_value_and_an_argument_for_a_literal():
    found, _ = apply(lambda a, c: a + a, lambda a, c: a + c, torch.add, (x, y))
    assert found.matches == 1
    found, gm = apply(lambda a: a * 0.5, lambda a, c: a * c, torch.mul, (x,))
    assert found.matches == 1 and list(gm.graph.nodes)[1].args[1] == 0.5


def test_in_place_operators_of_a_pattern_stay_in_place():
    def pattern(a, c):
        a += c
        return torch.relu(a)

    assert [n.target for n in trace_pattern(pattern).outputs[0].all_input_nodes] == [operator.iadd]


@pytest.mark.parametrize(
    "pattern, graph, matches",
    [
        (lambda a: torch.sum(a, 1, True), lambda a: torch.sum(a, 1, False), 0),
        (lambda a: torch.sum(a, 1, True), lambda a: torch.sum(a, 1, keepdim=True), 1),
        (lambda a: a * 1, lambda a: a * 1.0, 0),
        (lambda a: a * 1, lambda a: a * True, 0),
        (lambda a: a + 0.0, lambda a: a + -0.0, 0),
        (lambda a: a * math.nan, lambda a: a * math.nan, 1),
        (lambda a: a.view(2, 32), lambda a: a.view((2, 32)), 0),
        (lambda a, k: (a * k) + k, lambda a: (a * 1) + 1, 1),
        (lambda a, k: (a * k) + k, lambda a: (a * 1) + 1.0, 0),
        (lambda a, k: (a * k) + k, lambda a: (a * 1) + True, 0),
    ],
)
def test_literals_of_different_type_are_different(pattern, graph, matches):
    assert matched(pattern, graph).matches == matches


@fx.wrap
def join(parts):
    return torch.relu(torch.cat(parts))


def test_an_argument_may_stand_for_a_list_of_values_that_earlier_matches_made():
    def graph(a, c):
        first = torch.relu(torch.cat([a, c]))
        return torch.relu(torch.cat([first, c]))

    found, gm = apply(graph, lambda parts: torch.relu(torch.cat(parts)), join, (x, y))
    assert found.matches == 2 and targets(gm) == [join, join]


@fx.wrap
def scaled(left, right, factor):
    return torch.relu(left) * factor, torch.exp(right) * factor


def test_two_matches_that_would_feed_each_other_are_not_both_taken():
    def crossed(a, c):
        relu_1 = torch.relu(a) * 1
        exp_2 = torch.exp(c) * 2
        return torch.relu(relu_1) * 2, torch.exp(exp_2) * 1

    found, _ = apply(crossed, lambda a, c, k: (torch.relu(a) * k, torch.exp(c) * k), scaled, (x, y))
    assert found.matches == 1


def through_dynamo(function, pattern, replacement, *inputs):
    """The rewrite inside torch.compile, where storages are known, and its outputs beside those of eager."""
    found = []

    def backend(gm, example_inputs):
        found.append(rewrite_pass(gm, trace_pattern(pattern), identity_args, replacement))
        return gm.forward

    torch._dynamo.reset()
    done = torch.compile(function, backend=backend, fullgraph=True)(*[value.clone() for value in inputs])
    torch.testing.assert_close(done, function(*[value.clone() for value in inputs]))
    return found[0]


def write_between(a, c):
    total = a + c
    c.add_(1)
    return F.layer_norm(total, (8,), w, b, 1e-12)


def write_through_a_view(a, c):
    total = a + c
    c.view(-1)[0] = 5
    return F.layer_norm(total, (8,), w, b, 1e-12)


def write_elsewhere(a, c):
    total = a + c
    other = torch.exp(c)
    other.add_(1)
    return F.layer_norm(total, (8,), w, b, 1e-12) + other


@pytest.mark.parametrize("graph, matches", [(write_between, 0), (write_through_a_view, 0), (write_elsewhere, 1)])
def test_a_match_does_not_move_a_read_past_a_write_of_its_storage(graph, matches):
    found = through_dynamo(graph, norm_pattern, fused, x, y)
    assert found.matches == matches
    assert matches or "one writes in place what the other uses" in found.diagnosis


def test_a_reader_of_an_output_does_not_move_past_a_write_either():
    def graph(a, c):
        total = a + c
        reader = total * c
        c.mul_(2)
        return reader, a * 3

    pattern = trace_pattern(lambda a, c: (a + c, a * 3))
    found = through_dynamo(graph, lambda a, c: (a + c, a * 3), sum_and_triple, x, y)
    assert pattern.size == 2 and found.matches == 0


@fx.wrap
def sum_and_triple(left, right):
    return left + right, left * 3


def test_constants_can_be_appended_by_replacement_args_and_a_tuple_of_one_is_unpacked():
    def route(a, name):
        assert name == "relu"
        return (torch.relu(a),)

    apply(lambda a: torch.relu(a) + 1, lambda a: (torch.relu(a),), route, (x,), lambda a: (a, "relu"))
    apply(lambda a: torch.relu(a) + 1, lambda a: (torch.relu(a),), torch.relu, (x,))


@pytest.mark.parametrize("values, words", [(torch.relu, "one Tensor"), (lambda a: (a, a, a), "3 values")])
def test_a_replacement_that_returns_too_few_values_is_told_so(values, words):
    gm = fx.symbolic_trace(lambda a: torch.relu(a) + torch.exp(a))
    rewrite_pass(gm, trace_pattern(lambda a: (torch.relu(a), torch.exp(a))), identity_args, values)
    with pytest.raises(PatternError, match=f"returns 2 values, the replacement function {words}"):
        gm(x)


def test_method_calls_and_unmatched_in_place_calls_survive():
    def graph(a):
        copy = a.clone()
        copy.add_(1)
        return copy.relu().sum(-1)

    found, gm = apply(graph, lambda a: a.relu(), relu_twin, (x,))
    assert found.matches == 1 and "add_" in targets(gm)


@pytest.mark.parametrize(
    "pattern, words",
    [
        (lambda a, c: torch.relu(a), "'c' is never used"),
        (lambda a: a, "does not compute"),
        (lambda a: torch.where(a > 0, a, torch.tensor(1.0)), "made in the pattern"),
        (lambda a: (torch.relu(a), torch.exp(a))[0], "neither used nor returned"),
    ],
)
def test_useless_patterns_are_refused(pattern, words):
    with pytest.raises(PatternError, match=words):
        trace_pattern(pattern)


def test_search_is_bounded():
    def wide(a):
        values = [torch.relu(a + i) for i in range(60)]
        return torch.stack(values)

    def pattern(a, c, d, e):
        return torch.relu(a), torch.relu(c), torch.relu(d), torch.exp(e)

    assert matched(pattern, wide).matches == 0


@pytest.mark.parametrize("choose, words", [(lambda a: a.next, "taken away"), (lambda a: a.next.next, "is invalid")])
def test_a_replacement_that_reads_the_match_or_what_follows_from_it_leaves_no_graph(choose, words):
    gm = fx.symbolic_trace(lambda x: torch.exp(torch.relu(x)))
    with pytest.raises(InvalidGraph, match=words):
        rewrite_pass(gm, trace_pattern(lambda a: torch.relu(a)), lambda a: (choose(a),), relu_twin)
