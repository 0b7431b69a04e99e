"""Policy gradients, from scratch. PLANTED: returns are summed in python, for each step of an episode anew."""

import math

import torch
from torch import nn
from torch.distributions import Categorical

PLANTED = ("discounted_returns",)


class CartPole:
    def reset(self):
        self.s = [0.0, 0.01, 0.02, 0.0]
        return self.s

    def step(self, action):
        x, v, th, w = self.s
        force = 10.0 if action else -10.0
        acc = (9.8 * math.sin(th) - math.cos(th) * force / 1.1) / 0.72
        self.s = [x + 0.02 * v, v + 0.02 * force, th + 0.02 * w, w + 0.02 * acc]
        return self.s, 1.0


def discounted_returns(rewards, gamma=0.99):  # planted
    returns = []
    for t in range(len(rewards)):
        total = 0.0
        for k in range(t, len(rewards)):
            total += gamma ** (k - t) * float(rewards[k])
        returns.append(total)
    return torch.tensor(returns)


def main(watch):
    policy = nn.Sequential(nn.Linear(4, 128), nn.Tanh(), nn.Linear(128, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    env = CartPole()
    with watch.recording(policy):
        for _ in range(watch.total):
            state, log_probs, rewards = env.reset(), [], []
            with watch("forward"):
                for _ in range(100):
                    dist = Categorical(logits=policy(torch.tensor(state)))
                    action = dist.sample()
                    log_probs.append(dist.log_prob(action))
                    state, reward = env.step(action.item())
                    rewards.append(torch.tensor(reward))
            returns = discounted_returns(rewards)  # planted
            with watch("loss"):
                returns = (returns - returns.mean()) / returns.std()
                loss = -(torch.stack(log_probs) * returns).sum()
            with watch("zero_grad"):
                optimizer.zero_grad()
            with watch("backward"):
                loss.backward()
            with watch("optimizer"):
                optimizer.step()
            watch.step()
