"""A transformer with activation checkpointing. PLANTED: each block builds its mask in python, twice."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

PLANTED = ("sliding_window_mask", "Block")


def sliding_window_mask(n, window, landmarks=(0, 1, 2, 3)):  # planted
    rows = []
    for i in range(n):
        row = [False] * n
        for j in range(n):
            row[j] = (0 <= i - j < window) or (j <= i and j in landmarks)
        rows.append(row)
    return torch.tensor(rows)


class Block(nn.Module):
    def __init__(self, d, heads=4):
        super().__init__()
        self.heads, self.ln1, self.ln2 = heads, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = sliding_window_mask(n, 16)  # planted
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.proj(a.transpose(1, 2).reshape(b, n, d))
        return x + self.ff(self.ln2(x))


class LongFormer(nn.Module):
    def __init__(self, d=64, depth=3):
        super().__init__()
        self.emb = nn.Embedding(256, d)
        self.blocks = nn.ModuleList(Block(d) for _ in range(depth))
        self.head = nn.Linear(d, 256)

    def forward(self, ids):
        x = self.emb(ids)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


def main(watch):
    model = LongFormer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    with watch.recording(model):
        for _ in range(watch.total):
            with watch("load_data"):
                ids = torch.randint(0, 256, (4, 161))
                x, y = ids[:, :-1], ids[:, 1:]
            with watch("forward"):
                logits = model(x)
            with watch("loss"):
                loss = F.cross_entropy(logits.transpose(1, 2), y)
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optimizer.step()
            with watch("zero_grad"):
                optimizer.zero_grad()
            watch.step()
