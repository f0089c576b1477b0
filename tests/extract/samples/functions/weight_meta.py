class Program_weight_tensor_meta_L_x_:
    name = "L_x_"
    shape = [1, 4, 8, 8]
    dtype = "torch.float32"
    device = "cuda:0"
    mean = 0.0
    std = 1.0
    data = None


class Program_weight_tensor_meta_L_w_:
    name = "L_w_"
    shape = [10, 3]
    dtype = "torch.float32"
    device = "cuda:0"
    mean = 0.0
    std = 1.0
    data = None


class Program_weight_tensor_meta_L_p_:
    name = "L_p_"
    shape = []
    dtype = "torch.float64"
    device = "cuda:0"
    mean = 0.0
    std = 1.0
    data = [0.1]


class Program_weight_tensor_meta_L_ids_:
    name = "L_ids_"
    shape = [1, 5]
    dtype = "torch.int64"
    device = "cuda:0"
    mean = 0.0
    std = 1.0
    data = None
