"""What the grader would do if it trusted a submission: run its passes, functions and graphs as they are. For proofs.

    trusting = Trusting(request)                 # in the candidate's process, where a proof leaves out D4b.*
    trusting.apply(rewritten, example_inputs)    # the passes change the graph in place
    trusting.function(("p", "fused_norm"))       # the submission's own function object

`benchmarks.adversarial` shows with it that an attack which the layers D4b.graph and D4b.source stop would pass without
them. No command line reaches it. Reads the submission's copy in the scratch folder.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule

from passbench.failure import PassFailed, one_line
from passbench.guest_modules import file_of, module_name
from passbench.match import check_graph, rewrite_pass
from passbench.matching import Matcher, chosen_by
from passbench.rewriting import Name, Rewritten
from passbench.submission import Rejected
from passbench.wire import Header
from schemas.rows import Verdict


class Trusting:
    """A submission's own objects in the candidate's process."""

    def __init__(self, request: Header) -> None:
        self.matcher = Matcher(request)

    def function(self, name: Name) -> Callable[..., Any]:
        """A function of a module that was imported; raises Rejected if there is none."""
        found: Any = getattr(sys.modules.get(module_name(name[0])), name[1], None)
        if not callable(found):
            raise Rejected("unwrapped-function", f"{name[0]}.py: there is no function {name[1]}")
        return found  # type: ignore[no-any-return]

    def called(self, gm: GraphModule) -> dict[Name, Callable[..., Any]]:
        """The submission's functions that a graph calls."""
        wanted = {self.function(name): name for name in self.matcher.wrapped.values() if self.is_there(name)}
        targets = [node.target for node in gm.graph.nodes if node.op == "call_function"]
        return {wanted[target]: target for target in targets if target in wanted}

    def is_there(self, name: Name) -> bool:
        """Whether a wrapped function has been defined."""
        return callable(getattr(sys.modules.get(module_name(name[0])), name[1], None))

    def apply(self, rewritten: Rewritten, example_inputs: Sequence[Any]) -> None:
        """Apply all passes in order."""
        for item in self.matcher.passes:
            if item.pattern is None:
                self.apply_graph_pass(item.module, rewritten, example_inputs)
                continue
            gm, module = rewritten.gm, item.module

            def arguments(*bound: Any, gm: GraphModule = gm, module: Any = module) -> Any:
                return chosen_by(module, gm, bound)

            assert item.function is not None
            done = rewrite_pass(gm, item.pattern, arguments, item.function)
            rewritten.matches += done.matches
            rewritten.replaced += done.matches
            rewritten.diagnosis += [f"{file_of(module)}: {done.diagnosis}"] if done.diagnosis else []

    def apply_graph_pass(self, module: Any, rewritten: Rewritten, inputs: Sequence[Any]) -> None:
        """Take the module that a pass of the whole-graph form returns as it is."""
        before, file = rewritten.gm.code, file_of(module)
        try:
            after = module.graph_pass(rewritten.gm, inputs)
        except Exception as error:
            raise PassFailed(Verdict.COMPILE_ERROR, f"{file}: {type(error).__name__}: {one_line(error)}") from error
        if not isinstance(after, GraphModule):
            raise PassFailed(Verdict.GRAPH_INVALID, f"{file}: graph_pass returned {type(after).__name__}")
        check_graph(after)
        after.recompile()
        rewritten.gm = after
        rewritten.matches += after.code != before
        rewritten.diagnosis += [] if after.code != before else [f"{file}: the graph is unchanged"]
