-- One row per edge to a point of a thread: of kind `host`, `handoff` or `return`.
--
-- The source is a point of a thread (with a `node_id`), or the start or end of GPU work (with a place).
--
-- :reads backward_handover, call_wait, path_window, thread_point
-- :column to_id BIGINT         the later point
-- :column from_id BIGINT       the earlier point; NULL if the source is GPU work
-- :column from_place BIGINT    number of the source work, as in `window_work`; NULL if the source is a point of a
--                              thread
-- :column from_end BOOLEAN     the edge starts at the end of the source work, not at its start; NULL if the source is a
--                              point of a thread
-- :column kind VARCHAR         kind of the edge
-- :column binds BOOLEAN        the later point waited for this edge
-- :column start_ns BIGINT      observed time of the source
-- :column end_ns BIGINT        observed time of the later point
-- :column weight_ns BIGINT     least time between source and target
-- :column event_id BIGINT      event of this time; NULL if the profiler shows no event
-- :column track_id BIGINT      the thread
with wait_end as (
    -- One row per end of a waiting call: the longest wait.
    select
        node_id,
        max(since_ns) as since_ns,
        arg_max(place, (since_ns, place)) as place,
        arg_max(returns_early, (since_ns, place)) as returns_early
    from call_wait
    group by node_id
),

-- One row per handover between the main thread and autograd's thread, in both directions. If autograd's thread
-- continues at the same instant, the thread never stopped, so there is no handover.
handover as (
    select
        giver.node_id as from_id,
        taker.node_id as to_id,
        backward_handover.start_ns as at_ns,
        backward_handover.track_id
    from backward_handover
    inner join thread_point as giver
        on backward_handover.main_id = giver.track_id and backward_handover.start_ns = giver.at_ns
    inner join thread_point as taker
        on backward_handover.track_id = taker.track_id and backward_handover.start_ns = taker.at_ns
    where
        taker.node_id > 0
        and (backward_handover.track_id, backward_handover.start_ns)
        not in (select (before.track_id, before.end_ns) from backward_handover as before)
    union all
    select
        giver.node_id as from_id,
        taker.node_id as to_id,
        backward_handover.end_ns as at_ns,
        backward_handover.main_id as track_id
    from backward_handover
    inner join thread_point as giver
        on backward_handover.track_id = giver.track_id and backward_handover.end_ns = giver.at_ns
    inner join thread_point as taker
        on backward_handover.main_id = taker.track_id and backward_handover.end_ns = taker.at_ns
    where taker.node_id > 0
),

-- One row per point that waits for another thread.
waiting_point as (
    select
        to_id,
        min(from_id) as from_id
    from handover
    group by to_id
)

select
    point.next_id as to_id,
    point.node_id as from_id,
    null::bigint as from_place,
    null::boolean as from_end,
    'host' as kind,
    coalesce(wait_end.since_ns <= point.at_ns, true) and waiting_point.to_id is null as binds,
    point.at_ns as start_ns,
    point.next_ns as end_ns,
    case
        when waiting_point.to_id is not null then 0
        -- the call of a copy takes at most the usual time of a launching call itself
        when wait_end.returns_early and wait_end.since_ns > point.at_ns
            then least(point.next_ns - wait_end.since_ns, path_window.call_dur_ns)
        else point.next_ns - greatest(point.at_ns, coalesce(wait_end.since_ns, point.at_ns))
    end as weight_ns,
    point.event_id,
    point.track_id
from thread_point as point
cross join path_window
left join wait_end on point.next_id = wait_end.node_id
left join waiting_point on point.next_id = waiting_point.to_id
where point.next_id is not null
union all
select
    to_id,
    from_id,
    null,
    null,
    'handoff',
    from_id = min(from_id) over (partition by to_id),
    at_ns as start_ns,
    at_ns as end_ns,
    0,
    null,
    track_id
from handover
union all
select
    call_wait.node_id,
    null,
    call_wait.place,
    not call_wait.returns_early,
    'return',
    wait_end.place = call_wait.place and wait_end.since_ns > point.at_ns and waiting_point.to_id is null,
    call_wait.since_ns,
    call_wait.at_ns,
    case
        when waiting_point.to_id is not null then 0
        else call_wait.at_ns - greatest(point.at_ns, wait_end.since_ns)
    end,
    call_wait.event_id,
    call_wait.track_id
from call_wait
inner join wait_end on call_wait.node_id = wait_end.node_id
inner join thread_point as point on call_wait.node_id = point.next_id
left join waiting_point on call_wait.node_id = waiting_point.to_id
