"""Gradient accumulation. PLANTED: after each small batch the loss of every token is logged, one by one."""

import json

import torch
from torch import nn

PLANTED = ("log_tokens",)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(500, 64)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(64, 4, 128, 0.0, batch_first=True) for _ in range(2))
        self.lm_head = nn.Linear(64, 500)

    def forward(self, ids):
        hidden = self.embedding(ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.lm_head(hidden)


def log_tokens(losses, file):  # planted
    for position, value in enumerate(losses):
        file.write(json.dumps({"position": position, "loss": round(value.item(), 4)}) + "\n")


def main(watch):
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    accumulation_steps = 4
    with open("tokens.jsonl", "w") as log, watch.recording(net):
        for _ in range(watch.total):
            for _ in range(accumulation_steps):
                with watch("load_data"):
                    batch = torch.randint(0, 500, (8, 33))
                with watch("forward"):
                    logits = net(batch[:, :-1])
                with watch("loss"):
                    per_token = nn.functional.cross_entropy(
                        logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="none"
                    )
                    loss = per_token.mean() / accumulation_steps
                with watch("backward"):
                    loss.backward()
                log_tokens(per_token.detach(), log)  # planted
            with watch("optimizer"):
                optimizer.step()
            with watch("zero_grad"):
                optimizer.zero_grad()
            watch.step()
