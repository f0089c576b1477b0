"""Attacks made by combining tricks: how the answer is computed, by whom it is called, where, and when; none may count.

    python -m benchmarks.attack_search --json    # combinations accepted accepted_without_policy alive seconds
    python -m benchmarks.attack_search --show 17 # the source of one combination

Every combination is a pass whose kernel is a decoy and whose outputs come from Python (`benchmarks.attack_tricks`). It
counts as accepted if the static policy and the language of wrappers let it through, and its wrapper, compiled from
source as in a grading, gives the right outputs, be it that kernels do nothing or that they run.
`accepted_without_policy` leaves the policy out, so that the language has to hold alone. `alive` is the control: with
both left out the module is imported as it is, and a combination that gives the right outputs then is an attack;
`accepted_without_language` are those of them that the policy alone would let through. Fails if one is accepted, or if
fewer than `ALIVE` are alive. Runs itself again with Triton's interpreter on; writes one temporary folder, removes it.
"""

import argparse
import contextlib
import importlib
import inspect
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.attack_tricks import Combination, combinations

ALIVE = 0.95
"""Least share of combinations that have to work where nothing stops them."""
FAILURES = (ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, RuntimeError,
            StopIteration, SyntaxError, TypeError, ValueError)  # fmt: skip
"""What a combination that does not work raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What became of one combination."""

    name: str
    """Combination.name."""
    policy: bool
    """Whether the policy lets it through."""
    language: bool
    """Whether the language lets it through, and its outputs are right."""
    alive: bool
    """Whether its outputs are right where it is imported as it is."""


def tried(combination: Combination, folder: Path) -> Tried:
    """Try one combination under every layer alone and under none."""
    from passbench.submission import freeze

    (folder / "p.py").write_text(combination.source)
    (folder / "sorted_output_pass_rule_names.json").write_text('["p"]')
    submission = freeze(folder)
    return Tried(name=combination.name, policy=_is_let_through(submission), language=_is_compiled(submission),
                 alive=_is_alive(folder))  # fmt: skip


def _is_let_through(submission: Any) -> bool:
    from passbench.policy import inspect_sources
    from passbench.submission import Rejected

    try:
        inspect_sources(submission, max_patterns=100)
    except Rejected:
        return False
    return True


def _is_compiled(submission: Any) -> bool:
    """Whether its wrapper, compiled as in a grading, gives the right outputs in a ghost run or in one with kernels."""
    from passbench.program.build import Built
    from passbench.program.launcher import Record
    from passbench.program.names import Files
    from passbench.program.refusal import Refused
    from passbench.program.wrappers import program_of
    from passbench.sources import read_modules
    from passbench.submission import Rejected

    for ghost in (True, False):
        try:
            program = program_of(Files(read_modules(submission)), [("p", "run")])
            built = Built(program, Record(ghost=ghost), contextlib.nullcontext, interpreted=True)
            wrapper = built.wrapper(("p", "run"))
            if _is_right(wrapper.watched, wrapper.plain, wrapper.watched):
                return True
        except (Rejected, Refused, *FAILURES):
            continue
    return False


def _is_right(*calls: Callable[..., Any]) -> bool:
    """Whether one of several calls, one after the other, gives the right outputs."""
    import torch

    x, y = torch.randn(4, 60), torch.randn(4, 60)
    right = torch.relu(x + y)
    found = [call(x, y) for call in calls]
    return any(isinstance(value, torch.Tensor) and value.shape == right.shape and torch.allclose(value, right)
               for value in found)  # fmt: skip


# --- the control ----------------------------------------------------------------------------------------------------
class _Decoy:
    """A kernel of which only Python is done: its grid, its configurations' functions; its body, if that is Python."""

    def __init__(self, kernel: Any) -> None:
        self.kernel, self.grid = kernel, None

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *args, **kwargs: self.launch(grid, args, kwargs)

    def launch(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        function, given = self.kernel, dict(kwargs)
        while not inspect.isfunction(function):
            configs = getattr(function, "configs", ())
            prune = getattr(function, "prune", {}).get("early_config_prune")
            for config in prune(list(configs), given) if prune else configs[:1]:
                given.update(config.kwargs)
                if config.pre_hook is not None:
                    config.pre_hook(given)
            given.update({name: value(given) for name, value in getattr(function, "values", {}).items()})
            function = function.fn
        inspect.signature(function).bind(*args, **given)
        if callable(grid):
            grid(given)
        if "program_id" not in function.__code__.co_names:
            function(*args)


@contextlib.contextmanager
def _imported(folder: Path) -> Iterator[ModuleType]:
    """The module as Python imports it; afterwards what the import machinery knew before."""
    modules, finders = dict(sys.modules), list(sys.meta_path)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield importlib.import_module("p")
    finally:
        sys.path.remove(str(folder))
        sys.meta_path[:] = finders
        for name in set(sys.modules) - set(modules):
            if name in ("p", "drawn_tool"):
                del sys.modules[name]


def _is_alive(folder: Path) -> bool:
    """Whether the module as it is gives the right outputs though its kernel does nothing."""
    try:
        with _imported(folder) as module:
            vars(module)["kernel"] = _Decoy(vars(module)["kernel"])
            run = vars(module)["run"]
            return _is_right(run, run)
    except FAILURES:
        return False


def figures_of(found: Sequence[Tried], seconds: float) -> dict[str, object]:
    """The figures of the bars."""
    through = [item.name for item in found if item.policy and item.language]
    alone = [item.name for item in found if item.language]
    return {
        "combinations": len(found), "accepted": len(through), "accepted_without_policy": len(alone),
        "accepted_without_language": sum(item.policy and item.alive for item in found),
        "alive": sum(item.alive for item in found), "names": sorted({*through, *alone}),
        "dead": sorted(item.name for item in found if not item.alive), "seconds": round(seconds, 1),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Try all combinations; exit code 1 if one is accepted, or if too few are attacks indeed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--show", type=int, help="print the source of one combination and end")
    chosen = parser.parse_args(arguments)
    every = list(combinations())
    if chosen.show is not None:
        print(f"# {every[chosen.show].name}\n{every[chosen.show].source}")
        return 0
    if os.environ.get("TRITON_INTERPRET") != "1":
        os.environ["TRITON_INTERPRET"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.attack_search", *(arguments or sys.argv[1:])])
    from passbench.interpreter import streamline

    streamline()
    sys.dont_write_bytecode = True  # one path holds module after module
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="attack-search-") as made:
        found = [tried(item, Path(made)) for item in every]
    figures = figures_of(found, time.monotonic() - began)
    print(json.dumps(figures) if chosen.json else json.dumps(figures, indent=1))
    alive = sum(item.alive for item in found)
    return 1 if figures["names"] or alive < ALIVE * len(every) else 0


if __name__ == "__main__":
    sys.exit(main())
