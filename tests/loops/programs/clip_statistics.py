"""A plain classifier that clips its gradients. PLANTED: statistics of every gradient before each update."""

import torch
from torch import nn

PLANTED = ("gradient_statistics",)


def gradient_statistics(model):  # planted
    summary = {}
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        summary[name] = {
            "norm": gradient.norm().item(),
            "histogram": torch.histc(gradient, 64).tolist(),
            "top": gradient.flatten().sort().values[-5:].tolist(),
        }
    return summary


def main(watch):
    model = nn.Sequential(*[layer for _ in range(12) for layer in (nn.Linear(192, 192), nn.ReLU())])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.MSELoss()
    with watch.recording(model, batch_size=128):
        for _ in range(watch.total):
            with watch("load_data"):
                x, y = torch.randn(128, 192), torch.randn(128, 192)
            with watch("zero_grad"):
                optimizer.zero_grad()
            with watch("forward"):
                out = model(x)
            with watch("loss"):
                loss = criterion(out, y)
            with watch("backward"):
                loss.backward()
            with watch("clipping"):
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            gradient_statistics(model)  # planted
            with watch("optimizer"):
                optimizer.step()
            watch.step()
