"""One-edit variants of random small programs, and other ways to write the same ones.

    edited(program, rng)                         # differs by one edit: it may compute something else
    rewritten(program, rng)                      # (a program that computes the same, the order of its inputs)

Reads and writes nothing; programs are those of `benchmarks.random_programs`.
"""

import random
from dataclasses import replace
from typing import Any

import torch

from benchmarks.random_programs import GROUPS, KINDS, SCALARS, Program, Ref, Statement, traced


def _refs(item: Any) -> list[Ref]:
    if isinstance(item, Ref):
        return [item]
    return [ref for part in item for ref in _refs(part)] if isinstance(item, tuple | list) else []


def reads(statement: Statement) -> list[int]:
    """Numbers of the values that a statement is given."""
    return [ref.number for ref in _refs(statement.args) + _refs(tuple(value for _, value in statement.kwargs))]


def edited(program: Program, rng: random.Random) -> Program:
    """One small edit, which may change nothing, everything, or make a program that does not run."""
    place = rng.randrange(len(program.statements))
    item = program.statements[place]
    known = [number for number, _ in program.inputs] + [s.number for s in program.statements[:place]]
    kind = rng.choice(
        ("move", "target", "operand", "constant", "swap", "wrap", "drop", "copy", "outputs", "place", "input", "insert")
    )
    if kind == "move":
        rest = [s for s in program.statements if s is not item]
        return replace(program, statements=(*rest[: (k := rng.randint(0, len(rest)))], item, *rest[k:]))
    if kind == "outputs":
        return replace(program, outputs=tuple(rng.sample(program.outputs, k=len(program.outputs))))
    if kind == "input":
        number, _ = rng.choice(program.inputs)
        return replace(program, inputs=tuple((n, rng.choice(KINDS) if n == number else k) for n, k in program.inputs))
    new = 1 + max(s.number for s in program.statements)
    if kind == "insert":
        target, args = rng.choice(
            (
                (".mul_", (2,)),
                (".add_", (1,)),
                (".exp", ()),
                ("torch.rand_like", ()),
                (".zero_", ()),
                (".t_", ()),
                (".unsqueeze_", (0,)),
            )
        )
        extra = Statement(number=new, target=target, args=(Ref(rng.choice(known)), *args))
        return _placed(program, place, extra, item)
    if kind == "drop":
        given = reads(item)
        return _replaced(_placed(program, place), item.number, given[0]) if given else program
    if kind == "copy":
        users = [s for s in program.statements if item.number in reads(s)]
        changed = _placed(program, place, item, replace(item, number=new))
        return _renumbered(changed, users[-1], item.number, new) if users else program
    if kind == "wrap" and reads(item):
        old = rng.choice(reads(item))
        target, args = rng.choice(
            (
                (".t", ()),
                (".contiguous", ()),
                (".clone", ()),
                (".detach", ()),
                (".double", ()),
                (".to", (torch.float32,)),
            )
        )
        extra = Statement(number=new, target=target, args=(Ref(old), *args))
        return _placed(program, place, extra, _with_ref(item, old, new))
    return _placed(program, place, _changed(item, kind, known, rng))


def _changed(item: Statement, kind: str, known: list[int], rng: random.Random) -> Statement:
    groups = [names for names in GROUPS.values() if item.target in names]
    if kind == "target" and groups:
        return replace(item, target=rng.choice(rng.choice(groups)))
    if kind == "place":
        name = item.target.rpartition(".")[2]
        return replace(item, target=f".{name[:-1] if name.endswith('_') else name + '_'}")
    if kind == "operand" and reads(item):
        return _with_ref(item, rng.choice(reads(item)), rng.choice(known))
    if kind == "swap" and len(item.args) > 1:
        return replace(item, args=(item.args[1], item.args[0], *item.args[2:]))
    if kind == "constant":
        plain = [k for k, a in enumerate(item.args) if isinstance(a, bool | int | float)]
        if plain:
            at = rng.choice(plain)
            value = not item.args[at] if isinstance(item.args[at], bool) and rng.random() < 0.7 else rng.choice(SCALARS)
            return replace(item, args=(*item.args[:at], value, *item.args[at + 1 :]))
    return item


def _with_ref(item: Statement, old: int, new: int) -> Statement:
    def change(value: Any) -> Any:
        if isinstance(value, Ref):
            return Ref(new) if value.number == old else value
        return tuple(map(change, value)) if isinstance(value, tuple) else value

    return replace(item, args=change(item.args), kwargs=tuple((k, change(v)) for k, v in item.kwargs))


def _placed(program: Program, place: int, *items: Statement) -> Program:
    """The program with other statements in the place of one."""
    return replace(program, statements=(*program.statements[:place], *items, *program.statements[place + 1 :]))


def _renumbered(program: Program, user: Statement, old: int, new: int) -> Program:
    changed = tuple(_with_ref(s, old, new) if s.number == user.number else s for s in program.statements)
    return replace(program, statements=changed)


