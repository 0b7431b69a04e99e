"""Record three steps of a Hugging Face Trainer: `python docs/examples/hf_trainer.py`."""

# Also checked without transformers installed; everything from transformers is then Any.
# mypy: disallow-subclassing-any=False, warn-unused-ignores=False

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

import hotline_analysis as ha


class Profile(TrainerCallback):
    """Run a profiler during training. Each training step ends a step of the profiler."""

    def __init__(self, profiler: torch.profiler.profile) -> None:
        self.profiler = profiler

    def on_train_begin(self, *_: object, **__: object) -> None:
        self.profiler.start()

    def on_step_end(self, *_: object, **__: object) -> None:
        self.profiler.step()

    def on_train_end(self, *_: object, **__: object) -> None:
        self.profiler.stop()


config = LlamaConfig(vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4)
model = LlamaForCausalLM(config)
tokens = torch.randint(0, 512, (64, 32))
data = [{"input_ids": row, "labels": row} for row in tokens]
plan = torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=1)
profiler = torch.profiler.profile(
    schedule=plan, record_shapes=True, on_trace_ready=ha.analyze(model, "run.hotline", batch_size=8)
)
arguments = TrainingArguments(
    "out", max_steps=6, per_device_train_batch_size=8, report_to=[], use_cpu=True, save_strategy="no"
)
Trainer(model, arguments, train_dataset=data, callbacks=[Profile(profiler)]).train()
