"""Effects are those of torch: the op table against its schemas, and both tables against real runs.

What a call did (what it wrote, whether it drew random numbers, whose memory its result is) must be within what identity
takes it to do, on torch's own sample inputs of every op and on cases of every reviewed function.
"""

import subprocess
import sys
import types
import unittest
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from benchmarks.golden import stored_graphs
from benchmarks.op_table import CALLED, called_in
from benchmarks.traced import Tracer, bits
from schemas import targets
from schemas.effects import REVIEWED, SCHEMA, UNKNOWN, decided_by
from schemas.forms import Token, tokens_of
from schemas.graph import Node
from schemas.ops import TABLE, op_names
from schemas.roles import spell

pytestmark = pytest.mark.torch
MACHINERY = ("torch._C._functorch", "torch._functorch.predispatch", "torch._functorch.vmap")


# --- the tables -----------------------------------------------------------------------------------------------------
def test_the_op_table_is_that_of_the_installed_torch():
    """Made in a process of its own: importing further parts of torch registers further ops."""
    made = subprocess.run([sys.executable, "-m", "benchmarks.op_table", "--print"], capture_output=True, check=True)
    our_torch, *ours = TABLE.read_text(encoding="ascii").splitlines()
    their_torch, *theirs = made.stdout.decode("ascii").splitlines()
    if our_torch != their_torch:
        common = {line.split("\t")[0] for line in ours} & {line.split("\t")[0] for line in theirs}
        ours, theirs = ([line for line in table if line.split("\t")[0] in common] for table in (ours, theirs))
    assert ours == theirs, "make it again: python -m benchmarks.op_table --write"
    assert len(op_names()) > 1500


def canonical(line: str) -> str:
    """The canonical target of a call, by its kind and target."""
    op, target = line.split()
    attrs = {"args": [{"in": 0}, {"in": 1}], "kwargs": {}}
    return spell(op, target, attrs, tensor=True)[0]


def test_every_call_of_the_golden_graphs_and_of_the_default_build_is_decided():
    called = CALLED.read_text(encoding="ascii").splitlines()
    decided = {line: decided_by(canonical(line)) for line in called}
    assert set().union(*(called_in(graph) for _, graph in stored_graphs())) <= set(called)
    assert [line for line, how in decided.items() if how == UNKNOWN] == []
    assert sum(how == SCHEMA for how in decided.values()) > 80 and REVIEWED in decided.values()


def test_what_a_graph_may_call_is_decided_but_for_machinery():
    """Of all functions of the allowed namespaces: types, decorators and parts of vmap are unknown, and no op is."""
    unknown = [name for name in targets._tables()[0] if decided_by(canonical(f"call_function {name}")) == UNKNOWN]
    of_torch = [name for name in unknown if not name.startswith(MACHINERY)]
    functions = [n for n in of_torch if isinstance(targets.resolve(n), types.FunctionType | types.BuiltinFunctionType)]
    assert set(functions) <= {
        "torch._from_blob", "torch._C._nn._parse_to", "torch.nn.functional._add_docstr", "torch.special._add_docstr",
        "torch.nn.functional._enum_list_as_int_list", "torch.nn.functional._jit_unused",
        "torch.nn.functional._overload", "torch.nn.functional._sym_int", "torch.nn.functional.boolean_dispatch",
        "torch.nn.functional._single", "torch.nn.functional._pair", "torch.nn.functional._triple",
        "torch.nn.functional.handle_torch_function", "torch.nn.functional.has_torch_function",
        "torch.nn.functional.has_torch_function_unary", "torch.nn.functional.has_torch_function_variadic",
        "torch.linalg._add_docstr", "torch.fft._add_docstr", "torch.Tensor.module_load", "torch.Tensor.cholesky",
        "torch.Tensor.eig", "torch.Tensor.lstsq", "torch.Tensor.qr", "torch.Tensor.register_hook", "torch.Tensor.solve",
        "torch.Tensor.register_post_accumulate_grad_hook", "torch.Tensor.reinforce", "torch.Tensor.storage",
        "torch.Tensor.storage_type", "torch.Tensor.symeig", "torch.Tensor.untyped_storage", "torch.Tensor.backward",
    }, functions  # fmt: skip


STRANGERS = ("torch.ops.own.op", "torch.Tensor.append", "torch._C._functorch._func_increment_nesting")


