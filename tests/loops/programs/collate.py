"""Text classification with batches of texts of unequal length. PLANTED: the collate function pads value by value."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PLANTED = ("pad_collate",)


class Sentences(Dataset):
    def __init__(self, n):
        random.seed(0)
        self.rows = [([random.randrange(1, 900) for _ in range(random.randrange(20, 100))], i % 4) for i in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def pad_collate(batch):  # planted
    longest = max(len(tokens) for tokens, _ in batch)
    padded = torch.zeros(len(batch), longest, dtype=torch.long)
    for i, (tokens, _) in enumerate(batch):
        for j, token in enumerate(tokens):
            padded[i, j] = token
    return padded, torch.tensor([label for _, label in batch])


class GRUClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(900, 64, padding_idx=0)
        self.rnn = nn.GRU(64, 96, batch_first=True)
        self.fc = nn.Linear(96, 4)

    def forward(self, x):
        out, _ = self.rnn(self.emb(x))
        return self.fc(out.mean(1))


def main(watch):
    model = GRUClassifier()
    optimizer = torch.optim.Adam(model.parameters())
    loss_fn = nn.CrossEntropyLoss()
    train_loader = DataLoader(Sentences(32 * watch.total), batch_size=32, collate_fn=pad_collate)
    with watch.recording(model, batch_size=32):
        for x, y in watch.next_of(train_loader):  # planted
            with watch("zero_grad"):
                optimizer.zero_grad()
            with watch("forward"):
                pred = model(x)
            with watch("loss"):
                loss = loss_fn(pred, y)
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optimizer.step()
            watch.step()
