-- Memory allocated and reserved over time, from the allocations and releases in the trace (`profile_memory`).
--
-- One row per allocation or release, in order of time. Totals are those of the allocator after the event; where the
-- profiler did not record them, `allocated_bytes` sums up what the trace shows, from 0.
--
-- :param rank BIGINT = NULL         only this rank
-- :param device BIGINT = NULL       only this device; -1 is the CPU
-- :param step BIGINT = NULL         only while this step runs on the CPU
-- :param phase VARCHAR = NULL       only in this phase of the thread that allocates or releases
-- :param module VARCHAR = NULL      only in this module or one in it, by path
-- :reads memory_event, event, step, label_segment, model_op
-- :column rank BIGINT               process rank
-- :column device_type VARCHAR       cpu, cuda, hip, xpu, hpu, mtia or other
-- :column device BIGINT             device number; -1 for the CPU
-- :column event_id BIGINT           the allocation or release
-- :column start_ns BIGINT           when it happened
-- :column bytes BIGINT              bytes allocated, negative when released
-- :column allocated_bytes BIGINT    allocated on the device after it
-- :column reserved_bytes BIGINT     reserved by the allocator after it; NULL when unknown
-- :column step BIGINT               training step; NULL outside every step
-- :column phase VARCHAR             phase of the thread; NULL outside every step
-- :column module_path VARCHAR       module that the thread runs; NULL where none is known
with timed as (
    select
        memory_event.*,
        event.start_ns,
        event.track_id,
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
),

placed as (
    select
        in_step.*,
        label_segment.phase,
        label_segment.module_id
    from in_step
    asof left join label_segment
        on
            in_step.rank = label_segment.rank
            and in_step.track_id = label_segment.track_id
            and in_step.start_ns >= label_segment.start_ns
)

select
    placed.rank,
    case placed.device_type
        when 0 then 'cpu'
        when 1 then 'cuda'
        when 6 then 'hip'
        when 12 then 'xpu'
        when 15 then 'hpu'
        when 19 then 'mtia'
        else 'other'
    end as device_type,
    placed.device_id as device,
    placed.event_id,
    placed.start_ns,
    placed.bytes,
    coalesce(placed.total_allocated_bytes, placed.running_bytes)::bigint as allocated_bytes,
    placed.total_reserved_bytes as reserved_bytes,
    placed.step,
    placed.phase,
    model_op.path as module_path
from placed
left join model_op on placed.rank = model_op.rank and placed.module_id = model_op.module_id
where
    ($step is null or placed.step = $step)
    and ($phase is null or placed.phase = $phase)
    and ($module is null or model_op.path = $module or starts_with(model_op.path, $module || '.'))
order by placed.rank, device_type, device, placed.start_ns, placed.event_id