@pytest.mark.parametrize("target", STRANGERS)
def test_what_is_unknown_is_taken_to_write_all_and_to_draw(target: str):
    from schemas.effects import SCOPE, effect_of

    effect = effect_of(target, {"args": [{"in": 0}, [{"in": 1}]], "kwargs": {"k": {"in": 2}}})
    assert effect is not None and effect.writes == (0, 1, 2) and effect.is_random
    assert (effect.kind == SCOPE) == target.startswith("torch._C")


# --- real runs ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Run:
    """One call that ran: what it did, and what identity takes it to do."""

    target: str
    wrote: tuple[int, ...]
    shared: tuple[int, ...]
    drew: bool
    token: Token
    operands: tuple[int, ...]

    def check(self) -> None:
        effect = self.token.effect
        writes = {self.operands[k] for k in (effect.writes if effect else ())}
        shares = set(self.operands) if self.token.shares is None else {self.operands[k] for k in self.token.shares}
        assert set(self.wrote) <= writes, f"{self.target} wrote operand {self.wrote}"
        assert set(self.shared) <= shares | writes, f"{self.target} yields the memory of operand {self.shared}"
        assert not self.drew or (effect is not None and effect.is_random), f"{self.target} drew random numbers"


def observed(call: Any, *args: Any, **kwargs: Any) -> Run:
    """Run a function (or the method of a name) on tensors and compare."""
    t, given = Tracer(), list[torch.fx.Node]()

    def put(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        given.append(t.input(value))
        return given[-1]

    args, kwargs = pytree.tree_map(put, (args, kwargs))
    before = [(t.values[x].shape, bits(t.values[x])) for x in given]
    memory = [t.values[x].untyped_storage().data_ptr() for x in given]
    state = torch.default_generator.manual_seed(0).get_state()
    made = t.method(call, *args, **kwargs) if isinstance(call, str) else t.call(call, *args, **kwargs)
    tensors = [v for v in pytree.tree_leaves(t.values[made]) if isinstance(v, torch.Tensor) and v.numel()]
    yielded = {v.untyped_storage().data_ptr() for v in tensors}
    graph = t.graph(made)
    index = next(i for i, node in graph.calls())
    node: Node = graph.nodes[index]
    return Run(
        target=node.target, operands=node.inputs, token=tokens_of(graph, ())[index],
        wrote=tuple(k for k, x in enumerate(given) if (t.values[x].shape, bits(t.values[x])) != before[k]),
        shared=tuple(k for k, x in enumerate(given) if t.values[x].numel() and memory[k] in yielded),
        drew=not torch.equal(state, torch.default_generator.get_state()),
    )  # fmt: skip


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 3


IDS, TABLE_OF = torch.tensor([0, 2, 1]), numbers(4, 5)
IMAGE, STATS = numbers(2, 3, 8, 8), (torch.zeros(3), torch.ones(3))
HEADS = numbers(1, 2, 4, 8)
_LSTM = torch.nn.LSTM(3, 4, num_layers=2)
_WEIGHTS = [p.detach() for p in _LSTM._flat_weights]
_START = torch.zeros(2, 2, 4)
_ATTENTION = (
    numbers(4, 2, 8),
    numbers(4, 2, 8),
    numbers(4, 2, 8),
    8,
    2,
    numbers(24, 8),
    numbers(24),
    None,
    None,
    False,
)
_OUT = (numbers(8, 8), numbers(8))
_OBSERVED = [torch.zeros(1), torch.zeros(1), torch.ones(1), torch.zeros(1, dtype=torch.int32)]


def _mha(dropout: float, training: bool) -> tuple[Any, ...]:
    return F.multi_head_attention_forward, *_ATTENTION, dropout, *_OUT, training


def _rnn(function: Any, dropout: float, train: bool, states: int = 1) -> tuple[Any, ...]:
    gates = {"lstm": 4, "gru": 3}.get(function.__name__, 1) * 4
    weights = [numbers(gates, 3 if k == 0 else 4) if k % 4 < 2 else numbers(gates) for k in range(8)]
    weights[1], weights[5], weights[4] = numbers(gates, 4), numbers(gates, 4), numbers(gates, 4)
    hidden = [_START] * states if states > 1 else _START
    return function, numbers(5, 2, 3), hidden, weights, True, 2, dropout, train, False, False


CASES: list[tuple[tuple[int, ...], bool, tuple[Any, ...]]] = [
    ((1,), False, (F.embedding, IDS, TABLE_OF, None, 1.0)),
    ((), False, (F.embedding, IDS, TABLE_OF)),
    ((1,), False, (F.embedding_bag, IDS[None], TABLE_OF, None, 1.0)),
    ((), False, (F.embedding_bag, IDS[None], TABLE_OF)),
    ((1, 2), False, (F.batch_norm, IMAGE, *STATS, None, None, True)),
    ((), False, (F.batch_norm, IMAGE, *STATS)),
    ((1, 2), False, (torch.batch_norm, IMAGE, None, None, *STATS, True, 0.1, 1e-5, False)),
    ((), False, (torch.batch_norm, IMAGE, None, None, *STATS, False, 0.1, 1e-5, False)),
    ((1, 2), False, (torch.native_batch_norm, IMAGE, None, None, *STATS, True, 0.1, 1e-5)),
    ((1, 2), False, (torch.ops.aten.native_batch_norm.default, IMAGE, None, None, *STATS, True, 0.1, 1e-5)),
    ((1, 2), False, (torch._native_batch_norm_legit, IMAGE, None, None, *STATS, True, 0.1, 1e-5)),
    ((1, 2), False, (torch.ops.aten._batch_norm_with_update.default, IMAGE, None, None, *STATS, 0.1, 1e-5)),
    ((1, 2), False, (F.instance_norm, IMAGE, *STATS)),
    ((), False, (F.instance_norm, IMAGE)),
    ((1, 2), False, (torch.instance_norm, IMAGE, None, None, *STATS, True, 0.1, 1e-5, False)),
    ((1, 2), False, (torch.batch_norm_update_stats, IMAGE, *STATS, 0.1)),
    (
        (3, 4, 5),
        False,
        (
            torch.fused_moving_avg_obs_fake_quant,
            IMAGE,
            torch.ones(1, dtype=torch.int64),
            torch.ones(1, dtype=torch.int64),
            *_OBSERVED,
            0.1,
            0,
            255,
            -1,
            False,
            False,
        ),
    ),
    ((0,), False, (torch.relu_, IMAGE)),
    ((0,), False, (F.elu_, IMAGE)),
    ((0,), False, ("index_fill_", IMAGE, 0, IDS[:1], 2.0)),
    ((0, 1), False, (torch._foreach_mul_, [numbers(3), numbers(4)], 2.0)),
    ((0,), False, ("copy_", numbers(3), torch.ones(3))),
    ((), True, (F.dropout, IMAGE)),
    ((0,), True, (F.dropout, IMAGE, 0.5, True, True)),
    ((), False, (F.dropout, IMAGE, 0.5, False)),
    ((), True, (F.dropout2d, IMAGE)),
    ((), False, (F.dropout2d, IMAGE, 0.5, False)),
    ((), True, (F.dropout3d, IMAGE)),
    ((), False, (F.alpha_dropout, IMAGE)),
    ((), True, (F.alpha_dropout, IMAGE, 0.5, True)),
    ((), True, (F.feature_alpha_dropout, IMAGE, 0.5, True)),
    ((), True, (F.dropout1d, numbers(2, 3, 4))),
    ((), True, (torch.dropout, IMAGE, 0.5, True)),
    ((), False, (torch.dropout, IMAGE, 0.5, False)),
    ((), True, (torch.feature_dropout, IMAGE, 0.5, True)),
    ((), True, (torch.alpha_dropout, IMAGE, 0.5, True)),
    ((), True, (torch.native_dropout, IMAGE, 0.5, True)),
    ((), True, (torch.native_dropout, IMAGE, 0.5, None)),
    ((), False, (torch.native_dropout, IMAGE, 0.5, False)),
    ((0,), True, (torch.dropout_, IMAGE, 0.5, True)),
    ((), True, (F.rrelu, IMAGE, 0.1, 0.3, True)),
    ((), False, (F.rrelu, IMAGE)),
    ((), False, (torch.rrelu, IMAGE)),
    ((), True, (torch.rrelu, IMAGE, 0.1, 0.3, True)),
    ((0,), True, (torch.rrelu_, IMAGE, 0.1, 0.3, True)),
    ((1,), True, (torch._C._nn.rrelu_with_noise, IMAGE, torch.zeros_like(IMAGE), 0.1, 0.3, True)),
    ((), True, (F.scaled_dot_product_attention, HEADS, HEADS, HEADS, None, 0.5)),
    ((), False, (F.scaled_dot_product_attention, HEADS, HEADS, HEADS)),
    ((), True, _mha(0.5, True)),
    ((), False, _mha(0.5, False)),
    ((), False, _mha(0.0, True)),
    ((), True, (F.gumbel_softmax, IMAGE)),
    ((), True, (F.fractional_max_pool2d, IMAGE, 2, (4, 4))),
    ((), False, (F.fractional_max_pool2d_with_indices, IMAGE, 2, (4, 4), None, True, torch.rand(2, 3, 2))),
    ((), True, (F.fractional_max_pool3d, IMAGE[:, :, None].repeat(1, 1, 8, 1, 1), 2, (4, 4, 4))),
    ((), True, _rnn(torch.lstm, 0.5, True, 2)),
    ((), False, _rnn(torch.lstm, 0.5, False, 2)),
    ((), False, _rnn(torch.lstm, 0.0, True, 2)),
    ((), True, _rnn(torch.gru, 0.5, True)),
    ((), False, _rnn(torch.gru, 0.0, True)),
    ((), True, _rnn(torch.rnn_tanh, 0.5, True)),
    ((), False, _rnn(torch.rnn_relu, 0.5, False)),
    ((0,), True, ("random_", IMAGE)),
    ((0,), True, ("normal_", IMAGE)),
    ((0,), True, ("bernoulli_", IMAGE)),
    ((0,), True, ("exponential_", IMAGE)),
    ((), True, ("bernoulli", IMAGE.sigmoid())),
    ((), True, (torch.rand_like, IMAGE)),
    ((), True, (torch.multinomial, IMAGE[0, 0].abs(), 2)),
    ((), True, (torch.randint_like, IMAGE, 5)),
    ((), True, (torch.poisson, IMAGE.abs())),
    ((), True, (torch.normal, IMAGE, 1.0)),
    ((), True, (torch.ops.aten.bernoulli.p, IMAGE, 0.5)),
]


NAMES = [f"{k}-{getattr(case[0], '__name__', case[0])}" for k, (_, _, case) in enumerate(CASES)]


@pytest.mark.parametrize(("wrote", "drew", "case"), CASES, ids=NAMES)
def test_reviewed_functions_do_what_the_tables_say(wrote: tuple[int, ...], drew: bool, case: tuple[Any, ...]):
    found = observed(case[0], *case[1:])
    found.check()
    effect = found.token.effect
    assert found.drew == drew and (effect is not None and effect.is_random) == drew
    assert set(wrote) <= {found.operands[k] for k in (effect.writes if effect else ())}
    assert bool(wrote) == bool(effect is not None and effect.writes)


def test_an_output_that_is_given_is_written():
    found = observed(torch.add, numbers(3), 1, out=torch.zeros(3))
    assert found.wrote == (1,) and found.token.effect is not None and found.token.effect.writes == (1,)


# --- torch's own sample inputs --------------------------------------------------------------------------------------
def op_infos() -> list[Any]:
    """The ops of torch's own tests; their module imports a test helper of which samples use nothing."""
    helper = types.ModuleType("expecttest")
    helper.TestCase = unittest.TestCase  # type: ignore[attr-defined]
    sys.modules.setdefault("expecttest", helper)
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def calls_of(info: Any) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    """Up to two calls of an op: as function, method and in place."""
    if not info.dtypes:
        return
    dtype = torch.float32 if torch.float32 in info.dtypes else sorted(info.dtypes, key=str)[0]
    variants = [
        info.op,
        getattr(info.method_variant, "__name__", None),
        getattr(info.inplace_variant, "__name__", None),
    ]
    for count, sample in enumerate(info.sample_inputs("cpu", dtype)):
        if count == 2:
            return
        for call in variants:
            if call is not None and (isinstance(call, str) or _is_target(call)):
                yield call, (sample.input, *sample.args), sample.kwargs


def _is_target(call: Any) -> bool:
    try:
        return bool(targets.name_of(call))
    except ValueError:
        return False


def test_no_op_does_more_than_the_tables_say_on_the_samples_of_torch():
    ran, wrong = set[str](), dict[str, str]()
    for info in op_infos():
        for call, args, kwargs in calls_of(info):
            leaves = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
            if any(x.layout is not torch.strided for x in leaves):
                continue
            try:
                found = observed(call, *args, **kwargs)
            except (RuntimeError, TypeError, ValueError, IndexError, SyntaxError, NotImplementedError, AttributeError):
                continue
            ran.add(found.target)
            try:
                found.check()
            except AssertionError as error:
                wrong[found.target] = str(error)
    assert not wrong
    assert len(ran) > 700
