-- One row per point in time on a thread: a start or end of an event, or a change of the thread's activity.
--
-- :takes rank, end_ns, frames
-- :reads backward_handover, host_activity, nesting, path_thread, path_window, python_call
-- :column node_id BIGINT   number of the point, above 1; 0 for the start of the window, shared by all threads
-- :column track_id BIGINT  the thread
-- :column at_ns BIGINT     time of the point
-- :column event_id BIGINT  innermost event from this point on; NULL if the profiler shows no event
-- :column next_id BIGINT   next point of the thread; NULL for the last point
-- :column next_ns BIGINT   time of the next point; NULL for the last point

-- one row per event of the path's threads, cut at the start of the window
with host_event as (
    select
        nesting.event_id,
        nesting.track_id,
        nesting.depth,
        nesting.parent_id,
        greatest(nesting.start_ns, path_window.start_ns) as start_ns,
        nesting.end_ns
    from nesting
    inner join path_thread on nesting.track_id = path_thread.track_id
    cross join path_window
    left join python_call
        on not $frames and nesting.rank = python_call.rank and nesting.event_id = python_call.event_id
    where
        nesting.rank = $rank
        and python_call.event_id is null
        and nesting.end_ns > nesting.start_ns
        and nesting.end_ns > path_window.start_ns
        and nesting.start_ns < $end_ns
),

-- One row per reason for a point: the event that starts there, or the outer event that continues after an end.
border as (
    select
        track_id,
        start_ns as at_ns,
        event_id as opened,
        null as closed_into,
        depth
    from host_event
    union all
    select
        track_id,
        end_ns,
        null,
        coalesce(parent_id, -1),
        depth
    from host_event
    where end_ns <= $end_ns
    union all
    select
        unnest([track_id, main_id]),
        start_ns,
        null,
        null,
        null
    from backward_handover
    cross join (select start_ns as window_ns from path_window) as edge
    where start_ns > window_ns
    union all
    select
        unnest([track_id, main_id]),
        end_ns,
        null,
        null,
        null
    from backward_handover
    where end_ns <= $end_ns
    union all
    select
        host_activity.track_id,
        host_activity.start_ns,
        null,
        null,
        null
    from host_activity
    inner join path_thread on host_activity.track_id = path_thread.track_id
    cross join path_window
    where
        host_activity.rank = $rank
        and host_activity.start_ns > path_window.start_ns
        and host_activity.start_ns < $end_ns
    union all
    select
        path_thread.track_id,
        path_window.start_ns,
        null,
        null,
        null
    from path_thread
    cross join path_window
    union all
    select
        path_thread.track_id,
        $end_ns,
        null,
        null,
        null
    from path_thread
    cross join path_window
    where path_window.start_ns < $end_ns and path_thread.is_main
),

-- one row per thread and time, with the new innermost event
point as (
    select
        track_id,
        at_ns,
        coalesce(
            arg_max(opened, depth) filter (where opened is not null),
            arg_min(closed_into, depth) filter (where closed_into is not null)
        ) as inside
    from border
    group by track_id, at_ns
),

-- one row per point, with its number and the innermost event
numbered_point as (
    select
        point.track_id,
        point.at_ns,
        case
            when point.at_ns > path_window.start_ns then 1 + row_number() over (order by point.track_id, point.at_ns)
            else 0
        end as node_id,
        nullif(last_value(point.inside ignore nulls) over in_order, -1) as event_id
    from point
    cross join path_window
    window in_order as (
        partition by point.track_id order by point.at_ns rows between unbounded preceding and current row
    )
)

select
    node_id,
    track_id,
    at_ns,
    event_id,
    lead(node_id) over in_order as next_id,
    lead(at_ns) over in_order as next_ns
from numbered_point
window in_order as (partition by track_id order by at_ns)
