"""Predict the time of each GPU work item on another GPU, from the vendor's figures of both GPUs.

PyTorch's own kernels are the same on both GPUs, and are scaled by waves (Yu et al., "Habitat", USENIX ATC 2021):
between the ratio of bandwidths and the ratio of clock and multiprocessors, depending on the arithmetic per byte.
Libraries choose other kernels on another GPU, so matrix products, convolutions and attention are scaled by the
rooflines of both GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from hotline_analysis.gpu_models import Figures, named_gpu
from hotline_analysis.prediction.engine.loop import Loop, busiest_gpu
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import listed, percent, size

# A library's kernel on another GPU may come closer to the peak than the kernel here, or stay further below. Between two
# GPUs, single ops differ from the ratio of the rooflines by a third to a half on average.
_OTHER_KERNEL = (0.7, 1.5)
_GIB = 1 << 30
_NEEDED = {
    "memory_gb_per_s": "the bandwidth of memory",
    "sm_count": "the number of multiprocessors",
    "fp32_vector_tflop_per_s": "the peak in FP32",
}


@dataclass(frozen=True)
class Move:
    """The change from one GPU to another: the factor for the time of each work item, and the assumptions.

    `parts` has `event_id` and the factors `part_0`, `part_1`, `part_2` for the low end, the middle and the high end.
    """

    parts: pl.DataFrame
    assumptions: tuple[str, ...]


def move_to(loop: Loop, gpu: Figures, given: list[Figures], like: Trace | None = None) -> Move | str:
    """Return the change to another GPU, or a sentence on why no prediction is possible.

    `given` has the user's own figures of GPUs. `like` is a trace recorded on the other GPU: kernels with the same name,
    grid and block in both traces are scaled by their measured ratio.
    """
    here = source_gpu(loop.busiest_gpu, given)
    if isinstance(here, str):
        return here
    if here["vendor"] != gpu["vendor"]:
        return "Another vendor's libraries have other kernels: single ops would be off by a third to a half."
    for side in (here, gpu):
        if gaps := [words for column, words in _NEEDED.items() if not side.get(column)]:
            return f"Of the {side['model']}, {listed(gaps)} {'is' if len(gaps) == 1 else 'are'} not known."
    if reason := _too_large(loop, gpu):
        return reason
    traits = loop.kernel_traits
    if sentence := _lacking(traits, here, gpu):
        return sentence
    factors = traits.select("event_id") if like is None else _measured(traits, like, gpu, given)
    if isinstance(factors, str):
        return factors
    frame = traits.with_columns(_of_kernel(here, gpu), _of_library(here, gpu), _of_link(here, gpu))
    frame = frame.join(factors, on="event_id", how="left", maintain_order="left")
    rules = ("link", "library", "own") if like is None else ("measured", "link", "library", "own")
    parts = frame.select(
        "event_id",
        *(
            pl.coalesce(pl.col(rule).struct.field(f"part_{level}") for rule in rules).alias(f"part_{level}")
            for level in range(3)
        ),
    )  # fmt: skip
    assumptions = _said(traits, here, gpu)
    if like is not None:
        known_kernels = frame.filter(pl.col("measured").is_not_null())
        assumptions = (
            f"Kernels of {_share(known_kernels, traits)} of the GPU time have the same name, grid and block in the"
            " other trace, and take as much longer as they do there.",
            *assumptions,
        )
    return Move(parts, assumptions)


def _measured(traits: pl.DataFrame, like: Trace, gpu: Figures, given: list[Figures]) -> pl.DataFrame | str:
    """Return the measured factors by `event_id`, for kernels that occur in a trace of the other GPU."""
    other_gpu = source_gpu(busiest_gpu(like, like.ranks[0]), given)
    if isinstance(other_gpu, str):
        return f"In the trace to compare with: {other_gpu[:1].lower()}{other_gpu[1:]}"
    if other_gpu["model"] != gpu["model"]:
        return f"The trace to compare with was recorded on {other_gpu['model']}, not on {gpu['model']}."
    key = ["name", "grid", "block"]
    own_kernels = traits.filter(_COMPUTES & (pl.col("dur_ns") > 0)).drop_nulls(key)
    other_kernels = like.query("kernel_like", rank=like.ranks[0])
    ratio = (
        own_kernels.group_by(key)
        .agg(pl.col("dur_ns").mean().alias("own_ns"))
        .join(other_kernels, on=key)
        .select(
            *key,
            _three(
                pl.col("short_ns") / pl.col("own_ns"), pl.col("mean_ns") / pl.col("own_ns"),
                pl.col("long_ns") / pl.col("own_ns"), "measured",
            ),
        )
    )  # fmt: skip
    return own_kernels.select("event_id", *key).join(ratio, on=key).select("event_id", "measured")


def source_gpu(found: tuple[str, float] | None, given: list[Figures]) -> Figures | str:
    """Return the figures of a trace's `busiest_gpu`, or a sentence on why they are unknown."""
    if found is None:
        return "The GPU of the trace is unknown: import the trace with --gpu NAME."
    model, scale = found
    if scale < 1:
        return "The trace shows a part of a GPU, whose clock and memory others may have shared."
    return named_gpu(model, given)


