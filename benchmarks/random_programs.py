"""Random small programs over real tensors: views, calls in place, hidden writes, draws, layouts.

    program = drawn(random.Random(7))            # statements over inputs, all of which run
    traced(program)                              # the graph that the lift path makes of it; None if it does not run

Reads and writes nothing. `benchmarks.program_edits` changes programs; `benchmarks.key_fidelity` compares them.
"""

import operator
import random
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.traced import Tracer
from schemas.graph import Graph

SPACES = {"torch": torch, "F": F, "operator": operator, "aten": torch.ops.aten}


@dataclass(frozen=True, slots=True)
class Ref:
    """The value of an input or a statement, by its number."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One call: a method (".add_") or a function ("torch.add")."""

    number: int
    target: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Inputs (number, kind), statements in order, and what is returned."""

    inputs: tuple[tuple[int, str], ...]
    statements: tuple[Statement, ...]
    outputs: tuple[Ref, ...]


# --- inputs ---------------------------------------------------------------------------------------------------------
KINDS = (
    "float",
    "float",
    "float",
    "turned",
    "sliced",
    "row",
    "int",
    "bool",
    "half",
    "double",
    "scalar",
    "image",
    "stat",
)


def example(kind: str, seed: int) -> torch.Tensor:
    """A tensor of a kind, of the layout of the kind: floats with zeros of both signs."""
    made = torch.Generator().manual_seed(seed)
    shape = {"row": (4,), "scalar": (), "image": (2, 4, 2, 2), "stat": (4,), "sliced": (4, 8)}.get(kind, (4, 4))
    if kind in ("int", "bool"):
        ints = torch.randint(0, 4, shape, generator=made)
        return ints if kind == "int" else ints > 1
    x, choice = torch.randn(shape, generator=made) * 2, torch.randint(0, 9, shape, generator=made)
    x = torch.where(choice == 0, torch.zeros(()), torch.where(choice == 1, -torch.zeros(()), x))
    x = x.abs() + 0.5 if kind == "stat" else x
    x = x[:, ::2] if kind == "sliced" else x.t() if kind == "turned" else x
    return x.to({"half": torch.bfloat16, "double": torch.float64}.get(kind, torch.float32))


# --- statements -----------------------------------------------------------------------------------------------------
GROUPS: dict[str, tuple[str, ...]] = {
    "t": tuple(
        (
            "torch.relu F.relu .relu torch.exp .exp torch.neg operator.neg .abs torch.sigmoid F.sigmoid F.gelu "
            "F.silu .floor torch.sign torch.square torch.logical_not .clone .contiguous .detach .t .flatten "
            ".float .double .bool .long torch.rand_like .bernoulli_ .normal_ .zero_ .neg_ .relu_ .t_ F.dropout "
            "torch.randn_like .sum .mean torch.amax torch.zeros_like torch.ones_like .exp_ .logical_not_ "
            "F.gumbel_softmax .squeeze_ .square_ .cauchy_ torch.poisson"
        ).split()
    ),
    "tt": tuple(
        (
            "torch.add operator.add .add aten.add.Tensor torch.mul operator.mul .mul torch.sub .sub operator.sub "
            "torch.div operator.truediv torch.floor_divide operator.floordiv torch.remainder operator.mod "
            "torch.fmod torch.maximum torch.minimum torch.pow torch.atan2 torch.eq operator.eq torch.ne torch.lt "
            "torch.logical_and torch.logical_or operator.and_ .add_ .mul_ .sub_ .copy_ operator.iadd "
            "operator.isub operator.imul .logical_and_ .gt_ .eq_ .div_ torch.matmul operator.matmul .type_as .to "
            ".expand_as .view_as torch.rsub .addcmul_ .maximum"
        ).split()
    ),
    "ts": tuple(
        (
            "operator.add operator.mul operator.sub operator.truediv operator.pow torch.add .add_ .mul_ .fill_ "
            ".gt_ .clamp_ torch.clamp F.leaky_relu operator.imul operator.iadd operator.itruediv torch.div "
            "torch.mul .div_ .pow_ F.elu F.hardtanh torch.full_like"
        ).split()
    ),
    "st": tuple(
        "operator.add operator.mul operator.sub operator.truediv operator.pow torch.div torch.sub torch.pow".split()
    ),
    "td": tuple(
        (
            "torch.softmax F.softmax .softmax .sum .mean torch.amax .amin torch.cumsum .cumsum_ .unsqueeze "
            "torch.flip torch.logsumexp .squeeze F.log_softmax .var torch.roll .unsqueeze_ .squeeze_"
        ).split()
    ),
    "tv": tuple(
        (
            ".view .reshape .expand .permute operator.getitem .as_strided .narrow .to .transpose .repeat "
            ".transpose_ .as_strided_ .swapaxes_"
        ).split()
    ),
    "set": tuple("operator.setitem".split()),
    "mask": tuple("torch.where .masked_fill .masked_fill_ torch.masked_fill".split()),
    "out": tuple("torch.add torch.mul torch.sub".split()),
    "state": tuple(
        "F.batch_norm F.instance_norm torch.batch_norm F.embedding F.embedding_bag torch.native_batch_norm "
        "aten.native_batch_norm.default torch.embedding_renorm_".split()
    ),
    "drawn": tuple(
        "torch.multinomial torch.randint_like torch.native_dropout F.scaled_dot_product_attention "
        "F.fractional_max_pool2d F.feature_alpha_dropout .geometric_ torch.normal".split()
    ),
    "place": tuple("F.normalize torch.tensordot torch.norm".split()),
    "flag": tuple("F.dropout F.relu F.silu F.alpha_dropout torch.dropout F.rrelu".split()),
    "scope": tuple("torch.set_grad_enabled".split()),
}
"""Arguments (t a tensor, s a number, d a dimension; others are made by hand) -> calls that take them."""
SCALARS = (0, 1, 2, True, 0.0, -0.0, 1.0, 2.0, 0.5, -1, 3, 3.3, 1e-3)
VIEWS: dict[str, tuple[tuple[Any, ...], ...]] = {
    ".view": ((-1,), (16,), (2, 8), ((2, 8),), (4, 4)),
    ".reshape": ((-1,), (2, 8), ((2, -1),), (4, 4)),
    ".expand": ((4, 4), (2, 4, 4), ((4, 4),)),
    ".permute": ((1, 0), ((1, 0),), (0, 1)),
    ".narrow": ((0, 0, 2), (1, 1, 2), (0, 1, 2)),
    "operator.getitem": (
        (0,),
        (1,),
        ((slice(None), slice(None, None, 2)),),
        (slice(1, None),),
        ((slice(None), slice(0, 1)),),
    ),
    ".as_strided": (((4,), (1,)), ((2, 2), (1, 2)), ((2, 2), (2, 1)), ((4,), (2,), 1)),
    ".transpose": ((0, 1), (1, 0), (0, 0)),
    ".to": ((torch.float64,), (torch.float32,), (torch.int64,), (torch.bfloat16,)),
    ".repeat": ((1, 2), ((2, 1),)),
    ".transpose_": ((0, 1), (1, 0)),
    ".as_strided_": (((4, 4), (1, 4)), ((2, 2), (1, 2)), ((4, 4), (4, 1))),
    ".swapaxes_": ((0, 1),),
}


def _function(target: str) -> Any:
    space, _, name = target.partition(".")
    found = SPACES[space]
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _statement(rng: random.Random, number: int, values: dict[int, Any]) -> Statement:
    """A statement over known values; it may not run."""
    tensors = list(values)
    group = rng.choices(list(GROUPS), weights=(8, 9, 6, 3, 4, 6, 2, 2, 2, 3, 2, 1, 3, 1))[0]
    target = rng.choice(GROUPS[group])

    def ref() -> Ref:
        return Ref(rng.choice(tensors[-6:] if rng.random() < 0.7 else tensors))

    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()
    if set(group) <= {"t", "s", "d"} and group != "set":
        args = tuple(
            ref() if letter == "t" else rng.choice(SCALARS) if letter == "s" else rng.choice((0, 1, -1))
            for letter in group
        )
    elif group == "tv":
        args = (ref(), *rng.choice(VIEWS[target]))
    elif group == "set":
        args = (ref(), rng.choice((0, 1, slice(0, 2), (slice(None), 0))), rng.choice((ref(), rng.choice(SCALARS))))
    elif group == "mask":
        masks = [k for k in tensors if values[k].dtype == torch.bool]
        mask = Ref(rng.choice(masks or tensors))
        args = (mask, ref(), ref()) if target == "torch.where" else (ref(), mask, rng.choice(SCALARS))
    elif group == "out":
        args, kwargs = (ref(), ref()), (("out", ref()),)
    elif group == "flag":
        flag = rng.random() < 0.5
        args = {"F.relu": (ref(), flag), "F.silu": (ref(), flag), "F.rrelu": (ref(), 0.1, 0.3, flag)}.get(
            target, (ref(), 0.5, flag)
        )
    elif group == "drawn":
        args, kwargs = _drawing(target, rng, ref)
    elif group == "place":
        given = {"F.normalize": (2.0, 1, 1e-12), "torch.norm": (2, 1, True), "torch.tensordot": (ref(), 1)}[target]
        args = (ref(), *given, rng.choice((None, ref())))
    elif group == "scope":
        args = (rng.random() < 0.5,)
    else:
        args = _stateful(target, rng, values, ref)
    return Statement(number=number, target=target, args=args, kwargs=kwargs)


def _stateful(target: str, rng: random.Random, values: dict[int, Any], ref: Any) -> tuple[Any, ...]:
    def like(*shape: int, dtype: torch.dtype = torch.float32) -> Ref:
        known = [k for k, v in values.items() if tuple(v.shape) == shape and v.dtype == dtype]
        return Ref(rng.choice(known)) if known else ref()

    if target == "F.embedding":
        return like(4, 4, dtype=torch.int64), like(4, 4), None, rng.choice((None, 0.5, 1.0))
    if target == "F.embedding_bag":
        return like(4, 4, dtype=torch.int64), like(4, 4), None, rng.choice((None, 0.5))
    if target == "torch.embedding_renorm_":
        return like(4, 4), like(4, 4, dtype=torch.int64), 0.5, 2.0
    image, mean, var = like(2, 4, 2, 2), like(4), like(4)
    flag = rng.random() < 0.6
    if target == "torch.batch_norm":
        return image, None, None, mean, var, flag, 0.1, 1e-5, False
    if "native_batch_norm" in target:
        return image, None, None, mean, var, flag, 0.1, 1e-5
    return image, mean, var, None, None, flag


def _drawing(target: str, rng: random.Random, ref: Any) -> tuple[tuple[Any, ...], tuple[tuple[str, Any], ...]]:
    """Arguments of a call that may draw."""
    value, flag = ref(), rng.random() < 0.6
    if target == "F.scaled_dot_product_attention":
        return (value, value, value, None, rng.choice((0.0, 0.3))), ()
    if target == "torch.multinomial":
        return (value, 2), ()
    if target == "F.fractional_max_pool2d":
        return (value, 1, (1, 1)), ()
    if target == "torch.normal":
        return (value, 1.0), ()
    return (value, 0.5, flag) if "dropout" in target else (value, 4 if "randint" in target else 0.5), ()


def drawn(rng: random.Random, most: int = 9) -> Program:
    """A program of up to `most` statements, each of which runs."""
    kinds = [rng.choice(KINDS) for _ in range(rng.randint(2, 4))]
    kinds += ["image", "stat", "stat"] if rng.random() < 0.15 else []
    inputs = tuple(enumerate(kinds))
    program = Program(inputs=inputs, statements=(), outputs=())
    for _ in range(rng.randint(2, most)):
        made = traced(replace(program, outputs=(Ref(0),)))
        assert made is not None
        for _ in range(12):
            known = {k: v for k, v in made.values.items() if isinstance(v, torch.Tensor)}
            statement = _statement(rng, len(inputs) + len(program.statements), known)
            longer = replace(program, statements=(*program.statements, statement))
            if traced(replace(longer, outputs=(Ref(0),))) is not None:
                program = longer
                break
    return replace(program, outputs=_outputs(rng, program))


def _outputs(rng: random.Random, program: Program) -> tuple[Ref, ...]:
    made = traced(replace(program, outputs=(Ref(0),)))
    assert made is not None
    known = [k for k, v in made.values.items() if isinstance(v, torch.Tensor)]
    return tuple(Ref(k) for k in rng.sample(known[-5:], k=min(len(known), rng.randint(1, 3))))


# --- tracing --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A program as a graph, with the module that was lifted and the values of the run."""

    graph: Graph
    module: torch.fx.GraphModule
    values: dict[int, Any]


