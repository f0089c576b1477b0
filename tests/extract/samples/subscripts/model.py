import torch


class GraphModule(torch.nn.Module):
    def forward(
        self,
        L_x_: torch.Tensor,
    ):
        a = L_x_[(slice(None, None, None), slice(1, -1, 2))]
        b = L_x_[..., None]
        c = L_x_[:, 0]
        d = L_x_[(Ellipsis, None)]
        e = L_x_[1:2, :3]
        parts = L_x_.chunk(2, dim=-1)
        p0 = parts[0]
        p1 = parts[1]
        parts = None
        u, v = torch.split(L_x_, 4, dim=1)
        return (a, [b, (c, d)], e, p0, p1, u, v)
