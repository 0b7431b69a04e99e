"""The scenarios that come with the package: each makes edits of a loop, or says why it does not apply to it.

Three numbers are what makes the step shortest, what is expected, and what makes it longest. A parameter that the user
gives is one number, and takes the place of all three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import polars as pl

from hotline_analysis.answers.replay import Run
from hotline_analysis.errors import QueryParameterError
from hotline_analysis.gpu_models import named_gpu
from hotline_analysis.prediction.edits import (
    AllReduce,
    Between,
    Edit,
    Fuse,
    Gap,
    Hasten,
    Insert,
    Move,
    Number,
    Pace,
    Remove,
    Scale,
    Stretch,
    Take,
    Transfer,
    Unwait,
    at,
)
from hotline_analysis.prediction.loop import HIGH, LOW, MID, Loop
from hotline_analysis.prediction.other_gpu import move_to, own_figures
from hotline_analysis.prediction.predict import Scenario
from hotline_analysis.text.formats import duration, percent

_GPU = pl.col("class").is_not_null()
_COMPUTES = pl.col("class") == "computation"
_MATMUL = pl.col("unit").is_not_null()
_MODEL = pl.col("phase").is_in(["forward", "loss", "backward"])
_HALF = ("fp16", "bf16", "fp8", "fp4", "int8")
_NAME = pl.col("name")

Made = Scenario | str
"""A scenario, or a sentence why it does not apply."""


@dataclass(frozen=True)
class Given:
    """A parameter of a scenario: what it is if nothing is given, and what it means."""

    default: Number | None
    meaning: str
    least: float = 0.0
    is_text: bool = False


@dataclass(frozen=True)
class Known:
    """A scenario by name."""

    name: str
    summary: str
    source: str
    parameters: Mapping[str, Given]
    make: Callable[..., Made]

    def made(self, loop: Loop, given: Mapping[str, object]) -> Made:
        """The scenario with parameters that a user gave. Raises `QueryParameterError` for those that do not fit."""
        return self.make(loop, **self.values(given))

    def values(self, given: Mapping[str, object]) -> dict[str, Number | str | None]:
        """All parameters, those that a user gave among them. Raises `QueryParameterError` for those that do not fit."""
        values: dict[str, Number | str | None] = {name: known.default for name, known in self.parameters.items()}
        for name, value in given.items():
            if name not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise QueryParameterError(f"{self.name} has no parameter {name!r}", hint=f"It has {known}.")
            values[name] = self.converted(name, value)
        return values

    def converted(self, name: str, value: object) -> float | str:
        """A parameter as a number, or as text where it is one. Raises `QueryParameterError` for what does not fit."""
        if self.parameters[name].is_text:
            return str(value)
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise QueryParameterError(f"{name} of {self.name} must be a number, not {value!r}") from None
        least = self.parameters[name].least
        if not least <= number < float("inf"):
            raise QueryParameterError(f"{name} of {self.name} must be {least:g} or more, not {value!r}")
        return number


KNOWN: dict[str, Known] = {}


def _scenario(source: str, **parameters: Given) -> Callable[[Callable[..., Made]], Callable[..., Made]]:
    def known(make: Callable[..., Made]) -> Callable[..., Made]:
        name = make.__name__.strip("_")
        KNOWN[name] = Known(name, (make.__doc__ or "").splitlines()[0].rstrip("."), source, parameters, make)
        return make

    return known


scenario = _scenario
"""For scenarios in files of their own."""


def _new(name: str, edits: list[Edit], *assumptions: str, least_ns: Number = 0.0) -> Scenario:
    known = KNOWN[name]
    return Scenario(name, tuple(edits), f"{known.summary}.", assumptions, known.source, least_ns)


def _each(function: Callable[..., float], *values: Number) -> Number:
    """A function of numbers, at each end of their ranges and between."""
    if not any(isinstance(value, tuple) for value in values):
        return function(*values)
    low, middle, high = (function(*(at(value, level) for value in values)) for level in (LOW, MID, HIGH))
    return low, middle, high


def _inverse(value: Number) -> Number:
    """What times are multiplied by, if speed is."""
    if isinstance(value, tuple):
        slow, middle, fast = value
        return 1 / fast, 1 / middle, 1 / slow
    return 1 / value


def _chosen(loop: Loop, condition: pl.Expr) -> pl.DataFrame:
    return loop.events.frame.filter(condition)


def _ids(events: pl.DataFrame) -> pl.Expr:
    """The condition to be one of some events."""
    return pl.col("event_id").is_in(events["event_id"].implode())


def _property(loop: Loop, name: str) -> float | None:
    """A property of the first GPU, if the file has it."""
    found = loop.trace.sql(
        "select try_cast(json_extract_string(properties, $path) as double) as value from device where rank = $rank"
        " order by device_id limit 1",
        path=f"$.{name}",
        rank=loop.rank,
    )
    return None if found.is_empty() else found["value"][0]


def _is_amd(loop: Loop) -> bool:
    found = loop.trace.sql("select 1 from device where rank = $rank and name ilike '%AMD%'", rank=loop.rank)
    calls = _chosen(loop, (pl.col("category") == "cuda_runtime") & _NAME.str.starts_with("hip"))
    return not found.is_empty() or not calls.is_empty()


def _busy(events: pl.DataFrame) -> int:
    return int(events["dur_ns"].sum())


_NO_GPU = "The steps have no GPU work."
_NO_MATMUL = "No kernel of the steps is known to multiply matrices or to convolve."


# --- the CPU ---------------------------------------------------------------------------------------------------------

_FETCH = (
    (pl.col("category").is_in(["user_annotation", "cpu_op"]) & _NAME.str.contains(r"^enumerate\(DataLoader\)")),
    ((pl.col("category") == "user_annotation") & _NAME.str.contains(r"^\[pl\].*dataloader_next$")),
    (
        (pl.col("category") == "python_function")
        & _NAME.str.contains(r"(^|/)torch/utils/data/dataloader\.py\(\d+\): __next__$")
    ),
)


@_scenario(
    "The training loop's thread only takes batches off a queue: torch.utils.data, “Multi-process data loading”.",
    workers=Given(None, "processes that load; as many as are needed, if not given", 0),
    # In recordings with four workers (ResNet-50 on a V100, batches of 19 MB; samples of pytorch/kineto), it took 1.4 to
    # 1.7 ms. Twice as long for more data; a small batch only has to pass a pipe.
    batch_ms=Given((0.2, 1.5, 3.0), "milliseconds to take a batch off the queue"),
)
def _loader(loop: Loop, workers: float | None, batch_ms: Number) -> Made:
    """Other processes load the batches."""
    fetches = next((found for each in _FETCH if not (found := _chosen(loop, each)).is_empty()), None)
    if fetches is None:
        return "No call of a DataLoader is seen."
    each_ns = _busy(fetches) / loop.count
    ns = _each(lambda value: 1e6 * value, batch_ms)
    has_workers = fetches["name"].str.contains("MultiProcess").any()
    if workers == 0:
        if has_workers:
            return "How long the workers take for a batch is not in the trace: they are other processes."
        return "The training loop loads its batches itself already."
    expected = ns[1] if isinstance(ns, tuple) else ns
    # What is not twice as long as taking a batch off a queue may be no more than that.
    if each_ns * loop.count <= 2 * expected * fetches.height:
        already = "Workers load the batches already" if has_workers else "Batches are there at once"
        return f"{already}: the loop waits {duration(round(each_ns))} per step for them."
    said = ["Workers do not slow each other or the training loop down: there are cores, and memory, for all of them."]
    least: Number = 0.0
    if has_workers:
        said.append("There are so many workers that a batch is always there.")
    elif workers is None:
        rest = loop.per_step(_with(loop, [Take(_ids(fetches), ns)]))
        said.append(f"At least {max(1, -(-round(each_ns) // max(rest, 1))):,} workers, or batches come too late.")
    else:
        least = each_ns / workers
        said.append(f"{workers:g} workers have a batch every {duration(round(least))}.")
    return _new("loader", [Take(_ids(fetches), ns)], *said, least_ns=least)


def _with(loop: Loop, edits: list[Edit]) -> Run:
    state = loop.state(MID)
    for edit in edits:
        edit.apply(loop, state)
    return state.run()


# "On PCIe x16 Gen3 cards, for example, pinned memory can attain roughly 12 GB/s" (CUDA C++ best practices guide,
# "Pinned memory"); Gen4 has twice that.
_PINNED_BYTES_PER_NS = 12.0


@_scenario(
    "CUDA C++ best practices guide, “Pinned memory”; a copy from pageable memory waits (CUDA runtime API, “API"
    " synchronization behavior”).",
    factor=Given((0.25, 0.5, 1.0), "by what the time of the copies is multiplied, if their bytes do not tell"),
)
def _pinned(loop: Loop, factor: Number) -> Made:
    """Batches are copied from pinned memory, and nobody waits for the copies."""
    if not loop.has_gpu_work:
        return _NO_GPU
    to_gpu = (pl.col("class") == "memory") & _NAME.str.contains(r"HtoD|HostToDevice|Host -> Device")
    copies = _chosen(loop, to_gpu & ~_NAME.str.contains("(?i)pinned"))
    waits = copies.filter(pl.col("runtime_id").is_in(_returning(loop).implode()))
    if _chosen(loop, to_gpu).is_empty():
        return "The steps copy nothing to the GPU."
    if waits.is_empty():
        return "No copy to the GPU is waited for: its memory is pinned already, or a batch is small."
    size = int(waits["bytes"].fill_null(0).sum())
    if size and factor == KNOWN["pinned"].parameters["factor"].default:
        gen3 = min(1.0, size / _PINNED_BYTES_PER_NS / max(_busy(waits), 1))
        factor = (gen3 / 2, gen3, 1.0)
    calls = pl.col("event_id").is_in(waits["runtime_id"].implode())
    return _new(
        "pinned",
        [Scale(_ids(waits), factor), Unwait(calls)],
        "The copies are made with pin_memory=True and non_blocking=True.",
        "Copying a batch into pinned memory is done by the loader, and is not counted.",
    )


def _returning(loop: Loop) -> pl.Series:
    """The calls that were seen to wait for GPU work."""
    edges = loop.table.edges.filter(pl.col("binds"), kind="return")
    return edges["event_id"].drop_nulls().unique()


@_scenario("PyTorch performance tuning guide, “Avoid unnecessary CPU-GPU synchronization”.")
def _no_sync(loop: Loop) -> Made:
    """The CPU waits for the GPU nowhere in the step."""
    if not loop.has_gpu_work:
        return _NO_GPU
    waits = _chosen(loop, pl.col("event_id").is_in(_returning(loop).implode()) & ~_GPU)
    to_gpu = loop.events.work.filter((pl.col("class") == "memory") & _NAME.str.contains(r"HtoD|HostToDevice|Host -> D"))
    waits = waits.filter(~pl.col("event_id").is_in(to_gpu["runtime_id"].drop_nulls().implode()))
    if waits.is_empty():
        return "No call waits for the GPU, but for copies of batches (see pinned)."
    last = loop.events.work.group_by("step").agg(last_ns=pl.col("call_start_ns").max())
    within = waits.join(last, on="step", how="left").filter(pl.col("start_ns") < pl.col("last_ns"))
    if within.is_empty() and loop.alike.height == 1:
        return "The only calls that wait for the GPU are at the end of the step, after all launches."
    return _new(
        "no_sync",
        [Unwait(_ids(waits))],
        "What the calls brought to the CPU (a loss to print, a number to branch on) is not needed, or is asked for"
        " later.",
    )


# --- kernels ---------------------------------------------------------------------------------------------------------


def _faster(loop: Loop, kernels: pl.DataFrame, speed: Number, limit: str) -> tuple[list[Edit], int]:
    """Edits that make kernels so many times faster, and how long the kernels take whose work is known.

    If it is, none gets faster by more than its least time falls (a column of `kernel_limit`), as it comes no nearer to
    the peak than now; at the low end, it may come to the peak.
    """
    if not isinstance(speed, tuple) or loop.kernel_limits.is_empty():
        return [Scale(_ids(kernels), _inverse(speed))] if kernels.height else [], 0
    slow, middle, fast = speed
    met = kernels.select("event_id", "dur_ns").join(loop.kernel_limits, on="event_id")
    least, now = pl.col(limit).fill_null(pl.col("now_ns")), pl.col("now_ns")
    ratio = pl.when(least > 0).then(now / least).otherwise(1.0).clip(1.0)
    parts = met.select(
        "event_id",
        "dur_ns",
        part_0=pl.max_horizontal(least / pl.col("dur_ns").clip(1), 1 / fast).clip(upper_bound=1.0),
        part_1=1 / ratio.clip(upper_bound=middle),
        part_2=1 / ratio.clip(upper_bound=slow),
    ).with_columns(pl.min_horizontal("part_0", "part_1").alias("part_0"))
    rest = kernels.join(parts, on="event_id", how="anti")
    edits: list[Edit] = [Scale(_ids(rest), _inverse(speed))] if rest.height else []
    if parts.height:
        edits.append(Pace(_ids(parts), parts))
    return edits, _busy(parts)


def _said_of_work(known_ns: int, kernels: pl.DataFrame) -> list[str]:
    if not known_ns:
        return []
    share = percent(100 * known_ns / max(_busy(kernels), 1))
    return [f"Of {share} of their time, FLOP and bytes are known: no kernel gets faster than these allow."]


def _half(loop: Loop) -> float:
    """The share of the time of matrix products that is in half precision or less."""
    matmul = _chosen(loop, _MATMUL)
    half = matmul.filter(pl.col("precision").is_in(_HALF))
    return _busy(half) / max(_busy(matmul), 1)


@_scenario(
    "Daydream (Zhu et al., USENIX ATC 2020), algorithm for AMP: kernels of matrix products three times faster, others"
    " twice.",
    # Around Daydream's figures: the range is our choice; FLOP and bytes narrow it where they are known.
    matmul=Given((1.5, 3.0, 5.0), "how many times faster matrix products and convolutions are", 1e-3),
    other=Given((1.0, 2.0, 2.0), "how many times faster other kernels of the model are: half the bytes", 1e-3),
)
def _amp(loop: Loop, matmul: Number, other: Number) -> Made:
    """The model computes in half precision (autocast)."""
    if not loop.has_gpu_work:
        return _NO_GPU
    products = _chosen(loop, _MATMUL)
    if products.is_empty():
        return _NO_MATMUL
    if (share := _half(loop)) > 0.5:
        return f"It does already: {percent(100 * share)} of the time of matrix products is in half precision."
    major = _property(loop, "computeMajor")
    if major is not None and major < 7 and not _is_amd(loop):
        return "The GPU has no tensor cores (before Volta)."
    full = _MATMUL & ~pl.col("precision").is_in(_HALF).fill_null(False)
    single = products.filter(full)
    is_tf32 = _busy(single.filter(precision="tf32")) > 0.5 * _busy(single)
    speed = matmul
    said = ["The optimizer and the loss stay as they are."]
    if is_tf32 and matmul == KNOWN["amp"].parameters["matmul"].default:
        # half precision has twice the peak of TF32 on every GPU that has both (NVIDIA's data sheets)
        speed = (1.0, 1.5, 2.0)
        said.append("Matrix products run in TF32 now, of which half precision has twice the peak.")
    phases = loop.events.work["phase"].is_in(["forward", "backward"]).any()
    in_model = pl.col("phase").is_in(["forward", "backward"]) if phases else pl.lit(True)
    rest = _COMPUTES & ~_MATMUL & in_model & ~_NAME.str.contains("(?i)triton_.*mm|flash|fmha")
    edits, known = _faster(loop, single, speed, "half_ns")
    others = _chosen(loop, rest)
    of_others, known_others = _faster(loop, others, other, "half_ns")
    edits += of_others
    said += _said_of_work(known + known_others, pl.concat([single, others]))
    casts = products.filter(full, pl.col("runtime_id").is_not_null())
    if phases:
        casts = casts.filter(phase="forward")
    small = _usual_kernel(loop)
    if small and not casts.is_empty():
        gpu, host = small
        calls = pl.col("event_id").is_in(casts["runtime_id"].implode())
        edits += [Insert(_ids(casts), (0.0, gpu, 2.0 * gpu)), Insert(calls, (0.0, host, 2.0 * host))]
        said.append(
            f"Autocast adds none to two casts per product in forward, one is expected: {duration(round(host))} of the"
            f" CPU and {duration(round(gpu))} of the GPU each, as small kernels take here."
        )
    return _new("amp", edits, *said)


def _usual_kernel(loop: Loop) -> tuple[float, float] | None:
    """What a small kernel takes: of the GPU, the median of elementwise ones, and of the CPU, that of ops of one."""
    rest = _chosen(loop, _COMPUTES & ~_MATMUL & pl.col("op").is_not_null())
    if rest.is_empty():
        return None
    ops = _chosen(loop, (pl.col("category") == "cpu_op") & _NAME.is_in(rest["op"].unique().implode()))
    if ops.is_empty():
        return None
    return float(rest["dur_ns"].median() or 0), float(ops["dur_ns"].median() or 0)  # type: ignore[arg-type]


@_scenario(
    "NVIDIA A100 architecture white paper: TF32 has 8 times the peak of FP32 (156 against 19.5 TFLOP/s).",
    # The white paper has up to 6 times (training BERT, against FP32 on a V100); as many for all is expected of none.
    matmul=Given((1.5, 3.0, 6.0), "how many times faster the matrix products are", 1e-3),
)
def _tf32(loop: Loop, matmul: Number) -> Made:
    """Matrix products in single precision run on tensor cores (TF32)."""
    if not loop.has_gpu_work:
        return _NO_GPU
    single = _MATMUL & (pl.col("unit") == "vector") & (pl.col("precision") == "fp32")
    if _is_amd(loop):
        return "TF32 is of NVIDIA's GPUs."
    major = _property(loop, "computeMajor")
    if major is not None and major < 8:
        return "The GPU has no TF32 (before Ampere)."
    kernels = _chosen(loop, single)
    if kernels.is_empty():
        return "No kernel of matrix products in single precision runs without tensor cores."
    edits, known = _faster(loop, kernels, matmul, "tf32_ns")
    said = ["A convolution that cuDNN computes without tensor cores does so for want of TF32."]
    if major is None:
        said.append("The file does not tell the GPU; it is taken to have TF32 (Ampere or later).")
    return _new("tf32", edits, *said, *_said_of_work(known, kernels))


_BATCH_NORM = r"(?i)batch_?norm|bn_fw|bn_bw|BatchNorm"
_RELU = r"(?i)relu|clamp_min|threshold"


@_scenario(
    "Jung et al., “Restructuring batch normalization” (SysML 2019), as modelled by Daydream, which predicted 12.7 %"
    " where 7 % were measured.",
)
def _restructured_bn(loop: Loop) -> Made:
    """Batch normalisation is split and fused with the layers around it."""
    if not loop.has_gpu_work:
        return _NO_GPU
    norm = _COMPUTES & (_NAME.str.contains(_BATCH_NORM) | pl.col("op").str.contains(_BATCH_NORM).fill_null(False))
    if _chosen(loop, norm).is_empty():
        return "No kernel of batch normalisation is seen."
    if _chosen(loop, norm & (pl.col("phase") == "backward")).is_empty():
        return "Batch normalisation has no backward pass here: in inference, it is folded into weights instead."
    work = loop.events.work.sort("device", "stream", "start_ns", "event_id")
    flagged = work.with_columns(
        is_norm=norm,
        is_relu=_COMPUTES & (_NAME.str.contains(_RELU) | pl.col("op").str.contains(_RELU).fill_null(False)) & ~norm,
    )
    beside = pl.col("is_norm").shift().fill_null(False) | pl.col("is_norm").shift(-1).fill_null(False)
    relu = flagged.filter(pl.col("is_relu") & beside)
    # Daydream's rule is the low end; what it said to be gained was 1.8 times what was measured.
    met = 7.0 / 12.7
    edits: list[Edit] = [Scale(norm, (0.5, 1 - 0.5 * met, 1.0))]
    if not relu.is_empty():
        edits.append(Scale(_ids(relu), (0.0, 1 - met, 1.0)))
    return _new(
        "restructured_bn", edits, "Daydream's rule is the low end; its error on the real thing is in the middle."
    )


@_scenario("PyTorch, “Channels last memory format”: NVIDIA's kernels for tensor cores need it, and else convert.")
def _channels_last(loop: Loop) -> Made:
    """Tensors are in channels-last order, so no kernel has to change it."""
    if not loop.has_gpu_work:
        return _NO_GPU
    layout = _COMPUTES & _NAME.str.contains(r"(?i)nchw_?(to|2)_?nhwc|nhwc_?(to|2)_?nchw")
    kernels = _chosen(loop, layout)
    if kernels.is_empty():
        return "No kernel changes the order of channels."
    least = 1 / max(1, kernels.height // loop.count)
    return _new(
        "channels_last",
        [Remove(layout, host=False)] if least == 1 else [Scale(layout, (0.0, 0.0, least))],
        "Convolutions themselves take as long as they do.",
    )


# --- launches --------------------------------------------------------------------------------------------------------


@_scenario(
    "PyTorch, torch.optim, `foreach` and `fused`; Daydream (ATC 2020) for FusedAdam.",
    # Adam as single ops reads and writes some 30 times the parameters, and fused 7 times: a quarter. SGD with momentum
    # does so 8 and 5 times: 0.6. Less than a quarter, as small kernels take longer than their bytes.
    factor=Given((0.15, 0.3, 0.6), "by what the time of the GPU is multiplied: passes over the parameters"),
)
def _fused_optimizer(loop: Loop, factor: Number) -> Made:
    """One kernel updates many parameters (fused=True)."""
    optimizer = pl.col("phase") == "optimizer"
    ops = _chosen(loop, optimizer & (pl.col("category") == "cpu_op"))
    kernels = _chosen(loop, optimizer & _COMPUTES)
    if ops.is_empty() and kernels.is_empty():
        return "The trace shows no optimizer."
    fused = r"(?i)multi_tensor_apply|_fused_|_foreach_|FusedAdam|FusedSgd"
    time = _busy(kernels.filter(_NAME.str.contains(fused)))
    if time > 0.5 * _busy(kernels) > 0 or ops["name"].str.contains(r"^aten::_(fused|foreach)_").any():
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
        Scale(_ids(kernels), factor),
        Gap(_ids(kernels), 0.0),
        Scale(optimizer & (pl.col("category") == "cpu_op"), (kept, max(kept, 0.05), 0.2)),
    ]
    return _new(
        "fused_optimizer",
        [*edits, *_without_loop(loop, optimizer & ~_GPU)],
        said,
    )


def _passes(loop: Loop, ops: pl.DataFrame, kernels: pl.DataFrame) -> tuple[Number, str] | None:
    """What part of its time a fused update takes by its bytes, if the trace tells how large gradients are.

    Adam reads gradient, parameter and two averages, and writes all but the first: 7 times the bytes. With momentum, SGD
    reads three and writes two, without it two and one. At the low end, memory goes at its peak; else as fast as it does
    here in kernels that it bounds, and at the high end half as fast.
    """
    limits = loop.kernel_limits.filter(pl.col("memory_ns") > 0)
    gradients = loop.trace.query("gradient", rank=loop.rank, start_ns=loop.start_ns, end_ns=loop.end_ns)
    if limits.is_empty() or gradients.is_empty() or gradients["bytes"].null_count():
        return None
    met = limits.filter(pl.col("memory_ns") == pl.col("now_ns")).join(
        loop.events.work.select("event_id", "dur_ns"), on="event_id"
    )
    use = min(1.0, float(met["memory_ns"].sum()) / max(_busy(met), 1))
    if not use:
        return None
    per_byte = float(limits["memory_ns"].sum()) / float(limits["bytes"].sum())
    is_adam = ops["name"].str.contains("(?i)adam|sqrt|addcdiv").any()
    low, middle = (7, 7) if is_adam else (3, 5)
    size = int(gradients["bytes"].sum())
    peak = per_byte * size / max(_busy(kernels), 1)
    said = f"It moves {middle} times the {size // loop.count:,} bytes of the gradients, at the speed of memory."
    return (min(1.0, low * peak), min(1.0, middle * peak / use), min(1.0, 2 * middle * peak / use)), said


def _without_loop(loop: Loop, optimizer: pl.Expr) -> list[Edit]:
    """The loop over parameters between the optimizer's ops goes, too: at the low end nearly all of it, else half."""
    around = _phase_spans(loop, ("optimizer",))
    return [] if around.is_empty() else [Between(optimizer, (0.05, 0.5, 1.0), around)]


