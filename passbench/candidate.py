"""The candidate's side of a worker: load a frozen submission, apply its passes inside torch.compile, run the result.

Runs in the candidate's process only; what it reports is a claim. Reads the submission's copy in the scratch folder.
"""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch._dynamo
import torch.utils._pytree as pytree
from torch.fx import GraphModule
from torch.fx._lazy_graph_module import _LazyGraphModule

from passbench.autotuned import choose
from passbench.census import Census
from passbench.failure import PassFailed, one_line
from passbench.guard import changes, snapshot
from passbench.guest_modules import GuestModules, file_of, module_name
from passbench.inputs import materialize
from passbench.launches import Launches
from passbench.match import InvalidGraph, Pattern, PatternError, check_graph, rewrite_pass, trace_pattern
from passbench.ownership import Watch
from passbench.rewrites import Outline, outline
from passbench.submission import GRAPH_PASS, Rejected
from passbench.wire import Header, encode
from schemas.fx import lower
from schemas.graph import Graph
from schemas.rows import Verdict

Backend = Callable[..., Any]


class Loaded:
    """The passes of a submission in this process, with what watches them."""

    def __init__(self, request: Header) -> None:
        self.off = frozenset(request["off"])
        self.census = Census(poison="D7.poison" not in self.off)
        self.launches = Launches(ghost=request.get("ghost", False), census=self.census).__enter__()
        self.watching = True
        self.state = snapshot()
        guests = GuestModules(Path("submission"))
        self.passes = [guests.load(key) for key in request["passes"]]
        self.functions = _functions(self.passes, request)
        self.patterns = {module.__name__: _traced(module) for module in self.passes if not hasattr(module, GRAPH_PASS)}

    def watch(self, wanted: bool) -> None:
        """Count launches and operators from now on, or no longer: before the clock runs, nothing is in its way."""
        if wanted and not self.watching:
            self.launches.__enter__()
        if not wanted and self.watching:
            self.launches.__exit__()
        self.watching = wanted


