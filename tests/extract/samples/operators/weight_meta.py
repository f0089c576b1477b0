class Program_weight_tensor_meta_L_x_:
    name = 'L_x_'
    shape = [2, 8]
    dtype = "torch.float32"
    device = "cpu"
    mean = 0.0
    std = 1.0
    data = None


class Program_weight_tensor_meta_L_k_:
    name = 'L_k_'
    shape = [3]
    dtype = "torch.int64"
    device = "cpu"
    mean = None
    std = None
    data = [1, -2, 3]
