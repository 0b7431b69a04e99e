-- Calls of modules, as the trace's `nn.Module: Conv2d_3` frames tell: one row per call, with the module around it.
--
-- The name is the identity: the profiler numbers the instances of each class, so an instance called twice has one name.
--
-- :reads cpu_span, name_class, nesting
with frame as (
    select
        nesting.event_id,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        nesting.depth,
        substring(name_class.name, 12) as module_key
    from cpu_span
    inner join name_class on cpu_span.class_id = name_class.class_id and name_class.is_module
    inner join nesting on cpu_span.event_id = nesting.event_id
),

edge as (
    select
        event_id,
        track_id,
        module_key,
        start_ns as at_ns,
        1 as opens,
        depth,
        depth as tree_depth,
        (end_ns > start_ns)::integer as change,
        end_ns
    from frame
    union all
    select
        event_id,
        track_id,
        null,
        end_ns,
        0,
        -depth,
        null,
        -1,
        null
    from frame
    where end_ns > start_ns
),

open_at as (
    select
        *,
        (
            sum(change) over (partition by track_id order by at_ns, opens, depth rows unbounded preceding) - change
        )::integer as module_depth
    from edge
),

started as (
    select
        event_id,
        track_id,
        module_key,
        at_ns as start_ns,
        end_ns,
        tree_depth,
        module_depth,
        module_depth + 1 as inner_depth
    from open_at
    where opens = 1
)

select
    inside.event_id,
    inside.track_id,
    inside.module_key,
    inside.start_ns,
    inside.end_ns,
    inside.module_depth as depth,
    inside.tree_depth::double as tree_depth,
    'nn_module' as evidence,
    null::double as confidence_pct,
    null::bigint as pass_number,
    container.event_id as parent_call_id,
    container.module_key as parent_key
from started as inside
asof left join started as container
    on
        inside.track_id = container.track_id
        and inside.module_depth = container.inner_depth
        and inside.start_ns >= container.start_ns
order by inside.event_id
