import torch


class GraphModule(torch.nn.Module):
    def forward(
        self,
        L_x_: torch.Tensor,
    ):
        x = L_x_.clone()
        x += 1.0
        add = x
        x = None
        add *= 2
        mul = add
        add = None
        mul[(slice(None, None, None), 0)] = 0.5
        setitem = mul
        setitem = None
        mul[..., 1] = mul[..., 2]
        relu = torch.nn.functional.relu(mul, inplace=True)
        neg_ = relu.neg_()
        neg_ = None
        return (relu,)
