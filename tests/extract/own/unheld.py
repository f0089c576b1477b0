"""Modules that hold what no graph does, each with the words that must be told, and such as look like them and trace."""

import itertools

import numpy as np
import torch
from torch import nn


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)

    @staticmethod
    def example_inputs():
        return torch.linspace(-2, 2, 16).reshape(4, 4)


# --- refused --------------------------------------------------------------------------------------------------------
class GeneratorMade(Rows):
    def forward(self, x):
        return x + torch.randn(x.shape, generator=torch.Generator().manual_seed(3))


class GeneratorHeld(Rows):
    def __init__(self):
        super().__init__()
        self.source = torch.Generator()

    def forward(self, x):
        return torch.empty(4, 4).normal_(generator=self.source) + x


class Derivative(Rows):
    def forward(self, x):
        return torch.func.grad(lambda t: (t**3).sum())(x)


class Tangent(Rows):
    def forward(self, x):
        return torch.func.jvp(torch.sin, (x,), (x,))[1]


class BatchedAfterBreak(Rows):
    def forward(self, x):
        torch._dynamo.graph_break()
        return torch.vmap(lambda row: row * 2 + row.sum())(x)


class SparseHeld(Rows):
    def __init__(self):
        super().__init__()
        self.adjacency = torch.eye(4).to_sparse()

    def forward(self, x):
        return torch.sparse.mm(self.adjacency, x)


class SparseRowsInList(Rows):
    def __init__(self):
        super().__init__()
        self.parts = [torch.eye(4).to_sparse_csr()]

    def forward(self, x):
        return self.parts[0] @ x


class NestedMade(Rows):
    def forward(self, x):
        return torch.nested.nested_tensor([x[0], x[1, :2]]).to_padded_tensor(0.0)


class Numpy(Rows):
    def forward(self, x):
        return torch.from_numpy(np.sin(x.numpy()) * 2) + 1


class NumpyOfWeights(Rows):
    def forward(self, x):
        return x + float(np.asarray(self.l.weight.detach()).mean())


# --- no such device -------------------------------------------------------------------------------------------------
class DeviceOfPart(Rows):
    def __init__(self):
        super().__init__()
        self.l = self.l.cuda()

    def forward(self, x):
        return self.l(x.cuda())


class DeviceOfBuffer(Rows):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(4, device="cuda"))

    def forward(self, x):
        return x * self.scale


class DeviceOfFactory(Rows):
    def forward(self, x):
        return x + torch.ones(4, device="cuda")


class DeviceOfConversion(Rows):
    def forward(self, x):
        return x.to("cuda") + 1


class DeviceOfWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4, device="cuda")

    @staticmethod
    def example_inputs():
        return torch.ones(2, 4)

    def forward(self, x):
        return self.l(x)


# --- recorded -------------------------------------------------------------------------------------------------------
class Traced(Rows):
    def __init__(self):
        super().__init__()
        self.part = torch.jit.trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.zeros(1, 4))

    def forward(self, x):
        return self.part(x) + 1


class NumpyOfPositions(Rows):
    @staticmethod
    def example_inputs():
        return torch.randn(4, 4), torch.tensor([1, 0, 1, 1])

    def forward(self, x, m):
        return x * torch.from_numpy(np.cumsum(m.numpy()))


class Cast(Rows):
    def forward(self, x):
        torch._dynamo.graph_break()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.l(x)
            with torch.autocast("cpu", enabled=False):
                z = self.l(x) @ x
            y = y @ y
        return y, z, self.l(x)


class CastMethod(Rows):
    @torch.autocast("cpu", dtype=torch.float16)
    def inner(self, x):
        return self.l(x) + 1

    def forward(self, x):
        torch._dynamo.graph_break()
        return self.inner(x), self.l(x)


class CastUntilError(Rows):
    def inner(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.l(x)
            raise LookupError(y.dtype)

    def forward(self, x):
        torch._dynamo.graph_break()
        try:
            self.inner(x)
        except LookupError:
            return self.l(x)


class CastOfOtherDevice(Rows):
    def forward(self, x):
        torch._dynamo.graph_break()
        with torch.autocast("cuda", enabled=False):
            return self.l(x)


class Gradients(Rows):
    def forward(self, x):
        torch._dynamo.graph_break()
        with torch.enable_grad():
            y = self.l(x)
        with torch.no_grad():
            return y + 1


_HIDDEN = itertools.repeat(torch.tensor([1.0, -2.0, 0.5, 3.0]))


class TensorOfIterator(Rows):
    def forward(self, x):
        torch._dynamo.graph_break()
        return self.l(x) * next(_HIDDEN)
