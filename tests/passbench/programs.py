"""Compiles the functions of a folder as the grader does, in this process; for tests of the language of wrappers."""

import contextlib
import json
from pathlib import Path

from passbench.interpreter import streamline
from passbench.program.build import Built, Wrapper
from passbench.program.launcher import Record
from passbench.program.names import Files
from passbench.program.wrappers import Program, program_of
from passbench.sources import read_modules
from passbench.submission import freeze

CONTRACT = """

def pattern(x):
    return x.relu()


def replacement_args(x):
    return (x,)


def replacement_func():
    return run
"""


def program(folder: Path, source: str, **beside: str) -> Program:
    """The checked program of `run` in a module p; raises Rejected."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "p.py").write_text(source + CONTRACT)
    for path, text in beside.items():
        (folder / path).write_text(text)
    (folder / "sorted_output_pass_rule_names.json").write_text(json.dumps(["p"]))
    files = Files(read_modules(freeze(folder)))
    found = files.meaning("p", ["run"])
    return program_of(files, [(found.key, found.name)])


def wrapper(folder: Path, source: str, **beside: str) -> Wrapper:
    """`run` of such a module, compiled; raises Rejected."""
    streamline()
    made = program(folder, source, **beside)
    return Built(made, Record(), contextlib.nullcontext, interpreted=True).wrapper(next(iter(made.wrappers)))
