"""The candidate's side of a worker: what a submission's passes made of a graph, built again here and run.

    side = Candidate(request, "cpu", Loaded(request))        # Dynamo captures the graph
    side.capture()                               # the captured graph as IR, for the process that runs the passes
    side.bind(request)                           # that process's steps, done again; wrappers and kernels from source
    side.run(request)

No Python of the submission runs in this process: the rewritten graph is made by `passbench.rewriting`, its wrappers
and kernels by `passbench.program`. Only where a proof leaves out the layers D4b.graph or D4b.source are the
submission's own objects used (`passbench.trusting`). Reads a copy of the submission then, and nothing otherwise.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch._dynamo
import torch.utils._pytree as pytree
from torch.fx import GraphModule
from torch.fx._lazy_graph_module import _LazyGraphModule

from passbench.autotuned import choose
from passbench.casting import with_scopes
from passbench.census import Census
from passbench.failure import PassFailed, one_line
from passbench.graph_rules import checked, foreign_name, is_changed
from passbench.guard import changes, snapshot
from passbench.inputs import materialize
from passbench.launches import Launches
from passbench.match import InvalidGraph, PatternError, check_graph, unpack
from passbench.ownership import Watch
from passbench.program.build import Built
from passbench.program.described import described
from passbench.program.launcher import Record
from passbench.program.names import Files
from passbench.program.wrappers import program_of
from passbench.rewrites import Outline, outline
from passbench.rewriting import FOREIGN, UNPACK, Name, NotAnAccount, Pass, Rewritten, Step, prepared, replay
from passbench.sources import read_modules
from passbench.submission import Rejected, Submission
from passbench.trusting import Trusting
from passbench.windows import given_inputs
from passbench.wire import Header, encode
from schemas.fx import lift, lower
from schemas.graph import Graph
from schemas.rows import Verdict

Call = Callable[..., Any]


class _Applying:
    """Steps of passes, done again on one captured graph."""

    def __init__(self, loaded: "Loaded", request: Header, device: str, captured: str) -> None:
        self.loaded, self.request, self.device = loaded, request, device
        self.before: Graph | None = Graph.from_json(captured)
        self.rewritten = Rewritten(gm=prepared(captured))
        self.functions: dict[str, tuple[Call, Call]] = {}

    def known(self, names: Sequence[Name]) -> dict[str, Call]:
        """Wrappers, as they run plain, by the name under which a graph calls them; with those met before."""
        new = [name for name in names if foreign_name(*name) not in self.functions]
        if new:
            self.functions.update(self.loaded.functions(self.request, new, self.device))
        return {UNPACK: unpack, **{name: pair[0] for name, pair in self.functions.items()}}

    def do(self, step: Step) -> None:
        """One pass."""
        if step.graph:
            self.do_graph(step)
        elif step.arguments:
            if list(step.function) not in [list(name) for name in self.request["wrapped"]]:
                text = f"{step.function[0]}.py: mark {step.function[1]} with @torch.fx.wrap"
                raise Rejected("unwrapped-function", text)
            replay(self.rewritten, step, self.known([step.function])[foreign_name(*step.function)])
            self.before = None
        elif step.diagnosis:
            self.rewritten.diagnosis.append(f"{step.key}.py: {step.diagnosis}")

    def do_graph(self, step: Step) -> None:
        """One pass of the whole-graph form."""
        known = self.known(called_in(step.graph))
        names = {function: name for name, function in known.items()}
        before = self.before or lift(self.rewritten.gm, foreign=lambda function: names.get(function, ""))
        after = checked(step.graph, before, known)
        changed = is_changed(before, after) or "D10.changed" in self.loaded.off
        self.rewritten.matches += changed
        self.rewritten.diagnosis += [] if changed else [f"{step.key}.py: the graph is unchanged"]
        self.rewritten.gm, self.before = prepared(step.graph, known), after


class Captured(BaseException):
    """Dynamo has called the backend, and nothing is to be run yet."""


class Loaded:
    """What the graphs of one process share: the submission's functions, and what watches them."""

    def __init__(self, request: Header) -> None:
        self.off = frozenset(request["off"])
        self.census = Census(poison="D7.poison" not in self.off)
        self.record = Record()
        self.launches = Launches(ghost=False, census=self.census).__enter__()
        """Of kernels that are the submission's own objects, in proofs."""
        self.watching = True
        self.state = snapshot()
        self.trusting = Trusting(request) if self.off & {"D4b.graph", "D4b.source"} else None
        self.built: Built | None = None

    @property
    def launched(self) -> int:
        """Launches so far."""
        return self.record.count + self.launches.count

    def watch(self, wanted: bool) -> None:
        """Count launches and operators from now on, or no longer: before the clock runs, nothing is in its way."""
        if wanted and not self.watching:
            self.launches.__enter__()
        if not wanted and self.watching:
            self.launches.__exit__()
        self.watching = wanted

    def be_ghost(self, wanted: bool) -> None:
        """Have launches do nothing, or what they do."""
        self.record.ghost = self.launches.ghost = wanted

    def functions(self, request: Header, names: Sequence[Name], device: str) -> dict[str, tuple[Call, Call]]:
        """Wrappers as they run plain and watched, by the name under which a graph calls them."""
        if self.trusting is not None and "D4b.source" in self.off:
            plain = {name: self.trusting.function(name) for name in names}
            pairs = {name: (function, function) for name, function in plain.items()}
        else:
            built = self.compiled(request, names, device)
            wrappers = {name: built.wrapper(name) for name in names}
            pairs = {name: (item.plain, item.watched) for name, item in wrappers.items()}
        return {foreign_name(*name): (plain, watched(call, self.census)) for name, (plain, call) in pairs.items()}

    def compiled(self, request: Header, names: Sequence[Name], device: str) -> Built:
        """The namespace with all these wrappers, made anew if one is missing in the last."""
        if self.built is None or not set(names) <= set(self.built.program.wrappers):
            known = list(self.built.program.wrappers) if self.built else []
            program = program_of(Files(read_modules(submission_of(request))), list(dict.fromkeys([*known, *names])))
            self.built = Built(program, self.record, self.census.rest, interpreted=device == "cpu")
        return self.built


