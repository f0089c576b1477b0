"""Honest passes of the published contract as many authors write them: whole modules, with their task.

`all_passes()` -> name -> Pass. A pass's pattern is what `eager` calls; its wrapper gets `args` of the inputs.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from passbench.submission import ORDER_FILE
from tests.passbench.forms import two

HEAD = """
import math

import torch
import triton
import triton.language as tl


"""
CONTRACT = """

def replacement_args({arguments}):
    return ({arguments},)


def replacement_func():
    return {function}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One pass."""

    source: str
    """The module."""
    eager: Callable[..., Any]
    """The task."""
    inputs: Callable[[], tuple[torch.Tensor, ...]] = two
    """Inputs of the task."""
    args: Callable[..., tuple[Any, ...]] = lambda *inputs: inputs
    """What `replacement_args` makes of them."""
    beside: dict[str, str] = field(default_factory=dict)
    """Other modules of the folder: path -> text."""
    refused: str = ""
    """The rule that refuses it, though it is honest."""

    def write(self, folder: Path) -> Path:
        """The submission, written into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "fused.py").write_text(self.source)
        for path, text in self.beside.items():
            (folder / path).write_text(text)
        (folder / ORDER_FILE).write_text(json.dumps(["fused"]))
        return folder


def all_passes() -> dict[str, Pass]:
    """Every pass by name."""
    from tests.passbench.passes import dispatch, layouts, pointwise, products, rows

    found: dict[str, Pass] = {}
    for part in (pointwise, rows, layouts, products, dispatch):
        found.update({f"{part.__name__.rpartition('.')[2]}.{name}": item for name, item in part.PASSES.items()})
    return found
