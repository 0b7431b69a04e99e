"""A classifier whose learning rate follows a plan. PLANTED: the scheduler reads the whole plan again in each step."""

import json

import torch
from torch import nn

PLANTED = ("rate_of_plan",)


def rate_of_plan(step):  # planted
    with open("plan.json") as file:
        plan = json.load(file)
    past = [entry for entry in plan if entry["from"] <= step]
    return max(past, key=lambda entry: entry["from"])["rate"]


def main(watch):
    with open("plan.json", "w") as file:
        json.dump([{"from": i, "rate": 1 / (1 + i), "note": "decay"} for i in range(12_000)], file)
    model = nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate_of_plan)
    data = torch.utils.data.TensorDataset(torch.randn(4096, 128), torch.randint(0, 10, (4096,)))
    loader = torch.utils.data.DataLoader(data, batch_size=256, shuffle=True)
    with watch.recording(model, batch_size=256):
        for _, (x, y) in zip(range(watch.total), watch.next_of(loader), strict=False):
            with watch("forward"):
                logits = model(x)
            with watch("loss"):
                loss = nn.functional.cross_entropy(logits, y)
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optimizer.step()
            with watch("zero_grad"):
                optimizer.zero_grad()
            scheduler.step()  # planted
            watch.step()
