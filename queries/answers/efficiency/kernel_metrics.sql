-- GPU use of kernels: grid, registers, waves, occupancy and unit, by kernel or by launch.
--
-- Waves, tail, occupancy and SM efficiency are means over the launches of the row, weighted by duration. Grid, block,
-- registers, shared memory, limit, unit and precision come from the longest launch; `shape_count` is the number of
-- different shapes. `kernel_shape` explains the figures and their sources.
--
-- These figures describe the placement of a kernel on the GPU, not its speed: much work per thread can make up for low
-- occupancy. Speed is measured by FLOP and bytes from the shapes of the op (`kernel_roofline`). Rates are sums over
-- sums, of the launches with known work.
--
-- :param by VARCHAR in (kernel, launch) = 'kernel'
--                                      one row per kernel or per launch
-- :param rank BIGINT = NULL            only this rank
-- :param device BIGINT = NULL          only this device
-- :param step BIGINT = NULL            only work launched in this step
-- :param phase PHASE = NULL            only work launched in this phase
-- :param module VARCHAR = NULL         only work launched in this module or its submodules, by path
-- :param kernel_class KERNEL_CLASS = NULL
--                                      only this class of kernels
-- :param limit BIGINT >= 0 or NULL = 20
--                                      maximum number of rows per rank; NULL for all
-- :reads gpu_event, gpu_op, kernel_shape, op_claim, op_work, device_peak, gpu_model
-- :column rank RANK
-- :column short_name VARCHAR           name without namespaces, template arguments and tile sizes
-- :column name VARCHAR                 full name
-- :column class KERNEL_CLASS
-- :column event_id BIGINT              the launched kernel; the longest if grouped by kernel
-- :column count BIGINT                 number of launches
-- :column gpu_time_ns BIGINT           sum of the durations
-- :column gpu_time_pct DOUBLE          share of the duration of all selected kernels on this rank
-- :column shape_count BIGINT           number of different combinations of grid, block, registers and shared memory
-- :column grid VARCHAR                 blocks of the grid in x, y and z
-- :column block VARCHAR                threads of a block in x, y and z
-- :column registers BIGINT             registers per thread; NULL if unknown
-- :column shared_memory_bytes BIGINT   shared memory per block; NULL if unknown
-- :column waves DOUBLE                 size of the grid in multiples of the GPU's capacity; NULL if unknown
-- :column tail_pct DOUBLE              share of block slots left empty by the last wave, over all waves; NULL if
--                                      unknown
-- :column occupancy_pct DOUBLE         threads on a multiprocessor as a share of its maximum; NULL if unknown
-- :column occupancy_limit VARCHAR      limiting resource: grid, threads, registers, shared_memory or blocks
-- :column sm_efficiency_pct DOUBLE     share of the multiprocessors with a block; NULL if unknown
-- :column unit VARCHAR                 unit of a kernel of matrix products: matrix (tensor cores) or vector; NULL for
--                                      other kernels
-- :column precision VARCHAR            precision of the matrix products, from the name or the op's types; NULL if
--                                      unknown
-- :column tflop_per_s DOUBLE           FLOP of matrix products, in 10^12 per second; NULL if unknown
-- :column gb_per_s DOUBLE              least bytes, in 10^9 per second; NULL if unknown
-- :column flop_per_byte DOUBLE         FLOP per least byte; NULL if unknown
-- :column roofline_pct DOUBLE          least time for this work on the GPU, as a share of the actual time; NULL if
--                                      unknown

