"""The change that each advice asks for: a title of a few words, and the code to copy.

`Advice.do` explains the change; here it is short enough for a card. A rule that is new is one row here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hotline_analysis.answers.rules import ANNOTATE_IT, NVTX_IT, SLOWEST, UNNAMED, Advice
from hotline_analysis.run.trace import Trace


@dataclass(frozen=True)
class Remedy:
    """A suggested change: a title of two to five words, and code of one to three lines.

    Without code, `Advice.do` stands in its place.
    """

    title: str
    code: str
    gains: bool = True
    """Whether the step gets shorter. Recording more only tells which code to change."""


_AUTOCAST = 'with torch.autocast("cuda", dtype=torch.bfloat16):\n    loss = model(batch)'
_WORKERS = "DataLoader(dataset, batch_size, num_workers=8,\n           prefetch_factor=4, persistent_workers=True)"
_FUSED = "optimizer = torch.optim.AdamW(\n    model.parameters(), fused=True)"
_COMPILED = "model = torch.compile(model)"
_GRAPHS = 'model = torch.compile(\n    model, mode="reduce-overhead")'
_SELDOM = "if step % 100 == 0:\n    ...  # this code"

REMEDIES: Mapping[str, Remedy] = {
    # backward
    "embedding_gradient": Remedy(
        "Use sparse embedding gradients",
        "nn.Embedding(count, size, sparse=True)\ntorch.optim.SparseAdam(embedding.parameters())",
    ),
    "slice_gradients": Remedy("Stack parts, do not write slices", "out = torch.stack(parts)"),
    # kernels
    "attention_not_fused": Remedy("Fuse the attention", "F.scaled_dot_product_attention(q, k, v)"),
    "conv_bias_before_norm": Remedy("Leave out the convolution's bias", "nn.Conv2d(..., bias=False)"),
    "copies_on_device": Remedy(
        "Copy less on the GPU", "# keep one layout and one type:\n# no contiguous(), to(dtype), cat() between ops"
    ),
    "elementwise_chains": Remedy("Fuse elementwise kernels", _COMPILED),
    "index_backward_sort": Remedy("Pick rows with index_select", "rows = torch.index_select(table, 0, index)"),
    "layout_transposes": Remedy(
        "Keep memory channels-last",
        "model = model.to(memory_format=torch.channels_last)\nx = x.to(memory_format=torch.channels_last)",
    ),
    "softmax_far_dimension": Remedy("Take softmax over the last dimension", "x.transpose(dim, -1).softmax(-1)"),
    "unaligned_matmul": Remedy("Pad matrices to multiples of 8", "size = -(-size // 8) * 8"),
    # launching
    "compiled_without_graphs": Remedy("Compile with CUDA graphs", _GRAPHS),
    "host_bound_launching": Remedy("Launch less: CUDA graphs", _GRAPHS),
    "small_grids": Remedy("Give each kernel more work", "DataLoader(dataset, batch_size=4 * batch_size)"),
    "tiny_kernels": Remedy("Fuse tiny kernels", _COMPILED),
    # loading
    "constants_from_cpu": Remedy("Keep constants on the GPU", 'self.register_buffer("name", constant)'),
    "cpu_tensors": Remedy("Move CPU tensors to the GPU", 'x = x.to("cuda", non_blocking=True)'),
    "loader_in_main_process": Remedy("Load batches in workers", _WORKERS),
    "loader_too_few_workers": Remedy("Load batches faster: more workers", _WORKERS),
    "preprocessing_outside_loader": Remedy(
        "Prepare data in the workers", "class Prepared(Dataset):\n    def __getitem__(self, index): ...  # this code"
    ),
    # memory
    "allocation_in_step": Remedy(
        "Do not allocate in the step", 'os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"'
    ),
    # optimizer
    "cpu_optimizer_not_fused": Remedy("Fuse the optimizer", _FUSED),
    "single_tensor_optimizer": Remedy("Fuse the optimizer", _FUSED),
    "zero_grad_writes": Remedy("Release gradients, write no zeros", "optimizer.zero_grad(set_to_none=True)"),
    # precision
    "fp32_on_cuda_cores": Remedy("Compute in TF32", 'torch.set_float32_matmul_precision("high")'),
    "fp32_where_half_would_do": Remedy("Compute in half precision", _AUTOCAST),
    "tf32_where_half_would_do": Remedy("Compute in half precision", _AUTOCAST),
    # python
    "evaluation_in_step": Remedy("Evaluate less often", "if step % 500 == 0:\n    evaluate(model)"),
    "files_written": Remedy("Write files less often", "if step % 100 == 0:\n    save(...)  # or in a thread"),
    "garbage_collection": Remedy(
        "Collect garbage less often", "gc.freeze(); gc.disable()\nif step % 500 == 0: gc.collect()"
    ),
    "graph_breaks": Remedy("Compile without graph breaks", "model = torch.compile(model, fullgraph=True)"),
    "module_loop": Remedy("Replace the loop over modules", "out, state = nn.LSTM(size, size)(sequence)"),
    "python_overhead": Remedy("Run less python between ops", _COMPILED),
    "recompilation": Remedy("Stop recompiling", "torch._dynamo.mark_dynamic(x, 0)\n# TORCH_LOGS=recompiles says why"),
    "scalar_loops": Remedy("Compute on whole tensors", "torch.where(mask, a, b)  # instead of a loop over values"),
    "slice_loops": Remedy("Compute on whole tensors", "torch.vmap(function)(batch)  # or torch.bmm"),
    "user_stretch": Remedy("Run this code less often", _SELDOM),
    # ranks
    "broadcast_buffers": Remedy("Do not broadcast buffers", "DistributedDataParallel(model, broadcast_buffers=False)"),
    "data_parallel": Remedy("Use DistributedDataParallel", "torchrun --nproc-per-node=8 train.py"),
    "exposed_collectives": Remedy("Hide the collectives", "work = dist.all_reduce(x, async_op=True)\n...; work.wait()"),
    "exposed_communication": Remedy(
        "Send fewer gradients", "with model.no_sync():  # but for the last micro-batch\n    loss.backward()"
    ),
    "late_rank": Remedy("Make the late rank faster", ""),
    "many_small_collectives": Remedy("Reduce gradients in buckets", "DistributedDataParallel(model, bucket_cap_mb=25)"),
    "parameter_gathers": Remedy(
        "Prefetch parameters",
        "FSDP(model, forward_prefetch=True,\n     backward_prefetch=BackwardPrefetch.BACKWARD_PRE)",
    ),
    "pipeline_bubble": Remedy("Use more micro-batches", "ScheduleInterleaved1F1B(stages, n_microbatches=4 * stages)"),
    "unseen_rank": Remedy("Record all ranks", "hotline report FOLDER  # with the traces of all ranks", gains=False),
    # waiting
    "explicit_synchronise": Remedy("Remove the synchronise", "# torch.cuda.synchronize()"),
    "full_queue": Remedy("Launch fewer, longer kernels", _COMPILED),
    "gradient_scaler": Remedy("Train in bfloat16", _AUTOCAST),
    "pageable_copies": Remedy(
        "Copy from pinned memory", "DataLoader(dataset, pin_memory=True)\nx = x.to(device, non_blocking=True)"
    ),
    "read_backs": Remedy(
        "Do not wait to read values back",
        "losses.append(loss.detach())\nif step % 100 == 0: print(torch.stack(losses).mean())",
    ),
    # places
    SLOWEST: Remedy("Speed up the slowest place", ""),
    UNNAMED: Remedy(
        "Name this time: record stacks",
        'profile(..., with_stack=True)\nwith hotline_analysis.annotate("NAME"): ...',
        gains=False,
    ),
}
_NAMING: Mapping[str, Remedy] = {
    ANNOTATE_IT: Remedy("Name this time: annotate it", 'with hotline_analysis.annotate("NAME"): ...', gains=False),
    NVTX_IT: Remedy("Name this time: NVTX ranges", 'with torch.cuda.nvtx.range("NAME"): ...', gains=False),
}
"""The changes for `UNNAMED` in a trace that stacks would not help, by `Advice.do`."""


_WHOLE_STEP = "step = torch.compile(train_step)\n# model, loss and optimizer in one function"
"""The change of `_COMPILED` for a program that compiles its model: the remaining python is around the model."""


def remedy_of(advice: Advice) -> Remedy | None:
    """The change for an advice; `None` for a rule without one."""
    return _NAMING.get(advice.do) or REMEDIES.get(advice.rule)


def code_for(trace: Trace, rank: int, code: str) -> str:
    """The code of a change for the program of a rank: with its own optimizer, and without compiling a model again.

    Without a single optimizer in the trace, AdamW is an example.
    """
    if code == _FUSED:
        names = trace.of(rank).sql(
            "select distinct optimizer_of_mark(name) as optimizer from name_info"
            " where rank = $rank and is_optimizer_mark(name) and optimizer_of_mark(name) != ''",
            rank=rank,
        )["optimizer"]
        return code.replace("AdamW", names[0]) if len(names) == 1 else code
    if code == _COMPILED:
        row = trace.of(rank).sql("select exists (from compiled_span where rank = $rank) as found", rank=rank)
        return _WHOLE_STEP if row["found"][0] else code
    return code
