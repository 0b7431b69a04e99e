-- What python does where no op runs: calls of functions with no op, annotation, module or call of the runtime in them.
--
-- The call that runs backward is no such one: it waits for the threads of autograd, which run ops.
--
-- Calls of one function that follow each other in one caller are one row. What is shorter than `least_ns` is left out,
-- and so is a call that one call in it takes `dominant_pct` of: that one says more.
--
-- :param rank BIGINT = NULL               only this rank
-- :param step BIGINT = NULL               only this step
-- :param least_ns BIGINT >= 0 = 0         only what takes so long
-- :param dominant_pct DOUBLE >= 0 = 75    share of a call from which on a single one in it stands for it
-- :reads event, label, name_info, nesting, python_call
-- :column rank BIGINT                     process rank
-- :column step BIGINT                     the step; NULL for what lies outside every step
-- :column phase VARCHAR                   phase of the first call
-- :column track_id BIGINT                 the thread
-- :column start_ns BIGINT                 start of the first call
-- :column end_ns BIGINT                   end of the last
-- :column time_ns BIGINT                  time of the calls
-- :column call_count BIGINT               calls
-- :column name VARCHAR                    name of their events
-- :column short_name VARCHAR              name for people
-- :column event_id BIGINT                 the first call
-- :column around_id BIGINT                `event_id` of the row around it; NULL for the outermost
with entry as (
    select
        nesting.rank,
        label.step,
        label.phase,
        nesting.track_id,
        nesting.start_ns,
        nesting.end_ns,
        nesting.event_id,
        nesting.parent_id,
        event.category,
        event.name,
        event.category = 'python_function'
        and python_call.python_module_id is null
        and not contains(event.name, 'run_backward') as is_python
    from nesting
    inner join event on nesting.rank = event.rank and nesting.event_id = event.event_id
    inner join label on nesting.rank = label.rank and nesting.event_id = label.event_id
    left join python_call on nesting.rank = python_call.rank and nesting.event_id = python_call.event_id
    where is_asked($rank, nesting.rank) and is_asked($step, label.step)
),

other as (
    select
        rank,
        track_id,
        start_ns as other_ns
    from entry
    where not is_python
),

-- A short call can be part of a long row, so that nothing is left out here.
alone as (
    select entry.*
    from entry
    asof left join other
        on entry.rank = other.rank and entry.track_id = other.track_id and entry.start_ns <= other.other_ns
    where entry.is_python and (other.other_ns is null or other.other_ns >= entry.end_ns)
),

numbered as (
    select
        *,
        row_number() over (partition by rank, track_id, parent_id order by start_ns, event_id)
        - row_number() over (partition by rank, track_id, parent_id, name order by start_ns, event_id) as run_id
    from alone
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
    from numbered
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

-- Parts of calls that are one row with others are left out.
part as (
    select
        run.*,
        coalesce(100.0 * largest_part.part_ns >= $dominant_pct * run.time_ns, false)
        and run.call_count = 1 as is_replaced
    from run
    left join largest_part on run.rank = largest_part.rank and run.event_id = largest_part.parent_id
    left join alone as caller on run.rank = caller.rank and run.parent_id = caller.event_id
    left join run as single on run.rank = single.rank and run.parent_id = single.event_id and single.call_count = 1
    where caller.event_id is null or single.event_id is not null
),

kept as (
    select * from part
    where not is_replaced
)

select
    kept.rank,
    kept.step,
    kept.phase,
    kept.track_id,
    kept.start_ns,
    kept.end_ns,
    kept.time_ns,
    kept.call_count,
    kept.name,
    coalesce(name_info.short_name, kept.name) as short_name,
    kept.event_id,
    arg_max(around.event_id, around.start_ns) as around_id
from kept
left join name_info
    on (kept.rank, kept.category, kept.name) = (name_info.rank, name_info.category, name_info.name)
left join kept as around
    on
        kept.rank = around.rank
        and kept.track_id = around.track_id
        and kept.event_id != around.event_id
        and around.call_count = 1
        and kept.start_ns >= around.start_ns
        and kept.end_ns <= around.end_ns
        and kept.time_ns < around.time_ns
group by all
order by kept.rank, kept.start_ns, kept.event_id
