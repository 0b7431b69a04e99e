-- How each kernel fills its GPU: blocks, waves, occupancy, and what limits it. One row per kernel with a grid.
--
-- A multiprocessor holds as many blocks as fit by their threads, their registers and their shared memory, and not more
-- than it has places for (`resident_blocks`). These are NVIDIA's rules (CUDA C++ Programming Guide, "Compute
-- Capabilities"; `cuda_occupancy.h`): a warp's registers are rounded up to 256 and lie in one part of the register
-- file, a block's shared memory is rounded up, and since Ampere each block gives one KiB to the system. The limits of
-- the device are in `gpu_model`. One wave is a grid that fills all multiprocessors once. Occupancy is the estimate that
-- the profiler makes, too: the threads that are on a multiprocessor on average while the first wave runs, as a share of
-- the most that it can hold.
--
-- The profiler's own figure (`gpu_op.occupancy_pct`) is 0 for every kernel with more than 48 KiB of shared memory, as
-- it asks for the limit of kernels that did not opt in to more. So occupancy is computed, and taken from the trace only
-- where the limits of the device are not known, and then not for such kernels. AMD's kernels have no registers in the
-- trace: of them, only blocks and threads are known.
--
-- :reads event, gpu_op, launch, gpu_model
-- :column rank BIGINT               process rank
-- :column event_id BIGINT           the kernel
-- :column grid VARCHAR              blocks of its grid in x, y and z
-- :column block VARCHAR             threads of a block in x, y and z
-- :column blocks BIGINT             blocks of its grid
-- :column threads BIGINT            threads of a block
-- :column resident_blocks BIGINT    blocks that one multiprocessor can hold; NULL, like waves and tail, if not known
-- :column waves DOUBLE              the grid as a multiple of what all multiprocessors can hold
-- :column tail_pct DOUBLE           share of the places that are empty in the last wave, over all waves
-- :column occupancy_pct DOUBLE      threads on a multiprocessor as a share of the most it can hold, 0 to 100
-- :column occupancy_limit VARCHAR   what keeps it from more: grid (too few blocks), threads, registers, shared_memory
--                                   or blocks (the most on a multiprocessor)
-- :column sm_efficiency_pct DOUBLE  share of the multiprocessors that get a block, 0 to 100
-- :column evidence VARCHAR          of the occupancy: computed or trace; NULL without one
with sized as (
    select
        event.rank,
        event.event_id,
        device_of(gpu_op.device) as device_id,
        try_cast(gpu_op.grid as bigint[]) as given,
        try_cast(gpu_op.block as bigint[]) as threads_by_axis,
        gpu_op.registers_per_thread as registers,
        gpu_op.shared_memory_bytes,
        case when gpu_op.blocks_per_sm >= 0 then gpu_op.blocks_per_sm end as blocks_per_sm,
        gpu_op.occupancy_pct,
        case
            when grid_is_in_threads(call.name)
                then
                    list_transform(
                        list_zip(given, threads_by_axis),
                        lambda axis: try_cast(ceil(axis[1] / nullif(axis[2], 0)) as bigint)
                    )
            else given
        end as blocks_by_axis
    from event
    inner join gpu_op on event.rank = gpu_op.rank and event.event_id = gpu_op.event_id
    left join launch on gpu_op.kind is not null and event.rank = launch.rank and event.event_id = launch.event_id
    left join event as call on launch.rank = call.rank and launch.runtime_id = call.event_id
    where event.category = 'kernel' and event.dur_ns is not null and gpu_op.grid is not null
),

counted as (
    select
        *,
        list_product(threads_by_axis) as threads,
        list_product(blocks_by_axis) as blocks,
        ceil(threads / 32) as warps
    from sized
    where list_min(blocks_by_axis) > 0 and list_min(threads_by_axis) > 0
),

-- Blocks that a multiprocessor can hold by each of its limits; NULL where a kernel does not touch it.
limited as (
    select
        counted.*,
        counted.blocks / gpu_model.sm_count as blocks_each,
        gpu_model.threads_per_sm,
        floor(floor(gpu_model.threads_per_sm / 32) / counted.warps) as by_threads,
        floor(
            floor(
                gpu_model.registers_per_sm / gpu_model.register_parts
                / nullif(256 * ceil(counted.registers * 32.0 / 256), 0)
            ) * gpu_model.register_parts / counted.warps
        ) as by_registers,
        floor(
            gpu_model.shared_bytes_per_sm / nullif(
                gpu_model.shared_unit_bytes * ceil(
                    (1.0 * counted.shared_memory_bytes + gpu_model.reserved_shared_bytes)
                    / gpu_model.shared_unit_bytes
                ), 0
            )
        ) as by_shared_memory,
        gpu_model.blocks_per_sm as by_blocks
    from counted
    left join gpu_model on counted.rank = gpu_model.rank and counted.device_id = gpu_model.device_id
),

placed as (
    select
        *,
        case
            when
                registers >= 0
                and shared_memory_bytes >= 0
                and by_blocks is not null
                and blocks_each is not null
                and least(by_threads, by_registers, by_shared_memory) >= 1
                then least(by_threads, by_registers, by_shared_memory, by_blocks)
        end as resident,
        case
            when
                occupancy_pct between 0 and 100
                and (occupancy_pct > 0 or shared_memory_bytes <= default_shared_bytes())
                then occupancy_pct
        end as told_pct
    from limited
)

select
    rank,
    event_id,
    replace(blocks_by_axis::varchar, ' ', '') as grid,
    replace(threads_by_axis::varchar, ' ', '') as block,
    try_cast(blocks as bigint) as blocks,
    try_cast(threads as bigint) as threads,
    resident::bigint as resident_blocks,
    blocks_each / resident as waves,
    100 * (1 - waves / ceil(waves)) as tail_pct,
    coalesce(
        100 * case when resident is not null then least(blocks_each, resident) end * threads / threads_per_sm, told_pct
    ) as occupancy_pct,
    case
        when blocks_each < resident then 'grid'
        when resident = by_threads then 'threads'
        when resident = by_registers then 'registers'
        when resident = by_shared_memory then 'shared_memory'
        when resident = by_blocks then 'blocks'
    end as occupancy_limit,
    case when coalesce(blocks_each, blocks_per_sm) >= 1 then 100 else 100 * coalesce(blocks_each, blocks_per_sm) end
        as sm_efficiency_pct,
    case
        when resident is not null then 'computed'
        when told_pct is not null then 'trace'
    end as evidence
from placed
