import torch


class GraphModule(torch.nn.Module):
    def forward(
        self,
        s0: torch.SymInt,
        L_x_: torch.Tensor,
        L_self_head_dim: torch.SymInt,
        L_self_modules_n_buffers_eps_: torch.Tensor,
    ):
        view = L_x_.view((1, s0, -1, L_self_head_dim))
        size = view.size()
        n = size[1]
        half = n // 2
        head = view[:, :half]
        p = L_self_modules_n_buffers_eps_.item()
        drop = torch.nn.functional.dropout(head, p, False, False)
        k = -s0
        tail = view[:, slice(k, None, None)]
        mask = torch.zeros(s0, 24)
        sum_1 = mask + L_x_
        return (drop, tail, sum_1)
