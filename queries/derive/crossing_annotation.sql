-- Spans that python frames may cross: annotations. Most traces with python frames have some that do.
--
-- :writes crossing
-- :reads cpu_span
select
    event_id,
    track_id,
    start_ns,
    end_ns
from cpu_span
where category = 'user_annotation'
