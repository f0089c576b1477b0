"""What one call of an FX graph says and does: its arguments in normal form, what it writes, whose storage it touches.

    normal_arguments(node)                       # {"input": x, "dim": -1, "keepdim": False}
    reordered(nodes, inside)                     # why `inside` cannot be done in one place, or ""

Storage is known from the fake tensors that Dynamo leaves in `node.meta`; where there is none, two values are taken to
share theirs. A function that torch does not know is taken to write nothing. Reads and writes nothing.
"""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.fx import Node
from torch.fx.operator_schemas import get_signature_for_torch_op

from schemas.targets import name_of

IN_PLACE = ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor", "imatmul")
"""In-place operators of Python."""
_WRITERS = frozenset({*IN_PLACE, "setitem", "delitem", *(f"__{name}__" for name in (*IN_PLACE, "setitem"))})
_BARRIERS = frozenset({"_enter_autocast", "_exit_autocast"})
"""Calls that change what every call after them means."""
_RUNNING = {"batch_norm": "training", "instance_norm": "use_input_stats"}
"""Calls that update running statistics, and the argument that says so."""


# --- arguments ------------------------------------------------------------------------------------------------------
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
        choice = torch._jit_internal.boolean_dispatched.get(target)
        yield inspect.signature(choice["if_false"] if choice else target)
        return
    yield from get_signature_for_torch_op(target) or ()


def nodes_in(value: Any) -> list[Node]:
    """The nodes in an argument, however deep in lists, tuples, dicts and slices."""
    found: list[Node] = []
    torch.fx.node.map_arg(value, found.append)
    return found


# --- text -----------------------------------------------------------------------------------------------------------
def callee(node: Node) -> str:
    """What a node calls, as one writes it: "torch.nn.functional.relu", ".view"; else the kind of node."""
    if node.op == "call_method":
        return f".{node.target}"
    if node.op != "call_function":
        return {"placeholder": "an input", "get_attr": "a constant"}.get(node.op, node.op)
    try:
        return str(name_of(node.target))
    except ValueError:
        return str(getattr(node.target, "__name__", node.target))


def call_text(node: Node) -> str:
    """A call with its arguments as written."""
    parts = [*map(repr, node.args), *(f"{name}={value!r}" for name, value in node.kwargs.items())]
    return f"{callee(node)}({', '.join(parts)})"


# --- effects --------------------------------------------------------------------------------------------------------
def written(node: Node) -> list[Node]:
    """The values whose storage a call writes."""
    if not node.op.startswith("call_"):
        return []
    if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
        return list(node.all_input_nodes)
    arguments = normal_arguments(node)
    found = nodes_in(arguments.get("out"))
    if _writes_first(node) or arguments.get("inplace") is True:
        found += nodes_in(node.args[0] if node.args else next(iter(arguments.values()), None))
    if arguments.get(_RUNNING.get(_name(node), "")):
        found += nodes_in([arguments.get("running_mean"), arguments.get("running_var")])
    return found


def reordered(nodes: Sequence[Node], inside: set[Node]) -> str:
    """Why the nodes of `inside` cannot all run where the last of them stands; empty if they can.

    What depends on them then runs after them, all else stays; two calls may change places unless one of them writes
    storage that the other touches.
    """
    places = [index for index, node in enumerate(nodes) if node in inside]
    span = nodes[places[0] : places[-1] + 1]
    writes = {node: written(node) for node in span}
    if not any(writes[node] or is_barrier(node) for node in span):
        return ""
    late = set(inside)
    for node in span:
        if any(source in late for source in node.all_input_nodes):
            late.add(node)
    rank = {node: 1 if node in inside else 2 if node in late else 0 for node in span}
    for index, second in enumerate(span):
        for first in span[:index]:
            if rank[first] > rank[second] and _conflict(first, second, writes):
                return f"{second.name} would run before {first.name}, but one writes in place what the other uses"
    return ""


def _conflict(one: Node, two: Node, writes: Mapping[Node, list[Node]]) -> bool:
    if is_barrier(one) or is_barrier(two):
        return True
    return _share(writes[one], _touched(two)) or _share(writes[two], _touched(one))


def _touched(node: Node) -> list[Node]:
    return [node, *node.all_input_nodes]


def _share(left: Sequence[Node], right: Sequence[Node]) -> bool:
    """Whether a value of one side may have the storage of a value of the other."""
    for one in left:
        for two in right:
            first, second = _storages(one), _storages(two)
            if one is two or first is None or second is None or first & second:
                return True
    return False


def _storages(node: Node) -> set[int] | None:
    """Identities of the storages of a value; None if they are not known."""
    value = node.meta.get("example_value", node.meta.get("val"))
    if value is None:
        return None
    return {leaf.untyped_storage()._cdata for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)}


def _writes_first(node: Node) -> bool:
    name = _name(node)
    if getattr(node.target, "__module__", None) == "_operator" or name.startswith("__"):
        return name in _WRITERS
    return name.endswith("_") and not name.endswith("__")


def is_barrier(node: Node) -> bool:
    """Whether a call sets a mode for what follows, so that no call may move across it."""
    return _name(node) in _BARRIERS


def _name(node: Node) -> str:
    return node.target if isinstance(node.target, str) else str(getattr(node.target, "__name__", ""))
