"""The process in which submitted Python runs: it imports the passes and says what they do to a graph, as data.

    matcher = Matcher(request)                   # in a sandbox of its own, one for all variants of a task
    matcher.account()                            # the passes: patterns as IR, names of replacement functions
    matcher.match({"captured": text, "only": [...]})         # what each pass does to one graph

All that it says is a claim: matches are found and replaced once more, in a process without submitted code, by
`passbench.rewriting`, and no object of this process is ever timed or judged. Reads the submission's copy in the scratch
folder.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx._lazy_graph_module import _LazyGraphModule

from passbench.failure import PassFailed, one_line
from passbench.graph_rules import foreign_name
from passbench.guard import changes, snapshot
from passbench.guest_modules import GuestModules, file_of, module_name
from passbench.match import InvalidGraph, Pattern, PatternError, check_graph, rewrite_pass, trace_pattern, unpack
from passbench.rewriting import UNPACK, Name, Pass, encode_arguments, pattern_text, prepared
from passbench.submission import GRAPH_PASS, Rejected
from passbench.wire import Header
from schemas.fx import META_SPECS, NotRepresentable, lift
from schemas.rows import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One pass in this process."""

    key: str
    """Its module's key."""
    module: ModuleType
    """The module."""
    pattern: Pattern | None = None
    """Its pattern; None for the whole-graph form."""
    function: Callable[..., Any] | None = None
    """Its replacement function; None for the whole-graph form."""
    name: Name = ("", "")
    """Where that function is defined."""


class Matcher:
    """The passes of a submission in this process."""

    def __init__(self, request: Header) -> None:
        self.state = snapshot()
        self.guests = GuestModules(Path("submission"))
        self.wrapped = {(module_name(key), name): (key, name) for key, name in request["wrapped"]}
        self.functions: dict[str, Callable[..., Any]] = {UNPACK: unpack}
        """Functions of the submission that graphs call, by the name under which they do."""
        self.passes = [self.loaded(key) for key in request["passes"]]

    def loaded(self, key: str) -> Loaded:
        """Import one pass and ask for its pattern and its function."""
        module = self.guests.load(key)
        if hasattr(module, GRAPH_PASS):
            return Loaded(key=key, module=module)
        function, name = replacement_of(module, self.wrapped)
        return Loaded(key=key, module=module, pattern=traced(module), function=function, name=name)

    def account(self) -> Header:
        """What the passes are."""
        told = [
            Pass(key=item.key, pattern=pattern_text(item.pattern) if item.pattern else "", function=item.name)
            for item in self.passes
        ]
        return {
            "passes": [{"key": item.key, "pattern": item.pattern, "function": item.function} for item in told],
            "state": self.changed(),
        }

    def changed(self) -> list[str]:
        """What of this process's state is not as it was."""
        return changes(self.state, snapshot())[:8]

    def match(self, request: Header) -> Header:
        """Apply the passes `only` in order to one captured graph, and say what each did."""
        gm = prepared(request["captured"])
        steps: list[Header] = []
        for item in self.passes:
            if item.key not in request["only"]:
                continue
            step: Header = {"key": item.key, "arguments": [], "graph": "", "diagnosis": ""}
            if item.pattern is None:
                gm = self.apply_graph_pass(item, gm, step)
            else:
                apply_pattern(item, item.pattern, gm, step)
            steps.append(step)
        return {"steps": steps, "state": self.changed()}

    def apply_graph_pass(self, item: Loaded, gm: GraphModule, step: Header) -> GraphModule:
        """Call a pass of the whole-graph form and read the graph that it gives, and nothing else of it."""
        file = file_of(item.module)
        try:
            after = item.module.graph_pass(gm, examples(gm))
        except Exception as error:
            raise PassFailed(Verdict.COMPILE_ERROR, f"{file}: {type(error).__name__}: {one_line(error)}") from error
        if not isinstance(after, GraphModule):
            raise PassFailed(Verdict.GRAPH_INVALID, f"{file}: graph_pass returned {type(after).__name__}")
        check_plain(after, file)
        check_graph(after)
        try:
            step["graph"] = lift(after, foreign=self.foreign).to_json()
        except NotRepresentable as error:
            raise Rejected("foreign-call", f"{file}: {one_line(error)}") from error
        return prepared(step["graph"], self.functions)

    def foreign(self, function: Any) -> str:
        """The name of a function at the top of one of the submission's modules; empty for anything else."""
        if function is unpack:
            return UNPACK
        home, own = str(getattr(function, "__module__", "")), str(getattr(function, "__name__", ""))
        key = self.guests.key_of.get(home)
        found: Any = getattr(sys.modules.get(home), own, None)
        if key is None or found is not function:
            return ""
        self.functions[foreign_name(key, own)] = function
        return foreign_name(key, own)


