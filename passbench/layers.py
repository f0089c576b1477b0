"""The layers that defend the grader, by name, and which of them a proof may turn off.

    check_layers(("D5.state",))                  # raises ValueError on a name that is not in LAYERS

Each attack in `tests/adversarial` names the layer that must stop it and is run once more with that layer off, to show
that it is that layer which does. Turning layers off is for such proofs only: no command line offers it, every row made
so says it, and `passbench.results` refuses to store such rows. Reads and writes nothing.
"""

from collections.abc import Collection

LAYERS: dict[str, str] = {
    "D3.sandbox": "limits, Landlock and namespaces around the candidate's process",
    "D3.seccomp": "system calls that no kernel launch needs are refused",
    "D3.audit": "Python refuses submitted code files, frames, the collector, processes, sockets and new code",
    "D3.native": "native code cannot be loaded and no program started from Python where kernels are interpreted",
    "D4.policy": "static policy on the syntax trees",
    "D4b.graph": "the rewritten graph is made by the grader from checked data, not taken from the passes' process",
    "D4b.source": "wrappers and kernels are compiled by the grader from checked source; no module is imported",
    "D4b.compiled": "what was interpreted is what Triton compiles for a GPU",
    "D5.state": "global state of the process is as it was",
    "D6.seeds": "inputs of every call come from fresh entropy",
    "D6.refill": "the same input tensors come once more with other contents",
    "D6.mutation": "inputs hold the bytes they held, where the reference leaves them alone",
    "D6.guard": "inputs lie inside larger storages whose other bytes are NaN",
    "D6.distributions": "inputs where functions bend, saturate and vanish, compared element by element",
    "D6.hidden_shapes": "the same graph with other sizes, drawn after freezing",
    "D7.form": "dtype, shape and stride class of outputs are those of the reference",
    "D7.type": "outputs are plain tensors on the right device",
    "D7.alias": "outputs share memory with no input and no other output, unless the reference's do",
    "D7.reused": "outputs do not stand in the memory of earlier outputs",
    "D7.held": "outputs of all calls are held and read only after the last",
    "D7.poison": "memory that a pass allocates uninitialised holds NaN",
    "D8.timed": "outputs of secretly chosen calls of the timed loop are checked",
    "D10.match": "a pass must have fired",
    "D10.changed": "a pass that leaves the graph as it was, but for names and dead calls, has not fired",
    "D10.launch": "every call launches kernels, also on inputs seen before",
    "D10.library": "a replacement function runs no framework operator that computes",
    "D10.ghost": "outputs must go wrong when kernels do nothing",
    "D10.negatives": "where a changed graph is matched all the same, the result must be right",
    "D11.floor": "no time below what writing the outputs takes",
    "D12.values": "values agree within tolerance",
    "D12.configs": "other configurations of autotuned kernels give right outputs too",
    "D12.repeat": "two calls on one input agree",
}
"""Layer -> what it holds. Others cannot be turned off: verdicts (D1) and the clock (D9) in another
process, a fresh process with empty folders for every variant (D2), a final record bound to its request (D13)."""


def check_layers(names: Collection[str]) -> None:
    """Raise ValueError if a name is no layer that can be turned off."""
    for name in names:
        if name not in LAYERS:
            raise ValueError(f"no layer {name!r} that can be turned off; there are {', '.join(LAYERS)}")


def marked(detail: str, names: Collection[str]) -> str:
    """The detail of a row; it begins with the layers that were off, if any were."""
    return f"[without {', '.join(sorted(names))}] {detail}".strip() if names else detail
