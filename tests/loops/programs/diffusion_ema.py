"""Denoising diffusion with an average of the weights. PLANTED: the average is made one weight at a time, on copies."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

PLANTED = ("update_ema",)


class ResBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(4, c), nn.Conv2d(c, c, 3, padding=1)
        self.t = nn.Linear(32, c)
        self.n2, self.c2 = nn.GroupNorm(4, c), nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.t(t)[:, :, None, None]
        return x + self.c2(F.silu(self.n2(h)))


class UNet(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.inp, self.out = nn.Conv2d(1, c, 3, padding=1), nn.Conv2d(c, 1, 3, padding=1)
        self.blocks = nn.ModuleList(ResBlock(c) for _ in range(4))

    def forward(self, x, t):
        freq = torch.exp(-math.log(1e4) * torch.arange(16) / 16)
        emb = torch.cat([(t[:, None] * freq).sin(), (t[:, None] * freq).cos()], 1)
        h = self.inp(x)
        for block in self.blocks:
            h = block(h, emb)
        return self.out(h)


@torch.no_grad()
def update_ema(ema, model, decay=0.999):  # planted
    old, new = copy.deepcopy(ema.state_dict()), copy.deepcopy(model.state_dict())
    for key in old:
        for i in range(len(old[key].view(-1)[:50])):
            old[key].view(-1)[i] = decay * old[key].view(-1)[i] + (1 - decay) * new[key].view(-1)[i]
    ema.load_state_dict(old)


def main(watch):
    net = UNet()
    ema = copy.deepcopy(net).eval()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)
    images = torch.rand(256, 1, 16, 16)
    with watch.recording(net, batch_size=32):
        for _ in range(watch.total):
            with watch("load_data"):
                x0 = images[torch.randint(0, len(images), (32,))] * 2 - 1
            with watch("forward"):
                t = torch.randint(0, 1000, (32,))
                noise = torch.randn_like(x0)
                a = alphas[t][:, None, None, None]
                pred = net(a.sqrt() * x0 + (1 - a).sqrt() * noise, t)
            with watch("loss"):
                loss = F.mse_loss(pred, noise)
            with watch("zero_grad"):
                opt.zero_grad()
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                opt.step()
            update_ema(ema, net)  # planted
            watch.step()
