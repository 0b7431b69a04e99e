-- Annotations, possibly crossed by python frames. Most traces with python frames have crossed annotations.
--
-- :writes crossing
-- :reads cpu_span
-- :column event_id BIGINT  the annotation
-- :column track_id BIGINT  thread
-- :column start_ns BIGINT  start
-- :column end_ns BIGINT    end
select
    event_id,
    track_id,
    start_ns,
    end_ns
from cpu_span
where category = 'user_annotation'
