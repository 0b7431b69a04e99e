-- Each thread's time cut where module calls start and end: the innermost module call of each piece.
--
-- :reads module_call
-- :column track_id BIGINT     the thread
-- :column start_ns BIGINT     start of the piece
-- :column end_ns BIGINT       end of the piece
-- :column call_id BIGINT      the innermost call, of `module_call`
-- :column module_key VARCHAR  its module, as in `module_call`
with edge as (
    -- Starts and ends of calls, with the call that is the innermost from then on.
    select
        track_id,
        start_ns as at_ns,
        1 as opens,
        depth,
        event_id as active_id
    from module_call
    where end_ns > start_ns
    union all
    select
        track_id,
        end_ns,
        0,
        -depth,
        parent_call_id
    from module_call
    where end_ns > start_ns
),

-- Time between two edges of a thread.
piece as (
    select
        track_id,
        at_ns as start_ns,
        lead(at_ns) over (partition by track_id order by at_ns, opens, depth) as end_ns,
        active_id
    from edge
)

select
    piece.track_id,
    piece.start_ns,
    piece.end_ns,
    piece.active_id as call_id,
    module_call.module_key
from piece
inner join module_call on piece.active_id = module_call.event_id
where piece.end_ns > piece.start_ns
order by piece.track_id, piece.start_ns
