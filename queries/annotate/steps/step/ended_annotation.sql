-- User annotations with an end.
--
-- :reads event
-- :column event_id BIGINT  the event
-- :column track_id BIGINT  thread
-- :column name VARCHAR     name
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
