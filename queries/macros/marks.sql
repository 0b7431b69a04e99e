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

-- Whether an op belongs to autograd itself: a node, or autograd's call of the node.
create or replace macro is_op_of_autograd(name) as
regexp_matches(name, '^(autograd|torch::autograd)::');

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

-- Whether an optimizer has an implementation on lists of tensors, `foreach` or `fused` (torch/optim).
create or replace macro has_list_update(optimizer) as
optimizer not in ('LBFGS', 'SparseAdam');

-- Whether an optimizer has a fused implementation on the CPU (torch/optim, `fused`).
create or replace macro has_fused_cpu_update(optimizer) as
optimizer in ('Adam', 'AdamW', 'SGD', 'Adagrad');

-- Whether an op is a gradient scaler's check for infinite gradients (torch/amp/grad_scaler.py).
create or replace macro is_infinity_check(name) as
name = 'aten::_amp_foreach_non_finite_check_and_unscale_';

-- Whether an op is a gradient scaler's update of the scale (torch/amp/grad_scaler.py).
create or replace macro is_scale_update(name) as
name = 'aten::_amp_update_scale_';

-- Whether an op is the autograd node that adds to the gradient of a parameter
-- (torch/csrc/autograd/functions/accumulate_grad.h).
create or replace macro is_gradient_accumulation(name) as
name = 'torch::autograd::AccumulateGrad';

-- Whether an event is the backward node of an op, or autograd's call of the node.
create or replace macro is_backward_of_op(name) as
regexp_matches(name, 'Backward\d*$');

-- Backward node of a slice, also from autograd's call of the node: `CopySlices`, `SelectBackward`, `SliceBackward`;
-- empty for other names (torch/csrc/autograd/functions/tensor.cpp).
create or replace macro slice_node_of(name) as
regexp_extract(
    name,
    '^(?:autograd::engine::evaluate_function: )?(?:torch::autograd::)?(CopySlices$|(?:Select|Slice)Backward)\d*$',
    1
);

-- Whether an op is the call of a collective (torch/csrc/distributed/c10d).
create or replace macro is_collective_op(name) as
regexp_matches(name, '^(c10d::|nccl:|record_param_comms$)');

-- Whether an op is the call of a collective, or the wait for one, in eager or compiled code.
create or replace macro is_collective_or_wait_op(name) as
regexp_matches(name, '^(c10d|_?c10d_functional)::');

-- Whether an op broadcasts in place.
create or replace macro is_broadcast_op(name) as
regexp_matches(name, '^c10d::\w*broadcast_$');

-- Whether a range is torch's mark around a collective that always runs on the CPU.
create or replace macro is_host_collective_mark(name) as
regexp_matches(name, '^(gloo|mpi):');

-- Whether torch's mark around a collective shows a send or a receive.
create or replace macro is_send_receive_mark(name) as
regexp_matches(name, ':(send|recv)');

-- Whether a python frame compiles code (torch/_dynamo/convert_frame.py).
create or replace macro is_compile_frame(name) as
regexp_matches(name, 'torch/_dynamo/convert_frame\.py\(\d+\): (_compile|compile_inner)$');

-- Whether a python frame collects garbage, or empties PyTorch's cache of GPU memory.
create or replace macro is_memory_release_frame(name) as
regexp_matches(name, '^<built-in (method|function) collect of module|torch/\w+/memory\.py\(\d+\): empty_cache$');

-- Whether an op or range is a part of DataParallel: copies of the model and the batch, and their backward nodes
-- (torch/nn/parallel/_functions.py).
create or replace macro is_data_parallel_op(name) as
regexp_matches(name, '^(Broadcast|Scatter|Gather|ReduceAddCoalesced)(Backward)?$');
