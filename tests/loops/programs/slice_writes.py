"""A recurrent filter over a signal. PLANTED: its output is written into slices of one tensor, position by position."""

import torch
from torch import nn

PLANTED = ("CopySlices", "RecurrentFilter", "SliceBackward", "SelectBackward")


class RecurrentFilter(nn.Module):
    def __init__(self, channels=48):
        super().__init__()
        self.a, self.b = nn.Linear(channels, channels), nn.Linear(channels, channels)

    def forward(self, signal):
        batch, length, channels = signal.shape
        out = torch.zeros(batch, length, channels)
        drive = self.b(signal)
        state = torch.zeros(batch, channels)
        for t in range(length):
            state = torch.tanh(self.a(state) + drive[:, t])  # planted
            out[:, t] = state  # planted
        return out


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.filter = RecurrentFilter()
        self.readout = nn.Linear(48, 4)

    def forward(self, signal):
        return self.readout(self.filter(signal))  # planted


def main(watch):
    model = Model()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    with watch.recording(model):
        for _ in range(watch.total):
            with watch("load_data"):
                signal, target = torch.randn(16, 120, 48), torch.randn(16, 120, 4)
            with watch("forward"):
                out = model(signal)
            with watch("loss"):
                loss = ((out - target) ** 2).mean()
            with watch("zero_grad"):
                optimizer.zero_grad()
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optimizer.step()
            watch.step()
