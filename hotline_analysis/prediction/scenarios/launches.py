"""How much the CPU launches: fused optimizers, CUDA graphs, and compiled code."""

from __future__ import annotations

import polars as pl

from hotline_analysis.prediction.edits import (
    Between,
    Edit,
    Fuse,
    Gap,
    Number,
    Scale,
    Stretch,
)
from hotline_analysis.prediction.loop import Loop
from hotline_analysis.prediction.scenarios.known import (
    COMPUTES,
    GPU,
    KNOWN,
    MATMUL,
    MODEL,
    NAME,
    NO_GPU,
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
    # Adam as single ops reads and writes some 30 times the parameters, and fused 7 times: a quarter. SGD with momentum
    # does so 8 and 5 times: 0.6. Less than a quarter, as small kernels take longer than their bytes.
    factor=Given((0.15, 0.3, 0.6), "by what the time of the GPU is multiplied: passes over the parameters"),
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
        return "The optimizer is fused, or works on lists of tensors, already."
    if loop.has_gpu_work and kernels.is_empty():
        return "The optimizer launches no kernel of its own."
    if kernels.is_empty():
        if ops.height < 8 * loop.count:
            return "The optimizer has few ops: there is nothing to fuse."
        return _fused_on_cpu(loop, ops)
    said = "The update reads and writes each parameter and its state once, where single ops do so two to seven times."
    if factor == KNOWN["fused_optimizer"].parameters["factor"].default and (parts := _passes(loop, ops, kernels)):
        factor, said = parts
    # A launch stays for about so many tensors: `multi_tensor_apply` takes up to 110 addresses at once
    # (ATen/native/cuda/MultiTensorApply.cuh), and the ops of a parameter become one.
    kept = max(1, -(-kernels.height // 110)) / kernels.height
    edits: list[Edit] = [
        Scale(among(kernels), factor),
        Gap(among(kernels), 0.0),
        Scale(optimizer & (pl.col("category") == "cpu_op"), (kept, max(kept, 0.05), 0.2)),
    ]
    return made_of(
        "fused_optimizer",
        [*edits, *_without_loop(loop, optimizer & ~GPU)],
        said,
    )


def _passes(loop: Loop, ops: pl.DataFrame, kernels: pl.DataFrame) -> tuple[Number, str] | None:
    """What part of its time a fused update takes by its bytes, if the trace tells how large gradients are.

    Adam reads gradient, parameter and two averages, and writes all but the first: 7 times the bytes. With momentum, SGD
    reads three and writes two, without it two and one. At the low end, memory goes at its peak; else as fast as it does
    here in kernels that it bounds, and at the high end half as fast.
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
    met = limits.filter(pl.col("memory_ns") == pl.col("now_ns")).join(
        loop.events.work.select("event_id", "dur_ns"), on="event_id"
    )
    use = min(1.0, float(met["memory_ns"].sum()) / max(busy_ns(met), 1))
    if not use:
        return None
    per_byte = float(limits["memory_ns"].sum()) / float(limits["bytes"].sum())
    is_adam = ops["name"].str.contains("(?i)adam|sqrt|addcdiv").any()
    low, middle = (7, 7) if is_adam else (3, 5)
    size = int(gradients["bytes"].sum())
    peak = per_byte * size / max(busy_ns(kernels), 1)
    said = f"It moves {middle} times the {size // loop.count:,} bytes of the gradients, at the speed of memory."
    return (min(1.0, low * peak), min(1.0, middle * peak / use), min(1.0, 2 * middle * peak / use)), said


def _without_loop(loop: Loop, optimizer: pl.Expr) -> list[Edit]:
    """The loop over parameters between the optimizer's ops goes, too: at the low end nearly all of it, else half."""
    around = _phase_spans(loop, ("optimizer",))
    return [] if around.is_empty() else [Between(optimizer, (0.05, 0.5, 1.0), around)]


def _phase_spans(loop: Loop, phases: tuple[str, ...]) -> pl.DataFrame:
    """When threads are in some phases."""
    return loop.trace.of(loop.rank).sql(
        "select track_id, start_ns, end_ns from phase_span where rank = $rank and start_ns < $end_ns"
        " and end_ns > $start_ns and list_contains($phases, phase)",
        rank=loop.rank,
        start_ns=loop.start_ns,
        end_ns=loop.end_ns,
        phases=list(phases),
    )


def _fused_on_cpu(loop: Loop, ops: pl.DataFrame) -> Made:
    """On a CPU, each op of a parameter has a price, whatever its size; what is beyond it is arithmetic."""
    price = float(ops["dur_ns"].quantile(0.1) or 0)
    total = busy_ns(ops)
    arithmetic = float((ops["dur_ns"] - price).clip(0).sum()) / max(total, 1)
    # Adam in single ops reads and writes some 30 times the parameters, fused seven times (4 tensors, of which 3 are
    # written); SGD with momentum 8 and 5 times.
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
    kernel_us=Given((0.2, 0.5, 3.0), "and more for each kernel in it"),
)
def _cuda_graph(loop: Loop, launch_us: Number, kernel_us: Number) -> Made:
    """A graph launches all kernels of forward and backward."""
    if not loop.has_gpu_work:
        return NO_GPU
    phases = pl.col("phase").is_in(["forward", "loss", "backward"])
    work = chosen_of(loop, GPU & phases)
    if work.is_empty():
        return "No kernel is known to belong to forward or backward."
    shared = work.group_by("runtime_id").len().filter(pl.col("len") > 1, pl.col("runtime_id").is_not_null())
    if 2 * int(shared["len"].sum()) > work.height:
        return "Graphs launch the kernels already."
    blockers = _graph_blockers(loop, work)
    if blockers:
        return f"A graph cannot hold the step: {'; '.join(blockers)}."
    each = work.height / loop.count
    host = chosen_of(loop, phases & ~GPU & (pl.col("category") != "python_function"))
    host = host.filter(pl.col("category").is_in(["cpu_op", "cuda_runtime", "cuda_driver", "user_annotation"]))
    per_step = each_end(lambda launch, kernel: 1000 * (launch + each * kernel), launch_us, kernel_us)
    spans = _phase_spans(loop, ("forward", "loss", "backward"))
    return made_of(
        "cuda_graph",
        [Stretch(among(host), per_step, spans), Gap(among(work), (0.0, 1000.0, 1000.0))],
        "Shapes are the same in every step, and python of the model has no effect that a replay would miss.",
    )


def _graph_blockers(loop: Loop, work: pl.DataFrame) -> list[str]:
    found = []
    waits = chosen_of(loop, pl.col("event_id").is_in(calls_that_waited(loop).implode()) & ~GPU & MODEL)
    if not waits.is_empty():
        often = max(1, round(waits.height / loop.count))
        times = "once" if often == 1 else f"{often:,} times"
        found.append(f"the CPU waits for the GPU {times} a step, as in event {waits['event_id'][0]}")
    pageable = work.filter(pl.col("class") == "memory", NAME.str.contains("Pageable"))
    if not pageable.is_empty():
        found.append(f"pageable memory is copied, as in event {pageable['event_id'][0]}")
    allocated = chosen_of(loop, MODEL & NAME.is_in(["cudaMalloc", "hipMalloc", "cudaFree", "hipFree"]))
    if not allocated.is_empty():
        found.append(f"memory of the GPU is allocated, as in event {allocated['event_id'][0]}")
    kernels = work.sort("start_ns", "event_id").group_by("step", maintain_order=True).agg("short_name")
    if kernels["short_name"].n_unique() > 1:
        found.append("steps do not launch the same kernels")
    return found


@scenario(
    "PyTorch 2 (Ansel et al., ASPLOS 2024): Inductor fuses pointwise ops and reductions; a fused kernel reads and"
    " writes at least what the longest of them does, and at most what all do.",
    # Each of n kernels reads and writes; fused, what backward needs is written, but nothing read again: (n + 1) / 2n,
    # which is 0.6 for five. What the CPU does for compiled code, with its guards and autograd, was measured where steps
    # waited for it: on an H100 and an H200, those of two models took 0.9 to 1.7 times as long (bench_gpu_pairs.py).
    share=Given((0.0, 0.6, 1.0), "the time of a fused kernel, as a share of that of its parts"),
    host=Given((0.3, 0.9, 1.5), "by what the CPU's time in forward and backward is multiplied"),
)
def _compile(loop: Loop, share: Number, host: Number) -> Made:
    """Kernels that follow each other and multiply no matrices become one (torch.compile)."""
    if not loop.has_gpu_work:
        return NO_GPU
    compiled = pl.col("is_compiled").fill_null(False) | NAME.str.contains("^triton_")
    if 2 * busy_ns(chosen_of(loop, GPU & compiled)) > busy_ns(loop.events.work):
        return "The model is compiled already."
    rest = COMPUTES & ~MATMUL & MODEL & ~compiled & ~NAME.str.contains(r"(?i)flash|fmha|conv|gemm|cudnn|miopen")
    kernels = chosen_of(loop, rest)
    if kernels.height < 2:
        return "Forward and backward have no kernels that could be fused."
    spans = MODEL & (pl.col("category") == "cpu_op")
    return made_of(
        "compile",
        [Fuse(rest, share, host=False), Scale(spans, host)],
        "Kernels of one stream and phase are fused where nothing else is between them.",
        "The graph has no breaks, and shapes do not change.",
    )