def traced(program: Program, order: tuple[int, ...] = ()) -> Traced | None:
    """The graph of a program, with its inputs in an order; None if a statement does not run."""
    t = Tracer()
    nodes: dict[int, Any] = {}
    kinds = dict(program.inputs)
    for number in order or kinds:
        nodes[number] = t.input(example(kinds[number], number))
    torch.default_generator.manual_seed(0)
    enabled = torch.is_grad_enabled()
    try:
        for item in program.statements:
            args = torch.fx.node.map_aggregate(item.args, lambda a: nodes[a.number] if isinstance(a, Ref) else a)
            kwargs = {key: nodes[a.number] if isinstance(a, Ref) else a for key, a in item.kwargs}
            if item.target.startswith("."):
                nodes[item.number] = t.method(item.target[1:], *args, **kwargs)
            else:
                nodes[item.number] = t.call(_function(item.target), *args, **kwargs)
        module = t.module(*(nodes[ref.number] for ref in program.outputs))
        return Traced(graph=t.lifted(module), module=module, values={k: t.values[n] for k, n in nodes.items()})
    except (
        RuntimeError,
        TypeError,
        ValueError,
        IndexError,
        KeyError,
        AttributeError,
        NotImplementedError,
        SyntaxError,
    ):
        return None
    finally:
        torch.set_grad_enabled(enabled)
