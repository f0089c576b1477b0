"""Modules written as published samples, read back and run in place of Dynamo's graph: the outputs of the module."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from benchmarks.sample_writing import Style, Traced, publish
from benchmarks.samples import Result, eager, plan, read_one

pytestmark = pytest.mark.torch


class Norm(torch.nn.Module):
    """Numbers of the module that a dynamic trace makes arguments of, and constants of such numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.eps, self.p = 0.125, 0.25
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> Any:
        mask = torch.full((x.shape[1], x.shape[1]), torch.finfo(x.dtype).min)
        mask.masked_fill_(torch.arange(x.shape[1]) < torch.arange(x.shape[1]).add(1).view(-1, 1), 0)
        y = torch.nn.functional.dropout(self.linear(x) * self.eps + self.p, self.p, training=False)
        y[..., 0] += 1
        return y, mask, torch.full((3,), self.eps), torch.full((2,), y.max())


class Levels(torch.nn.Module):
    """Function transforms, autocast, in-place writes, a tuple result and a complex number."""

    def forward(self, x: torch.Tensor) -> Any:
        y = torch.vmap(lambda a, b: (a * b).sum())(x, x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = x @ x.T
        values, places = x.max(1)
        w = x.clone()
        w += values[:, None]
        v = w
        v *= 2
        return y, z, w + places[:, None], torch.polar(x, x) * 2j, x[None, ..., :2].contiguous()


class Broken(torch.nn.Module):
    """A graph break: two graphs, each a sample."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        torch._dynamo.graph_break()
        return y @ x.T


STYLES = {
    "plain": Style(), "dynamic": Style(dynamic=True), "bare": Style(dynamic=True, bare_scalars=True),
    "renamed": Style(renamed=True), "autocast": Style(autocast=True),
}  # fmt: skip


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("module", "shape", "graphs"), [(Norm, (2, 6, 8), 1), (Levels, (3, 3), 1), (Broken, (4, 4), 2)],
    ids=["norm", "levels", "broken"],
)  # fmt: skip
def test_what_was_written_is_read_and_computes_what_the_module_does(module, shape, graphs, style, tmp_path: Path):
    torch.manual_seed(0)
    model = module().eval()
    inputs = ((torch.randn(shape),), {})
    traced = publish(model, inputs, tmp_path, STYLES[style])
    assert isinstance(traced, Traced)
    wanted, result = pytree.tree_leaves(eager(model, inputs, traced)), Result()
    assert len(traced.folders) == graphs
    assert all(read_one(traced, place, style, result) for place in range(graphs))
    found = pytree.tree_leaves(traced.call())
    assert len(found) == len(wanted)
    for left, right in zip(wanted, found, strict=True):
        assert left.dtype == right.dtype
        assert torch.equal(torch.view_as_real(left) if left.is_complex() else left,
                           torch.view_as_real(right) if right.is_complex() else right)  # fmt: skip
    assert result.counts["misdescribed"] == 0


def test_files_are_written_as_published(tmp_path: Path):
    torch.manual_seed(0)
    traced = publish(Norm().eval(), ((torch.randn(2, 6, 8),), {}), tmp_path, STYLES["bare"])
    code = (traced.folders[0] / "model.py").read_text(encoding="utf-8")
    assert "class GraphModule(torch.nn.Module):" in code
    assert "s77: torch.SymInt" in code or "SymInt" in code
    assert ";" not in code, "one statement a line, as black writes"
    meta = (traced.folders[0] / "weight_meta.py").read_text(encoding="utf-8")
    assert "class Program_weight_tensor_meta_L_x_:" in meta
    assert "mean = 0.125\n    std = 0.0\n    data = None" in meta, "a float is described by its mean alone"


def test_every_model_has_a_turn_in_each_style():
    names = ["a", "b", "c"]
    assert [name for name, _ in plan(names, every=False)] == names
    assert len(list(plan(names, every=True))) == 15
