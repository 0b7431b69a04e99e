-- One row per block that is allocated at the peak of its device.
--
-- An allocation lives until the next release of its address on its device, or until the address is allocated again.
--
-- :reads asked_memory, peak_moment
-- :column rank BIGINT          process rank
-- :column device_type VARCHAR  cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device BIGINT        device number; -1 for the CPU
-- :column bytes BIGINT         size of the block
-- :column allocated_id BIGINT  the event that allocated it; NULL when it is older than the trace
-- :column allocated_ns BIGINT  when it was allocated; NULL when it is older than the trace
-- :column released_id BIGINT   the event that released it; NULL when the trace holds none
-- :column gone_ns BIGINT       when it was released, or its address was allocated again; NULL if neither
-- :column gone_id BIGINT       the event that did so; NULL without one
with change_of_address as (
    select
        *,
        lag(bytes) over of_address as bytes_before,
        lead(event_id) over of_address as next_id,
        lead(start_ns) over of_address as next_ns,
        lead(bytes) over of_address as next_bytes
    from asked_memory
    window of_address as (partition by rank, device_type, device, address order by start_ns, event_id)
),

-- Blocks from their allocation on, and those that are only released.
block as (
    select
        rank,
        device_type,
        device,
        bytes,
        event_id as allocated_id,
        start_ns as allocated_ns,
        case when next_bytes < 0 then next_id end as released_id,
        next_ns as gone_ns,
        next_id as gone_id
    from change_of_address
    where bytes > 0
    union all
    select
        rank,
        device_type,
        device,
        -bytes,
        null,
        null,
        event_id as released_id,
        start_ns as gone_ns,
        event_id as gone_id
    from change_of_address
    where bytes < 0 and bytes_before is null
)

select block.*
from block
inner join peak_moment
    on (block.rank, block.device_type, block.device) = (peak_moment.rank, peak_moment.device_type, peak_moment.device)
where
    (
        block.allocated_ns is null
        or (block.allocated_ns, block.allocated_id) <= (peak_moment.peak_ns, peak_moment.peak_id)
    )
    and (block.gone_ns is null or (block.gone_ns, block.gone_id) > (peak_moment.peak_ns, peak_moment.peak_id))
