"""Matching a pattern in an FX graph and replacing it by a call; the only rewriter the harness has.

    pattern = trace_pattern(module.pattern)
    found = rewrite_pass(gm, pattern, module.replacement_args, function)
    found.matches, found.diagnosis               # how many places; why none, if none

Works on torch-level FX graphs. A pattern node matches a graph node if both have one op and target, and their arguments,
normalised to positional form where the callee has a Python signature or a known schema, are equal with pattern
arguments bound to graph nodes or literals: one argument, one value everywhere; 1, 1.0 and True are three values. A
match is sound to replace if
  - no value inside it is read outside, unless the pattern returns it;
  - it is convex: nothing outside both reads a value of it and feeds it;
  - no in-place write changes places with a call that touches the same storage when the match is done in one place;
  - its nodes do not overlap an earlier match.
Matches are replaced one by one in graph order, each found in the graph that the last one left, so a result depends on
the graph and the pattern alone. Only matched nodes are removed: dead code elsewhere stays, because FX takes some
in-place calls for pure. Reads and writes nothing.
"""

import heapq
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node, Proxy, Tracer

from passbench.calls import IN_PLACE, call_text, callee, nodes_in, normal_arguments, reordered

MAX_STEPS = 200_000
"""Node comparisons a pattern may cost on one graph."""


class PatternError(ValueError):
    """A pattern cannot be traced or used; one line."""


class InvalidGraph(ValueError):
    """A rewritten graph is none that can run; one line."""


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
    best: tuple[int, bool] = (-1, False)
    agreed: int = 0
    """Steps of the pattern that had found their place by then."""
    why: str = ""

    def fail(self, why: str, *, call: bool = False) -> bool:
        """Note a failure if it came later in the pattern than all before, or as late but at a call; always False."""
        depth = len(self.nodes), call
        if depth > self.best:
            self.best, self.why = depth, why
            self.agreed = sum(node.op.startswith("call_") for node in self.nodes)
        return False


# --- patterns -------------------------------------------------------------------------------------------------------
def _in_place(name: str) -> Callable[[Any, Any], Any]:
    function = getattr(operator, name)
    return lambda self, other: self.tracer.create_proxy("call_function", function, (self, other), {})


_PatternProxy = type("_PatternProxy", (Proxy,), {f"__{name}__": _in_place(name) for name in IN_PLACE})


class _PatternTracer(Tracer):
    """FX's tracer, but `x += y` stays the in-place operator that Dynamo records."""

    def proxy(self, node: Node) -> Proxy:
        return _PatternProxy(node, self)  # type: ignore[no-any-return]


def trace_pattern(function: Callable[..., Any]) -> Pattern:
    """Trace a pattern function; raises PatternError if it returns nothing that it computes or ignores an argument."""
    return pattern_of(_PatternTracer().trace(function))


def pattern_of(graph: Graph) -> Pattern:
    """A traced graph as a pattern; raises PatternError as `trace_pattern` does."""
    placeholders = tuple(node for node in graph.nodes if node.op == "placeholder")
    unused = [node.name for node in placeholders if not node.users]
    if unused:
        raise PatternError(f"pattern: argument {unused[0]!r} is never used, so nothing can be bound to it")
    foreign = next((node for node in graph.nodes if node.op in ("get_attr", "call_module")), None)
    if foreign is not None:
        raise PatternError(f"pattern: {foreign.name!r} is a tensor made in the pattern; make it an argument instead")
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


# --- matching -------------------------------------------------------------------------------------------------------
def _find(graph: Graph, pattern: Pattern, anchor: Node, taken: set[Node], attempt: Attempt) -> dict[Node, Any] | None:
    """The first sound match whose first output is `anchor`, without nodes of `taken`."""
    found = _assignments(graph, pattern, anchor, attempt)
    return next((bound for bound in found if _is_sound(graph, pattern, bound, taken, attempt)), None)


