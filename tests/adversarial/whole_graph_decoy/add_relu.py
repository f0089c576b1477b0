"""A pass of the whole-graph form renames an operator; its kernel is never put into the graph."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, count, scale, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < count
    x = tl.load(x_ptr + offset, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + offset, mask=inside, other=0.0).to(tl.float32)
    out = tl.maximum(x + y, 0.0) * scale
    tl.store(out_ptr + offset, out.to(out_ptr.dtype.element_ty), mask=inside)


def graph_pass(gm, example_inputs):
    for node in gm.graph.nodes:
        if node.target is torch.relu:
            node.target = torch.nn.functional.relu
    return gm
