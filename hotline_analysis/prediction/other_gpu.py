"""How long each GPU work would take on another GPU, by what both vendors say of them.

Kernels of PyTorch itself are the same on both, and are scaled by waves (Yu et al., "Habitat", USENIX ATC 2021): between
the ratio of the bandwidths and that of clock and multiprocessors, by how much arithmetic there is for a byte. Libraries
choose other kernels for another GPU, so products of matrices, convolutions and attention go by the roofline of both.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from hotline_analysis.gpu_models import Figures, named_gpu
from hotline_analysis.prediction.loop import Loop, busiest_gpu
from hotline_analysis.run.trace import Trace
from hotline_analysis.text.formats import listed, percent, size

# How far a kernel that a library chooses for another GPU may come nearer to the peak than the one that it chose here,
# or fall behind: between two GPUs, single ops differ from the ratio of the rooflines by a third to a half on average.
_OTHER_KERNEL = (0.7, 1.5)
_GIB = 1 << 30
_NEEDED = {
    "memory_gb_per_s": "the bandwidth of memory",
    "sm_count": "the number of multiprocessors",
    "fp32_vector_tflop_per_s": "the peak in FP32",
}


@dataclass(frozen=True)
class Move:
    """From one GPU to another: the part of its time that each work takes there, and what that rests on.

    `parts` has `event_id`, and `part_0`, `part_1`, `part_2` at the ends of the range and between.
    """

    parts: pl.DataFrame
    assumptions: tuple[str, ...]


def move_to(loop: Loop, gpu: Figures, given: list[Figures], like: Trace | None = None) -> Move | str:
    """What another GPU changes, or a sentence why that cannot be told.

    `given` are the user's own figures of GPUs. Kernels that have the same name, grid and block in the trace `like`,
    which was recorded on that GPU, take as much longer there as they do in it.
    """
    here = source_gpu(loop.busiest_gpu, given)
    if isinstance(here, str):
        return here
    if here["vendor"] != gpu["vendor"]:
        return "Another vendor's libraries have other kernels: single ops would be off by a third to a half."
    for side in (here, gpu):
        if lacks := [words for column, words in _NEEDED.items() if not side.get(column)]:
            return f"Of the {side['model']}, {listed(lacks)} {'is' if len(lacks) == 1 else 'are'} not known."
    if reason := _too_large(loop, gpu):
        return reason
    traits = loop.kernel_traits
    if missing := _lacking(traits, here, gpu):
        return missing
    measured = traits.select("event_id") if like is None else _measured(traits, like, gpu, given)
    if isinstance(measured, str):
        return measured
    frame = traits.with_columns(_of_kernel(here, gpu), _of_library(here, gpu), _of_link(here, gpu))
    frame = frame.join(measured, on="event_id", how="left", maintain_order="left")
    rules = ("link", "library", "own") if like is None else ("measured", "link", "library", "own")
    parts = frame.select(
        "event_id",
        *(
            pl.coalesce(pl.col(rule).struct.field(f"part_{level}") for rule in rules).alias(f"part_{level}")
            for level in range(3)
        ),
    )  # fmt: skip
    said = _said(traits, here, gpu)
    if like is not None:
        known = frame.filter(pl.col("measured").is_not_null())
        said = (
            f"Kernels of {_share(known, traits)} of the GPU time have the same name, grid and block in the other trace,"
            " and take as much longer as they do there.",
            *said,
        )
    return Move(parts, said)


def _measured(traits: pl.DataFrame, like: Trace, gpu: Figures, given: list[Figures]) -> pl.DataFrame | str:
    """By `event_id`, the parts of their time that kernels take in a trace of the other GPU, where it has the same."""
    there = source_gpu(busiest_gpu(like, like.ranks[0]), given)
    if isinstance(there, str):
        return f"Of the trace to compare with: {there[:1].lower()}{there[1:]}"
    if there["model"] != gpu["model"]:
        return f"The trace to compare with was recorded on {there['model']}, not on {gpu['model']}."
    key = ["name", "grid", "block"]
    own = traits.filter(_COMPUTES & (pl.col("dur_ns") > 0)).drop_nulls(key)
    others = like.query("kernel_like", rank=like.ranks[0])
    ratio = (
        own.group_by(key)
        .agg(pl.col("dur_ns").mean().alias("own_ns"))
        .join(others, on=key)
        .select(
            *key,
            _three(
                pl.col("short_ns") / pl.col("own_ns"), pl.col("mean_ns") / pl.col("own_ns"),
                pl.col("long_ns") / pl.col("own_ns"), "measured",
            ),
        )
    )  # fmt: skip
    return own.select("event_id", *key).join(ratio, on=key).select("event_id", "measured")


def source_gpu(found: tuple[str, float] | None, given: list[Figures]) -> Figures | str:
    """The figures of a trace's `busiest_gpu`, or a sentence why they are not known."""
    if found is None:
        return "Which GPU the trace was recorded on is not known: import it with --gpu NAME."
    model, scale = found
    if scale < 1:
        return "The trace shows a part of a GPU, whose clock and memory others may have shared."
    return named_gpu(model, given)


