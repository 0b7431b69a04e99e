-- `cpu_span` again, with what sticks out of its surroundings fitted into them.
--
-- `record_function` starts an annotation inside the python frame that enters it and ends it inside the frame that
-- leaves it, so both frames cross its borders. The annotation is taken to start when the entering frames end and to end
-- when the leaving frames start; a few microseconds change sides, and all events nest again. Any other event that ends
-- after its parent (old traces round to microseconds) is cut there, and all in it. Only the tree uses these times.
--
-- :writes cpu_span
-- :reads cpu_span, nesting
with recursive crossing as (
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
),

-- Where an event sticks out, what starts after its parent's end is not inside it, whatever the first tree says.
cut as (
    select
        inside.event_id,
        inside.end_ns
    from nesting as inside
    inner join nesting as parent on inside.parent_id = parent.event_id
    where
        inside.overhangs
        and not parent.overhangs
        and inside.event_id not in (select event_id from fitted)
        and parent.event_id not in (select event_id from fitted)
    union all
    select
        inside.event_id,
        cut.end_ns
    from cut
    inner join nesting as inside on cut.event_id = inside.parent_id
    where inside.start_ns < cut.end_ns
),

-- Inside one that is cut, another may stick out of its own parent.
first_cut as (
    select
        event_id,
        min(end_ns) as end_ns
    from cut
    group by event_id
)

select
    cpu_span.event_id,
    cpu_span.track_id,
    cpu_span.category,
    coalesce(fitted.start_ns, cpu_span.start_ns) as start_ns,
    greatest(
        least(coalesce(fitted.end_ns, cpu_span.end_ns), first_cut.end_ns), coalesce(fitted.start_ns, cpu_span.start_ns)
    ) as end_ns,
    cpu_span.class_id,
    cpu_span.is_op,
    cpu_span.layer,
    coalesce(first_cut.end_ns < cpu_span.end_ns, false) as is_cut
from cpu_span
left join fitted on cpu_span.event_id = fitted.event_id
left join first_cut on cpu_span.event_id = first_cut.event_id
