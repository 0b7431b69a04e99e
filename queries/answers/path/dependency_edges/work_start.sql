-- One row per work that starts in the window, with the cause of its start time.
--
-- :takes rank
-- :reads device_ending, host_activity, path_window, stream_order, stream_wait, window_work
-- :only_with window_work
-- :column place BIGINT          number of the work, as in `window_work`
-- :column event_id BIGINT       the GPU event
-- :column track_id BIGINT       track of the GPU event
-- :column start_ns BIGINT       start of the GPU event
-- :column call_track_id BIGINT  thread of the launch; NULL if unknown
-- :column call_ns BIGINT        start of the launching call; NULL if unknown
-- :column queue_place BIGINT    work of its stream with the latest end before the start; NULL if the window has no such
--                               work
-- :column queue_ns BIGINT       end of that earlier work; NULL for the first work of the stream
-- :column event_place BIGINT    work with the latest end that its stream waited for by a CUDA event; NULL without such
--                               a wait
-- :column event_ns BIGINT       end of that earlier work
-- :column other_place BIGINT    with `inferred`, the awaited work of another stream
-- :column other_ns BIGINT       end of that earlier work
-- :column begun_place BIGINT    work of its device with the latest start before; NULL for the first work
-- :column cause VARCHAR         kind of the binding edge: launch, queue, event, wait, inferred, shared, stall or
--                               untraced
with last_wait as (
    select
        to_place,
        max(end_ns) as event_ns,
        arg_max(from_place, (end_ns, from_place)) as event_place,
        any_value(kind) as kind
    from stream_wait
    group by to_place
),

-- The profiler's own work inside the launching call delays the launch by its duration.
own_work as (
    select
        window_work.place,
        sum(host_activity.end_ns - host_activity.start_ns)::bigint as own_ns
    from host_activity
    asof inner join window_work
        on host_activity.track_id = window_work.call_track_id and host_activity.start_ns >= window_work.call_ns
    where
        host_activity.rank = $rank
        and host_activity.kind = 'profiler'
        and host_activity.end_ns <= window_work.call_end_ns
    group by window_work.place
),

-- The launch takes effect at `called_ns`, and the awaited streams are free at `freed_ns`. These causes explain the wait
-- until `ready_ns`, but no later wait.
ready_work as (
    select
        window_work.place,
        window_work.event_id,
        window_work.track_id,
        window_work.device,
        window_work.stream,
        window_work.start_ns,
        window_work.call_track_id,
        window_work.call_ns,
        window_work.call_end_ns,
        stream_order.queue_place,
        stream_order.queue_ns,
        last_wait.event_place,
        last_wait.event_ns,
        last_wait.kind as wait_kind,
        stream_order.begun_place,
        coalesce(own_work.own_ns, 0) as profiler_ns,
        window_work.call_ns + profiler_ns
        + least(window_work.call_dur_ns - profiler_ns, path_window.call_dur_ns) as called_ns,
        greatest(stream_order.queue_ns, last_wait.event_ns) as freed_ns,
        greatest(
            least(coalesce(called_ns, path_window.start_ns), window_work.start_ns), freed_ns, path_window.start_ns
        ) as ready_ns
    from window_work
    inner join stream_order on window_work.place = stream_order.place
    left join last_wait on window_work.place = last_wait.to_place
    left join own_work on window_work.place = own_work.place
    cross join path_window
    where window_work.start_ns > path_window.start_ns and not window_work.is_earlier
)

select
    ready_work.place,
    ready_work.event_id,
    ready_work.track_id,
    ready_work.start_ns,
    ready_work.call_track_id,
    ready_work.call_ns,
    ready_work.queue_place,
    ready_work.queue_ns,
    ready_work.event_place,
    ready_work.event_ns,
    other.place as other_place,
    other.end_ns as other_ns,
    ready_work.begun_place,
    case
        when other.place is not null then 'inferred'
        when
            ready_work.start_ns - ready_work.ready_ns > settled_ns()
            and begun.stream != ready_work.stream
            and begun.end_ns > ready_work.start_ns
            and begun.start_ns < ready_work.start_ns
            then 'shared'
        when
            ready_work.called_ns >= coalesce(ready_work.freed_ns, ready_work.called_ns)
            and ready_work.start_ns - ready_work.call_end_ns > launch_effect_ns() then 'stall'
        when ready_work.called_ns is not null and coalesce(ready_work.called_ns >= ready_work.freed_ns, true)
            then 'launch'
        when ready_work.queue_ns = ready_work.freed_ns then 'queue'
        when ready_work.freed_ns is not null then ready_work.wait_kind
        else 'untraced'
    end as cause
from ready_work
left join window_work as begun on ready_work.begun_place = begun.place
asof left join device_ending on ready_work.device = device_ending.device and ready_work.start_ns >= device_ending.end_ns
left join window_work as other
    on
        device_ending.event_id = other.event_id
        and ready_work.start_ns - ready_work.ready_ns > settled_ns()
        and other.end_ns > ready_work.ready_ns
        and ready_work.start_ns - other.end_ns <= launch_effect_ns()