class Candidate:
    """One graph under one submission."""

    def __init__(self, request: Header, device: str, loaded: Loaded | None = None) -> None:
        self.graph = Graph.from_json(request["graph"])
        self.device = device
        self.matches = self.replaced = 0
        self.diagnosis: list[str] = []
        self.failure: BaseException | None = None
        self.held: list[list[Any]] = []
        self.last: list[Any] = []
        """Inputs of the last call."""
        self.rewrite: dict[str, Outline] = {}
        self.loaded = loaded or Loaded(request)
        compiled = torch.compile(lower(self.graph).to(device), backend=self.backend, dynamic=False, fullgraph=True)
        self.call: Callable[..., Any] = compiled

    def inputs(self, request: Header, seed: int) -> list[Any]:
        """Input values as a request wants them."""
        return inputs_of(self.graph, {**request, "seed": seed}, self.device)

    def run(self, request: Header) -> Header:
        """Call on fresh inputs and hold the outputs unread; facts of the call; raises what passes or kernels raise.

        With "refill", the call is on the input tensors of the call before, which get new contents; where an output that
        is held stands in them, on those of one more call.
        """
        inputs = self.inputs(request, request["seed"])
        past = [value for outputs in self.held for value in outputs if isinstance(value, torch.Tensor)]
        if request.get("refill"):
            if _places(past) & _places(self.last):  # what is held would be overwritten
                self.last = self.inputs(request, request["seed"] + 1)
                past += [value for value in self.called(self.last) if isinstance(value, torch.Tensor)]
            inputs = refill(self.last, inputs)
        self.last = inputs
        watch, launches, census = Watch(inputs), self.loaded.launches, self.loaded.census
        already = launches.count
        census.operators.clear()
        with choose(int(request.get("config", 0))) as used:
            outputs = self.called(inputs)
        facts = watch.facts(outputs, past)
        self.held.append([*outputs, *(inputs[position] for position in request["changes"])])
        rewrite, self.rewrite = self.rewrite, {}  # told once
        return {
            "matches": self.matches, "diagnosis": "; ".join(self.diagnosis), "facts": facts,
            "launches": launches.count - already, "replaced": self.replaced,
            "state": changes(self.loaded.state, snapshot())[:8], "library": sorted(set(census.operators))[:8],
            "rewrite": rewrite, "configs": used.valid,
        }  # fmt: skip

    def called(self, inputs: Sequence[Any]) -> list[Any]:
        """All outputs of one call."""
        try:
            outputs = self.call(*inputs)
        except BaseException:
            if self.failure is not None:
                raise self.failure from None
            raise
        if self.device == "cuda":
            torch.cuda.synchronize()
        return list(pytree.tree_leaves(outputs))

    def read(self, index: int) -> tuple[Header, list[bytes]]:
        """The bytes of held outputs, which are let go."""
        described, blobs = encode(self.held[index])
        self.held[index] = []
        return {"outputs": described}, blobs

    def backend(self, gm: GraphModule, example_inputs: Sequence[torch.Tensor]) -> Backend:
        """The torch.compile backend: all passes in order, then the rewritten graph as it is."""
        self.matches, self.replaced, self.diagnosis = 0, 0, []
        before = outline(gm.graph)
        try:
            for module in self.loaded.passes:
                gm = self.apply(module, gm, example_inputs)
            check_graph(gm)
            self.rewrite = {"before": before, "after": outline(gm.graph)}
            _LazyGraphModule.force_recompile(gm)  # else `plain` would look up the forward that is made below
            plain = gm.forward
            under_census(gm, self.loaded.census)
        except Exception as error:
            self.failure = _settled(error)
            raise
        return self.guarded(plain, gm.forward)

    def guarded(self, plain: Backend, watched: Backend) -> Backend:
        """The rewritten graph; what it raises is kept, because Dynamo may put an error of its own in its place."""

        def call(*args: Any) -> Any:
            try:
                return watched(*args) if self.loaded.watching else plain(*args)
            except BaseException as error:
                self.failure = error
                raise

        return call

    def apply(self, module: ModuleType, gm: GraphModule, example_inputs: Sequence[torch.Tensor]) -> GraphModule:
        """Apply one pass and count what it changed."""
        if hasattr(module, GRAPH_PASS):
            return self.apply_graph_pass(module, gm, example_inputs)
        pattern, function = self.loaded.patterns[module.__name__], self.loaded.functions[module.__name__]
        try:
            done = rewrite_pass(gm, pattern, _arguments_of(module, gm), function)
        except (PatternError, InvalidGraph, PassFailed, Rejected):
            raise
        except Exception as error:
            detail = f"{module.__name__}: the matcher cannot apply this: {type(error).__name__}: {one_line(error)}"
            raise PassFailed(Verdict.COMPILE_ERROR, detail) from error
        self.matches += done.matches
        self.replaced += done.matches
        self.diagnosis += [f"{file_of(module)}: {done.diagnosis}"] if done.diagnosis else []
        return gm

    def apply_graph_pass(self, module: ModuleType, gm: GraphModule, inputs: Sequence[torch.Tensor]) -> GraphModule:
        """Apply a pass of the whole-graph form; it counts one match if the graph's code changed."""
        before = gm.code
        try:
            after = module.graph_pass(gm, inputs)
        except Exception as error:
            raise PassFailed(
                Verdict.COMPILE_ERROR, f"{file_of(module)}: {type(error).__name__}: {one_line(error)}"
            ) from error
        if not isinstance(after, GraphModule):
            raise PassFailed(Verdict.GRAPH_INVALID, f"{file_of(module)}: graph_pass returned {type(after).__name__}")
        check_graph(after)
        after.recompile()
        changed = after.code != before
        self.matches += changed
        self.diagnosis += [] if changed else [f"{file_of(module)}: the graph is unchanged"]
        return after


def inputs_of(graph: Graph, request: Header, device: str) -> list[Any]:
    """Input values of a graph as a request wants them: seed, mood, and whether storages are guarded."""
    mood, guarded = request.get("mood", ""), request.get("guarded", False)
    return list(materialize(graph, seed=request["seed"], device=device, mood=mood, guarded=guarded))


def _places(values: Sequence[Any]) -> set[int]:
    """Where the storages of tensors begin."""
    return {value.untyped_storage().data_ptr() for value in values if isinstance(value, torch.Tensor)}


