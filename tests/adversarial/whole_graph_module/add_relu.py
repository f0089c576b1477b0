"""A pass of the whole-graph form puts a module of its own into the graph."""

import torch


class Answer(torch.nn.Module):
    def forward(self, x, y):
        return torch.relu(x + y)


def graph_pass(gm, example_inputs):
    gm.add_module("answer", Answer())
    (last,) = [node for node in gm.graph.nodes if node.target is torch.relu]
    x, y = [node for node in gm.graph.nodes if node.op == "placeholder"]
    with gm.graph.inserting_before(last):
        new = gm.graph.call_module("answer", (x, y))
    last.replace_all_uses_with(new)
    gm.graph.erase_node(last)
    return gm
