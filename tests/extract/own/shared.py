"""Modules that hold or are given tensors that share memory."""

import torch
from torch import nn


class _Holding(nn.Module):
    """A linear layer, a buffer `a`, and what a subclass makes of them."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("a", torch.randn(4, 4))
        self.share()

    def share(self) -> None:
        """Tensors that share memory with `a` or with the weights."""

    @staticmethod
    def example_inputs():
        return torch.randn(4)


class ViewIsRead(_Holding):
    def share(self):
        self.register_buffer("b", self.a[:2])

    def forward(self, x):
        self.a.add_(1.0)
        return x + self.b


class ViewIsWritten(_Holding):
    def share(self):
        self.register_buffer("b", self.a[1:3, 2])

    def forward(self, x):
        self.b.copy_(x[:2])
        return x + self.a


class ViewAttribute(_Holding):
    def share(self):
        self.row = self.a[0]

    def forward(self, x):
        self.a.mul_(2)
        return self.row + x


class Transposed(_Holding):
    def share(self):
        self.register_buffer("t", self.a.t())

    def forward(self, x):
        self.t[0].fill_(3.0)
        return x @ self.a


class SameData(_Holding):
    def share(self):
        self.other = nn.Linear(4, 4)
        self.other.weight = nn.Parameter(self.fc.weight.data)

    def forward(self, x):
        self.fc.weight.data.add_(1)
        return self.other(x) + self.fc(x)


class Tied(_Holding):
    def share(self):
        self.other = nn.Linear(4, 4)
        self.other.weight = self.fc.weight

    def forward(self, x):
        self.other.weight.data.mul_(2)
        return self.fc(x) - self.other(x)


class InList(_Holding):
    def share(self):
        self.halves = [self.a[:2], self.a[2:]]

    def forward(self, x):
        self.halves[0].add_(5)
        return x + self.a + self.halves[1].sum()


class InDict(_Holding):
    def share(self):
        self.parts = {"row": self.fc.weight.detach()[0]}

    def forward(self, x):
        self.parts["row"].zero_()
        return self.fc(x)


class Disjoint(_Holding):
    def share(self):
        whole = torch.zeros(8)
        self.register_buffer("left", whole[:4])
        self.register_buffer("right", whole[4:])

    def forward(self, x):
        self.left.add_(x)
        return self.left + self.right


class ReadFirst(_Holding):
    def share(self):
        self.register_buffer("b", self.a[:2])

    @staticmethod
    def example_inputs():
        return torch.randn(4), torch.tensor([1, 2])

    def forward(self, x, n):
        self.a.add_(max(n.tolist()))
        return x + self.b


class RecordedAfterRead(_Holding):
    def share(self):
        self.register_buffer("b", self.a[:2])

    def forward(self, x):
        self.b.mul_(3)
        if float(x.sum()) > -1e6:
            self.a.add_(1)
        return x + self.b


class Partial(_Holding):
    """Neither of two buffers holds the other."""

    def share(self):
        whole = torch.zeros(6)
        self.register_buffer("left", whole[:4])
        self.register_buffer("right", whole[2:])

    def forward(self, x):
        self.left.add_(x)
        return x + self.right


class OtherDtype(_Holding):
    """One buffer shows the bits of the other."""

    def share(self):
        self.register_buffer("bits", self.a.view(torch.int32))

    def forward(self, x):
        self.a.add_(x)
        return self.bits


class Twice(nn.Module):
    @staticmethod
    def example_inputs():
        x = torch.randn(4)
        return x, x

    def forward(self, x, y):
        x.add_(1)
        return y * 2
