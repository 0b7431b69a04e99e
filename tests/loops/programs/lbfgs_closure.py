"""Fitting a field with LBFGS and a closure. PLANTED: a penalty that is summed point by point."""

import torch
from torch import nn

PLANTED = ("roughness",)


def roughness(values):  # planted
    total = values.new_zeros(())
    for i in range(1, len(values) - 1):
        total = total + (values[i - 1] - 2 * values[i] + values[i + 1]).square().sum()
    return total


def main(watch):
    net = nn.Sequential(nn.Linear(2, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 1))
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=2, history_size=5)
    points = torch.rand(2000, 2)
    truth = (points[:, :1] * 6).sin() * points[:, 1:]

    def closure():
        with watch("zero_grad"):
            optimizer.zero_grad()
        with watch("forward"):
            predicted = net(points)
        with watch("loss"):
            loss = (predicted - truth).square().mean() + 1e-4 * roughness(predicted[:60])  # planted
        with watch("backward"):
            loss.backward()
        return loss

    with watch.recording(net):
        for _ in range(watch.total):
            with watch("optimizer"):
                optimizer.step(closure)
            watch.step()
