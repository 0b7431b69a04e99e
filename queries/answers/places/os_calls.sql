-- Calls of the operating system on each thread in a time span: `fsync`, `poll`, `read`, …
--
-- Nsight Systems records them (`--trace=osrt`). A call inside another one is left out.
--
-- :param rank BIGINT            the process rank
-- :param start_ns BIGINT        start of the time span
-- :param end_ns BIGINT          end of the time span
-- :reads cpu_event
-- :column track_id BIGINT       the thread
-- :column start_ns BIGINT       start of the call
-- :column end_ns BIGINT         end of the call
-- :column os_call VARCHAR       name of the call
-- :column event_id BIGINT       the call
select
    track_id,
    start_ns,
    end_ns,
    name as os_call,
    event_id
from cpu_event
where
    rank = $rank
    and category = 'os_call'
    and start_ns < $end_ns
    and end_ns > $start_ns
    and end_ns > start_ns
qualify
    start_ns >= coalesce(
        max(end_ns) over (
            partition by track_id order by start_ns, depth
            rows between unbounded preceding and 1 preceding
        ), start_ns
    )
order by track_id, start_ns, event_id
