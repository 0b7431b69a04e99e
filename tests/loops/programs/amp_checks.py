"""Mixed precision with a gradient scaler. PLANTED: every weight is checked for NaN before and after the update."""

import torch
import torch.nn as nn
import torch.nn.functional as F

PLANTED = ("assert_finite",)


class Mixer(nn.Module):
    def __init__(self, tokens=16, d=64, depth=8):
        super().__init__()
        self.tok = nn.ModuleList(nn.Sequential(nn.LayerNorm(tokens), nn.Linear(tokens, tokens)) for _ in range(depth))
        self.ch = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU()) for _ in range(depth))
        self.fc = nn.Linear(d, 10)

    def forward(self, x):
        for tok, ch in zip(self.tok, self.ch, strict=True):
            x = x + tok(x.transpose(1, 2)).transpose(1, 2)
            x = x + ch(x)
        return self.fc(x.mean(1))


def assert_finite(model):  # planted
    for name, p in model.named_parameters():
        for part in p.detach().flatten().chunk(8):
            if torch.isnan(part).any().item() or torch.isinf(part).any().item():
                raise FloatingPointError(name)


def main(watch):
    model = Mixer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu")
    with watch.recording(model):
        for _ in range(watch.total):
            with watch("load_data"):
                x, y = torch.randn(32, 16, 64), torch.randint(0, 10, (32,))
            with watch("zero_grad"):
                optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                with watch("forward"):
                    logits = model(x)
                with watch("loss"):
                    loss = F.cross_entropy(logits, y)
            with watch("loss"):
                scaled = scaler.scale(loss)
            with watch("backward"):
                scaled.backward()
            with watch("optimizer"):
                scaler.unscale_(optimizer)
            with watch("clipping"):
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            assert_finite(model)  # planted
            with watch("optimizer"):
                scaler.step(optimizer)
                scaler.update()
            assert_finite(model)  # planted
            watch.step()
