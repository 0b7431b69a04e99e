-- Every allocation and release, with what its device has allocated and reserved after it.
--
-- Totals are those of the allocator; where the profiler did not record them, what is allocated is the sum of what the
-- trace shows, from 0. No device has 100 TB: an event that says so is damaged, and so is a total.
--
-- :reads memory_event, event, step
-- :column rank BIGINT             process rank
-- :column event_id BIGINT         the event
-- :column track_id BIGINT         the thread
-- :column device_type VARCHAR     cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device BIGINT           device number; -1 for the CPU
-- :column start_ns BIGINT         when it happened
-- :column address BIGINT          address of the block
-- :column bytes BIGINT            bytes allocated, negative when released
-- :column allocated_bytes BIGINT  allocated on the device after it
-- :column reserved_bytes BIGINT   reserved by the allocator after it; NULL when unknown
-- :column step BIGINT             training step that runs then; NULL outside every step
with timed as (
    select
        memory_event.rank,
        memory_event.event_id,
        event.track_id,
        device_kind(memory_event.device_type) as device_type,
        memory_event.device_id as device,
        event.start_ns,
        memory_event.address,
        memory_event.bytes,
        coalesce(
            case
                when abs(memory_event.total_allocated_bytes::double) <= 1e14 then memory_event.total_allocated_bytes
            end,
            sum(memory_event.bytes) over (
                partition by memory_event.rank, memory_event.device_type, memory_event.device_id
                order by event.start_ns, memory_event.event_id rows unbounded preceding
            )
        )::bigint as allocated_bytes,
        case when abs(memory_event.total_reserved_bytes::double) <= 1e14 then memory_event.total_reserved_bytes end
            as reserved_bytes
    from memory_event
    inner join event on memory_event.rank = event.rank and memory_event.event_id = event.event_id
    where event.start_ns is not null and abs(memory_event.bytes::double) <= 1e14
)

select
    timed.*,
    case when timed.start_ns < step.end_ns then step.step end as step
from timed
asof left join step on timed.rank = step.rank and timed.start_ns >= step.start_ns
