-- Every call of a python function of the user or of a library, from the trace's stacks.
--
-- :reads cpu_event, python_function
-- :column rank RANK
-- :column event_id BIGINT   the python frame
-- :column track_id BIGINT   the thread
-- :column depth BIGINT      number of events around the frame
-- :column start_ns BIGINT   start
-- :column end_ns BIGINT     end
-- :column source VARCHAR    file and first line of the function
-- :column function VARCHAR  name of the function
-- :column is_user BOOLEAN   the function is the user's, as in `python_function`
select
    cpu_event.rank,
    cpu_event.event_id,
    cpu_event.track_id,
    cpu_event.depth,
    cpu_event.start_ns,
    cpu_event.end_ns,
    python_function.file || ':' || python_function.line as source,
    python_function.function,
    python_function.is_user
from python_function
inner join cpu_event
    on
        python_function.rank = cpu_event.rank
        and python_function.name = cpu_event.name
        and cpu_event.category = 'python_function'
where python_function.origin in ('user', 'library') and python_function.line is not null
