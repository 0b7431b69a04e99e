-- Marks of steps that another annotation crosses, each with the end at which none does.
--
-- `prof.step()` may be called inside an annotation of the program, as in Lightning, whose profiler calls it in the
-- closure of the optimizer. The annotation then starts in one step and ends in the next. It says what ran, so it is the
-- mark that is cut: in the tree, it ends where the annotation starts. Borders that are rounded to microseconds cross
-- nothing.
--
-- :writes crossing
-- :reads cpu_span, event
-- :column event_id BIGINT  the mark of the step
-- :column end_ns BIGINT    start of the first annotation that starts in the step and ends over 1 µs after it
with annotation as (
    -- Annotations, and whether each is a mark of a step.
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
