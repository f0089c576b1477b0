"""The output is not a value of the graph."""

import torch


def graph_pass(gm, example_inputs):
    (relu,) = [node for node in gm.graph.nodes if node.target is torch.relu]
    gm.graph.erase_node(relu)
    return gm
