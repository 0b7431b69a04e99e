"""The answers that are one query each: a function for each, with the query's parameters."""

# Written by `make docs` from the headers of queries/answers: change that, and run it again.

from __future__ import annotations

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
    """GPU work with the innermost range that the code names (`record_function`) around its launch.

    Where the launching call is not in the trace, or no annotation is around it, the innermost of the spans that the
    profiler draws on the same stream counts if the work lies in it. Work without either has no annotation. Add up
    by `annotation`.

    * `rank`: only this rank
    * `device`: only this device
    * `step`: only work launched in this step
    * `phase`: only work launched in this phase
    * `module`: only work launched in this module or one in it, by path
    * `annotation`: only work of annotations whose name contains this

    Columns: `rank`, `event_id`, `category`, `name`, `device`, `stream`, `start_ns`, `dur_ns`, `annotation_id`,
    `annotation`, `evidence`. `hotline queries annotation_kernels` says what each means.
    """
    return trace.query(
        "annotation_kernels",
        rank=rank,
        device=device,
        step=step,
        phase=phase,
        module=module,
        annotation=annotation,
    )


def caveats(
    trace: Trace,
    *,
    rank: int | None = None,
) -> pl.DataFrame:
    """What may keep a trace from telling anything about training: graphs that were captured and not run, compilation,
    first calls that set up the GPU or load code, launches whose work is not in the file, launches that are not.

    - `graph_capture`: launch calls between the begin and the end of a stream capture on one thread, which launch
      nothing; their share of all launch calls
    - `compilation`: time in which torch.compile traces and compiles, the spans that it marks `(dynamo_timed)`; the
      share of the time from the first step to the last
    - `first_calls`: the first launch of a kernel, and the first call of any other function of the runtime, if it
      takes over a millisecond, a hundred times what a launch takes, and waits for no other work: the first calls set
      up the GPU, and code is loaded when it is first used (CUDA programming guide, "Initialization" and "Lazy
      Loading"; HIP likewise); the share of the time from the first step to the last
    - `lost_work`: other launch calls without any GPU work in the file; their share of all launch calls. Only if the
      file has GPU work.
    - `lost_launches`: in a file that is cut off or damaged: calls of ops without GPU work although the call of the
      same name and number in another step has some; their share of all calls that have or should have. Profilers
      write launches and GPU work behind the ops, and a file that is cut off lacks them first

    * `rank`: only this rank

    Columns: `rank`, `caveat`, `count`, `time_ns`, `share_pct`, `event_id`. `hotline queries caveats` says what each
    means.
    """
    return trace.query(
        "caveats",
        rank=rank,
    )


