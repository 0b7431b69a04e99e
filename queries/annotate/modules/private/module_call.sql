-- Module calls from the trace's `nn.Module: Conv2d_3` frames, with the enclosing module call.
--
-- The name identifies the module: the profiler numbers the instances of each class, and an instance called twice has
-- the same name. A parametrized module has a class of its own and therefore always number 0
-- (torch/nn/utils/parametrize.py). Instead, the module gets the unique number of its first `ParametrizationList`.
--
-- :reads cpu_span, name_class, nesting
-- :only_with name_class where is_module
-- :column event_id BIGINT        the frame
-- :column track_id BIGINT        thread
-- :column module_key VARCHAR     name of the module: `Conv2d_3`
-- :column start_ns BIGINT        start
-- :column end_ns BIGINT          end
-- :column depth INTEGER          number of enclosing module calls on the thread
-- :column tree_depth DOUBLE      number of enclosing events on the thread
-- :column evidence VARCHAR       always nn_module
-- :column confidence_pct DOUBLE  always NULL, because frames leave no doubt; set only for a model aligned with the ops
-- :column pass_number BIGINT     always NULL; set only for a model aligned with the ops
-- :column parent_call_id BIGINT  the enclosing module call; NULL for an outermost call
-- :column parent_key VARCHAR     `module_key` of the enclosing module call; NULL for an outermost call
with frame as (
    -- Frames of module calls, with the module's name.
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

-- Module calls, with the enclosing call.
nested_call as (
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

-- Calls of parametrized modules, with a unique name.
parametrized_call as (
    select
        parent_call_id as event_id,
        regexp_replace(parent_key, '_\d+$', '_') || arg_min(regexp_extract(module_key, '\d+$'), start_ns) as module_key
    from nested_call
    where starts_with(parent_key, 'Parametrized') and starts_with(module_key, 'ParametrizationList_')
    group by parent_call_id, parent_key
)

select
    nested_call.event_id,
    nested_call.track_id,
    coalesce(own.module_key, nested_call.module_key) as module_key,
    nested_call.start_ns,
    nested_call.end_ns,
    nested_call.depth,
    nested_call.tree_depth,
    'nn_module' as evidence,
    null::double as confidence_pct,
    null::bigint as pass_number,
    nested_call.parent_call_id,
    coalesce(around.module_key, nested_call.parent_key) as parent_key
from nested_call
left join parametrized_call as own on nested_call.event_id = own.event_id
left join parametrized_call as around on nested_call.parent_call_id = around.event_id
order by nested_call.event_id
