-- A row is work that starts in the window, and why it started when it did.
--
-- :reads device_ending, path_window, stream_order, stream_wait, window_work
-- :only_with window_work
-- :column place BIGINT          number of the work, as in `window_work`
-- :column event_id BIGINT       the GPU event
-- :column track_id BIGINT       its track
-- :column start_ns BIGINT       its start
-- :column call_track_id BIGINT  the thread of the launch; NULL if it is not known
-- :column call_ns BIGINT        start of the launch call; NULL if it is not known
-- :column queue_place BIGINT    the work of its stream that ended last before it; NULL if there is none in the window
-- :column queue_ns BIGINT       when that ended; NULL if it is the first of its stream
-- :column event_place BIGINT    the work that its stream waited for longest by a CUDA event; NULL if it waited for none
-- :column event_ns BIGINT       when that ended
-- :column other_place BIGINT    with `inferred`, the work of another stream that it waited for
-- :column other_ns BIGINT       when that ended
-- :column begun_place BIGINT    the work of its device that started last before it; NULL for the first
-- :column cause VARCHAR         the kind of the edge that binds: launch, queue, event, wait, inferred, shared, stall
--                               or untraced
with last_wait as (
    select
        to_place,
        max(end_ns) as event_ns,
        arg_max(from_place, (end_ns, from_place)) as event_place,
        any_value(kind) as kind
    from stream_wait
    group by to_place
),

-- The launch takes effect at `called_ns`, the streams that it waits for are free at `freed_ns`; from `ready_ns` on,
-- these explain no wait.
ready as (
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
        window_work.call_ns + least(window_work.call_dur_ns, path_window.call_dur_ns) as called_ns,
        greatest(stream_order.queue_ns, last_wait.event_ns) as freed_ns,
        greatest(
            least(coalesce(called_ns, path_window.start_ns), window_work.start_ns), freed_ns, path_window.start_ns
        ) as ready_ns
    from window_work
    inner join stream_order on window_work.place = stream_order.place
    left join last_wait on window_work.place = last_wait.to_place
    cross join path_window
    where window_work.start_ns > path_window.start_ns and not window_work.is_earlier
)

select
    ready.place,
    ready.event_id,
    ready.track_id,
    ready.start_ns,
    ready.call_track_id,
    ready.call_ns,
    ready.queue_place,
    ready.queue_ns,
    ready.event_place,
    ready.event_ns,
    other.place as other_place,
    other.end_ns as other_ns,
    ready.begun_place,
    case
        when other.place is not null then 'inferred'
        when
            ready.start_ns - ready.ready_ns > settled_ns()
            and begun.stream != ready.stream
            and begun.end_ns > ready.start_ns
            and begun.start_ns < ready.start_ns
            then 'shared'
        when
            ready.called_ns >= coalesce(ready.freed_ns, ready.called_ns)
            and ready.start_ns - ready.call_end_ns > launch_effect_ns() then 'stall'
        when ready.called_ns is not null and coalesce(ready.called_ns >= ready.freed_ns, true) then 'launch'
        when ready.queue_ns = ready.freed_ns then 'queue'
        when ready.freed_ns is not null then ready.wait_kind
        else 'untraced'
    end as cause
from ready
left join window_work as begun on ready.begun_place = begun.place
asof left join device_ending on ready.device = device_ending.device and ready.start_ns >= device_ending.end_ns
left join window_work as other
    on
        device_ending.event_id = other.event_id
        and ready.start_ns - ready.ready_ns > settled_ns()
        and other.end_ns > ready.ready_ns
        and ready.start_ns - other.end_ns <= launch_effect_ns()
