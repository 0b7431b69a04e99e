-- `cpu_span` again, with annotations shrunk to fit between python frames.
--
-- `record_function` starts an annotation inside the python frame that enters it and ends it inside the frame that
-- leaves it, so both frames cross its borders. The annotation is taken to start when the entering frames end and to end
-- when the leaving frames start; a few microseconds change sides, and all events nest again. Only the tree uses these
-- times.
--
-- :writes cpu_span
-- :reads cpu_span, nesting
with crossing as (
    select
        cpu_span.event_id,
        cpu_span.track_id,
        cpu_span.start_ns,
        cpu_span.end_ns
    from cpu_span
    where
        cpu_span.category != 'python_function'
        and cpu_span.event_id in (
            select event_id from nesting where overhangs
            union
            select parent_id from nesting where overhangs
        )
),

fitted as (
    select
        crossing.event_id,
        max(frame.end_ns) filter (where frame.start_ns <= crossing.start_ns) as start_ns,
        min(frame.start_ns) filter (where frame.start_ns > crossing.start_ns) as end_ns
    from crossing
    inner join cpu_span as frame
        on
            crossing.track_id = frame.track_id
            and frame.category = 'python_function'
            and frame.start_ns < crossing.end_ns
            and frame.end_ns > crossing.start_ns
    where
        (frame.start_ns <= crossing.start_ns and frame.end_ns < crossing.end_ns)
        or (frame.start_ns > crossing.start_ns and frame.end_ns > crossing.end_ns)
    group by crossing.event_id
)

select
    cpu_span.event_id,
    cpu_span.track_id,
    cpu_span.category,
    case
        when coalesce(fitted.start_ns, cpu_span.start_ns) < coalesce(fitted.end_ns, cpu_span.end_ns)
            then coalesce(fitted.start_ns, cpu_span.start_ns)
        else cpu_span.start_ns
    end as start_ns,
    case
        when coalesce(fitted.start_ns, cpu_span.start_ns) < coalesce(fitted.end_ns, cpu_span.end_ns)
            then coalesce(fitted.end_ns, cpu_span.end_ns)
        else cpu_span.end_ns
    end as end_ns,
    cpu_span.class_id,
    cpu_span.is_op,
    cpu_span.layer
from cpu_span
left join fitted on cpu_span.event_id = fitted.event_id