def _too_large(loop: Loop, gpu: Figures) -> str:
    """Return a sentence on why the program does not fit into the memory; empty if it fits or is unknown."""
    if not gpu.get("memory_gib") or (needed_bytes := loop.memory_needed) is None:
        return ""
    memory_bytes = int(str(gpu["memory_gib"])) * _GIB
    if needed_bytes <= memory_bytes:
        return ""
    return f"The step needs {size(needed_bytes)} of memory, but {gpu['model']} has {size(memory_bytes)}."


def _number(gpu: Figures, name: str) -> float:
    return float(str(gpu[name]))


def _peak(gpu: Figures, unit: str, precision: str) -> float | None:
    """Return FLOP per second, or None. TF32 work counts as FP32 on GPUs without TF32."""
    names = {"tf32": ("tf32", "fp32"), "fp32": ("fp32", "tf32")}.get(precision, (precision,))
    for name in names if unit == "matrix" else (precision,):
        column = f"{name}_{unit}_{'top' if name == 'int8' else 'tflop'}_per_s"
        if gpu.get(column):
            return 1e12 * _number(gpu, column)
    if precision in ("tf32", "fp32") and gpu.get("fp32_vector_tflop_per_s"):
        return 1e12 * _number(gpu, "fp32_vector_tflop_per_s")
    # Half-precision products on vector units accumulate in FP32.
    if unit == "vector" and precision in ("fp16", "bf16"):
        return 1e12 * _number(gpu, "fp32_vector_tflop_per_s")
    return None


def _peaks(gpu: Figures) -> pl.Expr:
    """Return the peak of each kernel's unit in the kernel's precision."""
    precisions = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8")
    peaks = {
        f"{unit} {precision}": _peak(gpu, unit, precision) for unit in ("matrix", "vector") for precision in precisions
    }
    return (
        pl.concat_str("unit", pl.lit(" "), "precision")
        .replace_strict(list(peaks), list(peaks.values()), default=None, return_dtype=pl.Float64)
    )  # fmt: skip


_COMPUTES = pl.col("class") == "computation"
_IS_LIBRARY = _COMPUTES & pl.col("unit").is_not_null()


def _lacking(traits: pl.DataFrame, here: Figures, gpu: Figures) -> str:
    """Return a sentence on why the other GPU lacks the precision of some kernels; empty otherwise."""
    library = traits.filter(_IS_LIBRARY & pl.col("precision").is_not_null()).with_columns(
        here=_peaks(here), there=_peaks(gpu)
    )
    kernels = library.filter(pl.col("here").is_not_null() & pl.col("there").is_null())
    if kernels.is_empty():
        return ""
    kinds = listed(sorted(kernels["precision"].unique()))
    share = _share(kernels, traits)
    return f"The {gpu['model']} has no peak in {kinds}, in which {share} of the GPU time is."


def _three(low: pl.Expr, middle: pl.Expr, high: pl.Expr, name: str) -> pl.Expr:
    return pl.struct(
        part_0=pl.min_horizontal(low, middle), part_1=middle, part_2=pl.max_horizontal(high, middle)
    ).alias(name)  # fmt: skip


def _of_kernel(here: Figures, gpu: Figures) -> pl.Expr:
    """Wave scaling: the same kernel with the same blocks."""
    bandwidth = _number(here, "memory_gb_per_s") / _number(gpu, "memory_gb_per_s")
    clock = _number(here, "boost_mhz") / _number(gpu, "boost_mhz") if _has_clocks(here, gpu) else 1.0
    source_count, target_count = int(_number(here, "sm_count")), int(_number(gpu, "sm_count"))
    ridge = 1e12 * _number(gpu, "fp32_vector_tflop_per_s") / (1e9 * _number(gpu, "memory_gb_per_s"))
    intensity = pl.col("vector_flop") / pl.col("bytes")
    # Share of the time that scales with the bandwidth; 1 if unknown, as in Habitat.
    bound = (
        pl.when(intensity < ridge).then(1 - intensity / (2 * ridge)).otherwise(ridge / (2 * intensity)).fill_null(1.0)
    )
    bound = pl.when(pl.col("bytes") > 0).then(bound).otherwise(1.0)
    is_small = pl.col("blocks") < pl.col("resident_blocks") * min(source_count, target_count)
    rounds = (pl.col("blocks") / target_count).ceil() / (pl.col("blocks") / source_count).ceil()
    # Blocks that all run at once get no faster from additional multiprocessors.
    compute = pl.when(is_small.fill_null(False)).then(clock * rounds).otherwise(clock * source_count / target_count)
    memory = pl.when(is_small.fill_null(False)).then(1.0).otherwise(bandwidth)
    middle = memory**bound * compute ** (1 - bound)
    return _three(pl.min_horizontal(memory, compute), middle, pl.max_horizontal(memory, compute), "own")


