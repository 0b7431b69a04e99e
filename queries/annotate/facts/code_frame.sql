-- Every call of a python function of the user or of a library, from the trace's stacks.
--
-- :reads event, nesting, python_function
-- :only_with python_function
-- :column event_id BIGINT   the python frame
-- :column track_id BIGINT   the thread
-- :column depth BIGINT      number of events around the frame
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end
-- :column source VARCHAR    file and first line of the function
-- :column function VARCHAR  name of the function
-- :column is_user BOOLEAN   the function is the user's, as in `python_function`
select
    event.event_id,
    event.track_id,
    nesting.depth::bigint as depth,
    nesting.start_ns,
    nesting.end_ns,
    python_function.file || ':' || python_function.line as source,
    python_function.function,
    python_function.is_user
from python_function
inner join event on python_function.name = event.name and event.category = 'python_function'
inner join nesting on event.event_id = nesting.event_id
where python_function.origin in ('user', 'library') and python_function.line is not null
order by event.event_id
