"""Evidence that kernels do the work (layer D10): launches are counted, or left out altogether in a ghost run.

    with Launches(ghost=False) as launches: ...  # launches.count after any number of calls

Works on Triton's two kinds of kernel, compiled and interpreted, by their `run`; while the counter is in place a launch
costs one more Python call, so it is taken off before anything is timed. In a ghost run a launch does nothing; outputs
that are right all the same were not computed by a kernel. Reads and writes nothing.
"""

import contextlib
from collections.abc import Callable
from typing import Any

from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from passbench.census import Census

KINDS: tuple[Any, ...] = (InterpretedFunction, JITFunction)


class Launches:
    """Counts kernel launches between `start` and `stop`; a context manager."""

    def __init__(self, *, ghost: bool, census: Census | None = None) -> None:
        self.ghost, self.count = ghost, 0
        self.census = census or Census(poison=False)
        self.stack = contextlib.ExitStack()

    def __enter__(self) -> "Launches":
        for kind in KINDS:
            original = kind.run
            kind.run = self._counted(original)
            self.stack.callback(setattr, kind, "run", original)
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    def _counted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("warmup"):
                return original(kernel, *args, **kwargs)
            self.count += 1
            with self.census.rest():
                return None if self.ghost else original(kernel, *args, **kwargs)

        return run
