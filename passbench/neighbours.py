"""Graphs beside the one that is graded: the same with other sizes, and ones that a pass must tell from it.

    resized(graph, rng)                          # Neighbour with every free size drawn anew, or None
    altered(graph, "clamp", rng)                 # Neighbour with one op or number changed, or None

A size is free if no parameter, buffer, constant or literal argument holds it. Alterations: "number" (one literal
argument has another value), and "clamp", "mask", "cast" (a limit, a masked fill, a detour over whole numbers between
two ops). Both are drawn after the submission is frozen. Pure; the caller draws the seed.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from schemas import sizes, values
from schemas.fx import META_SPECS, NotRepresentable, lift, lower
from schemas.graph import SCALAR_DTYPES, Graph
from schemas.propagation import respecify

INSERTIONS = ("clamp", "mask", "cast")
LARGEST = 2**22
"""Elements of the largest input of a neighbour."""
_REFUSED = (ValueError, RuntimeError, TypeError, IndexError, KeyError, NotImplementedError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A graph beside the one that is graded."""

    graph: Graph
    """The graph."""
    sentence: str
    """How it differs, for people: "with size 4 instead of 7"."""


# --- other sizes ----------------------------------------------------------------------------------------------------
def resized(graph: Graph, rng: random.Random) -> Neighbour | None:
    """The graph with all free sizes of its inputs drawn anew, all larger or all smaller, so that no number of elements
    stays by chance; None if it has none or does not run so."""
    free = free_sizes(graph)
    larger = rng.random() < 0.5
    for some in (free, *([size] for size in free)):
        found = _with_other(graph, {size: _another(size, rng, larger=larger or min(some) < 3) for size in some})
        if found is not None:
            return found
    return None


def _with_other(graph: Graph, chosen: dict[int, int]) -> Neighbour | None:
    old = {index: graph.nodes[index].outputs[0].shape for index in graph.placeholders}
    new = {index: [chosen.get(size, size) for size in shape] for index, shape in old.items()}
    if not chosen or max(map(math.prod, new.values())) > LARGEST:
        return None
    found = sizes.resized(graph, {index: shape for index, shape in new.items() if tuple(shape) != old[index]})
    sentence = ", ".join(f"size {other} instead of {size}" for size, other in chosen.items())
    return None if found is None else Neighbour(graph=found, sentence=sentence)


def free_sizes(graph: Graph) -> list[int]:
    """Sizes above 1 of inputs that nothing else in the graph holds, ascending."""
    fixed: set[int] = set()
    wanted: set[int] = set()
    for position, index in enumerate(graph.placeholders):
        node = graph.nodes[index]
        drawn = node.target == "input" and values.loads(graph.inits[position])["kind"] not in (
            "literal",
            "lines",
            "constant",
        )
        (wanted if drawn else fixed).update(node.outputs[0].shape)
    for node in graph.nodes:
        raw = values.loads(node.attrs)
        parts = [raw.get("args", []), list(raw.get("kwargs", {}).values()), raw.get("shape", [])]
        fixed.update(item for item in values.walk(parts) if type(item) is int)
    return sorted(size for size in wanted - fixed if size > 1)


def hidden_sizes(graph: Graph) -> list[str]:
    """Which other sizes a variant may be graded on as well, a sentence for every free size of its inputs."""
    sentences = []
    for size in free_sizes(graph):
        smaller = sorted(set(_others(size, larger=False))) if size > 2 else []
        some = ", ".join(map(str, [*smaller, *sorted(set(_others(size, larger=True)))]))
        sentences.append(f"size {size} may become one of {some}")
    return sentences


def _another(size: int, rng: random.Random, *, larger: bool) -> int:
    return rng.choice(_others(size, larger=larger))


