"""Named choices of what counts as absent: the same graph without calls that do nothing when a model only infers.

    normalised(graph, "inference")      # the graph without eval dropout, needless copies and casts, detach, logging

Is: the versioned table `CHOICES` of rules and `normalised`. Reads and writes nothing; no torch. Spellings of one op are
one under every choice (`schemas.roles`); a rule here removes or rewrites whole calls. A call that fits no rule stays.

| choice    | counts as absent                                                                               |
|-----------|------------------------------------------------------------------------------------------------|
| captured  | nothing                                                                                        |
| inference | dropout that is not training, contiguous of a dense tensor, a cast to the dtype and device that |
|           | a tensor has, detach, usage logging; in-place calls that nobody can tell from functional ones    |

Keys of `schemas.canonical` are those of the graph as captured; `Canonical` rows carry the inference key beside them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from schemas import values
from schemas.canonical import nested_form
from schemas.forms import tokens_of
from schemas.functional import functionalise
from schemas.graph import Graph, Node, TensorSpec
from schemas.prepared import prepare
from schemas.relabel import with_inputs
from schemas.roles import CAST_METHODS, short_name, spell
from schemas.values import Value

CHOICES_VERSION = "2"
"""Version of the rules below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When a call counts as absent: its first operand stands for it."""

    op: str
    """Canonical target."""
    holds: Callable[[Value, Node, TensorSpec], bool]
    """Predicate over (attributes in canonical spelling, the call, spec of its first operand)."""
    because: str
    """Why leaving it out is sound."""


def _is_dense(spec: TensorSpec) -> bool:
    expected = 1
    for size, stride in zip(reversed(spec.shape), reversed(spec.stride), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _is_eval(attrs: Value, node: Node, spec: TensorSpec) -> bool:
    args = attrs["args"]
    return len(args) > 2 and args[2] is False


def _is_plain(attrs: Value, node: Node, spec: TensorSpec) -> bool:
    return not attrs["kwargs"]


def _changes_nothing(attrs: Value, node: Node, spec: TensorSpec) -> bool:
    """A cast by dtype and device alone, to what its operand has."""
    named = {"dtype": {"dtype": spec.dtype}, "device": {"device": spec.device}}
    same = all(key in named and _kind(value) == named[key] for key, value in attrs["kwargs"].items())
    return same and len(attrs["args"]) == 1 and bool(attrs["kwargs"])


def _kind(value: Value) -> Value:
    return {"device": value["device"].partition(":")[0]} if values.tag_of(value) == "device" else value


_DROPOUTS = "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout"
RULES: tuple[Rule, ...] = (
    *(
        Rule(op=f"torch.nn.functional.{name}", holds=_is_eval, because="dropout returns its input outside training")
        for name in _DROPOUTS.split()
    ),
    Rule(
        op="torch.Tensor.contiguous",
        holds=lambda attrs, node, spec: _is_plain(attrs, node, spec) and _is_dense(spec),
        because="contiguous returns a dense tensor itself",
    ),
    Rule(op="torch.Tensor.to", holds=_changes_nothing, because="to returns a tensor that fits itself"),
    Rule(op="torch.Tensor.detach", holds=_is_plain, because="detach shares storage; only gradients see it"),
)
"""The rules of the choice `inference` that replace a call by its first operand."""

SILENT = frozenset({"_log_api_usage_once"})
"""Calls without a result and without an effect on values, dropped by the choice `inference`."""


def _as_captured(graph: Graph) -> Graph:
    return graph


def _inference(graph: Graph) -> Graph:
    return functionalise(_without_idle(graph, _live(graph)))


CHOICES: dict[str, Callable[[Graph], Graph]] = {"captured": _as_captured, "inference": _inference}
"""Name of a choice -> what makes a graph normal under it."""


def normalised(graph: Graph, choice: str) -> Graph:
    """The graph under a named choice; raises ValueError for an unknown name. Nested graphs stay as they are."""
    if choice not in CHOICES:
        raise ValueError(f"unknown normalisation {choice!r}: choose one of {', '.join(CHOICES)}")
    return CHOICES[choice](graph)


_BY_OP = {rule.op: rule for rule in RULES}


_NAMES = frozenset([*map(short_name, _BY_OP), *CAST_METHODS, "type"])
"""Names of all spellings of the ops that have a rule."""


def _is_idle(graph: Graph, node: Node) -> bool:
    if not node.is_call or len(node.outputs) != 1 or not node.inputs or short_name(node.target) not in _NAMES:
        return False
    source = graph.nodes[node.inputs[0]]
    if len(source.outputs) != 1 or source.outputs != node.outputs:
        return False
    target, attrs = spell(node.op, node.target, values.loads(node.attrs), tensor=True)
    rule = _BY_OP.get(target)
    return rule is not None and attrs["args"][:1] == [{"in": 0}] and rule.holds(attrs, node, source.outputs[0])


def _live(graph: Graph) -> set[int]:
    """Nodes that matter: what dead code reads must not decide whether a write can be seen."""
    tokens = tokens_of(graph, tuple(nested_form(text) for text in graph.subgraphs))
    return {*prepare(graph, tokens).live, *graph.placeholders}


def _without_idle(graph: Graph, live: set[int]) -> Graph:
    """The graph without dead and absent calls; what reads an absent call reads what that was given."""
    place: list[int] = []
    nodes: list[Node] = []
    for index, node in enumerate(graph.nodes):
        if _is_idle(graph, node):
            place.append(place[node.inputs[0]])
            continue
        if index not in live or (node.is_call and short_name(node.target) in SILENT):
            place.append(-1)
            continue
        place.append(len(nodes))
        inputs = tuple([place[k] for k in node.inputs])
        nodes.append(node if inputs == node.inputs else with_inputs(node, inputs))
    return replace(graph, nodes=tuple(nodes)) if len(nodes) < len(graph.nodes) else graph