def _too_large(loop: Loop, gpu: Figures) -> str:
    """Why the program does not fit into the memory, as far as the trace tells."""
    if not gpu.get("memory_gib") or (needed := loop.memory_needed) is None:
        return ""
    there = int(str(gpu["memory_gib"])) * _GIB
    if needed <= there:
        return ""
    return f"It needs {size(needed)} of memory at once, and {gpu['model']} has {size(there)}."


def _number(gpu: Figures, name: str) -> float:
    return float(str(gpu[name]))


def _peak(gpu: Figures, unit: str, precision: str) -> float | None:
    """FLOP per second, or None. What runs in TF32 runs in FP32 where there is no TF32."""
    names = {"tf32": ("tf32", "fp32"), "fp32": ("fp32", "tf32")}.get(precision, (precision,))
    for each in names if unit == "matrix" else (precision,):
        column = f"{each}_{unit}_{'top' if each == 'int8' else 'tflop'}_per_s"
        if gpu.get(column):
            return 1e12 * _number(gpu, column)
    if precision in ("tf32", "fp32") and gpu.get("fp32_vector_tflop_per_s"):
        return 1e12 * _number(gpu, "fp32_vector_tflop_per_s")
    # Products of half precision on vector units add up in FP32.
    if unit == "vector" and precision in ("fp16", "bf16"):
        return 1e12 * _number(gpu, "fp32_vector_tflop_per_s")
    return None


def _peaks(gpu: Figures) -> pl.Expr:
    """The peak of each kernel's unit in its precision."""
    precisions = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8")
    known = {f"{unit} {each}": _peak(gpu, unit, each) for unit in ("matrix", "vector") for each in precisions}
    return (
        pl.concat_str("unit", pl.lit(" "), "precision")
        .replace_strict(list(known), list(known.values()), default=None, return_dtype=pl.Float64)
    )  # fmt: skip


_COMPUTES = pl.col("class") == "computation"
_IS_LIBRARY = _COMPUTES & pl.col("unit").is_not_null()


def _lacking(traits: pl.DataFrame, here: Figures, gpu: Figures) -> str:
    """Why the precision of some kernels cannot be computed in there."""
    library = traits.filter(_IS_LIBRARY & pl.col("precision").is_not_null()).with_columns(
        here=_peaks(here), there=_peaks(gpu)
    )
    missing = library.filter(pl.col("here").is_not_null() & pl.col("there").is_null())
    if missing.is_empty():
        return ""
    kinds = listed(sorted(missing["precision"].unique()))
    share = _share(missing, traits)
    return f"The {gpu['model']} has no peak in {kinds}, in which {share} of the GPU time is."


def _three(low: pl.Expr, middle: pl.Expr, high: pl.Expr, name: str) -> pl.Expr:
    return pl.struct(
        part_0=pl.min_horizontal(low, middle), part_1=middle, part_2=pl.max_horizontal(high, middle)
    ).alias(name)  # fmt: skip


def _of_kernel(here: Figures, gpu: Figures) -> pl.Expr:
    """Wave scaling: the same kernel, with the same blocks."""
    bandwidth = _number(here, "memory_gb_per_s") / _number(gpu, "memory_gb_per_s")
    clock = _number(here, "boost_mhz") / _number(gpu, "boost_mhz") if _has_clocks(here, gpu) else 1.0
    ours, theirs = int(_number(here, "sm_count")), int(_number(gpu, "sm_count"))
    ridge = 1e12 * _number(gpu, "fp32_vector_tflop_per_s") / (1e9 * _number(gpu, "memory_gb_per_s"))
    intensity = pl.col("vector_flop") / pl.col("bytes")
    # The share of the time that goes with the bandwidth; all of it if nothing is known, as Habitat has it.
    bound = (
        pl.when(intensity < ridge).then(1 - intensity / (2 * ridge)).otherwise(ridge / (2 * intensity)).fill_null(1.0)
    )
    bound = pl.when(pl.col("bytes") > 0).then(bound).otherwise(1.0)
    is_small = pl.col("blocks") < pl.col("resident_blocks") * min(ours, theirs)
    rounds = (pl.col("blocks") / theirs).ceil() / (pl.col("blocks") / ours).ceil()
    # Blocks that all run at once do not run faster because there is more room.
    compute = pl.when(is_small.fill_null(False)).then(clock * rounds).otherwise(clock * ours / theirs)
    memory = pl.when(is_small.fill_null(False)).then(1.0).otherwise(bandwidth)
    middle = memory**bound * compute ** (1 - bound)
    return _three(pl.min_horizontal(memory, compute), middle, pl.max_horizontal(memory, compute), "own")


