-- Events whose names tell a phase or a bucket, and passes of a model that was placed on the ops.
--
-- :reads cpu_span, nesting, name_class, step, module_call, model_op, compiled_region
-- :column event_id BIGINT       the event; of a pass, the negative id of its first call
-- :column track_id BIGINT       its thread
-- :column start_ns BIGINT       start; of an annotation, that of the tensor that `record_function` makes for it right
--                               before, if any
-- :column end_ns BIGINT         end
-- :column tree_depth DOUBLE     number of events around it on its thread; has a fraction for passes
-- :column strong_phase PHASE    the phase of all it contains, as in `name_class`; NULL without one
-- :column weak_phase PHASE      the phase where no strong one is around it; NULL without one
-- :column aside_phase PHASE     the phase where nothing in it or around it tells one; NULL without one
-- :column bucket VARCHAR        the bucket; NULL without one
-- :column evidence VARCHAR      what shows it: annotation, profiler, autograd, python, op_name or alignment; NULL for a
--                               name that only tells a bucket
with handle as (
    -- tensors that may be those that `record_function` makes
    select
        nesting.track_id,
        coalesce(nesting.parent_id, -1) as parent_id,
        nesting.start_ns,
        nesting.end_ns
    from cpu_span
    inner join name_class on cpu_span.class_id = name_class.class_id
    inner join nesting on cpu_span.event_id = nesting.event_id
    where name_class.name = 'aten::zeros'
),

-- Annotations that start with the tensor that `record_function` makes for them, just before.
annotation as (
    select
        cpu_span.event_id,
        handle.start_ns
    from cpu_span
    inner join nesting on cpu_span.event_id = nesting.event_id
    asof inner join handle
        on
            nesting.track_id = handle.track_id
            and coalesce(nesting.parent_id, -1) = handle.parent_id
            and nesting.start_ns >= handle.start_ns
    where cpu_span.category = 'user_annotation' and nesting.start_ns < handle.start_ns + 30000
),

-- Found before anything else, and kept: where a large join that has spilled to disk stands between a look-up in a
-- table as small as this one and the next join, DuckDB 2.0.0 stops with an internal error ("dict-surviving join").
known_name as materialized (
    select
        cpu_span.event_id,
        name_class.strong_phase,
        name_class.weak_phase,
        name_class.aside_phase,
        name_class.bucket,
        name_class.evidence
    from cpu_span
    inner join name_class on cpu_span.class_id = name_class.class_id
    where
        coalesce(
            name_class.strong_phase, name_class.weak_phase, name_class.aside_phase, name_class.bucket
        ) is not null
),

named_interval as (
    select
        known_name.event_id,
        nesting.track_id,
        coalesce(annotation.start_ns, nesting.start_ns) as start_ns,
        nesting.end_ns,
        nesting.depth as tree_depth,
        known_name.* exclude (event_id)
    from known_name
    inner join nesting on known_name.event_id = nesting.event_id
    left join annotation on known_name.event_id = annotation.event_id
    where
        nesting.end_ns > nesting.start_ns
        and known_name.event_id not in (select event_id from step where event_id is not null)
),

-- Calls of modules of a model that was placed on the ops.
placed_call as (
    select
        module_call.*,
        coalesce(regexp_matches(model_op.type, 'Loss|Criterion'), false) as is_loss
    from module_call
    inner join model_op on module_call.module_key = model_op.module_key
    where module_call.pass_number is not null
),

-- Passes of a model that was placed on the ops, and its losses. A pass shows forward as a call of a module would, with
-- all of the compiled code that holds its first or last op.
model_pass as (
    select
        min(placed_call.event_id) as event_id,
        placed_call.track_id,
        min(
            case
                when first_region.end_ns > placed_call.start_ns and not placed_call.is_loss
                    then first_region.start_ns
                else placed_call.start_ns
            end
        ) as start_ns,
        max(
            case
                when last_region.end_ns > placed_call.end_ns and not placed_call.is_loss then last_region.end_ns
                else placed_call.end_ns
            end
        ) as end_ns,
        min(placed_call.tree_depth) as tree_depth,
        case when placed_call.is_loss then 'loss' else 'forward' end as weak_phase,
        placed_call.pass_number
    from placed_call
    asof left join compiled_region as first_region
        on placed_call.track_id = first_region.track_id and placed_call.start_ns >= first_region.start_ns
    asof left join compiled_region as last_region
        on placed_call.track_id = last_region.track_id and placed_call.end_ns > last_region.start_ns
    where placed_call.depth = 0 or placed_call.is_loss
    group by placed_call.track_id, placed_call.pass_number, placed_call.is_loss
    having max(placed_call.end_ns) > min(placed_call.start_ns)
)

select
    event_id,
    track_id,
    start_ns,
    end_ns,
    tree_depth,
    strong_phase,
    weak_phase,
    aside_phase,
    bucket,
    evidence
from named_interval
union all
select
    event_id,
    track_id,
    start_ns,
    end_ns,
    tree_depth,
    null,
    weak_phase,
    null,
    null,
    'alignment'
from model_pass
