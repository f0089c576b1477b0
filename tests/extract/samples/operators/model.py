import torch


class GraphModule(torch.nn.Module):
    def forward(
        self,
        L_x_: torch.Tensor,
        L_k_: torch.Tensor,
    ):
        a = L_x_ + 1
        b = 2 - a
        c = b * a / 3.5
        d = c // 2 % 5
        e = d ** 2
        f = e @ L_x_.t()
        g = -f
        m = L_k_ & (L_k_ | 1)
        h = ~(m ^ 3)
        i = (L_x_ < 0) | (L_x_ >= 1e-05)
        j = L_x_ == 1
        k = L_x_ != float("-inf")
        le = 1 <= L_x_
        sh = L_k_ << 1
        sr = sh >> 2
        return (g, h, i, j, k, le, sr)
