-- One row per annotation of the user that has an end.
--
-- :reads event
-- :column event_id BIGINT  the event
-- :column track_id BIGINT  its thread
-- :column name VARCHAR     its name
-- :column start_ns BIGINT  start
-- :column end_ns BIGINT    end
select
    event_id,
    track_id,
    name,
    start_ns,
    end_ns
from event
where category = 'user_annotation' and end_ns is not null