-- one row per selected kernel, with its shape and its work
with launched_kernel as ( -- noqa: ST03
    select
        gpu_event.rank,
        gpu_event.device,
        gpu_event.event_id,
        gpu_event.short_name,
        gpu_event.name,
        gpu_event.class,
        gpu_event.dur_ns,
        gpu_event.unit as named_unit,
        gpu_event.precision as named_precision,
        gpu_op.registers_per_thread as registers,
        gpu_op.shared_memory_bytes,
        kernel_shape.* exclude (rank, event_id),
        op_claim.time_ns,
        op_claim.matrix_flop,
        op_claim.vector_flop,
        op_claim.bytes,
        op_work.dtype,
        unit_of_work(gpu_event.unit, op_claim.matrix_flop, op_work.dtype) as unit,
        coalesce(gpu_event.precision, op_work.dtype) as "precision",
        false as is_link_copy,
        case when $by = 'launch' then gpu_event.event_id end as launch_id
    from gpu_event
    left join gpu_op on gpu_event.rank = gpu_op.rank and gpu_event.event_id = gpu_op.event_id
    left join kernel_shape on gpu_event.rank = kernel_shape.rank and gpu_event.event_id = kernel_shape.event_id
    left join op_claim on gpu_event.rank = op_claim.rank and gpu_event.event_id = op_claim.event_id
    left join op_work on op_claim.rank = op_work.rank and op_claim.work_id = op_work.event_id
    where
        gpu_event.category = 'kernel'
        and is_asked($rank, gpu_event.rank)
        and is_asked($device, gpu_event.device)
        and is_asked($step, gpu_event.step)
        and is_asked($phase, gpu_event.phase)
        and in_module(gpu_event.module_path, $module)
        and is_asked($kernel_class, gpu_event.class)
),

-- one row per kernel name, or per launch
kernel_group as (
    select
        rank,
        name,
        any_value(short_name) as short_name,
        any_value(class) as class,
        arg_max({
            'event_id': event_id,
            'grid': grid,
            'block': block,
            'registers': registers,
            'shared_memory_bytes': shared_memory_bytes,
            'occupancy_limit': occupancy_limit,
            'unit': named_unit,
            'precision': named_precision
        }, (dur_ns, -event_id)) as longest,
        count(*) as count,
        sum(dur_ns)::bigint as gpu_time_ns,
        100.0 * sum(dur_ns) / nullif(sum(sum(dur_ns)) over (partition by rank), 0) as gpu_time_pct,
        count(distinct row(grid, block, registers, shared_memory_bytes)) as shape_count,
        weighted_mean(waves, dur_ns) as waves,
        weighted_mean(tail_pct, dur_ns) as tail_pct,
        weighted_mean(occupancy_pct, dur_ns) as occupancy_pct,
        weighted_mean(sm_efficiency_pct, dur_ns) as sm_efficiency_pct,
        1e-3 * sum(matrix_flop) / nullif(sum(time_ns) filter (where matrix_flop is not null), 0) as tflop_per_s,
        sum(bytes) / nullif(sum(time_ns) filter (where bytes is not null), 0)::double as gb_per_s,
        sum(matrix_flop + coalesce(vector_flop, 0)) filter (where bytes is not null)
        / nullif(sum(bytes) filter (where matrix_flop is not null), 0)::double as flop_per_byte,
        100.0 * sum(roofline_ns) / nullif(sum(time_ns) filter (where roofline_ns is not null), 0) as roofline_pct,
        row_number() over (partition by rank order by sum(dur_ns) desc, name, min(event_id)) as place
    from with_roofline('launched_kernel', 'device_peak', 'gpu_model')
    group by rank, name, launch_id
)

select
    rank,
    short_name,
    name,
    class,
    longest.event_id,
    count,
    gpu_time_ns,
    gpu_time_pct,
    shape_count,
    longest.grid,
    longest.block,
    longest.registers,
    longest.shared_memory_bytes,
    waves,
    tail_pct,
    occupancy_pct,
    longest.occupancy_limit,
    sm_efficiency_pct,
    longest.unit,
    longest.precision,
    tflop_per_s,
    gb_per_s,
    flop_per_byte,
    roofline_pct
from kernel_group
where $limit is null or place <= $limit
order by rank, place
