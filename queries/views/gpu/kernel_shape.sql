-- GPU use of each kernel: blocks, waves, occupancy, and the limiting resource. One row per kernel with a grid.
--
-- A multiprocessor holds as many blocks as fit by threads, registers and shared memory, up to a maximum number
-- (`resident_blocks`). The rules are NVIDIA's (CUDA C++ Programming Guide, "Compute Capabilities"; `cuda_occupancy.h`):
-- a warp's registers are rounded up to 256 and lie in one part of the register file, a block's shared memory is rounded
-- up, and since Ampere the system takes one KiB per block. The limits of the device are in `gpu_model`. One wave is a
-- grid that fills all multiprocessors once. Occupancy is defined as in the profiler: the mean number of threads on a
-- multiprocessor during the first wave, as a share of its maximum.
--
-- The profiler's own value (`gpu_op.occupancy_pct`) is 0 for every kernel with more than 48 KiB of shared memory,
-- because the profiler uses the limit for kernels without opt-in. Occupancy is therefore computed here. The value of
-- the trace is used only if the limits of the device are unknown, and never for such kernels. AMD's kernels have no
-- registers in the trace, so only blocks and threads are known.
--
-- :reads gpu_event, gpu_op, gpu_model
-- :column rank RANK
-- :column event_id BIGINT           the kernel
-- :column grid VARCHAR              blocks of the grid in x, y and z
-- :column block VARCHAR             threads per block in x, y and z
-- :column blocks BIGINT             number of blocks in the grid
-- :column threads BIGINT            number of threads per block
-- :column resident_blocks BIGINT    maximum number of blocks per multiprocessor; NULL, like waves and tail, if unknown
-- :column waves DOUBLE              size of the grid in multiples of the capacity of all multiprocessors
-- :column tail_pct DOUBLE           share of block slots left empty by the last wave, over all waves
-- :column occupancy_pct DOUBLE      threads on a multiprocessor as a share of its maximum, 0 to 100
-- :column occupancy_limit VARCHAR   limiting resource: grid (too few blocks), threads, registers, shared_memory or
--                                   blocks (maximum per multiprocessor)
-- :column sm_efficiency_pct DOUBLE  share of the multiprocessors with a block, 0 to 100
-- :column evidence VARCHAR          source of the occupancy: computed or trace; NULL without occupancy

-- one row per kernel with a grid, with its resources
with sized_kernel as (
    select
        gpu_event.rank,
        gpu_event.event_id,
        gpu_event.device as device_id,
        try_cast(gpu_op.grid as bigint[]) as given,
        try_cast(gpu_op.block as bigint[]) as threads_by_axis,
        gpu_op.registers_per_thread as registers,
        gpu_op.shared_memory_bytes,
        case when gpu_op.blocks_per_sm >= 0 then gpu_op.blocks_per_sm end as blocks_per_sm,
        gpu_op.occupancy_pct,
        case
            when gpu_op.kind is not null and grid_is_in_threads(gpu_event.api)
                then
                    list_transform(
                        list_zip(given, threads_by_axis),
                        lambda axis: try_cast(ceil(axis[1] / nullif(axis[2], 0)) as bigint)
                    )
            else given
        end as blocks_by_axis
    from gpu_event
    inner join gpu_op on gpu_event.rank = gpu_op.rank and gpu_event.event_id = gpu_op.event_id
    where gpu_event.category = 'kernel' and gpu_op.grid is not null
),

counted_kernel as (
    select
        *,
        list_product(threads_by_axis) as threads,
        list_product(blocks_by_axis) as blocks,
        ceil(threads / 32) as warps
    from sized_kernel
    where list_min(blocks_by_axis) > 0 and list_min(threads_by_axis) > 0
),

-- Blocks per multiprocessor by each limit; NULL if the kernel does not use the resource.
limited_kernel as (
    select
        counted_kernel.*,
        counted_kernel.blocks / gpu_model.sm_count as blocks_each,
        gpu_model.threads_per_sm,
        floor(floor(gpu_model.threads_per_sm / 32) / counted_kernel.warps) as by_threads,
        floor(
            floor(
                gpu_model.registers_per_sm / gpu_model.register_parts
                / nullif(256 * ceil(counted_kernel.registers * 32.0 / 256), 0)
            ) * gpu_model.register_parts / counted_kernel.warps
        ) as by_registers,
        floor(
            gpu_model.shared_bytes_per_sm / nullif(
                gpu_model.shared_unit_bytes * ceil(
                    (1.0 * counted_kernel.shared_memory_bytes + gpu_model.reserved_shared_bytes)
                    / gpu_model.shared_unit_bytes
                ), 0
            )
        ) as by_shared_memory,
        gpu_model.blocks_per_sm as by_blocks
    from counted_kernel
    left join gpu_model on counted_kernel.rank = gpu_model.rank and counted_kernel.device_id = gpu_model.device_id
),

-- one row per kernel, with the resident blocks and the usable occupancy of the trace
resident_kernel as (
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
    from limited_kernel
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
from resident_kernel
