"""Element by element on unusual inputs: wrong tails are seen in every dtype, honest rounding passes."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from passbench.inputs import bends_of, materialize
from passbench.moods import FAR_MOODS, MOODS, REGIONS, Source
from passbench.oracle import oracle_outputs
from passbench.pointwise import Doubtful, compare_each
from passbench.rounding import noisy_runs
from schemas.fx import lower
from schemas.rows import Verdict
from tests.passbench.cases import captured

pytestmark = pytest.mark.torch

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def graph_of(call, dtype, *shapes):
    class Wrapped(torch.nn.Module):
        def forward(self, *inputs):
            return call(*inputs)

    return captured(Wrapped(), *(torch.randn(shape).to(dtype) for shape in shapes))


def verdicts(graph, kernel, seeds=range(3), only=()):
    """What the comparison says of a kernel, by mood and seed; it computes in float32 and stores once."""
    module, (output, *_) = lower(graph), lower(graph)(*materialize(graph, seed=0))
    mixes = oracle_outputs(graph, materialize(graph, seed=0), 1).mixes
    found = {}
    for mood in FAR_MOODS if not mixes else MOODS:
        for seed in seeds if not only or mood.split()[-1] in only else ():
            inputs = materialize(graph, seed=seed, mood=mood)
            want = list(module(*inputs))
            got = [kernel(*(value.float() for value in inputs)).to(output.dtype)]
            exact = oracle_outputs(graph, inputs, 1).values
            noisy = noisy_runs(module, lambda seed=seed, mood=mood: materialize(graph, seed=seed, mood=mood), (), "cpu")
            told = compare_each(want, got, Doubtful(oracle=exact, noisy=noisy, mixes=mixes))
            found[mood, seed] = (told.verdict, told.detail)
    return found


def erf_gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def tanh_by_exp(x):
    e = torch.exp(-2 * x.abs())
    return torch.sign(x) * (1 - e) / (1 + e)


def two_pass_norm(x, w, b):
    mean = x.mean(-1, keepdim=True)
    centred = x - mean
    return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * w + b


def exp2_softmax(x):
    top = torch.exp2((x - x.amax(-1, keepdim=True)) * 1.4426950408889634)
    return top / top.flip(-1).cumsum(-1)[..., -1:]


def reversed_sum(x):
    return x.flip(-1).double().cumsum(-1)[..., -1].float()


HONEST = {
    "silu": (F.silu, lambda x: x / (1 + torch.exp(-x)), ((9, 70),)),
    "gelu": (F.gelu, erf_gelu, ((9, 70),)),
    "tanh": (torch.tanh, tanh_by_exp, ((9, 70),)),
    "norm": (lambda x, w, b: F.layer_norm(x, (64,), w, b), two_pass_norm, ((40, 64), (64,), (64,))),
    "softmax": (lambda x: torch.softmax(x, -1), exp2_softmax, ((40, 64),)),
    "sum": (lambda x: x.sum(-1), reversed_sum, ((40, 300),)),
    "mean": (lambda x: x.mean(-1), lambda x: reversed_sum(x) / x.shape[-1], ((40, 300),)),
    "product": (lambda x, y: x @ y, lambda x, y: (x.double() @ y.double()).float(), ((9, 40), (40, 30))),
    "cancels": (lambda x, y: (x + y) - x, lambda x, y: (x + y) - x, ((9, 70), (9, 70))),
    "chain": (lambda x, y: (x * 0.1 + y).exp().sqrt() - y, lambda x, y: (x * 0.1 + y).exp().sqrt() - y, ((9, 70),) * 2),
    "decay": (lambda x: torch.sqrt(1 - torch.exp(x)), lambda x: torch.sqrt(-torch.expm1(x)), ((9, 70),)),
    "inverse": (lambda x, y: x / y, lambda x, y: x / y, ((9, 70), (9, 70))),
    "square": (lambda x: x * x * 1e-3, lambda x: x * x * 1e-3, ((9, 70),)),
    "rounded": (lambda x: torch.floor(x * 3), lambda x: torch.floor(x * 3), ((9, 70),)),
    "rsqrt": (lambda x: torch.rsqrt(x * x + 1e-6) * x, lambda x: x / torch.sqrt(x * x + 1e-6), ((9, 70),)),
    "log": (lambda x: torch.log1p(torch.exp(x)), lambda x: torch.log1p(torch.exp(x)), ((9, 70),)),
    "variance": (lambda x: x.var(-1), lambda x: (x - x.mean(-1, keepdim=True)).square().sum(-1) / 299, ((40, 300),)),
    "logits": (lambda x: torch.log_softmax(x, -1), lambda x: x - torch.logsumexp(x, -1, keepdim=True), ((40, 64),)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", list(HONEST))
def test_an_honest_kernel_that_computes_in_another_way_passes_every_mood(name, dtype):
    call, kernel, shapes = HONEST[name]
    found = verdicts(graph_of(call, dtype, *shapes), kernel)
    assert {key: value for key, value in found.items() if value[0] is not Verdict.PASSED} == {}


def without_tail(kernel, where, value):
    return lambda x, *more: torch.where(where(x), value, kernel(x, *more))


DECAY = HONEST["decay"]
WRONG = {
    "silu below -6": (F.silu, without_tail(F.silu, lambda x: x < -6, 0.0), ((9, 70),)),
    "silu above 6": (F.silu, lambda x: torch.where(x > 6, 6.0, F.silu(x)), ((9, 70),)),
    "gelu below -3.5": (F.gelu, without_tail(F.gelu, lambda x: x < -3.2, 0.0), ((9, 70),)),
    "decay below -6": (DECAY[0], without_tail(DECAY[1], lambda x: x < -6, 0.0), ((9, 70),)),
    "decay above 0": (DECAY[0], lambda x: torch.sqrt(torch.clamp(1 - torch.exp(x), min=0)), ((9, 70),)),
    "sigmoid at 0": (torch.sigmoid, without_tail(torch.sigmoid, lambda x: x == 0, 0.0), ((9, 70),)),
    "exp without end": (torch.exp, lambda x: torch.exp(x.clamp(max=9)), ((9, 70),)),
    "log of zero": (torch.log, lambda x: torch.log(x.clamp(min=1e-30)), ((9, 70),)),
    "negative root": (torch.sqrt, lambda x: torch.sqrt(x.abs()), ((9, 70),)),
    "inverse of zero": (lambda x, y: x / y, lambda x, y: x / torch.where(y == 0, 1.0, y), ((9, 70), (9, 70))),
    "floor is trunc": (torch.floor, torch.trunc, ((9, 70),)),
    "softmax without maximum": (
        lambda x: torch.softmax(x, -1), lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True), ((40, 64),)),
    "a bend of its own": (
        lambda x: torch.where(x > 2.75, x, 0.0), lambda x: torch.where(x >= 2.75, x, 0.0), ((9, 70),)),
    "largest is first": (lambda x: x.amax(-1), lambda x: x[..., 0].clamp(min=1.0), ((40, 64),)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", list(WRONG))
def test_a_kernel_that_is_wrong_where_ordinary_values_do_not_come_is_seen(name, dtype):
    call, kernel, shapes = WRONG[name]
    found = verdicts(graph_of(call, dtype, *shapes), kernel, only=("mixed", "striped"))
    wrong = {seed for (_, seed), (verdict, _) in found.items() if verdict is not Verdict.PASSED}
    assert wrong == {0, 1, 2}  # whatever is drawn


def test_the_literals_of_a_graph_are_bends_and_the_regions_are_what_they_say():
    graph = graph_of(lambda x: torch.where(x > 2.7, x * 1e6, 0.0), torch.float16, (3, 5))
    assert 2.7 in bends_of(graph) and 1e6 not in bends_of(graph)
    for dtype in FLOATS:
        source = Source(generator=torch.Generator().manual_seed(1), dtype=dtype, bends=(2.7,), device="cpu")
        drawn = {name: draw(source, 4000).to(dtype) for name, draw in REGIONS.items()}
        assert all(bool(torch.isfinite(value).all()) and len(value) == 4000 for value in drawn.values())
        size = {name: value.double().abs() for name, value in drawn.items()}
        assert size["denormals"].max() <= torch.finfo(dtype).tiny and size["denormals"].max() > 0
        assert size["tails"].min() >= 3 and size["tails"].max() > 35
        far = REGIONS["magnitudes"](replace(source, far=True), 4000).abs()
        assert 2**18 < size["magnitudes"].max() / size["magnitudes"].min() < 2**22 < 2**25 < far.max() / far.min()
        assert bool(torch.isfinite(far.to(dtype)).all())
        assert (drawn["bends"] == torch.tensor(2.7, dtype=dtype)).any() and (drawn["bends"] == -6).any()
        assert len(drawn["one value"].unique()) == 1 and drawn["positive"].min() >= 0 >= drawn["negative"].max()


def test_a_striped_input_has_lines_of_one_kind_and_every_mood_keeps_form_and_sharing():
    graph = graph_of(lambda x: torch.relu(x), torch.float32, (64, 32))
    (value,) = materialize(graph, seed=5, mood="striped")
    lines = [value, value.t()]
    assert any(sum(len(line.unique()) == 1 for line in some) > 2 for some in lines)

    class Shared(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x)

    for given in (torch.randn(1, 7).expand(5, 7), torch.randn(6, 4).t(), torch.randn(3, 8)[:, ::2]):
        graph = captured(Shared(), given)
        for mood in MOODS:
            (value,) = materialize(graph, seed=2, mood=mood)
            assert value.shape == given.shape and value.stride() == given.stride()


def test_two_inputs_of_one_form_are_equal_here_and_there():
    graph = graph_of(lambda x, y: x + y, torch.float32, (64, 32), (64, 32))
    for mood in MOODS:
        x, y = materialize(graph, seed=5, mood=mood)
        share = float(((x == y) & (x != 0)).float().mean())
        assert (0.02 < share < 0.2) == (mood in ("mixed", "striped")), (mood, share)


def test_values_that_are_drawn_within_bounds_stay_there():
    graph = graph_of(lambda x: torch.relu(x), torch.float32, (40, 40))
    graph = replace(graph, inits=('{"kind":"uniform","low":-1.0,"high":2.0}',))
    for mood in MOODS:
        (value,) = materialize(graph, seed=2, mood=mood)
        assert value.min() >= -1 and value.max() < 2
    (value,) = materialize(graph, seed=2, mood="mixed")
    assert (value == -1).any() and (value > 1.9999).any()


def test_what_is_not_finite_is_compared_by_kind_and_place():
    nan, inf = math.nan, math.inf
    want = torch.tensor([1.0, nan, inf, -inf])
    known = Doubtful(oracle=[want.double()])
    assert compare_each([want], [want.clone()], known).passed
    for other in ([1.0, nan, inf, inf], [1.0, 0.0, inf, -inf], [nan, nan, inf, -inf], [1.0, inf, nan, -inf]):
        found = compare_each([want], [torch.tensor(other)], known)
        assert found.verdict is Verdict.NON_FINITE and "of 4 elements are wrong" in found.detail
    found = compare_each([want], [torch.tensor([2.0, nan, inf, -inf])], known)
    assert found.verdict is Verdict.WRONG_VALUE and "1 expected, 2 found" in found.detail


def test_a_kernel_that_does_not_overflow_where_eager_does_is_right_and_only_with_the_right_value():
    want, exact = torch.tensor([math.inf, math.nan], dtype=torch.float16), torch.tensor([1234.0, 5.0]).double()
    known = Doubtful(oracle=[exact])
    assert compare_each([want], [exact.half()], known).passed
    assert not compare_each([want], [torch.tensor([1300.0, 5.0]).half()], known).passed
    assert not compare_each([want], [exact.half()], Doubtful(oracle=[None])).passed


def test_whole_numbers_are_equal_to_eagers_or_to_those_of_a_run_that_rounds_otherwise():
    want = torch.tensor([1, 2, 3])
    off = torch.tensor([1, 2, 4])
    assert compare_each([want], [off], Doubtful(oracle=[None])).verdict is Verdict.WRONG_VALUE
    assert compare_each([want], [off], Doubtful(oracle=[None], noisy=[[want], [off]])).passed
    assert compare_each([want], [off.int()], Doubtful(oracle=[None])).verdict is Verdict.WRONG_DTYPE
    for dtype in (torch.uint16, torch.bool, torch.int8):
        assert compare_each([want.to(dtype)], [want.to(dtype)], Doubtful(oracle=[None])).passed


def test_noisy_runs_spread_where_a_result_hangs_on_rounding_and_nowhere_else():
    def module(x):
        return x - 1.0, (x * x + x) - (x * x), torch.relu(x), x.clone()

    x = torch.tensor([1e4, 1.0, -3.0])
    runs = noisy_runs(module, lambda: [x.clone()], (0,), "cpu")
    assert all(len(run) == 5 for run in runs)
    spread = [torch.stack([run[k] for run in runs]).double().std(0) for k in range(5)]
    assert spread[1][0] > 0.3 and spread[0].max() < 0.01 and all(float(spread[k].max()) == 0 for k in (2, 3, 4))


def test_in_place_steps_are_moved_where_they_write():
    def module(x):
        x.mul_(3.1)
        return (x + 0.0,)

    runs = noisy_runs(module, lambda: [torch.full((2000,), 1.7)], (0,), "cpu")
    written = torch.stack([run[1] for run in runs])
    assert len(written.unique()) > 2 and float(written.std(0).min()) > 0
    assert torch.equal(torch.stack([run[0] for run in runs]).round(decimals=5), written.round(decimals=5))
