-- Every allocation and release, with the device's allocated and reserved bytes afterwards.
--
-- Totals are the allocator's totals. If the profiler did not record totals, `allocated_bytes` is the running sum of the
-- events in the trace, starting at 0. No device has 100 TB: larger events and totals are damaged and left out.
--
-- :reads memory_event, event, step
-- :column rank RANK
-- :column event_id BIGINT         the event
-- :column track_id BIGINT         thread of the event
-- :column device_type VARCHAR     cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device DEVICE           -1 for the CPU
-- :column start_ns BIGINT         time of the event
-- :column address BIGINT          address of the block
-- :column bytes BIGINT            bytes allocated; negative for a release
-- :column allocated_bytes BIGINT  bytes allocated on the device after the event
-- :column reserved_bytes BIGINT   bytes reserved by the allocator after the event; NULL if unknown
-- :column step STEP               at the time of the event; NULL outside every step

-- one row per allocation or release, with its totals
with allocator_event as (
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
    allocator_event.*,
    case when allocator_event.start_ns < step.end_ns then step.step end as step
from allocator_event
asof left join step on allocator_event.rank = step.rank and allocator_event.start_ns >= step.start_ns
