-- Memory allocated and reserved over time, from the allocations and releases in the trace (`profile_memory`).
--
-- One row per allocation or release, in order of time. Totals are those of the allocator after the event; where the
-- profiler did not record them, `allocated_bytes` sums up what the trace shows, from 0.
--
-- :param rank BIGINT = NULL         only this rank
-- :param device BIGINT = NULL       only this device; -1 is the CPU
-- :param step BIGINT = NULL         only while this step runs on the CPU
-- :reads memory_event, event, step
-- :column rank BIGINT               process rank
-- :column device_type VARCHAR       cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device BIGINT             device number; -1 for the CPU
-- :column event_id BIGINT           the allocation or release
-- :column start_ns BIGINT           when it happened
-- :column bytes BIGINT              bytes allocated, negative when released
-- :column allocated_bytes BIGINT    allocated on the device after it
-- :column reserved_bytes BIGINT     reserved by the allocator after it; NULL when unknown
-- :column step BIGINT               training step; NULL outside every step
with timed as (
    select
        memory_event.*,
        event.start_ns,
        sum(memory_event.bytes) over (
            partition by memory_event.rank, memory_event.device_type, memory_event.device_id
            order by event.start_ns, memory_event.event_id rows unbounded preceding
        ) as running_bytes
    from memory_event
    inner join event on memory_event.rank = event.rank and memory_event.event_id = event.event_id
    where
        event.start_ns is not null
        and ($rank is null or memory_event.rank = $rank)
        and ($device is null or memory_event.device_id = $device)
),

in_step as (
    select
        timed.*,
        case when timed.start_ns < step.end_ns then step.step end as step
    from timed
    asof left join step on timed.rank = step.rank and timed.start_ns >= step.start_ns
)

select
    rank,
    case device_type
        when 0 then 'cpu'
        when 1 then 'cuda'
        when 6 then 'hip'
        when 12 then 'xpu'
        when 15 then 'hpu'
        when 19 then 'mtia'
        else 'other'
    end as device_type,
    device_id as device,
    event_id,
    start_ns,
    bytes,
    coalesce(total_allocated_bytes, running_bytes)::bigint as allocated_bytes,
    total_reserved_bytes as reserved_bytes,
    step
from in_step
where $step is null or step = $step
order by rank, device_type, device, start_ns, event_id
