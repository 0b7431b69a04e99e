-- Each thread's time cut where calls of the autograd engine start and end: the innermost call of each piece.
--
-- :reads engine_call
-- :column track_id BIGINT  the thread
-- :column start_ns BIGINT  start of the piece; it ends with the next one of the thread
-- :column call_id BIGINT   the innermost call of the engine; NULL where none is open
with edge as (
    -- Starts and ends of calls, with the call that is the innermost from then on.
    select
        track_id,
        start_ns as at_ns,
        1 as opens,
        depth as in_order,
        event_id as call_id
    from engine_call
    union all
    select
        track_id,
        end_ns,
        0,
        -depth,
        container_id
    from engine_call
)

select
    track_id,
    at_ns as start_ns,
    call_id
from edge
qualify row_number() over (partition by track_id, at_ns order by opens desc, in_order desc) = 1
order by track_id, at_ns
