"""A pass of the whole-graph form that renames an operator, without kernels."""

import torch


def graph_pass(gm, example_inputs):
    for node in gm.graph.nodes:
        if node.target is torch.relu:
            node.target = torch.nn.functional.relu
    return gm
