-- `cpu_span` again, with annotations fitted between the python frames that cross their borders.
--
-- `record_function` starts an annotation inside the python frame that enters it and ends it inside the frame that
-- leaves it, so both frames cross its borders. The annotation is taken to start when the entering frames end and to end
-- when the leaving frames start; a few microseconds change sides. Only the tree uses these times.
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

border as (
    select
        crossing.event_id,
        coalesce(max(frame.end_ns) filter (where frame.start_ns <= crossing.start_ns), any_value(crossing.start_ns))
            as start_ns,
        coalesce(min(frame.start_ns) filter (where frame.start_ns > crossing.start_ns), any_value(crossing.end_ns))
            as end_ns
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
),

fitted as (
    select * from border
    where start_ns < end_ns
)

select
    cpu_span.event_id,
    cpu_span.track_id,
    cpu_span.category,
    coalesce(fitted.start_ns, cpu_span.start_ns) as start_ns,
    coalesce(fitted.end_ns, cpu_span.end_ns) as end_ns,
    cpu_span.class_id,
    cpu_span.is_op,
    cpu_span.layer,
    cpu_span.is_cut
from cpu_span
left join fitted on cpu_span.event_id = fitted.event_id
