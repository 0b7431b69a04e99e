"""Word vectors with negative sampling. PLANTED: negatives are drawn in python until none is a neighbour."""

import random

import torch
from torch import nn
from torch.nn import functional as F

PLANTED = ("draw_negatives", "make_batch")

VOCAB = 2000
corpus = [random.Random(0).randrange(VOCAB) for _ in range(20_000)]


def draw_negatives(center, context, k):  # planted
    negatives = []
    while len(negatives) < k:
        word = random.randrange(VOCAB)
        if word not in (center, context):
            negatives.append(word)
    return negatives


def make_batch(size=384, k=12):  # planted
    rows = []
    for _ in range(size):
        i = random.randrange(2, len(corpus) - 2)
        center, context = corpus[i], corpus[i + random.choice((-2, -1, 1, 2))]
        rows.append((center, context, draw_negatives(center, context, k)))
    return torch.tensor([r[0] for r in rows]), torch.tensor([r[1] for r in rows]), torch.tensor([r[2] for r in rows])


class SkipGram(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.inp, self.out = nn.Embedding(VOCAB, dim), nn.Embedding(VOCAB, dim)

    def forward(self, center, context, negatives):
        v = self.inp(center)
        positive = (v * self.out(context)).sum(1)
        negative = torch.bmm(self.out(negatives), v.unsqueeze(2)).squeeze(2)
        return positive, negative


def main(watch):
    model = SkipGram()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    with watch.recording(model):
        for _ in range(watch.total):
            with watch("load_data"):
                batch = make_batch()  # planted
            with watch("forward"):
                positive, negative = model(*batch)
            with watch("loss"):
                loss = -(F.logsigmoid(positive).mean() + F.logsigmoid(-negative).sum(1).mean())
            with watch("zero_grad"):
                optimizer.zero_grad()
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optimizer.step()
            watch.step()
