-- The user function around each op, annotation and call, from python stacks.
--
-- :param rank BIGINT = NULL            only this rank
-- :param step BIGINT = NULL            only this step
-- :reads cpu_event, code_frame
-- :column rank RANK
-- :column event_id BIGINT              the event
-- :column source VARCHAR               file and first line of the innermost user function around the event
-- :column function VARCHAR             name of this function
with asked_event as (
    select
        rank,
        event_id,
        track_id,
        start_ns,
        end_ns,
        depth
    from cpu_event
    where
        category in ('cpu_op', 'user_annotation', 'cuda_runtime', 'cuda_driver')
        and is_asked($rank, rank)
        and is_asked($step, step)
)

select
    asked_event.rank,
    asked_event.event_id,
    arg_max(code_frame.source, code_frame.depth) as source,
    arg_max(code_frame.function, code_frame.depth) as function
from asked_event
inner join code_frame
    on
        asked_event.rank = code_frame.rank
        and asked_event.track_id = code_frame.track_id
        and code_frame.start_ns <= asked_event.start_ns
        and code_frame.end_ns >= asked_event.end_ns
        and code_frame.depth < asked_event.depth
group by asked_event.rank, asked_event.event_id
order by asked_event.rank, asked_event.event_id
