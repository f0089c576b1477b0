"""Several patterns share one wrapper, which is told the route."""

import torch
from route import dispatch


def pattern(x, y):
    return torch.relu(torch.add(x, y))


def replacement_args(x, y):
    return (x, y, "right")


def replacement_func():
    return dispatch
