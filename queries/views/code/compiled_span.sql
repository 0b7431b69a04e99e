-- Time spans of a CPU thread inside code compiled by torch.compile. Spans of one thread never overlap.
--
-- Compiled code is marked by `Torch-Compiled Region: 0/0` (forward), by `CompiledFunction` and
-- `CompiledFunctionBackward` (nodes of autograd), and by `## Call CompiledFxGraph ... ##` (torch/_dynamo,
-- torch/_functorch/_aot_autograd, torch/_inductor/output_code.py).
--
-- :reads event, nesting
-- :column rank RANK
-- :column track_id BIGINT  the thread
-- :column start_ns BIGINT  start
-- :column end_ns BIGINT    end

-- one row per event of compiled code, with the latest end before it on the thread
with region as (
    select
        event.rank,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        max(nesting.end_ns) over (
            partition by event.rank, nesting.track_id
            order by nesting.start_ns, nesting.end_ns desc, event.event_id
            rows between unbounded preceding and 1 preceding
        ) as until_ns
    from event
    inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
    where
        event.category in ('cpu_op', 'user_annotation')
        and (is_compiled_region(event.name) or is_compiled_graph(event.name))
),

numbered_region as (
    select
        *,
        sum((until_ns is null or start_ns > until_ns)::integer) over (
            partition by rank, track_id order by start_ns, end_ns desc
            rows between unbounded preceding and current row
        ) as number
    from region
)

select
    rank,
    track_id,
    min(start_ns) as start_ns,
    max(end_ns) as end_ns
from numbered_region
group by rank, track_id, number
