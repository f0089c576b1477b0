"""Tensors that a module holds or its code names, wherever they are."""

import functools
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from torch import nn

from extract.held import held_tensors

pytestmark = pytest.mark.torch
TABLE = torch.tensor([1.0])
PLACES = {"in": [torch.tensor([2.0])]}


@dataclass(frozen=True, slots=True)
class Data:
    w: torch.Tensor


class Pair(NamedTuple):
    left: torch.Tensor


class Plain:
    def __init__(self, number: float) -> None:
        self.kept = torch.tensor([number])
        self.itself = self


def moved(value):
    return value + TABLE


class Base(nn.Module):
    on_base = torch.tensor([20.0])


class Everything(Base):
    on_class = torch.tensor([3.0])

    def __init__(self) -> None:
        super().__init__()
        inner = torch.tensor([4.0])
        self.fc = nn.Linear(1, 1)
        self.register_buffer("mask", torch.tensor([5.0]))
        self.attribute = torch.tensor([6.0])
        self.listed = [torch.tensor([7.0]), (torch.tensor([8.0]), None)]
        self.named = {"a": deque([torch.tensor([9.0])])}
        self.data, self.pair, self.plain = Data(torch.tensor([10.0])), Pair(torch.tensor([11.0])), Plain(12.0)
        self.partial = functools.partial(torch.mul, torch.tensor([13.0]))
        self.shift = lambda value: value + inner
        self.fc.register_forward_hook(lambda module, args, out, w=torch.tensor([14.0]): out * w)  # noqa: B008
        self.again = self.attribute

    @property
    def made(self):
        return PLACES["in"][0]

    @staticmethod
    def scaled(value, w=torch.tensor([15.0]), *, v=torch.tensor([16.0])):  # noqa: B008
        return value * w * v

    def forward(self, x):
        return moved(x)


def test_every_tensor_is_found_once_with_a_path():
    found = {path: float(value.reshape(-1)[0]) for path, value in held_tensors(Everything())}
    weights = {path: found.pop(path) for path in ("fc.weight", "fc.bias")}
    assert len(weights) == 2
    assert found == {
        "mask": 5.0, "attribute": 6.0, "listed.0": 7.0, "listed.1.0": 8.0, "named.a.0": 9.0, "data.w": 10.0,
        "pair.0": 11.0, "plain.kept": 12.0, "partial.args.0": 13.0, "shift.inner": 4.0,
        next(path for path in found if path.startswith("fc._forward_hooks")): 14.0, "on_class": 3.0, "on_base": 20.0,
        "made.fget.PLACES.in.0": 2.0, "scaled.__func__.__defaults__.0": 15.0, "scaled.__func__.__kwdefaults__.v": 16.0,
        "forward.moved.TABLE": 1.0,
    }  # fmt: skip


def test_equal_modules_give_equal_paths_but_for_the_numbers_of_hooks():
    first, second = ([path for path, _ in held_tensors(Everything()) if "hooks" not in path] for _ in range(2))
    assert first == second
