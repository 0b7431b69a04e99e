"""Regression with a logger. PLANTED: histograms of all weights are written as JSON after each step."""

import json

import torch
from torch import nn

PLANTED = ("log_histograms", "HistogramLogger")


class HistogramLogger:
    def __init__(self, path):
        self.file = open(path, "w")  # noqa: SIM115

    def log_histograms(self, model, step):  # planted
        for name, p in model.named_parameters():
            counts, edges = torch.histogram(p.detach(), bins=200)
            row = {"step": step, "name": name, "counts": counts.tolist(), "edges": edges.tolist()}
            self.file.write(json.dumps(row, indent=1) + "\n")
            self.file.flush()


class Residual(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))

    def forward(self, x):
        return x + self.body(x)


def train(watch, model, logger):
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-3)
    for step in range(watch.total):
        with watch("load_data"):
            x = torch.randn(128, 160)
            y = x.roll(1, 1)
        with watch("forward"):
            prediction = model(x)
        with watch("loss"):
            loss = nn.functional.l1_loss(prediction, y)
        with watch("zero_grad"):
            optimizer.zero_grad()
        with watch("backward"):
            loss.backward()
        with watch("optimizer"):
            optimizer.step()
        logger.log_histograms(model, step)  # planted
        watch.step()


def main(watch):
    model = nn.Sequential(*[Residual(160) for _ in range(5)])
    with watch.recording(model, batch_size=128):
        train(watch, model, HistogramLogger("histograms.jsonl"))
