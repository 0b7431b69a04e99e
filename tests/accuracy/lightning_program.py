"""A program that Lightning runs, which marks its own phases."""

# Checked with torch and Lightning installed and without: then everything from them is Any.
# mypy: disallow-subclassing-any=False, warn-return-any=False, warn-unused-ignores=False, disallow-untyped-calls=False

from __future__ import annotations

import importlib
from typing import Any

from tests.accuracy.marks import mark

torch: Any = importlib.import_module("torch")
lightning: Any = importlib.import_module("pytorch_lightning")
profilers: Any = importlib.import_module("pytorch_lightning.profilers")
adam: Any = importlib.import_module("torch.optim.adam")
nn: Any = torch.nn
functional: Any = torch.nn.functional

STEPS = 4


class OptimizerNet(lightning.LightningModule):  # type: ignore[misc]
    """Its name says nothing of what its hooks do. It logs a metric, and Lightning clips its gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.last = nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 5)

    def forward(self, x: Any) -> Any:
        return self.last(self.act(self.first(x)) * 0.5)

    def training_step(self, batch: Any, _: int) -> Any:
        x, y = batch
        with mark("forward"):
            out = self(x)
        with mark("loss"):
            loss = functional.cross_entropy(out, y)
        self.log("train_loss", loss)
        return loss

    def backward(self, loss: Any) -> None:
        with mark("backward"):
            loss.backward()

    def optimizer_zero_grad(self, *arguments: Any) -> None:
        with mark("zero_grad"):
            arguments[-1].zero_grad()

    def configure_gradient_clipping(self, *arguments: Any, **settings: Any) -> None:
        with mark("clipping"):
            super().configure_gradient_clipping(*arguments, **settings)

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters())

    def train_dataloader(self) -> Any:
        data = torch.utils.data.TensorDataset(torch.randn(512, 24), torch.randint(0, 5, (512,)))
        return torch.utils.data.DataLoader(data, batch_size=32)


class Stepping(lightning.Callback):  # type: ignore[misc]
    """Ends the profiler's step after each batch."""

    def __init__(self, profiler: Any) -> None:
        self.profiler = profiler

    def on_train_batch_end(self, *_: Any) -> None:
        self.profiler.step()


def trained(model: Any, **settings: Any) -> None:
    lightning.Trainer(
        max_steps=STEPS + 4,
        accelerator="cpu",
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **settings,
    ).fit(model)
