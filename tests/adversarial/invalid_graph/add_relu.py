"""A node stands after the node that reads it."""

import torch


def graph_pass(gm, example_inputs):
    (relu,) = [node for node in gm.graph.nodes if node.target is torch.relu]
    relu.append(relu.args[0])
    return gm
