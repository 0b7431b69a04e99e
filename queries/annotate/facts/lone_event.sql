-- Every span that is neither in `cpu_event` nor in `gpu_event`: annotations on streams, the profiler's own work,
-- recorded synchronisation, asynchronous spans, and spans without a thread.
--
-- :reads event, nesting, launch
-- :column event_id BIGINT    the event
-- :column track_id BIGINT    thread or stream; NULL if absent
-- :column category VARCHAR   kind of event; NULL if absent
-- :column name VARCHAR       name of the event
-- :column start_ns BIGINT    start
-- :column end_ns BIGINT      end
-- :column dur_ns BIGINT      duration
select
    event_id,
    track_id,
    category,
    name,
    start_ns,
    end_ns,
    dur_ns
from event
where
    dur_ns is not null
    and event_id not in (select event_id from nesting)
    and event_id not in (select event_id from launch)
order by event_id