def under_census(gm: GraphModule, census: Census) -> None:
    """Have every function that is not torch's or ours called under the census; raises Rejected on foreign modules."""
    for node in gm.graph.nodes:
        if node.op == "call_module" and not type(gm.get_submodule(node.target)).__module__.startswith("torch."):
            raise Rejected("foreign-module", f"{node.name}: a graph may call modules of torch only")
        home = str(getattr(node.target, "__module__", None))
        if node.op == "call_function" and _is_submitted(home):
            node.target = _watched(node.target, census)
    gm.recompile()
    _LazyGraphModule.force_recompile(gm)


def _is_submitted(home: str) -> bool:
    return str(getattr(sys.modules.get(home), "__file__", "")).startswith(os.getcwd())


def _watched(function: Callable[..., Any], census: Census) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with census:
            return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = str(getattr(function, "__name__", "replacement"))
    return call


def refill(inputs: Sequence[Any], contents: Sequence[Any]) -> list[Any]:
    """The same tensors with other contents, storage and all; numbers are taken as they are."""
    found = []
    for value, content in zip(inputs, contents, strict=True):
        if isinstance(value, torch.Tensor):
            value.untyped_storage().copy_(content.untyped_storage())
        found.append(value if isinstance(value, torch.Tensor) else content)
    return found


def _settled(error: Exception) -> Exception:
    """What applying the passes raised, with its verdict: only a graph that is none is invalid."""
    if isinstance(error, PassFailed | Rejected | MemoryError):
        return error
    if isinstance(error, InvalidGraph):
        return PassFailed(Verdict.GRAPH_INVALID, one_line(error))
    kind = "" if isinstance(error, PatternError) else f"{type(error).__name__}: "
    return PassFailed(Verdict.COMPILE_ERROR, f"{kind}{one_line(error)}")


def _arguments_of(module: ModuleType, gm: GraphModule) -> Callable[..., Any]:
    """`replacement_args` of a pass; what it raises is the submission's failure, not the matcher's.

    Raises Rejected if it puts nodes into the graph: they would be no kernel's work.
    """

    def arguments(*bound: Any) -> Any:
        before = list(gm.graph.nodes)
        try:
            found = module.replacement_args(*bound)
        except Exception as error:
            detail = f"{file_of(module)}: replacement_args: {type(error).__name__}: {one_line(error)}"
            raise PassFailed(Verdict.COMPILE_ERROR, detail) from error
        if list(gm.graph.nodes) != before:
            raise Rejected("graph-changed", f"{file_of(module)}: replacement_args chooses values and adds no nodes")
        return found

    return arguments


def _traced(module: ModuleType) -> Pattern:
    try:
        return trace_pattern(module.pattern)
    except Exception as error:
        raise PassFailed(Verdict.COMPILE_ERROR, f"{file_of(module)}: pattern: {one_line(error)}") from error


def _functions(passes: Sequence[ModuleType], request: Header) -> dict[str, Callable[..., Any]]:
    """The replacement function of every pass: stable, at module level, marked, and few enough."""
    wrapped = {(module_name(key), name) for key, name in request["wrapped"]}
    found: dict[str, Callable[..., Any]] = {}
    for module in passes:
        if hasattr(module, GRAPH_PASS):
            continue
        name = file_of(module)
        function: Any = module.replacement_func()
        if module.replacement_func() is not function or not callable(function):
            raise Rejected("unstable-function", f"{name}: replacement_func must return one function at every call")
        home, own = str(getattr(function, "__module__", "")), str(getattr(function, "__name__", ""))
        at_home: Any = getattr(sys.modules.get(home), own, None)
        if at_home is not function:
            raise Rejected("nested-function", f"{name}: the replacement function must stand at module level")
        if (home, own) not in wrapped:
            raise Rejected("unwrapped-function", f"{name}: mark {own} with @torch.fx.wrap")
        found[module.__name__] = function
    distinct = len(set(map(id, found.values())))
    if distinct > request["max_functions"]:
        raise Rejected("functions", f"{distinct} replacement functions, at most {request['max_functions']} are allowed")
    return found
