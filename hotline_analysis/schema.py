"""Every table of a run directory: its columns, their types and units, and what NULL means.

This is the one definition. The importer writes Parquet with these types, `Trace` creates its views from it, and
`docs/tables.md` is generated from it.

Conventions: times are integer nanoseconds on the trace file's own clock (`rank_info.base_time_ns` is to be added for
absolute time); intervals are half-open `[start_ns, end_ns)`; `event_id` is the event's position in the file's
`traceEvents` array, from 0. Every table also has `rank` (BIGINT), which comes from the partition folder and not from
the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    import pyarrow as pa

Type = Literal["BIGINT", "INTEGER", "DOUBLE", "VARCHAR", "BOOLEAN", "JSON"]

_ARROW: Mapping[str, str] = {
    "BIGINT": "int64",
    "INTEGER": "int32",
    "DOUBLE": "float64",
    "VARCHAR": "string",
    "BOOLEAN": "bool",
    "JSON": "string",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: name, DuckDB type, and a line on what it means and what NULL means."""

    name: str
    type: Type
    doc: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table. `kind` is `read` (from the file), `derived` (from other tables) or `view` (over the others)."""

    name: str
    kind: Literal["read", "derived", "view"]
    doc: str
    columns: tuple[Column, ...]

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of one partition's file, which has no `rank` column."""
        import pyarrow as pa

        return pa.schema([(column.name, pa.type_for_alias(_ARROW[column.type])) for column in self.columns])

    @property
    def ddl(self) -> str:
        """A `create table` statement with the same columns plus `rank`, for documentation and tests."""
        columns = [Column("rank", "BIGINT", "process rank"), *self.columns]
        lines = ",\n".join(f'    "{column.name}" {column.type}' for column in columns)
        return f"create table {self.name} (\n{lines}\n)"


def _table(name: str, kind: Literal["read", "derived", "view"], doc: str, columns: str) -> Table:
    """Build a table from lines `name TYPE meaning`, which is easier to read and to review than constructor calls."""
    parsed = []
    for line in filter(str.strip, columns.splitlines()):
        column, kind_of_value, meaning = line.strip().split(maxsplit=2)
        parsed.append(Column(column, kind_of_value, meaning))  # type: ignore[arg-type]
    return Table(name, kind, doc, tuple(parsed))


Phase = Literal["load_data", "forward", "loss", "zero_grad", "backward", "optimizer", "other"]
PHASES: tuple[Phase, ...] = get_args(Phase)
KERNEL_CLASSES = ("computation", "communication", "memory")

_LABELS = """
        step BIGINT number of the training step; NULL outside every step
        phase VARCHAR load_data, forward, loss, zero_grad, backward, optimizer or other; NULL outside every step
        module_id BIGINT the module (see `model_op`); NULL where none is known
        pass VARCHAR forward, backward or recompute; NULL where no module is known
        bucket VARCHAR where the work counts to: `module`, or a named bucket when no module explains it
        evidence VARCHAR nn_module, alignment, sequence_number, flow or autograd_order; NULL without a module
"""

