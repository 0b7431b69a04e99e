"""Hugging Face Trainer. PLANTED: a callback that looks at every gradient before the optimizer."""

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

from tests.loops.stopwatch import quiet

PLANTED = ("on_pre_optimizer_step", "GradientReport")


class GradientReport(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):  # planted
        report = []
        for name, p in model.named_parameters():
            if p.grad is not None:
                g = p.grad.float()
                report.append((name, g.norm().item(), g.abs().max().item(), g.std().item(), (g == 0).sum().item()))
        self.worst = sorted(report, key=lambda row: -row[1])[:5]


class EndStep(TrainerCallback):
    def __init__(self, watch):
        self.watch = watch

    def on_step_end(self, args, state, control, **kwargs):
        self.watch.step()


class Reviews(torch.utils.data.Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return {
            "input_ids": torch.randint(5, 400, (32,), generator=g),
            "attention_mask": torch.ones(32, dtype=torch.long),
            "labels": i % 2,
        }


def main(watch):
    config = BertConfig(
        vocab_size=400, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=128
    )
    model = BertForSequenceClassification(config)
    args = TrainingArguments(
        output_dir="out", max_steps=watch.total, per_device_train_batch_size=8, report_to=[], use_cpu=True,
        disable_tqdm=True, logging_strategy="no", save_strategy="no", max_grad_norm=1.0,
    )  # fmt: skip
    with quiet():
        trainer = Trainer(model=model, args=args, train_dataset=Reviews(), callbacks=[GradientReport(), EndStep(watch)])
        # what the stopwatch needs: the parts of the loop that the Trainer calls
        trainer.get_batch_samples = watch.timed(trainer.get_batch_samples, "load_data")
        trainer._prepare_inputs = watch.timed(trainer._prepare_inputs, "load_data")
        trainer.compute_loss = watch.timed(trainer.compute_loss, "forward+loss")
        trainer.accelerator.backward = watch.timed(trainer.accelerator.backward, "backward")
        trainer.accelerator.clip_grad_norm_ = watch.timed(trainer.accelerator.clip_grad_norm_, "clipping")
        trainer.create_optimizer()
        trainer.optimizer.step = watch.timed(trainer.optimizer.step, "optimizer")
        model.zero_grad = watch.timed(model.zero_grad, "zero_grad")
        with watch.recording(model):
            trainer.train()
