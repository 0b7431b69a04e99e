-- Calls of modules, as the trace's `nn.Module: Conv2d_3` frames tell: one row per call, with the module around it.
--
-- The name is the identity: the profiler numbers the instances of each class, so an instance called twice has one name.
-- A parametrized module has a class of its own and so always number 0 (torch/nn/utils/parametrize.py); it takes the
-- number of its first `ParametrizationList`, which no other module has.
--
-- :reads cpu_span, name_class, nesting
-- :column event_id BIGINT        TODO
-- :column track_id BIGINT        TODO
-- :column module_key VARCHAR     TODO
-- :column start_ns BIGINT        TODO
-- :column end_ns BIGINT          TODO
-- :column depth INTEGER          TODO
-- :column tree_depth DOUBLE      TODO
-- :column evidence VARCHAR       TODO
-- :column confidence_pct DOUBLE  TODO
-- :column pass_number BIGINT     TODO
-- :column parent_call_id BIGINT  TODO
-- :column parent_key VARCHAR     TODO
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

contained as (
    select
        inside.event_id,
        inside.track_id,
        inside.module_key,
        inside.start_ns,
        inside.end_ns,
        inside.level as depth,
        inside.depth::double as tree_depth,
        inside.around_id as parent_call_id,
        container.module_key as parent_key
    from nested('frame', track_id, depth) as inside
    left join frame as container on inside.around_id = container.event_id
),

parametrized as (
    select
        parent_call_id as event_id,
        regexp_replace(parent_key, '_\d+$', '_') || arg_min(regexp_extract(module_key, '\d+$'), start_ns) as module_key
    from contained
    where starts_with(parent_key, 'Parametrized') and starts_with(module_key, 'ParametrizationList_')
    group by parent_call_id, parent_key
)

select
    contained.event_id,
    contained.track_id,
    coalesce(own.module_key, contained.module_key) as module_key,
    contained.start_ns,
    contained.end_ns,
    contained.depth,
    contained.tree_depth,
    'nn_module' as evidence,
    null::double as confidence_pct,
    null::bigint as pass_number,
    contained.parent_call_id,
    coalesce(around.module_key, contained.parent_key) as parent_key
from contained
left join parametrized as own on contained.event_id = own.event_id
left join parametrized as around on contained.parent_call_id = around.event_id
order by contained.event_id
