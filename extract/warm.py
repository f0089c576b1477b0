"""What every trace needs, loaded once: the libraries, and the parts of Dynamo that a first capture brings in.

    warm_up()          # in the process that workers are forked from

Reads the installed libraries; writes nothing. Captures one small module of its own, so that nothing of a model is left
behind: a forked worker traces exactly what a fresh process traces.
"""

import importlib
from importlib.util import find_spec

import torch
import torch.hub

from extract.admission import check_rebuilt
from extract.build import Built
from extract.capture import capture
from extract.inputs import WantedInput, dense_stride
from extract.numeric import Lifted, Memory, compare
from schemas.fx import lift
from schemas.graph import TensorSpec

LIBRARIES = ("transformers.modeling_utils", "transformers.models.auto.modeling_auto",
             "timm", "torchvision")  # fmt: skip
"""Modules that are slow to import and that most architectures need; those not installed are left out."""


class _Small(torch.nn.Module):
    """A few ops of either kind."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm, self.linear = (
            torch.nn.Conv2d(1, 2, 3),
            torch.nn.LayerNorm(6),
            torch.nn.Linear(6, 6),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.convolution(x))
        attended = torch.nn.functional.scaled_dot_product_attention(y, y, y).transpose(1, 2).reshape(1, 6, -1)
        found: torch.Tensor = self.linear(attended.softmax(-1)[..., :6].contiguous())
        return found + torch.arange(6)


def start_no_monitor() -> None:
    """Keep the progress bar in torch's graph interpreter, which shows nothing, from starting a thread that watches it:
    a process with two threads is not forked."""
    vars(torch.hub)["tqdm"].monitor_interval = 0


def warm_up() -> None:
    """Import the libraries and trace one small module from start to end."""
    for name in LIBRARIES:
        if find_spec(name.split(".")[0]):
            importlib.import_module(name)
    torch.set_num_threads(1)
    start_no_monitor()
    mode = torch._subclasses.fake_tensor.FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        model = _Small().eval()
    spec = TensorSpec(dtype="float32", shape=(1, 1, 8, 8), stride=dense_stride((1, 1, 8, 8)), device="cpu")
    wanted = (WantedInput(name="x", spec=spec, init='{"kind":"ones"}'),)
    piece = capture(Built(model=model, mode=mode), wanted).pieces[0]
    graph = lift(piece.gm)
    check_rebuilt(graph)
    compare(Lifted(module=piece.gm, graph=graph), Memory(needed=0, limit=1))
    torch._dynamo.reset()
