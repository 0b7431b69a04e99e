"""Hugging Face Accelerate. PLANTED: predictions are gathered and counted one by one in each step."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PLANTED = ("update_scores",)


def update_scores(scores, predictions, references):  # planted
    for prediction, reference in zip(predictions, references, strict=True):
        key = (int(prediction), int(reference))
        scores[key] = scores.get(key, 0) + 1


def main(watch):
    accelerator = Accelerator(cpu=True)
    model = nn.Sequential(
        nn.Linear(200, 400), nn.ReLU(), nn.Dropout(0.1), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 20)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    n = 256 * watch.total
    loader = DataLoader(TensorDataset(torch.randn(n, 200), torch.randint(0, 20, (n,))), batch_size=256, shuffle=True)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    scores = {}
    with watch.recording(model, batch_size=256):
        for inputs, targets in watch.next_of(loader):
            with watch("forward"):
                outputs = model(inputs)
            with watch("loss"):
                loss = nn.functional.cross_entropy(outputs, targets)
            with watch("backward"):
                accelerator.backward(loss)
            with watch("optimizer"):
                optimizer.step()
            scheduler.step()
            with watch("zero_grad"):
                optimizer.zero_grad()
            update_scores(scores, *accelerator.gather_for_metrics((outputs.argmax(-1), targets)))  # planted
            watch.step()
