-- The events of a part of the trace: one event, all in it on its thread, the GPU work launched from there, and arrows.
--
-- If the event is GPU work, its part is the work and the call that launched it. Backward runs on a thread of its own
-- while the caller waits: what lies in the time of the event there belongs to it, and to the mark of a step whatever
-- belongs to the step, on any thread. Arrows are in it if both ends are; names of processes and threads are in it if an
-- event of them is.
--
-- :param rank BIGINT = NULL    only this rank
-- :param span BIGINT = 0       the event
-- :reads event, flow, label, launch, nesting, phase_span, step, track
-- :column rank BIGINT          process rank
-- :column event_id BIGINT      an event of the part
-- :column role VARCHAR         inside, launched, arrow or name
with root_depth as (
    -- The event that was asked for, in each rank that has it.
    select
        event.rank,
        event.event_id,
        event.track_id,
        event.start_ns,
        coalesce(event.end_ns, event.start_ns) as end_ns,
        nesting.depth
    from event
    left join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
    where event.event_id = $span and event.ph != 'M' and is_asked($rank, event.rank)
),

root_step as (
    select
        root_depth.*,
        label.step,
        step.event_id is not null as is_step
    from root_depth
    inner join label on root_depth.rank = label.rank and root_depth.event_id = label.event_id
    left join step on root_depth.rank = step.rank and root_depth.event_id = step.event_id
    where
        root_depth.depth is not null
        and (root_depth.rank, root_depth.track_id) in (
            select (phase_span.rank, phase_span.track_id) from phase_span where phase_span.is_main
        )
),

inside as (
    select
        nesting.rank,
        nesting.event_id
    from nesting
    inner join root_depth
        on
            nesting.rank = root_depth.rank
            and nesting.track_id = root_depth.track_id
            and nesting.start_ns >= root_depth.start_ns
            and nesting.end_ns <= root_depth.end_ns
            and nesting.depth > root_depth.depth
    union
    select
        nesting.rank,
        nesting.event_id
    from nesting
    inner join label on nesting.rank = label.rank and nesting.event_id = label.event_id
    inner join root_step
        on
            nesting.rank = root_step.rank
            and label.step = root_step.step
            and nesting.track_id != root_step.track_id
            and (
                root_step.is_step
                or label.phase = 'backward'
                and nesting.start_ns >= root_step.start_ns
                and nesting.end_ns <= root_step.end_ns
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
        launch.rank,
        launch.runtime_id
    from launch
    inner join root_depth on launch.rank = root_depth.rank and launch.event_id = root_depth.event_id
    where launch.runtime_id is not null
),

launched as (
    select
        launch.rank,
        launch.event_id
    from launch
    inner join inside on launch.rank = inside.rank and coalesce(launch.runtime_id, launch.op_id) = inside.event_id
    inner join root_depth on launch.rank = root_depth.rank
    where root_depth.depth is not null
),

kept as (
    select
        rank,
        event_id,
        'inside' as role
    from inside
    union all
    select
        rank,
        event_id,
        'launched'
    from launched
    where (rank, event_id) not in (select (rank, event_id) from inside)
),

place as (
    select distinct
        event.rank,
        event.track_id,
        event.start_ns
    from kept
    inner join event on kept.rank = event.rank and kept.event_id = event.event_id
),

arrow_end as (
    select
        flow.rank,
        flow.event_id,
        flow.kind,
        flow.flow_id,
        flow.ph
    from flow
    inner join place
        on flow.rank = place.rank and flow.track_id = place.track_id and flow.start_ns = place.start_ns
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
        place.rank,
        track.pid,
        track.tid
    from place
    inner join track on place.rank = track.rank and place.track_id = track.track_id
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
from kept
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
