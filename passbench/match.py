"""Matching a pattern in an FX graph and replacing it by a call; the only rewriter the harness has.

    pattern = trace_pattern(module.pattern)
    found = rewrite_pass(gm, pattern, module.replacement_args, function)
    found.matches, found.diagnosis               # how many places; why none, if none

Works on torch-level FX graphs. A pattern node matches a graph node if both have one op and target, and their arguments,
normalised to positional form where the callee has a Python signature or a known schema, are equal with pattern
arguments bound to graph nodes or literals: one argument, one value everywhere. A match is sound to replace if
  - no value inside it is read outside, unless the pattern returns it;
  - it is convex: nothing outside both reads a value of it and feeds it;
  - its nodes do not overlap an earlier match.
Matches are taken greedily in graph order, so a result depends on the graph and the pattern alone. Only matched nodes
are removed: dead code elsewhere stays, because FX takes some in-place calls for pure. Reads and writes nothing.
"""

import heapq
import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node, Proxy, Tracer
from torch.fx.operator_schemas import get_signature_for_torch_op

MAX_STEPS = 200_000
"""Node comparisons a pattern may cost on one graph."""
_IN_PLACE = ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor", "imatmul")


class PatternError(ValueError):
    """A pattern cannot be traced or used; one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A traced pattern."""

    placeholders: tuple[Node, ...]
    """Its arguments in calling order."""
    outputs: tuple[Node, ...]
    """The nodes it returns."""
    is_tuple: bool
    """Whether it returns a tuple or list rather than one value."""
    size: int
    """Number of its call nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """What one pass did to one graph."""

    matches: int
    """Places replaced."""
    diagnosis: str
    """If there was none: the best attempt, one line; else empty."""


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One partial assignment of pattern nodes to graph values, and the deepest failure seen while searching."""

    nodes: dict[Node, Any] = field(default_factory=dict)
    steps: int = 0
    best: int = -1
    why: str = "no node of the graph has the operator of the pattern's last node"

    def fail(self, why: str) -> bool:
        """Note a failure if it came later in the pattern than all before; always False."""
        depth = len(self.nodes)
        if depth > self.best:
            self.best, self.why = depth, why
        return False


# --- patterns -------------------------------------------------------------------------------------------------------
def _in_place(name: str) -> Callable[[Any, Any], Any]:
    function = getattr(operator, name)
    return lambda self, other: self.tracer.create_proxy("call_function", function, (self, other), {})


_PatternProxy = type("_PatternProxy", (Proxy,), {f"__{name}__": _in_place(name) for name in _IN_PLACE})


class _PatternTracer(Tracer):
    """FX's tracer, but `x += y` stays the in-place operator that Dynamo records."""

    def proxy(self, node: Node) -> Proxy:
        return _PatternProxy(node, self)  # type: ignore[no-any-return]


def trace_pattern(function: Callable[..., Any]) -> Pattern:
    """Trace a pattern function; raises PatternError if it returns nothing that it computes or ignores an argument."""
    graph = _PatternTracer().trace(function)
    placeholders = tuple(node for node in graph.nodes if node.op == "placeholder")
    unused = [node.name for node in placeholders if not node.users]
    if unused:
        raise PatternError(f"pattern: argument {unused[0]!r} is never used, so nothing can be bound to it")
    value = next(node for node in graph.nodes if node.op == "output").args[0]
    outputs = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not outputs or not all(isinstance(node, Node) and node.op.startswith("call_") for node in outputs):
        raise PatternError("pattern: returns something it does not compute; return the last value of the chain")
    if len(set(outputs)) < len(outputs):
        raise PatternError("pattern: returns one value twice")
    _check_live(graph, outputs)
    size = sum(node.op.startswith("call_") for node in graph.nodes)
    return Pattern(placeholders=placeholders, outputs=outputs, is_tuple=isinstance(value, list | tuple), size=size)


def _check_live(graph: Graph, outputs: Sequence[Node]) -> None:
    dead = [n for n in graph.nodes if n.op.startswith("call_") and not n.users and n not in outputs]
    if dead:
        raise PatternError(f"pattern: the value of {dead[0].name!r} is neither used nor returned")


# --- argument normal form -------------------------------------------------------------------------------------------
def normal_arguments(node: Node) -> dict[str, Any]:
    """Arguments by parameter name with defaults filled in where the callee's signature is known, else by position."""
    target = getattr(torch, str(node.target), None) if node.op == "call_method" else node.target
    for signature in _signatures(target) if callable(target) else ():
        try:
            bound = signature.bind(*node.args, **node.kwargs)
        except TypeError:
            continue
        bound.apply_defaults()
        return _flat_names(signature, bound.arguments)
    return {**{str(i): arg for i, arg in enumerate(node.args)}, **node.kwargs}


