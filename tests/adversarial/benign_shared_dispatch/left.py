"""Several patterns share one wrapper, which is told the route."""

import torch
from route import dispatch


def pattern(x, y):
    return torch.relu(x + y)


def replacement_args(x, y):
    return (x, y, "left")


def replacement_func():
    return dispatch
