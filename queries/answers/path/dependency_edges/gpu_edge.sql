-- One row per edge to the start or the end of GPU work.
--
-- The source is the start or end of other work (with a place), or a point of a thread (with a `node_id`).
--
-- :reads path_window, stream_wait, thread_point, window_work, work_start
-- :column to_place BIGINT      number of the work, as in `window_work`
-- :column to_end BOOLEAN       the edge leads to the end of the work, not to its start
-- :column from_id BIGINT       the source point of a thread; NULL if the source is GPU work
-- :column from_place BIGINT    number of the source work; NULL if the source is a point of a thread
-- :column from_end BOOLEAN     the edge starts at the end of the source work, not at its start; NULL if the source is a
--                              point of a thread
-- :column kind VARCHAR         kind of the edge
-- :column binds BOOLEAN        the work waited for this edge
-- :column start_ns BIGINT      observed time of the source
-- :column end_ns BIGINT        observed time of the target
-- :column weight_ns BIGINT     least time between source and target
-- :column event_id BIGINT      work of this time
-- :column track_id BIGINT      track of the target work
with usual_delay as (
    -- One row: the usual delay of work after its call, and after the previous work.
    select
        coalesce(quantile_disc(start_ns - call_ns, 0.5) filter (where cause = 'launch'), 0) as launch_ns,
        coalesce(quantile_disc(start_ns - queue_ns, 0.5) filter (where cause = 'queue'), 0) as queue_ns
    from work_start
)

select
    window_work.place as to_place,
    true as to_end,
    case when window_work.start_ns > path_window.start_ns then null else 0 end::bigint as from_id,
    case when window_work.start_ns > path_window.start_ns then window_work.place end as from_place,
    case when window_work.start_ns > path_window.start_ns then false end as from_end,
    'work' as kind,
    true as binds,
    window_work.start_ns,
    window_work.end_ns,
    window_work.end_ns - window_work.start_ns as weight_ns,
    window_work.event_id,
    window_work.track_id
from window_work
cross join path_window
where not window_work.is_earlier
union all
select
    work_start.place,
    false,
    coalesce(thread_point.node_id, 0),
    null,
    null,
    case when work_start.cause = 'stall' then 'stall' else 'launch' end,
    work_start.cause in ('launch', 'stall'),
    greatest(work_start.call_ns, path_window.start_ns),
    work_start.start_ns,
    case
        when work_start.cause in ('launch', 'stall')
            then work_start.start_ns - greatest(work_start.call_ns, path_window.start_ns)
        else greatest(
            least(work_start.start_ns, work_start.call_ns + usual_delay.launch_ns)
            - greatest(work_start.call_ns, path_window.start_ns), 0
        )
    end,
    work_start.event_id,
    work_start.track_id
from work_start
left join thread_point
    on work_start.call_track_id = thread_point.track_id and work_start.call_ns = thread_point.at_ns
cross join path_window
cross join usual_delay
where work_start.call_ns is not null
union all
select
    work_start.place,
    false,
    case when work_start.queue_place is null then 0 end,
    work_start.queue_place,
    case when work_start.queue_place is not null then true end,
    'queue',
    work_start.cause = 'queue',
    greatest(work_start.queue_ns, path_window.start_ns) as since_ns,
    work_start.start_ns,
    case
        when work_start.cause = 'queue' then work_start.start_ns - since_ns
        else greatest(least(work_start.start_ns, work_start.queue_ns + usual_delay.queue_ns) - since_ns, 0)
    end,
    work_start.event_id,
    work_start.track_id
from work_start
cross join path_window
cross join usual_delay
where work_start.queue_ns is not null
union all
select
    work_start.place,
    false,
    null,
    stream_wait.from_place,
    true,
    stream_wait.kind,
    work_start.cause = stream_wait.kind and stream_wait.from_place = work_start.event_place,
    stream_wait.end_ns,
    work_start.start_ns,
    case
        when work_start.cause = stream_wait.kind and stream_wait.from_place = work_start.event_place
            then work_start.start_ns - work_start.event_ns
        else 0
    end,
    work_start.event_id,
    work_start.track_id
from work_start
inner join stream_wait on work_start.place = stream_wait.to_place
union all
select
    work_start.place,
    false,
    case when work_start.cause = 'inferred' then null else 0 end,
    case when work_start.cause = 'inferred' then work_start.other_place end,
    case when work_start.cause = 'inferred' then true end,
    work_start.cause,
    true,
    coalesce(work_start.other_ns, path_window.start_ns),
    work_start.start_ns,
    work_start.start_ns - coalesce(work_start.other_ns, path_window.start_ns),
    work_start.event_id,
    work_start.track_id
from work_start
cross join path_window
where work_start.cause in ('inferred', 'untraced')
union all
select
    work_start.place,
    false,
    case when begun.start_ns > path_window.start_ns or begun.is_earlier then null else 0 end,
    case when begun.start_ns > path_window.start_ns or begun.is_earlier then begun.place end,
    case when begun.start_ns > path_window.start_ns or begun.is_earlier then false end,
    'shared',
    true,
    begun.start_ns as begun_ns,
    work_start.start_ns,
    work_start.start_ns - begun.start_ns,
    begun.event_id,
    work_start.track_id
from work_start
inner join window_work as begun on work_start.begun_place = begun.place
cross join path_window
where work_start.cause = 'shared'
