-- The function of the user around each op, annotation and call, as python stacks tell.
--
-- :param rank BIGINT = NULL            only this rank
-- :param step BIGINT = NULL            only this step
-- :reads code_frame, event, label, nesting
-- :column rank BIGINT                  process rank
-- :column event_id BIGINT              the event
-- :column source VARCHAR               file and line where the innermost function of the user around it begins
-- :column function VARCHAR             the name of that function
with inside as (
    select
        event.rank,
        event.event_id,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        nesting.depth
    from event
    inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
    inner join label on event.rank = label.rank and event.event_id = label.event_id
    where
        event.category in ('cpu_op', 'user_annotation', 'cuda_runtime', 'cuda_driver')
        and is_asked($rank, event.rank)
        and is_asked($step, label.step)
)

select
    inside.rank,
    inside.event_id,
    arg_max(code_frame.source, code_frame.depth) as source,
    arg_max(code_frame.function, code_frame.depth) as function
from inside
inner join code_frame
    on
        inside.rank = code_frame.rank
        and inside.track_id = code_frame.track_id
        and code_frame.start_ns <= inside.start_ns
        and code_frame.end_ns >= inside.end_ns
        and code_frame.depth < inside.depth
group by inside.rank, inside.event_id
order by inside.rank, inside.event_id
