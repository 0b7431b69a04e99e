-- Python frames.
with parsed_event as (
    select
        event_id,
        from_json(
            args,
            '{"Python id":"BIGINT","Python parent id":"BIGINT","Python module id":"BIGINT","Ev Idx":"BIGINT"}'
        ) as a,
        contains(args, '"Python parent id":null')::integer as without_parent
    from batch
    where category = 'python_function' and args is not null
)

select
    event_id,
    a."Python id" as python_id,
    a."Python parent id" as python_parent_id,
    a."Python module id" as python_module_id,
    a."Ev Idx" as profiler_index,
    without_parent
    + (a."Python id" is not null)::integer + (a."Python parent id" is not null)::integer
    + (a."Python module id" is not null)::integer + (a."Ev Idx" is not null)::integer as claimed
from parsed_event
