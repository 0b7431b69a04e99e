-- Events with a name that shows a phase or a bucket, and passes of a model aligned with the ops.
--
-- :reads cpu_span, nesting, name_class, step, module_call, model_op, compiled_region
-- :column event_id BIGINT       the event; for a pass, the negative id of its first call
-- :column track_id BIGINT       thread
-- :column start_ns BIGINT       start; for an annotation, the start of the tensor created by `record_function` right
--                               before, if any
-- :column end_ns BIGINT         end
-- :column tree_depth DOUBLE     number of enclosing events on the thread; fractional for passes
-- :column strong_phase PHASE    phase of everything inside, as in `name_class`; NULL if absent
-- :column weak_phase PHASE      phase without an enclosing strong phase; NULL if absent
-- :column aside_phase PHASE     phase if no event inside or around shows another; NULL if absent
-- :column bucket VARCHAR        the bucket; NULL without one
-- :column evidence VARCHAR      source of the label: annotation, profiler, autograd, python, op_name or alignment; NULL
--                               for a name that shows only a bucket
with handle as (
    -- Tensors possibly created by `record_function`.
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

-- Annotations, with the start of the tensor created by `record_function` just before.
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

-- Computed first and materialized. If a large join that spilled to disk runs between a look-up in a table as small as
-- this and the next join, DuckDB 2.0.0 fails with an internal error ("dict-surviving join").
classified_event as materialized (
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
        classified_event.event_id,
        nesting.track_id,
        coalesce(annotation.start_ns, nesting.start_ns) as start_ns,
        nesting.end_ns,
        nesting.depth as tree_depth,
        classified_event.* exclude (event_id)
    from classified_event
    inner join nesting on classified_event.event_id = nesting.event_id
    left join annotation on classified_event.event_id = annotation.event_id
    where
        nesting.end_ns > nesting.start_ns
        and classified_event.event_id not in (select event_id from step where event_id is not null)
),

-- Module calls of a model aligned with the ops.
placed_call as (
    select
        module_call.*,
        coalesce(is_loss_type(model_op.type), false) as is_loss
    from module_call
    inner join model_op on module_call.module_key = model_op.module_key
    where module_call.pass_number is not null
),

-- Passes of a model aligned with the ops, and its losses. A pass shows forward as a module call would, and includes all
-- compiled code containing its first or last op.
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
