-- User code that holds up each step: a function or a named region outside of the model and the optimizer.
--
-- Condition: time on a training thread, outside of data loading, in one of two cases. A user function (`with_stack`)
-- runs python for a millisecond without interruption, which is longer than python between the ops of a model. Or a user
-- function or region runs outside of the training phases; without phases, its ops are the program's own computing, and
-- only python counts. A call counts if its own time is at least a hundredth of the step. The function or region with
-- most time has at least a twentieth of the step: our choice, because less does not change a report. Bound: the code
-- takes no time. Source: PyTorch performance tuning guide: the CPU should run ahead of the GPU. Work not needed by a
-- step belongs in another process, or in every n-th step.
--
-- :reads host_activity, user_frame, user_region, step
-- :only_with user_frame or user_region
-- :finding stretches in which the user's own code runs, in {name}
-- :remedy Make this code faster, do it every some steps, or move it to another process or thread.
with user_span as ( -- noqa: ST03
    -- One row per user function or region in the step, without PyTorch's marks.
    select
        user_frame.event_id,
        user_frame.track_id,
        user_frame.depth,
        user_frame.start_ns,
        user_frame.end_ns,
        true as is_function,
        user_frame.function || ' (' || user_frame.source || ')' as name
    from user_frame
    inner join step on user_frame.rank = step.rank
    where
        step.rank = $rank and step.step = $step
        and user_frame.start_ns < step.end_ns and user_frame.end_ns > step.start_ns
        and user_frame.end_ns > user_frame.start_ns
    union all
    select
        user_region.event_id,
        user_region.track_id,
        user_region.depth,
        user_region.start_ns,
        user_region.end_ns,
        false as is_function,
        'the region "' || user_region.name || '"' as name
    from user_region
    inner join step on user_region.rank = step.rank
    where
        step.rank = $rank and step.step = $step
        and user_region.start_ns < step.end_ns and user_region.end_ns > step.start_ns
),

nested_span as ( -- noqa: ST03
    select * from nested('user_span', track_id, depth)
),

-- Time of each thread, cut where the innermost function or region changes.
own_piece as (
    select
        lane as track_id,
        start_ns,
        event_id
    from innermost('nested_span', track_id, depth, around_id)
),

-- One row per time at which the innermost function or region, or the thread's activity, changes.
border as (
    select
        track_id,
        start_ns
    from own_piece
    union
    select
        track_id,
        start_ns
    from host_activity
    where rank = $rank
),

piece as (
    select
        track_id,
        start_ns,
        lead(start_ns) over (partition by track_id order by start_ns) as end_ns
    from border
),

-- One row per piece of user code that holds up the step.
own_time as (
    select
        user_span.event_id,
        user_span.name,
        piece.track_id,
        piece.start_ns,
        least(piece.end_ns, activity.end_ns) as end_ns,
        sum(least(piece.end_ns, activity.end_ns) - piece.start_ns) over (partition by user_span.event_id) as call_ns
    from piece
    asof inner join own_piece on piece.track_id = own_piece.track_id and piece.start_ns >= own_piece.start_ns
    inner join user_span on own_piece.event_id = user_span.event_id
    asof inner join (select * from host_activity where rank = $rank) as activity
        on piece.track_id = activity.track_id and piece.start_ns >= activity.start_ns
    cross join (
        select bool_or(phase != 'other') as has_phases from host_activity where rank = $rank and step = $step
    ) as step_phase
    where
        activity.step = $step
        and activity.phase != 'load_data'
        and ((activity.phase = 'other' and (activity.kind in ('python', 'nothing') or step_phase.has_phases)) or (
            user_span.is_function
            and activity.kind in ('python', 'nothing')
            and least(piece.end_ns, activity.end_ns) - piece.start_ns >= long_python_ns()
        ))
        and least(piece.end_ns, activity.end_ns) > piece.start_ns
),

long_time as (
    select *
    from own_time
    where 100 * call_ns >= (select end_ns - start_ns from step where rank = $rank and step = $step)
),

longest_code as (
    select name
    from long_time
    group by name
    having 20 * sum(end_ns - start_ns) >= (select end_ns - start_ns from step where rank = $rank and step = $step)
    order by sum(end_ns - start_ns) desc, name
    limit 1
)

select
    long_time.event_id,
    'host' as effect,
    long_time.track_id,
    long_time.start_ns,
    long_time.end_ns,
    long_time.end_ns - long_time.start_ns as saved_ns,
    long_time.name
from long_time
inner join longest_code on long_time.name = longest_code.name
order by long_time.event_id, long_time.start_ns
