import operator
import torch


class GraphModule(torch.nn.Module):
    def forward(
        self,
        L_x_: torch.Tensor,
    ):
        torch._C._log_api_usage_once("torch.nn.functional.normalize")
        _set_grad_enabled = torch._C._set_grad_enabled(False)
        _set_grad_enabled = None
        _enter_autocast = torch.amp.autocast_mode._enter_autocast("cuda", torch.bfloat16, False, None)
        y = L_x_ * 2
        _exit_autocast = torch.amp.autocast_mode._exit_autocast(_enter_autocast)
        _exit_autocast = _enter_autocast = None
        assert True, "holds"
        z: torch.Tensor = torch.ops.aten.relu.default(y)
        w = torch.ops.aten.add.Tensor(z, y, alpha=2)
        q = operator.add(w, torch.functional.einsum("ij,ij->i", w, w).unsqueeze(1))
        q.__add__(1)
        pass
        return q
