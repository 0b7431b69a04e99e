-- Marks of steps that other annotations cross, with the time in which none does.
--
-- Where `prof.step()` is called inside of what the program names, as Lightning's profiler does in the closure of the
-- optimizer, an annotation starts in one step and ends in another. The annotation says what ran; so it is the mark that
-- ends in the tree where the annotation starts. Borders that are rounded to microseconds cross nothing.
--
-- :writes crossing
-- :reads cpu_span, event
-- :column event_id BIGINT  TODO
-- :column end_ns BIGINT    TODO
with annotation as (
    select
        cpu_span.event_id,
        cpu_span.track_id,
        cpu_span.start_ns,
        cpu_span.end_ns,
        starts_with(event.name, 'ProfilerStep#') as is_step
    from cpu_span
    inner join event on cpu_span.event_id = event.event_id
    where cpu_span.category = 'user_annotation'
),

step as (
    select * from annotation
    where is_step
)

select
    step.event_id,
    min(annotation.start_ns) as end_ns
from annotation
asof inner join step on annotation.track_id = step.track_id and annotation.start_ns > step.start_ns
where not annotation.is_step and annotation.start_ns < step.end_ns and annotation.end_ns > step.end_ns + rounding_ns()
group by step.event_id
