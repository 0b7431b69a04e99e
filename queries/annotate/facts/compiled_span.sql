-- Time spans of a CPU thread inside code compiled by torch.compile. Spans of one thread never overlap.
--
-- Compiled code is marked by `Torch-Compiled Region: 0/0` (forward), by `CompiledFunction` and
-- `CompiledFunctionBackward` (nodes of autograd), and by `## Call CompiledFxGraph ... ##` (torch/_dynamo,
-- torch/_functorch/_aot_autograd, torch/_inductor/output_code.py).
--
-- :reads name_info, event, nesting
-- :column track_id BIGINT  the thread
-- :column start_ns BIGINT  start
-- :column end_ns BIGINT    end

-- one row per name of compiled code
with compiled_name as (
    select
        category,
        name
    from name_info
    where category in ('cpu_op', 'user_annotation') and (is_compiled_region(name) or is_compiled_graph(name))
),

-- one row per event of compiled code
compiled_event as (
    select event.event_id
    from event
    inner join compiled_name on event.category = compiled_name.category and event.name = compiled_name.name
    where event.dur_ns is not null
),

-- one row per event of compiled code on a thread, with the latest end before it on the thread
region as (
    select
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        max(nesting.end_ns) over (
            partition by nesting.track_id
            order by nesting.start_ns, nesting.end_ns desc, nesting.event_id
            rows between unbounded preceding and 1 preceding
        ) as until_ns
    from nesting
    inner join compiled_event on nesting.event_id = compiled_event.event_id
),

numbered_region as (
    select
        *,
        sum((until_ns is null or start_ns > until_ns)::integer) over (
            partition by track_id order by start_ns, end_ns desc
            rows between unbounded preceding and current row
        ) as number
    from region
)

select
    track_id,
    min(start_ns) as start_ns,
    max(end_ns) as end_ns
from numbered_region
group by track_id, number
order by track_id, start_ns
