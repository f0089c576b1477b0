"""A graph at other sizes of its inputs: shapes in the layout they had, every other spec propagated again.

    resized(graph, {0: (4, 128), 2: (4, 1, 128)})        # node index of an input -> its shape; a graph or None

Which sizes may change together is for the caller to know: `curate.resize` finds it by trial, for the variants of a
task; `passbench.neighbours` takes the sizes that nothing else in a graph holds, for the probes of a grading.
Reads and writes nothing; loads torch to propagate.
"""

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from schemas.graph import Graph, TensorSpec


def resized(graph: Graph, shapes: Mapping[int, Sequence[int]]) -> Graph | None:
    """The graph with inputs of other shapes; None if one is neither dense nor expanded, or if an op refuses them."""
    from schemas.propagation import respecify  # loads torch: only a stage's own process does

    specs = []
    for index in graph.placeholders:
        spec = graph.nodes[index].outputs[0]
        if index in shapes:
            stride = strides(spec, shapes[index])
            if stride is None:
                return None
            spec = replace(spec, shape=tuple(shapes[index]), stride=stride)
        specs.append(spec)
    try:
        with _no_log():
            return respecify(graph, specs)
    except ValueError:
        return None


def strides(spec: TensorSpec, shape: Sequence[int]) -> tuple[int, ...] | None:
    """Strides of another shape in the layout of a spec; None if the spec is neither dense nor expanded.

    Dimensions keep their order in memory, expanded ones (stride 0) stay expanded; that of a size of 1 may be anything.
    """
    found, step, dense = [0] * len(shape), 1, 1
    for dim in sorted(range(len(shape)), key=lambda d: (spec.stride[d], -d)):
        if not spec.stride[dim]:
            continue
        if spec.shape[dim] != 1 and spec.stride[dim] != dense:
            return None
        found[dim], step, dense = step, step * shape[dim], dense * spec.shape[dim]
    return tuple(found)


class _Silence(logging.Filter):
    """Lets nothing through that a thread logs while it wants to hear nothing."""

    here = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is logged."""
        return not getattr(self.here, "on", False)


_SILENCE = _Silence()


@contextmanager
def _no_log() -> Iterator[None]:
    """Fake tensors log a traceback where an op refuses its inputs; here that is an answer, in this thread alone."""
    logging.getLogger("torch._subclasses.fake_tensor").addFilter(_SILENCE)  # a second time changes nothing
    _SILENCE.here.on, before = True, getattr(_SILENCE.here, "on", False)
    try:
        yield
    finally:
        _SILENCE.here.on = before
