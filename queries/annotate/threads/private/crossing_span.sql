-- Spans other than python frames that cross another span of their thread.
--
-- :writes crossing
-- :reads cpu_span, nesting
-- :column event_id BIGINT  the span
-- :column track_id BIGINT  thread
-- :column start_ns BIGINT  start
-- :column end_ns BIGINT    end
select
    event_id,
    track_id,
    start_ns,
    end_ns
from cpu_span
where
    category != 'python_function'
    and event_id in (
        select event_id from nesting where overhangs
        union
        select parent_id from nesting where overhangs
    )
