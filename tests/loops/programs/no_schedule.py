"""A loop that is recorded as a whole, without a schedule. PLANTED: each image is augmented pixel by pixel."""

import random

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

PLANTED = ("__getitem__", "Photos", "jitter")


def jitter(channel):  # planted
    factor = random.uniform(0.8, 1.2)
    return torch.tensor([[min(1.0, pixel * factor + 0.001) for pixel in row] for row in channel.tolist()])


class Photos(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):  # planted
        image = torch.rand(3, 32, 32)
        return torch.stack([jitter(channel) for channel in image]), i % 10


def main(watch):
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = DataLoader(Photos(16 * watch.total), batch_size=16, shuffle=True)
    with watch.recording(model, schedule=False):
        for x, y in watch.next_of(loader):  # planted
            with watch("forward"):
                out = model(x)
            with watch("loss"):
                loss = nn.functional.cross_entropy(out, y)
            with watch("zero_grad"):
                optimizer.zero_grad()
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optimizer.step()
            watch.step()