def _of_library(here: Figures, gpu: Figures) -> pl.Expr:
    """Scale by the ratio of the rooflines; without FLOP, between the ratios of peaks and of bandwidths."""
    bandwidth = _number(here, "memory_gb_per_s") / _number(gpu, "memory_gb_per_s")
    peak_here, peak_there = _peaks(here), _peaks(gpu)
    # FP32 convolutions run in TF32 where available, unless switched off (torch.backends.cudnn).
    if not here.get("tf32_matrix_tflop_per_s") and gpu.get("tf32_matrix_tflop_per_s"):
        is_convolution = (pl.col("family") == "convolution") & (pl.col("precision") == "fp32")
        peak_there = pl.when(is_convolution).then(1e12 * _number(gpu, "tf32_matrix_tflop_per_s")).otherwise(peak_there)
    flop = pl.when(pl.col("matrix_flop") > 0).then("matrix_flop")
    least_here = pl.max_horizontal(flop / peak_here, pl.col("bytes") / (1e9 * _number(here, "memory_gb_per_s")))
    least_there = pl.max_horizontal(flop / peak_there, pl.col("bytes") / (1e9 * _number(gpu, "memory_gb_per_s")))
    is_known = flop.is_not_null() & (pl.col("bytes") > 0) & peak_here.is_not_null() & peak_there.is_not_null()
    by_peak = (peak_here / peak_there).fill_null(bandwidth)
    ratio = least_there / least_here
    low = pl.when(is_known).then(ratio).otherwise(pl.min_horizontal(by_peak, bandwidth))
    high = pl.when(is_known).then(ratio).otherwise(pl.max_horizontal(by_peak, bandwidth))
    middle = pl.when(is_known).then(ratio).otherwise((by_peak * bandwidth).sqrt())
    nearer, further = (1.0, 1.0) if here["model"] == gpu["model"] else _OTHER_KERNEL
    factors = _three(low * nearer, middle, high * further, "library")
    return pl.when(_IS_LIBRARY).then(factors).alias("library")


def _of_link(here: Figures, gpu: Figures) -> pl.Expr:
    """Scale copies and collectives: over a link, between unchanged and the ratio of the links."""

    def ratio(name: str) -> float | None:
        return _number(here, name) / _number(gpu, name) if here.get(name) and gpu.get(name) else None

    memory_ratio = pl.lit(_number(here, "memory_gb_per_s") / _number(gpu, "memory_gb_per_s"))
    bus, link = ratio("pcie_one_way_gb_per_s") or 1.0, ratio("link_bidirectional_gb_per_s") or 1.0
    is_inside = (pl.col("category") == "gpu_memset") | pl.col("name").str.contains(r"(?i)DtoD|Device -> Device")
    unchanged = pl.lit(1.0)
    return (
        pl.when((pl.col("class") == "memory") & is_inside)
        .then(_three(memory_ratio, memory_ratio, memory_ratio, "link"))
        .when(pl.col("class") == "memory")
        .then(_three(pl.lit(min(bus, 1.0)), unchanged, pl.lit(max(bus, 1.0)), "link"))
        .when(pl.col("class") == "communication")
        .then(_three(pl.lit(min(link, 1.0)), unchanged, pl.lit(max(link, 1.0)), "link"))
        .alias("link")
    )


def _has_clocks(*gpus: Figures) -> bool:
    return all(gpu.get("boost_mhz") for gpu in gpus)


def _said(traits: pl.DataFrame, here: Figures, gpu: Figures) -> tuple[str, ...]:
    library = traits.filter(_IS_LIBRARY)
    known_kernels = library.filter(pl.col("matrix_flop") > 0, pl.col("bytes") > 0)
    sentences = [
        f"From {here['model']} to {gpu['model']}, by the vendors' peaks and bandwidths.",
        "The CPU is the same, unless `cpu` says how many times faster it is.",
    ]
    if not _has_clocks(here, gpu):
        sentences.append("The clock of one of them is not known: they are taken to have the same.")
    if library.height:
        share = _share(library, traits)
        of_known = _share(known_kernels, library)
        sentences.append(
            f"Libraries choose other kernels for {share} of the GPU time (matrix products, convolutions, attention):"
            f" 0.7 to 1.5 times as long as the rooflines say. FLOP and bytes are known for {of_known} of them."
        )
    if (traits["class"] == "communication").any():
        sentences.append("Collectives take as long as they do now, or as the links of both GPUs differ.")
    return tuple(sentences)


def _share(some: pl.DataFrame, of: pl.DataFrame) -> str:
    return percent(100 * int(some["dur_ns"].sum()) / max(int(of["dur_ns"].sum()), 1))


def own_figures(loop: Loop) -> list[Figures]:
    """Return the user's own figures of GPUs, as given at the import."""
    rows = loop.trace.of(loop.rank).sql("from gpu_given where rank = $rank order by position", rank=loop.rank)
    figures: list[Figures] = list(rows.drop("rank", "position").to_dicts())
    return [row for row in figures if row["name_pattern"] is not None]
