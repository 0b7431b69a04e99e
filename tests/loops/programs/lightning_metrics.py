"""Lightning. PLANTED: a callback computes a confusion matrix in python after each batch."""

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.loops.stopwatch import quiet

PLANTED = ("on_train_batch_end", "confusion_matrix", "Confusion")


class LitClassifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 10),
        )  # fmt: skip

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        loss = F.cross_entropy(logits, y)
        self.log("train_loss", loss)
        return {"loss": loss, "preds": logits.argmax(1), "target": y}

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Confusion(pl.Callback):
    """Rows of targets, columns of predictions, over all images so far."""

    def __init__(self):
        self.pairs = []

    def confusion_matrix(self):  # planted
        return [
            [sum(1 for t, p in self.pairs[-1500:] if t == row and p == col) for col in range(10)] for row in range(10)
        ]

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):  # planted
        self.pairs += [(t.item(), p.item()) for t, p in zip(outputs["target"], outputs["preds"], strict=True)] * 6
        self.matrix = self.confusion_matrix()


class EndStep(pl.Callback):
    def __init__(self, watch):
        self.watch = watch

    def on_train_batch_end(self, *_):
        self.watch.step()


def main(watch):
    data = TensorDataset(torch.randn(64 * watch.total, 3, 24, 24), torch.randint(0, 10, (64 * watch.total,)))
    model = LitClassifier()
    model.training_step = watch.timed(model.training_step, "forward+loss")
    model.backward = watch.timed(model.backward, "backward")
    model.optimizer_zero_grad = watch.timed(model.optimizer_zero_grad, "zero_grad")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.configure_optimizers = lambda: optimizer
    model.optimizer_step = watch.timed(model.optimizer_step, "optimizer")
    loader = Timed(watch, DataLoader(data, batch_size=64))
    with quiet():
        trainer = pl.Trainer(
            max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, callbacks=[Confusion(), EndStep(watch)],
        )  # fmt: skip
        with watch.recording(model):
            trainer.fit(model, loader)


class Timed:
    """A loader whose batches are timed."""

    def __init__(self, watch, loader):
        self.watch, self.loader = watch, loader

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        return self.watch.next_of(self.loader)
