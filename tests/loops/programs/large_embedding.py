"""A recommender with two optimizers. PLANTED: the table of items is large, and its gradient dense."""

import torch
import torch.nn as nn

PLANTED = ("items", "Embedding", "embedding_dense_backward", "sparse=True")


class TwoTower(nn.Module):
    def __init__(self, n_users=2000, n_items=150_000, dim=32):
        super().__init__()
        self.users = nn.Embedding(n_users, dim)
        self.items = nn.Embedding(n_items, dim)  # planted
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, user, item):
        return self.mlp(torch.cat([self.users(user), self.items(item)], 1)).squeeze(1)  # planted


def main(watch):
    model = TwoTower()
    tables = torch.optim.SGD([*model.users.parameters(), *model.items.parameters()], lr=0.1)
    dense = torch.optim.Adam(model.mlp.parameters(), lr=1e-3)
    with watch.recording(model, batch_size=1024):
        for _ in range(watch.total):
            with watch("load_data"):
                user, item = torch.randint(0, 2000, (1024,)), torch.randint(0, 150_000, (1024,))
                clicked = torch.randint(0, 2, (1024,)).float()
            with watch("forward"):
                score = model(user, item)
            with watch("loss"):
                loss = nn.functional.binary_cross_entropy_with_logits(score, clicked)
            with watch("zero_grad"):
                tables.zero_grad()
                dense.zero_grad()
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                tables.step()
                dense.step()
            watch.step()
