"""A graph network written by hand. PLANTED: messages are added up node by node in forward."""

import torch
from torch import nn

PLANTED = ("aggregate", "GraphLayer")


class GraphLayer(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.own, self.near = nn.Linear(d_in, d_out), nn.Linear(d_in, d_out)

    def aggregate(self, x, neighbours):  # planted
        return torch.stack([x[nodes].mean(0) for nodes in neighbours])

    def forward(self, x, neighbours):
        return torch.relu(self.own(x) + self.near(self.aggregate(x, neighbours)))  # planted


class GNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.cls = GraphLayer(48, 64), GraphLayer(64, 64), nn.Linear(64, 7)

    def forward(self, x, neighbours):
        return self.cls(self.conv2(self.conv1(x, neighbours), neighbours))


def main(watch):
    model = GNN()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    x, labels = torch.randn(250, 48), torch.randint(0, 7, (250,))
    neighbours = [torch.randint(0, 250, (6,)) for _ in range(250)]
    with watch.recording(model):
        for _ in range(watch.total):
            with watch("zero_grad"):
                optimizer.zero_grad()
            with watch("forward"):
                out = model(x, neighbours)
            with watch("loss"):
                loss = nn.functional.cross_entropy(out, labels)
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optimizer.step()
            watch.step()
