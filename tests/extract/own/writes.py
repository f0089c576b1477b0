"""Modules that read numbers and then write where nothing uses the result of the write."""

import inspect

import torch
import torch.nn.functional as F
from torch import nn


class _Base(nn.Module):
    """A linear layer, a cache, and a write that depends on lengths that were read."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.register_buffer("cache", torch.zeros(2, 8))

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Linear, then the write."""
        return self.write(self.fc(x), max(lengths.tolist()))

    def write(self, h: torch.Tensor, n: int) -> torch.Tensor:
        """What the module does with the lengths."""
        raise NotImplementedError


def _method(h, n, cache):
    h.mul_(n)
    return h + 1


def _view_augmented(h, n, cache):
    v = h[:, :n]
    v += 5.0
    return h


def _relu_on_view(h, n, cache):
    F.relu(h[:, :n], inplace=True)
    return h


def _relu_by_position(h, n, cache):
    F.relu(h.narrow(1, 0, n), True)
    return h


def _out(h, n, cache):
    torch.add(h, n, out=h)
    return h * 2


def _out_of_view(h, n, cache):
    torch.mul(h[:, :n], 3, out=h[:, :n])
    return h


def _out_pair(h, n, cache):
    values, places = torch.empty(2), torch.empty(2, dtype=torch.int64)
    torch.max(h[:, :n], 1, out=(values, places))
    return values + places


def _cache(h, n, cache):
    cache[:, :n].copy_(h[:, :n])
    return h + cache


def _cache_kept(h, n, cache):
    cache[:, :n] = h[:, :n]
    return h * n


def _zeroed(h, n, cache):
    h[:, n:].zero_()
    h.masked_fill_(h < 0, 0.5)
    return h


def _index_added(h, n, cache):
    h.index_add_(1, torch.tensor([n]), torch.ones(2, 1))
    return h


def _scattered(h, n, cache):
    h.scatter_(1, torch.full((2, 1), n), 9.0)
    return h.t()


def _index_put(h, n, cache):
    h.index_put_((torch.tensor([0]), torch.tensor([n])), torch.tensor(4.0))
    return h


def _set_item(h, n, cache):
    h[0, n] = 7.0
    h[1][n] += 2.0
    return h


def _through_detach(h, n, cache):
    h.detach()[:, :n].add_(1)
    h.data[:, n:].sub_(2)
    return h


def _through_transposed(h, n, cache):
    h.t()[n].fill_(3.0)
    h.view(4, 4).diagonal().add_(n)
    return h


def _through_chunks(h, n, cache):
    for part in h.chunk(2, 1):
        part.clamp_(max=0.1)
    first, *_ = h.unbind(0)
    first.neg_()
    return h


def _foreach(h, n, cache):
    torch._foreach_add_([h, cache], n)
    return h - cache


def _dropout_in_place(h, n, cache):
    F.dropout(h, 0.5, True, True)
    return h * n


def _module_in_place(h, n, cache):
    nn.Hardtanh(-0.2, 0.2, inplace=True)(h[:, :n])
    return h


def _logical(h, n, cache):
    mask = h > 0
    mask.logical_not_()
    mask[:, n:].fill_(True)
    return torch.where(mask, h, -h)


def _gated(h, n, cache):
    h.addcmul_(cache + 1, cache + 2)
    h.lerp_(cache, 0.25)
    torch.clamp_(h, -0.3, 0.3)
    return h


def _normalised(h, n, cache):
    F.batch_norm(h * n, cache[0], cache[1] + 1, training=True)
    F.batch_norm(h * n, cache[0], cache[1], training=True)
    return h


def _copied_into_argument(h, n, cache):
    torch.Tensor.copy_(cache, h * n)
    cache.resize_(2, 8)
    return cache.sum() + h


WRITES = {
    name[1:]: value for name, value in list(globals().items()) if name[0] == "_" and inspect.isfunction(value)
}  # fmt: skip


class _Write(_Base):
    """One of the writes above."""

    def __init__(self, write) -> None:
        super().__init__()
        self.chosen = write

    def write(self, h, n):
        """The write."""
        return self.chosen(h, n, self.cache)


class _SplitFill(nn.Module):
    """Parts of an input, split by sizes that are read, filled in place."""

    def forward(self, x, sizes):
        """Fill the first part; the input holds it too."""
        parts = x.split(sizes.tolist(), 1)
        parts[0].fill_(1.0)
        return torch.cat(parts, 1)


def passnet_models():
    """The architectures of this file."""
    for name, write in WRITES.items():
        yield name, lambda write=write: _Write(write), lambda: (torch.randn(2, 8), torch.tensor([3, 5]))
    yield "split_fill", _SplitFill, lambda: (torch.randn(2, 8), torch.tensor([3, 5]))
