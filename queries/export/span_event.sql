-- Events of a part of the trace: one event, all events inside on its thread, the launched GPU work, and arrows.
--
-- If the event is GPU work, the part is the work and its launching call. Backward runs on a thread of its own while the
-- caller waits: activity on this thread during the event belongs to the part. If the event is the mark of a step, the
-- part includes all activity of the step, on any thread. Arrows are included if both ends are included. Names of
-- processes and threads are included if an event of the process or thread is included.
--
-- :param rank BIGINT = NULL    only this rank
-- :param span BIGINT = 0       the event
-- :reads event, flow, cpu_event, gpu_event, phase_span, step, track
-- :column rank RANK
-- :column event_id BIGINT      an event of the part
-- :column role VARCHAR         inside, launched, arrow or name
with root_depth as (
    -- The requested event, on each rank with this event.
    select
        event.rank,
        event.event_id,
        event.track_id,
        event.start_ns,
        coalesce(event.end_ns, event.start_ns) as end_ns,
        cpu_event.depth,
        cpu_event.step
    from event
    left join cpu_event on event.rank = cpu_event.rank and event.event_id = cpu_event.event_id
    where event.event_id = $span and event.ph != 'M' and is_asked($rank, event.rank)
),

root_step as (
    select
        root_depth.*,
        step.event_id is not null as is_step
    from root_depth
    left join step on root_depth.rank = step.rank and root_depth.event_id = step.event_id
    where
        root_depth.depth is not null
        and (root_depth.rank, root_depth.track_id) in (
            select (phase_span.rank, phase_span.track_id) from phase_span where phase_span.is_main
        )
),

inner_event as (
    select
        cpu_event.rank,
        cpu_event.event_id
    from cpu_event
    inner join root_depth
        on
            cpu_event.rank = root_depth.rank
            and cpu_event.track_id = root_depth.track_id
            and cpu_event.start_ns >= root_depth.start_ns
            and cpu_event.end_ns <= root_depth.end_ns
            and cpu_event.depth > root_depth.depth
    union
    select
        cpu_event.rank,
        cpu_event.event_id
    from cpu_event
    inner join root_step
        on
            cpu_event.rank = root_step.rank
            and cpu_event.step = root_step.step
            and cpu_event.track_id != root_step.track_id
            and (
                root_step.is_step
                or cpu_event.phase = 'backward'
                and cpu_event.start_ns >= root_step.start_ns
                and cpu_event.end_ns <= root_step.end_ns
            )
    union
    select
        event.rank,
        event.event_id
    from event
    inner join root_depth
        on
            event.rank = root_depth.rank
            and event.track_id = root_depth.track_id
            and event.start_ns >= root_depth.start_ns
            and event.start_ns < root_depth.end_ns
    where event.ph in ('i', 'I', 'R', 'n', 'C') and root_depth.depth is not null
    union
    select
        rank,
        event_id
    from root_depth
    union
    select
        gpu_event.rank,
        gpu_event.runtime_id
    from gpu_event
    inner join root_depth on gpu_event.rank = root_depth.rank and gpu_event.event_id = root_depth.event_id
    where gpu_event.runtime_id is not null
),

launched_work as (
    select
        gpu_event.rank,
        gpu_event.event_id
    from gpu_event
    inner join inner_event
        on
            gpu_event.rank = inner_event.rank
            and coalesce(gpu_event.runtime_id, gpu_event.op_id) = inner_event.event_id
    inner join root_depth on gpu_event.rank = root_depth.rank
    where root_depth.depth is not null
),

part_event as (
    select
        rank,
        event_id,
        'inside' as role
    from inner_event
    union all
    select
        rank,
        event_id,
        'launched'
    from launched_work
    where (rank, event_id) not in (select (rank, event_id) from inner_event)
),

event_point as (
    select distinct
        event.rank,
        event.track_id,
        event.start_ns
    from part_event
    inner join event on part_event.rank = event.rank and part_event.event_id = event.event_id
),

arrow_end as (
    select
        flow.rank,
        flow.event_id,
        flow.kind,
        flow.flow_id,
        flow.ph
    from flow
    inner join event_point
        on
            flow.rank = event_point.rank
            and flow.track_id = event_point.track_id
            and flow.start_ns = event_point.start_ns
),

whole_arrow as (
    select
        rank,
        kind,
        flow_id
    from arrow_end
    group by rank, kind, flow_id
    having bool_or(ph = 's') and bool_or(ph = 'f')
),

used_track as (
    select distinct
        event_point.rank,
        track.pid,
        track.tid
    from event_point
    inner join track on event_point.rank = track.rank and event_point.track_id = track.track_id
),

used_name as (
    select
        event.rank,
        event.event_id
    from event
    inner join track on event.rank = track.rank and event.track_id = track.track_id
    where
        event.ph = 'M'
        and case
            when starts_with(event.name, 'process_')
                then (event.rank, track.pid) in (select (rank, pid) from used_track)
            else (event.rank, track.pid, track.tid) in (select (rank, pid, tid) from used_track)
        end
)

select
    rank,
    event_id,
    role
from part_event
union all
select
    arrow_end.rank,
    arrow_end.event_id,
    'arrow' as role
from arrow_end
inner join whole_arrow
    on
        arrow_end.rank = whole_arrow.rank
        and arrow_end.kind = whole_arrow.kind
        and arrow_end.flow_id = whole_arrow.flow_id
union all
select
    rank,
    event_id,
    'name' as role
from used_name
order by rank, event_id
