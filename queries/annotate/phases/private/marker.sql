-- Events that show a phase or a bucket, each with those around it: the input of the segments below.
--
-- `family` is strong, weak, aside or bucket; `depth` counts the markers of the same family around it on its thread, and
-- `next_ns` is when the next of them starts or ends. As in `nesting`, the running sum is taken over the rows in the
-- order of the inner query; it is 0 again where the next thread begins.
--
-- :reads cpu_span, nesting, name_class, step, node, module_call, model_op, compiled_region
-- :column family VARCHAR     strong, weak, aside or bucket: how the name tells, see `name_class`
-- :column label VARCHAR      the phase that it shows; of a bucket, its name
-- :column event_id BIGINT    the event; of a model placed on the ops, the negative id of its first call in the pass
-- :column track_id BIGINT    its thread
-- :column start_ns BIGINT    start; of an annotation, that of the tensor that `record_function` makes for it right
--                            before, if any
-- :column end_ns BIGINT      end
-- :column tree_depth DOUBLE  number of events around it on its thread; has a fraction for calls of a model placed on
--                            the ops
-- :column evidence VARCHAR   what shows the label: annotation, profiler, autograd, python, op_name or alignment; NULL
--                            for a name that only tells a bucket
-- :column at_ns BIGINT       time of this row: the start of the marker or its end
-- :column opens INTEGER      1 where the marker starts, 0 where it ends
-- :column in_order DOUBLE    order of rows of one time and `opens`: `tree_depth` at starts, so that outer ones start
--                            first; its negative at ends, so that inner ones end first
-- :column change INTEGER     what the row does to the number of open markers: 1 at a start, -1 at an end
-- :column depth HUGEINT      markers of its family that are open on its thread right before this row; at an end, the
--                            marker itself is one
-- :column next_ns BIGINT     time of the next row of the same family and thread; NULL for the last one
with handle as (
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

-- An annotation starts with the tensor that `record_function` makes for it, just before.
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
telling_name as materialized (
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

named as (
    select
        telling_name.event_id,
        nesting.track_id,
        coalesce(annotation.start_ns, nesting.start_ns) as start_ns,
        nesting.end_ns,
        nesting.depth as tree_depth,
        telling_name.* exclude (event_id)
    from telling_name
    inner join nesting on telling_name.event_id = nesting.event_id
    left join annotation on telling_name.event_id = annotation.event_id
    where
        nesting.end_ns > nesting.start_ns
        and telling_name.event_id not in (select event_id from step where event_id is not null)
),

matched_call as (
    select
        module_call.*,
        coalesce(regexp_matches(model_op.type, 'Loss|Criterion'), false) as is_loss
    from module_call
    inner join model_op on module_call.module_key = model_op.module_key
    where module_call.pass_number is not null
),

-- Where the model was matched to the ops, it shows forward as a call of a module would, with all of the compiled code
-- that holds its first or last op.
matched as (
    select
        min(matched_call.event_id) as event_id,
        matched_call.track_id,
        min(
            case
                when first_region.end_ns > matched_call.start_ns and not matched_call.is_loss
                    then first_region.start_ns
                else matched_call.start_ns
            end
        ) as start_ns,
        max(
            case
                when last_region.end_ns > matched_call.end_ns and not matched_call.is_loss then last_region.end_ns
                else matched_call.end_ns
            end
        ) as end_ns,
        min(matched_call.tree_depth) as tree_depth,
        case when matched_call.is_loss then 'loss' else 'forward' end as weak_phase,
        matched_call.pass_number
    from matched_call
    asof left join compiled_region as first_region
        on matched_call.track_id = first_region.track_id and matched_call.start_ns >= first_region.start_ns
    asof left join compiled_region as last_region
        on matched_call.track_id = last_region.track_id and matched_call.end_ns > last_region.start_ns
    where matched_call.depth = 0 or matched_call.is_loss
    group by matched_call.track_id, matched_call.pass_number, matched_call.is_loss
    having max(matched_call.end_ns) > min(matched_call.start_ns)
),

classed as (
    select * from named
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
    from matched
),

telling as (
    select
        track_id,
        start_ns
    from classed
    where strong_phase is not null or weak_phase is not null
    union all
    select
        nesting.track_id,
        nesting.start_ns
    from node
    inner join nesting on node.forward_id = nesting.event_id
),

told as (
    select classed.event_id
    from classed
    asof inner join telling
        on classed.track_id = telling.track_id and classed.start_ns <= telling.start_ns
    where classed.aside_phase is not null and telling.start_ns < classed.end_ns
),

marker as (
    select
        'strong' as family,
        strong_phase as label,
        *
    from classed
    where strong_phase is not null
    union all
    select
        'weak' as family,
        weak_phase as label,
        *
    from classed
    where weak_phase is not null
    union all
    select
        'aside' as family,
        aside_phase as label,
        *
    from classed
    where
        aside_phase is not null
        and event_id not in (select event_id from told)
        and (
            aside_phase != 'forward'
            or not exists (select 1 from node)
            and not exists (select 1 from classed as other where 'optimizer' in (other.strong_phase, other.weak_phase))
        )
    union all
    select
        'bucket' as family,
        bucket as label,
        *
    from classed
    where bucket is not null
),

edge as (
    select
        family,
        label,
        event_id,
        track_id,
        start_ns,
        end_ns,
        tree_depth,
        evidence,
        start_ns as at_ns,
        1 as opens,
        tree_depth as in_order,
        1 as change
    from marker
    union all
    select
        family,
        label,
        event_id,
        track_id,
        start_ns,
        end_ns,
        tree_depth,
        evidence,
        end_ns as at_ns,
        0,
        -tree_depth,
        -1
    from marker
),

in_order as (
    select * from edge
    order by family, track_id, at_ns, opens, in_order
)

select
    *,
    sum(change) over so_far - change as depth,
    case
        when lead(family) over () = family and lead(track_id) over () = track_id then lead(at_ns) over ()
    end as next_ns
from in_order
window so_far as (rows unbounded preceding) -- noqa: PRS