class Candidate:
    """One graph under one submission."""

    def __init__(self, request: Header, device: str, loaded: Loaded | None = None) -> None:
        self.graph = Graph.from_json(request["graph"])
        self.device, self.request = device, request
        self.rewritten: Rewritten | None = None
        self.failure: BaseException | None = None
        self.held: list[list[Any]] = []
        self.last: list[Any] = []
        """Inputs of the last call."""
        self.rewrite: dict[str, Outline] = {}
        self.loaded = loaded or Loaded(request)
        self.module = with_scopes(lower(self.graph)).to(device)
        self.captured = ""
        self.plain: Call = capturing
        self.watched: Call = capturing
        compiled = torch.compile(self.module, backend=self.backend, dynamic=False, fullgraph=True)
        self.call: Call = compiled

    # --- from graph to call -----------------------------------------------------------------------------------------
    def capture(self) -> str:
        """The graph as Dynamo gives it to a backend, as IR; it is compiled by then, and nothing has run."""
        try:
            self.call(*shells(self.graph, self.device))
        except Captured:
            pass
        except BaseException:
            if self.failure is not None:
                raise self.failure from None
            raise
        return self.captured

    def backend(self, gm: GraphModule, example_inputs: Sequence[torch.Tensor]) -> Call:
        """The torch.compile backend."""
        try:
            self.captured = lift(gm).to_json()
            self.rewrite["before"] = outline(gm.graph)
            if self.loaded.trusting is not None and "D4b.graph" in self.loaded.off:
                self.in_place(gm, example_inputs)
        except Exception as error:
            self.failure = settled(error)
            raise
        return self.forward

    def forward(self, *args: Any) -> Any:
        """The rewritten graph; what it raises is kept, because Dynamo may put an error of its own in its place."""
        try:
            return self.watched(*args) if self.loaded.watching else self.plain(*args)
        except BaseException as error:
            self.failure = error
            raise

    def bind(self, request: Header) -> None:
        """Do again what the passes did, and have it run at every call from now on."""
        try:
            passes = {item["key"]: Pass(key=item["key"], pattern=item["pattern"], function=tuple(item["function"]))
                      for item in request["passes"]}  # fmt: skip
            steps = [Step.from_json(raw, passes) for raw in request["steps"]]
            applying = _Applying(self.loaded, request, self.device, self.captured)
            for step in steps:
                applying.do(step)
            self.install(applying.rewritten, dict(applying.functions.values()))
        except Exception as error:
            raise settled(error) from error

    def install(self, rewritten: Rewritten, pairs: Mapping[Any, Call]) -> None:
        """Have calls run a rewritten graph; `pairs` are its wrappers with what stands for them in watched calls."""
        gm = rewritten.gm.to(self.device)
        check_graph(gm)
        self.rewritten = rewritten
        self.rewrite["after"] = outline(gm.graph)
        gm.recompile()
        _LazyGraphModule.force_recompile(gm)  # else `plain` would look up the forward that is made below
        self.plain = gm.forward
        for node in gm.graph.nodes:
            if node.op == "call_function":
                node.target = pairs.get(node.target, node.target)
        gm.recompile()
        _LazyGraphModule.force_recompile(gm)
        self.watched = gm.forward

    def in_place(self, gm: GraphModule, example_inputs: Sequence[torch.Tensor]) -> None:
        """Have the submission's own passes change Dynamo's graph: in proofs only."""
        assert self.loaded.trusting is not None
        rewritten = Rewritten(gm=gm)
        self.loaded.trusting.apply(rewritten, example_inputs)
        pairs = {}
        for name, function in self.loaded.trusting.called(rewritten.gm).items():
            pairs[function] = self.loaded.functions(self.request, [name], self.device)[foreign_name(*name)][1]
        self.install(rewritten, pairs)

    # --- calls ------------------------------------------------------------------------------------------------------
    def kernels(self) -> bytes:
        """What was interpreted so far as JSON, to be compiled elsewhere."""
        found = described(self.loaded.built) if self.loaded.built is not None else {"kernels": {}, "wanted": []}
        return json.dumps(found).encode()

    def inputs(self, request: Header, seed: int) -> list[Any]:
        """Input values as a request wants them."""
        return given_inputs(self.graph, {**request, "seed": seed}, self.device)

    def run(self, request: Header) -> Header:
        """Call on fresh inputs and hold the outputs unread; facts of the call; raises what kernels and wrappers raise.

        With "refill", the call is on the input tensors of the call before, which get new contents; where an output that
        is held stands in them, on those of one more call. With "ghost", launches do nothing.
        """
        inputs = self.inputs(request, request["seed"])
        past = [value for outputs in self.held for value in outputs if isinstance(value, torch.Tensor)]
        if request.get("refill"):
            if _places(past) & _places(self.last):  # what is held would be overwritten
                self.last = self.inputs(request, request["seed"] + 1)
                past += [value for value in self.called(self.last) if isinstance(value, torch.Tensor)]
            inputs = refill(self.last, inputs)
        self.last = inputs
        constants = [*self.module.buffers()]
        watch, kept, census = Watch(inputs), Watch(constants), self.loaded.census
        already = self.loaded.launched
        census.operators.clear()
        self.loaded.be_ghost(request.get("ghost", False))
        with choose(int(request.get("config", 0))) as used:
            outputs = self.called(inputs)
        self.loaded.be_ghost(False)
        facts = watch.facts(outputs, past)
        self.held.append([*outputs, *(inputs[position] for position in request["changes"])])
        rewrite, self.rewrite = self.rewrite, {}  # told once
        done = self.rewritten
        state = changes(self.loaded.state, snapshot())[:8] + [f"constant {place}" for place in kept.changed()]
        return {
            "matches": done.matches if done else 0, "diagnosis": "; ".join(done.diagnosis) if done else "",
            "facts": facts, "launches": self.loaded.launched - already, "replaced": done.replaced if done else 0,
            "state": state, "library": sorted(set(census.operators))[:8], "rewrite": rewrite,
            "configs": used.valid,
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


def capturing(*args: Any) -> Any:
    """What stands for the rewritten graph before there is one."""
    raise Captured


def watched(function: Call, census: Census) -> Call:
    """A wrapper whose operators are counted."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with census:
            return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = str(getattr(function, "__name__", "replacement"))
    return call


def called_in(text: str) -> list[Name]:
    """The submission's functions that a graph's text calls; empty where it is no graph."""
    try:
        targets = [node.target for node in Graph.from_json(text).nodes]
    except (ValueError, KeyError, TypeError):
        return []
    found = [target.removeprefix(FOREIGN).rpartition(":") for target in targets if target.startswith(FOREIGN)]
    return list(dict.fromkeys((key, name) for key, _, name in found if key))


def submission_of(request: Header) -> Submission:
    """The submission's modules as a request gives them."""
    files = tuple((path, text.encode("latin-1")) for path, text in sorted(request["sources"].items()))
    return Submission(name="", digest="", files=files, passes=tuple(request["keys"]), task="")


def shells(graph: Graph, device: str) -> list[Any]:
    """Inputs of the right form whose contents nobody reads."""
    scalars = iter(materialize(graph, seed=0, device=device)) if _has_scalars(graph) else None
    found: list[Any] = []
    for index in graph.placeholders:
        spec = graph.nodes[index].outputs[0]
        value = next(scalars) if scalars is not None else None
        if not spec.dtype.startswith("Sym"):
            value = torch.empty_strided(spec.shape, spec.stride, dtype=getattr(torch, spec.dtype), device=device)
        found.append(value)
    return found


def _has_scalars(graph: Graph) -> bool:
    return any(graph.nodes[index].outputs[0].dtype.startswith("Sym") for index in graph.placeholders)


def _places(values: Sequence[Any]) -> set[int]:
    """Where the storages of tensors begin."""
    return {value.untyped_storage().data_ptr() for value in values if isinstance(value, torch.Tensor)}


def refill(inputs: Sequence[Any], contents: Sequence[Any]) -> list[Any]:
    """The same tensors with other contents, storage and all; numbers are taken as they are."""
    found = []
    for value, content in zip(inputs, contents, strict=True):
        if isinstance(value, torch.Tensor):
            value.untyped_storage().copy_(content.untyped_storage())
        found.append(value if isinstance(value, torch.Tensor) else content)
    return found


def settled(error: Exception) -> Exception:
    """What rewriting raised, with its verdict: only a graph that is none is invalid."""
    if isinstance(error, PassFailed | Rejected | MemoryError):
        return error
    if isinstance(error, InvalidGraph):
        return PassFailed(Verdict.GRAPH_INVALID, one_line(error))
    if isinstance(error, NotAnAccount):
        return PassFailed(Verdict.GRAPH_INVALID, f"the rewriting cannot be done again: {one_line(error)}")
    kind = "" if isinstance(error, PatternError) else f"{type(error).__name__}: "
    return PassFailed(Verdict.COMPILE_ERROR, f"{kind}{one_line(error)}")
