-- The thread that runs the training loop: the one with the step marks, else the one with most of the ops that backward
-- comes back to, else the one with most events that is not autograd's. In a trace without ops, nothing tells autograd's
-- threads. There it is the one that is active for longest, from its first event to its last: those of autograd come
-- later, and stop while the loop waits for the GPU.
--
-- :reads step, nesting, node
-- :column track_id BIGINT  the thread; no row where the trace has no events of a CPU
with autograd_track as (
    -- Threads on which autograd's nodes are the outermost events.
    select track_id
    from nesting
    where depth = 0 and event_id in (select event_id from node)
    group by track_id
),

-- Threads with a sign that they run the loop: the rank of the sign, and how often it is there.
candidate as (
    select
        track_id,
        3 as rank,
        count(*) as weight
    from step
    where track_id is not null
    group by track_id
    union all
    select
        nesting.track_id,
        2 as rank,
        count(*) as weight
    from node
    inner join nesting on node.forward_id = nesting.event_id
    group by nesting.track_id
    union all
    select
        track_id,
        case when track_id in (select track_id from autograd_track) then 0 else 1 end as rank,
        case
            when sum(count(op_id)) over () > 0 then count(*)
            else max(end_ns) - min(start_ns)
        end as weight
    from nesting
    group by track_id
)

select track_id
from candidate
order by rank desc, weight desc, track_id
limit 1
