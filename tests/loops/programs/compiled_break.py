"""A compiled model. PLANTED: a function in numpy breaks the graph, and computes value by value."""

import numpy as np
import torch
import torch.nn as nn

PLANTED = ("running_median",)


@torch.compiler.disable
def running_median(x, width=5):  # planted
    rows = x.detach().numpy()
    out = np.empty_like(rows)
    for row in range(0, len(rows)):
        for col in range(0, rows.shape[1], 4):
            out[row, col : col + 4] = np.median(rows[row, max(0, col - width) : col + width])
    return torch.from_numpy(out)


class Denoiser(nn.Module):
    def __init__(self, d=128):
        super().__init__()
        self.inp = nn.Sequential(nn.Linear(d, 256), nn.GELU(), nn.Linear(256, d))
        self.out = nn.Sequential(nn.Linear(2 * d, 256), nn.GELU(), nn.Linear(256, d))

    def forward(self, x):
        h = self.inp(x)
        smooth = running_median(h)  # planted
        return self.out(torch.cat([h, smooth], 1))


def main(watch):
    model = torch.compile(Denoiser())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with watch.recording(model, batch_size=32):
        for _ in range(watch.total):
            with watch("load_data"):
                clean = torch.randn(32, 128)
                noisy = clean + 0.1 * torch.randn(32, 128)
            with watch("zero_grad"):
                optimizer.zero_grad()
            with watch("forward"):
                out = model(noisy)
            with watch("loss"):
                loss = nn.functional.mse_loss(out, clean)
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optimizer.step()
            watch.step()
