-- Calls of the operating system on each thread in a time span: `fsync`, `poll`, `read`, …
--
-- Nsight Systems records them (`--trace=osrt`). A call inside another one is left out.
--
-- :param rank BIGINT            the process rank
-- :param start_ns BIGINT        start of the time span
-- :param end_ns BIGINT          end of the time span
-- :reads event, nesting
-- :column track_id BIGINT       the thread
-- :column start_ns BIGINT       start of the call
-- :column end_ns BIGINT         end of the call
-- :column os_call VARCHAR       name of the call
-- :column event_id BIGINT       the call
select
    nesting.track_id,
    nesting.start_ns,
    nesting.end_ns,
    event.name as os_call,
    nesting.event_id
from event
inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
where
    event.rank = $rank
    and event.category = 'os_call'
    and nesting.start_ns < $end_ns
    and nesting.end_ns > $start_ns
    and nesting.end_ns > nesting.start_ns
qualify
    nesting.start_ns >= coalesce(
        max(nesting.end_ns) over (
            partition by nesting.track_id order by nesting.start_ns, nesting.depth
            rows between unbounded preceding and 1 preceding
        ), nesting.start_ns
    )
order by nesting.track_id, nesting.start_ns, nesting.event_id
