-- Step marks crossed by another annotation, with the latest end at which no annotation crosses.
--
-- `prof.step()` may be called inside an annotation of the program, as in Lightning, whose profiler calls it in the
-- optimizer's closure. The annotation then starts in one step and ends in the next. The annotation describes the work;
-- therefore the step mark is cut. In the tree, the mark ends where the annotation starts. Differences up to the
-- rounding to microseconds do not count as crossing.
--
-- :writes crossing
-- :reads cpu_span, event
-- :column event_id BIGINT  the step mark
-- :column end_ns BIGINT    start of the first annotation that starts in the step and ends over 1 µs after the step
with annotation as (
    -- Annotations, and whether each is a step mark.
    select
        cpu_span.event_id,
        cpu_span.track_id,
        cpu_span.start_ns,
        cpu_span.end_ns,
        is_step_mark(event.name) as is_step
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
