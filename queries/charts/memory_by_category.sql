-- Allocated memory of a device during a step by category, at equal intervals and at the peak.
--
-- The sum over the categories at one time is the allocator's total. Of several devices, the chart shows the device with
-- the most allocated memory, and prefers GPUs. Of several steps, it shows the step with the peak.
--
-- :param rank BIGINT = NULL      process rank; default: the lowest rank
-- :param step BIGINT = NULL      the step
-- :param points BIGINT >= 2 <= 2000 = 300
--                                number of points in time
-- :reads memory_change, memory_block, step
-- :column rank RANK
-- :column step STEP              NULL without steps
-- :column device_type VARCHAR    cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device DEVICE          -1 for the CPU
-- :column start_ns BIGINT        start of the step
-- :column moment BIGINT          number of the point in time, from 0
-- :column at_ns BIGINT           time since the start of the step
-- :column category VARCHAR       as in `memory_block`, or `older` for memory older than the trace
-- :column bytes BIGINT           bytes allocated
with shown_device as (
    select
        rank,
        device_type,
        device,
        arg_max_null(step, (allocated_bytes, -start_ns)) as step,
        arg_max(start_ns, (allocated_bytes, -start_ns)) as peak_ns,
        max(allocated_bytes) as peak_bytes
    from memory_change
    where rank = coalesce($rank, (select min(memory_block.rank) from memory_block)) and is_asked($step, step)
    group by rank, device_type, device
    order by device_type = 'cpu', peak_bytes desc, device
    limit 1
),

shown_change as (
    select
        memory_change.start_ns,
        memory_change.event_id,
        memory_change.bytes,
        memory_change.allocated_bytes
    from memory_change
    inner join shown_device
        on
            (memory_change.rank, memory_change.device_type, memory_change.device)
            = (shown_device.rank, shown_device.device_type, shown_device.device)
),

shown_window as (
    select
        shown_device.*,
        coalesce(step.start_ns, (select min(shown_change.start_ns) from shown_change)) as begin_ns,
        coalesce(step.end_ns, (select max(shown_change.start_ns) from shown_change)) as end_ns
    from shown_device
    left join step on shown_device.rank = step.rank and shown_device.step = step.step
),

moment as (
    select begin_ns + ((end_ns - begin_ns)::hugeint * number // ($points - 1))::bigint as at_ns
    from shown_window
    cross join range($points) as numbers (number)
    union
    select peak_ns from shown_device
),

block_change as (
    select
        memory_block.category,
        coalesce(memory_block.start_ns, -9223372036854775807) as at_ns,
        memory_block.bytes
    from memory_block
    inner join shown_device
        on
            (memory_block.rank, memory_block.device_type, memory_block.device)
            = (shown_device.rank, shown_device.device_type, shown_device.device)
    union all
    select
        memory_block.category,
        memory_block.end_ns,
        -memory_block.bytes
    from memory_block
    inner join shown_device
        on
            (memory_block.rank, memory_block.device_type, memory_block.device)
            = (shown_device.rank, shown_device.device_type, shown_device.device)
    where memory_block.end_ns is not null
),

level as (
    select
        category,
        at_ns,
        sum(sum(bytes)) over (partition by category order by at_ns)::bigint as bytes
    from block_change
    group by category, at_ns
),

category_of_device as (
    select distinct category from block_change
),

category_level as (
    select
        moment.at_ns,
        category_of_device.category,
        coalesce(level.bytes, 0) as bytes
    from moment
    cross join category_of_device
    asof left join level on category_of_device.category = level.category and moment.at_ns >= level.at_ns
),

-- The allocator's total at each point in time, minus the blocks.
older_level as (
    select
        moment.at_ns,
        'older' as category,
        -- before the first event, the total without the event
        coalesce(
            last_change.allocated_bytes,
            (
                select
                    arg_min(
                        shown_change.allocated_bytes - shown_change.bytes,
                        (shown_change.start_ns, shown_change.event_id)
                    )
                from shown_change
            )
        ) - blocks.bytes as bytes
    from moment
    inner join (
        select
            at_ns,
            sum(bytes)::bigint as bytes
        from category_level
        group by at_ns
    ) as blocks on moment.at_ns = blocks.at_ns
    asof left join (
        select
            start_ns,
            arg_max(allocated_bytes, event_id) as allocated_bytes
        from shown_change
        group by start_ns
    ) as last_change on moment.at_ns >= last_change.start_ns
)

select
    shown_window.rank,
    shown_window.step,
    shown_window.device_type,
    shown_window.device,
    shown_window.begin_ns as start_ns,
    dense_rank() over (order by any_category.at_ns) - 1 as moment,
    any_category.at_ns - shown_window.begin_ns as at_ns,
    any_category.category,
    any_category.bytes
from (
    select * from category_level
    union all
    select * from older_level
) as any_category
cross join shown_window
order by at_ns, any_category.category
