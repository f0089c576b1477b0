"""A sibling is imported below pass_dir, as published passes do."""

import torch
from pass_dir.shared import add_relu


def pattern(x, y):
    return torch.relu(x + y)


def replacement_args(x, y):
    return (x, y)


def replacement_func():
    return add_relu
