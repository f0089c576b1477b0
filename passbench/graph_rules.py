"""What a pass of the whole-graph form may have made of a graph, and whether it has changed it at all.

    made = checked(text, before, wrapped)        # Graph; raises Rejected(rule) or PassFailed
    is_changed(before, made)                     # False for renamed variables, another order, dead calls

RULES is the policy on such graphs as a table. The graph is data: no module, hook or function of the submission comes
with it, and a call of a wrapped function is a name. Reads and writes nothing.
"""

import json
from collections.abc import Callable, Mapping

import torch

from passbench.calls import IN_PLACE
from passbench.failure import PassFailed, one_line
from passbench.rewriting import FOREIGN
from passbench.submission import Rejected
from schemas import values
from schemas.graph import CONSTANT, FUNCTION, METHOD, OUTPUT, PLACEHOLDER, SUBGRAPH, Graph, Node, check
from schemas.rows import Verdict

MAX_NODES = 20_000
_SPACES = ("torch.nn.functional.", "torch.special.", "torch.linalg.", "torch.fft.", "torch._C._nn.", "torch.ops.aten.",
           "operator.", "math.", "builtins.", "torch.Tensor.", "torch.")  # fmt: skip
_DENIED = frozenset("""
    set_grad_enabled is_grad_enabled from_file frombuffer is_inference_mode_enabled is_autocast_enabled
    compiled_with_cxx11_abi apply_ map_ map2_ register_hook backward numpy tolist share_memory_ set_ resize_ resize_as_
    record_stream pin_memory requires_grad_ retain_grad register_post_accumulate_grad_hook module_load storage
    untyped_storage data_ptr to_mkldnn seed manual_seed initial_seed set_rng_state get_rng_state rename rename_
    refine_names align_to align_as names
""".split())  # fmt: skip
"""Operators that reach beyond values: files, hooks, storages, modes of the process."""
_OPERATOR_METHODS = frozenset(name for name in dir(torch.Tensor) if name.startswith("__") and name.endswith("__")) - {
    "__class__", "__init__", "__new__", "__reduce__", "__reduce_ex__", "__setattr__", "__delattr__", "__getattribute__",
    "__subclasshook__", "__init_subclass__", "__dir__", "__format__", "__sizeof__", "__repr__", "__str__", "__hash__",
    "__setstate__", "__getstate__", "__deepcopy__", "__dlpack__", "__dlpack_device__", "__torch_function__",
    "__torch_dispatch__", "__array__", "__array_wrap__", "__cuda_array_interface__", "__setitem__", "__dict__",
    "__doc__", "__module__", "__weakref__", "__array_priority__", "__bool__", "__index__", "__iter__",
}  # fmt: skip


def foreign_name(key: str, name: str) -> str:
    """How a graph calls a wrapped function."""
    return f"{FOREIGN}{key}:{name}"


def is_operator(name: str) -> bool:
    """Whether a function's name is that of an operator of torch, or of arithmetic on sizes."""
    space = next((item for item in _SPACES if name.startswith(item)), None)
    inner = name.removeprefix(space or "").split(".")
    deep = 2 if space == "torch.ops.aten." else 1
    return space is not None and len(inner) <= deep and not inner[0].startswith("_") and inner[0] not in _DENIED


def is_method(name: str) -> bool:
    """Whether a method's name is that of an operator."""
    public = not name.startswith("_") and callable(getattr(torch.Tensor, name, None)) and name not in _DENIED
    return public or name in _OPERATOR_METHODS


# --- the rules ------------------------------------------------------------------------------------------------------
Predicate = Callable[["_Made", Node], bool]


class _Made:
    """A graph that a pass made, beside the one it was given."""

    def __init__(self, graph: Graph, before: Graph, wrapped: Mapping[str, object]) -> None:
        self.graph, self.wrapped = graph, wrapped
        self.targets = {(node.op, node.target) for node in before.nodes}
        self.constants = {node.attrs for node in before.nodes if node.op == CONSTANT}
        self.values = {text for node in before.nodes for text in _functions(node)}
        self.subgraphs = set(before.subgraphs)

    def calls_known(self, node: Node) -> bool:
        if node.op == FUNCTION:
            known = node.target in self.wrapped or is_operator(node.target)
        else:
            known = node.op != METHOD or is_method(node.target)
        return known or (node.op, node.target) in self.targets

    def takes_known(self, node: Node) -> bool:
        return all(name in self.values for name in _functions(node))

    def holds_known(self, node: Node) -> bool:
        if node.op == SUBGRAPH:
            return self.graph.subgraphs[values.loads(node.attrs)["graph"]] in self.subgraphs
        return node.op != CONSTANT or node.attrs in self.constants


