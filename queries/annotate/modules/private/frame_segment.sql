-- Each thread's time, cut at the starts and ends of module calls, with the innermost module call of each piece.
--
-- :reads module_call
-- :only_with module_call
-- :column track_id BIGINT     the thread
-- :column start_ns BIGINT     start of the piece
-- :column end_ns BIGINT       end of the piece
-- :column call_id BIGINT      the innermost call, of `module_call`
-- :column module_key VARCHAR  module of the call, as in `module_call`
select
    piece.lane as track_id,
    piece.start_ns,
    piece.end_ns,
    piece.event_id as call_id,
    module_call.module_key
from innermost('module_call', track_id, depth, parent_call_id) as piece
inner join module_call on piece.event_id = module_call.event_id
order by track_id, piece.start_ns
