"""Sharpness-aware minimization with an optimizer of one's own. PLANTED: its update runs over rows of each weight."""

import torch
from torch import nn

PLANTED = ("RowSGD",)


class RowSGD(torch.optim.Optimizer):
    """Each row of a weight has its own learning rate."""

    def __init__(self, params, lr=0.01):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):  # planted
        for group in self.param_groups:
            for p in group["params"]:
                rows, grads = p.reshape(len(p), -1), p.grad.reshape(len(p), -1)
                for row, grad in zip(rows, grads, strict=True):
                    row -= group["lr"] / (grad.norm() + 1e-3) * grad


def main(watch):
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = RowSGD(model.parameters())
    loss_fn = nn.CrossEntropyLoss()
    with watch.recording(model, batch_size=512):
        for _ in range(watch.total):
            with watch("load_data"):
                x, y = torch.randn(512, 256), torch.randint(0, 10, (512,))
            with watch("forward"):
                logits = model(x)
            with watch("loss"):
                loss = loss_fn(logits, y)
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optimizer.step()  # planted
            with watch("zero_grad"):
                optimizer.zero_grad()
            watch.step()