def _assignments(graph: Graph, pattern: Pattern, anchor: Node, attempt: Attempt) -> Iterator[dict[Node, Any]]:
    """Assignments in which the pattern's first output is `anchor`; further outputs are searched in graph order."""

    def extend(rest: Sequence[Node]) -> Iterator[dict[Node, Any]]:
        if not rest:
            yield dict(attempt.nodes)
            return
        if rest[0] in attempt.nodes:
            yield from extend(rest[1:])
            return
        alike = [node for node in graph.nodes if _same_callee(rest[0], node)]
        if not alike:
            attempt.fail(_lacking(graph, rest[0]))
        for node in alike:
            yield from attach(rest[0], node, rest[1:])

    def attach(wanted: Node, node: Node, rest: Sequence[Node]) -> Iterator[dict[Node, Any]]:
        before = dict(attempt.nodes)
        if _agrees(wanted, node, attempt):
            yield from extend(rest)
        attempt.nodes = before

    attempt.nodes = {}
    if _same_callee(pattern.outputs[0], anchor):
        yield from attach(pattern.outputs[0], anchor, pattern.outputs[1:])


def _agrees(wanted: Any, value: Any, attempt: Attempt) -> bool:
    """Whether a pattern value can stand for a graph value; extends the assignment."""
    attempt.steps += 1
    if attempt.steps > MAX_STEPS:
        return attempt.fail(f"gave up after {MAX_STEPS} comparisons")
    if not isinstance(wanted, Node):
        return _literals_agree(wanted, value, attempt)
    if wanted in attempt.nodes:
        return _equal(attempt.nodes[wanted], value) or attempt.fail(
            f"{wanted.name} stands for {attempt.nodes[wanted]!r} and for {value!r} (operand order counts)"
        )
    if wanted.op == "placeholder":
        attempt.nodes[wanted] = value
        return True
    if not isinstance(value, Node) or not _same_callee(wanted, value):
        is_call = isinstance(value, Node) and value.op.startswith("call_")
        return attempt.fail(f"the pattern has {callee(wanted)} where the graph has {_describe(value)}", call=is_call)
    if value in attempt.nodes.values():
        return attempt.fail(f"{value.name} would stand for two steps of the pattern")
    left, right = normal_arguments(wanted), normal_arguments(value)
    if left.keys() != right.keys():
        return attempt.fail(f"the pattern calls {call_text(wanted)}, the graph {call_text(value)}")
    attempt.nodes[wanted] = value
    for name, expected in left.items():
        if not _agrees(expected, right[name], attempt):
            if not isinstance(expected, Node):
                attempt.fail(f"{_describe(value)}: the pattern has {name}={expected!r}, the graph {right[name]!r}")
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
    return not isinstance(value, Node) and _equal(wanted, value)


def _equal(one: Any, two: Any) -> bool:
    """Whether two arguments of a graph are the same value of the same type; nan is nan, 0.0 is not -0.0."""
    if isinstance(one, Node) or isinstance(two, Node):
        return one is two
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(map(_equal, one, two))
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_equal(one[key], two[key]) for key in one)
    if isinstance(one, slice) and isinstance(two, slice):
        return _equal([one.start, one.stop, one.step], [two.start, two.stop, two.step])
    if type(one) is not type(two):
        return False
    return repr(one) == repr(two) if isinstance(one, float | complex) else bool(one == two)


def _same_callee(wanted: Node, value: Node) -> bool:
    return wanted.op == value.op and (wanted.target is value.target or wanted.target == value.target)


def _describe(value: Any) -> str:
    return f"{callee(value)} ({value.name})" if isinstance(value, Node) else repr(value)


def _lacking(graph: Graph, wanted: Node) -> str:
    """That a graph has no call like one of the pattern's, and which calls it has."""
    calls = list(dict.fromkeys(callee(node) for node in graph.nodes if node.op.startswith("call_")))
    more = ", ..." if len(calls) > 8 else ""
    return f"the pattern returns a {callee(wanted)}, the graph calls only {', '.join(calls[:8]) or 'nothing'}{more}"


def _matched(bound: Mapping[Node, Any]) -> list[Node]:
    return [value for wanted, value in bound.items() if wanted.op != "placeholder"]


