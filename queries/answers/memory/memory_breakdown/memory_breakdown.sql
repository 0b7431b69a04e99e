-- Memory by category, and by the module, class of modules or phase that allocated it.
--
-- `memory_block` defines the categories and their rules. `model_state` adds `parameter` (`model_table`) and
-- `optimizer_state` (`optimizer_class`) on the only GPU of a rank, if both fit into the memory older than the trace.
-- The remaining older memory is `held_throughout`: memory without any allocation or release in the trace, such as
-- weights, kept gradients and DDP buckets. If more blocks are alive than the allocator reports, a negative row
-- `inconsistent` balances the sum.
--
-- The `bytes` of a device add up to `peak_bytes`. `byte_seconds` add up to the allocator's total over the time from the
-- first to the last selected allocation or release. `largest_bytes` is the peak of the blocks of a row; the peaks of
-- different rows are at different times and do not add up.
--
-- Without recorded allocations, shapes give an estimate (`is_estimated`): memory saved for backward (`backward_shapes`,
-- see `estimated_memory`), trained parameters and their gradients (`gradient_shapes`, or parameters by `model_table`),
-- and the optimizer state (`optimizer_class`). `peak_bytes` is then the peak of their sum. All other memory, such as
-- temporary memory and workspaces, is a row `not_estimated` without bytes. A GPU is called cuda.
--
-- :param by VARCHAR in (module, type, phase, category) = 'module'
--                                  one row per category and value of this column
-- :param rank BIGINT = NULL        only this rank
-- :param device BIGINT = NULL      only this device; -1 is the CPU
-- :param step BIGINT = NULL        only in this step
-- :param module VARCHAR = NULL     only memory allocated in this module or its submodules, by path
-- :reads asked_moment, asked_block, older_part, estimated_part
-- :column rank RANK
-- :column device_type VARCHAR      cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device DEVICE            -1 for the CPU
-- :column category VARCHAR         parameter, gradient, gradient_map, activation, optimizer_state, workspace, input,
--                                  temporary, communication_buffer or unknown
-- :column place VARCHAR            module, class or phase; NULL if unknown, and for rows by category
-- :column evidence VARCHAR         rule used for the category
-- :column is_estimated BOOLEAN     estimated from shapes, not from allocations
-- :column bytes BIGINT             bytes alive at the peak; NULL if not estimated
-- :column bytes_pct DOUBLE         share of the peak
-- :column largest_bytes BIGINT     peak of the bytes of this row
-- :column byte_seconds DOUBLE      bytes, times their lifetime in seconds
-- :column byte_seconds_pct DOUBLE  share of the device's byte-seconds
-- :column block_count BIGINT       blocks alive at the peak; NULL if unknown
-- :column largest_id BIGINT        event of the largest block of this row, as `memory_block.block_id`; NULL if unknown
-- :column peak_bytes BIGINT        allocated on the device at the peak
-- :column peak_start_ns BIGINT     time at which the peak was first reached
-- :column peak_step BIGINT         training step at the peak; NULL outside every step

-- one row per start or end of a block's lifetime, with the change of the group's bytes
with change_of_group as (
    select
        rank,
        device_type,
        device,
        category,
        evidence,
        place,
        begins_ns as at_ns,
        begins_id as at_id,
        bytes
    from asked_block
    where in_module(module_path, $module)
    union all
    select
        rank,
        device_type,
        device,
        category,
        evidence,
        place,
        ends_ns,
        ends_id,
        -bytes
    from asked_block
    where ends_ns is not null and in_module(module_path, $module)
),

level_of_group as (
    select
        * exclude (at_ns, at_id, bytes),
        sum(bytes) over (
            partition by rank, device_type, device, category, evidence, place order by at_ns, at_id
        ) as alive_bytes
    from change_of_group
),

-- one row per group: its peak
largest_of_group as (
    select
        rank,
        device_type,
        device,
        category,
        evidence,
        place,
        max(alive_bytes)::bigint as largest_bytes
    from level_of_group
    group by rank, device_type, device, category, evidence, place
),

-- one row per group of blocks: bytes at the peak, byte-seconds and the largest block
block_group as (
    select
        rank,
        device_type,
        device,
        category,
        evidence,
        place,
        coalesce(sum(bytes) filter (where at_peak), 0)::bigint as bytes,
        sum(byte_ns) as byte_ns,
        count(*) filter (where at_peak) as block_count,
        arg_max(block_id, (bytes, -block_id)) as largest_id
    from asked_block
    where in_module(module_path, $module)
    group by rank, device_type, device, category, evidence, place
),

-- one row per group, including older and estimated memory
memory_group as (
    select
        block_group.*,
        largest_of_group.largest_bytes
    from block_group
    inner join largest_of_group
        on
            (block_group.rank, block_group.device_type, block_group.device)
            = (largest_of_group.rank, largest_of_group.device_type, largest_of_group.device)
            and (block_group.category, block_group.evidence) = (largest_of_group.category, largest_of_group.evidence)
            and block_group.place is not distinct from largest_of_group.place
    union all by name
    select
        rank,
        device_type,
        device,
        category,
        evidence,
        place,
        sum(bytes)::bigint as bytes,
        sum(byte_ns) as byte_ns,
        null as block_count,
        null as largest_id,
        sum(bytes)::bigint as largest_bytes
    from older_part
    where in_module(module_path, $module)
    group by rank, device_type, device, category, evidence, place
    union all by name
    select
        asked_moment.rank,
        asked_moment.device_type,
        asked_moment.device,
        estimated_part.category,
        estimated_part.evidence,
        estimated_part.place,
        sum(estimated_part.bytes)::bigint as bytes,
        sum(estimated_part.bytes::hugeint * (asked_moment.until_ns - asked_moment.from_ns)) as byte_ns,
        null as block_count,
        null as largest_id,
        sum(estimated_part.bytes)::bigint as largest_bytes
    from estimated_part
    inner join asked_moment on estimated_part.rank = asked_moment.rank and asked_moment.is_estimated
    where in_module(estimated_part.module_path, $module)
    group by
        asked_moment.rank, asked_moment.device_type, asked_moment.device, estimated_part.category,
        estimated_part.evidence, estimated_part.place
    union all by name
    select
        rank,
        device_type,
        device,
        'unknown' as category,
        'not_estimated' as evidence
    from asked_moment
    where is_estimated and $module is null
)

select
    memory_group.rank,
    memory_group.device_type,
    memory_group.device,
    memory_group.category,
    memory_group.place,
    memory_group.evidence,
    asked_moment.is_estimated,
    memory_group.bytes,
    100.0 * memory_group.bytes / nullif(asked_moment.peak_bytes, 0) as bytes_pct,
    memory_group.largest_bytes,
    memory_group.byte_ns::double / 1e9 as byte_seconds,
    100.0 * memory_group.byte_ns::double / nullif(asked_moment.byte_ns, 0) as byte_seconds_pct,
    memory_group.block_count,
    memory_group.largest_id,
    asked_moment.peak_bytes,
    asked_moment.peak_ns as peak_start_ns,
    asked_moment.peak_step
from memory_group
inner join asked_moment
    on
        (memory_group.rank, memory_group.device_type, memory_group.device)
        = (asked_moment.rank, asked_moment.device_type, asked_moment.device)
order by
    memory_group.rank, memory_group.device_type = 'cpu', memory_group.device_type, memory_group.device,
    memory_group.bytes desc nulls last, memory_group.byte_ns desc nulls last, memory_group.category,
    memory_group.evidence, memory_group.place nulls last
