"""What passes do to a graph, as data: said by the process that runs them, done again by one that runs none of them.

    gm = prepared(text)                          # the captured graph, the same object in both processes
    step = encode_arguments(values, gm.graph)    # there: what `replacement_args` chose for one match
    replay(gm, step, functions)                  # here: the same matches, found again, replaced by our own calls

A pass of the usual form is its pattern as IR, its function's name and, for every match, the arguments it chose. A pass
of the whole-graph form is the graph that it made, as IR, in which a call of a wrapped function has a name of its own.
What a step may hold is checked by `passbench.graph_rules`; matches are found by our matcher, so a pattern replaces what
it matches and nothing else. Reads and writes nothing.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph as FxGraph
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from passbench.calls import is_barrier, written
from passbench.failure import PassFailed, one_line
from passbench.match import Pattern, pattern_of, rewrite_pass
from schemas import values
from schemas.fx import META_SPECS, NotRepresentable, decoded, encoded, example_input, lift, lower
from schemas.graph import Graph, check
from schemas.rows import Verdict

FOREIGN = "pass_dir:"
"""How names of a submission's functions begin in a graph."""
UNPACK = f"{FOREIGN}:unpack"
"""How a graph calls `passbench.match.unpack`."""
MAX_MATCHES = 10_000
MAX_TEXT = 2**20
"""Most characters of the arguments of one match, and of a pattern."""
Name = tuple[str, str]
"""(module, function)."""


