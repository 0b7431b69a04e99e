-- Each thread's time, cut at the starts and ends of autograd engine calls, with the innermost call of each piece.
--
-- :reads engine_call
-- :column track_id BIGINT  thread
-- :column start_ns BIGINT  start of the piece; a piece ends at the thread's next piece
-- :column call_id BIGINT   the innermost engine call; NULL outside of engine calls
select
    lane as track_id,
    start_ns,
    event_id as call_id
from innermost('engine_call', track_id, depth, container_id)
order by track_id, start_ns
