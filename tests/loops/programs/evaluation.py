"""A language model of characters. PLANTED: the model is evaluated on text kept aside after each step."""

import torch
import torch.nn as nn
from torch.nn import functional as F

PLANTED = ("evaluate",)

block_size, vocab, n_embd = 48, 64, 64
text = torch.randint(0, vocab, (20_000,))


class CharLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, n_embd), nn.Embedding(block_size, n_embd)
        layer = nn.TransformerEncoderLayer(n_embd, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(n_embd, vocab)

    def forward(self, idx):
        T = idx.shape[1]
        x = self.tok(idx) + self.pos(torch.arange(T))
        return self.head(self.blocks(x, mask=torch.triu(torch.full((T, T), float("-inf")), 1)))


def get_batch(size=16):
    at = torch.randint(len(text) - block_size - 1, (size,))
    x = torch.stack([text[i : i + block_size] for i in at])
    y = torch.stack([text[i + 1 : i + block_size + 1] for i in at])
    return x, y


@torch.no_grad()
def evaluate(model, watch):  # planted
    model.eval()
    losses = []
    for _ in range(4):
        with watch("load_data"):
            x, y = get_batch()
        with watch("forward"):
            logits = model(x)
        with watch("loss"):
            loss = F.cross_entropy(logits.view(-1, vocab), y.view(-1))
        losses.append(loss.item())
    model.train()
    return sum(losses) / len(losses)


def main(watch):
    model = CharLM()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    with watch.recording(model):
        for _ in range(watch.total):
            with watch("load_data"):
                x, y = get_batch()
            with watch("forward"):
                logits = model(x)
            with watch("loss"):
                loss = F.cross_entropy(logits.view(-1, vocab), y.view(-1))
            with watch("zero_grad"):
                optimizer.zero_grad(set_to_none=True)
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optimizer.step()
            evaluate(model, watch)  # planted
            watch.step()
