"""Vector quantization with its own autograd function. PLANTED: backward adds the gradients up row by row."""

import torch
import torch.nn as nn
import torch.nn.functional as F

PLANTED = ("Quantize", "QuantizeBackward")


class Quantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, codebook):
        index = torch.cdist(x, codebook).argmin(1)
        ctx.save_for_backward(index)
        ctx.size = codebook.shape
        return codebook[index]

    @staticmethod
    def backward(ctx, grad):  # planted
        (index,) = ctx.saved_tensors
        grad_codebook = torch.zeros(ctx.size)
        for row, code in enumerate(index.tolist()):
            grad_codebook[code] += grad[row]
        return grad, grad_codebook


class VQVAE(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, dim))
        self.dec = nn.Sequential(nn.Linear(dim, 256), nn.ReLU(), nn.Linear(256, 256))
        self.codebook = nn.Parameter(torch.randn(128, dim))

    def forward(self, x):
        return self.dec(Quantize.apply(self.enc(x), self.codebook))


def main(watch):
    model = VQVAE()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    with watch.recording(model, batch_size=512):
        for _ in range(watch.total):
            with watch("load_data"):
                x = torch.rand(512, 256)
            with watch("zero_grad"):
                optimizer.zero_grad()
            with watch("forward"):
                y = model(x)
            with watch("loss"):
                loss = F.mse_loss(y, x)
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optimizer.step()
            watch.step()
