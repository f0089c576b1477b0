class Program_weight_tensor_meta_s0:
    name = 's0'
    shape = []
    dtype = "torch.int64"
    device = "cpu"
    mean = None
    std = None
    data = [4]


class Program_weight_tensor_meta_L_x_:
    name = 'L_x_'
    shape = [1, 6, 24]
    dtype = "torch.float32"
    device = "cpu"
    mean = 0.0
    std = 1.0
    data = None


class Program_weight_tensor_meta_L_self_head_dim:
    name = 'L_self_head_dim'
    shape = []
    dtype = "torch.int64"
    device = "cpu"
    mean = 0.0
    std = 1.0
    data = [4]


class Program_weight_tensor_meta_L_self_modules_n_buffers_eps_:
    name = 'L_self_modules_n_buffers_eps_'
    shape = []
    dtype = "torch.float64"
    device = "cpu"
    mean = 0.1
    std = None
    data = [0.1]
