"""DDP with two processes (gloo). PLANTED: rank 1 augments its batches slowly, and rank 0 waits for it."""

import os
import pickle
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

PLANTED = ("augment",)


def augment(x, rank):  # planted
    if rank == 1:  # where the fast library is not installed
        rows = x.tolist()
        for _ in range(6):
            rows = [[0.99 * value + 0.001 for value in row] for row in rows]
        x = torch.tensor(rows)
    return x + 0.01 * torch.randn_like(x)


def train(rank, watch, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    model = DDP(nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with watch.recording(model, batch_size=64):
        for _ in range(watch.total):
            with watch("load_data"):
                x, y = torch.rand(64, 256), torch.randint(0, 10, (64,))
                x = augment(x, rank)  # planted
            with watch("forward"):
                out = model(x)
            with watch("loss"):
                loss = nn.functional.cross_entropy(out, y)
            with watch("zero_grad"):
                optimizer.zero_grad()
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optimizer.step()
            watch.step()
    with open(f"steps.{rank}", "wb") as file:
        pickle.dump(watch.steps, file)
    dist.barrier()
    dist.destroy_process_group()


def main(watch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(train, (watch, port), 2)
    for rank in range(2):
        with open(f"steps.{rank}", "rb") as file:
            watch.ranks.append(pickle.load(file))