def _phase_spans(loop: Loop, phases: tuple[str, ...]) -> pl.DataFrame:
    """When threads are in some phases."""
    return loop.trace.sql(
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
    total = _busy(ops)
    arithmetic = float((ops["dur_ns"] - price).clip(0).sum()) / max(total, 1)
    # Adam in single ops reads and writes some 30 times the parameters, fused seven times (4 tensors, of which 3 are
    # written); SGD with momentum 8 and 5 times.
    share = tuple(min(1.0, arithmetic * part + rest) for part, rest in ((0.15, 0.0), (0.35, 0.0), (0.8, 0.05)))
    optimizer = pl.col("phase") == "optimizer"
    return _new(
        "fused_optimizer",
        [
            Scale(optimizer & (pl.col("category") == "cpu_op"), (share[0], share[1], share[2])),
            *_without_loop(loop, optimizer & ~_GPU),
        ],
        "The update reads and writes each parameter and its state once, where single ops do so two to seven times.",
    )


@_scenario(
    "CUDA C++ programming guide, “CUDA graphs”; launching one took 0.2 to 2.9 us per kernel on V100 and MI300, and"
    " kernels inside were 0 to 1 us apart.",
    launch_us=Given((10.0, 30.0, 60.0), "microseconds to launch a graph"),
    kernel_us=Given((0.2, 0.5, 3.0), "and more for each kernel in it"),
)
def _cuda_graph(loop: Loop, launch_us: Number, kernel_us: Number) -> Made:
    """A graph launches all kernels of forward and backward."""
    if not loop.has_gpu_work:
        return _NO_GPU
    phases = pl.col("phase").is_in(["forward", "loss", "backward"])
    work = _chosen(loop, _GPU & phases)
    if work.is_empty():
        return "No kernel is known to belong to forward or backward."
    shared = work.group_by("runtime_id").len().filter(pl.col("len") > 1, pl.col("runtime_id").is_not_null())
    if 2 * int(shared["len"].sum()) > work.height:
        return "Graphs launch the kernels already."
    blockers = _graph_blockers(loop, work)
    if blockers:
        return f"A graph cannot hold the step: {'; '.join(blockers)}."
    each = work.height / loop.count
    host = _chosen(loop, phases & ~_GPU & (pl.col("category") != "python_function"))
    host = host.filter(pl.col("category").is_in(["cpu_op", "cuda_runtime", "cuda_driver", "user_annotation"]))
    per_step = _each(lambda launch, kernel: 1000 * (launch + each * kernel), launch_us, kernel_us)
    spans = _phase_spans(loop, ("forward", "loss", "backward"))
    return _new(
        "cuda_graph",
        [Stretch(_ids(host), per_step, spans), Gap(_ids(work), (0.0, 1000.0, 1000.0))],
        "Shapes are the same in every step, and python of the model has no effect that a replay would miss.",
    )


def _graph_blockers(loop: Loop, work: pl.DataFrame) -> list[str]:
    found = []
    waits = _chosen(loop, pl.col("event_id").is_in(_returning(loop).implode()) & ~_GPU & _MODEL)
    if not waits.is_empty():
        found.append(
            f"{waits.height / loop.count:,.0f} calls per step wait for the GPU, such as event {waits['event_id'][0]}"
        )
    pageable = work.filter(pl.col("class") == "memory", _NAME.str.contains("Pageable"))
    if not pageable.is_empty():
        found.append(f"pageable memory is copied, as in event {pageable['event_id'][0]}")
    allocated = _chosen(loop, _MODEL & _NAME.is_in(["cudaMalloc", "hipMalloc", "cudaFree", "hipFree"]))
    if not allocated.is_empty():
        found.append(f"memory of the GPU is allocated, as in event {allocated['event_id'][0]}")
    kernels = work.sort("start_ns", "event_id").group_by("step", maintain_order=True).agg("short_name")
    if kernels["short_name"].n_unique() > 1:
        found.append("steps do not launch the same kernels")
    return found


@_scenario(
    "PyTorch 2 (Ansel et al., ASPLOS 2024): Inductor fuses pointwise ops and reductions; a fused kernel reads and"
    " writes at least what the longest of them does, and at most what all do.",
    # Each of n kernels reads and writes; fused, what backward needs is written, but nothing read again: (n + 1) / 2n,
    # which is 0.6 for five. What the CPU does for compiled code is our choice: 7 of 10 ops go, or nine, or one.
    share=Given((0.0, 0.6, 1.0), "the time of a fused kernel, as a share of that of its parts"),
    host=Given((0.1, 0.3, 0.9), "by what the CPU's time in forward and backward is multiplied"),
)
def _compile(loop: Loop, share: Number, host: Number) -> Made:
    """Kernels that follow each other and multiply no matrices become one (torch.compile)."""
    if not loop.has_gpu_work:
        return _NO_GPU
    compiled = pl.col("is_compiled").fill_null(False) | _NAME.str.contains("^triton_")
    if 2 * _busy(_chosen(loop, _GPU & compiled)) > _busy(loop.events.work):
        return "The model is compiled already."
    rest = _COMPUTES & ~_MATMUL & _MODEL & ~compiled & ~_NAME.str.contains(r"(?i)flash|fmha|conv|gemm|cudnn|miopen")
    kernels = _chosen(loop, rest)
    if kernels.height < 2:
        return "Forward and backward have no kernels that could be fused."
    spans = _MODEL & (pl.col("category") == "cpu_op")
    return _new(
        "compile",
        [Fuse(rest, share, host=False), Scale(spans, host)],
        "Kernels of one stream and phase are fused where nothing else is between them.",
        "The graph has no breaks, and shapes do not change.",
    )


# --- memory and ranks ------------------------------------------------------------------------------------------------


@_scenario("PyTorch, torch.utils.checkpoint: what is recomputed in backward is what was not kept.")
def _no_recompute(loop: Loop) -> Made:
    """Nothing is recomputed in backward: activations are kept."""
    again = pl.col("pass") == "recompute"
    found = _chosen(loop, again)
    if found.is_empty():
        return "No forward of a module is known to run again in backward."
    return _new(
        "no_recompute",
        [Remove(again)],
        "Memory is enough for what is kept, and keeping it takes no time.",
    )


_COMMUNICATES = pl.col("class") == "communication"


@_scenario(
    "Collectives take their bytes over the slowest link: NCCL tests, “Performance” (bus bandwidth).",
    factor=Given(2.0, "how many times faster data is transferred", 1e-3),
)
def _bandwidth(loop: Loop, factor: Number) -> Made:
    """The network is faster."""
    kernels = _chosen(loop, _COMMUNICATES)
    if kernels.is_empty():
        return "No kernel communicates."
    assert isinstance(factor, float)
    split = _transfers(loop, kernels)
    waits = 1 - int(split["transfer_ns"].sum()) / max(_busy(kernels), 1)
    faster = Scale(_COMMUNICATES, 1 / factor)
    edits: list[Edit] = [Transfer(_COMMUNICATES, 1 / factor, split)]
    said = (
        f"{percent(100 * waits)} of the time of collectives is waiting for other ranks, not transfer: at the low end it"
        " shrinks alike, else it stays."
    )
    return _new("bandwidth", edits if waits > 0 else [faster], said)


def _transfers(loop: Loop, kernels: pl.DataFrame) -> pl.DataFrame:
    """How long each collective transfers data: `event_id` and `transfer_ns`.

    With several ranks, from when the last one has come. With one, the shortest time of the collective at the same place
    of any step, as every rank may be late in some; in a trace of one step, of the same kernel.
    """
    if len(loop.trace.ranks) > 1:
        found = loop.trace.sql(
            "select event_id, least(transfer_ns, dur_ns) as transfer_ns from collective_match"
            " where rank = $rank and transfer_ns is not null",
            rank=loop.rank,
        )
        known = kernels.select("event_id", "dur_ns").join(found, on="event_id", how="left")
        return known.select("event_id", pl.coalesce("transfer_ns", "dur_ns").alias("transfer_ns"))
    every = loop.trace.sql(
        "select event_id, step, short_name, start_ns, dur_ns from gpu_work where rank = $rank and"
        " class = 'communication' and list_contains($steps, step)",
        rank=loop.rank,
        steps=loop.alike["step"].to_list(),
    )
    placed = every.sort("start_ns", "event_id").with_columns(place=pl.int_range(pl.len()).over("step", "short_name"))
    key = ["short_name", "place"] if loop.alike.height > 1 else ["short_name"]
    least = placed.select("event_id", pl.col("dur_ns").min().over(key).alias("transfer_ns"))
    return (
        kernels.select("event_id", "dur_ns")
        .join(least, on="event_id", how="left")
        .select("event_id", pl.coalesce("transfer_ns", "dur_ns").alias("transfer_ns"))
    )


@_scenario("Daydream (ATC 2020), “overlapping”; a limit: nothing but data holds communication up.")
def _overlap(loop: Loop) -> Made:
    """Communication runs on a stream of its own."""
    kernels = _chosen(loop, _COMMUNICATES)
    if kernels.is_empty():
        return "No kernel communicates."
    streams = kernels.select("device", "stream").unique()
    beside = _chosen(loop, _COMPUTES).join(streams, on=["device", "stream"], how="semi")
    if beside.is_empty():
        return "Communication has streams of its own already."
    said = "A limit: no other kernel needs what is communicated before the step ends."
    return _new("overlap", [Move(_COMMUNICATES)], said)


# Of torch.nn.parallel.DistributedDataParallel: a bucket has `bucket_cap_mb` of gradients, and the first one 1 MiB
# (torch/csrc/distributed/c10d/reducer.hpp, kDefaultFirstBucketBytes).
_BUCKET_BYTES = 25 * 2**20
_FIRST_BUCKET_BYTES = 2**20


@_scenario(
    "Daydream (ATC 2020), distributed training, whose predictions were mostly within 10 %, with NCCL 34 % slower than"
    " in theory; NCCL tests, “Performance”: an all-reduce of n ranks moves 2 (n - 1) / n of its bytes.",
    ranks=Given(8.0, "how many ranks train together", 2),
    gb_per_s=Given((200.0, 50.0, 10.0), "bus bandwidth: from NVLink to one network card", 1e-3),
    mb=Given(None, "megabytes of gradients, if the trace does not tell", 1e-6),
)
def _ddp(loop: Loop, ranks: Number, gb_per_s: Number, mb: float | None) -> Made:
    """More ranks train together (DistributedDataParallel), each with a batch of this size."""
    if not loop.has_gpu_work:
        return _NO_GPU
    if not _chosen(loop, _COMMUNICATES).is_empty():
        return "The run has several ranks already."
    gradients = loop.trace.query("gradient", rank=loop.rank, start_ns=loop.start_ns, end_ns=loop.end_ns)
    if mb is not None and not gradients.is_empty():
        scale = 1e6 * mb * loop.count / max(int(gradients["bytes"].fill_null(1).sum()), 1)
        gradients = gradients.with_columns((pl.col("bytes").fill_null(1) * scale).cast(pl.Int64))
    if gradients.is_empty():
        return "No gradient is seen to be accumulated, so it is not known when they are ready."
    if gradients["bytes"].null_count():
        return "The sizes of the gradients are not in the trace: give mb, or capture with record_shapes=True."
    first = (
        loop.events.work.filter(phase="optimizer").sort("start_ns").group_by("step").agg(until_id=pl.first("event_id"))
    )
    if first.is_empty():
        return "The optimizer launches no work, so it is not known when gradients are needed."
    offset = pl.col("bytes").cum_sum().over("step") - pl.col("bytes")
    bucket = (
        pl.when(offset < _FIRST_BUCKET_BYTES).then(0).otherwise(1 + (offset - _FIRST_BUCKET_BYTES) // _BUCKET_BYTES)
    )
    number = at(ranks, MID)
    buckets = (
        gradients.with_columns(bucket=bucket)
        .group_by("step", "bucket")
        .agg(pl.col("bytes").sum(), pl.last("ready_id"))
        .join(first, on="step")
        .drop_nulls("ready_id")
        .sort("step", "bucket")
    )
    if buckets.is_empty():
        return "No gradient is made on the GPU in a step whose optimizer is seen."
    share = 2 * (number - 1) / number
    latency = (5_000.0, 20_000.0, 50_000.0)  # of one collective: NCCL tests, small messages in and between nodes
    # Every rank waits for the slowest: by how much, on average, follows from how steps differ here.
    late = _slowest_of(number) * float(loop.alike["length_ns"].std() or 0)  # type: ignore[arg-type]
    waits = (0.0, late, 2 * late)
    buckets = buckets.with_columns(
        (
            pl.lit(latency[level])
            + share * pl.col("bytes") / at(gb_per_s, level)
            + pl.when(pl.col("bucket") == 0).then(waits[level]).otherwise(0.0)
        )
        .round()
        .cast(pl.Int64)
        .alias(f"ns_{level}")
        for level in (LOW, MID, HIGH)
    )
    size = int(buckets["bytes"].sum()) // loop.count
    return _new(
        "ddp",
        [AllReduce(pl.col("event_id").is_in(buckets["ready_id"].implode()), buckets)],
        f"{number:g} ranks reduce {size:,} bytes of gradients in {buckets.height // loop.count} buckets.",
        "Each rank waits for the slowest, as far as the steps of this trace differ.",
        "Kernels that run at the same time do not slow each other down.",
        "A step has so many times the samples: compare samples per second.",
    )


def _slowest_of(count: float) -> float:
    """By how many standard deviations the largest of some normal numbers is above their mean (Blom 1958)."""
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25))


# --- another machine -------------------------------------------------------------------------------------------------


@_scenario(
    "Habitat (Yu et al., USENIX ATC 2021), wave scaling; Williams et al., “Roofline” (CACM 52(4), 2009).",
    to=Given(None, "the GPU, such as H200 or A100-SXM4-80GB", is_text=True),
    cpu=Given(1.0, "how many times faster the CPU is", 1e-3),
)
def _gpu(loop: Loop, to: str | None, cpu: Number) -> Made:
    """The job runs on another GPU."""
    if to is None:
        return "It needs the name of a GPU, as in `hotline whatif TRACE gpu -p to=H200`; `on_gpu` compares all."
    given = own_figures(loop)
    gpu = named_gpu(to, given)
    if not loop.has_gpu_work:
        return _NO_GPU
    moved = move_to(loop, gpu, given)
    if isinstance(moved, str):
        return moved
    edits: list[Edit] = [Pace(_GPU, moved.parts)]
    if cpu != 1.0:
        edits.append(Hasten(~_GPU, _inverse(cpu)))
    return _new("gpu", edits, *moved.assumptions)
