"""Record three steps of a loop with Accelerate: `python docs/examples/accelerate_loop.py`."""

import torch
from accelerate import Accelerator

import hotline_analysis as ha

accelerator = Accelerator(cpu=True)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.TensorDataset(torch.randn(256, 64), torch.randint(0, 10, (256,)))
loader = torch.utils.data.DataLoader(data, batch_size=32)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
plan = torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=1)
with torch.profiler.profile(schedule=plan, on_trace_ready=ha.analyze(model, "run.hotline", batch_size=32)) as profiler:
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        accelerator.backward(loss)
        optimizer.step()
        profiler.step()