def _functions(node: Node) -> list[str]:
    """Names of functions among the arguments of a call."""
    found = values.walk(list(values.loads(node.attrs).values()))
    return [item["target"] for item in found if values.tag_of(item) == "target"]


RULES: tuple[tuple[str, Predicate, str], ...] = (
    ("foreign-call", _Made.calls_known, "calls only operators of torch and functions marked with torch.fx.wrap"),
    ("foreign-call", _Made.takes_known, "passes no functions around but those that the graph has"),
    ("foreign-constant", _Made.holds_known, "holds no constants and no inner graphs but those that it was given"),
)
"""(rule, predicate over a node, what a graph does)."""


def checked(text: str, before: Graph, wrapped: Mapping[str, object]) -> Graph:
    """The graph of a text; `wrapped` are the names of functions that it may call.

    Raises PassFailed(GRAPH_INVALID) on what is no graph or takes other inputs, and Rejected on what is not allowed.
    """
    try:
        graph = Graph.from_json(text)
        if len(graph.nodes) > MAX_NODES:
            raise ValueError(f"more than {MAX_NODES} nodes")
        check(graph)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise PassFailed(Verdict.GRAPH_INVALID, f"graph_pass: {one_line(error)}") from error
    if _inputs(graph) != _inputs(before):
        raise PassFailed(Verdict.GRAPH_INVALID, "graph_pass: the graph takes other inputs than it was given")
    made = _Made(graph, before, wrapped)
    for rule, holds, sentence in RULES:
        for node in graph.nodes:
            if not holds(made, node):
                raise Rejected(rule, f"{node.name} ({node.target or node.op}): a graph of a pass {sentence}")
    return graph


def _inputs(graph: Graph) -> list[str]:
    return [node.name for node in graph.nodes if node.op == PLACEHOLDER]


# --- whether anything changed ---------------------------------------------------------------------------------------
def is_changed(before: Graph, after: Graph) -> bool:
    """Whether two graphs differ otherwise than in names, in the order of calls without effects, and in dead calls."""
    return _form(before) != _form(after)


def _form(graph: Graph) -> str:
    """What a graph does, without names: its live calls, numbered from the outputs and the writes on."""
    numbers: dict[int, int] = {}
    found: list[object] = []
    stack = [(index, False) for index in reversed(_roots(graph))]
    while stack:
        index, done = stack.pop()
        if index in numbers:
            continue
        node = graph.nodes[index]
        if not done:
            stack.append((index, True))
            stack.extend((source, False) for source in reversed(node.inputs))
            continue
        numbers[index] = len(found)
        name = node.name if node.op == PLACEHOLDER else ""
        found.append([node.op, name, node.target, node.attrs, [numbers[source] for source in node.inputs]])
    return json.dumps(found)


def _roots(graph: Graph) -> list[int]:
    """Calls that may write, or change a mode, in order, and the output."""
    return [
        index for index, node in enumerate(graph.nodes)
        if node.op == OUTPUT or (node.op in (FUNCTION, METHOD) and (_may_have_effects(node)))
    ]  # fmt: skip


_MODES = frozenset({"_enter_autocast", "_exit_autocast", "set_grad_enabled", "_set_grad_enabled"})
_WRITING = frozenset(f"operator.{name}" for name in (*IN_PLACE, "setitem", "delitem"))
_CHANCE = ("batch_norm", "instance_norm", "dropout", "rand", "bernoulli", "multinomial", "normal", "poisson")


def _may_have_effects(node: Node) -> bool:
    """Whether a call may write, change a mode or draw numbers; rather too often than too seldom."""
    name, kwargs = node.target.rpartition(".")[2], values.loads(node.attrs)["kwargs"]
    in_place = kwargs.get("inplace") is True or "out" in kwargs or (name.endswith("_") and not name.endswith("__"))
    return in_place or name in _MODES or node.target in _WRITING or any(part in name for part in _CHANCE)
