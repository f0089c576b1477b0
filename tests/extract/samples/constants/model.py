import math
import torch
from torch import device, inf, nan


class GraphModule(torch.nn.Module):
    def forward(
        self,
        L_x_: torch.Tensor,
    ):
        dev = device(type="cuda", index=0)
        a = torch.arange(0, 8, dtype=torch.int64, device=device(type="cuda", index=0))
        b = torch.full((2, 8), torch.finfo(torch.float32).min, device=torch.device("cuda"))
        c = torch.full([2, 8], float("inf"), dtype=torch.float32, device="cuda:0", layout=torch.strided)
        d = L_x_.to(torch.float16).to(L_x_.dtype)
        e = L_x_.contiguous(memory_format=torch.contiguous_format)
        f = torch.clamp(L_x_, min=-nan, max=math.pi)
        g = torch.mul(L_x_, 1e400)
        h = torch.tensor([[1, 2], [3, 4]], device=L_x_.device)
        i = torch.zeros(torch.Size([2, 3]))
        s = L_x_.shape
        n = s[1]
        r = L_x_.reshape(n, -1)
        t = L_x_.T
        info = torch.finfo(torch.float16)
        lo = info.max
        j = torch.full((1,), lo)
        return {"a": a, "b": (b, c), "d": d, "e": e, "f": f, "g": g, "h": h, "i": i, "r": r, "t": t, "j": j}
