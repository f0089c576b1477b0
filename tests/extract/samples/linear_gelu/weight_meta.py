class Program_weight_tensor_meta_L_x_:
    name = 'L_x_'
    shape = [2, 8]
    dtype = "torch.float32"
    device = "cpu"
    mean = 0.0
    std = 1.0
    data = None


class Program_weight_tensor_meta_L_self_modules_fc_parameters_weight_:
    name = 'L_self_modules_fc_parameters_weight_'
    shape = [4, 8]
    dtype = "torch.float32"
    device = "cuda:0"
    mean = 0.0
    std = 0.044
    data = None


class Program_weight_tensor_meta_L_self_modules_fc_parameters_bias_:
    name = 'L_self_modules_fc_parameters_bias_'
    shape = [4]
    dtype = "torch.float32"
    device = "cuda:0"
    mean = 0.0
    std = 0.0
    data = None