class NotAnAccount(ValueError):
    """A step is none that our matcher would have made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one pass did to one graph."""

    key: str
    """Module of the pass."""
    pattern: str = ""
    """Its pattern as IR; empty for the whole-graph form, and where no graph could hold it."""
    function: Name = ("", "")
    """Its replacement function."""
    arguments: tuple[str, ...] = ()
    """For every match, in order, what `replacement_args` chose."""
    graph: str = ""
    """The graph that a pass of the whole-graph form made."""
    diagnosis: str = ""
    """Why nothing matched, if nothing did; a claim, for people."""

    @staticmethod
    def from_json(raw: Any, known: "Mapping[str, Pass]") -> "Step":
        """A step that an untrusted process sent, of a pass that is known; raises NotAnAccount."""
        texts = ("key", "graph", "diagnosis")
        if not isinstance(raw, dict) or not all(isinstance(raw.get(name), str) for name in texts):
            raise NotAnAccount("a step without key, graph or diagnosis")
        arguments = raw.get("arguments")
        if not isinstance(arguments, list) or len(arguments) > MAX_MATCHES or raw["key"] not in known:
            raise NotAnAccount("a step of no pass, or with no list of arguments")
        if not all(isinstance(item, str) and len(item) <= MAX_TEXT for item in arguments):
            raise NotAnAccount("arguments that are no texts of reasonable size")
        own = known[raw["key"]]
        return Step(key=raw["key"], pattern=own.pattern, function=own.function, arguments=tuple(arguments),
                    graph=raw["graph"], diagnosis=raw["diagnosis"][:300])  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What a pass says of itself before it has seen a graph."""

    key: str
    """Its module."""
    pattern: str = ""
    """Its pattern as IR; empty for the whole-graph form, and where no graph could hold it."""
    function: Name = ("", "")
    """Its replacement function; empty for the whole-graph form."""


@dataclass(slots=True, kw_only=True)
class Rewritten:
    """A graph after passes."""

    gm: GraphModule
    matches: int = 0
    """Places where a pass fired."""
    replaced: int = 0
    """Places where a pattern was replaced by a call."""
    diagnosis: list[str] = field(default_factory=list)
    """Why passes did not fire."""


# --- the captured graph ---------------------------------------------------------------------------------------------
def prepared(text: str, functions: Mapping[str, Callable[..., Any]] | None = None) -> GraphModule:
    """A captured graph as passes see it; where it writes in place, nodes know their storages.

    `functions` are those of the submission that it calls, by name.
    """
    graph = Graph.from_json(text)
    gm = lower(graph, foreign=functions)
    own = set((functions or {}).values())
    if any(written(node) or is_barrier(node) for node in gm.graph.nodes):
        if not any(node.target in own for node in gm.graph.nodes):
            _propagate(gm, graph)
    else:
        for node in gm.graph.nodes:
            specs = node.meta.get(META_SPECS, ())
            if len(specs) == 1 and not specs[0].dtype.startswith("Sym"):
                node.meta["val"] = torch.empty_strided(
                    specs[0].shape, specs[0].stride, dtype=getattr(torch, specs[0].dtype), device="meta"
                )
    return gm


class _Values(Interpreter):
    """Keeps the value of every node."""

    def run_node(self, n: Node) -> Any:
        found = n.meta["val"] = super().run_node(n)
        return found


def _propagate(gm: GraphModule, graph: Graph) -> None:
    """Give every node its fake value; where that fails, values that have none share storage with all others."""
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    specs = [graph.nodes[index].outputs[0] for index in graph.placeholders]
    try:
        with torch.no_grad(), mode:
            _Values(gm).run(*[example_input(spec, init) for spec, init in zip(specs, graph.inits, strict=True)])
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        for node in gm.graph.nodes:
            node.meta.pop("val", None)


# --- patterns and arguments as data ---------------------------------------------------------------------------------
def pattern_text(pattern: Pattern) -> str:
    """A pattern as IR; empty if the IR does not hold it, so that no graph can hold what it matches."""
    graph = pattern.outputs[0].graph
    for node in pattern.placeholders:
        node.meta.setdefault("val", torch.empty((), device="meta"))  # the IR wants a spec, a pattern has none
    try:
        return lift(GraphModule({}, graph)).to_json()
    except (NotRepresentable, ValueError, RuntimeError):
        return ""


def pattern_from(text: str) -> Pattern:
    """The pattern of a text; raises NotAnAccount."""
    try:
        graph = Graph.from_json(text)
        check(graph)
        return pattern_of(lower(graph).graph)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RuntimeError, RecursionError) as error:
        raise NotAnAccount(f"a pattern that is none: {one_line(error)}") from error


def encode_arguments(chosen: Sequence[Any], graph: FxGraph) -> str:
    """Arguments of a call, nodes by their place in the graph; raises PassFailed on what a graph does not hold."""
    places = {node: place for place, node in enumerate(graph.nodes)}
    try:
        return values.dumps([encoded(value, places.__getitem__) for value in chosen])
    except NotRepresentable as error:
        detail = f"replacement_args: {one_line(error)}"
        raise PassFailed(Verdict.COMPILE_ERROR, detail) from error
    except KeyError as error:
        raise PassFailed(Verdict.GRAPH_INVALID, "replacement_args: a node that is not in the graph") from error


def decode_arguments(text: str, graph: FxGraph) -> tuple[Any, ...]:
    """Inverse of `encode_arguments`; raises NotAnAccount."""
    try:
        return tuple(decoded(value, list(graph.nodes)) for value in json.loads(text))
    except (ValueError, KeyError, TypeError, IndexError, RecursionError, AttributeError) as error:
        raise NotAnAccount(f"arguments that are none: {one_line(error)}") from error


# --- doing it again -------------------------------------------------------------------------------------------------
def replay(rewritten: Rewritten, step: Step, function: Callable[..., Any]) -> None:
    """Replace every match of a step's pattern by a call with the arguments said; raises NotAnAccount if they do not
    belong to the matches that there are."""
    gm, given = rewritten.gm, iter(step.arguments)

    def arguments(*bound: Any) -> tuple[Any, ...]:
        text = next(given, None)
        if text is None:
            raise NotAnAccount(f"{step.key}.py: {len(step.arguments)} matches said, there are more")
        return decode_arguments(text, gm.graph)

    found = rewrite_pass(gm, pattern_from(step.pattern), arguments, function)
    if found.matches != len(step.arguments):
        raise NotAnAccount(f"{step.key}.py: {len(step.arguments)} matches said, {found.matches} found")
    rewritten.matches += found.matches
    rewritten.replaced += found.matches
