"""A sequence model. PLANTED: a checkpoint is written after each step, in case the machine is taken away."""

import os

import torch
import torch.nn as nn

PLANTED = ("save_checkpoint",)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(3000, 128)
        self.lstm = nn.LSTM(128, 128, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(256, 12)

    def forward(self, words):
        return self.tags(self.lstm(self.embed(words))[0])


def save_checkpoint(model, optimizer, step, path="last.pt"):  # planted
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    with open(path + ".tmp", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".tmp", path)


def train_one(watch, model, optimizer, words, tags):
    with watch("zero_grad"):
        optimizer.zero_grad()
    with watch("forward"):
        logits = model(words)
    with watch("loss"):
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tags.flatten())
    with watch("backward"):
        loss.backward()
    with watch("optimizer"):
        optimizer.step()
    return loss


def main(watch):
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with watch.recording(model):
        for step in range(watch.total):
            with watch("load_data"):
                words, tags = torch.randint(0, 3000, (16, 20)), torch.randint(0, 12, (16, 20))
            train_one(watch, model, optimizer, words, tags)
            save_checkpoint(model, optimizer, step)  # planted
            watch.step()
