"""Every table of a run: columns, types, units, and the meaning of NULL.

The tables of the file are defined here. The derived tables and the views are read from the headers of their queries.
The importer writes Parquet with these types, `Trace` opens it with them, and `hotline schema` describes them.

Conventions: times are integer nanoseconds on the trace file's own clock (add `rank_info.base_time_ns` for absolute
time). Intervals are half-open, `[start_ns, end_ns)`. `event_id` is the event's position in the file's `traceEvents`
array, from 0. Every table also has `rank` (BIGINT), which comes from the partition folder and not from the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from hotline_analysis import catalog
from hotline_analysis.catalog import RANK_COLUMN, Column

if TYPE_CHECKING:
    import pyarrow as pa

_ARROW: Mapping[str, str] = {
    "BIGINT": "int64",
    "INTEGER": "int32",
    "DOUBLE": "float64",
    "VARCHAR": "string",
    "BOOLEAN": "bool",
    "JSON": "string",
}


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `kind` is `read` (from the file), `derived` (from other tables) or `view` (over other tables)."""

    name: str
    kind: Literal["read", "derived", "view"]
    doc: str
    columns: tuple[Column, ...]

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of a partition's file, which has no `rank` column."""
        import pyarrow as pa

        return pa.schema([(column.name, pa.type_for_alias(_ARROW[column.type])) for column in self.columns])

    @property
    def ddl(self) -> str:
        """A `create table` statement with the same columns plus `rank`, for documentation and tests."""
        columns = [RANK_COLUMN, *self.columns]
        lines = ",\n".join(f'    "{column.name}" {column.type}' for column in columns)
        return f"create table {self.name} (\n{lines}\n)"


def _table(name: str, doc: str, columns: str) -> Table:
    """Build a table from lines `name TYPE meaning`, which are easier to read and review than constructor calls."""
    lines = (line.strip().split(maxsplit=2) for line in columns.splitlines() if line.strip())
    return Table(name, "read", doc, tuple(Column(*line) for line in lines))


