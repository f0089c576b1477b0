import torch


class GraphModule(torch.nn.Module):
    def forward(
        self,
        L_x_: torch.Tensor,
        L_self_modules_fc_parameters_weight_: torch.nn.parameter.Parameter,
        L_self_modules_fc_parameters_bias_: torch.nn.parameter.Parameter,
    ):
        """One layer."""
        l_x_ = L_x_
        weight = (
            L_self_modules_fc_parameters_weight_
        )
        linear = torch._C._nn.linear(
            l_x_,
            weight,
            L_self_modules_fc_parameters_bias_,
        )
        l_x_ = (
            weight
        ) = L_self_modules_fc_parameters_bias_ = None
        act = torch._C._nn.gelu(linear, approximate="tanh")
        linear = None
        out = torch.nn.functional.dropout(act, 0.1, False, False)
        act = None
        return (out,)
