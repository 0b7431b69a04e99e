"""Contrastive learning with a queue of negatives. PLANTED: keys enter the queue one by one."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

PLANTED = ("dequeue_and_enqueue", "MoCo")


def encoder():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 64)
    )


class MoCo(nn.Module):
    def __init__(self, K=4096, m=0.99, T=0.07):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q = encoder()
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for param in self.encoder_k.parameters():
            param.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(64, K), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def momentum_update(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters(), strict=True):
            k.data = k.data * self.m + q.data * (1.0 - self.m)

    @torch.no_grad()
    def dequeue_and_enqueue(self, keys):  # planted
        for key in keys:
            for _ in range(4):
                ptr = int(self.queue_ptr)
                self.queue[:, ptr] = key
                self.queue_ptr[0] = (ptr + 1) % self.K

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            k = F.normalize(self.encoder_k(im_k), dim=1)
        l_pos = torch.einsum("nc,nc->n", q, k).unsqueeze(-1)
        l_neg = torch.einsum("nc,ck->nk", q, self.queue.clone().detach())
        logits = torch.cat([l_pos, l_neg], dim=1) / self.T
        return logits, torch.zeros(logits.shape[0], dtype=torch.long), k


def main(watch):
    model = MoCo()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.encoder_q.parameters(), 0.03, momentum=0.9)
    with watch.recording(model, batch_size=64):
        for _ in range(watch.total):
            with watch("load_data"):
                images = torch.rand(64, 3, 16, 16)
                views = images.flip(3), images + 0.05 * torch.randn_like(images)
            with watch("forward"):
                output, target, keys = model(*views)
            with watch("loss"):
                loss = criterion(output, target)
            with watch("zero_grad"):
                optimizer.zero_grad()
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optimizer.step()
            model.momentum_update()
            model.dequeue_and_enqueue(keys)  # planted
            watch.step()
