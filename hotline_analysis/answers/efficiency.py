"""How much of a GPU's peak is used, and which information a trace lacks to compute it."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from hotline_analysis.answers.finding import Finding
from hotline_analysis.answers.generated import peak_loss, tensor_cores, utilisation
from hotline_analysis.answers.recorded import has_gpu_work, how_to_record_gpu_work
from hotline_analysis.run.scope import check_scope
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import duration, listed, percent, safe

_WELL_KNOWN_PCT = 90.0  # of computation: with less known, shares of the peak are too low

# Name of each loss in a sentence, and the remedy. Unknown work is not a loss. Half precision needs dimensions in
# multiples of 8, or 16 bytes, for tensor cores or for their full speed (NVIDIA, "Matrix Multiplication Background
# User's Guide", "Requirements to use Tensor Cores"). TF32 and AMP: PyTorch's "Performance Tuning Guide".
LOSSES: Mapping[str, tuple[str, str]] = {
    "recompute": (
        "arithmetic that is done a second time",
        "Recompute less: checkpoint fewer modules, or those with much memory and little arithmetic.",
    ),
    "matrix_inefficiency": (
        "matrix products below the GPU's peak",
        "Ask `roofline` by shape: larger batches and dimensions that are multiples of 8 come closer to the peak;"
        " what runs on vector units (`tensor_cores`), in TF32 or half precision.",
    ),
    "other_compute_ideal": (
        "other kernels, at the speed of memory",
        "Fuse chains of elementwise kernels (torch.compile), so that each tensor is read and written once.",
    ),
    "other_compute_inefficiency": (
        "other kernels, slower than memory allows",
        "Ask `roofline` by kernel: small kernels gain by fusing (torch.compile) or a larger batch, slow ones by another"
        " layout or a fused implementation.",
    ),
    "copies": ("copies", "Copy less: keep tensors on the device, and in the type and layout in which they are used."),
    "exposed_communication": (
        "communication without computation",
        "Overlap it: larger buckets, no_sync while gradients add up, or a faster link.",
    ),
    "idle": ("idle time", "Find what the GPU waits for: `gpu_or_cpu_bound` tells."),
}


def missing_for_flop(trace: Trace, *, rank: int | None = None) -> str:
    """One sentence on the data missing for a utilisation figure and how to record it; empty if nothing is missing."""
    if not has_gpu_work(trace, rank=rank):
        return f"The trace has no GPU work. {how_to_record_gpu_work(trace, rank)}"
    facts = (
        trace.of(rank)
        .sql(
            "select"
            " exists (select 1 from op where input_dims is not null and ($rank is null or rank = $rank))"
            " or exists (select 1 from captured_op where $rank is null or rank = $rank) as has_shapes,"
            " exists (select 1 from op_claim where $rank is null or rank = $rank) as has_work,"
            " exists (select 1 from event where category = 'cpu_op' and ($rank is null or rank = $rank)) as has_ops",
            rank=rank,
        )
        .row(0, named=True)
    )
    if not facts["has_ops"]:
        return "The trace has no CPU ops, so FLOP and bytes are not known; record them with ProfilerActivity.CPU."
    if not facts["has_shapes"]:
        return (
            "The trace has no shapes, so FLOP and bytes are not known; record them with record_shapes=True, or capture"
            " with analyze(model), which learns them before the recording."
        )
    if not facts["has_work"]:
        return (
            "No GPU work in the trace belongs to an op whose FLOP are known: graphs, generated code or ops without a"
            " rule launch it. Give rules for your ops with --op-signatures, or record steps without CUDA graphs."
        )
    unknown = trace.of(rank).sql(
        "select distinct gpu_model.name from gpu_model inner join gpu_op on gpu_model.rank = gpu_op.rank"
        " and gpu_model.device_id = device_of(gpu_op.device) where gpu_model.model is null"
        " and ($rank is null or gpu_model.rank = $rank) order by gpu_model.name",
        rank=rank,
    )["name"]
    if unknown.is_empty():
        return ""
    names = [safe(name) for name in unknown if name is not None]
    clause = f"What the GPU {listed(names)} can do is not known" if names else "The file does not name its GPU"
    return (
        f"{clause}, so rates have no peak to compare with; name it with --gpu NAME, or give figures with --gpus FILE."
    )


def _has_captured_work(trace: Trace, rank: int) -> bool:
    question = "select exists (select 1 from op_work where rank = $rank and evidence like 'captured%')"
    return bool(trace.of(rank).sql(question, rank=rank).item())


def gpu_efficiency(trace: Trace, *, rank: int | None = None, mfu_pct: float = 20.0) -> Finding:
    """How much of the GPU is used, and where does the rest of its peak go?

    `answer` is `well-used` if MFU is at least `mfu_pct`. Otherwise it is the largest part of `peak_loss` that a user
    can reduce. It is `unknown` if FLOP or peaks are unknown; the statement then names the missing data. `evidence` is
    the frame of `peak_loss`; numbers are the columns of `utilisation`. `rank` defaults to the lowest rank. The
    threshold is our choice: PaLM was trained at 46 % MFU, GPT-3 at 21 % (Chowdhery et al., 2022, table 3).
    """
    check_scope(trace, {"rank": rank})
    chosen_rank = min(trace.ranks) if rank is None else rank
    question = "How much of the GPU is used?"
    thresholds = {"mfu_pct": mfu_pct}
    loss = peak_loss(trace, rank=chosen_rank)
    use = utilisation(trace, rank=chosen_rank)
    missing = missing_for_flop(trace, rank=chosen_rank)
    if use.is_empty():
        return Finding(question, "unknown", missing, "", thresholds, loss)
    # Use the device with the longest time if there are several.
    row = use.sort("wall_ns", descending=True).row(0, named=True)
    numbers = {name: row[name] for name in use.columns if name.endswith(("_pct", "_ns", "_flop", "_per_s"))}
    model = f" ({row['model']})" if row["model"] else ""
    busy = f"The GPU{model} is busy {percent(row['gpu_busy_pct'])} of the time"
    if missing:
        units = (
            f", {percent(row['matrix_time_pct'])} of it in kernels on matrix units" if row["matrix_time_pct"] else ""
        )
        return Finding(question, "unknown", f"{busy}{units}. {missing}", "", thresholds, loss, numbers)
    modelled_pct = row["modelled_pct"] if row["modelled_pct"] is not None else 100.0
    if not row["model_flop"] and modelled_pct < _WELL_KNOWN_PCT:
        statement = (
            f"{busy}. FLOP and bytes are known for {percent(modelled_pct)} of the computation, and that has no matrix"
        )
        statement += " products, so how much of its peak is used cannot be told."
        return Finding(question, "unknown", statement, "", thresholds, loss, numbers)
    parts = loss.filter(pl.col("device") == row["device"])
    shares = dict(parts.select("part", "pct").rows())
    of_loss = {part: share for part, share in shares.items() if part in LOSSES}
    largest = max(of_loss, key=lambda part: of_loss[part], default="idle")
    words, advice = LOSSES[largest]
    products = row["hardware_flop"] and row["matrix_time_pct"]
    is_known = modelled_pct >= _WELL_KNOWN_PCT
    qualifier, kind = ("", "") if is_known else ("at least ", "known ")
    statement = (
        f"{busy}; useful arithmetic at its peak would take {qualifier}{percent(shares.get('useful', 0.0))} of it"
    )
    statement += f" (MFU {percent(row['mfu_pct'] or 0.0)}"
    statement += f", matrix units at work {percent(row['matrix_time_pct'])} of the busy time)" if products else ")"
    statement += f". The largest {kind}loss: {words}, {percent(of_loss.get(largest, 0.0))}."
    if not is_known:
        unknown = percent(100 - modelled_pct)
        statement += f" For {unknown} of the computation FLOP and bytes are not known: the true MFU may be higher."
    if _has_captured_work(trace, chosen_rank):
        statement += (
            " The shapes are those of the pass before the recording; the figures are right if its inputs had the same."
        )
    if row["mfu_pct"] is not None and row["mfu_pct"] >= mfu_pct:
        return Finding(question, "well-used", statement, "", thresholds, loss, numbers)
    return Finding(question, largest, statement, advice, thresholds, loss, numbers)


def tensor_core_use(trace: Trace, *, rank: int | None = None, eligible_pct: float = 5.0) -> Finding:
    """Which matrix products could run on matrix units (tensor cores) but do not, and how much time would it save?

    `answer` is `eligible` if such products take at least `eligible_pct` of the GPU's busy time, `used` if they take
    less, and `none` without products. `evidence` is the frame of `tensor_cores`. `rank` defaults to the lowest rank.
    """
    check_scope(trace, {"rank": rank})
    chosen_rank = min(trace.ranks) if rank is None else rank
    question = "Do matrix products run on tensor cores?"
    thresholds = {"eligible_pct": eligible_pct}
    rows = tensor_cores(trace, rank=chosen_rank, limit=None)
    if rows.is_empty():
        return Finding(question, "none", "The trace has no kernels of matrix products.", "", thresholds, rows)
    busy = (
        trace.of(chosen_rank)
        .sql("select sum(end_ns - start_ns)::bigint from gpu_busy where rank = $rank", rank=chosen_rank)
        .item()
    )
    if not busy or rows["gpu_time_ns"].sum() == 0:
        return Finding(question, "none", "The kernels of matrix products take no time.", "", thresholds, rows)
    total, on_matrix, eligible = (int(rows[name].sum()) for name in ("gpu_time_ns", "matrix_ns", "eligible_ns"))
    share = 100.0 * eligible / busy
    saving = int(rows["saving_ns"].sum()) if rows["saving_ns"].null_count() < rows.height else None
    numbers = {
        "products_ns": total,
        "matrix_ns": on_matrix,
        "eligible_ns": eligible,
        "eligible_pct": share,
        "saving_ns": saving,
    }
    statement = f"Matrix products take {duration(total)}, {percent(100 * on_matrix / total)} of it on matrix units."
    if share < eligible_pct:
        return Finding(question, "used", statement, "", thresholds, rows, numbers)
    reason = rows.filter(pl.col("eligible_ns") > 0).sort("eligible_ns", descending=True)["reason"][0]
    statement += f" {duration(eligible)} ({percent(share)} of the busy time) could run there and does not"
    statement += f", which costs up to {duration(saving)}." if saving else "."
    advice = {
        "fp32_without_tf32": "Allow TF32 (torch.set_float32_matmul_precision('high')), or use half precision (AMP).",
        "unaligned": "Make dimensions multiples of 8: pad the sequence, the vocabulary or the width of layers.",
        "vector": "Products with a single row or column are bound by memory: batch them.",
        "depthwise": "Depthwise convolutions are bound by memory: channels_last, or a fused implementation.",
    }
    return Finding(question, "eligible", statement, advice.get(reason, ""), thresholds, rows, numbers)