def _replaced(program: Program, old: int, new: int) -> Program:
    """The program in which all that reads one value reads another."""
    outputs = tuple(Ref(new) if ref.number == old else ref for ref in program.outputs)
    return replace(program, statements=tuple(_with_ref(s, old, new) for s in program.statements), outputs=outputs)


# --- other ways to write a program ----------------------------------------------------------------------------------
SAME: tuple[tuple[str, ...], ...] = (
    ("torch.add", "operator.add", ".add", "aten.add.Tensor"), ("torch.mul", "operator.mul", ".mul", "torch.multiply"),
    ("torch.sub", "operator.sub", ".sub", "torch.subtract"), ("torch.relu", "F.relu", ".relu"),
    ("torch.exp", ".exp", "aten.exp.default"), ("torch.neg", "operator.neg", ".neg", "torch.negative"),
    ("torch.sigmoid", "F.sigmoid", ".sigmoid"), ("torch.floor_divide", "operator.floordiv"),
    ("torch.remainder", "operator.mod"), ("torch.eq", "operator.eq", ".eq"), ("torch.softmax", "F.softmax", ".softmax"),
    ("torch.matmul", "operator.matmul", ".matmul"), ("torch.clamp", "torch.clip", ".clamp"),
    ("torch.cumsum", ".cumsum"),
    ("torch.logical_and", ".logical_and"), ("torch.amax", ".amax"),
)  # fmt: skip
"""Spellings that torch documents as one function, for calls on tensors."""
COMMUTING = frozenset(
    {"torch.add", "torch.mul", "operator.add", "operator.mul", ".add", ".mul", "torch.eq", "torch.ne"}
)
_RESHAPING = frozenset({"t_", "transpose_", "swapaxes_", "as_strided_", "resize_", "squeeze_", "unsqueeze_"})
_WRITES = frozenset({"setitem", "iadd", "isub", "imul", "itruediv"})
_DRAWS = (
    "rand", "dropout", "rrelu", "gumbel", "bernoulli", "poisson", "multinomial", "fractional", "attention", "normal",
)  # fmt: skip


def is_pure(statement: Statement) -> bool:
    """Whether a statement only yields a value, by its name alone: in doubt it is not."""
    name = statement.target.rpartition(".")[2]
    acts = name.endswith("_") and name not in ("and_", "or_")
    acts = (
        acts
        or name in _WRITES
        or statement.target in GROUPS["state"] + GROUPS["place"]
        or any(word in name for word in _DRAWS)
        or bool(statement.kwargs)
    )
    return not acts and not (statement.target in GROUPS["flag"] and True in statement.args) and "set_grad" not in name


def rewritten(program: Program, rng: random.Random) -> tuple[Program, tuple[int, ...]]:
    """The same function: other spellings, exchanged operands of one layout, dead pure statements, another order."""
    made = traced(program)
    assert made is not None
    reshapes = any(
        s.kwargs or s.target.rpartition(".")[2] in _RESHAPING or s.target in GROUPS["place"] for s in program.statements
    )
    statements = [_respelled(s, made.values, rng, exchange=not reshapes) for s in program.statements]
    if all(map(is_pure, statements)):
        statements = _shuffled(statements, [n for n, _ in program.inputs], rng)
    if rng.random() < 0.5:
        numbers = [k for k, v in made.values.items() if isinstance(v, torch.Tensor) and v.dtype.is_floating_point]
        dead = [Statement(number=999, target="torch.exp", args=(Ref(rng.choice(numbers)),))] if numbers else []
        statements += dead
    order = rng.sample([n for n, _ in program.inputs], k=len(program.inputs))
    return replace(program, statements=tuple(statements)), tuple(order)


def _respelled(item: Statement, values: dict[int, Any], rng: random.Random, *, exchange: bool) -> Statement:
    """Another spelling; its operands exchanged if they may be, whose layouts are those of the end of the run."""
    operands = [values[ref.number] if isinstance(ref, Ref) else ref for ref in item.args]
    if item.kwargs or not isinstance(operands[0] if operands else None, torch.Tensor):
        return item
    if exchange and item.target in COMMUTING and len(operands) == 2 and isinstance(operands[1], torch.Tensor):
        a, b = operands
        alike = (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride()) and not a.is_complex()
        item = replace(item, args=item.args[::-1]) if alike and rng.random() < 0.5 else item
    groups = [group for group in SAME if item.target in group]
    plain = (
        len(operands) < 2
        or isinstance(operands[1], torch.Tensor)
        or item.target.rpartition(".")[2] in ("softmax", "cumsum", "amax", "clamp")
    )
    return replace(item, target=rng.choice(groups[0])) if groups and plain else item


def _shuffled(statements: list[Statement], known: list[int], rng: random.Random) -> list[Statement]:
    done, waiting, found = set(known), list(statements), list[Statement]()
    while waiting:
        ready = [s for s in waiting if set(reads(s)) <= done]
        found.append(rng.choice(ready))
        waiting.remove(found[-1])
        done.add(found[-1].number)
    return found
