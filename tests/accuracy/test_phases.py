"""Phases of the ops that stand around the layers, in plain traces of loops as people write them.

The loop itself says what is what, in annotations that are hidden before the trace is annotated. The loss counts as
forward: where the model ends and a loss of several ops begins is a matter of taste.
"""

from __future__ import annotations

import bisect
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn
functional: Any = torch.nn.functional

STEPS = 5
TRUTH = "truth:"
MARKS = re.compile(r"^(ProfilerStep#|Optimizer\.|enumerate\(DataLoader\)#)")

Run = Callable[[Any], list[Any]]


def phase(name: str) -> Any:
    return torch.profiler.record_function(TRUTH + name)


def batches(*tensors: Any) -> Any:
    data = torch.utils.data.TensorDataset(*tensors)
    return iter(torch.utils.data.DataLoader(data, batch_size=8, shuffle=True))


def fetch(loader: Any) -> Any:
    with phase("load_data"):
        return [part.to("cpu") for part in next(loader)]


class Words(nn.Module):  # type: ignore[misc]
    """Positions and a mask are made before the first layer."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, width), nn.Embedding(12, width)
        self.mix, self.norm, self.head = nn.Linear(width, width), nn.LayerNorm(width), nn.Linear(width, 50)

    def forward(self, words: Any) -> Any:
        places = torch.arange(words.shape[1]).unsqueeze(0).expand_as(words)
        mask = torch.full((words.shape[1],) * 2, float("-inf")).triu(1)
        x = self.words(words) + self.places(places)
        x = x + (x @ x.transpose(1, 2) + mask).softmax(-1) @ self.mix(x)
        return self.head(self.norm(x))


def net(*sizes: int) -> Any:
    layers = [part for pair in itertools.pairwise(sizes) for part in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def words(profiler: Any) -> list[Any]:
    model = Words()
    optimizer = torch.optim.AdamW(model.parameters())
    loader = batches(torch.randint(0, 50, (80, 12)), torch.randint(0, 50, (80, 12)))
    for _ in range(STEPS):
        x, y = fetch(loader)
        with phase("zero_grad"):
            optimizer.zero_grad()
        with phase("forward"):
            loss = functional.cross_entropy(model(x).view(-1, 50), y.view(-1))
        with phase("backward"):
            loss.backward()
        with phase("optimizer"):
            optimizer.step()
        with phase("other"):
            loss.item()
        profiler.step()
    return [model]


def words_without_loader(profiler: Any) -> list[Any]:
    """The batch is cut from a long text at places drawn at random."""
    model, text = Words(), torch.randint(0, 50, (500,))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        with phase("load_data"):
            at = torch.randint(len(text) - 13, (8,))
            x = torch.stack([text[i : i + 12] for i in at])
            y = torch.stack([text[i + 1 : i + 13] for i in at])
        with phase("forward"):
            loss = functional.cross_entropy(model(x).view(-1, 50), y.view(-1))
        with phase("zero_grad"):
            optimizer.zero_grad()
        with phase("backward"):
            loss.backward()
        with phase("clipping"):
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with phase("optimizer"):
            optimizer.step()
        profiler.step()
    return [model]


def noise(profiler: Any) -> list[Any]:
    """Diffusion: a time and noise are drawn for each image."""
    model, left = net(17, 32, 16), torch.linspace(0.9, 0.1, 10)
    optimizer, loader = torch.optim.Adam(model.parameters()), batches(torch.randn(80, 16))
    for _ in range(STEPS):
        (x,) = fetch(loader)
        with phase("forward"):
            time, drawn = torch.randint(0, 10, (len(x),)), torch.randn_like(x)
            part = left[time][:, None]
            mixed = part.sqrt() * x + (1 - part).sqrt() * drawn
            loss = functional.mse_loss(model(torch.cat([mixed, time[:, None] / 10], 1)), drawn)
        with phase("zero_grad"):
            optimizer.zero_grad()
        with phase("backward"):
            loss.backward()
        with phase("optimizer"):
            optimizer.step()
        profiler.step()
    return [model]


def metrics(profiler: Any) -> list[Any]:
    """Between the loss and `zero_grad`, as in PyTorch's own example for ImageNet."""
    model = net(16, 32, 10)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    loader = batches(torch.randn(80, 16), torch.randint(0, 10, (80,)))
    for _ in range(STEPS):
        x, y = fetch(loader)
        with phase("forward"):
            out = model(x)
            loss = functional.cross_entropy(out, y)
        with phase("other"):
            (out.topk(3, 1)[1].t() == y[None]).float().sum().item()
        with phase("zero_grad"):
            optimizer.zero_grad()
        with phase("backward"):
            loss.backward()
        with phase("optimizer"):
            optimizer.step()
        profiler.step()
    return [model]


