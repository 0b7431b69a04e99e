-- Each thread's time cut where calls of the autograd engine start and end: the innermost call of each piece.
--
-- :reads engine_call
-- :column track_id BIGINT  the thread
-- :column start_ns BIGINT  start of the piece; it ends with the next one of the thread
-- :column call_id BIGINT   the innermost call of the engine; NULL where none is open
select
    lane as track_id,
    start_ns,
    event_id as call_id
from innermost('engine_call', track_id, depth, container_id)
order by track_id, start_ns
