-- Python time without ops: calls of functions without any op, annotation, module or runtime call inside.
--
-- The call that runs backward is excluded: it waits for the threads of autograd, which run ops.
--
-- Consecutive calls of one function in one caller share a row. Two kinds of calls are left out: calls shorter than
-- `least_ns`, and calls in which a single inner call takes `dominant_pct` of the time, since the inner call is more
-- specific.
--
-- :param rank BIGINT = NULL               only this rank
-- :param step BIGINT = NULL               only this step
-- :param least_ns BIGINT >= 0 = 0         minimum time of a row
-- :param dominant_pct DOUBLE >= 0 = 75    share of a call from which a single inner call replaces it
-- :reads cpu_event, name_info, python_call
-- :column rank RANK
-- :column step STEP                       NULL outside every step
-- :column phase PHASE                     of the first call
-- :column track_id BIGINT                 the thread
-- :column start_ns BIGINT                 start of the first call
-- :column end_ns BIGINT                   end of the last call
-- :column time_ns BIGINT                  total time of the calls
-- :column call_count BIGINT               number of calls
-- :column name VARCHAR                    name of the events
-- :column short_name VARCHAR              name for people
-- :column event_id BIGINT                 the first call
-- :column around_id BIGINT                `event_id` of the outer row; NULL for the outermost row
with entry as (
    select
        cpu_event.rank,
        cpu_event.step,
        cpu_event.phase,
        cpu_event.track_id,
        cpu_event.start_ns,
        cpu_event.end_ns,
        cpu_event.event_id,
        cpu_event.parent_id,
        cpu_event.category,
        cpu_event.name,
        cpu_event.category = 'python_function'
        and python_call.python_module_id is null
        and not contains(cpu_event.name, 'run_backward') as is_python
    from cpu_event
    left join python_call on cpu_event.rank = python_call.rank and cpu_event.event_id = python_call.event_id
    where is_asked($rank, cpu_event.rank) and is_asked($step, cpu_event.step)
),

other_event as (
    select
        rank,
        track_id,
        start_ns as other_ns
    from entry
    where not is_python
),

-- Keep short calls here, since they can be part of a long row.
lone_call as (
    select entry.*
    from entry
    asof left join other_event
        on
            entry.rank = other_event.rank
            and entry.track_id = other_event.track_id
            and entry.start_ns <= other_event.other_ns
    where entry.is_python and (other_event.other_ns is null or other_event.other_ns >= entry.end_ns)
),

numbered_call as (
    select
        *,
        row_number() over (partition by rank, track_id, parent_id order by start_ns, event_id)
        - row_number() over (partition by rank, track_id, parent_id, name order by start_ns, event_id) as run_id
    from lone_call
),

run as (
    select
        rank,
        track_id,
        parent_id,
        category,
        name,
        arg_min(step, start_ns) as step,
        arg_min(phase, start_ns) as phase,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns,
        sum(end_ns - start_ns)::bigint as time_ns,
        count(*) as call_count,
        arg_min(event_id, start_ns) as event_id
    from numbered_call
    group by rank, track_id, parent_id, category, name, run_id
    having sum(end_ns - start_ns) >= $least_ns
),

largest_part as (
    select
        rank,
        parent_id,
        max(time_ns) as part_ns
    from run
    group by rank, parent_id
),

-- Leave out inner calls of calls that share a row.
part as (
    select
        run.*,
        coalesce(100.0 * largest_part.part_ns >= $dominant_pct * run.time_ns, false)
        and run.call_count = 1 as is_replaced
    from run
    left join largest_part on run.rank = largest_part.rank and run.event_id = largest_part.parent_id
    left join lone_call as caller on run.rank = caller.rank and run.parent_id = caller.event_id
    left join run as single on run.rank = single.rank and run.parent_id = single.event_id and single.call_count = 1
    where caller.event_id is null or single.event_id is not null
),

kept_run as (
    select * from part
    where not is_replaced
)

select
    kept_run.rank,
    kept_run.step,
    kept_run.phase,
    kept_run.track_id,
    kept_run.start_ns,
    kept_run.end_ns,
    kept_run.time_ns,
    kept_run.call_count,
    kept_run.name,
    coalesce(name_info.short_name, kept_run.name) as short_name,
    kept_run.event_id,
    arg_max(around.event_id, around.start_ns) as around_id
from kept_run
left join name_info
    on (kept_run.rank, kept_run.category, kept_run.name) = (name_info.rank, name_info.category, name_info.name)
left join kept_run as around
    on
        kept_run.rank = around.rank
        and kept_run.track_id = around.track_id
        and kept_run.event_id != around.event_id
        and around.call_count = 1
        and kept_run.start_ns >= around.start_ns
        and kept_run.end_ns <= around.end_ns
        and kept_run.time_ns < around.time_ns
group by all
order by kept_run.rank, kept_run.start_ns, kept_run.event_id
