-- One row per device: when most is allocated on it, the time that is asked for, and how much is allocated how long in
-- it.
--
-- :takes rank, device, step
-- :reads memory_change
-- :column rank BIGINT            process rank
-- :column device_type VARCHAR    cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device BIGINT          device number; -1 for the CPU
-- :column peak_bytes BIGINT      allocated on the device at most
-- :column peak_id BIGINT         the allocation that reached it first
-- :column peak_ns BIGINT         when it was reached first
-- :column peak_step BIGINT       training step then; NULL outside every step
-- :column from_ns BIGINT         the first allocation or release
-- :column from_id BIGINT         the event
-- :column until_ns BIGINT        the last one
-- :column byte_ns HUGEINT        bytes allocated between them, times how long
with asked_memory as (
    select
        *,
        lead(start_ns) over (partition by rank, device_type, device order by start_ns, event_id) as next_ns
    from memory_change
    where bytes != 0 and is_asked($rank, rank) and is_asked($device, device) and is_asked($step, step)
)

select
    rank,
    device_type,
    device,
    max(allocated_bytes) as peak_bytes,
    arg_max(event_id, (allocated_bytes, -start_ns, -event_id)) as peak_id,
    arg_max(start_ns, (allocated_bytes, -start_ns, -event_id)) as peak_ns,
    arg_max_null(step, (allocated_bytes, -start_ns, -event_id)) as peak_step,
    min(start_ns) as from_ns,
    arg_min(event_id, (start_ns, event_id)) as from_id,
    max(start_ns) as until_ns,
    coalesce(sum(allocated_bytes::hugeint * (next_ns - start_ns)), 0) as byte_ns
from asked_memory
group by rank, device_type, device
