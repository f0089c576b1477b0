"""The fidelity benchmark itself: what it generates, and that its check finds a graph that is not the module."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.fidelity_check import verdict_of
from benchmarks.fidelity_grammar import FORBIDDEN_EVERY, generate
from benchmarks.fidelity_modules import STATEMENTS
from extract.configs import ConfigsConfig, resolve_configs
from extract.files import list_files
from extract.trace import TraceConfig, trace
from schemas import values
from schemas.graph import Graph, Node
from schemas.rows import GraphRecord, ModelConfig, ModelRef

pytestmark = pytest.mark.torch
MODULE = """
import torch
from torch import nn

class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(4))

    @staticmethod
    def example_inputs():
        return {"a": [torch.ones(2, 4), torch.arange(8.0).view(2, 4)], "a_0": torch.full((2, 4), 3.0)}

    def forward(self, a, a_0):
        h = self.fc(a[0] * 2 - a_0)
        v = h[:, :2]
        v += 1.0
        self.seen.add_(h.mean(0))
        return h * a[1], self.seen * 1
"""


def test_modules_are_a_function_of_their_seed_and_number_and_are_python():
    for number in range(0, 480, 7):
        made = generate(seed=3, number=number)
        assert made == generate(seed=3, number=number) and made.text != generate(seed=4, number=number).text
        compile(made.text, "made.py", "exec")
        assert made.forbidden == (number % FORBIDDEN_EVERY == FORBIDDEN_EVERY - 1)


def test_a_run_of_as_many_modules_uses_every_kind_of_statement_often():
    counts = Counter(kind for number in range(480) for kind in generate(seed=0, number=number).kinds)
    assert all(counts[item.kind] >= 30 for item in STATEMENTS), counts


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, GraphRecord]:
    """The module's file and its row."""
    file = tmp_path_factory.mktemp("fidelity") / "checked.py"
    file.write_text(MODULE)
    refs = [row for row in list_files([str(file)]) if isinstance(row, ModelRef)]
    rows = [row for row in resolve_configs(models=refs, config=ConfigsConfig()) if isinstance(row, ModelConfig)]
    (found,) = trace(rows[0], TraceConfig(files=(str(file),)))
    assert isinstance(found, GraphRecord), found
    return file, found


def checked(file: Path, graph: Graph, capture: str) -> tuple[str, str]:
    file.with_suffix(".json").write_text(json.dumps({"graph": graph.to_json(), "capture": capture}))
    try:
        return verdict_of(file)
    finally:
        file.with_suffix(".json").unlink()


def changed(graph: Graph, change: Callable[[Node], Node]) -> Graph:
    return replace(graph, nodes=tuple(map(change, graph.nodes)))


def with_number(node: Node, old: object, new: object) -> Node:
    attrs = values.rewrite(values.loads(node.attrs), lambda value: new if value == old else None)
    return replace(node, attrs=values.dumps(attrs))


def test_a_graph_that_is_the_module_passes(record):
    file, row = record
    assert checked(file, row.graph, row.capture) == ("equal", "")


@pytest.mark.parametrize(
    ("target", "change", "words"),
    [
        ("operator.iadd", lambda node: replace(node, target="operator.add"), "output 0"),
        ("add_", lambda node: replace(node, target="add"), "output 1|holds something else"),
        ("operator.mul", lambda node: replace(node, target="operator.add"), "output 0"),
        ("operator.sub", lambda node: replace(node, inputs=(node.inputs[1], node.inputs[0])), "output 0"),
        ("output", lambda node: replace(node, inputs=node.inputs[::-1]), "output 0"),
    ],
)
def test_a_graph_that_is_not_the_module_is_found(record, target, change, words):
    file, row = record
    altered = changed(row.graph, lambda node: change(node) if target in (node.target, node.op) else node)
    assert altered != row.graph
    verdict, why = checked(file, altered, row.capture)
    assert verdict == "wrong" and any(word in why for word in words.split("|")), why


def test_an_input_that_the_module_does_not_have_is_found(record):
    file, row = record
    altered = changed(row.graph, lambda node: replace(node, name=node.name.replace("fc", "other")))
    assert "is the placeholder" in checked(file, altered, row.capture)[1]


def test_modules_without_a_graph_are_told_apart(tmp_path):
    texts = {
        "refused": MODULE,
        "illegal": MODULE.replace("self.fc(a[0] * 2 - a_0)", "self.fc(a_0[:, :3])"),
        "unsteady": MODULE.replace("a[0] * 2", "a[0] * np.random.rand()").replace(
            "import torch", "import torch, numpy as np", 1
        ),
    }
    for verdict, text in texts.items():
        (tmp_path / f"{verdict}.py").write_text(text)
        assert verdict_of(tmp_path / f"{verdict}.py")[0] == verdict
