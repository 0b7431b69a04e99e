# Written by `make docs` from the headers of queries/answers: change that, and run it again.

from typing import Literal

import polars as pl

from hotline_analysis.run.trace import Trace
from hotline_analysis.vocabulary import GapCause, HostCause, KernelClass, Phase

def annotation_kernels(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    annotation: str | None = None,
) -> pl.DataFrame:
    """GPU work with the innermost annotation (`record_function`) around its launch."""

def caveats(
    trace: Trace,
    *,
    rank: int | None = None,
) -> pl.DataFrame:
    """Problems of a trace: graph capture, compilation, first calls, lost events, and wrong times."""

def collectives(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Collectives of each rank: time waiting for the last rank, transfer time, and bandwidth."""

def comm_comp_overlap(
    trace: Trace,
    *,
    by: Literal["rank", "step", "phase", "module", "collective", "event"] = "rank",
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Communication time overlapped by computation, and exposed communication time."""

def compiled_regions(
    trace: Trace,
    *,
    rank: int | None = None,
) -> pl.DataFrame:
    """Regions compiled by torch.compile: number of calls, time, module, and regions per forward pass."""

def coverage(
    trace: Trace,
    *,
    rank: int | None = None,
) -> pl.DataFrame:
    """GPU time of the file by bucket: modules and named buckets, which add up to the total."""

def cpu_parts(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Composition of each step's time on the main CPU thread: ops by phase, module and region, and time outside ops."""

def cupti_counters(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Hardware counters of each profiled kernel, with the op and module of its launch."""

def cupti_flops(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Floating-point operations counted by the hardware, by op and module."""

def dependency_edges(
    trace: Trace,
    *,
    rank: int,
    start_ns: int,
    end_ns: int,
    until: Literal["host", "work", "launched"] = "work",
    frames: bool = True,
) -> pl.DataFrame:
    """Dependency graph of a window of one rank: edges between points in time on the CPU and the GPU."""

def device_use(
    trace: Trace,
    *,
    rank: int | None = None,
) -> pl.DataFrame:
    """GPU busy time in the run, in each step and in each phase, and the causes of idle time."""

def devices(
    trace: Trace,
    *,
    rank: int | None = None,
) -> pl.DataFrame:
    """Each GPU of a process: busy time, time as the only busy GPU, and the largest part of its time."""

def doubtful_modules(
    trace: Trace,
    *,
    rank: int | None = None,
) -> pl.DataFrame:
    """Modules of the given model with an uncertain position among the ops, or without any."""

def encodings(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    zeros_pct: float | None = None,
    item_bytes: int = 4,
) -> pl.DataFrame:
    """Maps saved for backward that fit into fewer bits, by producing and consuming op (Gist)."""

def event_place(
    trace: Trace,
    *,
    rank: int,
    event: int,
) -> pl.DataFrame:
    """Location of an event: its module, and the line of user code around the event or around its launching call."""

def gpu_parts(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Composition of each step's time on the GPU: launched work, and idle time by cause."""

def idle_breakdown(
    trace: Trace,
    *,
    by: Literal["device", "stream"] = "device",
    rank: int | None = None,
    device: int | None = None,
    stream: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    micro_ns: int = 10000,
) -> pl.DataFrame:
    """Gaps without work on a device, or on each stream, by cause."""

def idle_events(
    trace: Trace,
    limit: int | None = 20,
    *,
    rank: int | None = None,
    step: int | None = None,
    cause: HostCause | None = None,
) -> pl.DataFrame:
    """CPU events during idle time of the GPU, by short name, longest first."""

def idle_gaps(
    trace: Trace,
    limit: int | None = 20,
    *,
    by: Literal["device", "stream"] = "device",
    rank: int | None = None,
    device: int | None = None,
    stream: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    cause: GapCause | None = None,
) -> pl.DataFrame:
    """The longest gaps without GPU work, each with its cause and the CPU activity in the meantime."""

def idle_samples(
    trace: Trace,
    limit: int | None = 20,
    *,
    rank: int | None = None,
    step: int | None = None,
    cause: HostCause | None = None,
) -> pl.DataFrame:
    """Functions that the CPU runs while the GPU is idle, by samples of the stack, most samples first."""

def kernel_breakdown(
    trace: Trace,
    limit: int | None = None,
    *,
    by: Literal["class", "name", "short_name", "op", "module", "phase", "category"] = "short_name",
    rank: int | None = None,
    device: int | None = None,
    stream: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    kernel_class: KernelClass | None = None,
) -> pl.DataFrame:
    """GPU work by class, kernel, op, module or phase: count, time, and spread of the durations."""

def kernel_duration_distribution(
    trace: Trace,
    limit: int | None = None,
    *,
    by: Literal["class", "name", "short_name", "op", "module", "phase", "category"] = "short_name",
    rank: int | None = None,
    device: int | None = None,
    stream: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    kernel_class: KernelClass | None = None,
) -> pl.DataFrame:
    """Distribution of the durations of each kernel, over all its runs and over the ranks."""

def kernel_launches(
    trace: Trace,
    limit: int | None = None,
    *,
    rank: int | None = None,
    device: int | None = None,
    stream: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    runtime_cutoff_ns: int = 50000,
    delay_cutoff_ns: int = 100000,
) -> pl.DataFrame:
    """The launch of each GPU event: launching call, queue time, execution, and idle time of the device before it."""

def kernel_metrics(
    trace: Trace,
    limit: int | None = 20,
    *,
    by: Literal["kernel", "launch"] = "kernel",
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    kernel_class: KernelClass | None = None,
) -> pl.DataFrame:
    """GPU use of kernels: grid, registers, waves, occupancy and unit, by kernel or by launch."""

def kernel_sequence(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    op: str | None = None,
) -> pl.DataFrame:
    """GPU work of each stream in order, with launch costs: the input of `frequent_kernel_patterns`."""

def launch_stats(
    trace: Trace,
    *,
    by: Literal["api", "step", "phase", "module", "op"] = "api",
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    runtime_cutoff_ns: int = 50000,
    delay_cutoff_ns: int = 100000,
) -> pl.DataFrame:
    """Cost of launching GPU work by API, step, phase, module or op: calls, queue times, and idle time of the GPU."""

def level_of_detail(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    tiny_pct: float = 5.0,
    dominant_pct: float = 75.0,
    max_children: int = 40,
    max_depth: int = 12,
    max_nodes: int = 20000,
) -> pl.DataFrame:
    """The trace as a readable tree: step → phase → module → op → kernel, with small nodes grouped."""

def longest_events(
    trace: Trace,
    limit: int = 10,
    *,
    side: Literal["all", "cpu", "gpu"] = "all",
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    op: str | None = None,
    kernel: str | None = None,
) -> pl.DataFrame:
    """The longest events of a step, phase, module, op or kernel."""

def memory_bandwidth(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Bandwidth of copies and memsets over time, by kind."""

def memory_bandwidth_summary(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Amount, duration and bandwidth of copies and memsets, by kind."""

def memory_breakdown(
    trace: Trace,
    *,
    by: Literal["module", "type", "phase", "category"] = "module",
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Memory by category, and by the module, class of modules or phase that allocated it."""

def memory_peak(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Memory at the allocation peak: by category, and by the phase and module that allocated it."""

def memory_timeline(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Allocated and reserved memory over time, from the allocations and releases in the trace (`profile_memory`)."""

def modules(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
) -> pl.DataFrame:
    """The model as a tree: time of each module alone and with its submodules, per pass, on the CPU and the GPU."""

def network_by_module(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    module: str | None = None,
    ranks: int = 8,
    gb_per_s: float = 50.0,
    bucket_mb: float | None = None,
) -> pl.DataFrame:
    """Network traffic of each module when its gradients are reduced: bytes, start, and exposed time."""

def op_delays(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    op: str | None = None,
) -> pl.DataFrame:
    """Delay from the start of an op to its first launch, and from there to the start of the GPU work, by op."""

def os_calls(
    trace: Trace,
    *,
    rank: int,
    start_ns: int,
    end_ns: int,
) -> pl.DataFrame:
    """Calls of the operating system on each thread in a time span: `fsync`, `poll`, `read`, …"""

def peak_loss(
    trace: Trace,
    *,
    by: Literal["run", "step", "phase"] = "run",
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
) -> pl.DataFrame:
    """The observed time split into parts, from useful arithmetic at peak speed to idle time."""

def phases(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
) -> pl.DataFrame:
    """Each phase of the steps: time on the main CPU thread, launched GPU work, and idle time of the GPU."""

def pipeline_bubbles(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
) -> pl.DataFrame:
    """Pipeline bubble of each rank: time waiting for other stages, next to the ideal bubble of the schedule."""

def place_spans(
    trace: Trace,
    *,
    rank: int,
    start_ns: int,
    end_ns: int,
) -> pl.DataFrame:
    """The user's regions and functions on each thread in a time span, cut at each change of the innermost ones."""

def process_groups(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
) -> pl.DataFrame:
    """Speed of the collectives of each process group compared to similar groups, to find slow links."""

def queue_length(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    stream: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
) -> pl.DataFrame:
    """Number of launches waiting on each stream, over time."""

def queue_length_summary(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    stream: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    max_queue_length: int = 1000,
) -> pl.DataFrame:
    """Queue length of each stream: mean, time empty, time full, and host time lost to a full queue."""

def ranks(
    trace: Trace,
) -> pl.DataFrame:
    """Comparison of the ranks: steps, GPU use, and distance from the usual rank of the job."""

def recompute(
    trace: Trace,
    limit: int = 20,
    *,
    rank: int | None = None,
    step: int | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Memory saved for backward by each module, and its forward time: which module to checkpoint first."""

def recompute_groups(
    trace: Trace,
    limit: int = 20,
    *,
    rank: int | None = None,
    step: int | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Results of light ops saved for backward that could be recomputed, in groups sharing the blocks to keep."""

def roofline(
    trace: Trace,
    limit: int | None = 20,
    *,
    by: Literal["op", "shape", "module", "module_type", "kernel", "phase", "step"] = "op",
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    family: Literal["attention", "attention_backward", "concatenation", "convolution", "convolution_backward", "copy", "dropout", "embedding", "embedding_backward", "fill", "foreach", "fused_optimizer", "gather", "gemm", "grouped_gemm", "index_select", "linear", "loss", "loss_backward", "normalisation", "pointers", "pointwise", "pooling", "pooling_backward", "reduction", "rnn", "rnn_backward", "softmax", "transposed_convolution"] | None = None,
) -> pl.DataFrame:
    """Possible gain per op, shape, module, kernel or phase: actual time against the roofline of the GPU."""

def slowest_kernels(
    trace: Trace,
    limit: int = 10,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Kernels, copies and memsets by name."""

def slowest_modules(
    trace: Trace,
    limit: int = 10,
    *,
    by: Literal["path", "type"] = "path",
    rank: int | None = None,
    step: int | None = None,
    sort: Literal["gpu_self", "gpu_total", "cpu_self", "cpu_total"] = "gpu_self",
) -> pl.DataFrame:
    """Modules, or module types, by time over all passes. Grouping by type shortens a model of many equal layers."""

def slowest_ops(
    trace: Trace,
    limit: int = 10,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    sort: Literal["gpu_self", "gpu_total", "cpu_self", "cpu_total"] = "gpu_self",
) -> pl.DataFrame:
    """CPU ops by name, with self time and total time on the CPU and the GPU."""

def slowest_sources(
    trace: Trace,
    limit: int = 10,
    *,
    rank: int | None = None,
    step: int | None = None,
    sort: Literal["gpu_self", "cpu_self"] = "gpu_self",
) -> pl.DataFrame:
    """Source locations by the time of their modules, over all passes."""

def step_kinds(
    trace: Trace,
    *,
    rank: int | None = None,
) -> pl.DataFrame:
    """Kinds of steps: number, length, share of the loop, and difference from the usual kind."""

def step_lengths(
    trace: Trace,
    *,
    rank: int | None = None,
) -> pl.DataFrame:
    """Length of each step from work to work, whether it counts, and its kind."""

def step_time_breakdown(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
) -> pl.DataFrame:
    """Wall time of each step by the first of: kernel, copy, communication, runtime call, loading data, CPU op, other."""

def steps(
    trace: Trace,
    *,
    rank: int | None = None,
) -> pl.DataFrame:
    """Each training step: duration on the CPU, launched GPU work, and idle time of the GPU."""

def straggler_causes(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Causes of late ranks: additional time of the last rank compared to an early rank, by phase, module and region."""

def stragglers(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Ranks late to the collectives, and the cost for other ranks: waiting for the last rank, without the transfer
    time."""

def temporal_breakdown(
    trace: Trace,
    *,
    by: Literal["run", "step"] = "run",
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
) -> pl.DataFrame:
    """Time of each device by activity: computation, communication, memory, several at once, or idle."""

def tensor_cores(
    trace: Trace,
    limit: int | None = 20,
    *,
    by: Literal["op", "module", "module_type", "reason"] = "op",
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Matrix products on and off tensor cores: time, eligible products, the reason they run elsewhere, and the cost."""

def throughput(
    trace: Trace,
    *,
    by: Literal["run", "kind", "step"] = "run",
    rank: int | None = None,
    step: int | None = None,
    samples: int | None = None,
) -> pl.DataFrame:
    """Samples and tokens per second of the loop, of each kind of step, or of each step."""

def uneven_kernels(
    trace: Trace,
    limit: int | None = 10,
) -> pl.DataFrame:
    """Kernels that take longer on one rank than on others: for each name, the rank with the most lost time."""

def unknown_spans(
    trace: Trace,
    limit: int = 10,
    *,
    rank: int | None = None,
) -> pl.DataFrame:
    """Events on tracks of unknown kind, by category and name: number and time."""

def unknown_tracks(
    trace: Trace,
    *,
    rank: int | None = None,
) -> pl.DataFrame:
    """Tracks with events of unknown kind, and their time, which is left out of all GPU results."""

def user_annotations(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    annotation: str | None = None,
) -> pl.DataFrame:
    """Time of annotations (`record_function`) on the CPU and the GPU, with and without inner annotations."""

def utilisation(
    trace: Trace,
    *,
    by: Literal["run", "step", "phase"] = "run",
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
) -> pl.DataFrame:
    """GPU utilisation: FLOP against the peak (MFU, HFU), matrix units, memory traffic, occupancy and busy time."""
