-- How kernels use the GPU: grid, registers, waves, occupancy and unit, by kernel or by launch.
--
-- Waves, tail, occupancy and SM efficiency of a row are means over its launches, weighted by their durations. Grid,
-- block, registers, shared memory, limit, unit and precision are those of its longest launch; `shape_count` says
-- whether all have the same. `kernel_shape` says what the figures mean and what they follow from. They describe how a
-- kernel is put on the GPU, not how fast it is: much work per thread can make up for low occupancy. How fast it is say
-- FLOP and bytes, by the shapes of its op (`kernel_roofline`); rates are sums over sums, of the launches whose work is
-- known.
--
-- :param by VARCHAR in (kernel, launch) = 'kernel'
--                                      what a row is
-- :param rank BIGINT = NULL            only this rank
-- :param device BIGINT = NULL          only this device
-- :param step BIGINT = NULL            only work launched in this step
-- :param phase PHASE = NULL
--                                      only work launched in this phase
-- :param module VARCHAR = NULL         only work launched in this module or one in it, by path
-- :param kernel_class KERNEL_CLASS = NULL
--                                      only this class of kernels
-- :param limit BIGINT >= 0 or NULL = 20  so many rows of each rank; NULL for all
-- :reads gpu_work, gpu_op, kernel_shape, op_claim, op_work, device_peak, gpu_model
-- :column rank BIGINT                  process rank
-- :column short_name VARCHAR           without namespaces, template arguments and tile sizes
-- :column name VARCHAR                 full name
-- :column class VARCHAR                computation, communication or memory
-- :column event_id BIGINT              the launch; by kernel, the longest
-- :column count BIGINT                 launches
-- :column gpu_time_ns BIGINT           sum of their durations
-- :column gpu_time_pct DOUBLE          share of the durations of the selection's kernels on this rank
-- :column shape_count BIGINT           different grids, blocks, registers and shared memories
-- :column grid VARCHAR                 blocks of the grid in x, y and z
-- :column block VARCHAR                threads of a block in x, y and z
-- :column registers BIGINT             registers of a thread; NULL when unknown
-- :column shared_memory_bytes BIGINT   shared memory of a block; NULL when unknown
-- :column waves DOUBLE                 the grid as a multiple of what the GPU can hold at once; NULL when unknown
-- :column tail_pct DOUBLE              share of the places that are empty in the last wave, over all waves; likewise
-- :column occupancy_pct DOUBLE         threads on a multiprocessor as a share of the most it can hold; likewise
-- :column occupancy_limit VARCHAR      grid, threads, registers, shared_memory or blocks: what keeps it from more
-- :column sm_efficiency_pct DOUBLE     share of the multiprocessors that get a block; NULL when unknown
-- :column unit VARCHAR                 of a kernel of matrix products: matrix (tensor cores) or vector; NULL for all
--                                      else
-- :column precision VARCHAR            of these, by name or by the types of the op; NULL if unknown
-- :column tflop_per_s DOUBLE           FLOP of matrix products, in 10^12 per second; NULL if unknown, and likewise what
--                                      follows
-- :column gb_per_s DOUBLE              least bytes, in 10^9 per second
-- :column flop_per_byte DOUBLE         FLOP for each of these bytes
-- :column roofline_pct DOUBLE          least time that the GPU needs for this work, as a share of the time it took
with launched as ( -- noqa: ST03
    select
        gpu_work.rank,
        gpu_work.device,
        gpu_work.event_id,
        gpu_work.short_name,
        gpu_work.name,
        gpu_work.class,
        gpu_work.dur_ns,
        gpu_work.unit as named_unit,
        gpu_work.precision as named_precision,
        gpu_op.registers_per_thread as registers,
        gpu_op.shared_memory_bytes,
        kernel_shape.* exclude (rank, event_id),
        op_claim.time_ns,
        op_claim.matrix_flop,
        op_claim.vector_flop,
        op_claim.bytes,
        op_work.dtype,
        unit_of_work(gpu_work.unit, op_claim.matrix_flop, op_work.dtype) as unit,
        coalesce(gpu_work.precision, op_work.dtype) as "precision",
        false as is_link_copy,
        case when $by = 'launch' then gpu_work.event_id end as launch_id
    from gpu_work
    left join gpu_op on gpu_work.rank = gpu_op.rank and gpu_work.event_id = gpu_op.event_id
    left join kernel_shape on gpu_work.rank = kernel_shape.rank and gpu_work.event_id = kernel_shape.event_id
    left join op_claim on gpu_work.rank = op_claim.rank and gpu_work.event_id = op_claim.event_id
    left join op_work on op_claim.rank = op_work.rank and op_claim.work_id = op_work.event_id
    where
        gpu_work.category = 'kernel'
        and is_asked($rank, gpu_work.rank)
        and is_asked($device, gpu_work.device)
        and is_asked($step, gpu_work.step)
        and is_asked($phase, gpu_work.phase)
        and in_module(gpu_work.module_path, $module)
        and is_asked($kernel_class, gpu_work.class)
),

grouped as (
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
    from with_roofline('launched', 'device_peak', 'gpu_model')
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
from grouped
where $limit is null or place <= $limit
order by rank, place
