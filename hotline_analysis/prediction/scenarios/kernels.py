"""Scenarios of kernels: their precision, their layout, and fusion with neighbouring kernels."""

from __future__ import annotations

import polars as pl

from hotline_analysis.prediction.engine.edits import (
    Edit,
    Insert,
    Number,
    Pace,
    Remove,
    Scale,
)
from hotline_analysis.prediction.engine.loop import Loop
from hotline_analysis.prediction.scenarios.known import (
    COMPUTES,
    HALF,
    KNOWN,
    MATMUL,
    NAME,
    NO_GPU,
    NO_MATMUL,
    Given,
    Made,
    among,
    busy_ns,
    chosen_of,
    device_property,
    inverse_of,
    is_amd,
    made_of,
    scenario,
)
from hotline_analysis.text.formats import duration, percent


def _faster(loop: Loop, kernels: pl.DataFrame, speed: Number, limit: str) -> tuple[list[Edit], int]:
    """Return edits that make kernels faster by a factor, and the total time of kernels with known work.

    A kernel with known work gets no faster than its minimum time falls (a column of `kernel_limit`), because it comes
    no closer to the peak than now. At the low end, it may reach the peak.
    """
    if not isinstance(speed, tuple) or loop.kernel_limits.is_empty():
        return [Scale(among(kernels), inverse_of(speed))] if kernels.height else [], 0
    slow, middle, fast = speed
    rows = kernels.select("event_id", "dur_ns").join(loop.kernel_limits, on="event_id")
    least_ns, now_ns = pl.col(limit).fill_null(pl.col("now_ns")), pl.col("now_ns")
    ratio = pl.when(least_ns > 0).then(now_ns / least_ns).otherwise(1.0).clip(1.0)
    parts = rows.select(
        "event_id",
        "dur_ns",
        part_0=pl.max_horizontal(least_ns / pl.col("dur_ns").clip(1), 1 / fast).clip(upper_bound=1.0),
        part_1=1 / ratio.clip(upper_bound=middle),
        part_2=1 / ratio.clip(upper_bound=slow),
    ).with_columns(pl.min_horizontal("part_0", "part_1").alias("part_0"))
    rest = kernels.join(parts, on="event_id", how="anti")
    edits: list[Edit] = [Scale(among(rest), inverse_of(speed))] if rest.height else []
    if parts.height:
        edits.append(Pace(among(parts), parts))
    return edits, busy_ns(parts)


def _said_of_work(known_ns: int, kernels: pl.DataFrame) -> list[str]:
    if not known_ns:
        return []
    share = percent(100 * known_ns / max(busy_ns(kernels), 1))
    return [f"Of {share} of their time, FLOP and bytes are known: no kernel gets faster than these allow."]


def _half(loop: Loop) -> float:
    """Return the share of matrix product time in half precision or less."""
    matmul = chosen_of(loop, MATMUL)
    half = matmul.filter(pl.col("precision").is_in(HALF))
    return busy_ns(half) / max(busy_ns(matmul), 1)


@scenario(
    "Daydream (Zhu et al., USENIX ATC 2020), algorithm for AMP: kernels of matrix products three times faster, others"
    " twice.",
    # Around Daydream's figures: the range is our choice. FLOP and bytes narrow the range where known.
    matmul=Given((1.5, 3.0, 5.0), "speedup of matrix products and convolutions", 1e-3),
    other=Given((1.0, 2.0, 2.0), "speedup of the model's other kernels: half the bytes", 1e-3),
)
def _amp(loop: Loop, matmul: Number, other: Number) -> Made:
    """The model computes in half precision (autocast)."""
    if not loop.has_gpu_work:
        return NO_GPU
    products = chosen_of(loop, MATMUL)
    if products.is_empty():
        return NO_MATMUL
    if (share := _half(loop)) > 0.5:
        return f"Half precision already has {percent(100 * share)} of the time of matrix products."
    major = device_property(loop, "computeMajor")
    if major is not None and major < 7 and not is_amd(loop):
        return "The GPU has no tensor cores (before Volta)."
    full = MATMUL & ~pl.col("precision").is_in(HALF).fill_null(False)
    single = products.filter(full)
    is_tf32 = busy_ns(single.filter(precision="tf32")) > 0.5 * busy_ns(single)
    speed = matmul
    assumptions = ["The optimizer and the loss stay as they are."]
    if is_tf32 and matmul == KNOWN["amp"].parameters["matmul"].default:
        # half precision has twice the peak of TF32 on every GPU with both (NVIDIA's data sheets)
        speed = (1.0, 1.5, 2.0)
        assumptions.append("Matrix products run in TF32 now, of which half precision has twice the peak.")
    phases = loop.events.work["phase"].is_in(["forward", "backward"]).any()
    in_model = pl.col("phase").is_in(["forward", "backward"]) if phases else pl.lit(True)
    is_other = COMPUTES & ~MATMUL & in_model & ~NAME.str.contains("(?i)triton_.*mm|flash|fmha")
    edits, known_ns = _faster(loop, single, speed, "half_ns")
    other_kernels = chosen_of(loop, is_other)
    other_edits, known_other_ns = _faster(loop, other_kernels, other, "half_ns")
    edits += other_edits
    assumptions += _said_of_work(known_ns + known_other_ns, pl.concat([single, other_kernels]))
    casts = products.filter(full, pl.col("runtime_id").is_not_null())
    if phases:
        casts = casts.filter(phase="forward")
    small = _usual_kernel(loop)
    if small and not casts.is_empty():
        gpu, host = small
        calls = pl.col("event_id").is_in(casts["runtime_id"].implode())
        edits += [Insert(among(casts), (0.0, gpu, 2.0 * gpu)), Insert(calls, (0.0, host, 2.0 * host))]
        assumptions.append(
            f"Autocast adds none to two casts per product in forward, one is expected: {duration(round(host))} of the"
            f" CPU and {duration(round(gpu))} of the GPU each, as small kernels take here."
        )
    return made_of("amp", edits, *assumptions)