READ_TABLES: tuple[Table, ...] = (
    _table(
        "rank_info",
        "One row per rank: the trace file, the profiler's flags, and unreadable parts of the file.",
        """
        file VARCHAR name of the trace file
        rank_source VARCHAR source of the rank: distributedInfo, file_name, coordinates, process, order or default
        world_size BIGINT number of ranks in the job; NULL when the file does not say
        event_count BIGINT events read
        lost_event_count BIGINT number of unreadable events; an estimate where the damage hides the number
        lost_bytes BIGINT bytes of the uncompressed text outside readable events
        truncated BOOLEAN the file ends before the end of the event array
        damage VARCHAR description of the damage; NULL for an undamaged file
        tp BIGINT position in the tensor-parallel group, from the file or process name; NULL when unknown
        pp BIGINT position in the pipeline-parallel group, from the same name; NULL when unknown
        dp BIGINT position in the data-parallel group, from the same name; NULL when unknown
        ep BIGINT position in the expert-parallel group, from the same name; NULL when unknown
        base_time_ns BIGINT offset: add to a time for nanoseconds since 1970; NULL when the file does not say
        start_ns BIGINT start of the first event with a duration; NULL without one
        end_ns BIGINT end of the last event with a duration; NULL without one
        with_stack BOOLEAN python frames were recorded (seen in the events)
        record_shapes BOOLEAN input shapes were recorded (seen in the events)
        profile_memory BOOLEAN allocations were recorded (seen in the events)
        metadata JSON top-level fields of the file, without the events; likely secrets are ***, unless kept at import
        """,
    ),
    _table(
        "device",
        "The GPUs that the file lists under `deviceProperties`.",
        """
        device_id BIGINT device number, as in `gpu_op.device`
        name VARCHAR the vendor's name
        memory_bytes BIGINT memory of the device
        sm_count BIGINT streaming multiprocessors, or compute units
        properties JSON all properties of the device in the file
        """,
    ),
    _table(
        "track",
        "One row per thread or stream with events.",
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
        "One row per readable event of the file, of every kind.",
        """
        event_id BIGINT position in the file's `traceEvents` array
        track_id BIGINT the thread or stream; NULL when the event names none
        ph VARCHAR letter of the trace format: X complete, s/f flow, i instant, C counter, M metadata, B/E begin/end
        category VARCHAR kind of event in one spelling (`cpu_op`, `kernel`, …); NULL when the event has none
        raw_category VARCHAR the file's spelling where it differs from `category`; NULL where it does not
        name VARCHAR the event's name
        start_ns BIGINT start; NULL when the event has none
        dur_ns BIGINT duration; NULL for events without a valid time, which no result counts
        end_ns BIGINT start plus duration; NULL for events without a duration
        correlation BIGINT correlation id that ties a GPU event to its launch; NULL without one
        external_id BIGINT External id that ties a launch to its op; NULL without one
        scope VARCHAR scope letter of an instant event; NULL for others
        """,
    ),
    _table(
        "op",
        "Details of CPU ops and annotations, beyond name and times.",
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
        kernel_flop DOUBLE FLOP of a generated kernel, by the compiler that made it; NULL when absent
        kernel_gb DOUBLE memory traffic of a generated kernel in 10^9 bytes, by the same compiler; NULL when absent
        module_hierarchy VARCHAR module names recorded by `with_modules`; NULL when absent or empty
        call_stack VARCHAR python stack recorded in old traces; NULL when absent or empty
        trace_name VARCHAR name of the recording, in old traces; NULL when absent
        trace_iteration BIGINT iteration of the recording, in old traces; NULL when absent
        """,
    ),
    _table(
        "python_call",
        "Python frames (`with_stack`): the profiler's own ids.",
        """
        event_id BIGINT the event
        python_id BIGINT the profiler's id of the call
        python_parent_id BIGINT id of the calling frame; NULL for a root
        python_module_id BIGINT instance number of an `nn.Module` call; NULL for plain functions
        profiler_index BIGINT the profiler's own event number (`Ev Idx`); NULL when absent
        """,
    ),
    _table(
        "runtime_call",
        "Details of runtime and driver calls of a device.",
        """
        event_id BIGINT the event
        callback_id BIGINT number of the API function (`cbid` or `cid`)
        kernel VARCHAR kernel name, recorded on launch calls of AMD; NULL elsewhere
        grid JSON grid dimensions, on launch calls of AMD; NULL elsewhere
        block JSON block dimensions, on launch calls of AMD; NULL elsewhere
        shared_memory_bytes BIGINT dynamic shared memory, on launch calls of AMD; NULL elsewhere
        source VARCHAR source pointer of a copy (AMD); NULL elsewhere
        destination VARCHAR destination pointer of a copy (AMD); NULL elsewhere
        bytes BIGINT bytes to copy (AMD); NULL elsewhere
        kind VARCHAR kind of copy (AMD); NULL elsewhere
        """,
    ),
    _table(
        "gpu_op",
        "Work on a GPU: kernels, copies and memsets.",
        """
        event_id BIGINT the event
        device BIGINT device number; NULL when the event names none
        context BIGINT context of the device; NULL when absent
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
        "Collective communication: arguments of the requesting op or of the communication kernel.",
        """
        event_id BIGINT the event
        name VARCHAR collective, such as `allreduce`
        dtype VARCHAR element type
        in_elements BIGINT elements sent by this rank
        out_elements BIGINT elements received by this rank
        group_size BIGINT number of participating ranks
        group_name VARCHAR process group
        group_description VARCHAR purpose of the process group
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
        "Allocations and releases (`profile_memory`).",
        """
        event_id BIGINT the event
        address BIGINT address of the block
        bytes BIGINT bytes allocated, negative when released
        device_type BIGINT 0 for the CPU, 1 for CUDA, as in torch's DeviceType
        device_id BIGINT device number, -1 for the CPU
        total_allocated_bytes BIGINT memory allocated on this device after the event
        total_reserved_bytes BIGINT memory reserved by the allocator on this device after the event
        profiler_index BIGINT the profiler's own event number (`Ev Idx`); NULL when absent
        finished BOOLEAN the profiler's `finished` flag; NULL when absent
        """,
    ),
    _table(
        "sync",
        "Synchronisation recorded on a GPU track (category `cuda_sync`).",
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
        "Ends of the arrows between events (launch to kernel, forward to backward).",
        """
        event_id BIGINT the flow event itself
        kind VARCHAR `launch` for arrows from CPU to GPU, `fwdbwd` for forward to backward, else the category
        flow_id VARCHAR id of the arrow: ends with the same kind and id belong together
        ph VARCHAR s for the start, t for a step, f for the end
        binding VARCHAR binding point (`bp`), e for the enclosing slice; NULL when absent
        track_id BIGINT thread or stream of the attached event
        start_ns BIGINT time of the arrow's end, within the attached event
        """,
    ),
    _table(
        "counter",
        "Counter samples, one row per series.",
        """
        event_id BIGINT the event
        series VARCHAR name of the series within the counter
        value DOUBLE the value; NULL when not a number
        """,
    ),
    _table(
        "event_args",
        "Fields without a column of their own, so that no data of the file is lost. Few events have a row.",
        """
        event_id BIGINT the event
        args JSON the event's complete `args`, if some have no column of their own
        fields JSON the whole event, if a field has no column; or the file's `dur`, and the `time_rule` that changed it
        """,
    ),
    _table(
        "kernel_class",
        "The user's rules for classes of kernels, given at import. Empty by default.",
        """
        position BIGINT order of the rules, from 0; the first match applies
        pattern VARCHAR regular expression (RE2), searched in the full kernel name
        class VARCHAR computation, communication or memory
        """,
    ),
    _table(
        "gpu_given",
        "The user's GPU specifications, given at import, with the columns of `rules/gpus.csv`. Empty by default.",
        """
        position BIGINT order of the rules, from 0; the first match applies
        name_pattern VARCHAR regular expression (RE2), searched in a device's name; NULL if all devices are this GPU
        vendor VARCHAR NVIDIA, AMD or another vendor; NULL when not given, as all following columns except `model`
        model VARCHAR name of the model
        architecture VARCHAR name of the architecture
        compute_capability DOUBLE CUDA compute capability, such as 9.0
        memory_gib DOUBLE memory in GiB
        sm_count BIGINT multiprocessors or compute units of the whole GPU
        boost_mhz DOUBLE boost clock, at which the peaks are specified
        fp64_vector_tflop_per_s DOUBLE peak of the vector units in FP64, in 10^12 operations per second
        fp64_matrix_tflop_per_s DOUBLE peak of the matrix units in FP64
        fp32_vector_tflop_per_s DOUBLE peak of the vector units in FP32
        fp16_vector_tflop_per_s DOUBLE peak of the vector units in FP16
        fp32_matrix_tflop_per_s DOUBLE peak of the matrix units in FP32
        tf32_matrix_tflop_per_s DOUBLE peak of the matrix units in TF32
        fp16_matrix_tflop_per_s DOUBLE peak of the matrix units in FP16 with FP32 accumulation
        bf16_matrix_tflop_per_s DOUBLE peak of the matrix units in BF16
        fp8_matrix_tflop_per_s DOUBLE peak of the matrix units in FP8
        fp4_matrix_tflop_per_s DOUBLE peak of the matrix units in FP4
        int8_matrix_top_per_s DOUBLE peak of the matrix units in INT8
        memory_gb_per_s DOUBLE memory bandwidth in 10^9 bytes per second
        l2_mib DOUBLE L2 cache in MiB
        infinity_cache_mib DOUBLE AMD's Infinity Cache in MiB, between L2 and memory
        link VARCHAR name of the link between GPUs
        link_bidirectional_gb_per_s DOUBLE bandwidth of the link, both directions together
        pcie_gen DOUBLE PCIe generation
        pcie_one_way_gb_per_s DOUBLE PCIe bandwidth in one direction
        power_w DOUBLE power limit in watts
        matrix_flop_per_clock_per_sm DOUBLE FP16 operations per clock of one multiprocessor's matrix units
        source VARCHAR source of the figures
        note VARCHAR remarks
        """,
    ),
    _table(
        "op_signature",
        "The user's rules for the work of ops, given at import. Empty by default.",
        """
        position BIGINT order of the rules, from 0; the first match applies
        name VARCHAR name of the op; a trailing `*` matches all names with that prefix
        family VARCHAR formula for the op's work: gemm, convolution, attention, pointwise, …
        roles VARCHAR roles of the arguments by position from 0, such as `a=0 b=1`
        """,
    ),
)


class _Tables(Mapping[str, Table]):
    """All tables by name: of the file, derived, and views. Query headers are read on first use."""

    @cached_property
    def _found(self) -> Mapping[str, Table]:
        found = {table.name: table for table in READ_TABLES}
        made = catalog.queries("annotate", "views")
        for query in sorted(made, key=lambda query: (query.kind != "annotate", query.folder)):
            if not query.is_private and query.writes in (None, query.name):
                kind: Literal["derived", "view"] = "derived" if query.kind == "annotate" else "view"
                columns = tuple(column for column in query.columns if column.name != "rank")
                found.setdefault(query.name, Table(query.name, kind, query.summary, columns))
        return found

    def __getitem__(self, name: str) -> Table:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


TABLES: Mapping[str, Table] = _Tables()


def derived_tables() -> list[Table]:
    """The tables that the annotation adds and a run stores."""
    return [table for table in TABLES.values() if table.kind == "derived"]


# Increase by 1 whenever a table or column is added, removed or changes its meaning.
FORMAT_VERSION = 16

# Runs of this format or later have the current tables of the file, so all other tables can be derived again. Set to
# `FORMAT_VERSION` whenever a column of `READ_TABLES` is added, removed or changes its meaning.
OLDEST_FORMAT = 7