def apply_pattern(item: Loaded, pattern: Pattern, gm: GraphModule, step: Header) -> None:
    """Replace what the pattern matches in this process's graph, and note the arguments chosen for every match."""

    def arguments(*bound: Any) -> Any:
        chosen = chosen_by(item.module, gm, bound)
        if isinstance(chosen, list | tuple):
            step["arguments"].append(encode_arguments(chosen, gm.graph))
        return chosen

    assert item.function is not None
    try:
        done = rewrite_pass(gm, pattern, arguments, item.function)
    except (PatternError, InvalidGraph, PassFailed, Rejected):
        raise
    except Exception as error:
        text = f"{file_of(item.module)}: the matcher failed: {type(error).__name__}: {one_line(error)}"
        raise PassFailed(Verdict.COMPILE_ERROR, text) from error
    step["diagnosis"] = done.diagnosis


def chosen_by(module: ModuleType, gm: GraphModule, bound: Sequence[Any]) -> Any:
    """What `replacement_args` returns; what it raises is the submission's failure, not the matcher's.

    Raises Rejected if it puts nodes into the graph: they would be no kernel's work.
    """
    before = list(gm.graph.nodes)
    try:
        found = module.replacement_args(*bound)
    except Exception as error:
        detail = f"{file_of(module)}: replacement_args: {type(error).__name__}: {one_line(error)}"
        raise PassFailed(Verdict.COMPILE_ERROR, detail) from error
    if list(gm.graph.nodes) != before:
        raise Rejected("graph-changed", f"{file_of(module)}: replacement_args chooses values and adds no nodes")
    return found


def traced(module: ModuleType) -> Pattern:
    """The pattern of a pass; raises PassFailed if it cannot be traced or used."""
    try:
        return trace_pattern(module.pattern)
    except Exception as error:
        text = f"{file_of(module)}: pattern: {one_line(error)}"
        raise PassFailed(Verdict.COMPILE_ERROR, text) from error


def replacement_of(module: ModuleType, wrapped: "dict[Name, Name]") -> tuple[Callable[..., Any], Name]:
    """The replacement function of a pass: stable, at the top of a module, marked; and where it is defined."""
    file = file_of(module)
    try:
        function: Any = module.replacement_func()
        again: Any = module.replacement_func()
    except Exception as error:
        text = f"{file}: replacement_func: {type(error).__name__}: {one_line(error)}"
        raise PassFailed(Verdict.COMPILE_ERROR, text) from error
    if again is not function or not callable(function):
        raise Rejected("unstable-function", f"{file}: replacement_func must return one function at every call")
    home, own = str(getattr(function, "__module__", "")), str(getattr(function, "__name__", ""))
    at_home: Any = getattr(sys.modules.get(home), own, None)
    if at_home is not function:
        raise Rejected("nested-function", f"{file}: the replacement function must stand at module level")
    if (home, own) not in wrapped:
        raise Rejected("unwrapped-function", f"{file}: mark {own} with @torch.fx.wrap")
    return function, wrapped[home, own]


def check_plain(gm: GraphModule, file: str) -> None:
    """Raise Rejected on a module that would run something else than its graph, or other modules."""
    hooks = [name for name in vars(gm) if name.endswith("_hooks") and getattr(gm, name)]
    if {"forward", "__call__"} & set(vars(gm)) or hooks or type(gm).__mro__[1] not in (GraphModule, _LazyGraphModule):
        raise Rejected("foreign-module", f"{file}: graph_pass returns a module that runs something else than its graph")
    called = next((node for node in gm.graph.nodes if node.op == "call_module"), None)
    if called is not None:
        raise Rejected("foreign-module", f"{file}: {called.name}: a graph calls functions, not modules")


def examples(gm: GraphModule) -> list[Any]:
    """Example inputs for a pass of the whole-graph form: zeros of the right form."""
    found: list[Any] = []
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            spec = node.meta[META_SPECS][0]
            if spec.dtype.startswith("Sym"):
                found.append(1)
                continue
            value = torch.empty_strided(spec.shape, spec.stride, dtype=getattr(torch, spec.dtype), device=spec.device)
            found.append(value.zero_())
    return found
