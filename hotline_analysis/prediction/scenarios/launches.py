"""Scenarios with fewer launches by the CPU: fused optimizers, CUDA graphs, and compiled code."""

from __future__ import annotations

import polars as pl

from hotline_analysis.prediction.engine.edits import (
    Between,
    Edit,
    Fuse,
    Gap,
    Number,
    Scale,
    Stretch,
)
from hotline_analysis.prediction.engine.loop import Loop
from hotline_analysis.prediction.scenarios.known import (
    COMPUTES,
    GPU,
    KNOWN,
    MATMUL,
    MODEL,
    NAME,
    NO_GPU,
    PAGEABLE,
    Given,
    Made,
    among,
    busy_ns,
    calls_that_waited,
    chosen_of,
    each_end,
    made_of,
    scenario,
)


@scenario(
    "PyTorch, torch.optim, `foreach` and `fused`; Daydream (ATC 2020) for FusedAdam.",
    # Adam as single ops reads and writes about 30 times the parameters, and fused 7 times: a quarter. SGD with momentum
    # moves 8 and 5 times: 0.6. The low end is below a quarter, because small kernels take longer than their bytes need.
    factor=Given((0.15, 0.3, 0.6), "factor for GPU time: passes over the parameters"),
)
def _fused_optimizer(loop: Loop, factor: Number) -> Made:
    """One kernel updates many parameters (fused=True)."""
    optimizer = pl.col("phase") == "optimizer"
    ops = chosen_of(loop, optimizer & (pl.col("category") == "cpu_op"))
    kernels = chosen_of(loop, optimizer & COMPUTES)
    if ops.is_empty() and kernels.is_empty():
        return "The trace shows no optimizer."
    fused = r"(?i)multi_tensor_apply|_fused_|_foreach_|FusedAdam|FusedSgd"
    time = busy_ns(kernels.filter(NAME.str.contains(fused)))
    if time > 0.5 * busy_ns(kernels) > 0 or ops["name"].str.contains(r"^aten::_(fused|foreach)_").any():
        return "The optimizer is already fused, or works on lists of tensors."
    if loop.has_gpu_work and kernels.is_empty():
        return "The optimizer launches no kernels."
    if kernels.is_empty():
        if ops.height < 8 * loop.count:
            return "The optimizer has few ops: there is nothing to fuse."
        return _fused_on_cpu(loop, ops)
    assumption = (
        "The update reads and writes each parameter and its state once, where single ops do so two to seven times."
    )
    if factor == KNOWN["fused_optimizer"].parameters["factor"].default and (parts := _passes(loop, ops, kernels)):
        factor, assumption = parts
    # About one launch remains for this many tensors: `multi_tensor_apply` takes up to 110 addresses at once
    # (ATen/native/cuda/MultiTensorApply.cuh), and the ops of a parameter become one.
    share = max(1, -(-kernels.height // 110)) / kernels.height
    edits: list[Edit] = [
        Scale(among(kernels), factor),
        Gap(among(kernels), 0.0),
        Scale(optimizer & (pl.col("category") == "cpu_op"), (share, max(share, 0.05), max(share, 0.2))),
    ]
    return made_of(
        "fused_optimizer",
        [*edits, *_without_loop(loop, optimizer & ~GPU)],
        assumption,
    )


def _passes(loop: Loop, ops: pl.DataFrame, kernels: pl.DataFrame) -> tuple[Number, str] | None:
    """Return the time factors of a fused update from its bytes, and a sentence; None if gradient sizes are unknown.

    Adam reads the gradient, the parameter and two averages, and writes all except the gradient: 7 times the bytes. SGD
    with momentum reads three and writes two, without momentum two and one. The low end assumes the memory's peak; the
    middle assumes the speed reached by memory-bound kernels here, and the high end half this speed.
    """
    limits = loop.kernel_limits.filter(pl.col("memory_ns") > 0)
    gradients = loop.trace.of(loop.rank).sql(
        "select bytes from gradient where rank = $rank and start_ns >= $start_ns and start_ns < $end_ns",
        rank=loop.rank,
        start_ns=loop.start_ns,
        end_ns=loop.end_ns,
    )
    if limits.is_empty() or gradients.is_empty() or gradients["bytes"].null_count():
        return None
    rows = limits.filter(pl.col("memory_ns") == pl.col("now_ns")).join(
        loop.events.work.select("event_id", "dur_ns"), on="event_id"
    )
    use = min(1.0, float(rows["memory_ns"].sum()) / max(busy_ns(rows), 1))
    if not use:
        return None
    per_byte = float(limits["memory_ns"].sum()) / float(limits["bytes"].sum())
    is_adam = ops["name"].str.contains("(?i)adam|sqrt|addcdiv").any()
    low, middle = (7, 7) if is_adam else (3, 5)
    size = int(gradients["bytes"].sum())
    peak = per_byte * size / max(busy_ns(kernels), 1)
    sentence = f"It moves {middle} times the {size // loop.count:,} bytes of the gradients, at the speed of memory."
    return (min(1.0, low * peak), min(1.0, middle * peak / use), min(1.0, 2 * middle * peak / use)), sentence


def _without_loop(loop: Loop, optimizer: pl.Expr) -> list[Edit]:
    """Return edits that shorten the optimizer's loop over parameters: to 5 %, half, or not at all at the high end."""
    spans = _phase_spans(loop, ("optimizer",))
    return [] if spans.is_empty() else [Between(optimizer, (0.05, 0.5, 1.0), spans)]


def _phase_spans(loop: Loop, phases: tuple[str, ...]) -> pl.DataFrame:
    """Return the spans of threads in these phases."""
    return loop.trace.of(loop.rank).sql(
        "select track_id, start_ns, end_ns from phase_span where rank = $rank and start_ns < $end_ns"
        " and end_ns > $start_ns and list_contains($phases, phase)",
        rank=loop.rank,
        start_ns=loop.start_ns,
        end_ns=loop.end_ns,
        phases=list(phases),
    )


def _fused_on_cpu(loop: Loop, ops: pl.DataFrame) -> Made:
    """On a CPU, each op of a parameter has a fixed cost independent of its size; the remaining time is arithmetic."""
    price = float(ops["dur_ns"].quantile(0.1) or 0)
    total = busy_ns(ops)
    arithmetic = float((ops["dur_ns"] - price).clip(0).sum()) / max(total, 1)
    # Adam as single ops reads and writes about 30 times the parameters, fused 7 times (4 tensors, 3 of them written);
    # SGD with momentum 8 and 5 times.
    share = tuple(min(1.0, arithmetic * part + rest) for part, rest in ((0.15, 0.0), (0.35, 0.0), (0.8, 0.05)))
    optimizer = pl.col("phase") == "optimizer"
    return made_of(
        "fused_optimizer",
        [
            Scale(optimizer & (pl.col("category") == "cpu_op"), (share[0], share[1], share[2])),
            *_without_loop(loop, optimizer & ~GPU),
        ],
        "The update reads and writes each parameter and its state once, where single ops do so two to seven times.",
    )


@scenario(
    "CUDA C++ programming guide, “CUDA graphs”; launching one took 0.2 to 2.9 us per kernel on V100 and MI300, and"
    " kernels inside were 0 to 1 us apart.",
    launch_us=Given((10.0, 30.0, 60.0), "microseconds to launch a graph"),
    kernel_us=Given((0.2, 0.5, 3.0), "additional microseconds for each kernel of the graph"),
)
def _cuda_graph(loop: Loop, launch_us: Number, kernel_us: Number) -> Made:
    """A graph launches all kernels of forward and backward."""
    if not loop.has_gpu_work:
        return NO_GPU
    phases = pl.col("phase").is_in(["forward", "loss", "backward"])
    work = chosen_of(loop, GPU & phases)
    if work.is_empty():
        return "No kernel is known to belong to forward or backward."
    shared_launches = work.group_by("runtime_id").len().filter(pl.col("len") > 1, pl.col("runtime_id").is_not_null())
    if 2 * int(shared_launches["len"].sum()) > work.height:
        return "Graphs already launch the kernels."
    blockers = _graph_blockers(loop, work)
    if blockers:
        return f"A graph cannot hold the step: {'; '.join(blockers)}."
    kernel_count = work.height / loop.count
    host = chosen_of(loop, phases & ~GPU & (pl.col("category") != "python_function"))
    host = host.filter(pl.col("category").is_in(["cpu_op", "cuda_runtime", "cuda_driver", "user_annotation"]))
    per_step = each_end(lambda launch, kernel: 1000 * (launch + kernel_count * kernel), launch_us, kernel_us)
    spans = _phase_spans(loop, ("forward", "loss", "backward"))
    return made_of(
        "cuda_graph",
        [Stretch(among(host), per_step, spans), Gap(among(work), (0.0, 1000.0, 1000.0))],
        "Shapes are the same in every step, and python of the model has no effect that a replay would miss.",
    )


def _graph_blockers(loop: Loop, work: pl.DataFrame) -> list[str]:
    blockers = []
    waits = chosen_of(loop, pl.col("event_id").is_in(calls_that_waited(loop).implode()) & ~GPU & MODEL)
    if not waits.is_empty():
        often = max(1, round(waits.height / loop.count))
        times = "once" if often == 1 else f"{often:,} times"
        blockers.append(f"the CPU waits for the GPU {times} a step, as in event {waits['event_id'][0]}")
    pageable = work.filter(PAGEABLE)
    if not pageable.is_empty():
        blockers.append(f"pageable memory is copied, as in event {pageable['event_id'][0]}")
    allocations = chosen_of(loop, MODEL & NAME.is_in(["cudaMalloc", "hipMalloc", "cudaFree", "hipFree"]))
    if not allocations.is_empty():
        blockers.append(f"memory of the GPU is allocated, as in event {allocations['event_id'][0]}")
    kernels = work.sort("start_ns", "event_id").group_by("step", maintain_order=True).agg("short_name")
    if kernels["short_name"].n_unique() > 1:
        blockers.append("steps do not launch the same kernels")
    return blockers


@scenario(
    "PyTorch 2 (Ansel et al., ASPLOS 2024): Inductor fuses pointwise ops and reductions; a fused kernel reads and"
    " writes at least what the longest of them does, and at most what all do.",
    # Each of n kernels reads and writes. Fused, the values needed by backward are written, but nothing is read again:
    # (n + 1) / 2n, which is 0.6 for five kernels. The CPU time of compiled code, including guards and autograd, was
    # measured in CPU-bound steps: on an H100 and an H200, the steps of two models took 0.9 to 1.7 times as long
    # (bench_gpu_pairs.py).
    share=Given((0.0, 0.6, 1.0), "time of a fused kernel, as a share of the parts' time"),
    host=Given((0.3, 0.9, 1.5), "factor for CPU time in forward and backward"),
)
def _compile(loop: Loop, share: Number, host: Number) -> Made:
    """Kernels that follow each other and multiply no matrices become one (torch.compile)."""
    if not loop.has_gpu_work:
        return NO_GPU
    is_compiled = pl.col("is_compiled").fill_null(False) | NAME.str.contains("^triton_")
    if 2 * busy_ns(chosen_of(loop, GPU & is_compiled)) > busy_ns(loop.events.work):
        return "The model is already compiled."
    fusable = COMPUTES & ~MATMUL & MODEL & ~is_compiled & ~NAME.str.contains(r"(?i)flash|fmha|conv|gemm|cudnn|miopen")
    kernels = chosen_of(loop, fusable)
    if kernels.height < 2:
        return "Forward and backward have no kernels that could be fused."
    spans = MODEL & (pl.col("category") == "cpu_op")
    return made_of(
        "compile",
        [Fuse(fusable, share, host=False), Scale(spans, host)],
        "Kernels of one stream and phase are fused where nothing else is between them.",
        "The graph has no breaks, and shapes do not change.",
    )
