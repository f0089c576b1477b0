"""A capture is the whole call or says why it is not: no prefix, suffix or repeated part passes for the whole."""

import gc

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from extract import capture as module
from extract.build import Built
from extract.capture import Capture, capture, no_collection
from extract.configs import ConfigsConfig, resolve_configs
from extract.files import list_files
from extract.inputs import WantedInput, dense_stride
from extract.trace import TraceConfig, trace
from schemas.fx import lift
from schemas.graph import TensorSpec
from schemas.rows import Failure, GraphRecord, ModelConfig, ModelRef

pytestmark = pytest.mark.torch
SPEC = TensorSpec(dtype="float32", shape=(2, 4), stride=dense_stride((2, 4)), device="cpu")
WANTED = (WantedInput(name="x", spec=SPEC, init='{"kind":"normal","mean":0.0,"std":1.0}'),)


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(x))


class Straight(Layer):
    def forward(self, x):
        return (super().forward(x) + x).softmax(-1)


class Broken(Layer):
    def forward(self, x):
        y = self.linear(x)
        torch._dynamo.graph_break()
        y = torch.relu(y)
        if float(y.shape[0]) > 1 and y.sum().item() > -1:
            y = y * 2
        return y + 1


class Suffix(torch.nn.Module):
    """Its own forward is skipped without a word; what it calls is compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Layer()

    @torch._dynamo.disable(recursive=False)
    def forward(self, x):
        return self.layer(x) + 1


class Repeated(Suffix):
    @torch._dynamo.disable(recursive=False)
    def forward(self, x):
        return self.layer(self.layer(self.layer(x)))


def captured(cls: type[torch.nn.Module], *, fake: bool = True) -> Capture:
    if not fake:
        return capture(Built(model=cls().eval(), mode=None), WANTED)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        model = cls().eval()
    return capture(Built(model=model, mode=mode), WANTED)


def test_a_whole_call_is_one_graph_and_equal_to_what_a_run_under_compile_gives(monkeypatch: pytest.MonkeyPatch):
    whole = captured(Straight)
    assert whole.is_whole
    monkeypatch.setattr(module, "_capture_whole", lambda model, arguments: None)
    run = captured(Straight)
    assert run.is_whole
    assert lift(run.pieces[0].gm) == lift(whole.pieces[0].gm)


def test_every_piece_of_a_broken_call_but_the_last_has_its_reason():
    found = captured(Broken, fake=False)
    assert not found.is_whole
    assert len(found.pieces) == 3
    reasons = [found.reason_after(index) for index in range(3)]
    assert "graph_break" in reasons[0]
    assert "item" in reasons[1]
    assert reasons[2] == ""


@pytest.mark.parametrize(
    ("cls", "reason"),
    [(Suffix, "computes more than its last graph gives"), (Repeated, "ran 3 times")],
)
@pytest.mark.parametrize("fake", [True, False])
def test_a_part_that_compiles_alone_never_passes_for_the_whole(
    monkeypatch: pytest.MonkeyPatch, cls: type[torch.nn.Module], reason: str, fake: bool
):
    whole = captured(cls, fake=fake)
    assert whole.is_whole
    assert len(whole.pieces[0].gm.graph.find_nodes(op="call_function", target=torch.relu)) == (
        1 if cls is Suffix else 3
    )
    monkeypatch.setattr(module, "_capture_whole", lambda model, arguments: None)
    found = captured(cls, fake=fake)
    assert len(found.pieces) >= 1
    assert not found.is_whole
    assert any(reason in text for text in found.reasons), found.reasons


def test_the_collector_is_as_before_after_a_capture():
    with pytest.raises(ZeroDivisionError), no_collection():
        assert not gc.isenabled()
        raise ZeroDivisionError
    assert gc.isenabled()


BREAKING = """
import torch
class Breaks(torch.nn.Module):
    example_inputs = torch.ones(2, 4)
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    def forward(self, x):
        y = self.first(x).relu()
        torch._dynamo.graph_break()
        return self.second(y).sigmoid()
"""


def test_pieces_are_rows_with_their_place_and_reason_and_never_without_being_asked_for(tmp_path):
    path = tmp_path / "breaking.py"
    path.write_text(BREAKING, encoding="utf-8")
    (ref,) = list_files([str(path)])
    assert isinstance(ref, ModelRef), ref
    row, _ = resolve_configs(models=[ref], config=ConfigsConfig())
    assert isinstance(row, ModelConfig)
    rows = list(trace(row, TraceConfig(files=(str(path),), keep_pieces=True)))
    assert all(isinstance(item, GraphRecord) for item in rows), rows
    assert [(item.break_index, item.break_count) for item in rows] == [(0, 2), (1, 2)]
    assert ["graph_break" in item.break_reason for item in rows] == [True, False]
    assert rows[1].break_reason == ""
    for item in trace(row, TraceConfig(files=(str(path),))):
        targets = [node.target for node in item.graph.nodes if node.is_call] if isinstance(item, GraphRecord) else []
        assert isinstance(item, Failure) or ("sigmoid" in targets[-1] and item.break_count == 1), targets
