-- Spans that python frames may cross: annotations. Most traces with python frames have some that do.
--
-- :writes crossing
-- :reads cpu_span
-- :column event_id BIGINT  TODO
-- :column track_id BIGINT  TODO
-- :column start_ns BIGINT  TODO
-- :column end_ns BIGINT    TODO
select
    event_id,
    track_id,
    start_ns,
    end_ns
from cpu_span
where category = 'user_annotation'
