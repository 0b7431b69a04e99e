-- The thread that runs the training loop.
--
-- It is the thread with the step marks. Without step marks, it is the thread with most ops with a backward node.
-- Without such ops, it is the thread with most events, except autograd's threads.
--
-- A trace without ops does not show which threads are autograd's. In this case, the thread with the longest time from
-- first to last event is used: autograd's threads start later, and stop while the loop waits for the GPU.
--
-- :reads step, nesting, node
-- :column track_id BIGINT  the thread; no row if the trace has no CPU events
with autograd_track as (
    -- Threads with autograd nodes as outermost events.
    select track_id
    from nesting
    where depth = 0 and event_id in (select event_id from node)
    group by track_id
),

-- Threads with evidence of running the loop: rank and number of occurrences of the evidence.
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
