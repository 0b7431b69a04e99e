"""Q-learning with a target network. PLANTED: the replay buffer stacks its samples one by one, in python."""

import random
from collections import deque

import torch
from torch import nn

PLANTED = ("sample", "ReplayBuffer")


class ReplayBuffer:
    def __init__(self, capacity):
        self.buffer = deque(maxlen=capacity)

    def push(self, *transition):
        self.buffer.append(transition)

    def sample(self, batch_size):  # planted
        batch = [self.buffer[random.randrange(len(self.buffer))] for _ in range(batch_size)]
        states = torch.stack([torch.tensor(row[0]) for row in batch])
        actions = torch.tensor([row[1] for row in batch])
        rewards = torch.tensor([row[2] for row in batch])
        following = torch.stack([torch.tensor(row[3]) for row in batch])
        return states, actions, rewards, following


def q_net():
    return nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 6))


def main(watch):
    policy_net, target_net = q_net(), q_net()
    target_net.load_state_dict(policy_net.state_dict())
    optimizer = torch.optim.RMSprop(policy_net.parameters(), lr=1e-3)
    memory = ReplayBuffer(10_000)
    for _ in range(2000):
        memory.push(torch.randn(32).tolist(), random.randrange(6), random.random(), torch.randn(32).tolist())
    with watch.recording(policy_net, batch_size=512):
        for _ in range(watch.total):
            with watch("load_data"):
                state, action, reward, next_state = memory.sample(512)  # planted
            with watch("forward"):
                q = policy_net(state).gather(1, action[:, None]).squeeze(1)
                with torch.no_grad():
                    best = target_net(next_state).max(1).values
            with watch("loss"):
                loss = nn.functional.smooth_l1_loss(q, reward + 0.99 * best)
            with watch("zero_grad"):
                optimizer.zero_grad()
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optimizer.step()
            with torch.no_grad():
                for target, online in zip(target_net.parameters(), policy_net.parameters(), strict=True):
                    target.mul_(0.995).add_(online, alpha=0.005)
            watch.step()