def _usual_kernel(loop: Loop) -> tuple[float, float] | None:
    """Return the median time of small kernels on the GPU (elementwise kernels), and of their ops on the CPU."""
    kernels = chosen_of(loop, COMPUTES & ~MATMUL & pl.col("op").is_not_null())
    if kernels.is_empty():
        return None
    ops = chosen_of(loop, (pl.col("category") == "cpu_op") & NAME.is_in(kernels["op"].unique().implode()))
    if ops.is_empty():
        return None
    return float(kernels["dur_ns"].median() or 0), float(ops["dur_ns"].median() or 0)  # type: ignore[arg-type]


@scenario(
    "NVIDIA A100 architecture white paper: TF32 has 8 times the peak of FP32 (156 against 19.5 TFLOP/s).",
    # The white paper reports up to 6 times (training BERT, against FP32 on a V100); this is not expected for all
    # products.
    matmul=Given((1.5, 3.0, 6.0), "speedup of matrix products", 1e-3),
)
def _tf32(loop: Loop, matmul: Number) -> Made:
    """Matrix products in single precision run on tensor cores (TF32)."""
    if not loop.has_gpu_work:
        return NO_GPU
    single = MATMUL & (pl.col("unit") == "vector") & (pl.col("precision") == "fp32")
    if is_amd(loop):
        return "Only NVIDIA GPUs have TF32."
    major = device_property(loop, "computeMajor")
    if major is not None and major < 8:
        return "The GPU has no TF32 (before Ampere)."
    kernels = chosen_of(loop, single)
    if kernels.is_empty():
        return "No kernel of matrix products in single precision runs without tensor cores."
    edits, known_ns = _faster(loop, kernels, matmul, "tf32_ns")
    assumptions = ["A convolution that cuDNN computes without tensor cores does so for want of TF32."]
    if major is None:
        assumptions.append("The file does not tell the GPU; it is taken to have TF32 (Ampere or later).")
    return made_of("tf32", edits, *assumptions, *_said_of_work(known_ns, kernels))


_BATCH_NORM = r"(?i)batch_?norm|bn_fw|bn_bw|BatchNorm"
_RELU = r"(?i)relu|clamp_min|threshold"


@scenario(
    "Jung et al., “Restructuring batch normalization” (SysML 2019), as modelled by Daydream, which predicted 12.7 %"
    " where 7 % were measured.",
)
def _restructured_bn(loop: Loop) -> Made:
    """Batch normalisation is split and fused with the layers around it."""
    if not loop.has_gpu_work:
        return NO_GPU
    norm = COMPUTES & (NAME.str.contains(_BATCH_NORM) | pl.col("op").str.contains(_BATCH_NORM).fill_null(False))
    if chosen_of(loop, norm).is_empty():
        return "The trace has no kernels of batch normalisation."
    if chosen_of(loop, norm & (pl.col("phase") == "backward")).is_empty():
        return "Batch normalisation has no backward pass here: in inference, it is folded into weights instead."
    work = loop.events.work.sort("device", "stream", "start_ns", "event_id")
    rows = work.with_columns(
        is_norm=norm,
        is_relu=COMPUTES & (NAME.str.contains(_RELU) | pl.col("op").str.contains(_RELU).fill_null(False)) & ~norm,
    )
    is_adjacent = pl.col("is_norm").shift().fill_null(False) | pl.col("is_norm").shift(-1).fill_null(False)
    relu = rows.filter(pl.col("is_relu") & is_adjacent)
    # Daydream's rule is the low end; its predicted gain was 1.8 times the measured gain.
    reduction = 7.0 / 12.7
    edits: list[Edit] = [Scale(norm, (0.5, 1 - 0.5 * reduction, 1.0))]
    if not relu.is_empty():
        edits.append(Scale(among(relu), (0.0, 1 - reduction, 1.0)))
    return made_of(
        "restructured_bn", edits, "Daydream's rule is the low end; its error on the real thing is in the middle."
    )


@scenario("PyTorch, “Channels last memory format”: NVIDIA's kernels for tensor cores need it, and else convert.")
def _channels_last(loop: Loop) -> Made:
    """Tensors are in channels-last order, so no kernel has to change it."""
    if not loop.has_gpu_work:
        return NO_GPU
    layout = COMPUTES & NAME.str.contains(r"(?i)nchw_?(to|2)_?nhwc|nhwc_?(to|2)_?nchw")
    kernels = chosen_of(loop, layout)
    if kernels.is_empty():
        return "No kernel changes the order of channels."
    share = 1 / max(1, kernels.height // loop.count)
    return made_of(
        "channels_last",
        [Remove(layout, host=False)] if share == 1 else [Scale(layout, (0.0, 0.0, share))],
        "Convolutions themselves take as long as they do.",
    )