def _flat_names(signature: inspect.Signature, arguments: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            found.update({f"*{i}": item for i, item in enumerate(value)})
        elif kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        else:
            found[name] = value
    return found


def _signatures(target: Any) -> Iterator[inspect.Signature]:
    """Signatures a callee may have: its own if it is Python, else those of its torch schemas."""
    if inspect.isfunction(target):
        yield inspect.signature(target)
        return
    yield from get_signature_for_torch_op(target) or ()


# --- matching -------------------------------------------------------------------------------------------------------
def find_matches(graph: Graph, pattern: Pattern) -> tuple[list[dict[Node, Any]], str]:
    """All sound, non-overlapping matches in graph order, and the diagnosis of the best attempt if there is none."""
    taken: set[Node] = set()
    found: list[dict[Node, Any]] = []
    attempt = Attempt()
    for node in graph.nodes:
        if not node.op.startswith("call_"):
            continue
        for bound in _assignments(graph, pattern, node, attempt):
            if not _is_sound(pattern, bound, taken, attempt):
                continue
            found.append(bound)
            taken.update(_matched(bound))
            break
    return found, "" if found else f"no match: {attempt.why}"


def _assignments(graph: Graph, pattern: Pattern, anchor: Node, attempt: Attempt) -> Iterator[dict[Node, Any]]:
    """Assignments in which the pattern's first output is `anchor`; further outputs are searched in graph order."""

    def extend(rest: Sequence[Node]) -> Iterator[dict[Node, Any]]:
        if not rest:
            yield dict(attempt.nodes)
            return
        if rest[0] in attempt.nodes:
            yield from extend(rest[1:])
            return
        for node in graph.nodes:
            yield from attach(rest[0], node, rest[1:])

    def attach(wanted: Node, node: Node, rest: Sequence[Node]) -> Iterator[dict[Node, Any]]:
        before = dict(attempt.nodes)
        if _agrees(wanted, node, attempt):
            yield from extend(rest)
        attempt.nodes = before

    attempt.nodes = {}
    yield from attach(pattern.outputs[0], anchor, pattern.outputs[1:])


def _agrees(wanted: Any, value: Any, attempt: Attempt) -> bool:
    """Whether a pattern value can stand for a graph value; extends the assignment."""
    attempt.steps += 1
    if attempt.steps > MAX_STEPS:
        return attempt.fail(f"gave up after {MAX_STEPS} comparisons")
    if not isinstance(wanted, Node):
        return _literals_agree(wanted, value, attempt)
    if wanted in attempt.nodes:
        same = attempt.nodes[wanted] is value or (not isinstance(value, Node) and attempt.nodes[wanted] == value)
        return same or attempt.fail(f"{wanted.name} stands for {attempt.nodes[wanted]!r} and for {value!r}")
    if wanted.op == "placeholder":
        attempt.nodes[wanted] = value
        return True
    if not isinstance(value, Node) or value.op != wanted.op or not _same_target(wanted, value):
        return attempt.fail(f"{_describe(wanted)} expected, {_describe(value)} found")
    if value in attempt.nodes.values():
        return attempt.fail(f"{value.name} would stand for two steps of the pattern")
    left, right = normal_arguments(wanted), normal_arguments(value)
    if left.keys() != right.keys():
        return attempt.fail(f"{_describe(value)}: arguments {sorted(left)} expected, {sorted(right)} found")
    attempt.nodes[wanted] = value
    for name, expected in left.items():
        if not _agrees(expected, right[name], attempt):
            if not isinstance(expected, Node):
                attempt.fail(f"{_describe(value)}: {name}={expected!r} expected, {right[name]!r} found")
            return False
    return True


def _literals_agree(wanted: Any, value: Any, attempt: Attempt) -> bool:
    if isinstance(wanted, list | tuple) and isinstance(value, list | tuple):
        return len(wanted) == len(value) and all(_agrees(w, v, attempt) for w, v in zip(wanted, value, strict=True))
    if isinstance(wanted, dict) and isinstance(value, dict):
        return wanted.keys() == value.keys() and all(_agrees(wanted[key], value[key], attempt) for key in wanted)
    if isinstance(wanted, slice) and isinstance(value, slice):
        pairs = ((wanted.start, value.start), (wanted.stop, value.stop), (wanted.step, value.step))
        return all(_agrees(w, v, attempt) for w, v in pairs)
    if isinstance(value, Node) or isinstance(wanted, bool) != isinstance(value, bool):
        return False
    return bool(wanted == value)


def _same_target(wanted: Node, value: Node) -> bool:
    return wanted.target is value.target or wanted.target == value.target


def _describe(value: Any) -> str:
    if not isinstance(value, Node):
        return repr(value)
    name = value.target if isinstance(value.target, str) else getattr(value.target, "__name__", str(value.target))
    return f"{value.op} {name} ({value.name})"


def _matched(bound: Mapping[Node, Any]) -> list[Node]:
    return [value for wanted, value in bound.items() if wanted.op != "placeholder"]


def _is_sound(pattern: Pattern, bound: Mapping[Node, Any], taken: set[Node], attempt: Attempt) -> bool:
    inside = set(_matched(bound))
    attempt.nodes = dict(bound)
    if inside & taken:
        return attempt.fail("it overlaps an earlier match")
    outputs = {bound[node] for node in pattern.outputs}
    for node in inside - outputs:
        outside = sorted(user.name for user in node.users if user not in inside)
        if outside:
            return attempt.fail(f"{node.name} is also read by {outside[0]}, so the pattern must return it")
    if any(isinstance(bound.get(node), Node) and bound[node] in inside for node in pattern.placeholders):
        return attempt.fail("an argument of the pattern is a value inside the match")
    return not _reaches_back(inside) or attempt.fail("a value of the match feeds it through other nodes (not convex)")


def _reaches_back(inside: set[Node]) -> bool:
    stack = [user for node in inside for user in node.users if user not in inside]
    seen = set(stack)
    while stack:
        for user in stack.pop().users:
            if user in inside:
                return True
            if user not in seen:
                seen.add(user)
                stack.append(user)
    return False


# --- replacing ------------------------------------------------------------------------------------------------------
def unpack_single(value: Any) -> Any:
    """The value of a pattern that returns a tuple of one, whether or not its replacement returns a tuple too."""
    return value[0] if isinstance(value, list | tuple) else value


def rewrite_pass(
    gm: GraphModule, pattern: Pattern, arguments: Callable[..., Any], function: Callable[..., Any]
) -> Rewrite:
    """Replace every match in `gm` by a call of `function`; sound by the conditions above; keeps all other nodes."""
    found, diagnosis = find_matches(gm.graph, pattern)
    renamed: dict[Node, Node] = {}
    for bound in found:
        _replace(gm.graph, pattern, _resolve(bound, renamed), arguments, function, renamed)
    if found:
        _restore_order(gm.graph)
        gm.graph.lint()
        gm.recompile()
    return Rewrite(matches=len(found), diagnosis=diagnosis)


def _resolve(bound: Mapping[Node, Any], renamed: Mapping[Node, Node]) -> dict[Node, Any]:
    return {wanted: renamed.get(value, value) if isinstance(value, Node) else value for wanted, value in bound.items()}


def _replace(
    graph: Graph,
    pattern: Pattern,
    bound: Mapping[Node, Any],
    arguments: Callable[..., Any],
    function: Callable[..., Any],
    renamed: dict[Node, Node],
) -> None:
    inside = set(_matched(bound))
    order = [node for node in graph.nodes if node in inside]
    call_args = arguments(*[bound[node] for node in pattern.placeholders])
    if not isinstance(call_args, list | tuple):
        raise PatternError(f"replacement_args: a tuple is needed, it returned {type(call_args).__name__}")
    with graph.inserting_after(order[-1]):
        call = graph.call_function(function, tuple(call_args))
    last = call
    for position, wanted in enumerate(pattern.outputs):
        value = call
        if pattern.is_tuple:
            with graph.inserting_after(last):
                single = len(pattern.outputs) == 1
                value = last = graph.call_function(
                    unpack_single if single else operator.getitem, (call,) if single else (call, position)
                )
        value.meta.update(bound[wanted].meta)
        bound[wanted].replace_all_uses_with(value, delete_user_cb=lambda user: user not in inside)
        renamed[bound[wanted]] = value
    for node in reversed(order):
        graph.erase_node(node)


def _restore_order(graph: Graph) -> None:
    """Put producers before consumers again, moving as little as possible."""
    position = {node: index for index, node in enumerate(graph.nodes)}
    if all(position[source] < position[node] for node in graph.nodes for source in node.all_input_nodes):
        return
    waiting = {node: len(node.all_input_nodes) for node in graph.nodes}
    ready = [(index, node) for node, index in position.items() if not waiting[node]]
    heap = [(index, id(node), node) for index, node in ready]
    heapq.heapify(heap)
    order: list[Node] = []
    while heap:
        _, _, node = heapq.heappop(heap)
        order.append(node)
        for user in node.users:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(heap, (position[user], id(user), user))
    last = graph.output_node()
    for node in order:
        if node is not last:
            last.prepend(node)


def is_plain_tensor(value: Any) -> bool:
    """Whether a value is exactly a tensor: no subclass that could compute when it is looked at."""
    return type(value) in (torch.Tensor, torch.nn.Parameter)