def _others(size: int, *, larger: bool) -> tuple[int, ...]:
    return (size + 1, size + 3, 2 * size) if larger else (size - 1, size - size // 3)


# --- one op or number changed ---------------------------------------------------------------------------------------
def altered(graph: Graph, kind: str, rng: random.Random) -> Neighbour | None:
    """The graph with one thing changed, of kind "number" or one of INSERTIONS; None where that is not possible."""
    try:
        gm = lower(graph)
        sentence = _change_number(gm, rng) if kind == "number" else _insert(gm, kind, rng)
        if not sentence:
            return None
        gm.graph.lint()
        gm.recompile()
        found = lift(gm)
        specs = [graph.nodes[index].outputs[0] for index in graph.placeholders]
        found = replace(found, inits=graph.inits, nodes=tuple(_with_roles(found, graph)))
        return Neighbour(graph=respecify(found, specs), sentence=sentence)
    except (*_REFUSED, NotRepresentable):
        return None


def _with_roles(found: Graph, graph: Graph) -> list[Any]:
    roles = {index: graph.nodes[old].target for index, old in zip(found.placeholders, graph.placeholders, strict=True)}
    return [replace(node, target=roles.get(index, node.target)) for index, node in enumerate(found.nodes)]


def _change_number(gm: GraphModule, rng: random.Random) -> str:
    """Change one literal argument of a call, one with a fraction if there is any."""
    places = [
        (node, kind, key, value)
        for node in gm.graph.nodes
        if node.op in ("call_function", "call_method")
        for kind, items in (("args", enumerate(node.args)), ("kwargs", node.kwargs.items()))
        for key, value in items
        if type(value) in (int, float)
    ]
    fractions = [place for place in places if type(place[3]) is float]
    if not places:
        return ""
    node, kind, key, value = rng.choice(fractions or places)
    new = value * 2 + 0.25 if type(value) is float else 0 if value else 1
    if kind == "args":
        node.update_arg(key, new)
    else:
        node.update_kwarg(key, new)
    return f"{node.name} has {new!r} instead of {value!r}"


def _is_float(node: Node) -> bool:
    specs = node.meta.get(META_SPECS, ())
    if len(specs) != 1 or specs[0].dtype in SCALAR_DTYPES:
        return False
    return bool(getattr(torch, specs[0].dtype).is_floating_point)


def _insert(gm: GraphModule, kind: str, rng: random.Random) -> str:
    """Put one more op between a call and the calls that read its result."""
    calls = [node for node in gm.graph.nodes if node.op in ("call_function", "call_method") and _is_float(node)]
    inner = [node for node in calls if any(user.op.startswith("call_") for user in node.users)]
    if not inner:
        return ""
    node = rng.choice(inner)
    users = [user for user in node.users if user.op.startswith("call_")]
    with gm.graph.inserting_after(node):
        made = _INSERT[kind](gm, node)
    for user in users:
        user.replace_input_with(node, made[-1])
    return f"a {kind} after {node.name}"


def _chain(gm: GraphModule, node: Node, *steps: tuple[Callable[..., Any], Callable[[list[Node]], tuple[Any, ...]]]
           ) -> list[Node]:  # fmt: skip
    made = [node]
    for function, arguments in steps:
        with gm.graph.inserting_after(made[-1]):
            made.append(gm.graph.call_function(function, arguments(made)))
    return made


def _clamp(gm: GraphModule, node: Node) -> list[Node]:
    return _chain(gm, node, (torch.clamp, lambda made: (made[0], -0.25, 0.25)))


def _mask(gm: GraphModule, node: Node) -> list[Node]:
    return _chain(gm, node, (torch.gt, lambda made: (made[0], 0.25)),
                  (torch.masked_fill, lambda made: (made[0], made[1], 0.5)))  # fmt: skip


def _cast(gm: GraphModule, node: Node) -> list[Node]:
    dtype = getattr(torch, node.meta[META_SPECS][0].dtype)
    made = [node]
    for wanted in (torch.int32, dtype):
        with gm.graph.inserting_after(made[-1]):
            made.append(gm.graph.call_method("to", (made[-1], wanted)))
    return made


_INSERT: dict[str, Callable[[GraphModule, Node], list[Node]]] = {"clamp": _clamp, "mask": _mask, "cast": _cast}