_TABLES = (
    _table(
        "rank_info",
        "read",
        "One row: the file, the profiler's flags, and what could not be read.",
        """
        file VARCHAR name of the trace file
        rank_source VARCHAR where the rank came from: distributedInfo, file_name or default
        world_size BIGINT number of ranks in the job; NULL when the file does not say
        event_count BIGINT events read
        lost_event_count BIGINT events that could not be read, estimated where the damage hides their number
        lost_bytes BIGINT bytes of the uncompressed text that belong to no readable event
        truncated BOOLEAN the file ends before its events do
        damage VARCHAR what was wrong, in words; NULL for a clean file
        base_time_ns BIGINT what to add to a time for nanoseconds since 1970; NULL when the file does not say
        start_ns BIGINT start of the first event with a duration; NULL without one
        end_ns BIGINT end of the last event with a duration; NULL without one
        with_stack BOOLEAN python frames were recorded (seen in the events)
        record_shapes BOOLEAN input shapes were recorded (seen in the events)
        profile_memory BOOLEAN allocations were recorded (seen in the events)
        metadata JSON everything in the file beside its events; *** for what looks like a secret, unless those were kept
        """,
    ),
    _table(
        "device",
        "read",
        "The GPUs that the file lists under `deviceProperties`.",
        """
        device_id BIGINT device number, as in `gpu_op.device`
        name VARCHAR the vendor's name
        memory_bytes BIGINT memory of the device
        sm_count BIGINT streaming multiprocessors, or compute units
        properties JSON all that the file says about it
        """,
    ),
    _table(
        "track",
        "read",
        "One row per thread or stream that an event lies on.",
        """
        track_id BIGINT number within the rank, in order of first appearance
        pid VARCHAR process id as in the file; a device number or a word for some rows
        tid VARCHAR thread id as in the file; a stream number for GPU tracks
        process_name VARCHAR name given to the process; NULL without one
        process_label VARCHAR label given to the process, such as `GPU 0`; NULL without one
        thread_name VARCHAR name given to the thread or stream; NULL without one
        """,
    ),
    _table(
        "event",
        "read",
        "One row per readable event of the file, of every kind.",
        """
        event_id BIGINT position in the file's `traceEvents` array
        track_id BIGINT the thread or stream; NULL when the event names none
        ph VARCHAR letter of the trace format: X complete, s/f flow, i instant, C counter, M metadata, B/E begin/end
        category VARCHAR kind of event in one spelling (`cpu_op`, `kernel`, …); NULL when the event has none
        raw_category VARCHAR the file's spelling where it differs from `category`; NULL where it does not
        name VARCHAR the event's name
        start_ns BIGINT start; NULL when the event has none
        dur_ns BIGINT duration; NULL for events that do not lie in time, which no figure has
        end_ns BIGINT start plus duration; NULL for events without a duration
        correlation BIGINT correlation id that ties a GPU event to its launch; NULL without one
        external_id BIGINT External id that ties a launch to its op; NULL without one
        scope VARCHAR scope letter of an instant event; NULL for others
        """,
    ),
    _table(
        "op",
        "read",
        "What the profiler says of a CPU op or annotation beyond its times.",
        """
        event_id BIGINT the event
        sequence_number BIGINT autograd sequence number; NULL for ops autograd does not record
        forward_thread BIGINT thread number of the forward op, on backward ops; NULL or 0 on forward ops
        record_function_id BIGINT id of the recorded function; NULL when absent
        profiler_index BIGINT the profiler's own event number (`Ev Idx`); NULL when absent
        input_dims JSON shapes of the inputs; NULL when shapes were not recorded
        input_types JSON dtypes of the inputs; NULL when shapes were not recorded
        input_strides JSON strides of the inputs; NULL when not recorded
        concrete_inputs JSON values of scalar inputs, as text; NULL when not recorded
        module_hierarchy VARCHAR module names recorded by `with_modules`; NULL when absent or empty
        call_stack VARCHAR python stack recorded in old traces; NULL when absent or empty
        trace_name VARCHAR name of the recording, in old traces; NULL when absent
        trace_iteration BIGINT iteration of the recording, in old traces; NULL when absent
        """,
    ),
    _table(
        "python_call",
        "read",
        "Python frames (`with_stack`): the profiler's own ids.",
        """
        event_id BIGINT the event
        python_id BIGINT id of the call
        python_parent_id BIGINT id of the calling frame; NULL for a root
        python_module_id BIGINT instance number of an `nn.Module` call; NULL for plain functions
        profiler_index BIGINT the profiler's own event number (`Ev Idx`); NULL when absent
        """,
    ),
    _table(
        "runtime_call",
        "read",
        "Calls of the CUDA or HIP runtime and driver: what only some of them say.",
        """
        event_id BIGINT the event
        callback_id BIGINT number of the API function (`cbid` or `cid`)
        kernel VARCHAR kernel name, where the launch call knows it (AMD); NULL elsewhere
        grid JSON grid dimensions, likewise
        block JSON block dimensions, likewise
        shared_memory_bytes BIGINT dynamic shared memory, likewise
        source VARCHAR source pointer of a copy, likewise
        destination VARCHAR destination pointer of a copy, likewise
        bytes BIGINT bytes to copy, likewise
        kind VARCHAR kind of copy, likewise
        """,
    ),
    _table(
        "gpu_op",
        "read",
        "Work on a GPU: kernels, copies and memsets.",
        """
        event_id BIGINT the event
        device BIGINT device number; NULL when the event names none
        context BIGINT CUDA context; NULL when absent
        stream BIGINT stream; NULL when the event names none
        queued BIGINT the profiler's queue time stamp, usually 0; NULL when absent
        grid JSON grid dimensions; NULL for copies and memsets
        block JSON block dimensions; NULL for copies and memsets
        registers_per_thread BIGINT registers; NULL when unknown
        shared_memory_bytes BIGINT shared memory per block; NULL when unknown
        blocks_per_sm DOUBLE blocks per multiprocessor; NULL when unknown
        warps_per_sm DOUBLE warps per multiprocessor; NULL when unknown
        occupancy_pct DOUBLE estimated achieved occupancy, 0 to 100; NULL when unknown
        bytes BIGINT bytes moved, for copies and memsets; NULL for kernels
        bandwidth_gb_per_s DOUBLE memory bandwidth of a copy or memset; NULL for kernels
        kind VARCHAR the vendor's kind of dispatch or copy (AMD); NULL elsewhere
        """,
    ),
    _table(
        "collective",
        "read",
        "Collective communication, on the op that asks for it or the kernel that does it.",
        """
        event_id BIGINT the event
        name VARCHAR collective, such as `allreduce`
        dtype VARCHAR element type
        in_elements BIGINT elements sent by this rank
        out_elements BIGINT elements received by this rank
        group_size BIGINT ranks that take part
        group_name VARCHAR process group
        group_description VARCHAR what the process group is for
        group_ranks JSON ranks of the group
        in_split JSON split sizes of the input
        out_split JSON split sizes of the output
        peer BIGINT rank argument, for point-to-point calls; NULL when absent
        global_rank_start BIGINT first rank of the group; NULL when absent
        global_rank_stride BIGINT distance between ranks of the group; NULL when absent
        """,
    ),
    _table(
        "memory_event",
        "read",
        "Allocations and releases (`profile_memory`).",
        """
        event_id BIGINT the event
        address BIGINT address of the block
        bytes BIGINT bytes allocated, negative when released
        device_type BIGINT 0 for the CPU, 1 for CUDA, as in torch's DeviceType
        device_id BIGINT device number, -1 for the CPU
        total_allocated_bytes BIGINT allocated after the event, on this device
        total_reserved_bytes BIGINT reserved by the allocator after the event, on this device
        profiler_index BIGINT the profiler's own event number (`Ev Idx`); NULL when absent
        finished BOOLEAN the profiler's mark of the same name; NULL when absent
        """,
    ),
    _table(
        "sync",
        "read",
        "Synchronisation recorded on a GPU track (`cuda_sync`).",
        """
        event_id BIGINT the event
        kind VARCHAR kind of synchronisation
        device BIGINT device number
        context BIGINT CUDA context
        stream BIGINT stream; NULL or -1 when the whole context waits
        wait_on_stream BIGINT stream waited for; NULL when none
        wait_on_event_id BIGINT CUDA event waited for; NULL when none
        wait_on_correlation BIGINT correlation of the call that recorded that CUDA event; NULL when unknown
        """,
    ),
    _table(
        "flow",
        "read",
        "Ends of the arrows between events (launch to kernel, forward to backward).",
        """
        event_id BIGINT the flow event itself
        kind VARCHAR `launch` for arrows from CPU to GPU, `fwdbwd` for forward to backward, else the category
        flow_id VARCHAR arrows with the same kind and id belong together
        ph VARCHAR s for the start, t for a step, f for the end
        binding VARCHAR binding point (`bp`), e for the enclosing slice; NULL when absent
        track_id BIGINT the thread or stream of the event it is attached to
        start_ns BIGINT time of the event it is attached to
        """,
    ),
    _table(
        "counter",
        "read",
        "Counter samples, one row per series.",
        """
        event_id BIGINT the event
        series VARCHAR name of the series within the counter
        value DOUBLE the value; NULL when it is no number
        """,
    ),
    _table(
        "event_args",
        "read",
        "What no column holds, so that nothing in the file is lost. Few events have a row.",
        """
        event_id BIGINT the event
        args JSON its complete `args`, if some of them have no column of their own
        fields JSON the whole event, if it has top-level fields that no column holds; or the duration that it lost
        """,
    ),
    _table(
        "kernel_class",
        "read",
        "The user's own rules for classes of kernels, given at import. Empty without any.",
        """
        position BIGINT the first one that matches counts, from 0
        pattern VARCHAR regular expression (RE2) to find in the full name of a kernel
        class VARCHAR computation, communication or memory
        """,
    ),
    _table(
        "name_info",
        "derived",
        "One row per category and name of events with a duration: what the name says. Join on rank, category and name.",
        """
        category VARCHAR kind of event; NULL when it has none
        name VARCHAR the event's name
        short_name VARCHAR without return type, namespaces, template arguments, tile sizes and paths of files
        class VARCHAR of GPU work: computation, communication or memory; NULL for all else
        is_blocking BOOLEAN a call of the runtime or driver that returns when the GPU is done
        unit VARCHAR of a kernel of matrix products: matrix (tensor cores) or vector; NULL for all else
        precision VARCHAR of these, fp64, fp32, tf32, bf16, fp16, fp8, fp4 or int8; NULL where the name does not tell
        """,
    ),
    _table(
        "model_op",
        "derived",
        "Modules of the model in execution order, by the trace's `nn.Module` frames, a capture, or a model given.",
        """
        module_id BIGINT position in execution order, parents before children, from 0
        parent_id BIGINT the module that calls it; NULL for a root
        depth BIGINT number of modules around it
        name VARCHAR last part of the path
        path VARCHAR path from the root module: `ResNet_0.Sequential_1.BasicBlock_0`; of a capture: `layer1.0`
        type VARCHAR class of the module
        param_count BIGINT parameters; NULL when the trace does not say
        param_bytes BIGINT bytes of the parameters; NULL when the trace does not say
        source VARCHAR file and line; NULL when the trace does not say
        missing_call_count BIGINT of a model placed on the ops: calls for which none was found; NULL where frames tell
        """,
    ),
    _table(
        "nesting",
        "derived",
        "Who contains whom on a CPU thread. One row per event with a duration that is not GPU work.",
        """
        event_id BIGINT the event
        track_id BIGINT its thread
        depth BIGINT number of events around it on its thread
        parent_id BIGINT the innermost event around it; NULL for a root
        start_ns BIGINT start, as in `event`
        end_ns BIGINT end, cut to the parent's end when it overhangs (old traces round to microseconds)
        self_ns BIGINT time inside the event and outside its children
        op_id BIGINT the innermost CPU op that contains the event, the event itself if it is one; NULL without one
        overhangs BOOLEAN the event ends after its parent, and was cut
        """,
    ),
    _table(
        "launch",
        "derived",
        "One row per GPU event: the call that launched it, and the way from call to execution.",
        """
        event_id BIGINT the GPU event
        runtime_id BIGINT the runtime or driver call that launched it; NULL when the trace holds none
        op_id BIGINT the innermost CPU op around the launch; NULL without one
        link VARCHAR correlation, flow or external_id; NULL when unlinked
        launch_start_ns BIGINT when the launching call started; NULL when unlinked
        launch_dur_ns BIGINT how long the launching call took; NULL when unlinked
        queue_ns BIGINT from the call's end to the start of the work, not below 0; NULL if unlinked or over 10 days
        kernel_count BIGINT GPU events that the same call launched (over 1: a graph); NULL when unlinked
        busy_ns BIGINT the part of its duration in which no earlier work keeps the device busy; sums up to `gpu_busy`
        """,
    ),
    _table(
        "step",
        "derived",
        "Training steps. Where nothing tells them, one row for the whole trace.",
        """
        step BIGINT number of the step, as annotated, or counted from 0
        name VARCHAR the annotation; NULL when none
        event_id BIGINT the annotating event; NULL when none
        track_id BIGINT thread of the annotation; NULL when none
        start_ns BIGINT start of the step on the CPU
        end_ns BIGINT end of the step on the CPU
        evidence VARCHAR profiler_step, annotation, loop, module, autograd, repetition or whole_trace
        """,
    ),
    _table(
        "phase_span",
        "derived",
        "Stretches of a CPU thread that belong to one phase. Spans of one thread never overlap.",
        """
        track_id BIGINT the thread
        start_ns BIGINT start
        end_ns BIGINT end
        is_main BOOLEAN the thread is the one that runs the training loop
        phase VARCHAR load_data, forward, loss, zero_grad, backward, optimizer or other
        event_id BIGINT the event that shows the phase; NULL where it is inferred from its neighbours
        evidence VARCHAR annotation, profiler, autograd, python, op_name or neighbours
        """,
    ),
    _table(
        "module_span",
        "derived",
        "One row per call of a module and pass. Spans of one thread and depth never overlap.",
        """
        module_id BIGINT the module
        call BIGINT which call of the module in this pass, from 0
        pass VARCHAR forward, backward or recompute
        track_id BIGINT the thread
        depth BIGINT depth of the module in the tree
        start_ns BIGINT start
        end_ns BIGINT end
        event_id BIGINT the `nn.Module` frame; NULL for spans without one (backward, or found by alignment)
        evidence VARCHAR nn_module, alignment, sequence_number, flow or autograd_order
        confidence_pct DOUBLE how sure an alignment is: 100 if its ops have no other place; NULL where none was needed
        """,
    ),
    _table(
        "label_segment",
        "derived",
        "Each CPU thread's time, cut where its step, phase, module or bucket changes. Segments never overlap.",
        """
        track_id BIGINT the thread
        start_ns BIGINT start
        end_ns BIGINT end; NULL for the last segment of a thread
        step BIGINT number of the training step; NULL outside every step
        phase VARCHAR load_data, forward, loss, zero_grad, backward, optimizer or other; NULL where none is known
        module_id BIGINT the innermost module (see `model_op`); NULL where none is known
        pass VARCHAR forward, backward or recompute; NULL where no module is known
        """,
    ),
    _table(
        "label",
        "derived",
        "Step, phase and module of every event with a duration.",
        """
        event_id BIGINT the event
"""
        + _LABELS,
    ),
    _table(
        "shared_kernel",
        "derived",
        "Kernels that serve a second module, which has no op of its own: the part of their time that counts to it.",
        """
        event_id BIGINT the kernel; its `label` names the module that launched it, which keeps the rest of its time
        module_id BIGINT the other module
        gpu_ns BIGINT its part: the modules of a kernel share its duration equally
        """,
    ),
    _table(
        "module_time",
        "derived",
        "Time of each module per step and pass, alone and with the modules in it.",
        """
        step BIGINT the step; NULL outside every step
        module_id BIGINT the module
        pass VARCHAR forward, backward or recompute
        cpu_self_ns BIGINT CPU self time of its events
        cpu_total_ns BIGINT the same with all modules below it
        gpu_self_ns BIGINT duration of the GPU work that is its own
        gpu_total_ns BIGINT the same with all modules below it
        """,
    ),
    _table(
        "gpu_busy",
        "derived",
        "Times when a device runs at least one kernel, copy or memset. Spans never overlap.",
        """
        device BIGINT device number; -1 when the events name none
        start_ns BIGINT start
        end_ns BIGINT end
        """,
    ),
    _table(
        "gpu_wait",
        "derived",
        "Calls in which a thread of the host waits for the GPU.",
        """
        event_id BIGINT the call
        track_id BIGINT the thread
        kind VARCHAR synchronise, copy (of pageable memory) or full_queue (a launch with 1000 pending on its stream)
        start_ns BIGINT start of the call
        end_ns BIGINT its end
        waited_ns BIGINT of it, some device was busy
        work_id BIGINT the copy that it waits for; NULL for other kinds
        """,
    ),
    _table(
        "host_activity",
        "derived",
        "What each thread of the training loop does at each moment: its time, cut where that or its phase changes.",
        """
        track_id BIGINT the thread: one that launches GPU work or has phases
        number BIGINT place of the piece on its thread, from 1
        start_ns BIGINT start of the piece
        end_ns BIGINT its end; NULL for the last one of a thread
        kind VARCHAR load_data, sync, cpu_tensor, op, python or nothing; see docs/annotation.md
        step BIGINT the step; NULL outside every step
        phase VARCHAR the phase; NULL outside every step
        """,
    ),
    _table(
        "idle_part",
        "derived",
        "Times when a device does nothing, cut where the reason changes. With `gpu_busy` they fill the observed time.",
        """
        device BIGINT device number; -1 when the events name none
        gap_ns BIGINT start of the whole gap; a gap has one part or several
        start_ns BIGINT start of the part
        end_ns BIGINT end of the part
        cause VARCHAR load_data, sync, cpu_tensor, op, python, launch, queued, unobserved, unknown: docs/annotation.md
        track_id BIGINT the thread that the device waits for; NULL when the launch is unknown
        step BIGINT step that the thread is in; after the launch, of the work; NULL outside every step or when unknown
        phase VARCHAR phase, likewise
        next_id BIGINT the GPU event that ends the gap; NULL for the gap after the last one
        """,
    ),
    _table(
        "gpu_gap",
        "derived",
        "Times when a device does nothing, each as one row, with the sums of its parts in `idle_part`.",
        """
        device BIGINT device number; -1 when the events name none
        start_ns BIGINT start
        end_ns BIGINT end
        next_id BIGINT the GPU event that ends the gap; NULL for the gap after the last one
        step BIGINT step in which most of the gap passes; NULL outside every step or when unknown
        phase VARCHAR phase in which most of it passes, likewise
        load_data_ns BIGINT of it, the host was loading data
        sync_ns BIGINT of it, the host was inside a call that returns when the GPU is done
        cpu_tensor_ns BIGINT of it, the host computed on CPU tensors
        op_ns BIGINT of it, the host was inside other ops and runtime calls, on the way to the launch
        python_ns BIGINT of it, the host was outside ops: python, or nothing the profiler shows
        launch_ns BIGINT of it, from the launch call to the start of the work
        queued_ns BIGINT of it, the work was launched already and waited for something on the GPU
        unobserved_ns BIGINT of it, the work was launched already, and nothing in the file explains why it waited
        unknown_ns BIGINT of it, what ended the gap has no known launch
        """,
    ),
    _table(
        "region_segment",
        "view",
        "Each CPU thread's time, cut where its region changes: the next best thing where no module is known.",
        """
        track_id BIGINT the thread
        start_ns BIGINT start
        end_ns BIGINT end
        region VARCHAR innermost annotation of the user (steps and collective calls aside), else the outermost op
        event_id BIGINT the annotation or op
        """,
    ),
    _table(
        "module_doubt",
        "view",
        "Modules that were placed on the ops with doubt, or not at all in some pass of the model.",
        """
        module_id BIGINT the module
        doubtful_call_count BIGINT calls with another place that fits as well; of modules without parts
        missing_call_count BIGINT calls for which no op was found, and no kernel that serves them with another module's
        cpu_ns BIGINT CPU time of the doubtful calls, without backward
        gpu_ns BIGINT GPU time of what the doubtful calls launched, without backward
        event_id BIGINT first op of the first doubtful call; NULL without one
        """,
    ),
    _table(
        "collective_call",
        "view",
        "Every collective that a rank took part in: the kernel that did it, or on the CPU the span of gloo or MPI.",
        """
        event_id BIGINT the kernel or span
        on_gpu BOOLEAN it is a kernel
        name VARCHAR allreduce, allgather, … in one spelling; NULL when unknown
        group_name VARCHAR process group; NULL when the trace does not say
        group_ranks JSON ranks of the group; NULL when the trace does not say
        group_size BIGINT ranks that take part; NULL when unknown
        dtype VARCHAR element type, in lower case; NULL when unknown
        bytes BIGINT size of the whole message, as NCCL's tests count it; NULL when unknown
        step BIGINT number of the training step; NULL outside every step
        start_ns BIGINT start
        end_ns BIGINT end
        """,
    ),
    _table(
        "collective_match",
        "view",
        "Collectives matched between ranks, on one clock. One row per collective and rank that the run has of it.",
        """
        match_id BIGINT rows with the same number are one collective
        event_id BIGINT the kernel or span
        on_gpu BOOLEAN it is a kernel
        name VARCHAR allreduce, allgather, …
        group_name VARCHAR process group; NULL when the trace does not say
        group_size BIGINT ranks that take part; NULL when unknown
        rank_count BIGINT ranks of this run that take part
        dtype VARCHAR element type; NULL when unknown
        bytes BIGINT size of the message; NULL when unknown
        step BIGINT number of the training step
        offset_ns BIGINT how far the rank's clock is ahead of the lowest rank's; NULL when they share no collective
        error_ns BIGINT median distance of single collectives from that offset
        shift_ns BIGINT what was added to the times in the rank's own file
        start_ns BIGINT start, on the lowest rank's clock
        end_ns BIGINT end, on the lowest rank's clock
        first_start_ns BIGINT when the first rank started
        last_start_ns BIGINT when the last rank started
        wait_ns BIGINT of the duration, waiting for the last rank
        transfer_ns BIGINT the rest of the duration
        late_ns BIGINT how much later than the middle rank it started, 0 for those before
        is_last BOOLEAN it started last; false for all if they started together
        is_first BOOLEAN it started first; likewise
        """,
    ),
    _table(
        "python_function",
        "view",
        "Every python function that the trace's stacks name (`with_stack`), with the place where it is written.",
        """
        name VARCHAR name of its events: `train.py(12): main`
        file VARCHAR the file, below the folder it was imported from where the trace leaves that out
        line BIGINT where the function begins
        function VARCHAR name of the function
        is_user BOOLEAN it is neither torch's nor among the parts of the standard library that call other code
        """,
    ),
    _table(
        "user_frame",
        "view",
        "Every run of one of the user's own python functions, as the trace's stacks show it.",
        """
        event_id BIGINT the python frame
        track_id BIGINT the thread
        depth BIGINT number of events around it
        start_ns BIGINT start
        end_ns BIGINT end
        source VARCHAR file and line where the function begins
        function VARCHAR name of the function
        """,
    ),
    _table(
        "module_slice",
        "view",
        "Where modules run in the steps: a call with a frame, or calls in a row with the same module around them.",
        """
        step BIGINT number of the training step
        phase VARCHAR the phase in which it begins; other where no phase is known
        track_id BIGINT the thread
        start_ns BIGINT start
        end_ns BIGINT end
        module_id BIGINT the module
        pass VARCHAR forward, backward or recompute
        depth BIGINT depth of the module in the tree
        event_id BIGINT the `nn.Module` frame; NULL without one
        name VARCHAR last part of the module's path
        type VARCHAR class of the module
        """,
    ),
    _table(
        "module_source",
        "view",
        "Where the code of a module is. One row per module of which the capture or python stacks tell.",
        """
        module_id BIGINT the module
        source VARCHAR file and line: `model.py:31`
        function VARCHAR the function that begins there; NULL for a line that a capture stored
        evidence VARCHAR capture: the line that calls it; forward: its own; caller: the function around its first call
        """,
    ),
    _table(
        "annotated_event",
        "view",
        "The view to query: every event with a duration, and all that is known about it.",
        """
        event_id BIGINT position in the file's `traceEvents` array
        track_id BIGINT the thread or stream
        category VARCHAR kind of event
        name VARCHAR the event's name
        start_ns BIGINT start
        dur_ns BIGINT duration
        end_ns BIGINT end
        device BIGINT device of GPU work; NULL on the CPU
        stream BIGINT stream of GPU work; NULL on the CPU
        op_id BIGINT the innermost CPU op around the event, or around the launch of GPU work; NULL without one
        self_ns BIGINT time outside children; the duration for GPU work
"""
        + _LABELS
        + """
        module_path VARCHAR path of the module; NULL where none is known
""",
    ),
    _table(
        "gpu_event",
        "view",
        "Every kernel, copy and memset as the trace shows it: what it is, and where and when it ran.",
        """
        event_id BIGINT the GPU event
        category VARCHAR kernel, gpu_memcpy or gpu_memset
        name VARCHAR the event's name
        short_name VARCHAR without return type, namespaces, template arguments and tile sizes
        class VARCHAR computation, communication or memory
        device BIGINT device number; -1 when the event names none
        stream BIGINT stream; NULL when the event names none
        start_ns BIGINT start
        dur_ns BIGINT duration
        end_ns BIGINT end
        """,
    ),
    _table(
        "gpu_work",
        "view",
        "Every kernel, copy and memset: what it is, how it was launched, and where it counts to.",
        """
        event_id BIGINT the GPU event
        category VARCHAR kernel, gpu_memcpy or gpu_memset
        name VARCHAR the event's name
        short_name VARCHAR without return type, namespaces, template arguments and tile sizes
        class VARCHAR computation, communication or memory
        device BIGINT device number; -1 when the event names none
        stream BIGINT stream; NULL when the event names none
        start_ns BIGINT start
        dur_ns BIGINT duration
        end_ns BIGINT end
        busy_ns BIGINT the part of its duration in which no earlier work keeps the device busy
        runtime_id BIGINT the runtime or driver call that launched it; NULL when the trace holds none
        op_id BIGINT the innermost CPU op around the launch; NULL without one
        launch_start_ns BIGINT when the launching call started; NULL when unlinked
        launch_dur_ns BIGINT how long the launching call took; NULL when unlinked
        queue_ns BIGINT from the call's end to the start of the work, not below 0; NULL if unlinked or over 10 days
        kernel_count BIGINT GPU events that the same call launched (over 1: a graph); NULL when unlinked
        step BIGINT number of the training step; NULL outside every step or when unlinked
        phase VARCHAR phase that launched it, likewise
        module_path VARCHAR path of the module that launched it; NULL where none is known
        op VARCHAR name of that CPU op; NULL without one
        unit VARCHAR of a kernel of matrix products: matrix (tensor cores) or vector; NULL for all else
        precision VARCHAR of these, by name or by the types of the op: fp64, fp32, tf32, bf16, fp16, …; NULL if unknown
        track_id BIGINT the track of its stream
        is_compiled BOOLEAN launched inside of code that torch.compile made; NULL when unlinked
        """,
    ),
    _table(
        "compiled_span",
        "view",
        "Stretches of a CPU thread inside of code that torch.compile made. Spans of one thread never overlap.",
        """
        track_id BIGINT the thread
        start_ns BIGINT start
        end_ns BIGINT end
        """,
    ),
    _table(
        "gpu_peak",
        "view",
        "What each GPU can do at most, as its vendor says.",
        """
        device BIGINT device number
        model VARCHAR the vendor's name of the model; NULL, like all that follows, for a name that is not known
        sm_count BIGINT streaming multiprocessors, or compute units
        part DOUBLE the part of the model's multiprocessors that there are, if fewer, from 0 to 1
        fp32_vector_tflop_per_s DOUBLE peak in FP32 on vector units
        fp32_matrix_tflop_per_s DOUBLE peak in FP32 on matrix units; NULL where they have none
        tf32_matrix_tflop_per_s DOUBLE peak in TF32 on matrix units, likewise
        half_matrix_tflop_per_s DOUBLE peak in BF16 or FP16 on matrix units, likewise
        memory_gb_per_s DOUBLE bandwidth of its memory
        """,
    ),
    _table(
        "memory_change",
        "view",
        "Every allocation and release, with what its device has allocated and reserved after it.",
        """
        event_id BIGINT the event
        track_id BIGINT the thread
        device_type VARCHAR cpu, cuda, hip, xpu, hpu, mtia or other
        device BIGINT device number; -1 for the CPU
        start_ns BIGINT when it happened
        address BIGINT address of the block
        bytes BIGINT bytes allocated, negative when released
        allocated_bytes BIGINT allocated on the device after it
        reserved_bytes BIGINT reserved by the allocator after it; NULL when unknown
        step BIGINT training step that runs then; NULL outside every step
        """,
    ),
    _table(
        "gpu_copy",
        "view",
        "Every copy and memset: its kind, and its bandwidth.",
        """
        event_id BIGINT the copy or memset
        device BIGINT device number; -1 when the event names none
        kind VARCHAR Memcpy HtoD, Memcpy DtoH, Memcpy DtoD, Memset, …
        is_pageable BOOLEAN from or to host memory that is not pinned
        start_ns BIGINT start
        dur_ns BIGINT duration
        end_ns BIGINT end
        bytes BIGINT bytes moved or set; NULL when the trace does not say
        bytes_per_s BIGINT bandwidth as the trace has it, else bytes by duration; NULL when it does not say
        step BIGINT number of the training step; NULL outside every step or when unlinked
        phase VARCHAR phase that launched it, likewise
        module_path VARCHAR path of the module that launched it; NULL where none is known
        """,
    ),
    _table(
        "annotation_span",
        "view",
        "Every range that the code names (`record_function`), on threads and as drawn on streams, nested.",
        """
        event_id BIGINT the annotation
        name VARCHAR its name
        on_gpu BOOLEAN a span that the profiler drew on a stream
        track_id BIGINT its thread or stream
        external_id BIGINT id that a span on a stream shares with its annotation on the CPU; NULL without one
        depth BIGINT number of annotations around it
        parent_id BIGINT the innermost annotation around it; NULL without one
        start_ns BIGINT start
        end_ns BIGINT end, cut where it crosses another annotation
        dur_ns BIGINT duration, as in `event`
        """,
    ),
    _table(
        "queue_change",
        "view",
        "Every change of the number of launches that wait on a stream. Stretches of a stream leave no gap.",
        """
        device BIGINT device number; -1 when the events name none
        stream BIGINT stream; -1 when the events name none
        start_ns BIGINT when launches entered or left the queue
        end_ns BIGINT when the next ones did; its start for the last change
        change BIGINT launches that entered, less those that left
        queue_length BIGINT launches in the queue from here on
        launch_count BIGINT launches that entered
        call_ns BIGINT duration of their calls
        launch_id BIGINT the first of these calls; NULL when none entered
        started_id BIGINT the first GPU event that left; NULL when none did
        step BIGINT step that ran on the CPU at the start; NULL outside every step
        phase VARCHAR phase of the main thread at the start; NULL outside every step
        """,
    ),
    _table(
        "counter_value",
        "view",
        "Hardware counters (`cuda_profiler_range`) of each profiled kernel, one row per value.",
        """
        event_id BIGINT the profiled range
        kernel VARCHAR name of the kernel; `__missing__` where the profiler lost it
        counter VARCHAR name of the counter
        value DOUBLE its value
        kernel_id BIGINT the kernel's event; NULL when there is none
        kernel_ns BIGINT its duration; NULL when there is none
        launch_id BIGINT the launching call; NULL when unknown
        op_id BIGINT the op that launched it; NULL when unknown
        op VARCHAR its name; NULL when unknown
        step BIGINT training step; NULL when unknown
        phase VARCHAR phase; NULL when unknown
        module_path VARCHAR module; NULL when unknown
        evidence VARCHAR correlation, kernel_time or order_and_name; NULL when the launch is unknown
        """,
    ),
    _table(
        "idle_gap",
        "view",
        "Every time without work, on each device (all streams) and on each stream alone, with what it waited for.",
        """
        scope VARCHAR device: no stream of the device works; stream: this stream does not, others may
        device BIGINT device number; -1 when the events name none
        stream BIGINT the stream; NULL for scope device, or when the events name none
        start_ns BIGINT start
        end_ns BIGINT end
        next_id BIGINT the GPU event that ends the gap; NULL for the gap after the last one
        step BIGINT step of that event, or at the time of the last gap; NULL outside every step or when unlinked
        phase VARCHAR phase of that event; NULL outside every step or when unlinked
        cause VARCHAR host, synchronise, communication, kernel, other or unknown: the largest part of the wait
        host_ns BIGINT of it, until the launch of that event
        sync_ns BIGINT of it, the host was in a synchronise, or just out of one that let the queue run dry
        launch_ns BIGINT of it, from the launch call to the start of the work
        queue_ns BIGINT of it, the work was launched already
        unknown_ns BIGINT of it, what ended the gap has no known launch
        """,
    ),
    _table(
        "gpu_state",
        "view",
        "What each device does at each moment, from its first work to its last. Spans never overlap and leave no gap.",
        """
        device BIGINT device number; -1 when the events name none
        start_ns BIGINT start
        end_ns BIGINT end
        computation BOOLEAN at least one computation kernel runs
        communication BOOLEAN at least one communication kernel runs
        memory BOOLEAN at least one copy or memset runs; when all three are false, the device is idle
        """,
    ),
)

TABLES: Mapping[str, Table] = {table.name: table for table in _TABLES}
READ_TABLES: tuple[Table, ...] = tuple(table for table in _TABLES if table.kind == "read")
DERIVED_TABLES: tuple[Table, ...] = tuple(table for table in _TABLES if table.kind == "derived")
# One higher whenever a table or column is added, removed or means something else.
FORMAT_VERSION = 4
