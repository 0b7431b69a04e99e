-- Every run of one of the user's own python functions: where it is written, on which thread and when.
--
-- :reads event, nesting, python_function
select
    nesting.rank,
    nesting.event_id,
    nesting.track_id,
    nesting.depth,
    nesting.start_ns,
    nesting.end_ns,
    python_function.file || ':' || python_function.line as source,
    python_function.function
from python_function
inner join event
    on
        python_function.rank = event.rank
        and python_function.name = event.name
        and event.category = 'python_function'
inner join nesting on event.rank = nesting.rank and event.event_id = nesting.event_id
where python_function.is_user and python_function.line is not null