def _is_sound(graph: Graph, pattern: Pattern, bound: Mapping[Node, Any], taken: set[Node], attempt: Attempt) -> bool:
    inside = set(_matched(bound))
    attempt.nodes = dict(bound)
    if inside & taken:
        return attempt.fail("it overlaps an earlier match")
    outputs = {bound[node] for node in pattern.outputs}
    for node in inside - outputs:
        outside = sorted(user.name for user in node.users if user not in inside)
        if outside:
            return attempt.fail(f"{node.name} is also read by {outside[0]}, so the pattern must return it")
    if any(value in inside for node in pattern.placeholders for value in nodes_in(bound[node])):
        return attempt.fail("an argument of the pattern is a value inside the match")
    if _reaches_back(inside):
        return attempt.fail("a value of the match feeds it through other nodes (not convex)")
    why = reordered(list(graph.nodes), inside)
    return not why or attempt.fail(why)


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
def unpack(value: Any, position: int, count: int) -> Any:
    """One of the values that a pattern returns; of a tuple of one, the replacement may return the value alone."""
    if not isinstance(value, list | tuple) and count == 1:
        return value
    if not isinstance(value, list | tuple) or len(value) != count:
        found = f"{len(value)} values" if isinstance(value, list | tuple) else f"one {type(value).__name__}"
        raise PatternError(f"the pattern returns {count} values, the replacement function {found}")
    return value[position]


def rewrite_pass(
    gm: GraphModule, pattern: Pattern, arguments: Callable[..., Any], function: Callable[..., Any]
) -> Rewrite:
    """Replace every match in `gm` by a call of `function`; sound by the conditions above; keeps all other nodes.

    Raises PatternError if `arguments` returns no tuple, InvalidGraph if it returns what the graph cannot read there.
    """
    attempt = Attempt(why=_lacking(gm.graph, pattern.outputs[0]))
    gone: set[Node] = set()
    made: set[Node] = set()
    matches = 0
    for anchor in list(gm.graph.nodes):
        if anchor in gone or not anchor.op.startswith("call_"):
            continue
        bound = _find(gm.graph, pattern, anchor, made, attempt)
        if bound is not None:
            gone.update(_matched(bound))
            made.update(_replace(gm.graph, pattern, bound, arguments, function))
            _restore_order(gm.graph)
            matches += 1
    if matches:
        check_graph(gm)
        gm.recompile()
    return Rewrite(matches=matches, diagnosis="" if matches else _diagnosis(attempt, pattern))


def check_graph(gm: GraphModule) -> None:
    """Raise InvalidGraph unless every node stands behind those that it reads and in their graph."""
    try:
        gm.graph.lint()
    except RuntimeError as error:
        raise InvalidGraph(f"the rewritten graph is invalid: {' '.join(str(error).split())}") from error


def _diagnosis(attempt: Attempt, pattern: Pattern) -> str:
    """The attempt that came farthest: how far, and what stopped it there."""
    return f"no match, at best {attempt.agreed} of {pattern.size} calls agree: {attempt.why}"


def _replace(
    graph: Graph,
    pattern: Pattern,
    bound: Mapping[Node, Any],
    arguments: Callable[..., Any],
    function: Callable[..., Any],
) -> list[Node]:
    """Replace one match; -> the new nodes."""
    inside = set(_matched(bound))
    order = [node for node in graph.nodes if node in inside]
    call_args = arguments(*[bound[node] for node in pattern.placeholders])
    if not isinstance(call_args, list | tuple):
        raise PatternError(f"replacement_args: a tuple is needed, it returned {type(call_args).__name__}")
    gone = next((node for node in nodes_in(list(call_args)) if node in inside), None)
    if gone is not None:
        raise InvalidGraph(f"replacement_args: {gone.name} is part of the match, which is taken away")
    with graph.inserting_after(order[-1]):
        call = graph.call_function(function, tuple(call_args))
    made = [call]
    for position, wanted in enumerate(pattern.outputs):
        if pattern.is_tuple:
            with graph.inserting_after(made[-1]):
                made.append(graph.call_function(unpack, (call, position, len(pattern.outputs))))
        made[-1].meta.update(bound[wanted].meta)
        bound[wanted].replace_all_uses_with(made[-1], delete_user_cb=lambda user: user not in inside)
    for node in reversed(order):
        graph.erase_node(node)
    return made


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
