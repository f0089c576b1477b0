"""The pass fires although a mask stands between the two ops, where it is wrong."""

import operator
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


@torch.fx.wrap
def add_relu(x, y):
    out = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), 1.0, 256)
    return out


def producer(node):
    while node.target is torch.masked_fill:
        node = node.args[0]
    return node


def graph_pass(gm, example_inputs):
    for node in list(gm.graph.nodes):
        if node.target is torch.relu:
            total = producer(node.args[0])
            if total.target is operator.add:
                with gm.graph.inserting_before(node):
                    new = gm.graph.call_function(add_relu, total.args)
                node.replace_all_uses_with(new)
                gm.graph.erase_node(node)
    gm.graph.eliminate_dead_code()
    return gm
