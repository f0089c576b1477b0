import torch

print(torch.tanh(torch.ones(3)))