def collectives(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Collectives of each rank: how long it waited for the last of the others, and how fast it went then.

    Times are on the clock of the lowest rank (`collective_match` says how clocks are aligned). Where several ranks
    of the run took part in one, each rank's duration is `wait_ns`, until the last of these ranks started, plus
    `transfer_ns`. Ranks that the run lacks may have come later still; waiting for them counts as transfer. Where
    the run has no other rank of it, or calls cannot be told apart, nobody knows how much of the duration was
    waiting: the bandwidth is then at least what it says.

    The bandwidths take the shortest transfer of the ranks, else the duration, and bytes and factors as NCCL's tests
    define them (nccl-tests, doc/PERFORMANCE.md): 2(n-1)/n for all-reduce, (n-1)/n for all-gather, reduce-scatter
    and all-to-all, 1 for the others (macro `bus_factor`).

    * `rank`: only this rank
    * `step`: only this step
    * `phase`: only collectives launched in this phase
    * `module`: only collectives launched in this module or one in it, by path

    Columns: `step`, `match_id`, `name`, `group_name`, `group_size`, `rank_count`, `bytes`, `rank`, `event_id`,
    `start_ns`, `dur_ns`, `wait_ns`, `transfer_ns`, `late_ns`, `is_last`, `algorithm_gb_per_s`, `bus_gb_per_s`.
    `hotline queries collectives` says what each means.
    """
    return trace.query(
        "collectives",
        rank=rank,
        step=step,
        phase=phase,
        module=module,
    )


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
    """How much of the communication runs beside computation, and how much keeps the device from computing.

    Communication counts to the step, phase and module that launched it. Where two collectives run at once, the one
    that started first has the time, so every way of grouping adds up to the time in which communication ran. It is
    overlapped while a computation kernel runs on the same device, else exposed. Copies hide no communication. At
    best, the exposed time could run beside the computation that runs without communication now (`hideable_ns`);
    whether it may depends on what the collective waits for.

    * `by`: what a row is; a collective is a name
    * `rank`: only this rank
    * `device`: only this device
    * `step`: only work launched in this step
    * `phase`: only work launched in this phase
    * `module`: only work launched in this module or one in it, by path

    Columns: `rank`, `device`, `step`, `phase`, `module_path`, `name`, `event_id`, `count`, `communication_ns`,
    `overlapped_ns`, `exposed_ns`, `overlap_pct`, `hideable_ns`. `hotline queries comm_comp_overlap` says what each
    means.
    """
    return trace.query(
        "comm_comp_overlap",
        by=by,
        rank=rank,
        device=device,
        step=step,
        phase=phase,
        module=module,
    )


def compiled_regions(
    trace: Trace,
    *,
    rank: int | None = None,
) -> pl.DataFrame:
    """Regions of code that torch.compile made: how often each runs, how long, in which module, and how many in a pass.

    A region is called by the number of the python function that was compiled and of its version (`0/0`; a second
    version is `0/1`: it was compiled again). Where `regions_in_pass` is over 1, a forward pass runs several: a
    graph break parts it, or functions were compiled one by one. Calls inside of other regions count to those.

    * `rank`: only this rank

    Columns: `rank`, `region`, `module_path`, `module_count`, `call_count`, `pass_count`, `regions_in_pass`,
    `cpu_ns`, `gpu_ns`, `longest_id`. `hotline queries compiled_regions` says what each means.
    """
    return trace.query(
        "compiled_regions",
        rank=rank,
    )


def coverage(
    trace: Trace,
    *,
    rank: int | None = None,
) -> pl.DataFrame:
    """Where the GPU time in the file counts to: modules and named buckets, which add up to all of it.

    `module` is time that a module explains, in forward, backward or recompute. `pre_window` was launched before the
    trace began, `unlinked` has no launch in the trace for another reason. `communication` was launched by
    collective calls outside modules, `gradient_accumulation` adds gradients up, `outside_steps` was launched
    outside every step and every module. The rest is called by its phase. Times are sums of durations, so concurrent
    work counts each.

    * `rank`: only this rank

    Columns: `rank`, `bucket`, `event_count`, `gpu_time_ns`, `gpu_time_pct`, `doubtful_call_count`,
    `doubtful_gpu_time_ns`, `missing_call_count`. `hotline queries coverage` says what each means.
    """
    return trace.query(
        "coverage",
        rank=rank,
    )


def cpu_parts(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """What each step's time on the main CPU thread is made of: ops by phase, module and region, and the time between
    them.

    The parts of a step add up to its duration. An op has the time in which it is the innermost one, with the
    runtime calls inside it. Python is what no op covers, waiting for other threads included: while autograd runs on
    a thread of its own, the main thread is outside ops.

    * `rank`: only this rank
    * `step`: only this step
    * `phase`: only this phase
    * `module`: only this module or one in it, by path

    Columns: `rank`, `step`, `part`, `phase`, `module_path`, `region`, `op`, `count`, `time_ns`. `hotline queries
    cpu_parts` says what each means.
    """
    return trace.query(
        "cpu_parts",
        rank=rank,
        step=step,
        phase=phase,
        module=module,
    )


def cupti_counters(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Hardware counters of each profiled kernel, with the op and module that launched it.

    The view `counter_value` says how the launch of a kernel is found, and what `evidence` stands for.

    * `rank`: only this rank
    * `step`: only kernels launched in this step
    * `phase`: only kernels launched in this phase
    * `module`: only the module with this path and the modules in it

    Columns: `rank`, `event_id`, `kernel`, `counter`, `value`, `kernel_id`, `launch_id`, `op_id`, `op`, `step`,
    `phase`, `module_path`, `evidence`. `hotline queries cupti_counters` says what each means.
    """
    return trace.query(
        "cupti_counters",
        rank=rank,
        step=step,
        phase=phase,
        module=module,
    )


def cupti_flops(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Floating-point operations that the hardware counted, by the op and module that launched them.

    From the counters of executed instructions (`smsp__sass_thread_inst_executed_op_fadd_pred_on.sum` and its like):
    an add or multiply is 1 operation, a fused multiply-add 2 (the roofline method of NERSC). Tensor cores are not
    in these counters, and half-precision ones include moves that compilers write as multiply-adds. Launches are
    found as in `cupti_counters`. A rate needs the kernel's duration, which most traces with counters lack.

    * `rank`: only this rank
    * `step`: only kernels launched in this step
    * `phase`: only kernels launched in this phase
    * `module`: only the module with this path and the modules in it

    Columns: `rank`, `op`, `module_path`, `kernel_count`, `fp64_flop`, `fp32_flop`, `fp16_flop`, `flop`, `flop_pct`,
    `kernel_ns`, `gflop_per_s`, `largest_id`. `hotline queries cupti_flops` says what each means.
    """
    return trace.query(
        "cupti_flops",
        rank=rank,
        step=step,
        phase=phase,
        module=module,
    )


def dependency_edges(
    trace: Trace,
    *,
    rank: int,
    start_ns: int,
    end_ns: int,
    until: Literal["host", "work", "launched"] = "work",
    frames: bool = True,
) -> pl.DataFrame:
    """What waits for what in a window of one rank: the edges of its dependency graph, on the CPU and the GPU.

    Nodes are points of time: on each thread, wherever an event starts or ends; for GPU work, its start and its end;
    and the two ends of the window (nodes 0 and 1). An edge says that `to_id` comes at the earliest `weight_ns`
    after `from_id`. No edge is longer than the time observed between its nodes, and into each node leads one edge
    that is exactly as long and `binds`: what the node waited for. So the longest path is as long as the window.

    Kinds of edges on threads:

    - `host`: the thread runs from one point to the next,
    - `handoff`: the main thread hands over to autograd's own thread, and goes on when that is done,
    - `return`: from the end of GPU work to the end of a call that waited for it. The call waits for what the
      trace's synchronisation records say, else for all work launched before it (device synchronise, free), else for
      the work that ended last during the call; a copy from or to pageable memory and a blocking copy wait for
      themselves (from the copy's start, if the call returns before its end), and a launch into a stream with
      `most_pending()` launches pending waits for the work that ended last,
    - `full`: from the start of the work whose place in the stream's queue a launch needs to the end of its call; no
      edge of this kind binds, and one call in fifty has one.

    Kinds of edges on the GPU:

    - `work`: GPU work runs,
    - `launch`: from the start of the launch call to the start of the work. It binds if the call, or as much of it
      as launch calls usually take, reaches beyond the end of what ran before,
    - `queue`: from the end of the work before on the same stream,
    - `event`: from the end of the work that the stream waited for, by a CUDA event in the synchronisation records,
    - `wait`: likewise, by a call of a trace without such records: what was launched last before it on another
      stream is waited for by the next launch of its thread, unless times contradict,
    - `inferred`: from the end of another stream's work: what the above explains was over more than 10 us before the
      start, and this less than 50 us,
    - `shared`: likewise, but the other work still ran: from its start,
    - `stall`: from a launch call that had returned more than 50 us before the start; nothing else explains the
      wait,
    - `untraced`: nothing shows why the work started when it did.

    Edges of kind `end` lead to the window's end.

    With `until = 'host'` the window is `[start_ns, end_ns)`. With `work`, both ends move to when all GPU work
    launched before them is done: windows of successive steps then share no time, also where the GPU runs behind the
    CPU. With `launched`, it is `[start_ns, end_ns)` on the CPU and all GPU work launched in it, whenever that runs:
    what a step does, all of it and nothing else. What waits for earlier work then waits for the window's start
    (node 0), and `previous_*` say for what, if the step before was like this one: the node of the work at the same
    place from the end of its stream, so many steps ago.

    * `rank`: the process rank
    * `start_ns`: start of the window on the CPU
    * `end_ns`: end of the window on the CPU
    * `until`: what belongs to the window
    * `frames`: python frames cut a thread's time, too; without them there are fewer edges

    Columns: `rank`, `to_id`, `from_id`, `kind`, `binds`, `start_ns`, `end_ns`, `weight_ns`, `event_id`, `track_id`,
    `category`, `name`, `bound_by`, `activity`, `step`, `phase`, `module_id`, `module_path`, `previous_id`,
    `previous_count`, `previous_ns`. `hotline queries dependency_edges` says what each means.
    """
    return trace.query(
        "dependency_edges",
        rank=rank,
        start_ns=start_ns,
        end_ns=end_ns,
        until=until,
        frames=frames,
    )


def device_use(
    trace: Trace,
    *,
    rank: int | None = None,
) -> pl.DataFrame:
    """How busy the GPU is in the run, in each step and in each phase, and why it has no work the rest of the time.

    GPU work belongs to the step and phase that launched it. Idle time belongs to those that the CPU is in until it
    launches the next work, and after the launch to those of the work (`idle_part`). Work launched before the window
    or outside the steps counts to the run alone. Time in which launched work waited and nothing in the file
    explains why (`unobserved_ns`) may be work that was not recorded: the GPU was busy for `gpu_busy_pct` at the
    least, and for `gpu_busy_most_pct` at the most.

    * `rank`: only this rank

    Columns: `rank`, `scope`, `step`, `phase`, `gpu_busy_ns`, `communication_ns`, `copy_ns`, `gpu_idle_ns`,
    `gpu_busy_pct`, `gpu_busy_most_pct`, `load_data_ns`, `profiler_ns`, `sync_ns`, `other_ranks_ns`,
    `other_thread_ns`, `cpu_tensor_ns`, `launching_ns`, `python_ns`, `queued_ns`, `unobserved_ns`, `unknown_ns`,
    `queue_ns`, `idle_cause`. `hotline queries device_use` says what each means.
    """
    return trace.query(
        "device_use",
        rank=rank,
    )


def doubtful_modules(
    trace: Trace,
    *,
    rank: int | None = None,
) -> pl.DataFrame:
    """Modules of the given model that were placed on the ops with doubt, or could not be placed.

    Without `nn.Module` frames, a model is aligned with the ops. A call is doubtful if another place fits as well,
    and missing if no op of a pass of the model fits. Empty where nothing is in doubt, and where the trace has
    frames.

    * `rank`: only this rank

    Columns: `rank`, `module_id`, `path`, `type`, `call_count`, `doubtful_call_count`, `missing_call_count`,
    `cpu_time_ns`, `gpu_time_ns`, `event_id`. `hotline queries doubtful_modules` says what each means.
    """
    return trace.query(
        "doubtful_modules",
        rank=rank,
    )


def encodings(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    zeros_pct: float | None = None,
    item_bytes: int = 4,
) -> pl.DataFrame:
    """What is saved for backward and could be stored in fewer bits: maps by what makes and what uses them, as in Gist.

    Rules of Gist (Jain et al., ISCA 2018), per step:

    - `binarize`: a ReLU's result that goes into max pooling: backward needs only whether a value is above 0, one
      bit,
    - `pool_map`: the indices of max pooling: int64 in PyTorch, and 4 bits do for windows of up to 16 values,
    - `sparse`: the result of a ReLU, or of pooling behind one, that goes into a convolution or linear layer: each
      value that is not 0, with a byte for its place. It pays above `break_even_zeros_pct`. How many are 0 a trace
      knows if `analyze(count_zeros=True)` captured it; else say it with `zeros_pct`,
    - `half`: all else in half of its bits, which loses precision (`is_lossless`).

    A storage counts once: a map that an in-place ReLU changes is the ReLU's. Needs `profile_memory`.

    * `rank`: only this rank
    * `step`: only this step
    * `zeros_pct`: how much of the maps behind a ReLU is 0, instead of what was counted
    * `item_bytes`: bytes of a value

    Columns: `rank`, `module_path`, `made_by`, `used_by`, `scheme`, `is_lossless`, `map_count`, `bytes`,
    `zeros_pct`, `encoded_bytes`, `freed_bytes`, `break_even_zeros_pct`. `hotline queries encodings` says what each
    means.
    """
    return trace.query(
        "encodings",
        rank=rank,
        step=step,
        zeros_pct=zeros_pct,
        item_bytes=item_bytes,
    )


def event_place(
    trace: Trace,
    *,
    rank: int,
    event: int,
) -> pl.DataFrame:
    """Where an event belongs to: the module, and the line of the user's code around it or around the call that
    launched it.

    In a module, the innermost function of the user or of a library counts, as a library may have the code of the
    model. Elsewhere it is the innermost function of the user.

    * `rank`: the process rank
    * `event`: the event, by its `event_id`

    Columns: `rank`, `event_id`, `module_path`, `source`, `function`. `hotline queries event_place` says what each
    means.
    """
    return trace.query(
        "event_place",
        rank=rank,
        event=event,
    )


def gpu_parts(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """What each step's time on the GPU is made of: the work it launched, and why the device idled before that.

    All parts add up to the observed time of the device. Where work overlaps, the time counts once: to computation,
    then to communication, then to memory; of one class, to what started first. So communication has the time in
    which nothing is computed. Idle time counts to the step, phase, module, region and op of the work that ends it.
    Work of no step was launched before the trace began, outside the steps, or has no launch in the trace.

    * `rank`: only this rank
    * `device`: only this device; -1 when the events name none
    * `step`: only this step
    * `phase`: only this phase
    * `module`: only this module or one in it, by path

    Columns: `rank`, `step`, `part`, `phase`, `module_path`, `region`, `op`, `kernel`, `count`, `graph_count`,
    `time_ns`, `dur_ns`. `hotline queries gpu_parts` says what each means.
    """
    return trace.query(
        "gpu_parts",
        rank=rank,
        device=device,
        step=step,
        phase=phase,
        module=module,
    )


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
    """What a device, or each of its streams, waits for when it has no work, and how often.

    Each gap counts to its largest part: the host had not launched the next work (`host`), the host was in a
    synchronise (`sync`), the work waited in its queue for communication or a kernel on another stream, the usual
    gap between two kernels (`kernel`), none of these (`other`), nothing that the file shows (`unobserved`), or its
    launch is not in the trace (`unknown`). The parts of all gaps are summed up, too: `host_ns`, `sync_ns`,
    `queued_ns`, `unobserved_ns` and `unknown_ns` add up to `idle_ns`. A device idles when all its streams do; a
    stream may idle while others work.

    * `by`: gaps of a device (all streams at once), or of each stream alone
    * `rank`: only this rank
    * `device`: only this device
    * `stream`: only gaps of this stream, whatever `by` says
    * `step`: only gaps that end with work of this step
    * `phase`: only gaps that end with work of this phase
    * `module`: only gaps that end with work of this module or one in it, by path
    * `micro_ns`: gaps shorter than this are micro gaps

    Columns: `rank`, `device`, `stream`, `cause`, `gap_count`, `idle_ns`, `idle_pct`, `micro_count`,
    `micro_total_ns`, `mean_ns`, `median_ns`, `max_ns`, `host_ns`, `launch_ns`, `sync_ns`, `queued_ns`,
    `unobserved_ns`, `unknown_ns`, `example_event_id`. `hotline queries idle_breakdown` says what each means.
    """
    return trace.query(
        "idle_breakdown",
        by=by,
        rank=rank,
        device=device,
        stream=stream,
        step=step,
        phase=phase,
        module=module,
        micro_ns=micro_ns,
    )


def idle_events(
    trace: Trace,
    limit: int | None = 20,
    *,
    rank: int | None = None,
    step: int | None = None,
    cause: HostCause | None = None,
) -> pl.DataFrame:
    """What the CPU does while the GPU has no work, by short name: the events that hold it up, most time first.

    Counted is the time of an event of its own (without what is inside it) on the thread that the GPU waits for, in
    the parts of `idle_part` until the launch. Time in which the thread shows no event is left out.

    * `limit`: so many names of each cause; NULL for all
    * `rank`: only this rank
    * `step`: only this step
    * `cause`: only idle time of this cause

    Columns: `rank`, `cause`, `category`, `short_name`, `name`, `count`, `idle_ns`, `idle_pct`, `max_ns`,
    `event_id`. `hotline queries idle_events` says what each means.
    """
    return trace.query(
        "idle_events",
        rank=rank,
        step=step,
        cause=cause,
        limit=limit,
    )


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
    """The longest times without work, each with what it waited for and what the CPU did meanwhile.

    `cpu_*` is the CPU event with the most time of its own (without what is inside it) on the launching thread,
    between the start of the gap and the launch of the work that ends it. `source` is the innermost line of the
    user's python around that event, where the trace has python stacks.

    * `limit`: so many gaps; NULL for all
    * `by`: gaps of a device (all streams at once), or of each stream alone
    * `rank`: only this rank
    * `device`: only this device
    * `stream`: only gaps of this stream, whatever `by` says
    * `step`: only gaps that end with work of this step
    * `phase`: only gaps that end with work of this phase
    * `module`: only gaps that end with work of this module or one in it, by path
    * `cause`: only gaps of this cause

    Columns: `rank`, `device`, `stream`, `start_ns`, `dur_ns`, `cause`, `host_ns`, `launch_ns`, `sync_ns`,
    `queued_ns`, `unobserved_ns`, `unknown_ns`, `step`, `phase`, `module_path`, `next_id`, `next_name`, `op_id`,
    `op_name`, `cpu_event_id`, `cpu_name`, `cpu_ns`, `source`. `hotline queries idle_gaps` says what each means.
    """
    return trace.query(
        "idle_gaps",
        by=by,
        rank=rank,
        device=device,
        stream=stream,
        step=step,
        phase=phase,
        module=module,
        cause=cause,
        limit=limit,
    )


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
    """GPU work by class, kernel, op, module or phase: how often, how long, and how the durations spread.

    Every row but those of a class is a sum over real kernels of one name, op or module; nothing is put together
    under `others`. What is grouped by something unknown (work without an op, a module) has a row with key NULL.
    `busy_ns` shares out the time the device was busy: of work that overlaps, the one that started first has it.

    * `limit`: so many rows of each rank; NULL for all
    * `by`: what a row is
    * `rank`: only this rank
    * `device`: only this device
    * `stream`: only this stream
    * `step`: only work launched in this step
    * `phase`: only work launched in this phase
    * `module`: only work launched in this module or one in it, by path
    * `kernel_class`: only this class of work

    Columns: `rank`, `key`, `class`, `count`, `gpu_time_ns`, `gpu_time_pct`, `busy_ns`, `mean_ns`, `std_ns`,
    `min_ns`, `median_ns`, `max_ns`, `example_event_id`. `hotline queries kernel_breakdown` says what each means.
    """
    return trace.query(
        "kernel_breakdown",
        by=by,
        rank=rank,
        device=device,
        stream=stream,
        step=step,
        phase=phase,
        module=module,
        kernel_class=kernel_class,
        limit=limit,
    )


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
    """How the durations of each kernel spread, over all its runs and over the ranks.

    A wide spread of one kernel means that its inputs differ, or that it waits: a collective lasts until the last
    rank has come. `slowest_rank` and `fastest_rank` compare the ranks' mean durations. Percentiles are durations
    that occur.

    * `limit`: so many rows; NULL for all
    * `by`: what a row is
    * `rank`: only this rank
    * `device`: only this device
    * `stream`: only this stream
    * `step`: only work launched in this step
    * `phase`: only work launched in this phase
    * `module`: only work launched in this module or one in it, by path
    * `kernel_class`: only this class of work

    Columns: `key`, `class`, `rank_count`, `count`, `gpu_time_ns`, `mean_ns`, `std_ns`, `min_ns`, `p05_ns`,
    `p25_ns`, `median_ns`, `p75_ns`, `p95_ns`, `p99_ns`, `max_ns`, `slowest_rank`, `slowest_mean_ns`,
    `fastest_rank`, `fastest_mean_ns`. `hotline queries kernel_duration_distribution` says what each means.
    """
    return trace.query(
        "kernel_duration_distribution",
        by=by,
        rank=rank,
        device=device,
        stream=stream,
        step=step,
        phase=phase,
        module=module,
        kernel_class=kernel_class,
        limit=limit,
    )


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
    """Each piece of GPU work with its way there: launch call, queue, execution, and the idle time of the device before
    it.

    A launch is any call that has work on the GPU: of the runtime, the driver or HIP, for kernels, graphs, copies
    and memsets. The marks are HTA's: a short kernel runs for less time than its launch call takes, a runtime
    outlier is a call above `runtime_cutoff_ns`, a delay outlier starts more than `delay_cutoff_ns` after its call
    returned.

    * `limit`: so many, in order of their start; NULL for all
    * `rank`: only this rank
    * `device`: only this device
    * `stream`: only this stream
    * `step`: only work launched in this step
    * `phase`: only work launched in this phase
    * `module`: only work launched in this module or one in it, by path
    * `runtime_cutoff_ns`: longer calls are outliers
    * `delay_cutoff_ns`: longer delays are outliers

    Columns: `rank`, `event_id`, `name`, `class`, `device`, `stream`, `start_ns`, `runtime_id`, `api`, `op_id`,
    `launch_ns`, `queue_ns`, `gpu_ns`, `kernel_count`, `idle_before_ns`, `is_short`, `is_runtime_outlier`,
    `is_delay_outlier`, `step`, `phase`, `module_path`. `hotline queries kernel_launches` says what each means.
    """
    return trace.query(
        "kernel_launches",
        rank=rank,
        device=device,
        stream=stream,
        step=step,
        phase=phase,
        module=module,
        runtime_cutoff_ns=runtime_cutoff_ns,
        delay_cutoff_ns=delay_cutoff_ns,
        limit=limit,
    )


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
    """How kernels use the GPU: grid, registers, waves, occupancy and unit, by kernel or by launch.

    Waves, tail, occupancy and SM efficiency of a row are means over its launches, weighted by their durations.
    Grid, block, registers, shared memory, limit, unit and precision are those of its longest launch; `shape_count`
    says whether all have the same. `kernel_shape` says what the figures mean and what they follow from. They
    describe how a kernel is put on the GPU, not how fast it is: much work per thread can make up for low occupancy.
    How fast it is say FLOP and bytes, by the shapes of its op (`kernel_roofline`); rates are sums over sums, of the
    launches whose work is known.

    * `limit`: so many rows of each rank; NULL for all
    * `by`: what a row is
    * `rank`: only this rank
    * `device`: only this device
    * `step`: only work launched in this step
    * `phase`: only work launched in this phase
    * `module`: only work launched in this module or one in it, by path
    * `kernel_class`: only this class of kernels

    Columns: `rank`, `short_name`, `name`, `class`, `event_id`, `count`, `gpu_time_ns`, `gpu_time_pct`,
    `shape_count`, `grid`, `block`, `registers`, `shared_memory_bytes`, `waves`, `tail_pct`, `occupancy_pct`,
    `occupancy_limit`, `sm_efficiency_pct`, `unit`, `precision`, `tflop_per_s`, `gb_per_s`, `flop_per_byte`,
    `roofline_pct`. `hotline queries kernel_metrics` says what each means.
    """
    return trace.query(
        "kernel_metrics",
        by=by,
        rank=rank,
        device=device,
        step=step,
        phase=phase,
        module=module,
        kernel_class=kernel_class,
        limit=limit,
    )


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
    """The GPU work of each stream in order, with what each cost to launch: what `frequent_kernel_patterns` looks for
    patterns in.

    `place` counts all work of the stream, so work that follows each other directly has places that follow each
    other, also where only some of it is asked for. The launch of several at once (a graph) counts to the first of
    them. A call counts with at most ten times the median: what takes longer waits for something, such as a blocking
    copy. A gap that goes on for more than 50 us after that is no launch's fault.

    * `rank`: only this rank
    * `device`: only this device
    * `step`: only work that this step launched
    * `phase`: only work that this phase launched
    * `module`: only work of the module with this path and those in it
    * `op`: only work launched inside CPU ops of this name

    Columns: `rank`, `device`, `stream`, `place`, `event_id`, `short_name`, `start_ns`, `end_ns`, `gap_ns`,
    `launch_gap_ns`, `call_ns`, `call_end_ns`, `launch_ns`. `hotline queries kernel_sequence` says what each means.
    """
    return trace.query(
        "kernel_sequence",
        rank=rank,
        device=device,
        step=step,
        phase=phase,
        module=module,
        op=op,
    )


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
    """What launching GPU work costs, by API, step, phase, module or op: the calls, the waiting, and the idle GPU.

    A launch is any call that has work on the GPU: of the runtime, the driver or HIP, for kernels, graphs, copies
    and memsets. A graph launch is one call. A call is short if its GPU work takes less time than the call itself, a
    runtime outlier above `runtime_cutoff_ns`, a delay outlier if its work starts more than `delay_cutoff_ns` after
    it returned (HTA's marks and cutoffs). What they cost is the time in which the device was idle until their work
    started (`…_idle_ns`); a call that the GPU's queue hides costs nothing. One call can have two marks.

    * `by`: what a row is
    * `rank`: only this rank
    * `step`: only launches in this step
    * `phase`: only launches in this phase
    * `module`: only launches in this module or one in it, by path
    * `runtime_cutoff_ns`: longer calls are outliers
    * `delay_cutoff_ns`: longer delays are outliers

    Columns: `rank`, `key`, `step`, `call_count`, `gpu_event_count`, `call_ns`, `call_mean_ns`, `call_max_ns`,
    `gpu_time_ns`, `queue_median_ns`, `queue_max_ns`, `idle_ns`, `idle_pct`, `short_count`, `short_call_ns`,
    `short_idle_ns`, `runtime_outlier_count`, `runtime_outlier_call_ns`, `runtime_outlier_idle_ns`,
    `delay_outlier_count`, `delay_outlier_queue_ns`, `delay_outlier_idle_ns`. `hotline queries launch_stats` says
    what each means.
    """
    return trace.query(
        "launch_stats",
        by=by,
        rank=rank,
        step=step,
        phase=phase,
        module=module,
        runtime_cutoff_ns=runtime_cutoff_ns,
        delay_cutoff_ns=delay_cutoff_ns,
    )


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
    """The trace as a tree that people can read: step → phase → module → op → kernel, with what is too small to see
    grouped.

    A node is a step, a phase, a call of a module, an annotation, an op, a runtime call or a piece of GPU work. A
    call that launches one piece of GPU work and that work are one node. Its parent is what encloses it on its
    thread; what runs on another thread than the training loop belongs to the phase that it is labelled with. GPU
    work belongs to the node that launched it and to all around that, whenever it runs. Python frames are left out:
    their time is a gap.

    Noise is reduced in four ways. A node that can be opened is replaced by its children where it adds nothing: an
    only child, or one that takes more than `dominant_pct` of its parent beside others that cannot be opened;
    modules only where there are modules in them. Neighbours of one thread with the same name, or each under
    `tiny_pct` of their parent, make a group, unless that would be all that the parent shows; neighbours of one name
    count as one then. Modules, and what takes more than `dominant_pct` of its parent in this step, are never too
    small. Where a node still has more than `max_children` children on a thread, neighbours are bundled evenly.
    Nodes below `max_depth` are left out, and so are the smallest where a step has more than `max_nodes`; the time
    of what is left out stays in the nodes around it.

    Times vary from run to run, and the tree should not. So it depends on them only where it asks what is tiny and
    what is dominant, and then on usual times: the share of a node is that of the shortest times which its place,
    known by the names around it, has in five evenly chosen steps. Shares between half and twice `tiny_pct` are
    borderline: there the median share of all nodes with the same name in parents of the same name decides, so that
    like nodes are treated alike; all modules of a class have one name here. Whether a child adds nothing is decided
    once for each pair of names, too. Bundles are made by order and not by time.

    * `rank`: only this rank
    * `step`: only this step
    * `tiny_pct`: neighbours under this share of their parent are grouped
    * `dominant_pct`: a child above this share is replaced by its children; 100: none is
    * `max_children`: from so many on, neighbours are bundled
    * `max_depth`: levels below the step
    * `max_nodes`: nodes per step

    Columns: `rank`, `step`, `node_id`, `parent_id`, `depth`, `kind`, `name`, `short_name`, `phase`, `module_id`,
    `pass`, `member_count`, `name_count`, `name_pct`, `event_id`, `gpu_event_id`, `device`, `track_id`, `start_ns`,
    `end_ns`, `time_ns`, `gpu_event_count`, `busy_ns`, `idle_ns`. `hotline queries level_of_detail` says what each
    means.
    """
    return trace.query(
        "level_of_detail",
        rank=rank,
        step=step,
        tiny_pct=tiny_pct,
        dominant_pct=dominant_pct,
        max_children=max_children,
        max_depth=max_depth,
        max_nodes=max_nodes,
    )


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
    """The longest events of a step, phase, module, op or kernel: where to look for what a sum is made of.

    With them, every figure by step, phase, module, op or kernel leads to events of the file. An event of an op is
    its call, or GPU work that it launched. Annotations and python frames are left out, as they are around other
    events.

    * `limit`: so many rows
    * `side`: events of both, ops and calls of the CPU, or GPU work
    * `rank`: only this rank
    * `step`: only this step
    * `phase`: only this phase
    * `module`: only this module or one in it, by path
    * `op`: only calls of this op, and work that they launched
    * `kernel`: only kernels and copies of this name, or short name

    Columns: `rank`, `event_id`, `category`, `name`, `step`, `phase`, `module_path`, `op`, `start_ns`, `dur_ns`,
    `self_ns`. `hotline queries longest_events` says what each means.
    """
    return trace.query(
        "longest_events",
        side=side,
        rank=rank,
        step=step,
        phase=phase,
        module=module,
        op=op,
        kernel=kernel,
        limit=limit,
    )


def memory_bandwidth(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Bandwidth of copies and memsets over time, by kind.

    The bandwidths of copies of one kind that run at the same time add up. They are those in the trace, else bytes
    by duration. There is a row for each stretch in which something runs and the sum does not change; in between,
    and for copies without a duration, the bandwidth is 0.

    * `rank`: only this rank
    * `device`: only this device
    * `step`: only copies launched in this step
    * `phase`: only copies launched in this phase
    * `module`: only copies launched in this module or one in it, by path

    Columns: `rank`, `device`, `kind`, `start_ns`, `end_ns`, `copy_count`, `gb_per_s`, `event_id`. `hotline queries
    memory_bandwidth` says what each means.
    """
    return trace.query(
        "memory_bandwidth",
        rank=rank,
        device=device,
        step=step,
        phase=phase,
        module=module,
    )


def memory_bandwidth_summary(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """How much was copied and set, how long it took, and at which bandwidth, by kind.

    The bandwidths of copies that run at the same time add up. Mean and median are over the time in which at least
    one runs, not over copies. The driver stages copies from and to pageable host memory, and the host waits for it.

    * `rank`: only this rank
    * `device`: only this device
    * `step`: only copies launched in this step
    * `phase`: only copies launched in this phase
    * `module`: only copies launched in this module or one in it, by path

    Columns: `rank`, `device`, `kind`, `copy_count`, `bytes`, `pageable_bytes`, `copy_ns`, `active_ns`,
    `mean_gb_per_s`, `median_gb_per_s`, `max_gb_per_s`, `slowest_id`. `hotline queries memory_bandwidth_summary`
    says what each means.
    """
    return trace.query(
        "memory_bandwidth_summary",
        rank=rank,
        device=device,
        step=step,
        phase=phase,
        module=module,
    )


def memory_breakdown(
    trace: Trace,
    *,
    by: Literal["module", "type", "phase", "category"] = "module",
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Who holds the memory: by category, and by the module, class of modules or phase that allocated it.

    Categories and their rules are those of `memory_block`. Beside them, `parameter` (`model_table`) and
    `optimizer_state` (`optimizer_class`) are what `model_state` says, on the only GPU of a rank, if that fits into
    the memory that is older than the trace. `held_throughout` is the rest of it: never allocated nor released while
    the trace was recorded, so no event tells what it is; weights, gradients that are kept, and buckets of DDP are.
    Where more blocks are alive than the allocator says, a negative row `inconsistent` makes up for it.

    `bytes` of a device add up to `peak_bytes`, and `byte_seconds` to what the allocator had, over the time from the
    first allocation or release that is asked for to the last. `largest_bytes` are the most that the blocks of a row
    have together at any moment; these moments differ, so they do not add up.

    Where no allocations were recorded, shapes give an estimate (`is_estimated`): what is saved for backward
    (`backward_shapes`, see `estimated_memory`), parameters that are trained and their gradients (`gradient_shapes`;
    or parameters by `model_table`), and the optimizer's state (`optimizer_class`). `peak_bytes` is then the most
    that these have together. What was not estimated, temporary memory and workspaces among it, is a row without
    bytes, `not_estimated`; a GPU is called cuda.

    * `by`: what a row is, beside its category
    * `rank`: only this rank
    * `device`: only this device; -1 is the CPU
    * `step`: only in this step
    * `module`: only what was allocated in this module or one in it, by path

    Columns: `rank`, `device_type`, `device`, `category`, `place`, `evidence`, `is_estimated`, `bytes`, `bytes_pct`,
    `largest_bytes`, `byte_seconds`, `byte_seconds_pct`, `block_count`, `largest_id`, `peak_bytes`, `peak_start_ns`,
    `peak_step`. `hotline queries memory_breakdown` says what each means.
    """
    return trace.query(
        "memory_breakdown",
        by=by,
        rank=rank,
        device=device,
        step=step,
        module=module,
    )


def memory_peak(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """What is allocated when most is allocated: by category, and by the phase and module that allocated it.

    What a block is follows from where it was allocated and where it was released: `memory_block` has the rules, and
    `evidence` names the one that told. Parameters and the optimizer's state are often older than the trace. Where
    the table of a captured model says how large they are (`model_state`), the trace has one GPU, and at least so
    much of its memory is older than the trace and not released in it, that much is `parameter` (`model_table`) and
    `optimizer_state` (`optimizer_class`); the rest of it is `held_throughout`. The rows of a device add up to
    `peak_bytes`; where more blocks are alive than the allocator says, a negative row `inconsistent` makes up for
    it. `memory_breakdown` says more.

    * `rank`: only this rank
    * `device`: only this device; -1 is the CPU
    * `step`: when most is allocated in this step
    * `phase`: only what was allocated in this phase
    * `module`: only what was allocated in this module or one in it, by path

    Columns: `rank`, `device_type`, `device`, `category`, `evidence`, `phase`, `module_path`, `bytes`, `bytes_pct`,
    `block_count`, `largest_bytes`, `largest_id`, `peak_bytes`, `reserved_bytes`, `peak_start_ns`, `peak_id`,
    `peak_step`. `hotline queries memory_peak` says what each means.
    """
    return trace.query(
        "memory_peak",
        rank=rank,
        device=device,
        step=step,
        phase=phase,
        module=module,
    )


def memory_timeline(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Memory allocated and reserved over time, from the allocations and releases in the trace (`profile_memory`).

    One row per allocation or release, in order of time. Totals are those of the allocator after the event; where
    the profiler did not record them, `allocated_bytes` sums up what the trace shows, from 0.

    * `rank`: only this rank
    * `device`: only this device; -1 is the CPU
    * `step`: only while this step runs on the CPU
    * `phase`: only in this phase of the thread that allocates or releases
    * `module`: only in this module or one in it, by path

    Columns: `rank`, `device_type`, `device`, `event_id`, `start_ns`, `bytes`, `allocated_bytes`, `reserved_bytes`,
    `step`, `phase`, `module_path`. `hotline queries memory_timeline` says what each means.
    """
    return trace.query(
        "memory_timeline",
        rank=rank,
        device=device,
        step=step,
        phase=phase,
        module=module,
    )


def modules(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
) -> pl.DataFrame:
    """The model as a tree: each module's own time and that of all modules in it, per pass, on the CPU and on the GPU.

    `self` is what belongs to the module and to no module in it; `total` adds the modules below it in the tree. CPU
    time includes waiting and python. A pass in which a module and its children have no event has no row.

    * `rank`: only this rank
    * `step`: only this step

    Columns: `rank`, `module_id`, `parent_id`, `depth`, `path`, `type`, `pass`, `call_count`, `cpu_self_ns`,
    `cpu_total_ns`, `gpu_self_ns`, `gpu_total_ns`, `gpu_total_pct`, `example_event_id`. `hotline queries modules`
    says what each means.
    """
    return trace.query(
        "modules",
        rank=rank,
        step=step,
    )


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
    """What each module sends over the network when its gradients are reduced: how much, from when on, and what it
    costs.

    A row is a module's gradients in one bucket of DistributedDataParallel, in the order in which buckets are sent;
    all times are means over backward passes. Where the trace shows its gradients to be reduced on a GPU
    (`is_measured`), buckets and times are those, waiting for other ranks included. Else they are predicted, of a
    trace of one rank: gradients in the order in which they are accumulated, 1 MiB in the first bucket and 25 MiB in
    the others; an all-reduce takes 20 us and 2 (n - 1) / n of its bytes at the bus bandwidth, after the one before
    it. `exposed_ns` of all rows add up to what a pass waits for the network. A layer with many bytes and no slack
    is what makes data parallelism slow.

    Sizes are those of the parameters' shapes, or of the model's table of a capture: then the gradients of a module
    are taken to be of one size, so the ends of buckets are near.

    * `rank`: only this rank
    * `step`: only this step
    * `module`: only this module and those in it, by path
    * `ranks`: how many ranks would train together
    * `gb_per_s`: bus bandwidth of the network, as between two nodes
    * `bucket_mb`: MiB in a bucket (`bucket_cap_mb`); by default 25, of which the first has 1

    Columns: `rank`, `bucket`, `module_path`, `gradient_count`, `bytes`, `evidence`, `ready_ns`, `slack_ns`,
    `bucket_bytes`, `transfer_ns`, `exposed_ns`, `is_measured`. `hotline queries network_by_module` says what each
    means.
    """
    return trace.query(
        "network_by_module",
        rank=rank,
        step=step,
        module=module,
        ranks=ranks,
        gb_per_s=gb_per_s,
        bucket_mb=bucket_mb,
    )


def op_delays(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    op: str | None = None,
) -> pl.DataFrame:
    """From the start of an op to its first launch, and from there to the start of the work, by op and what it
    launches.

    Calls of one op that launch the same kernels, copies and memsets in the same order are one row. Only what an op
    launches itself counts, not what the ops in it launch. The first delay is the host's: checks, dispatch,
    allocation. The second is the way to the GPU and the queue there; work that seems to start before its launch
    counts as 0.

    * `rank`: only this rank
    * `step`: only this step
    * `phase`: only this phase
    * `module`: only the module with this path and the modules in it
    * `op`: only ops of this name

    Columns: `rank`, `op`, `kernel_sequence`, `call_count`, `kernel_count`, `op_to_launch_ns`, `launch_to_start_ns`,
    `mean_op_to_launch_ns`, `mean_launch_to_start_ns`, `max_op_to_launch_ns`, `max_launch_to_start_ns`,
    `gpu_time_ns`, `slowest_id`. `hotline queries op_delays` says what each means.
    """
    return trace.query(
        "op_delays",
        rank=rank,
        step=step,
        phase=phase,
        module=module,
        op=op,
    )


def peak_loss(
    trace: Trace,
    *,
    by: Literal["run", "step", "phase"] = "run",
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
) -> pl.DataFrame:
    """Where the peak of the GPU goes: the observed time, from useful arithmetic at peak speed to idle time, without a
    rest.

    Each moment of a device is in exactly one part, so the parts add up to the observed time to the nanosecond.
    Where several events run, computation counts before communication, and that before copies. The time of a matrix
    product is cut into the time that its FLOP take at the peak of the unit and precision that it runs in, which is
    useful (or repeated: work of checkpointing, and the product that attention's backward makes once more), and the
    rest, which is inefficiency. The time of other work is cut likewise by the time that its bytes and arithmetic
    take at best. Causal attention is useful for the pairs that it keeps. A step or phase has the work that it
    launched, and the idle time while it kept the GPU waiting; work launched before the trace is in no step.
    Definitions: Chowdhery et al., "PaLM", 2022, appendix B, for useful FLOP.

    * `by`: what the parts of a row add up to
    * `rank`: only this rank
    * `device`: only this device
    * `step`: only work of this step
    * `phase`: only work of this phase

    Columns: `rank`, `device`, `step`, `phase`, `part`, `ns`, `pct`. `hotline queries peak_loss` says what each
    means.
    """
    return trace.query(
        "peak_loss",
        by=by,
        rank=rank,
        device=device,
        step=step,
        phase=phase,
    )


def phases(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
) -> pl.DataFrame:
    """Each phase of the steps: time on the main CPU thread, GPU work launched in it, and how long the GPU was idle in
    it.

    The CPU times of a rank add up to the duration of its steps. GPU work counts to the phase whose call launched
    it. Idle time of the GPU counts to the phase that the CPU is in until it launches the next work; what passes
    after the launch counts to the phase of the work (`idle_part`). The CPU waits for the GPU in the calls of
    `gpu_wait`.

    * `rank`: only this rank
    * `step`: only this step

    Columns: `rank`, `phase`, `cpu_ns`, `cpu_pct`, `cpu_waiting_ns`, `gpu_event_count`, `gpu_time_ns`,
    `gpu_time_pct`, `gpu_busy_ns`, `gpu_idle_ns`, `example_event_id`. `hotline queries phases` says what each means.
    """
    return trace.query(
        "phases",
        rank=rank,
        step=step,
    )


def pipeline_bubbles(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
) -> pl.DataFrame:
    """How long each rank of a pipeline waits for another stage, beside the least that its schedule allows.

    The bubble is the time in sends and receives (`collective_use`) in which the device computes nothing, or on the
    CPU, in which the loop waits for them (`thread_wait`). A file does not tell waiting from transfer, and a
    transfer of activations takes little of it. With p stages and m micro-batches, a schedule that fills and drains
    the pipeline once leaves each stage without work for (p - 1) / (m + p - 1) of the step (Huang et al., "GPipe",
    NeurIPS 2019, section 2; Narayanan et al., "Efficient large-scale language model training on GPU clusters", SC
    2021, section 2.2). Stages are the ranks of the process group, and micro-batches the calls with one peer in one
    direction in a step, as the trace shows no others.

    * `rank`: only this rank
    * `step`: only this step

    Columns: `rank`, `step`, `stage`, `stage_count`, `micro_batch_count`, `bubble_ns`, `bubble_pct`, `ideal_pct`.
    `hotline queries pipeline_bubbles` says what each means.
    """
    return trace.query(
        "pipeline_bubbles",
        rank=rank,
        step=step,
    )


def place_spans(
    trace: Trace,
    *,
    rank: int,
    start_ns: int,
    end_ns: int,
) -> pl.DataFrame:
    """The user's regions and functions on each thread in a time, cut where the innermost of them changes.

    Each row has the innermost region and the innermost function, of which the one that began last is more specific.
    `*_holds_phases` is true for one with two phases or more in it, such as a function with the whole training loop:
    it does not name the time of these phases, which have names of their own.

    * `rank`: the process rank
    * `start_ns`: start of the time
    * `end_ns`: end of the time

    Columns: `track_id`, `number`, `start_ns`, `end_ns`, `region`, `region_id`, `region_start_ns`,
    `region_holds_phases`, `function`, `source`, `function_id`, `function_start_ns`, `function_holds_phases`.
    `hotline queries place_spans` says what each means.
    """
    return trace.query(
        "place_spans",
        rank=rank,
        start_ns=start_ns,
        end_ns=end_ns,
    )


def process_groups(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
) -> pl.DataFrame:
    """How fast the collectives of each process group go, beside those of groups alike: where a link is slow.

    Groups are alike if they have as many ranks, in the same distances from each other, so that each reaches as far
    over the network: groups of 0 to 7 and of 8 to 15, but not of 0, 8, 16 and so on. What counts of a collective is
    its transfer, from the last rank's start to the end on the rank where that takes least, so waiting for a late
    rank makes none slow. `usual_ns` is the time at the median of at least three groups alike, for each type and
    size of message. A group is slow if it takes longer than that and is an outlier (`oddity` above 3.5, as in
    `ranks`), which of few groups one can be by chance. Slow groups that are not alike and share one rank point at
    this rank's links.

    A group of which the run lacks a rank, or does not know the size, is compared with none: that rank may have come
    last. Messages of all-to-all, gather and scatter differ between ranks, so there their sizes do not count.

    * `rank`: only the groups of this rank
    * `step`: only this step

    Columns: `rank`, `group_name`, `group_ranks`, `group_size`, `name`, `collective_count`, `bytes`, `transfer_ns`,
    `bus_gb_per_s`, `alike_count`, `compared_ns`, `usual_ns`, `slower`, `oddity`, `is_slow`, `example_event_id`.
    `hotline queries process_groups` says what each means.
    """
    return trace.query(
        "process_groups",
        rank=rank,
        step=step,
    )


def queue_length(
    trace: Trace,
    *,
    rank: int | None = None,
    device: int | None = None,
    stream: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
) -> pl.DataFrame:
    """How many launches wait on each stream, over time.

    A launch is in the queue from the start of the call to the start of its first work on the stream, so the length
    says how far the host is ahead. A graph launch counts once. Work whose launching call is not in the trace is
    left out. There is one row per change; times without a row before the first or after the last change are
    unknown.

    * `rank`: only this rank
    * `device`: only this device
    * `stream`: only this stream
    * `step`: only stretches that begin while this step runs on the CPU
    * `phase`: only stretches that begin while the main thread is in this phase

    Columns: `rank`, `device`, `stream`, `start_ns`, `end_ns`, `queue_length`, `launch_id`, `started_id`. `hotline
    queries queue_length` says what each means.
    """
    return trace.query(
        "queue_length",
        rank=rank,
        device=device,
        stream=stream,
        step=step,
        phase=phase,
    )


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
    """How long each stream's queue was, how long it was empty, how long it was full, and what that cost the host.

    Time-weighted: a length counts for as long as it lasts, from the first launch to the last start of work.
    NVIDIA's queue takes about 1,022 launches, then each further call waits for one to start: the default is a
    little below. `blocked_ns` is what calls into a full queue took beyond the median call of the stream, so it is
    near 0 where such a queue is not full (AMD's takes more). A stretch counts to the step in which it begins.

    * `rank`: only this rank
    * `device`: only this device
    * `stream`: only this stream
    * `step`: only stretches that begin while this step runs on the CPU
    * `phase`: only stretches that begin while the main thread is in this phase
    * `max_queue_length`: launches that fill the queue

    Columns: `rank`, `device`, `stream`, `launch_count`, `observed_ns`, `empty_ns`, `full_ns`, `full_pct`,
    `full_launch_count`, `full_call_ns`, `blocked_ns`, `mean_length`, `median_length`, `p95_length`, `max_length`,
    `max_id`. `hotline queries queue_length_summary` says what each means.
    """
    return trace.query(
        "queue_length_summary",
        rank=rank,
        device=device,
        stream=stream,
        step=step,
        phase=phase,
        max_queue_length=max_queue_length,
    )


def ranks(
    trace: Trace,
) -> pl.DataFrame:
    """Each rank beside the others: its steps, what its GPUs did, and how far it is from what is usual in the job.

    Far from usual is measured as the modified z-score of Iglewicz and Hoaglin, "How to detect and handle outliers",
    1993: the distance from the median of the ranks over 1.4826 times the median of these distances, which for
    normal noise is the standard deviation (where most ranks are equal, 1.2533 times the mean). More than 3.5 is an
    outlier.



    Columns: `rank`, `step_count`, `step_ns`, `gpu_busy_ns`, `gpu_idle_ns`, `gpu_busy_pct`, `computation_ns`,
    `communication_ns`, `copy_ns`, `idle_cause`, `idle_cause_ns`, `oddity`, `is_outlier`. `hotline queries ranks`
    says what each means.
    """
    return trace.query(
        "ranks",
    )


def recompute(
    trace: Trace,
    limit: int = 20,
    *,
    rank: int | None = None,
    step: int | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """What each module saves for backward, and how long it takes to compute that again: which to checkpoint first.

    `torch.utils.checkpoint` drops what a module saves but its output, which is the input of what follows, and runs
    its forward again in backward. The best candidates have the most bytes per millisecond, as in ECHO (Zheng et
    al., ISCA 2020). ECHO runs matrix products again only where their result is not needed itself (`has_matrix_op`);
    random ops have to run again with the same numbers, as torch does by default (`is_random`). A module and the
    ones in it are candidates each: take one or the other, and `recomputation` for the best of both. All numbers are
    means per step. Needs `profile_memory`, and modules.

    * `limit`: so many rows
    * `rank`: only this rank
    * `step`: only this step
    * `module`: only this module and those in it, by path

    Columns: `rank`, `module_path`, `type`, `saved_bytes`, `output_bytes`, `net_bytes`, `forward_ns`,
    `bytes_per_ms`, `has_matrix_op`, `is_random`. `hotline queries recompute` says what each means.
    """
    return trace.query(
        "recompute",
        rank=rank,
        step=step,
        module=module,
        limit=limit,
    )


def recompute_groups(
    trace: Trace,
    limit: int = 20,
    *,
    rank: int | None = None,
    step: int | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """What light ops save for backward and could compute again, in groups that share what has to be kept for it.

    To compute a result again, its op has to be given the same again. What is not saved anyway comes from other
    light ops, or has to be kept (`kept_bytes`). Ops that need the same block share it: alone, none of them may save
    more than it has to keep, and together they do. That is the rule of Echo (Zheng et al., ISCA 2020): what is new
    must be no more than what is old, over all ops that belong together. Products, convolutions and attention never
    run again. A group shares its largest block to keep, or is the results of one op; a row is all groups of a
    module with the same ops, per step, and only where they save more than they keep. What an op is given is found
    by size, as tensors have no names.

    Whole modules, which may hold products, are in `recompute`. Needs `profile_memory` and `record_shapes`.

    * `limit`: so many rows
    * `rank`: only this rank
    * `step`: only this step
    * `module`: only what is saved in this module or one in it, by path

    Columns: `rank`, `module_path`, `ops`, `group_count`, `result_count`, `alone_count`, `saved_bytes`,
    `kept_bytes`, `net_bytes`, `forward_ns`, `bytes_per_ms`, `is_random`. `hotline queries recompute_groups` says
    what each means.
    """
    return trace.query(
        "recompute_groups",
        rank=rank,
        step=step,
        module=module,
        limit=limit,
    )


def roofline(
    trace: Trace,
    limit: int | None = 20,
    *,
    by: Literal["op", "shape", "module", "module_type", "kernel", "phase", "step"] = "op",
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    family: Literal[
        "attention",
        "attention_backward",
        "concatenation",
        "convolution",
        "convolution_backward",
        "copy",
        "dropout",
        "embedding",
        "embedding_backward",
        "fill",
        "foreach",
        "fused_optimizer",
        "gather",
        "gemm",
        "grouped_gemm",
        "index_select",
        "linear",
        "loss",
        "loss_backward",
        "normalisation",
        "pointers",
        "pointwise",
        "pooling",
        "pooling_backward",
        "reduction",
        "rnn",
        "rnn_backward",
        "softmax",
        "transposed_convolution",
    ]
    | None = None,
) -> pl.DataFrame:
    """What each op, shape, module, kernel or phase could gain at the GPU's limits: its FLOP and bytes against its
    time.

    At best, work takes the longest of three times: its matrix products at peak, its other arithmetic at peak, its
    bytes at the bandwidth of memory (the roofline). `lost_ns` is what it takes longer, which is the column to sort
    by. Rates are sums of work over sums of time. Bytes are the least traffic, so work whose operands are still in
    the cache can be faster than memory allows, and convolutions by Winograd or FFT do fewer FLOP than are counted:
    `over_reason` says so where efficiency is above 100 %. Work that no formula knows counts in `gpu_time_ns`, and
    to nothing else. Communication is left out.

    * `limit`: so many rows; NULL for all
    * `by`: what a row is; a shape is an op with its arguments
    * `rank`: only this rank
    * `step`: only work launched in this step
    * `phase`: only work launched in this phase
    * `module`: only work launched in this module or one in it, by path
    * `family`: only work that this formula counts

    Columns: `name`, `shape`, `family`, `dtype`, `unit`, `precision`, `work_count`, `matrix_flop`, `vector_flop`,
    `bytes`, `flop_per_byte`, `gpu_time_ns`, `gpu_time_pct`, `tflop_per_s`, `gb_per_s`, `peak_tflop_per_s`,
    `peak_gb_per_s`, `bound`, `roofline_ns`, `efficiency_pct`, `lost_ns`, `lost_pct`, `over_reason`, `largest_id`.
    `hotline queries roofline` says what each means.
    """
    return trace.query(
        "roofline",
        by=by,
        rank=rank,
        step=step,
        phase=phase,
        module=module,
        family=family,
        limit=limit,
    )


def slowest_kernels(
    trace: Trace,
    limit: int = 10,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Kernels, copies and memsets by name.

    * `limit`: so many rows
    * `rank`: only this rank
    * `step`: only this step
    * `phase`: only this phase
    * `module`: only work launched in this module or one in it, by path

    Columns: `name`, `short_name`, `category`, `class`, `count`, `gpu_time_ns`, `gpu_time_pct`, `mean_ns`, `min_ns`,
    `max_ns`, `example_rank`, `example_event_id`. `hotline queries slowest_kernels` says what each means.
    """
    return trace.query(
        "slowest_kernels",
        rank=rank,
        step=step,
        phase=phase,
        module=module,
        limit=limit,
    )


def slowest_modules(
    trace: Trace,
    limit: int = 10,
    *,
    by: Literal["path", "type"] = "path",
    rank: int | None = None,
    step: int | None = None,
    sort: Literal["gpu_self", "gpu_total", "cpu_self", "cpu_total"] = "gpu_self",
) -> pl.DataFrame:
    """Modules, or types of modules, by time, all passes together. By type, a model of many equal layers is a few rows.

    `self` is what belongs to the module and to no module in it, so self times add up; `total` includes the modules
    in it. By type, a module inside another of its type (a Sequential in a Sequential) is not counted twice.

    * `limit`: so many rows
    * `by`: path: each module; type: each type
    * `rank`: only this rank
    * `step`: only this step
    * `sort`: the time to order by

    Columns: `path`, `type`, `module_count`, `source`, `cpu_self_ns`, `cpu_total_ns`, `gpu_self_ns`, `gpu_total_ns`,
    `gpu_forward_ns`, `gpu_recompute_ns`, `gpu_backward_ns`, `cpu_self_pct`, `gpu_self_pct`, `example_rank`,
    `example_event_id`. `hotline queries slowest_modules` says what each means.
    """
    return trace.query(
        "slowest_modules",
        by=by,
        rank=rank,
        step=step,
        sort=sort,
        limit=limit,
    )


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
    """CPU ops by name, with their own time and that of all they call, on the CPU and on the GPU.

    `total` counts an op with everything inside it, once where an op of the same name is inside another; `self`
    counts what no inner op explains. GPU time is that of the work launched directly by the op (self) or anywhere
    inside it (total). CPU time includes waiting. Totals of different ops overlap and do not add up; selfs do.

    * `limit`: so many rows
    * `rank`: only this rank
    * `step`: only this step
    * `phase`: only this phase
    * `module`: only in this module or one in it, by path
    * `sort`: the time to order by

    Columns: `name`, `count`, `cpu_self_ns`, `cpu_total_ns`, `gpu_self_ns`, `gpu_total_ns`, `cpu_self_pct`,
    `gpu_self_pct`, `example_rank`, `example_event_id`. `hotline queries slowest_ops` says what each means.
    """
    return trace.query(
        "slowest_ops",
        rank=rank,
        step=step,
        phase=phase,
        module=module,
        sort=sort,
        limit=limit,
    )


def slowest_sources(
    trace: Trace,
    limit: int = 10,
    *,
    rank: int | None = None,
    step: int | None = None,
    sort: Literal["gpu_self", "cpu_self"] = "gpu_self",
) -> pl.DataFrame:
    """The places in the code whose modules take the most time, all passes together.

    A module counts to one place, see `module_source`; with python stacks, that is the `forward` the user wrote,
    which has the time of the torch modules it calls. Modules of unknown place have a row of their own. Bytes are
    what these modules allocated and saved for backward in all that is asked for (`profile_memory`), not what is
    alive at once.

    * `limit`: so many rows
    * `rank`: only this rank
    * `step`: only this step
    * `sort`: the time to order by

    Columns: `source`, `function`, `module_count`, `type`, `cpu_self_ns`, `gpu_self_ns`, `forward_gpu_ns`,
    `backward_gpu_ns`, `allocated_bytes`, `saved_bytes`, `param_bytes`, `cpu_self_pct`, `gpu_self_pct`,
    `example_rank`, `example_event_id`. `hotline queries slowest_sources` says what each means.
    """
    return trace.query(
        "slowest_sources",
        rank=rank,
        step=step,
        sort=sort,
        limit=limit,
    )


def step_kinds(
    trace: Trace,
    *,
    rank: int | None = None,
) -> pl.DataFrame:
    """The kinds of steps: how many, how long, their share of the loop, and what sets them apart from the usual kind.

    Steps that count are grouped by what they do and how long they take (`step_lengths`). The loop is the time from
    the start of the first counted step to the end of the last one, from work to work. Kind 0 has most steps and is
    called usual. Another kind is named after the phase or region that it has and the usual kind lacks, if this
    explains most of the difference; else after the phase in which the CPU takes longer, or after its wait for the
    GPU.

    * `rank`: only this rank

    Columns: `rank`, `kind`, `name`, `step_count`, `every`, `mean_ns`, `least_ns`, `most_ns`, `total_ns`,
    `loop_pct`, `longer_ns`, `cause`, `cause_ns`, `example_step`. `hotline queries step_kinds` says what each means.
    """
    return trace.query(
        "step_kinds",
        rank=rank,
    )


def step_lengths(
    trace: Trace,
    *,
    rank: int | None = None,
) -> pl.DataFrame:
    """How long each step takes from work to work, whether the step counts, and its kind.

    A step begins when all GPU work launched before the step is done, and ends when all work launched before its end
    is done. The table `step_length` has the rules.

    * `rank`: only this rank

    Columns: `rank`, `step`, `start_ns`, `end_ns`, `evidence`, `begin_ns`, `length_ns`, `role`, `kind`,
    `stands_for`. `hotline queries step_lengths` says what each means.
    """
    return trace.query(
        "step_lengths",
        rank=rank,
    )


def step_time_breakdown(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
) -> pl.DataFrame:
    """Each step's wall time by what happened first on this list: kernel, copy, communication, runtime call, loading
    data, CPU op, other.

    Every instant of a step counts once, to the first of the list that happens then, so the parts add up to the
    step. What kernels hide costs nothing, and `other_ns` is time in which neither GPU, runtime nor ops do anything:
    python, or what the profiler does not see. Any thread and any device of the rank counts. The GPU may still run
    work of an earlier step. The order is that of the step time breakdown of PyTorch's TensorBoard plugin.

    * `rank`: only this rank
    * `step`: only this step

    Columns: `rank`, `step`, `wall_ns`, `kernel_ns`, `copy_ns`, `communication_ns`, `runtime_ns`, `load_data_ns`,
    `cpu_ns`, `other_ns`. `hotline queries step_time_breakdown` says what each means.
    """
    return trace.query(
        "step_time_breakdown",
        rank=rank,
        step=step,
    )


def steps(
    trace: Trace,
    *,
    rank: int | None = None,
) -> pl.DataFrame:
    """Each training step: its time on the CPU, the GPU work it launched, and how long the GPU was idle.

    GPU work belongs to the step whose CPU call launched it, whenever it ran. `gpu_busy_ns` is the time it kept its
    device busy. Idle time of the GPU belongs to the step that the CPU is in until it launches the next work, and
    after the launch to the step of the work. With several devices, both are sums over them.

    * `rank`: only this rank

    Columns: `rank`, `step`, `name`, `evidence`, `dur_ns`, `gpu_event_count`, `gpu_time_ns`, `gpu_busy_ns`,
    `gpu_idle_ns`, `gpu_busy_pct`, `example_event_id`. `hotline queries steps` says what each means.
    """
    return trace.query(
        "steps",
        rank=rank,
    )


def straggler_causes(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """What made late ranks late: by phase, module and region, what the last rank spent longer on than an early one.

    The early one is the first, or in a large job one of four that mostly come first (`late_pair`). For each
    collective, both ranks are compared from the last collective that had ended before it until they start. What the
    last one spends more there, summed over a collective's rows, is its delay against the other. For kernels it is
    the device's time that is compared, work and idle time before it; for gloo and MPI, that of the main thread.
    Collectives without one before them, and those where the ranks started within a microsecond, are left out. Of
    collectives that are in flight together, and so have the same one before them, the last is compared.

    * `rank`: only where this rank was last
    * `step`: only this step
    * `phase`: only time in this phase
    * `module`: only time of this module or one in it, by path

    Columns: `rank`, `activity`, `phase`, `module_path`, `region`, `collective_count`, `own_ns`, `first_ns`,
    `excess_ns`. `hotline queries straggler_causes` says what each means.
    """
    return trace.query(
        "straggler_causes",
        rank=rank,
        step=step,
        phase=phase,
        module=module,
    )


def stragglers(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
) -> pl.DataFrame:
    """Which rank is late to the collectives, and what that costs the others: waiting for the last rank apart from
    transfer.

    The sum of `caused_wait_ns` over the ranks is that of `wait_ns`: each wait counts to the rank that came last.
    Time in which several collectives are in flight counts once, to the one that started first. A rank without
    matched collectives has no row.

    * `rank`: only this rank
    * `step`: only this step
    * `phase`: only collectives launched in this phase
    * `module`: only collectives launched in this module or one in it, by path

    Columns: `rank`, `collective_count`, `last_count`, `caused_wait_ns`, `late_ns`, `wait_ns`, `start_wait_ns`,
    `transfer_ns`, `began_ns`, `clock_offset_ns`, `clock_error_ns`. `hotline queries stragglers` says what each
    means.
    """
    return trace.query(
        "stragglers",
        rank=rank,
        step=step,
        phase=phase,
        module=module,
    )


def temporal_breakdown(
    trace: Trace,
    *,
    by: Literal["run", "step"] = "run",
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
) -> pl.DataFrame:
    """What each device did with its time: computing, communicating, moving memory, several of them at once, or
    nothing.

    The window is wall time: from the first step or the first work of a device to the end of the last, or one step.
    The GPU may still run work of an earlier step then; `steps` counts work to the step that launched it. Each
    instant of the window is in exactly one of the eight parts `idle_ns` to `all_three_ns`, so they add up to
    `window_ns`. As in HTA's `get_temporal_breakdown`, work of one class that overlaps counts once.

    * `by`: one row per rank and device (run), or also per step (step)
    * `rank`: only this rank
    * `device`: only this device
    * `step`: only the window of this step

    Columns: `rank`, `device`, `step`, `window_ns`, `idle_ns`, `computation_only_ns`, `communication_only_ns`,
    `memory_only_ns`, `computation_communication_ns`, `computation_memory_ns`, `communication_memory_ns`,
    `all_three_ns`, `busy_ns`, `computation_ns`, `communication_ns`, `memory_ns`, `edge_ns`, `idle_pct`,
    `computation_pct`, `communication_pct`, `memory_pct`, `exposed_communication_pct`. `hotline queries
    temporal_breakdown` says what each means.
    """
    return trace.query(
        "temporal_breakdown",
        by=by,
        rank=rank,
        device=device,
        step=step,
    )


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
    """Matrix products on tensor cores and beside them: how much time, which could run there and do not, why, and what
    it costs.

    The kernel's name tells whether products run on matrix units (tensor cores), so times need no shapes. A product
    on vector units is eligible if its operands are of half precision, or FP32 where the GPU multiplies it in TF32.
    With shapes, the saving is the time over that of the same product at the peak of the matrix units or the
    bandwidth of memory; products with a vector are bound by memory, so they save little. Reasons, the first that
    holds: no_matrix_unit (the GPU has none for this type), fp64, fp32_without_tf32, vector (matrix times vector),
    depthwise (a convolution of single channels), unaligned (a dimension that is no multiple of 8 elements of half
    precision, or 4 of TF32: NVIDIA, "Matrix multiplication background user's guide", 2.2), kernel_choice (none of
    these).

    * `limit`: so many rows; NULL for all
    * `by`: what a row is
    * `rank`: only this rank
    * `step`: only work launched in this step
    * `phase`: only work launched in this phase
    * `module`: only work launched in this module or one in it, by path

    Columns: `name`, `gpu_time_ns`, `matrix_ns`, `vector_ns`, `matrix_pct`, `precision`, `eligible_ns`, `reason`,
    `saving_ns`, `largest_id`. `hotline queries tensor_cores` says what each means.
    """
    return trace.query(
        "tensor_cores",
        by=by,
        rank=rank,
        step=step,
        phase=phase,
        module=module,
        limit=limit,
    )


def throughput(
    trace: Trace,
    *,
    by: Literal["run", "kind", "step"] = "run",
    rank: int | None = None,
    step: int | None = None,
    samples: int | None = None,
) -> pl.DataFrame:
    """Samples and tokens per second, by step, by kind of step and in the loop.

    The samples of a step are the first dimension of the input of the first op with a parameter in the forward pass:
    of a convolution, a linear layer's product or an embedding, whose indices are tokens. A step with several
    forward passes that begin with the same op has the samples of all. A model that folds other dimensions into the
    first, such as the frames of a video, has more there than samples: say how many there are with `samples`. A
    linear layer sees all tokens of a batch as rows, so what comes first tells only rows there. Where several ranks
    train, each has samples of its own, if they are data parallel. Steps that are recorded are slower than others.

    * `by`: what a row is; the run has all samples of the counted steps over the time of the loop (`step_kinds`),
      and a kind those of its steps over their time
    * `rank`: only this rank
    * `step`: only this step
    * `samples`: samples of a step on one rank, if known

    Columns: `rank`, `step`, `kind`, `step_ns`, `samples`, `tokens`, `sample_source`, `world_size`, `samples_per_s`,
    `tokens_per_s`, `job_samples_per_s`. `hotline queries throughput` says what each means.
    """
    return trace.query(
        "throughput",
        by=by,
        rank=rank,
        step=step,
        samples=samples,
    )


def uneven_kernels(
    trace: Trace,
    limit: int | None = 10,
) -> pl.DataFrame:
    """Kernels that take longer on one rank than on the others: of each name, the rank on which most time is lost.

    What is usual is the median of the ranks' mean durations, so that a rank with more steps counts like any other.
    A GPU that is slower than the others, as one that is too hot, has many rows. Ranks that do something else, as
    the stages of a pipeline, may run a kernel of one name with other shapes. Collectives are not compared: there,
    the rank that takes longest has waited for the others (`stragglers`).

    * `limit`: so many rows; NULL for all

    Columns: `rank`, `name`, `category`, `rank_count`, `usual_ns`, `event_count`, `mean_ns`, `slower`, `excess_ns`,
    `oddity`, `is_outlier`, `example_event_id`. `hotline queries uneven_kernels` says what each means.
    """
    return trace.query(
        "uneven_kernels",
        limit=limit,
    )


def user_annotations(
    trace: Trace,
    *,
    rank: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
    module: str | None = None,
    annotation: str | None = None,
) -> pl.DataFrame:
    """Time of the ranges that the code names (`record_function`), on the CPU and on the GPU, with and without inner
    ones.

    On the CPU: annotations on their threads, and the GPU work launched in them. On the GPU (`side` gpu): the spans
    that the profiler itself draws on each stream, from the first to the last work of an annotation; not every
    profiler does. `total` counts an annotation with the annotations inside it, once where one of the same name is
    inside another; `self` counts the time in which no inner annotation runs. Times round, so spans may cross: one
    that begins in another and lies in it for at least half of its time is inside, and its `self` ends with it; else
    they follow each other.

    * `rank`: only this rank
    * `step`: only annotations in this step; GPU spans have the step of their CPU annotation
    * `phase`: only annotations that begin in this phase; GPU spans likewise
    * `module`: only annotations in this module or one in it, by path; GPU spans likewise
    * `annotation`: only annotations whose name contains this

    Columns: `rank`, `side`, `name`, `count`, `total_ns`, `self_ns`, `min_ns`, `mean_ns`, `max_ns`, `max_id`,
    `gpu_total_ns`, `gpu_self_ns`. `hotline queries user_annotations` says what each means.
    """
    return trace.query(
        "user_annotations",
        rank=rank,
        step=step,
        phase=phase,
        module=module,
        annotation=annotation,
    )


def utilisation(
    trace: Trace,
    *,
    by: Literal["run", "step", "phase"] = "run",
    rank: int | None = None,
    device: int | None = None,
    step: int | None = None,
    phase: Phase | None = None,
) -> pl.DataFrame:
    """How much of the GPU is used: FLOP against its peak (MFU, HFU), matrix units, memory traffic, occupancy and busy
    time.

    MFU is the time that the model's matrix products take at the peak of the unit and precision that they run in, as
    a share of the observed time: without work that is repeated, and with causal attention counted in full, as
    others count it. With one precision that is PaLM's definition (Chowdhery et al., "PaLM", 2022, appendix B). HFU
    has the products that the hardware does: repeated ones too, and of causal attention only the half that is
    computed. Both are NULL if no shapes were recorded or the GPU's peaks are not known, and too low where
    `modelled_pct` is far below 100. A step or phase has the work that it launched, and the idle time while it kept
    the GPU waiting.

    * `by`: what a row is
    * `rank`: only this rank
    * `device`: only this device
    * `step`: only work of this step
    * `phase`: only work of this phase

    Columns: `rank`, `device`, `step`, `phase`, `model`, `wall_ns`, `gpu_busy_pct`, `matrix_time_pct`, `model_flop`,
    `hardware_flop`, `mfu_pct`, `hfu_pct`, `tflop_per_s`, `fp32_utilisation_pct`, `tf32_utilisation_pct`,
    `fp16_utilisation_pct`, `bf16_utilisation_pct`, `fp8_utilisation_pct`, `min_gb_per_s`, `occupancy_pct`,
    `sm_efficiency_pct`, `cpu_busy_pct`, `modelled_pct`. `hotline queries utilisation` says what each means.
    """
    return trace.query(
        "utilisation",
        by=by,
        rank=rank,
        device=device,
        step=step,
        phase=phase,
    )
