-- Marks of PyTorch among names of events: steps, the optimizer, the data loader, autograd, torch.compile, collectives.
-- Macros of `code` decide on files and on ranges of the user; the table `phase_names` decides on phases.

-- Whether a range is a step of the profiler's schedule (torch/profiler/profiler.py).
create or replace macro is_step_mark(name) as
starts_with(name, 'ProfilerStep#');

-- Whether a range is a call of `Optimizer.step` (torch/optim/optimizer.py).
create or replace macro is_optimizer_mark(name) as
starts_with(name, 'Optimizer.step#');

-- Class of the optimizer in the mark of its step; empty for other names.
create or replace macro optimizer_of_mark(name) as
regexp_extract(name, '^Optimizer\.step#(\w+)\.step$', 1);

-- Whether a range is a fetch of the data loader (torch/utils/data/dataloader.py).
create or replace macro is_loader_mark(name) as
starts_with(name, 'enumerate(DataLoader)#');

-- Whether an event is autograd's call of a node (torch/csrc/autograd/engine.cpp).
create or replace macro is_engine_mark(name) as
starts_with(name, 'autograd::engine::');

-- Whether a span is work of torch.compile to trace or compile (torch/_dynamo/utils.py).
create or replace macro is_compile_mark(name) as
ends_with(name, '(dynamo_timed)');

-- Whether an event is a region of compiled code (torch/_dynamo/eval_frame.py).
create or replace macro is_compiled_region(name) as
starts_with(name, 'Torch-Compiled Region');

-- Whether an event is a graph of compiled code, in a region or in backward (torch/_functorch, torch/_inductor).
create or replace macro is_compiled_graph(name) as
regexp_matches(name, '^(CompiledFunction|## Call CompiledFxGraph)');

-- Whether a range is torch's mark around the call of a collective, by backend (torch/csrc/distributed/c10d).
create or replace macro is_collective_mark(name) as
regexp_matches(name, '^(nccl|gloo|mpi|ucc|xccl|hccl):');

-- Whether a type of modules is a loss, by its name.
create or replace macro is_loss_type(type) as
regexp_matches(type, 'Loss|Criterion');

-- Whether a kernel multiplies a matrix by a vector, or two vectors, for which tensor cores have no use.
create or replace macro is_vector_product(name) as
regexp_matches(name, 'gemv|dot_kernel');