def scaled(profiler: Any) -> list[Any]:
    """Mixed precision: gradients are unscaled and clipped, and the scale is changed after the optimizer."""
    model, scaler = net(16, 32, 10), torch.amp.GradScaler("cpu")
    optimizer = torch.optim.AdamW(model.parameters())
    loader = batches(torch.randn(80, 16), torch.randint(0, 10, (80,)))
    for _ in range(STEPS):
        x, y = fetch(loader)
        with phase("zero_grad"):
            optimizer.zero_grad()
        with phase("forward"), torch.autocast("cpu", torch.bfloat16):
            loss = scaler.scale(functional.cross_entropy(model(x), y))
        with phase("backward"):
            loss.backward()
        with phase("optimizer"):
            scaler.unscale_(optimizer)
        with phase("clipping"):
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with phase("optimizer"):
            scaler.step(optimizer)
            scaler.update()
        profiler.step()
    return [model]


def averaged(profiler: Any) -> list[Any]:
    """An average of the weights is kept after each step."""
    model, average = net(16, 32, 32, 10), net(16, 32, 32, 10)
    optimizer = torch.optim.AdamW(model.parameters())
    loader = batches(torch.randn(80, 16), torch.randint(0, 10, (80,)))
    for _ in range(STEPS):
        x, y = fetch(loader)
        with phase("forward"):
            loss = functional.cross_entropy(model(x), y)
        with phase("zero_grad"):
            optimizer.zero_grad()
        with phase("backward"):
            loss.backward()
        with phase("optimizer"):
            optimizer.step()
        with phase("other"), torch.no_grad():
            for old, new in zip(average.parameters(), model.parameters(), strict=True):
                old.mul_(0.99).add_(new, alpha=0.01)
            loss.item()
        profiler.step()
    return [model]


def adversary(profiler: Any) -> list[Any]:
    """The noise that a generator starts from is no batch."""
    generator, judge = net(4, 32, 16), net(16, 32, 1)
    of_generator, of_judge = torch.optim.Adam(generator.parameters()), torch.optim.Adam(judge.parameters())
    loader, loss_of = batches(torch.randn(80, 16)), functional.binary_cross_entropy_with_logits
    for _ in range(STEPS):
        (x,) = fetch(loader)
        with phase("zero_grad"):
            of_judge.zero_grad()
        with phase("forward"):
            real = loss_of(judge(x), torch.ones(len(x), 1))
        with phase("backward"):
            real.backward()
        with phase("forward"):
            made = generator(torch.randn(len(x), 4))
            false = loss_of(judge(made.detach()), torch.zeros(len(x), 1))
        with phase("backward"):
            false.backward()
        with phase("optimizer"):
            of_judge.step()
        with phase("zero_grad"):
            of_generator.zero_grad()
        with phase("forward"):
            loss = loss_of(judge(made), torch.ones(len(x), 1))
        with phase("backward"):
            loss.backward()
        with phase("optimizer"):
            of_generator.step()
        profiler.step()
    return [judge, generator]


def captured(run: Run, folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The list of modules that a user would write, and the trace."""
    torch.manual_seed(0)
    plan = torch.profiler.schedule(wait=0, warmup=1, active=STEPS)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=plan) as profiler:
        models = run(profiler)
    profiler.export_chrome_trace(str(folder / "whole.json"))
    trace: dict[str, Any] = json.loads((folder / "whole.json").read_text())
    return [listed(f"model{number}", model) for number, model in enumerate(models)], trace


def listed(name: str, module: Any) -> dict[str, Any]:
    parts = [listed(part, child) for part, child in module.named_children()]
    return {"name": name, "type": type(module).__name__} | ({"ops": parts} if parts else {})


def right_pct(trace: dict[str, Any], folder: Path, *, marks: bool, model: bool) -> float:
    """Share of the ops that get the phase that the loop says."""
    told = [event for event in trace["traceEvents"] if str(event.get("name")).startswith(TRUTH)]
    told.sort(key=lambda event: float(event["ts"]))
    starts = [event["ts"] for event in told]
    plain = [
        event
        for event in trace["traceEvents"]
        if event not in told and (marks or event.get("cat") != "user_annotation" or not MARKS.search(event["name"]))
    ]
    (folder / "plain.json").write_text(json.dumps(trace | {"traceEvents": plain}))
    with ha.load(folder / "plain.json", model=folder / "model.json" if model else None) as found:
        rows = found.sql("select event_id, phase from annotated_event where category = 'cpu_op'").rows()
    right: list[bool] = []
    for number, name in rows:
        at = plain[number]["ts"]
        around = told[max(bisect.bisect_right(starts, at) - 1, 0)]
        if around["ts"] <= at < around["ts"] + around["dur"]:
            right.append(bool(around["name"].removeprefix(TRUTH) == ("forward" if name == "loss" else name)))
    assert right
    return 100.0 * sum(right) / len(right)


@pytest.mark.slow
@pytest.mark.parametrize("run", [words, words_without_loader, noise, metrics, scaled, averaged, adversary])
@pytest.mark.sampled
def test_ops_around_the_layers(run: Run, tmp_path: Path) -> None:
    modules, trace = captured(run, tmp_path)
    (tmp_path / "model.json").write_text(json.dumps(modules))
    shares = {
        (marks, model): right_pct(trace, tmp_path, marks=marks, model=model)
        for marks in (True, False)
        for model in (True, False)
    }
    # Without marks, a pause of the machine in a step may look like the border of two.
    assert all(share >= (99.5 if marks else 98.0) for (marks, _), share in shares.items()), shares