def _of_library(here: Figures, gpu: Figures) -> pl.Expr:
    """The ratio of the rooflines; without FLOP, between those of the peaks and of the bandwidths."""
    bandwidth = _number(here, "memory_gb_per_s") / _number(gpu, "memory_gb_per_s")
    peak_here, peak_there = _peaks(here), _peaks(gpu)
    # Convolutions in FP32 run in TF32 where there is TF32, unless somebody has switched it off (torch.backends.cudnn).
    if not here.get("tf32_matrix_tflop_per_s") and gpu.get("tf32_matrix_tflop_per_s"):
        is_convolution = (pl.col("family") == "convolution") & (pl.col("precision") == "fp32")
        peak_there = pl.when(is_convolution).then(1e12 * _number(gpu, "tf32_matrix_tflop_per_s")).otherwise(peak_there)
    flop = pl.when(pl.col("matrix_flop") > 0).then("matrix_flop")
    least_here = pl.max_horizontal(flop / peak_here, pl.col("bytes") / (1e9 * _number(here, "memory_gb_per_s")))
    least_there = pl.max_horizontal(flop / peak_there, pl.col("bytes") / (1e9 * _number(gpu, "memory_gb_per_s")))
    is_known = flop.is_not_null() & (pl.col("bytes") > 0) & peak_here.is_not_null() & peak_there.is_not_null()
    by_peak = (peak_here / peak_there).fill_null(bandwidth)
    known = least_there / least_here
    low = pl.when(is_known).then(known).otherwise(pl.min_horizontal(by_peak, bandwidth))
    high = pl.when(is_known).then(known).otherwise(pl.max_horizontal(by_peak, bandwidth))
    middle = pl.when(is_known).then(known).otherwise((by_peak * bandwidth).sqrt())
    nearer, further = (1.0, 1.0) if here["model"] == gpu["model"] else _OTHER_KERNEL
    found = _three(low * nearer, middle, high * further, "library")
    return pl.when(_IS_LIBRARY).then(found).alias("library")


def _of_link(here: Figures, gpu: Figures) -> pl.Expr:
    """Copies and collectives: those over a link may take as long as before, or as the links differ."""

    def ratio(name: str) -> float | None:
        return _number(here, name) / _number(gpu, name) if here.get(name) and gpu.get(name) else None

    inside = pl.lit(_number(here, "memory_gb_per_s") / _number(gpu, "memory_gb_per_s"))
    bus, link = ratio("pcie_one_way_gb_per_s") or 1.0, ratio("link_bidirectional_gb_per_s") or 1.0
    is_inside = (pl.col("category") == "gpu_memset") | pl.col("name").str.contains(r"(?i)DtoD|Device -> Device")
    one = pl.lit(1.0)
    return (
        pl.when((pl.col("class") == "memory") & is_inside)
        .then(_three(inside, inside, inside, "link"))
        .when(pl.col("class") == "memory")
        .then(_three(pl.lit(min(bus, 1.0)), one, pl.lit(max(bus, 1.0)), "link"))
        .when(pl.col("class") == "communication")
        .then(_three(pl.lit(min(link, 1.0)), one, pl.lit(max(link, 1.0)), "link"))
        .alias("link")
    )


def _has_clocks(*gpus: Figures) -> bool:
    return all(gpu.get("boost_mhz") for gpu in gpus)


def _said(traits: pl.DataFrame, here: Figures, gpu: Figures) -> tuple[str, ...]:
    library = traits.filter(_IS_LIBRARY)
    known = library.filter(pl.col("matrix_flop") > 0, pl.col("bytes") > 0)
    said = [
        f"From {here['model']} to {gpu['model']}, by the vendors' peaks and bandwidths.",
        "The CPU is the same, unless `cpu` says how many times faster it is.",
    ]
    if not _has_clocks(here, gpu):
        said.append("The clock of one of them is not known: they are taken to have the same.")
    if library.height:
        share = _share(library, traits)
        of_known = _share(known, library)
        said.append(
            f"Libraries choose other kernels for {share} of the GPU time (matrix products, convolutions, attention):"
            f" 0.7 to 1.5 times as long as the rooflines say. FLOP and bytes are known for {of_known} of them."
        )
    if (traits["class"] == "communication").any():
        said.append("Collectives take as long as they do now, or as the links of both GPUs differ.")
    return tuple(said)


def _share(some: pl.DataFrame, of: pl.DataFrame) -> str:
    return percent(100 * int(some["dur_ns"].sum()) / max(int(of["dur_ns"].sum()), 1))


def own_figures(loop: Loop) -> list[Figures]:
    """The user's own figures of GPUs, as they were given at the import."""
    rows = loop.trace.of(loop.rank).sql("from gpu_given where rank = $rank order by position", rank=loop.rank)
    found: list[Figures] = list(rows.drop("rank", "position").to_dicts())
    return [row for row in found if row["name_pattern"] is not None]
