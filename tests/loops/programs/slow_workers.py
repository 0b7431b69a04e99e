"""Images by a worker process. PLANTED: `__getitem__` is slow, and one worker cannot keep up."""

import random
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

PLANTED = ("__getitem__", "Photos", "DataLoader", "loader", "next_of")


class Photos(Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, i):  # planted
        until = time.perf_counter() + 0.004  # decoding and colour jitter
        while time.perf_counter() < until:
            random.random()
        return torch.rand(3, 24, 24), i % 10


def main(watch):
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(4608, 10)
    )
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    loader = DataLoader(Photos(), batch_size=16, num_workers=1)  # planted
    with watch.recording(net, batch_size=16):
        for i, (img, target) in enumerate(watch.next_of(loader)):  # planted
            if i == watch.total:
                break
            with watch("forward"):
                out = net(img)
            with watch("loss"):
                loss = nn.functional.cross_entropy(out, target)
            with watch("zero_grad"):
                opt.zero_grad()
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                opt.step()
            watch.step()
